//! `[minhash]`: the settings for computing a signature from a set of shingles.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::lsh::Lsh;
use super::values::{Checked, Scalar, number_or_text, read_setting, require, scalar, wrong};
use crate::error::{Error, Result};
use crate::kernel::minhash::MAX_PERMUTATIONS;
use crate::kernel::shingle::ShingleHash;
use crate::kernel::signature::Bits;

/// `[minhash]`: the settings for computing a signature from a set of shingles.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MinhashSection {
    /// The number of permutations, which equals the length of a signature.
    pub permutations: usize,
    /// The seed of the permutations.
    pub seed: u64,
    /// The family of the permutations: `multiply-shift`, `linear` or `one-permutation`.
    pub family: Family,
    /// `linear`: the modulus of `a * x + b`: `"2^31-1"`, `"2^32-1"`, `"next-prime"` (the first prime above the number of distinct
    /// shingles, for the hash `dictionary`), or a prime under 2^32. Default: `"2^31-1"`.
    #[schemars(schema_with = "number_or_text")]
    pub modulus: Option<Modulus>,
    /// `linear`: a local CSV file with a line `a,b` for each permutation, which reproduces the signatures of another program. It is read
    /// together with the job. Default: the numbers are drawn from `seed`.
    pub coefficients: Option<String>,
    /// The number of bits per value of a signature, 16 or 32. Default: 16. For the family `linear`, with `lsh.bucket_hash` or
    /// `lsh.table_size`, and for fewer than 3 rows per band, the default is 32.
    #[schemars(with = "Option<u32>")]
    pub bits: Option<Bits>,
}

impl Default for MinhashSection {
    fn default() -> Self {
        Self {
            permutations: 128,
            seed: 42,
            family: Family::MultiplyShift,
            modulus: None,
            coefficients: None,
            bits: None,
        }
    }
}

impl MinhashSection {
    /// Resolves the section. If the section sets no number of bits, values have 32 bits until [`Minhash::least_bits`] decides.
    pub(super) fn resolved(self, hash: ShingleHash) -> Checked<Minhash> {
        let Self { permutations, seed, family, modulus, coefficients, bits } = self;
        let is_linear = family == Family::Linear;
        let coefficients = coefficients.map(|path| read_coefficients(&path)).transpose();
        let coefficients = coefficients.or_else(|e| wrong("minhash.coefficients", e.one_line()))?;
        let minhash = Minhash {
            permutations,
            seed,
            family,
            modulus: modulus.or(is_linear.then_some(Modulus::Is(MERSENNE_31))),
            coefficients,
            bits: bits.unwrap_or(Bits::Of32),
        };
        minhash.check(hash)?;
        Ok(minhash)
    }
}

/// `[minhash]`: the settings for computing a signature from a set of shingles.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Minhash {
    /// The number of permutations, which equals the length of a signature; at least 1.
    pub permutations: usize,
    /// The seed of the permutations.
    pub seed: u64,
    /// The family of the permutations.
    pub family: Family,
    /// The modulus c of `(a * x + b) mod c` in the linear family, or `None` for other families.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modulus: Option<Modulus>,
    /// The a and b of each permutation in the linear family, or `None` if a and b are drawn from the seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coefficients: Option<Vec<Coefficients>>,
    /// The number of bits per value.
    pub bits: Bits,
}

impl Minhash {
    /// Returns the total size of the values in a signature, in bytes.
    pub(crate) fn signature_bytes(&self) -> u64 {
        let bytes = match self.bits {
            Bits::Of16 => 2,
            Bits::Of32 => 4,
        };
        bytes * self.permutations as u64
    }

