//! Sketches to compare with a finished output: of one of its documents, or of a text that is cut and hashed like its
//! documents.

use std::collections::{BTreeMap, BTreeSet};

use arrow::array::{ArrayRef, ArrowPrimitiveType};
use arrow::datatypes::UInt64Type;
use datafusion::common::cast::{as_list_array, as_primitive_array, as_string_array, as_uint64_array};
use datafusion::prelude::{DataFrame, col};
use futures::TryStreamExt;

use super::reread::{Reread, comparable};
use super::{Finished, Id};
use crate::error::{Error, Result};
use crate::frames::utf8;
use crate::job::{Family, Job, ShingleHash, Short};
use crate::kernel::linear::{self, Linear};
use crate::kernel::minhash::{Permutations, minhash};
use crate::kernel::one_permutation::{Rounds, one_permutation};
use crate::kernel::signature::{Signature, SignatureValues};
use crate::kernel::text::shingle_texts;
use crate::kernel::text::shingles::{ShingleBuffers, shingles};
use crate::schema::Table;
use crate::udf::arguments::{SignatureRows, ValueColumn};

/// A document's shingles and signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sketch {
    /// The numbers of its distinct shingles, ascending; `None` if unknown.
    pub shingles: Option<Vec<u64>>,
    /// The number of its distinct shingles.
    pub shingle_count: u64,
    /// Its signature: a value for each permutation.
    pub signature: SignatureValues,
}

/// The sketch of the document `id`; `None` if the output has no such document. Shingles that the output does not keep are
/// cut from the texts of `again`, or unknown without it.
///
/// # Errors
/// When the table or the source cannot be read, or the output keeps no signatures.
pub async fn of_document(finished: &Finished, id: &Id, again: Option<&Reread<'_>>) -> Result<Option<Sketch>> {
    let documents = finished.signed().await?.filter(col("id").eq(id.literal()))?;
    let mut columns = vec![col("signature"), col("shingle_count")];
    if finished.keeps_shingles() {
        columns.push(col("shingles"));
    }
    for batch in documents.clone().select(columns)?.collect().await? {
        let signature = signatures(batch.column(0))?.next();
        let count = as_uint64_array(batch.column(1))?.values().first();
        let (Some(signature), Some(&shingle_count)) = (signature, count) else { continue };
        let shingles = match (batch.columns().get(2), again) {
            (Some(kept), _) => lists::<UInt64Type>(kept)?.next().map(<[u64]>::to_vec),
            (None, Some(again)) => first_list(again.shingles(documents).await?).await?,
            (None, None) => None,
        };
        return Ok(Some(Sketch { shingles, shingle_count, signature: signature.into() }));
    }
    Ok(None)
}

/// The first list of (doc, shingles).
async fn first_list(shingles: DataFrame) -> Result<Option<Vec<u64>>> {
    for batch in shingles.collect().await? {
        if let Some(list) = lists::<UInt64Type>(batch.column(1))?.next() {
            return Ok(Some(list.to_vec()));
        }
    }
    Ok(None)
}

/// The sketch of `text`, cut, hashed and signed like the documents of the output; `None` if the text is too short to have a
/// shingle.
///
/// # Errors
/// When the output's dictionary cannot be read.
pub async fn of_text(finished: &Finished, text: &str) -> Result<Option<Sketch>> {
    let job = finished.job();
    let (mut set, known) = match job.shingle.hash {
        ShingleHash::Dictionary => by_dictionary(finished, job, text).await?,
        _ => {
            let mut set = Vec::new();
            shingles(text, &job.shingle, &mut ShingleBuffers::default(), &mut set)?;
            leave_out_frequent(finished, &mut set).await?;
            let known = set.len();
            (set, known)
        }
    };
    if set.is_empty() {
        let signature = SignatureValues::new(vec![u32::MAX; job.minhash.permutations], job.minhash.bits);
        let empty = Sketch { shingles: Some(set), shingle_count: 0, signature };
        return Ok((job.shingle.short == Short::Empty).then_some(empty));
    }
    let dictionary = finished.manifest().tables.get(Table::Dictionary.name()).map(|table| table.rows);
    let signature = SignatureValues::new(minima(&set, known, job, dictionary)?, job.minhash.bits);
    let shingle_count = set.len() as u64;
    if job.shingle.hash == ShingleHash::Dictionary && !finished.keeps_shingles() {
        // The numbers of a dictionary are not known, so the shingles of the documents are cut again and hashed too.
        set.clear();
        shingles(text, &comparable(job), &mut ShingleBuffers::default(), &mut set)?;
    }
    Ok(Some(Sketch { shingles: Some(set), shingle_count, signature }))
}

