//! `[against]`: days that come one after the other have the pairs and clusters of one run over all of them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use resemblance::error::Kind;
use resemblance::job::Job;
use tempfile::tempdir;

use crate::support::*;

/// Days of documents in a folder, each with the output of its run.
struct Days {
    scene: Scene,
    days: usize,
}

impl std::ops::Deref for Days {
    type Target = Scene;

    fn deref(&self) -> &Scene {
        &self.scene
    }
}

impl Days {
    /// Writes each part of `documents`, and all of them.
    fn new(parts: &[Vec<Document>]) -> Self {
        let scene = Scene::new(&[AS_ONE_RUN]);
        for (day, part) in parts.iter().enumerate() {
            scene.write(&format!("day{day}.parquet"), part);
        }
        scene.write("all.parquet", &parts.concat());
        Self { scene, days: parts.len() }
    }

    fn output(&self, day: usize) -> PathBuf {
        self.path(&format!("out{day}"))
    }

    /// The job of a day, against all days before it.
    fn job(&self, day: usize, sets: &[&str]) -> Job {
        let known: Vec<String> = (0..day).map(|earlier| format!("out{earlier}")).collect();
        let against = self.against(&known.iter().map(String::as_str).collect::<Vec<_>>());
        let sets = if day > 0 { [sets, &[&against]].concat() } else { sets.to_vec() };
        self.scene.job(&format!("day{day}.parquet"), &format!("out{day}"), &sets)
    }

    /// Runs one day after the other, and one run over all of them.
    fn run(&self, sets: &[&str]) {
        for day in 0..self.days {
            run(&self.job(day, sets)).unwrap();
        }
        run(&self.whole(sets)).unwrap();
    }

    /// Merges all days: the same rows as those of the run over all of them.
    fn merge(&self) {
        let days: Vec<String> = (0..self.days).map(|day| format!("out{day}")).collect();
        self.scene.merge(&days.iter().map(String::as_str).collect::<Vec<_>>(), "merged").unwrap();
    }

    fn check_merged(&self, what: &str) {
        let (merged, whole) = (self.path("merged"), self.path("whole"));
        let keys = |output: &Path| pairs(output).into_keys().collect::<BTreeSet<_>>();
        let (found, expected) = (keys(&merged), keys(&whole));
        let (missing, more): (Vec<_>, Vec<_>) =
            (expected.difference(&found).collect(), found.difference(&expected).collect());
        assert!(missing.is_empty() && more.is_empty(), "missing: {missing:?}, too many: {more:?}, {what}");
        assert_eq!(self.results("merged"), self.results("whole"), "{what}");
        let counts = |output: &Path| {
            let counts = manifest(output).counts;
            let clusters = (counts.clusters, counts.clustered_documents);
            (counts.documents, counts.pairs, clusters, counts.shingle_sets, counts.pairs_left_out)
        };
        assert_eq!(counts(&merged), counts(&whole), "{what}");
    }

    fn whole(&self, sets: &[&str]) -> Job {
        let own: Vec<&str> = sets.iter().copied().filter(|set| !set.starts_with("against")).collect();
        self.scene.job("all.parquet", "whole", &own)
    }
}

/// Two ids, the smaller first.
fn ordered((a, b): (String, String)) -> (String, String) {
    if a < b { (a, b) } else { (b, a) }
}

/// Cuts documents into `days` days at random.
fn split(random: &mut Random, documents: &[Document], days: usize) -> Vec<Vec<Document>> {
    let mut parts = vec![Vec::new(); days];
    for document in documents {
        parts[random.below(days)].push(document.clone());
    }
    parts.into_iter().filter(|part| !part.is_empty()).collect()
}

#[test]
fn days_are_merged_as_one_run_writes_them() {
    let cases: [&[&str]; 11] = [
        &[],
        &["candidates.method=prefix", "output.keep=shingles"],
        &["candidates.method=all", "output.keep=shingles"],
        &["lsh.bands=32", "lsh.rows=2", "minhash.permutations=64", "output.keep=shingles"],
        &["score.threshold=0.3", "lsh.target_recall=0.999"],
        &["candidates.method=prefix", "score.by=signature", "score.threshold=0.7", "output.keep=shingles"],
        &["candidates.method=prefix", "score.measure=containment", "output.keep=shingles"],
        // Where large groups are written as stars, no day writes all pairs of one run.
        &["output.max_expand=3", "lsh.hot_bucket=100000"],
        &["output.expand=star", "score.threshold=0.8", "engine.threads=3"],
        &["lsh.hot_bucket=3", "output.max_expand=0"],
        &["candidates.method=prefix", "output.expand=star", "output.keep=shingles"],
    ];
    let mut pairs = 0;
    for (seed, sets) in (0..).zip(cases) {
        let mut random = Random(seed);
        let documents = corpus(seed, 120, 30);
        let days = Days::new(&split(&mut random, &documents, 2 + seed as usize % 4));
        days.run(sets);
        days.merge();
        days.check_merged(&format!("{sets:?}"));
        pairs += manifest(&days.path("whole")).counts.pairs;
    }
    assert!(pairs > 400, "{pairs} pairs");
}

