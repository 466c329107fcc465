//! The fingerprint of a run: equal for runs with equal rows.

use std::fmt::Write;
use std::time::UNIX_EPOCH;

use xxhash_rust::xxh3::xxh3_128;

use super::{
    BucketHash, ClusterMethod, Clusters, Compare, Condition, Csv, Encoding, Family, Input, InputFile, Job,
    Keep, Lsh, Measure, Minhash, NewPairs, Normalize, OnError, Output, References, Score, Shingle, Short,
    Source, Words, file,
};

/// The version of the tables' meaning. Raise it with every change that gives other rows for the same job and input.
pub const FORMAT_VERSION: u32 = 13;

/// The fingerprint, 32 hexadecimal digits, of everything that can change a row of the result: the sections of the job that decide
/// what is computed, the inputs with their sizes, times and e_tags, and [`FORMAT_VERSION`].
///
/// The job's name, the output's URL, the engine, the way in which bands and rows were chosen and the order of `inputs` are not
/// part of it. The digits are the XXH3-128 of a canonical text.
pub fn fingerprint(job: &Job, inputs: &[InputFile]) -> String {
    format!("{:032x}", xxh3_128(canonical(job, inputs).as_bytes()))
}

/// The version of the dictionaries that divide words and of the categories of characters: other versions may divide words
/// differently. A test compares it with the version that is compiled in.
const ICU: &str = "ICU4X 2.4.0";

