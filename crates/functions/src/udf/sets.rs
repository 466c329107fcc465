//! The SQL functions on shingle sets and signatures.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, ArrowPrimitiveType, BinaryArray, BooleanArray, Float64Array, UInt32Array, UInt64Array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, UInt32Type, UInt64Type};
use datafusion::common::{Result, ScalarValue, exec_datafusion_err, exec_err, internal_err, plan_err};

use super::arguments::{
    ListRows, Literals, Param, SettingNames, SignatureRows, ValueColumn, downcast, list_of, lists, room,
};
use super::function::{Doc, Function};
use crate::kernel::bucket_tags::{bucket_tags, has_tag};
use crate::kernel::hash::set_hash;
use crate::kernel::linear::{self, Linear};
use crate::kernel::lsh_bands::{BucketHash, Buckets, lsh_bands};
use crate::kernel::measure::{as_set, containment_of, jaccard_of, shared};
use crate::kernel::minhash::{self, PERMUTATIONS, Permutations};
use crate::kernel::one_permutation::{Rounds, one_permutation};
use crate::kernel::signature::{Signature, minhash_similarity, shorten, signature_set};

/// Returns the similarities of two columns, row by row. A column with one row is compared with every row of the other column.
pub(super) fn compared<'a, C: ValueColumn<'a>>(
    literals: Literals<'_>,
    columns: &'a [ArrayRef],
    compare: impl Fn(C::Row, C::Row) -> Result<Option<f64>>,
) -> Result<ArrayRef> {
    let [a, b] = columns else { return literals.wrong_columns() };
    let (a, b) = (C::new(literals.function, a)?, C::new(literals.function, b)?);
    let rows = if a.len() == 1 { b.len() } else { a.len() };
    let value = |column: &C, row: usize| column.row(if column.len() == 1 { 0 } else { row });
    let similarity = |row| match (value(&a, row), value(&b, row)) {
        (Some(a), Some(b)) => compare(a, b),
        _ => Ok(None),
    };
    Ok(Arc::new((0..rows).map(similarity).collect::<Result<Float64Array>>()?))
}

/// Returns the similarities of two columns of sets. `similarity` takes the number of common elements and both sizes. NaN becomes NULL.
fn compared_sets(
    literals: Literals<'_>,
    columns: &[ArrayRef],
    similarity: impl Fn(u64, u64, u64) -> f64,
) -> Result<ArrayRef> {
    compared::<ListRows<UInt64Type>>(literals, columns, |a, b| {
        let (a, b) = (as_set(a), as_set(b));
        let similarity = similarity(shared(&a, &b), a.len() as u64, b.len() as u64);
        Ok(Some(similarity).filter(|similarity| !similarity.is_nan()))
    })
}

pub(super) static JACCARD: Function = Function {
    repeats_literals: false,
    doc: Some(Doc {
        text: "Returns the Jaccard similarity of two sets: elements in both, divided by elements in either. Returns NULL \
               if either list is NULL, and if both are empty, as 0/0 has no value; 0.0 if one is empty. Lists are read \
               as sets, and fastest when sorted and without repeats, as `shingles` returns them.",
        syntax: "jaccard(a, b)",
        example: ["jaccard([1, 2, 3], [2, 3, 4])", "0.5"],
        arguments: &[
            ("a", "A set: a list of UInt64, or of Int64 with the same bits, without nulls."),
            ("b", "A set: a list of UInt64, or of Int64 with the same bits, without nulls."),
        ],
        related: &["containment", "minhash_similarity"],
    }),
    ..Function::new("jaccard", &[Param::Set, Param::Set], |_| Ok(DataType::Float64), jaccard_rows)
};

fn jaccard_rows(columns: &[ArrayRef], literals: Literals<'_>) -> Result<ArrayRef> {
    compared_sets(literals, columns, jaccard_of)
}

pub(super) static CONTAINMENT: Function = Function {
    repeats_literals: false,
    doc: Some(Doc {
        text: "Returns the share of the elements of `a` that are in `b`: 1.0 if `a` is a part of `b`, however large `b` \
               is. Returns NULL if either list is NULL, and if `a` is empty, as 0/0 has no value. Lists are read as \
               sets, and fastest when sorted and without repeats, as `shingles` returns them.",
        syntax: "containment(a, b)",
        example: ["containment([1, 2, 3, 4], [2, 3, 4, 5, 6, 7])", "0.75"],
        arguments: &[
            (
                "a",
                "The set that may be a part: a list of UInt64, or of Int64 with the same bits, without nulls.",
            ),
            (
                "b",
                "The set that it may be a part of: a list of UInt64, or of Int64 with the same bits, without nulls.",
            ),
        ],
        related: &["jaccard"],
    }),
    ..Function::new("containment", &[Param::Set, Param::Set], |_| Ok(DataType::Float64), containment_rows)
};

