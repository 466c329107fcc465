//! The fingerprint of a run, and the files of its input. Runs with equal fingerprints write equal rows.

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use super::{Alarms, Choice, EngineSettings, Input, Job, Reference, Reuse, TableFormat};
use crate::error::{Error, Result};

/// The version of the contents of the tables. Raise this number with every change that produces different rows for the same job and input.
pub const FORMAT_VERSION: u32 = 17;

/// Returns the fingerprint of all settings and inputs that can change a row of the result, as 32 hexadecimal digits. It covers the
/// settings that decide rows, the inputs with their sizes, times and e_tags, and [`FORMAT_VERSION`].
///
/// It does not cover the name of the job, the URL of the output or the engine. It also ignores the rule that chose bands and rows, and the
/// order of `inputs`. The digits are the XXH3-128 of a canonical text.
///
/// # Errors
/// If the settings cannot be written as JSON.
pub fn fingerprint(job: &Job, inputs: &[InputFile]) -> Result<String> {
    Ok(format!("{:032x}", xxh3_128(canonical(job, inputs)?.as_bytes())))
}

/// The version of the Unicode data that divides words and classifies characters. Another version may divide words differently. A test
/// compares it with the compiled version.
const ICU: &str = "ICU4X 2.4.0";

/// Returns the versions, the settings as JSON, and a line per input. JSON and `Debug` escape strings, so no value can look like another line.
fn canonical(job: &Job, inputs: &[InputFile]) -> Result<String> {
    // Manifests also store settings in this form.
    let settings = serde_json::to_string(&deciding(job.clone()))
        .map_err(|e| Error::bug("settings cannot be written").because(e))?;
    let mut lines = format!("version {FORMAT_VERSION}\n{ICU}\n{settings}\n");
    let mut inputs: Vec<&InputFile> = inputs.iter().collect();
    inputs.sort_by(|a, b| a.path.cmp(&b.path));
    for InputFile { path, bytes, modified, e_tag, .. } in inputs {
        // Writing to a string does not fail.
        let _ = write!(lines, "input {path:?} {bytes} {}", modified.unwrap_or(0));
        if let Some(e_tag) = e_tag {
            let _ = write!(lines, " {e_tag:?}");
        }
        lines.push('\n');
    }
    Ok(lines)
}

/// Returns the job with defaults for all settings that change no row. The locations of other outputs, of the second source and of decisions
/// are omitted, because the inputs cover them.
fn deciding(mut job: Job) -> Job {
    job.name.clear();
    job.first_day = None;
    job.source.table_versions.clear();
    match &mut job.input {
        Input::Read => {}
        Input::Reuse(reuse) => *reuse = Reuse { output: String::new(), keeps_shingles: false },
        Input::Merge(outputs) => outputs.clear(),
    }
    if let Some(against) = &mut job.against {
        against.first_day = false;
        match &mut against.reference {
            Reference::Outputs { urls, .. } => urls.clear(),
            Reference::Source(second) => **second = job.source.clone(),
        }
    }
    if let Some(file) = &mut job.clusters.decisions {
        file.clear();
    }
    job.lsh.choice = Choice::Given;
    job.alarms = Alarms::default();
    // A run that `max_pairs` ended can be resumed with a higher value. Delta logs can be added to a finished output without a new run.
    (job.output.url, job.output.max_pairs, job.output.tables) = (String::new(), 0, TableFormat::default());
    job.engine = EngineSettings::default();
    job
}

/// A file of the input, as it was when the source was listed. Manifests store it in this form, and fingerprints depend on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputFile {
    /// The file's URL or path.
    pub path: String,
    /// The size in bytes.
    pub bytes: u64,
    /// The time of the last write in nanoseconds since 1970, or `None` for an output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified: Option<i64>,
    /// The entity tag of the object store, or `None` on disks, where a copy would have a different tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub e_tag: Option<String>,
    /// CRC-32 (IEEE) of the bytes that the run read, in file order. For a Parquet file, the checksum covers the footer and the columns that
    /// the run read. `None` means that the run did not compute a checksum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crc32: Option<u32>,
    /// The number of bytes that `crc32` covers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crc32_bytes: Option<u64>,
}

impl InputFile {
    /// Returns a file without a checksum, because its bytes were not read yet.
    pub fn new(path: String, bytes: u64, modified: Option<i64>, e_tag: Option<String>) -> Self {
        Self { path, bytes, modified, e_tag, crc32: None, crc32_bytes: None }
    }

    pub(crate) fn as_listed(&self) -> Self {
        Self { crc32: None, crc32_bytes: None, ..self.clone() }
    }
}