/// A line for each setting. Debug formatting quotes and escapes strings, so no value looks like another line.
fn canonical(job: &Job, inputs: &[InputFile]) -> String {
    // All fields are listed, so that a new one does not compile until it is decided here whether it belongs to the fingerprint.
    let Job {
        name: _,
        source,
        input,
        shingle,
        max_frequency,
        minhash,
        lsh,
        candidates,
        against,
        score,
        clusters,
        passages,
        alarms: _,
        output,
        engine: _,
    } = job;
    let Clusters { method: cluster_method, keep: kept, thresholds, contained } = clusters;
    let Source {
        format,
        encoding,
        urls,
        // Their files are among the inputs.
        table_versions: _,
        id,
        id_separator,
        text,
        columns,
        group,
        condition,
        limit,
        duplicate_ids,
        on_error,
        max_text,
        csv,
        references,
    } = source;
    let Csv { delimiter, header, quote, quotes_end_in_line, escape } = csv;
    let Shingle { normalize, unit, words, size, separator, hash, min_words, short } = shingle;
    let Minhash { permutations, seed, family, coefficients, bits } = minhash;
    let bits = u32::from(*bits);
    let Lsh { bands, rows, choice: _, bucket_hash, table_size, hot_bucket } = lsh;
    let Score { threshold, measure, by, prefilter, min_shared } = score;
    // The rows are the same for any `max_pairs` that does not end the run, so a run that it ended resumes under a
    // higher one. Delta logs do not change rows either: a finished output gets them without a new run.
    let Output { url: _, expand, max_expand, max_pairs: _, keep, pair_passages, buckets, tables: _ } = output;

    let mut lines = format!(
        "version {FORMAT_VERSION}\n\
         source {format:?} {urls:?} {id:?} {id_separator:?} {text:?} {duplicate_ids:?}\n\
         csv {delimiter} {header} {quote:?} {quotes_end_in_line} {escape:?}\n\
         shingle {normalize:?} {unit:?} {size} {hash:?} {min_words}\n\
         minhash {permutations} {seed} {bits}\n\
         lsh {bands} {rows}\n\
         candidates {method:?}\n\
         score {threshold:?} {by:?} {prefilter}\n\
         output {expand:?} {max_expand}\n",
        method = candidates.method,
    );
    // Settings that were added later are left out if they have the value that was fixed before, so that older outputs
    // keep their fingerprint.
    let later = [
        (*words != Words::Unicode, format!("words {words:?}")),
        (*words == Words::Auto, format!("dictionaries {ICU}")),
        (
            *words == Words::WordCharacters || normalize.contains(&Normalize::DigitsOut),
            format!("characters {ICU}"),
        ),
        (separator != " ", format!("separator {separator:?}")),
        (*family != Family::MultiplyShift, format!("family {family:?}")),
        (*bucket_hash != BucketHash::Xxh3, format!("bucket_hash {bucket_hash:?}")),
        (table_size.is_some(), format!("table_size {table_size:?}")),
        (*on_error != OnError::Error, format!("on_error {on_error:?}")),
        (*max_text != file::Source::MAX_TEXT, format!("max_text {max_text}")),
        (!columns.is_empty(), format!("columns {columns:?}")),
        (*hot_bucket != file::Lsh::HOT_BUCKET, format!("hot_bucket {hot_bucket}")),
        (*keep != Keep::default(), format!("keep {keep:?}")),
        (*encoding != Encoding::Utf8, format!("encoding {encoding}")),
        (*references != References::Decode, format!("references {references:?}")),
        (*short != Short::Reject, format!("short {short:?}")),
        (max_frequency.is_some(), format!("max_frequency {max_frequency:?}")),
        (coefficients.is_some(), format!("coefficients {coefficients:?}")),
        (*measure != Measure::Jaccard, format!("measure {measure}")),
        (*min_shared > 0, format!("min_shared {min_shared}")),
        // The output is among the inputs, by its own fingerprint: its rows do not depend on its place.
        (matches!(input, Input::Reuse(_)), "reuse".to_owned()),
        (matches!(input, Input::Merge(_)), "merge".to_owned()),
        (*pair_passages, "pair_passages".to_owned()),
        (*buckets, "buckets".to_owned()),
        (!kept.is_empty(), format!("clusters {kept:?}")),
        (*cluster_method != ClusterMethod::Components, format!("cluster_method {cluster_method:?}")),
        (!thresholds.is_empty(), format!("cluster_thresholds {thresholds:?}")),
        (contained.is_some(), format!("contained {contained:?}")),
        (passages.is_some(), format!("passages {passages:?}")),
        (group.is_some(), format!("group {group:?}")),
        (condition.is_some(), format!("where {:?}", condition.as_ref().map(Condition::text))),
        (limit.is_some(), format!("limit {limit:?}")),
        (candidates.compare != Compare::All, format!("compare {:?}", candidates.compare)),
        (against.is_some(), {
            // The reference documents are among the inputs, by the fingerprints of their outputs or of the second source.
            let pairs = match against.as_ref().map(|against| against.pairs) {
                Some(NewPairs::WithReference) => "WithKnown",
                Some(NewPairs::WithEachOther) | None => "WithEachOther",
            };
            format!("against Some(({pairs}, {:?}))", job.same_id().unwrap_or_default())
        }),
    ];
    for (_, line) in later.iter().filter(|(is_set, _)| *is_set) {
        lines.push_str(line);
        lines.push('\n');
    }
    let mut inputs: Vec<&InputFile> = inputs.iter().collect();
    inputs.sort_by(|a, b| a.path.cmp(&b.path));
    for InputFile { path, bytes, modified, e_tag } in inputs {
        let (sign, since) = match modified.duration_since(UNIX_EPOCH) {
            Ok(since) => ("", since),
            Err(before) => ("-", before.duration()),
        };
        // Writing to a string does not fail.
        let _ = write!(lines, "input {path:?} {bytes} {sign}{}", since.as_nanos());
        if let Some(e_tag) = e_tag {
            let _ = write!(lines, " {e_tag:?}");
        }
        lines.push('\n');
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::job::{
        Against, Bits, DuplicateIds, Expand, Id, Limit, LimitSize, Method, Modulus, Passages, Reference,
        Reuse, SameId, TextUnit, file, resolve,
    };

    #[test]
    fn the_dictionaries_are_those_that_are_compiled_in() {
        let lock = std::fs::read_to_string(crate::environment::sources().join("Cargo.lock")).unwrap();
        let (_, data) = lock.split_once("name = \"icu_segmenter_data\"\nversion = \"").unwrap();
        let (version, _) = data.split_once('"').unwrap();
        assert_eq!(ICU, format!("ICU4X {version}"));
    }

    #[test]
    fn it_is_32_digits_that_stay_the_same_between_builds() {
        // Known from version 12 of the tables on: another value here means that finished outputs would be made again.
        assert_eq!(fingerprint(&job(), &inputs()), "d70ad4b45728fdf7ec60e010c420da9e");
    }

    #[test]
    fn whatever_can_change_a_row_changes_it() {
        let first = fingerprint(&job(), &inputs());
        let changes: [Change<Job>; 56] = [
            ("urls", |j| j.source.urls.push("more".into())),
            ("id", |j| j.source.id = Id::RowNumber),
            ("duplicate_ids", |j| j.source.duplicate_ids = DuplicateIds::Reject),
            ("columns", |j| j.source.columns.push("title".into())),
            ("on_error", |j| j.source.on_error = OnError::Reject),
            ("max_text", |j| j.source.max_text = 1),
            ("encoding", |j| j.source.encoding = Encoding::Latin1),
            ("another encoding", |j| j.source.encoding = "windows-1252".parse().unwrap()),
            ("delimiter", |j| j.source.csv.delimiter = b';'),
            ("normalize", |j| j.shingle.normalize.push(Normalize::Nfkc)),
            ("stop words", |j| j.shingle.normalize.push(Normalize::StopWordList("a the".into()))),
            ("other stop words", |j| j.shingle.normalize.push(Normalize::StopWordList("a an".into()))),
            ("references", |j| j.source.references = References::Keep),
            ("short", |j| j.shingle.short = Short::Reject),
            ("max_frequency", |j| j.max_frequency = Some(0.001)),
            ("another max_frequency", |j| j.max_frequency = Some(0.002)),
            ("coefficients", |j| j.minhash.coefficients = Some(vec![(1, 2); 128])),
            ("other coefficients", |j| j.minhash.coefficients = Some(vec![(1, 3); 128])),
            ("size", |j| j.shingle.size += 1),
            ("seed", |j| j.minhash.seed += 1),
            ("bits", |j| j.minhash.bits = Bits::Of32),
            ("bands", |j| j.lsh.bands += 1),
            ("method", |j| j.candidates.method = Method::All),
            ("threshold", |j| j.score.threshold = 0.8000000000000002),
            ("min_shared", |j| j.score.min_shared = 9),
            ("measure", |j| j.score.measure = Measure::Containment),
            ("expand", |j| j.output.expand = Expand::Star),
            ("words", |j| j.shingle.words = Words::Spaces),
            ("separator", |j| j.shingle.separator = ", ".into()),
            ("family", |j| j.minhash.family = Family::Linear(Modulus::NextPrime)),
            ("another family", |j| j.minhash.family = Family::OnePermutation),
            ("bucket_hash", |j| j.lsh.bucket_hash = BucketHash::Crc32),
            ("table_size", |j| j.lsh.table_size = Some(20_000)),
            ("hot_bucket", |j| j.lsh.hot_bucket = 7),
            ("max_expand", |j| j.output.max_expand += 1),
            ("keep", |j| j.output.keep = Keep::Shingles),
            ("against", |j| {
                let reference =
                    Reference::Outputs { urls: vec!["out/before/".into()], same_id: SameId::Skip };
                j.against = Some(Against { reference, pairs: NewPairs::WithReference });
            }),
            ("where", |j| j.source.condition = Condition::parse("stars > 2").ok()),
            ("limit", |j| j.source.limit = Some(Limit { size: LimitSize::Documents(7), seed: 0 })),
            ("seed", |j| j.source.limit = Some(Limit { size: LimitSize::Documents(7), seed: 1 })),
            ("group", |j| j.source.group = Some("crawl".into())),
            ("compare", |j| j.candidates.compare = Compare::Across),
            ("clusters", |j| j.clusters.keep.push("length".parse().unwrap())),
            ("cluster_thresholds", |j| j.clusters.thresholds.push(0.9)),
            ("cluster_method", |j| j.clusters.method = ClusterMethod::Components),
            ("contained", |j| j.clusters.contained = Some(0.98)),
            ("pair_passages", |j| j.output.pair_passages = true),
            ("buckets", |j| j.output.buckets = true),
            ("passages", |j| j.passages = Some(Passages::Units { unit: TextUnit::Line, min_words: 5 })),
            ("other passages", |j| {
                j.passages = Some(Passages::Units { unit: TextUnit::Sentence, min_words: 5 })
            }),
            ("runs of words", |j| j.passages = Some(Passages::Words { length: 50, gap: 0 })),
            ("longer runs of words", |j| j.passages = Some(Passages::Words { length: 51, gap: 0 })),
            ("gaps", |j| j.passages = Some(Passages::Words { length: 50, gap: 1 })),
            ("longer passages", |j| {
                j.passages = Some(Passages::Units { unit: TextUnit::Line, min_words: 6 })
            }),
            ("merge", |j| j.input = Input::Merge(vec!["out/before/".into()])),
            ("reuse", |j| {
                j.input = Input::Reuse(Reuse { output: "out/before/".into(), keeps_shingles: false });
            }),
        ];
        for (what, change) in changes {
            let mut job = job();
            change(&mut job);
            assert_ne!(fingerprint(&job, &inputs()), first, "{what}");
        }
        let changes: [Change<Vec<InputFile>>; 5] = [
            ("a file more", |i| i.push(InputFile { path: "c".into(), ..i[0].clone() })),
            ("a file less", |i| i.truncate(1)),
            ("bytes", |i| i[0].bytes += 1),
            ("e_tag", |i| i[0].e_tag = Some("\"1\"".into())),
            ("modified", |i| i[0].modified += Duration::from_nanos(1)),
        ];
        for (what, change) in changes {
            let mut inputs = inputs();
            change(&mut inputs);
            assert_ne!(fingerprint(&job(), &inputs), first, "{what}");
        }
    }

    #[test]
    fn nothing_else_does() {
        let mut job = job();
        let first = fingerprint(&job, &inputs());
        job.name.push('x');
        job.output.url.push('x');
        job.engine.threads = 7;
        job.engine.memory = 1;
        job.lsh.choice = crate::job::Choice::Given;
        job.output.max_pairs = 7;
        job.alarms.fail = true;
        job.output.tables = crate::job::Tables::Delta;
        let mut inputs = inputs();
        inputs.reverse();
        assert_eq!(fingerprint(&job, &inputs), first);
    }

    type Change<T> = (&'static str, fn(&mut T));

    fn job() -> Job {
        let text = "source = { format = 'reuters', url = 'in' }\noutput.url = 'out'";
        resolve(file::read(text, "job.toml", &[]).unwrap()).unwrap()
    }

    fn inputs() -> Vec<InputFile> {
        let file = |path: &str, modified| InputFile { path: path.into(), bytes: 7, modified, e_tag: None };
        let time = Duration::new(1_700_000_000, 123_456_789);
        vec![file("a", SystemTime::UNIX_EPOCH + time), file("b", SystemTime::UNIX_EPOCH - time)]
    }
}