fn containment_rows(columns: &[ArrayRef], literals: Literals<'_>) -> Result<ArrayRef> {
    compared_sets(literals, columns, |shared, a, _| containment_of(shared, a))
}

pub(super) static SET_HASH: Function = Function {
    settings: 1..=1,
    check: |literals| literals.integer(0, "half", 0, None).map(drop),
    ..Function::new("set_hash", &[Param::Set], |_| Ok(DataType::UInt64), set_hash_rows)
};

fn set_hash_rows(columns: &[ArrayRef], literals: Literals<'_>) -> Result<ArrayRef> {
    let [sets] = columns else { return literals.wrong_columns() };
    let half = literals.integer(0, "half", 0, None)?;
    let rows = ListRows::<UInt64Type>::new(literals.function, sets)?;
    Ok(Arc::new(rows.iter().map(|set| Some(set_hash(set?, half))).collect::<UInt64Array>()))
}

/// The documentation of an argument that is a signature.
const SIGNATURE: &str = "A list of UInt32, as `minhash` returns it, or of Int32 with the same bits; or a binary, as \
     `short_signature` returns it.";

/// The documentation of the set from which a signature is computed.
const HASHED_SET: &str = "The set: a list of UInt64, or of Int64 with the same bits, without nulls. Order and repeats do not matter.";
const LENGTH: &str = "The signature's length, a literal from 1 to 65535.";
const SEED: &str = "What the hash functions are drawn from, a literal of at least 0.";

pub(super) static MINHASH: Function = Function {
    settings: 2..=5,
    check: |literals| HashFamily::read(literals).map(drop),
    doc: Some(Doc {
        text: "Returns the MinHash signature of a shingle set. For each of `permutations` hash functions of the family multiply-shift, \
               drawn from `seed`, it has the least 32-bit value over the set. Returns NULL for a NULL list and for an empty one, which has \
               no minima. The elements should be hashes, as `shingles` returns them.",
        syntax: "minhash(shingles, permutations, seed)",
        example: ["minhash([1, 2, 3], 4, 42)", "[1651866024, 773068804, 3892349525, 81763595]"],
        arguments: &[
            ("shingles", HASHED_SET),
            ("permutations", LENGTH),
            ("seed", SEED),
            ("modulus", "The c of the family linear, a literal in [2, 2^32); a prime is best."),
            (
                "draws",
                "a and b are drawn from 1 to this literal, which is less than c and at least `permutations`; c - 1 by default.",
            ),
            (
                "coefficients",
                "For the family linear, instead of those that are drawn: a_0, b_0, a_1, b_1, ... as a literal string \
                 of numbers with spaces between them, two for each of `permutations`.",
            ),
        ],
        related: &["minhash_similarity", "lsh_bands", "short_signature"],
    }),
    ..Function::new("minhash", &[Param::Set], |_| Ok(list_of(DataType::UInt32)), minhash_rows)
};

fn minhash_rows(columns: &[ArrayRef], literals: Literals<'_>) -> Result<ArrayRef> {
    let [sets] = columns else { return literals.wrong_columns() };
    let family = HashFamily::read(literals)?;
    let functions = family.functions()?;
    let rows = ListRows::<UInt64Type>::new(literals.function, sets)?;
    let values = room(rows.len().saturating_mul(family.count));
    lists(literals.function, rows.iter(), values, |set, values| {
        match &functions {
            _ if set.is_empty() => return Ok(false),
            HashFunctions::MultiplyShift(permutations) => minhash::minhash(set, permutations, values),
            HashFunctions::Linear(linear) => linear::minhash(set, linear, values),
        }
        Ok(true)
    })
}

enum HashFunctions {
    MultiplyShift(Permutations),
    Linear(Linear),
}

/// The settings that determine the hash functions of a call. Planners check calls repeatedly, so functions are drawn only for rows.
struct HashFamily {
    count: usize,
    seed: u64,
    /// The settings of linear functions; `None` for multiply-shift.
    linear: Option<LinearFamily>,
}

struct LinearFamily {
    modulus: u64,
    draws: u64,
    /// The coefficients in the call; `None` if coefficients are drawn.
    given: Option<Vec<(u64, u64)>>,
}