    /// Returns the modulus of the linear family and the largest number that is drawn for a and b. The collection has `dictionary` distinct
    /// shingles. Returns `None` for other families.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) if the modulus depends on the dictionary and the dictionary has an unsuitable size. The
    /// dictionary must have at least as many entries as there are permutations, and so few that the next prime is under 2^32.
    pub fn linear(&self, dictionary: Option<u64>) -> Result<Option<(u64, u64)>> {
        let shingles = match self.modulus {
            None => return Ok(None),
            Some(Modulus::Is(modulus)) => return Ok(Some((modulus, modulus - 1))),
            Some(Modulus::NextPrime) => dictionary.unwrap_or(0),
        };
        // The bound is checked first, because the search for a prime above a huge number would take too long.
        let modulus = if shingles < 1 << 32 { next_prime(shingles) } else { shingles };
        if shingles < self.permutations as u64 || modulus >= 1 << 32 {
            return Err(Error::job(format!(
                "`minhash.modulus` is \"next-prime\" and the collection has {shingles} distinct shingles: expected at \
                 least {}, as `minhash.permutations` says, and fewer than 2^32; \"2^31-1\" suits collections of any \
                 size",
                self.permutations
            )));
        }
        Ok(Some((modulus, shingles)))
    }

    /// Returns the minimum number of bits per value for the family and the bands. `bands` is `None` if the job uses no bands.
    pub(super) fn least_bits(&self, bands: Option<&Lsh>) -> Bits {
        let needs_all = self.family == Family::Linear || bands.is_some_and(Lsh::needs_32_bits);
        if needs_all { Bits::Of32 } else { Bits::Of16 }
    }

    pub(super) fn check(&self, hash: ShingleHash) -> Checked<()> {
        const MODULUS: &str = "minhash.modulus";
        const COEFFICIENTS: &str = "minhash.coefficients";
        let Self { permutations, family, modulus, ref coefficients, bits, .. } = *self;
        let fault = format!("is {permutations}: expected 1 to {MAX_PERMUTATIONS}");
        require((1..=MAX_PERMUTATIONS).contains(&permutations), "minhash.permutations", fault)?;
        if family != Family::Linear {
            let only = |thing| {
                format!("is set without `minhash.family = \"linear\"`, the only family that has {thing}")
            };
            require(modulus.is_none(), MODULUS, only("one"))?;
            return require(coefficients.is_none(), COEFFICIENTS, only("them"));
        }
        require(
            bits == Bits::Of32,
            "minhash.bits",
            "is 16 with minhash.family = \"linear\", whose values are those of other programs: expected 32",
        )?;
        match modulus {
            None => wrong(MODULUS, "is missing"),
            Some(Modulus::NextPrime) => require(
                hash == ShingleHash::Dictionary,
                MODULUS,
                "is \"next-prime\", the first prime above the number of distinct shingles: set `shingle.hash = \
                 \"dictionary\"`, which numbers the shingles",
            ),
            Some(Modulus::Is(modulus)) => {
                let fault = format!("is {modulus}, which is not a prime: {MODULI}");
                require(modulus == ONES_32 || is_prime(modulus), MODULUS, fault)?;
                let fault = format!("is {modulus}, which is too large for a modulus: {MODULI}");
                require(modulus < 1 << 32, MODULUS, fault)?;
                let fault = format!(
                    "is {modulus}: expected more than {permutations}, the number of `minhash.permutations`, since the \
                     factors of the permutations are drawn below the modulus"
                );
                require((permutations as u64) < modulus, MODULUS, fault)
            }
        }?;
        let fault = coefficients.as_deref().and_then(|given| coefficients_fault(given, permutations));
        fault.map_or(Ok(()), |fault| wrong(COEFFICIENTS, fault))
    }
}

/// The family of the permutations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// `(a * x + b) mod 2^32`, a odd: see [`crate::udf::expr_fn::minhash`].
    MultiplyShift,
    /// `(a * x + b) mod c`: see [`crate::udf::expr_fn::minhash`].
    Linear,
    /// One hash per shingle instead of one hash per permutation. The permutations act as bins: see
    /// [`crate::udf::expr_fn::one_permutation`].
    OnePermutation,
}

/// The modulus c of `(a * x + b) mod c`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Modulus {
    /// This number, in [2, 2^32). The values a and b are drawn from 1 to c - 1.
    Is(u64),
    /// The first prime above the number N of distinct shingles in the collection. The values a and b are drawn from 1 to N.
    NextPrime,
}

const MERSENNE_31: u64 = (1 << 31) - 1;
const ONES_32: u64 = (1 << 32) - 1;
const MODULI: &str = "expected \"2^31-1\", \"2^32-1\", \"next-prime\", or a prime under 2^32";