/// A document that cannot be compared takes nobody's place, and the run says so.
#[test]
fn what_is_rejected_replaces_nothing() {
    let text = "one two three four five six";
    let document = |id: &str, text: &str| (id.to_owned(), text.to_owned());
    let days = Days::new(&[
        vec![document("a", text), document("b", "seven eight nine ten")],
        vec![document("a", "too short"), document("b", "eleven twelve thirteen"), document("c", text)],
    ]);
    run(&days.job(0, &[])).unwrap();
    run(&days.job(1, &["against.same_id=replace"])).unwrap();
    let run = manifest(&days.output(1));
    assert_eq!(run.counts.replaced_documents.unwrap(), 1);
    let said: Vec<_> = run.warnings.iter().filter(|warning| warning.contains("do not replace")).collect();
    assert!(said.len() == 1 && said[0].contains("same ids: `a`; rejects/"), "{said:?}");
    assert_eq!(pairs(&days.output(1)).into_keys().collect::<Vec<_>>(), [("c".to_owned(), "a".to_owned())]);
}

#[test]
fn documents_that_are_known_are_an_error_or_left_out() {
    let documents = corpus(60, 80, 25);
    let days = Days::new(&[documents[..50].to_vec(), documents[40..].to_vec()]);
    run(&days.job(0, &[])).unwrap();
    let error = run(&days.job(1, &[])).unwrap_err();
    assert_eq!(error.kind(), Kind::Input);
    let said = error.to_string();
    assert!(said.contains("`d00040`, `d00041`") && said.contains("against.same_id"), "{said}");
    assert!(!days.output(1).join("manifest.json").exists());

    // In another output, since the one above holds what a run left.
    let mut job = days.job(1, &["against.same_id=skip", "source.duplicate_ids=reject"]);
    job.output.url = days.path("skipped").display().to_string();
    let outcome = run(&job).unwrap();
    assert_eq!(outcome.manifest.rejects["reference_id"], 10);
    assert_eq!(outcome.manifest.counts.documents, 30);
    let exact = exact_pairs(&documents, 3, 0.5);
    let new = |id: &str| documents[50..].iter().any(|document| document.0 == id);
    let expected: BTreeSet<_> = exact.keys().filter(|(a, b)| new(a) || new(b)).cloned().collect();
    let found: BTreeSet<_> = pairs(&days.path("skipped")).into_keys().map(ordered).collect();
    assert!(found.is_subset(&expected) && found.len() * 100 > expected.len() * 95, "{}", found.len());
}

#[test]
fn outputs_that_do_not_fit_are_refused_before_anything_is_written() {
    let documents = corpus(80, 60, 25);
    let days = Days::new(&[documents[..30].to_vec(), documents[30..45].to_vec(), documents[45..].to_vec()]);
    run(&days.job(0, &[])).unwrap();
    run(&days.job(1, &[])).unwrap();
    let refused = |sets: &[&str], kind: Kind, said: &str| {
        let mut job = days.job(2, sets);
        job.output.url = days.path("refused").display().to_string();
        let error = run(&job).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(said), "{said} is not in: {error}");
        assert!(!days.path("refused").exists(), "something was written");
    };
    refused(&["shingle.size=4"], Kind::Job, "`shingle.size`");
    refused(&["minhash.seed=9"], Kind::Job, "`minhash.seed`");
    refused(&["minhash.bits=32"], Kind::Job, "`minhash.bits`");
    refused(&["candidates.method=prefix"], Kind::Job, "keeps no shingles");
    let one = |outputs: &[&str], kind: Kind, said: &str| {
        let mut job = days.scene.job("day2.parquet", "refused", &[&days.against(outputs)]);
        job.name = "refused".into();
        let error = run(&job).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(said), "{said} is not in: {error}");
        assert!(!days.path("refused").exists(), "something was written");
    };
    one(&["out1"], Kind::Job, "does not name before it");
    one(&["out1", "out0"], Kind::Job, "does not name before it");
    one(&["nothing"], Kind::Input, "there is no `");
    one(&["refused"], Kind::Input, "there is no `");
    let merged = days.scene.merge(&["out1"], "refused").unwrap_err();
    assert!(merged.to_string().contains("does not name before it"));
    // The source of a known output that keeps no shingles has changed.
    let file = std::fs::OpenOptions::new().append(true).open(days.path("day0.parquet")).unwrap();
    file.set_len(10).unwrap();
    one(&["out0", "out1"], Kind::Input, "has changed since");
}