impl HashFamily {
    fn read(literals: Literals<'_>) -> Result<Self> {
        let count = literals.number(0, "permutations", PERMUTATIONS, None)?;
        let seed = literals.integer(1, "seed", 0, None)?;
        if literals.values.len() <= 2 {
            return Ok(Self { count, seed, linear: None });
        }
        let modulus = literals.integer(2, "modulus", 2, None)?;
        let draws = literals.integer(3, "draws", 1, Some(modulus - 1))?;
        if !linear::allowed(count, modulus, draws) {
            return plan_err!(
                "minhash: modulus must be under 2^32 and draws under modulus and at least {count}, the number of \
                 permutations; got {modulus} and {draws}"
            );
        }
        let is_given = literals.values.len() > 4;
        let given = is_given.then(|| coefficients(literals, count)).transpose()?;
        Ok(Self { count, seed, linear: Some(LinearFamily { modulus, draws, given }) })
    }

    fn functions(&self) -> Result<HashFunctions> {
        let Self { count, seed, linear } = self;
        let Some(LinearFamily { modulus, draws, given }) = linear else {
            return Ok(HashFunctions::MultiplyShift(Permutations::new(*count, *seed)));
        };
        let functions = match given {
            Some(given) => Linear::from_coefficients(given, *modulus),
            None => Linear::new(*count, *seed, *modulus, *draws),
        };
        match functions {
            Some(linear) => Ok(HashFunctions::Linear(linear)),
            None => internal_err!("minhash: no functions modulo {modulus} can be drawn from {draws}"),
        }
    }
}

fn coefficients(literals: Literals<'_>, count: usize) -> Result<Vec<(u64, u64)>> {
    let text = literals.string(4, "coefficients", "")?;
    let numbers: Option<Vec<u64>> = text.split_whitespace().map(|number| number.parse().ok()).collect();
    match numbers {
        Some(numbers) if numbers.len() == 2 * count => {
            Ok(numbers.as_chunks::<2>().0.iter().map(|&[a, b]| (a, b)).collect())
        }
        _ => plan_err!("minhash: coefficients must be {} whole numbers with spaces between them", 2 * count),
    }
}

/// Reads the number of bins and the seed of `one_permutation`.
fn bins(literals: Literals<'_>) -> Result<(usize, u64)> {
    let count = literals.number(0, "permutations", PERMUTATIONS, None)?;
    Ok((count, literals.integer(1, "seed", 0, None)?))
}

pub(super) static ONE_PERMUTATION: Function = Function {
    settings: 2..=2,
    check: |literals| bins(literals).map(drop),
    doc: Some(Doc {
        text: "Returns a MinHash signature of a shingle set, as `minhash` does, in a time that is nearly independent of its length. Every \
               shingle falls into one of `permutations` bins, and each bin keeps its smallest 32-bit value. While there are empty bins, \
               all shingles are hashed again by another function drawn from `seed`. Returns NULL for a NULL list and for an empty one. \
               Only signatures of the same length and seed can be compared, and not with signatures of `minhash`.",
        syntax: "one_permutation(shingles, permutations, seed)",
        example: ["one_permutation([1, 2, 3], 4, 42)", "[3558495407, 2257628742, 2735623570, 2358461157]"],
        arguments: &[("shingles", HASHED_SET), ("permutations", LENGTH), ("seed", SEED)],
        related: &["minhash", "minhash_similarity", "lsh_bands", "short_signature"],
    }),
    ..Function::new("one_permutation", &[Param::Set], |_| Ok(list_of(DataType::UInt32)), one_permutation_rows)
};

fn one_permutation_rows(columns: &[ArrayRef], literals: Literals<'_>) -> Result<ArrayRef> {
    let [sets] = columns else { return literals.wrong_columns() };
    let (count, seed) = bins(literals)?;
    let (rounds, mut scratch) = (Rounds::new(count, seed), Vec::new());
    let rows = ListRows::<UInt64Type>::new(literals.function, sets)?;
    let values = room(rows.len().saturating_mul(count));
    lists(literals.function, rows.iter(), values, |set, values| {
        if !set.is_empty() {
            one_permutation(set, &rounds, &mut scratch, values);
        }
        Ok(!set.is_empty())
    })
}

