//! The fingerprint of a run: equal for runs with equal rows.

use std::fmt::Write;
use xxhash_rust::xxh3::xxh3_128;

use super::{Alarms, Choice, Engine, Input, InputFile, Job, Reference, Reuse, TableFormat};

/// The version of the tables' meaning. Raise it with every change that gives other rows for the same job and input.
pub const FORMAT_VERSION: u32 = 14;

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

/// The settings in their `Debug` format, and a line for each input. Debug formatting quotes and escapes strings, so no value looks like
/// another line.
fn canonical(job: &Job, inputs: &[InputFile]) -> String {
    let mut lines = format!("version {FORMAT_VERSION}\n{ICU}\n{:?}\n", deciding(job.clone()));
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
    lines
}

/// The job with one value for every setting that changes no row, and for the places of inputs, whose fingerprints are among the
/// inputs.
fn deciding(mut job: Job) -> Job {
    job.name.clear();
    job.source.table_versions.clear();
    match &mut job.input {
        Input::Read => {}
        Input::Reuse(reuse) => *reuse = Reuse { output: String::new(), keeps_shingles: false },
        Input::Merge(outputs) => outputs.clear(),
    }
    match job.against.as_mut().map(|against| &mut against.reference) {
        Some(Reference::Outputs { urls, .. }) => urls.clear(),
        Some(Reference::Source(second)) => **second = job.source.clone(),
        None => {}
    }
    job.lsh.choice = Choice::Given;
    job.alarms = Alarms::default();
    // A run that `max_pairs` ended resumes under a higher one. A finished output gets Delta logs without a new run.
    (job.output.url, job.output.max_pairs, job.output.tables) = (String::new(), 0, TableFormat::default());
    job.engine = Engine::default();
    job
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
    fn it_is_32_digits_that_stay_the_same_between_builds() {
        // Known from version 14 of the tables on: another value here means that finished outputs would be made again.
        assert_eq!(fingerprint(&job(), &inputs()), "1946ac99adbb92ae4a6e62ffad311f1b");
    }

    #[test]
    fn whatever_can_change_a_row_changes_it() {
        let first = fingerprint(&job(), &inputs());
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
            assert_ne!(fingerprint(&job, &inputs()), first, "{what}");
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
        job.engine.memory = "1".into();
        job.lsh.choice = crate::job::Choice::Given;
        job.output.max_pairs = 7;
        job.alarms.fail = true;
        job.output.tables = crate::job::TableFormat::Delta;
        let mut inputs = inputs();
        inputs.reverse();
        assert_eq!(fingerprint(&job, &inputs), first);
        // The job in a manifest has the versions of Delta tables.
        let second =
            Against { reference: Reference::Source(Box::new(job.source.clone())), ..against("one/") };
        let [made, recorded] = [vec![], vec![3]].map(|table_versions| {
            let source = Source { table_versions, ..job.source.clone() };
            Job { source, against: Some(second.clone()), ..job.clone() }
        });
        assert_eq!(fingerprint(&made, &inputs), fingerprint(&recorded, &inputs));
        // The reference outputs are among the inputs.
        let [one, other] = ["one/", "other/"].map(|url| Job { against: Some(against(url)), ..job.clone() });
        assert_eq!(fingerprint(&one, &inputs), fingerprint(&other, &inputs));
    }

    type Change<T> = (&'static str, fn(&mut T));

    fn against(url: &str) -> Against {
        let reference = Reference::Outputs { urls: vec![url.into()], same_id: SameId::Skip };
        Against { reference, pairs: NewPairs::WithReference }
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
