//! `[minhash]`: how a set of shingles becomes a signature.

use serde::{Deserialize, Serialize};

use super::recipes::coefficients::Coefficients;
use super::recipes::prime::next_prime;
use crate::error::{Error, Result};
use crate::kernel::signature::Bits;

/// `[minhash]`: how a set of shingles becomes a signature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Minhash {
    /// Permutations, which is the signature's length; at least 1.
    pub permutations: usize,
    /// The seed of the permutations.
    pub seed: u64,
    /// The family of the permutations.
    pub family: Family,
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
        let shingles = match self.family {
            Family::MultiplyShift | Family::OnePermutation => return Ok(None),
            Family::Linear(Modulus::Is(modulus)) => return Ok(Some((modulus, modulus - 1))),
            Family::Linear(Modulus::NextPrime) => dictionary.unwrap_or(0),
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
}

/// The family of the permutations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// `(a * x + b) mod 2^32`, a odd: see [`crate::udf::expr_fn::minhash`].
    MultiplyShift,
    /// `(a * x + b) mod c`: see [`crate::udf::expr_fn::minhash`].
    Linear(Modulus),
    /// One hash of each shingle for all permutations, which become bins: see [`crate::udf::expr_fn::one_permutation`].
    OnePermutation,
}

/// The c of `(a * x + b) mod c`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Modulus {
    /// This number, in [2, 2^32); a and b are drawn from 1 to c - 1.
    Is(u64),
    /// The first prime above the number N of distinct shingles of the collection; a and b are drawn from 1 to N.
    NextPrime,
}