const NAMED_MODULI: [(&str, Modulus); 3] = [
    ("2^31-1", Modulus::Is(MERSENNE_31)),
    ("2^32-1", Modulus::Is(ONES_32)),
    ("next-prime", Modulus::NextPrime),
];

impl Serialize for Modulus {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match (NAMED_MODULI.iter().find(|(_, modulus)| modulus == self), self) {
            (None, Modulus::Is(number)) => serializer.serialize_u64(*number),
            (named, _) => serializer.serialize_str(named.map_or("", |(name, _)| name)),
        }
    }
}

impl<'de> Deserialize<'de> for Modulus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let Scalar { text, is_number } =
            scalar(deserializer, "\"2^31-1\", \"2^32-1\", \"next-prime\", or a prime under 2^32")?;
        if is_number {
            let number = text.parse().ok().filter(|number| *number != ONES_32);
            let fault = || de::Error::custom(format!("is {text}, which is not a prime: {MODULI}"));
            return number.map(Modulus::Is).ok_or_else(fault);
        }
        let named = NAMED_MODULI.iter().find(|(name, _)| *name == text);
        named.map(|(_, modulus)| *modulus).ok_or_else(|| de::Error::custom(format!("is {text:?}: {MODULI}")))
    }
}

/// The a and b of a permutation, each under 2^32.
pub type Coefficients = (u64, u64);

/// The maximum size of a file with coefficients, in bytes. Two numbers of ten digits for each of [`MAX_PERMUTATIONS`] permutations take
/// less.
const MAX_BYTES: u64 = 2 << 20;

/// Reads coefficients from a local CSV file: one line `a,b` for each permutation, in order, with numbers from 0 to 2^32 - 1. The first
/// line may be the header `a,b`. Empty lines are ignored. Fails with `Kind::Job` if the file cannot be read or has another form.
fn read_coefficients(path: &str) -> Result<Vec<Coefficients>> {
    let expected = "expected a line `a,b` for each permutation";
    let text = read_setting(path, "which", MAX_BYTES, expected)?;
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

/// Returns what is wrong with `coefficients`, as the text that follows the key in a message. An `a` equal to the modulus maps every
/// shingle to the same value, but is accepted, because other programs draw it.
fn coefficients_fault(coefficients: &[Coefficients], permutations: usize) -> Option<String> {
    if coefficients.len() != permutations {
        return Some(format!(
            "gives {} pairs of a and b: expected {permutations}, as `minhash.permutations` says",
            coefficients.len()
        ));
    }
    let at = coefficients.iter().position(|&(a, _)| a == 0)?;
    Some(format!("gives 0 as the a of permutation {}, which gives every shingle the same value", at + 1))
}

/// Returns whether `n` is prime. Trial division takes at most 2^16 steps for `n` under 2^32.
pub fn is_prime(n: u64) -> bool {
    n >= 2 && (2..).take_while(|d| d * d <= n).all(|d| !n.is_multiple_of(d))
}

fn next_prime(n: u64) -> u64 {
    // There is always a prime between n and 2n (Chebyshev), so the search ends.
    let mut next = n + 1;
    while !is_prime(next) {
        next += 1;
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> std::result::Result<Vec<Coefficients>, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        read_coefficients(&file.path().to_string_lossy()).map_err(|e| e.to_string())
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
        assert!(read_coefficients("no/such/file.csv").unwrap_err().to_string().contains("no/such/file.csv"));
    }

    #[test]
    fn primes_are_those_of_a_sieve() {
        const N: usize = 20_000;
        let mut prime = vec![true; N];
        prime[..2].fill(false);
        for n in 2..N {
            if prime[n] {
                (2 * n..N).step_by(n).for_each(|multiple| prime[multiple] = false);
            }
        }
        for (n, &expected) in (0..).zip(&prime) {
            assert_eq!(is_prime(n), expected, "{n}");
        }
        assert!(is_prime((1 << 31) - 1), "a Mersenne prime");
        assert!(!is_prime((1 << 32) - 1), "3 * 5 * 17 * 257 * 65537");
        assert!(is_prime(4_294_967_291), "the largest under 2^32");
        assert_eq!(next_prime(4_294_967_291), 4_294_967_311);
        assert_eq!([0, 1, 2, 7, 8, 13].map(next_prime), [2, 2, 3, 11, 11, 17]);
    }
}