pub(super) static SHORT_SIGNATURE: Function = Function {
    doc: Some(Doc {
        text: "Returns 16 bits of each value of a MinHash signature as a binary of half the size, as runs store signatures with \
               `minhash.bits = 16`. Each value has two bytes, the lower one first. They are the upper half of its product with 2654435761 \
               modulo 2^32. `minhash_similarity` corrects for values that are equal by chance. Returns NULL for a NULL list.",
        syntax: "short_signature(signature)",
        example: ["short_signature(minhash([1, 2, 3], 4, 42))", "d16c1afc04d83297"],
        arguments: &[(
            "signature",
            "A list of UInt32, as `minhash` returns it, or of Int32 with the same bits.",
        )],
        related: &["minhash", "one_permutation", "minhash_similarity", "lsh_bands"],
    }),
    ..Function::new("short_signature", &[Param::Minima], |_| Ok(DataType::Binary), short_signature_rows)
};

fn short_signature_rows(columns: &[ArrayRef], literals: Literals<'_>) -> Result<ArrayRef> {
    binaries::<UInt32Type>(columns, literals, 2, shorten)
}

/// Returns a binary for each list. `append` adds the bytes of a list, with `width` bytes for each number.
fn binaries<T: ArrowPrimitiveType>(
    columns: &[ArrayRef],
    literals: Literals<'_>,
    width: usize,
    append: impl Fn(&[T::Native], &mut Vec<u8>),
) -> Result<ArrayRef> {
    let [lists] = columns else { return literals.wrong_columns() };
    let rows = ListRows::<T>::new(literals.function, lists)?;
    let lengths = rows.iter().map(|list| width * list.map_or(0, <[_]>::len));
    let length = rows.iter().flatten().map(|list| width * list.len()).sum();
    if i32::try_from(length).is_err() {
        return exec_err!(
            "{}: the results of one batch have 2^31 bytes or more; lower datafusion.execution.batch_size",
            literals.function
        );
    }
    let mut bytes = Vec::with_capacity(length);
    rows.iter().flatten().for_each(|list| append(list, &mut bytes));
    let nulls: NullBuffer = rows.iter().map(|list| list.is_some()).collect();
    Ok(Arc::new(BinaryArray::try_new(OffsetBuffer::from_lengths(lengths), bytes.into(), Some(nulls))?))
}

pub(super) const BUCKET_HASHES: SettingNames<BucketHash> =
    &[("xxh3", BucketHash::Xxh3), ("crc32", BucketHash::Crc32), ("crc32-tuple", BucketHash::Crc32Tuple)];

fn bucket_settings(literals: Literals<'_>) -> Result<Buckets> {
    let bands = literals.number(0, "bands", PERMUTATIONS, None)?;
    let rows = literals.number(1, "rows", PERMUTATIONS, None)?;
    if bands * rows > *PERMUTATIONS.end() {
        let most = PERMUTATIONS.end();
        return plan_err!(
            "lsh_bands: {bands} bands of {rows} rows are more than the {most} values that a signature can have"
        );
    }
    let hash = literals.one_of(2, "hash", BUCKET_HASHES)?;
    let has_table_size = literals.values.len() > 3;
    let table_size = has_table_size.then(|| literals.integer(3, "table_size", 1, None)).transpose()?;
    Ok(Buckets { bands, rows, hash, table_size })
}

pub(super) static LSH_BANDS: Function = Function {
    settings: 2..=4,
    check: |literals| bucket_settings(literals).map(drop),
    doc: Some(Doc {
        text: "Returns the LSH buckets of a MinHash signature, one for each of `bands` bands of `rows` values: two \
               documents that share a bucket are candidates. A bucket tells its band as well, so buckets of different \
               bands do not meet. Returns NULL for a NULL signature. It is an error if `bands * rows` is more than the \
               signature's length; values past it are not used.",
        syntax: "lsh_bands(signature, bands, rows[, hash[, table_size]])",
        example: ["lsh_bands([7, 7], 2, 1)", "[6318062648460624204, 1109957299823292354]"],
        arguments: &[
            ("signature", SIGNATURE),
            ("bands", "Bands, b: a literal of at least 1. More bands at the same rows find more pairs."),
            ("rows", "Values in a band, r: a literal of at least 1. More rows find fewer pairs."),
            (
                "hash",
                "`'xxh3'` (the default): XXH3-64 of the values as 4 bytes each, or 2 of a short signature, little endian, \
                 seeded by the band's number. `'crc32'`: CRC-32 of the values in decimal, joined by `_`, with the band's \
                 number above its 32 bits. `'crc32-tuple'`: the same of the values as Python prints a tuple, as in \
                 `(15, 355, 89, 2)`.",
            ),
            (
                "table_size",
                "Buckets of one table that all bands share: a literal of at least 1. Bands then meet by chance too. \
                 Without it each band has buckets of its own.",
            ),
        ],
        related: &["minhash"],
    }),
    ..Function::new("lsh_bands", &[Param::Signature], |_| Ok(list_of(DataType::UInt64)), lsh_bands_rows)
};

