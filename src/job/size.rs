//! Amounts of memory as people write them.

use crate::error::{Error, Result};
use crate::machine;

/// Units by their lowercase names: decimal with `B`, binary with `iB` (IEC 80000-13) and without a suffix, as in the
/// options of the JVM.
const UNITS: [(&str, u64); 13] = [
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("b", 1),
    ("k", 1 << 10),
    ("m", 1 << 20),
    ("g", 1 << 30),
    ("t", 1 << 40),
];

/// The bytes of an amount such as `4GiB`, `4G`, `1.5 GB`, `512MiB` or `1048576`, or of a share such as `50%` of the
/// memory of the machine or its container. Upper and lower case are equal.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) for anything else, for 0 bytes, and for 2^64 bytes and more.
pub(crate) fn parse_size(text: &str) -> Result<u64> {
    let wrong = || {
        Error::job(format!(
            "{text:?} is not an amount of memory: expected a number over 0 with B, kB, MB, GB, TB, KiB, MiB, GiB or \
             TiB, as in \"4GiB\", or a share of the machine's memory, as in \"50%\""
        ))
    };
    let lower = text.trim().to_ascii_lowercase();
    if let Some(percent) = lower.strip_suffix('%') {
        let percent = percent.trim_end().parse::<u8>().ok().filter(|percent| (1..=100).contains(percent));
        let all = machine::memory().unwrap_or(machine::UNKNOWN);
        return Ok(all / 100 * u64::from(percent.ok_or_else(wrong)?));
    }
    let (number, unit) = UNITS
        .iter()
        .find_map(|&(name, bytes)| lower.strip_suffix(name).map(|number| (number.trim_end(), bytes)))
        .unwrap_or((lower.as_str(), 1));
    // Digits and a point only: f64's parser also takes "inf", "nan", "1e9" and "-1".
    if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return Err(wrong());
    }
    let bytes = match number.parse::<u64>() {
        Ok(whole) => whole.checked_mul(unit).ok_or_else(wrong)?,
        Err(_) => {
            let bytes = number.parse::<f64>().map_err(|_| wrong())? * unit as f64;
            if bytes >= u64::MAX as f64 {
                return Err(wrong());
            }
            bytes as u64
        }
    };
    if bytes == 0 { Err(wrong()) } else { Ok(bytes) }
}

/// An amount of memory as [`parse_size`] reads it, in the largest unit that makes it a whole number.
pub(super) fn shown(bytes: u64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units.into_iter().find(|(_, bits)| bytes > 0 && bytes.is_multiple_of(1 << bits)) {
        Some((unit, bits)) => format!("{}{unit}", bytes >> bits),
        None => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read() {
        for (text, expected) in [
            ("4GiB", 4 << 30),
            ("4gib", 4 << 30),
            ("512 MiB", 512 << 20),
            ("1.5GB", 1_500_000_000),
            ("10kB", 10_000),
            ("7B", 7),
            ("4G", 4 << 30),
            ("64m", 64 << 20),
            ("1048576", 1 << 20),
            (" 2TiB ", 2 << 40),
        ] {
            assert_eq!(parse_size(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn a_share_is_of_the_machine() {
        let (half, all) = (parse_size("50%").unwrap(), parse_size("100 %").unwrap());
        assert!(half > 0 && half.abs_diff(all / 2) < 100, "{half} of {all}");
    }

    #[test]
    fn everything_else_is_refused() {
        for text in [
            "",
            "GiB",
            "0",
            "0.0GB",
            "-1GB",
            "4 GiBs",
            "1e9",
            "inf",
            "nan",
            "4Gi",
            "0%",
            "101%",
            "half",
            "1.2.3MB",
            "20000000TiB",
            "99999999999.5TiB",
        ] {
            let error = parse_size(text).unwrap_err().to_string();
            assert!(error.contains("GiB"), "{text}: {error}");
        }
    }
}
