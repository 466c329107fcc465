//! Given coefficients for the linear family: the `a` and `b` of each permutation, from a file.

use super::super::setting_file;
use crate::error::{Error, Result};

/// The a and the b of a permutation, each under 2^32.
pub type Coefficients = (u64, u64);

/// The most bytes of a file: for the most permutations of a job, two numbers of ten digits each, and some spare room.
const MAX_BYTES: u64 = 2 << 20;

/// The coefficients in a CSV file of this machine: a line `a,b` for each permutation, in their order, as numbers from 0
/// to 2^32 - 1. The first line may be the header `a,b`; empty lines are ignored.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job): the text after the key's name.
pub(in crate::job) fn read(path: &str) -> Result<Vec<Coefficients>> {
    let expected = "expected a line `a,b` for each permutation";
    let text = setting_file::read(path, "which", MAX_BYTES, expected)?;
    let wrong = |fault: &str| Error::job(format!("names {path:?}, which {fault}"));
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines().map(str::trim)) {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        if line.is_empty() || (number == 1 && fields == ["a", "b"]) {
            continue;
        }
        let value = |field: &str| field.parse::<u32>().ok().map(u64::from);
        match fields.as_slice() {
            [a, b] if let (Some(a), Some(b)) = (value(a), value(b)) => found.push((a, b)),
            _ => {
                return Err(wrong(&format!(
                    "has {line:?} in line {number}: expected `a,b`, two whole numbers from 0 to 4294967295"
                )));
            }
        }
    }
    Ok(found)
}

/// The fault of coefficients for a number of permutations: the text after the key's name.
///
/// An `a` equal to the modulus gives every shingle the same value, but is accepted, since other programs draw from 1 up
/// to and including it.
pub(in crate::job) fn fault(of: &[Coefficients], permutations: usize) -> Option<String> {
    if of.len() != permutations {
        return Some(format!(
            "gives {} pairs of a and b: expected {permutations}, as `minhash.permutations` says",
            of.len()
        ));
    }
    let at = of.iter().position(|&(a, _)| a == 0)?;
    Some(format!("gives 0 as the a of permutation {}, which gives every shingle the same value", at + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> std::result::Result<Vec<Coefficients>, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        read(&file.path().to_string_lossy()).map_err(|e| e.to_string())
    }

    #[test]
    fn a_line_is_a_permutation() {
        assert_eq!(read_text("a,b\n1,2\r\n\n 3 , 4294967295\n").unwrap(), [(1, 2), (3, u64::from(u32::MAX))]);
        assert_eq!(read_text("1,2").unwrap(), [(1, 2)]);
        for (text, fault) in [
            ("1,2\n3\n", "\"3\" in line 2"),
            ("1,2,3\n", "line 1"),
            ("1,4294967296\n", "from 0 to 4294967295"),
            ("1,-2\n", "two whole numbers"),
            ("1,2\na,b\n", "line 2"),
        ] {
            let error = read_text(text).unwrap_err();
            assert!(error.contains(fault), "{text:?}: {error}");
        }
        assert!(read("no/such/file.csv").unwrap_err().to_string().contains("no/such/file.csv"));
    }

    #[test]
    fn every_permutation_has_its_pair_and_a_is_not_0() {
        assert_eq!(fault(&[(1, 0), (7, 7)], 2), None);
        assert!(fault(&[(1, 0)], 2).unwrap().contains("minhash.permutations"));
        assert!(fault(&[(1, 0), (0, 0)], 2).unwrap().contains("permutation 2"));
    }
}
