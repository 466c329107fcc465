//! A sample with as many pairs for each document as the whole source has.
//!
//! What pairs cost can be measured only where there are some, and of a small share of the documents the share of the pairs is its
//! square. So some documents of the sample are replaced by copies of others: unchanged ones, ones that are similar enough to be a
//! pair, and ones that are nearly so.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, UInt64Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::DataType;
use datafusion::common::cast::as_string_array;

use super::measure::Measured;
use super::pairs::{Expected, PairsOf};
use super::sample_file::{SampleFile, read, row_groups};
use crate::error::Result;
use crate::job::{Job, Method, Shingle, Unit, curve};

/// The largest group of copies that is added.
pub(super) const LARGEST_GROUP: u64 = 16;
/// The share of a sample that may be replaced.
const MOST_REPLACED: f64 = 0.6;
/// Documents between one and its copy: neighbours compress better than others.
const APART: usize = 300;
/// Rows that are written at once.
const ROWS: usize = 512;

/// Groups of copies to add.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Groups {
    /// How many.
    pub(super) count: u64,
    /// Their documents, one of the sample and its copies.
    pub(super) size: u64,
    /// The similarity of a copy; 1 for an unchanged one.
    pub(super) similarity: f64,
}

/// The groups that a sample lacks to have as many pairs for each document as the source.
pub(super) fn missing(expected: &Expected, plain: &Measured, job: &Job) -> Vec<Groups> {
    let documents = plain.counts.documents as f64;
    if expected.share >= 1.0 || documents < 2.0 {
        return Vec::new();
    }
    let threshold = job.score.least_jaccard();
    let similar = f64::midpoint(1.0, threshold);
    // A pair that is found half of the time, and is not one.
    let turn = curve::threshold(job.lsh.bands, job.lsh.rows).min(0.95 * threshold);
    let scores = plain.counts.scores as f64;
    let true_share =
        if expected.candidates.seen > 0.0 { (scores / expected.candidates.seen).min(1.0) } else { 1.0 };
    let wanted = |of: &PairsOf| of.seen.max(0.5) / expected.share - of.seen;
    // Documents of dense groups are paired with leaders alone, and the sample has as many of those pairs for each document.
    let is_dense = expected.candidates.partners > job.output.most_expanded().unwrap_or(u64::MAX) as f64;
    let near = if is_dense { 0.0 } else { wanted(&expected.candidates) };
    let mut groups = vec![
        groups(wanted(&expected.copies), expected.copies.partners, 1.0),
        groups(near * true_share, expected.candidates.partners, similar),
    ];
    if job.candidates.method == Method::Lsh {
        // The other half is not found.
        groups.push(groups_of_two(2.0 * near * (1.0 - true_share), turn));
    }
    let replaced: f64 = groups.iter().map(|group| (group.count * (group.size - 1)) as f64).sum();
    let fit = (MOST_REPLACED * documents / replaced.max(1.0)).min(1.0);
    groups.iter_mut().for_each(|group| group.count = (group.count as f64 * fit).round() as u64);
    groups.retain(|group| group.count > 0);
    groups
}

fn groups(pairs: f64, partners: f64, similarity: f64) -> Groups {
    let size = (partners.round() as u64 + 1).clamp(2, LARGEST_GROUP);
    let of_group = (size * (size - 1) / 2) as f64;
    Groups { count: (pairs / of_group).round().max(0.0) as u64, size, similarity }
}

fn groups_of_two(pairs: f64, similarity: f64) -> Groups {
    groups(pairs, 1.0, similarity)
}

/// Writes every `one_in`-th document of the sample in `from` to `to`.
///
/// # Errors
/// When a file cannot be read or written.
pub(super) fn few(from: &Path, to: &Path, one_in: u64) -> Result<()> {
    let (schema, rows, batches) = read(from)?;
    let mut file = SampleFile::create(to, &schema, rows as usize)?;
    let mut at = 0;
    for batch in batches {
        let batch = batch?;
        let rows = batch.num_rows() as u64;
        let taken = UInt64Array::from_iter_values((0..rows).filter(|row| (at + row).is_multiple_of(one_in)));
        file.write(&take_record_batch(&batch, &taken)?)?;
        at += rows;
    }
    file.end()
}

