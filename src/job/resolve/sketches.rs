//! `[shingle]` and `[minhash]`: how a text becomes a signature.

use super::super::recipes::coefficients;
use super::super::{
    Bits, Coefficients, Family, Lsh, Minhash, Modulus, Normalize, Score, ScoreBy, Shingle, ShingleHash,
    Short, file, is_prime,
};
use super::wrong::{Checked, wrong};
use crate::kernel::minhash::MAX_PERMUTATIONS;

/// The most words or characters in a shingle: a text with fewer has no shingle at all.
pub(crate) const MAX_SHINGLE_SIZE: usize = 1_000_000;

pub(super) fn shingle_of(shingle: file::Shingle) -> Checked<Shingle> {
    let mut normalize = Vec::with_capacity(shingle.normalize.len());
    for name in &shingle.normalize {
        match Normalize::read(name) {
            Ok(step) => normalize.push(step),
            Err(e) => return wrong("shingle.normalize", e.one_line()),
        }
    }
    let size = shingle.size.unwrap_or(file::Shingle::size_of(shingle.unit));
    let file::Shingle { unit, words, separator, hash, min_words, short, .. } = shingle;
    let shingle = Shingle { normalize, unit, words, size, separator, hash, min_words, short };
    check_shingle(&shingle)?;
    Ok(shingle)
}

pub(super) fn check_shingle(&Shingle { size, .. }: &Shingle) -> Checked<()> {
    match (1..=MAX_SHINGLE_SIZE).contains(&size) {
        true => Ok(()),
        false => {
            wrong("shingle.size", format!("is {size}: expected 1 or more, and at most {MAX_SHINGLE_SIZE}"))
        }
    }
}

/// Refuses documents without shingles if the rest of the job cannot compare them.
pub(super) fn check_short(shingle: &Shingle, score: &Score) -> Checked<()> {
    const KEY: &str = "shingle.short";
    if shingle.short != Short::Empty {
        return Ok(());
    }
    if score.by != ScoreBy::Signature {
        return wrong(
            KEY,
            "is \"empty\", but documents without shingles can only be compared by their signatures: set score.by = \
             \"signature\"",
        );
    }
    if shingle.min_words > 0 {
        return wrong(
            KEY,
            "is \"empty\", which keeps short documents, but `shingle.min_words` rejects them: remove one of the two",
        );
    }
    if shingle.hash == ShingleHash::Dictionary {
        return wrong(
            KEY,
            "is \"empty\", which does not work with shingle.hash = \"dictionary\": expected another hash, or \
             \"reject\" or \"whole\"",
        );
    }
    Ok(())
}

/// Without the bits of its values: see [`bits_of`].
pub(super) fn minhash_of(minhash: file::Minhash, hash: ShingleHash) -> Checked<Minhash> {
    let file::Minhash { permutations, seed, .. } = minhash;
    let family = match (minhash.family, minhash.modulus) {
        (file::Family::MultiplyShift, None) => Family::MultiplyShift,
        (file::Family::OnePermutation, None) => Family::OnePermutation,
        (file::Family::MultiplyShift | file::Family::OnePermutation, Some(_)) => {
            return wrong(
                "minhash.modulus",
                "is set without `minhash.family = \"linear\"`, the only family that has one",
            );
        }
        (file::Family::Linear, None) => Family::Linear(Modulus::Is(MERSENNE_31)),
        (file::Family::Linear, Some(modulus)) => Family::Linear(modulus_of(&modulus)?),
    };
    let coefficients = match minhash.coefficients {
        None => None,
        Some(path) => match coefficients::read(&path) {
            Ok(read) => Some(read),
            Err(e) => return wrong("minhash.coefficients", e.one_line()),
        },
    };
    let minhash = Minhash { permutations, seed, family, coefficients, bits: Bits::Of32 };
    check_minhash(&minhash, hash)?;
    Ok(minhash)
}