/// The byte ranges that a stage read from a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadRanges {
    /// See [`InputFile::path`].
    pub path: String,
    /// See [`InputFile::bytes`].
    pub bytes: u64,
    /// See [`InputFile::modified`].
    pub modified: i64,
    /// The offset, the length in bytes and the CRC-32 of each range, in file order.
    pub ranges: Vec<(u64, u64, u32)>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Against, Condition, NewPairs, Normalize, SameId, Source, file, resolve};

    #[test]
    fn the_dictionaries_are_those_that_are_compiled_in() {
        let lock = std::fs::read_to_string(crate::environment::sources().join("Cargo.lock")).unwrap();
        let (_, data) = lock.split_once("name = \"icu_segmenter_data\"\nversion = \"").unwrap();
        let (version, _) = data.split_once('"').unwrap();
        assert_eq!(ICU, format!("ICU4X {version}"));
    }

    #[test]
    fn whatever_can_change_a_row_changes_it() {
        let first = hash(&job(), &inputs());
        // This value must not change as long as the tables have version 17. Otherwise, finished outputs would have to be made again.
        assert_eq!(first, "5b44900eba091aa0c77bc9ff15739fad");
        let changes: [Change<Job>; 12] = [
            ("urls", |j| j.source.urls.push("more".into())),
            ("where", |j| j.source.condition = Condition::parse("stars > 2").ok()),
            ("normalize", |j| j.shingle.normalize.push(Normalize::Nfkc)),
            ("stop words", |j| j.shingle.normalize.push(Normalize::StopWordList("a the".into()))),
            ("other stop words", |j| j.shingle.normalize.push(Normalize::StopWordList("a an".into()))),
            ("coefficients", |j| j.minhash.coefficients = Some(vec![(1, 2); 128])),
            ("other coefficients", |j| j.minhash.coefficients = Some(vec![(1, 3); 128])),
            ("threshold", |j| j.score.threshold = 0.8000000000000002),
            ("against", |j| j.against = Some(against("out/before/"))),
            ("clusters", |j| j.clusters.keep.push("length".parse().unwrap())),
            ("merge", |j| j.input = Input::Merge(vec!["out/before/".into()])),
            ("reuse", |j| {
                j.input = Input::Reuse(Reuse { output: "out/before/".into(), keeps_shingles: false });
            }),
        ];
        for (what, change) in changes {
            let mut job = job();
            change(&mut job);
            assert_ne!(hash(&job, &inputs()), first, "{what}");
        }
        let changes: [Change<Vec<InputFile>>; 5] = [
            ("a file more", |i| i.push(InputFile { path: "c".into(), ..i[0].clone() })),
            ("a file less", |i| i.truncate(1)),
            ("bytes", |i| i[0].bytes += 1),
            ("e_tag", |i| i[0].e_tag = Some("\"1\"".into())),
            ("modified", |i| i[0].modified = i[0].modified.map(|time| time + 1)),
        ];
        for (what, change) in changes {
            let mut inputs = inputs();
            change(&mut inputs);
            assert_ne!(hash(&job(), &inputs), first, "{what}");
        }
    }

    #[test]
    fn nothing_else_does() {
        let mut job = job();
        let first = hash(&job, &inputs());
        job.name.push('x');
        job.output.url.push('x');
        job.engine.threads = 7;
        job.engine.memory = "1".into();
        job.lsh.choice = crate::job::Choice::Given;
        job.output.max_pairs = 7;
        job.first_day = Some(against("out/before/"));
        job.alarms.fail = true;
        job.output.tables = crate::job::TableFormat::Delta;
        let mut inputs = inputs();
        inputs.reverse();
        assert_eq!(hash(&job, &inputs), first);
        // The job in a manifest contains the versions of Delta tables.
        let second =
            Against { reference: Reference::Source(Box::new(job.source.clone())), ..against("one/") };
        let [made, recorded] = [vec![], vec![3]].map(|table_versions| {
            let source = Source { table_versions, ..job.source.clone() };
            Job { source, against: Some(second.clone()), ..job.clone() }
        });
        assert_eq!(hash(&made, &inputs), hash(&recorded, &inputs));
        // The reference outputs are among the inputs.
        let [one, other] = ["one/", "other/"].map(|url| Job { against: Some(against(url)), ..job.clone() });
        assert_eq!(hash(&one, &inputs), hash(&other, &inputs));
        let allowed = Against { first_day: true, ..against("one/") };
        assert_eq!(hash(&one, &inputs), hash(&Job { against: Some(allowed), ..job }, &inputs));
    }

    type Change<T> = (&'static str, fn(&mut T));

    fn hash(job: &Job, inputs: &[InputFile]) -> String {
        fingerprint(job, inputs).unwrap()
    }

    fn against(url: &str) -> Against {
        let reference = Reference::Outputs { urls: vec![url.into()], same_id: SameId::Skip };
        Against { reference, pairs: NewPairs::WithReference, first_day: false }
    }

    fn job() -> Job {
        let text = "source = { format = 'reuters', url = 'in' }\noutput.url = 'out'";
        resolve(file::read(text, "job.toml", &[]).unwrap()).unwrap()
    }

    fn inputs() -> Vec<InputFile> {
        let file = |path: &str, modified| InputFile::new(path.into(), 7, Some(modified), None);
        vec![file("a", 1_700_000_000_123_456_789), file("b", -1_700_000_000_123_456_789)]
    }
}