fn lsh_bands_rows(columns: &[ArrayRef], literals: Literals<'_>) -> Result<ArrayRef> {
    let [signatures] = columns else { return literals.wrong_columns() };
    let by = bucket_settings(literals)?;
    let rows = SignatureRows::new(literals.function, signatures)?;
    let values = room(rows.len().saturating_mul(by.bands));
    lists(literals.function, rows.iter(), values, |signature, buckets| {
        let enough = lsh_bands(signature, by, buckets);
        enough.map(|()| true).ok_or_else(|| {
            let Buckets { bands, rows, .. } = by;
            exec_datafusion_err!(
                "lsh_bands: {bands} bands of {rows} rows need {} values, and the signature has {}",
                bands * rows,
                signature.len()
            )
        })
    })
}

pub(super) static MINHASH_SIMILARITY: Function = Function {
    repeats_literals: false,
    doc: Some(Doc {
        text: "Returns the estimated Jaccard similarity of two sets, from their MinHash signatures. It is the share of equal values at \
               equal index, corrected for chance if they have 16 bits. Returns NULL if either signature is NULL or both are empty. \
               Signatures of different lengths are an error. Signatures made with different seeds are not an error, but their similarity \
               means nothing.",
        syntax: "minhash_similarity(a, b)",
        example: ["minhash_similarity([4, 5, 6, 7], [4, 5, 6, 8])", "0.75"],
        arguments: &[
            ("a", SIGNATURE),
            ("b", "A signature of the same type, the same length and the same seed."),
        ],
        related: &["minhash", "jaccard"],
    }),
    ..Function::new(
        "minhash_similarity",
        &[Param::Signature, Param::Signature],
        |_| Ok(DataType::Float64),
        minhash_similarity_rows,
    )
};

fn minhash_similarity_rows(columns: &[ArrayRef], literals: Literals<'_>) -> Result<ArrayRef> {
    compared::<SignatureRows>(literals, columns, |a, b| match (a, b) {
        (Signature::Of16(_), Signature::Of32(_)) | (Signature::Of32(_), Signature::Of16(_)) => exec_err!(
            "minhash_similarity takes two lists or two binaries, and got one of each: `short_signature` makes a binary of a list"
        ),
        _ if a.len() != b.len() => exec_err!(
            "minhash_similarity takes signatures of equal length, and got {} and {} values",
            a.len(),
            b.len()
        ),
        _ => Ok(minhash_similarity(a, b)),
    })
}

pub(super) static SIGNATURE_SET: Function = Function::new(
    "signature_set",
    &[Param::Signature],
    |_| Ok(list_of(DataType::UInt64)),
    signature_set_rows,
);

fn signature_set_rows(columns: &[ArrayRef], literals: Literals<'_>) -> Result<ArrayRef> {
    let [signatures] = columns else { return literals.wrong_columns() };
    let rows = SignatureRows::new(literals.function, signatures)?;
    lists(literals.function, rows.iter(), Vec::new(), |signature, values| {
        signature_set(signature, values);
        Ok(true)
    })
}

pub(super) static BUCKET_TAGS: Function = Function::new(
    "bucket_tags",
    &[Param::Set],
    |_| Ok(DataType::Binary),
    |columns, literals| binaries::<UInt64Type>(columns, literals, 4, bucket_tags),
);

pub(super) static HAS_TAG: Function = Function {
    settings: 1..=1,
    ..Function::new("has_tag", &[Param::Any], |_| Ok(DataType::Boolean), has_tag_rows)
};

fn has_tag_rows(columns: &[ArrayRef], literals: Literals<'_>) -> Result<ArrayRef> {
    let ([tags], [Some(ScalarValue::List(set))]) = (columns, literals.values) else {
        return literals.wrong_columns();
    };
    let set = downcast::<UInt32Array>(set.values())?.values();
    if let Ok(keys) = downcast::<UInt64Array>(tags) {
        let has = |key: u64| has_tag(&(key as u32).to_le_bytes(), set);
        return Ok(Arc::new(BooleanArray::from_unary(keys, has)));
    }
    let rows = downcast::<BinaryArray>(tags)?.iter().map(|tags| tags.map(|tags| has_tag(tags, set)));
    Ok(Arc::new(rows.collect::<BooleanArray>()))
}
