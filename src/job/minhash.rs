//! `[minhash]`: how a set of shingles becomes a signature.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::lsh::Lsh;
use super::names::number_or_text;
use super::recipes::coefficients::{self, Coefficients};
use super::recipes::prime::{is_prime, next_prime};
use super::wrong::{Checked, require, wrong};
use crate::error::{Error, Result};
use crate::kernel::minhash::MAX_PERMUTATIONS;
use crate::kernel::shingle::ShingleHash;
use crate::kernel::signature::Bits;

/// `[minhash]`: how a set of shingles becomes a signature.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MinhashSection {
    /// Permutations, which is the signature's length.
    pub permutations: usize,
    /// What the permutations are drawn from.
    pub seed: u64,
    /// How a permutation is computed: `multiply-shift`, `linear` or `one-permutation`.
    pub family: Family,
    /// `linear`: what `a * x + b` is taken modulo: `"2^31-1"`, `"2^32-1"`, `"next-prime"` (the first prime above the
    /// number of distinct shingles, for the hash `dictionary`), or a prime under 2^32. Default: `"2^31-1"`.
    #[schemars(schema_with = "number_or_text")]
    pub modulus: Option<Modulus>,
    /// `linear`: a CSV file of this machine with the a and b of each permutation, a line `a,b` each, instead of those that are
    /// drawn from `seed`, so that signatures are those of another program. It is read when the job is.
    pub coefficients: Option<String>,
    /// The bits that are kept of each value of a signature, 16 or 32. Default: 16; 32 for the family `linear`, with
    /// `lsh.bucket_hash` or `lsh.table_size`, and for fewer than 3 rows in a band.
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
    /// The section with its defaults, and all bits where it does not give their number: see [`Minhash::least_bits`].
    pub(super) fn resolved(self, hash: ShingleHash) -> Checked<Minhash> {
        let Self { permutations, seed, family, modulus, coefficients, bits } = self;
        let is_linear = family == Family::Linear;
        let coefficients = coefficients.map(|path| coefficients::read(&path)).transpose();
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

/// `[minhash]`: how a set of shingles becomes a signature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Minhash {
    /// Permutations, which is the signature's length; at least 1.
    pub permutations: usize,
    /// The seed of the permutations.
    pub seed: u64,
    /// The family of the permutations.
    pub family: Family,
    /// The c of the linear family, `(a * x + b) mod c`; `None` for other families.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modulus: Option<Modulus>,
    /// The a and b of each permutation of the linear family, instead of those that are drawn from the seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coefficients: Option<Vec<Coefficients>>,
    /// The bits that are kept of each value.
    pub bits: Bits,
}

impl Minhash {
    /// Bytes of the values of a signature.
    pub(crate) fn signature_bytes(&self) -> u64 {
        let bytes = match self.bits {
            Bits::Of16 => 2,
            Bits::Of32 => 4,
        };
        bytes * self.permutations as u64
    }

    /// The modulus of the linear family and the number up to which its factors are drawn, for a collection of
    /// `dictionary` distinct shingles; `None` for another family.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) where the modulus depends on the dictionary, and that has fewer entries
    /// than there are permutations, or so many that their next prime is not under 2^32.
    pub fn linear(&self, dictionary: Option<u64>) -> Result<Option<(u64, u64)>> {
        let shingles = match self.modulus {
            None => return Ok(None),
            Some(Modulus::Is(modulus)) => return Ok(Some((modulus, modulus - 1))),
            Some(Modulus::NextPrime) => dictionary.unwrap_or(0),
        };
        // In this order: the search for a prime above numbers that are far too large would not end.
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

    /// The fewest bits that are enough for `bands`, if the job has any.
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
                    "is {modulus}: expected more than {permutations}, the number of `minhash.permutations`, since their \
                     factors are drawn below it"
                );
                require((permutations as u64) < modulus, MODULUS, fault)
            }
        }?;
        let fault = coefficients.as_deref().and_then(|given| coefficients::fault(given, permutations));
        fault.map_or(Ok(()), |fault| wrong(COEFFICIENTS, fault))
    }
}

/// How a permutation is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// `(a * x + b) mod 2^32`, a odd: see [`crate::udf::expr_fn::minhash`].
    MultiplyShift,
    /// `(a * x + b) mod c`: see [`crate::udf::expr_fn::minhash`].
    Linear,
    /// One hash of each shingle for all permutations, which become bins: see [`crate::udf::expr_fn::one_permutation`].
    OnePermutation,
}

/// The c of `(a * x + b) mod c`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Modulus {
    /// This number, in [2, 2^32); a and b are drawn from 1 to c - 1.
    Is(u64),
    /// The first prime above the number N of distinct shingles of the collection; a and b are drawn from 1 to N.
    NextPrime,
}

const MERSENNE_31: u64 = (1 << 31) - 1;
const ONES_32: u64 = (1 << 32) - 1;
const MODULI: &str = "expected \"2^31-1\", \"2^32-1\", \"next-prime\", or a prime under 2^32";

/// The moduli that have names.
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
        deserializer.deserialize_any(ModulusVisitor)
    }
}

/// Names the allowed values in errors, which an untagged enum would not.
struct ModulusVisitor;

impl de::Visitor<'_> for ModulusVisitor {
    type Value = Modulus;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"2^31-1\", \"2^32-1\", \"next-prime\", or a prime under 2^32")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> std::result::Result<Modulus, E> {
        let named = NAMED_MODULI.iter().find(|(known, _)| *known == name);
        named.map(|(_, modulus)| *modulus).ok_or_else(|| E::custom(format!("is {name:?}: {MODULI}")))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> std::result::Result<Modulus, E> {
        Ok(Modulus::Is(number))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> std::result::Result<Modulus, E> {
        let positive = u64::try_from(number).ok().filter(|number| *number != ONES_32);
        positive
            .map(Modulus::Is)
            .ok_or_else(|| E::custom(format!("is {number}, which is not a prime: {MODULI}")))
    }
}