/// Writes the sample in `from` to `to`, with some documents replaced by copies of earlier ones.
///
/// # Errors
/// When a file cannot be read or written.
pub(super) fn add(from: &Path, to: &Path, groups: &[Groups], shingle: &Shingle, seed: u64) -> Result<()> {
    let (schema, all, batches) = read(from)?;
    let group = all.div_ceil(row_groups(from)?.max(1)).max(1);
    let mut file = SampleFile::create(to, &schema, group as usize)?;
    let wanted: u64 = groups.iter().map(|group| group.count).sum();
    let replaced: u64 = groups.iter().map(|group| group.count * (group.size - 1)).sum();
    let kept = all.saturating_sub(replaced).max(1);
    let (mut waiting, mut ready) = (VecDeque::new(), Vec::new());
    let (mut bases, mut copies, mut seen) = (0_u64, 0_u64, 0_u64);
    let mut order =
        groups.iter().flat_map(|group| std::iter::repeat_n(*group, group.count as usize)).collect::<Vec<_>>();
    mix(&mut order, seed);
    let mut order = order.into_iter();
    for batch in batches {
        let batch = batch?;
        for row in 0..batch.num_rows() {
            seen += 1;
            let is_enough = waiting.len() > APART || seen + waiting.len() as u64 > all;
            if is_enough && let Some(copy) = waiting.pop_front() {
                ready.push(copy);
            } else {
                let base = batch.slice(row, 1);
                // Evenly among the documents that stay.
                bases += 1;
                if u128::from(bases) * u128::from(wanted) / u128::from(kept)
                    > u128::from(bases - 1) * u128::from(wanted) / u128::from(kept)
                    && let Some(group) = order.next()
                {
                    for nth in 1..group.size {
                        copies += 1;
                        waiting.push_back(copy_of(&base, group.similarity, nth, copies, shingle)?);
                    }
                }
                ready.push(base);
            }
            if ready.len() >= ROWS {
                file.write(&concat_batches(&schema, &ready)?)?;
                ready.clear();
            }
        }
    }
    file.write(&concat_batches(&schema, &ready)?)?;
    file.end()
}

/// Puts groups into an order that does not depend on their kind.
fn mix(groups: &mut [Groups], seed: u64) {
    let mut random = crate::kernel::random::SplitMix64(seed);
    for at in (1..groups.len()).rev() {
        groups.swap(at, (random.next() % (at as u64 + 1)) as usize);
    }
}

/// A copy of a document (id, text, ..) with another id, and with the similarity that is asked for.
fn copy_of(
    base: &RecordBatch,
    similarity: f64,
    nth: u64,
    number: u64,
    shingle: &Shingle,
) -> Result<RecordBatch> {
    let mut columns = base.columns().to_vec();
    let id: ArrayRef = match base.column(0).data_type() {
        DataType::Int64 => Arc::new(Int64Array::from(vec![i64::MIN + number.cast_signed()])),
        _ => Arc::new(StringArray::from(vec![format!("copy {number}")])),
    };
    columns[0] = id;
    let text = as_string_array(base.column(1))?.iter().next().flatten();
    columns[1] = Arc::new(StringArray::from(vec![text.map(|text| edited(text, similarity, nth, shingle))]));
    Ok(RecordBatch::try_new(base.schema(), columns)?)
}

/// A text whose shingle set has about this Jaccard similarity with that of `text`.
///
/// Of n shingles, those with one of the last units are others when these are replaced: (n - d) / (n + d) is the similarity if d
/// are.
fn edited(text: &str, similarity: f64, nth: u64, shingle: &Shingle) -> String {
    let lost = |units: usize| {
        let shingles = (units + 1).saturating_sub(shingle.size) as f64;
        (shingles * (1.0 - similarity) / (1.0 + similarity)).round() as usize
    };
    match shingle.unit {
        _ if similarity >= 1.0 => text.to_owned(),
        Unit::Char => {
            let characters: Vec<char> = text.chars().collect();
            let kept = characters.len() - lost(characters.len());
            let other = |at: usize| char::from(b'a' + ((at as u64 * 7 + nth) % 26) as u8);
            characters[..kept].iter().copied().chain((kept..characters.len()).map(other)).collect()
        }
        _ => {
            let words: Vec<&str> = text.split_whitespace().collect();
            let kept = words.len() - lost(words.len());
            let replaced = words[kept..].iter().map(|word| {
                let turned: String = word.chars().rev().collect();
                format!("{turned}{}", char::from(b'a' + (nth % 26) as u8))
            });
            let kept = words[..kept].iter().map(|word| (*word).to_owned());
            kept.chain(replaced).collect::<Vec<_>>().join(" ")
        }
    }
}