/// The 22 files of Reuters-21578 as 22 days.
#[test]
#[ignore = "takes minutes"]
fn soak_reuters_comes_in_22_days() {
    let Some(data) = real_data("reuters21578") else { return };
    for more in [&[][..], &["candidates.method=prefix", "output.keep=shingles"]] {
        let folder = tempdir().unwrap();
        let job = |source: String, output: &Path, against: &[PathBuf]| {
            let mut sets = vec![
                format!("source.url={source}"),
                format!("output.url={}", output.display()),
                "output.max_expand=0".into(),
                "lsh.hot_bucket=1000000".into(),
                AS_ONE_RUN.into(),
            ];
            if !against.is_empty() {
                sets.push(format!("against.output={against:?}"));
            }
            sets.extend(more.iter().map(|set| set.to_string()));
            Job::load(repository("jobs/recipes/reuters.toml"), &sets).unwrap()
        };
        let mut outputs: Vec<PathBuf> = Vec::new();
        let mut last = None;
        for day in 0..22 {
            let output = folder.path().join(format!("day{day}"));
            let of_day = job(format!("{}/reut2-{day:03}.sgm", data.display()), &output, &outputs);
            run(&of_day).unwrap();
            outputs.push(output);
            last = Some(of_day);
        }
        let (whole, merged) = (folder.path().join("whole"), folder.path().join("merged"));
        run(&job(format!("{}/", data.display()), &whole, &[])).unwrap();
        let names = outputs.iter().map(|output| output.display().to_string()).collect();
        run(&Job::of_merge(names, &last.unwrap(), &merged.display().to_string())).unwrap();
        for name in ["pairs", "clusters", "documents"] {
            assert_eq!(table(&merged, name), table(&whole, name), "{name} {more:?}");
        }
        eprintln!("{} pairs of 22 days, {more:?}", manifest(&merged).counts.pairs);
    }
}

/// The daily job: each day against all that came before, merged into one output. The texts of candidates lie in the sources of
/// all days. `show` finds the texts of known documents, and `apply` what a document was removed for.
#[test]
fn each_day_goes_on_from_what_was_merged() {
    let documents = corpus(90, 150, 25);
    let parts: Vec<_> = documents.chunks(50).map(<[_]>::to_vec).collect();
    let days = Days::new(&parts);
    run(&days.job(0, &[])).unwrap();
    let mut until = days.output(0);
    for day in 1..3 {
        let against = format!("against.output={}", until.display());
        let outcome = days.scene.run(&format!("day{day}.parquet"), &format!("out{day}"), &[&against]);
        assert!(outcome.manifest.counts.pairs > 10);
        let merged = days.path(&format!("until{day}"));
        let mut merge = resemblance();
        merge.arg("merge").args([&until, &days.output(day)]).arg("--to").arg(&merged);
        merge.assert().success();
        until = merged;
    }
    run(&days.whole(&[])).unwrap();
    std::fs::rename(&until, days.path("merged")).unwrap();
    days.check_merged("day by day");

    let found = table(&days.output(1), "pairs");
    let known = bools(&found, "reference_b").iter().position(|known| *known).unwrap();
    let id = strings(&found, "id_a").swap_remove(known);
    for output in [days.output(1), days.path("merged")] {
        resemblance().arg("show").arg(output).args(["--id", &id]).assert().success();
    }
    let clean = days.path("clean");
    resemblance().arg("apply").arg(days.output(1)).arg("--to").arg(&clean).assert().success();
    let kept = std::fs::read_dir(&clean).unwrap().count();
    // And the folder of records.
    assert_eq!(kept, 2);
}