/// The bits of the values of signatures: those that the job file gives, or as few as are enough for the `bands` that are cut of
/// them, if any are.
pub(super) fn bits_of(given: Option<u32>, family: Family, bands: Option<&Lsh>) -> Checked<Bits> {
    match given.map(Bits::try_from) {
        None if matches!(family, Family::Linear(_)) || bands.is_some_and(Lsh::needs_32_bits) => {
            Ok(Bits::Of32)
        }
        None => Ok(Bits::Of16),
        Some(Ok(bits)) => Ok(bits),
        Some(Err(fault)) => wrong(BITS, fault),
    }
}

const BITS: &str = "minhash.bits";

pub(super) fn check_minhash(minhash: &Minhash, hash: ShingleHash) -> Checked<()> {
    const KEY: &str = "minhash.modulus";
    let Minhash { permutations, family, ref coefficients, bits, .. } = *minhash;
    if !(1..=MAX_PERMUTATIONS).contains(&permutations) {
        return wrong("minhash.permutations", format!("is {permutations}: expected 1 to {MAX_PERMUTATIONS}"));
    }
    match family {
        Family::Linear(_) if bits == Bits::Of16 => {
            return wrong(
                BITS,
                "is 16 with minhash.family = \"linear\", whose values are those of other programs: expected 32",
            );
        }
        Family::Linear(Modulus::NextPrime) if hash != ShingleHash::Dictionary => {
            return wrong(
                KEY,
                "is \"next-prime\", the first prime above the number of distinct shingles: set `shingle.hash = \
                 \"dictionary\"`, which numbers the shingles",
            );
        }
        Family::Linear(Modulus::Is(modulus)) if (permutations as u64) >= modulus => {
            return wrong(
                KEY,
                format!(
                    "is {modulus}: expected more than {permutations}, the number of `minhash.permutations`, since their \
                     factors are drawn below it"
                ),
            );
        }
        Family::Linear(Modulus::Is(modulus)) if modulus != ONES_32 => check_prime(modulus)?,
        Family::Linear(_) | Family::MultiplyShift | Family::OnePermutation => {}
    }
    check_coefficients(coefficients.as_deref(), permutations, family)
}

/// Checks that the coefficients fit the permutations and the family.
fn check_coefficients(of: Option<&[Coefficients]>, permutations: usize, family: Family) -> Checked<()> {
    const KEY: &str = "minhash.coefficients";
    let Some(of) = of else { return Ok(()) };
    if !matches!(family, Family::Linear(_)) {
        return wrong(KEY, "is set without `minhash.family = \"linear\"`, the only family that has them");
    }
    coefficients::fault(of, permutations).map_or(Ok(()), |fault| wrong(KEY, fault))
}

const MERSENNE_31: u64 = (1 << 31) - 1;
const ONES_32: u64 = (1 << 32) - 1;

const MODULI: &str = "expected \"2^31-1\", \"2^32-1\", \"next-prime\", or a prime under 2^32";

fn modulus_of(modulus: &file::Modulus) -> Checked<Modulus> {
    match modulus {
        file::Modulus::Name(name) => match name.as_str() {
            "2^31-1" => Ok(Modulus::Is(MERSENNE_31)),
            "2^32-1" => Ok(Modulus::Is(ONES_32)),
            "next-prime" => Ok(Modulus::NextPrime),
            other => wrong("minhash.modulus", format!("is {other:?}: {MODULI}")),
        },
        file::Modulus::Number(number) => match u64::try_from(*number) {
            Ok(number) => check_prime(number).map(|()| Modulus::Is(number)),
            Err(_) => wrong("minhash.modulus", format!("is {number}, which is not a prime: {MODULI}")),
        },
    }
}

fn check_prime(number: u64) -> Checked<()> {
    const KEY: &str = "minhash.modulus";
    match is_prime(number) {
        true if number < 1 << 32 => Ok(()),
        true => wrong(KEY, format!("is {number}, which is too large for a modulus: {MODULI}")),
        false => wrong(KEY, format!("is {number}, which is not a prime: {MODULI}")),
    }
}
