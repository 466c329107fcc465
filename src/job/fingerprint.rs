//! What tells one run's result from another's.

use std::fmt::Write;
use std::time::UNIX_EPOCH;

use xxhash_rust::xxh3::xxh3_128;

use super::{Csv, InputFile, Job, Lsh, Minhash, Output, Score, Shingle, Source};

/// The version of the tables' meaning. Raise it with every change that gives other rows for the same job and input.
pub const FORMAT_VERSION: u32 = 1;

/// 32 hexadecimal digits that stand for everything that can change a row of the result: the sections of the job that
/// say what is computed, the inputs with their sizes and times, and [`FORMAT_VERSION`].
///
/// The job's name, the output's URL, the engine and the way in which bands and rows were chosen are not part of it; nor
/// is the order of `inputs`. The digits are the XXH3-128 of a canonical text.
pub fn fingerprint(job: &Job, inputs: &[InputFile]) -> String {
    format!("{:032x}", xxh3_128(canonical(job, inputs).as_bytes()))
}

/// One line for each fact. Debug formatting quotes and escapes strings, so no value can pass for another line.
fn canonical(job: &Job, inputs: &[InputFile]) -> String {
    // Taken apart field by field, so that a new field does not compile until somebody has decided about it here.
    let Job { name: _, source, shingle, minhash, lsh, candidates, score, output, engine: _ } = job;
    let Source { format, urls, id, id_separator, text, duplicate_ids, csv } = source;
    let Csv { delimiter, header, quote } = csv;
    let Shingle { normalize, unit, size, hash, min_words } = shingle;
    let Minhash { permutations, seed } = minhash;
    let Lsh { bands, rows, choice: _ } = lsh;
    let Score { threshold, by, prefilter } = score;
    let Output { url: _, expand, max_expand } = output;

    let mut lines = format!(
        "version {FORMAT_VERSION}\n\
         source {format:?} {urls:?} {id:?} {id_separator:?} {text:?} {duplicate_ids:?}\n\
         csv {delimiter} {header} {quote}\n\
         shingle {normalize:?} {unit:?} {size} {hash:?} {min_words}\n\
         minhash {permutations} {seed}\n\
         lsh {bands} {rows}\n\
         candidates {method:?}\n\
         score {threshold:?} {by:?} {prefilter}\n\
         output {expand:?} {max_expand}\n",
        method = candidates.method,
    );
    let mut inputs: Vec<&InputFile> = inputs.iter().collect();
    inputs.sort_by(|a, b| a.path.cmp(&b.path));
    for InputFile { path, bytes, modified } in inputs {
        let (sign, since) = match modified.duration_since(UNIX_EPOCH) {
            Ok(since) => ("", since),
            Err(before) => ("-", before.duration()),
        };
        // Writing to a string does not fail.
        let _ = writeln!(lines, "input {path:?} {bytes} {sign}{}", since.as_nanos());
    }
    lines
}