/// Takes the shingles out that do not count in the output.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) if the text has no others.
async fn leave_out_frequent(finished: &Finished, set: &mut Vec<u64>) -> Result<()> {
    let Some(frequent) = finished.frequent_shingles()? else { return Ok(()) };
    let had_some = !set.is_empty();
    let mut rows = frequent.select(vec![col("shingle")])?.execute_stream().await?;
    let mut kept = BTreeSet::from_iter(set.drain(..));
    while let Some(batch) = rows.try_next().await? {
        for shingle in as_uint64_array(batch.column(0))?.values() {
            kept.remove(shingle);
        }
    }
    set.extend(kept);
    match had_some && set.is_empty() {
        false => Ok(()),
        true => Err(Error::input(
            "all shingles of the text are in the table frequent_shingles, so that nothing is left to compare (shingle.max_frequency)",
        )),
    }
}

/// The numbers of the text's shingles, ascending, and how many of them are in the dictionary.
///
/// The others are in no document, but they belong to the text's set and to every union with it. They get the numbers after
/// the dictionary's last, in the order of their bytes.
async fn by_dictionary(finished: &Finished, job: &Job, text: &str) -> Result<(Vec<u64>, usize)> {
    let texts = shingle_texts::distinct_shingle_texts(text, &job.shingle)?;
    let mut numbers: BTreeMap<&str, Option<u64>> = texts.iter().map(|t| (t.as_str(), None)).collect();
    let dictionary = finished.table(Table::Dictionary)?;
    let mut entries = dictionary.select(vec![col("number"), utf8("shingle")])?.execute_stream().await?;
    let mut entries_read = 0;
    while let Some(batch) = entries.try_next().await? {
        let (number, shingle) = (as_uint64_array(batch.column(0))?, as_string_array(batch.column(1))?);
        for (number, shingle) in number.values().iter().zip(shingle.iter().flatten()) {
            if let Some(found) = numbers.get_mut(shingle) {
                *found = Some(*number);
            }
        }
        entries_read += batch.num_rows() as u64;
    }
    let mut set: Vec<u64> = numbers.values().flatten().copied().collect();
    set.sort_unstable();
    let known = set.len();
    set.extend((entries_read + 1..).take(numbers.len() - known));
    Ok((set, known))
}

/// The minima of `set`, whose elements from `known` on are shingles that no document has.
///
/// Those elements take part in every minimum, since otherwise the estimate would be that of a smaller set. A minimum of
/// one of them agrees with no document. But modulo a prime just above the dictionary's last number, its hash may equal
/// that of another shingle, so such a minimum is replaced by a value that the linear family never returns.
fn minima(set: &[u64], known: usize, job: &Job, dictionary: Option<u64>) -> Result<Vec<u32>> {
    let by = &job.minhash;
    let mut signature = Vec::with_capacity(by.permutations);
    if by.family == Family::OnePermutation {
        let rounds = Rounds::new(by.permutations, by.seed);
        one_permutation(set, &rounds, &mut Vec::new(), &mut signature);
        return Ok(signature);
    }
    let Some((modulus, draws)) = by.linear(dictionary)? else {
        minhash(set, &Permutations::new(by.permutations, by.seed), &mut signature);
        return Ok(signature);
    };
    let functions = match &by.coefficients {
        Some(given) => Linear::from_coefficients(given, modulus),
        None => Linear::new(by.permutations, by.seed, modulus, draws),
    };
    let functions = functions.ok_or_else(|| {
        Error::bug(format!("no linear functions modulo {modulus} can be drawn from {draws}"))
    })?;
    linear::minhash(set, &functions, &mut signature);
    if known < set.len() {
        let mut of_known = Vec::with_capacity(by.permutations);
        linear::minhash(&set[..known], &functions, &mut of_known);
        of_known.resize(by.permutations, NEVER);
        for (value, of_known) in signature.iter_mut().zip(of_known) {
            if *value < of_known {
                *value = NEVER;
            }
        }
    }
    Ok(signature)
}

/// A value that the linear family never returns: its values are below its modulus, which is below 2^32.
const NEVER: u32 = u32::MAX;

/// The signatures of a column, row by row.
///
/// # Errors
/// When the column holds no signatures.
pub(super) fn signatures(column: &ArrayRef) -> Result<impl Iterator<Item = Signature<'_>>> {
    let rows = SignatureRows::new("a query for neighbors", column)?;
    Ok((0..rows.len()).map(move |row| rows.row(row).unwrap_or(Signature::Of32(&[]))))
}

/// The lists of a column, row by row.
///
/// # Errors
/// When the column holds no lists of `T`.
pub(super) fn lists<T: ArrowPrimitiveType>(column: &ArrayRef) -> Result<impl Iterator<Item = &[T::Native]>> {
    let lists = as_list_array(column)?;
    let values = as_primitive_array::<T>(lists.values())?.values();
    let bounds = lists.value_offsets().windows(2);
    Ok(bounds.map(move |bounds| &values[bounds[0] as usize..bounds[1] as usize]))
}
