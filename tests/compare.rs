//! `resemblance compare` against plain computation, and as a user calls it.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use predicates::prelude::*;
use resemblance::engine::{RunControl, session};
use resemblance::error::Kind;
use resemblance::experiment::compare::{Comparison, Method, compare};
use tempfile::tempdir;

use crate::support::*;

fn compared(
    job: &resemblance::job::Job,
    documents: &[usize],
    repeat: usize,
    control: &RunControl,
) -> resemblance::error::Result<Comparison> {
    let documents: Vec<_> = documents.iter().map(|n| NonZeroUsize::new(*n).unwrap()).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let session = session::session(&job.engine)?;
        compare(&session, job, &documents, NonZeroUsize::new(repeat).unwrap(), control).await
    })
}

/// Job arguments of a small job over Parquet, with `name` as its name.
fn job_file(folder: &Path, documents: &[Document], name: &str) -> PathBuf {
    write_parquet(&folder.join("in.parquet"), documents, 64);
    let path = folder.join("job.toml");
    let text = format!("name = {name:?}\n{}", job_text(folder.join("in.parquet"), folder.join("out")));
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn every_way_finds_what_it_should() {
    let folder = tempdir().unwrap();
    let documents = corpus(11, 150, 30);
    write_parquet(&folder.path().join("in.parquet"), &documents, 64);
    for by in ["shingles", "signature"] {
        let job_of = |out: &str, sets: &[&str]| {
            let by = format!("score.by={by}");
            job(&folder.path().join("in.parquet"), &folder.path().join(out), &[&[by.as_str()], sets].concat())
        };
        let found = compared(&job_of("unused", &[]), &[150, 40], 2, &RunControl::detached()).unwrap();
        assert_eq!(found.samples.iter().map(|s| s.documents).collect::<Vec<_>>(), [40, 150]);
        for sample in &found.samples {
            let exact = exact_pairs(&documents[..sample.documents], 3, 0.5).len() as u64;
            assert!(exact > 10, "a corpus that shows something");
            let [first, second, third] = &sample.methods[..] else { panic!("{:?}", sample.methods) };
            assert_eq!((first.method, first.pairs), (Method::Exact, exact));
            assert_eq!((first.recall, first.precision), (Some(1.0), Some(1.0)));
            assert_eq!(second.method, Method::Signatures);
            assert_eq!(third.method, Method::Lsh);
            assert!(third.candidates.unwrap() >= third.pairs);
            if by == "shingles" {
                assert_eq!(third.precision, Some(1.0), "what LSH finds is verified");
                assert_eq!(third.recall, Some(third.pairs as f64 / exact as f64));
            }
        }
        // The whole corpus, by the main job: other code finds the same pairs.
        let exact: BTreeSet<_> = exact_pairs(&documents, 3, 0.5).into_keys().collect();
        let whole = &found.samples[1];
        for (method, sets) in [(1, &["candidates.method=all", "score.by=signature"][..]), (2, &[])] {
            let out = format!("out-{by}-{method}");
            run(&job_of(&out, sets)).unwrap();
            let found: BTreeSet<_> = pairs(&folder.path().join(&out)).into_keys().collect();
            let right = found.intersection(&exact).count() as f64;
            assert_eq!(whole.methods[method].pairs, found.len() as u64);
            assert_eq!(whole.methods[method].recall, Some(right / exact.len() as f64));
            assert_eq!(whole.methods[method].precision, Some(right / found.len() as f64));
        }
    }
}

#[test]
fn a_dictionary_is_that_of_the_sample() {
    let folder = tempdir().unwrap();
    let documents = corpus(17, 80, 30);
    write_parquet(&folder.path().join("in.parquet"), &documents, 64);
    let sets = ["shingle.hash=dictionary", "minhash.family=linear", "minhash.modulus=next-prime"];
    let job_of = |sets: &[&str]| job(&folder.path().join("in.parquet"), &folder.path().join("out"), sets);
    let found = compared(&job_of(&sets), &[30, 80], 1, &RunControl::detached()).unwrap();
    for sample in &found.samples {
        let exact = exact_pairs(&documents[..sample.documents], 3, 0.5).len() as u64;
        assert_eq!(sample.methods[0].pairs, exact);
        assert_eq!(sample.methods[2].precision, Some(1.0));
    }
    // Fewer shingles in the sample than permutations: the modulus cannot be the next prime.
    let error = compared(&job_of(&sets), &[1], 1, &RunControl::detached()).unwrap_err();
    assert!(error.to_string().contains("minhash.modulus"), "{error}");
}

#[test]
fn a_sample_is_the_first_documents_that_can_be_compared() {
    let folder = tempdir().unwrap();
    let documents = corpus(12, 60, 20);
    // Two files; every third row is empty or too short, and the file that is read last is named first.
    let lines = |documents: &[Document], prefix: &str| {
        let rows = documents.iter().enumerate().flat_map(|(i, (id, text))| {
            let poor = ["", "two words"][i % 2];
            let more = (i % 3 == 0).then(|| serde_json::json!({"id": format!("{prefix}{i}"), "text": poor}));
            more.into_iter().chain([serde_json::json!({"id": id, "text": text})])
        });
        rows.map(|row| row.to_string()).collect::<Vec<_>>().join("\n")
    };
    std::fs::write(folder.path().join("b.jsonl"), lines(&documents[30..], "y")).unwrap();
    std::fs::write(folder.path().join("a.jsonl"), lines(&documents[..30], "x")).unwrap();
    let urls =
        format!("source.url=[{:?}, {:?}]", folder.path().join("b.jsonl"), folder.path().join("a.jsonl"));
    let job = job(folder.path(), &folder.path().join("out"), &["source.format=jsonl", &urls]);
    let found = compared(&job, &[10, 45, 100], 1, &RunControl::detached()).unwrap();
    let pairs: Vec<_> = found.samples.iter().map(|s| (s.documents, s.methods[0].pairs)).collect();
    let exact = |n: usize| (n, exact_pairs(&documents[..n], 3, 0.5).len() as u64);
    assert_eq!(pairs, [exact(10), exact(45), exact(60)]);
    let note = found.note.unwrap();
    assert!(note.contains("60 documents") && note.contains("100"), "{note}");
}

#[test]
fn an_id_that_comes_twice_is_told_or_passed_over() {
    let folder = tempdir().unwrap();
    let mut documents = corpus(13, 30, 20);
    documents[5].0 = documents[3].0.clone();
    write_parquet(&folder.path().join("in.parquet"), &documents, 64);
    let job_of = |sets: &[&str]| job(&folder.path().join("in.parquet"), &folder.path().join("out"), sets);
    let error = compared(&job_of(&[]), &[10], 1, &RunControl::detached()).unwrap_err();
    assert_eq!(error.kind(), Kind::Input);
    assert!(error.to_string().contains("d00003"), "{error}");
    let found =
        compared(&job_of(&["source.duplicate_ids=reject"]), &[10], 1, &RunControl::detached()).unwrap();
    documents.remove(5);
    assert_eq!(found.samples[0].methods[0].pairs, exact_pairs(&documents[..10], 3, 0.5).len() as u64);
}

#[test]
fn a_comparison_can_be_stopped() {
    let folder = tempdir().unwrap();
    write_parquet(&folder.path().join("in.parquet"), &corpus(14, 30, 20), 64);
    let control = RunControl::detached();
    control.stop.cancel();
    let job = job(&folder.path().join("in.parquet"), &folder.path().join("out"), &[]);
    assert_eq!(compared(&job, &[10], 1, &control).unwrap_err().kind(), Kind::Interrupted);
}

#[test]
fn the_command_prints_a_table_and_writes_pages_that_stand_alone() {
    let folder = tempdir().unwrap();
    let job = job_file(folder.path(), &corpus(15, 60, 20), "<script>\"a\" & b</script>");
    let plots = folder.path().join("new/plots");
    let call = |more: &[&str]| {
        let mut command = resemblance();
        command.arg("compare").arg(&job).args(["--documents", "20,60"]).args(more);
        command.assert().success()
    };
    let plots_argument = plots.display().to_string();
    let text = call(&["--repeat", "2", "--plots", &plots_argument]);
    text.stdout(
        predicate::str::contains("| exact Jaccard of all pairs |")
            .and(predicate::str::contains("documents"))
            .and(predicate::str::contains("the fastest is"))
            .and(predicate::str::contains("compare.svg, compare-search.svg, compare.html"))
            .and(predicate::str::contains("From texts to pairs:\n"))
            .and(predicate::str::contains("The search alone:\n")),
    );
    let json = call(&["--json"]);
    let record: serde_json::Value = serde_json::from_slice(&json.get_output().stdout).unwrap();
    assert_eq!(record["samples"][1]["documents"], 60);
    assert_eq!(record["samples"][0]["ways"][0]["way"], "exact");
    assert_eq!(record["samples"][0]["ways"][0]["recall"], 1.0);
    assert_eq!(record["whole"]["fastest"][0]["documents"], 20);
    assert_eq!(record["search"]["fastest"][0]["documents"], 20);
    stand_alone(&plots, &["compare.html", "compare.svg", "compare-search.svg"]);
    let page = std::fs::read_to_string(plots.join("compare.html")).unwrap();
    assert!(page.contains("&lt;script&gt;&quot;a&quot; &amp; b&lt;/script&gt;"), "{page}");
    for section in page.split("<section>") {
        let said = sentences(section);
        let twice: Vec<_> =
            said.iter().filter(|one| said.iter().filter(|other| other == one).count() > 1).collect();
        assert!(twice.is_empty(), "{twice:?}");
    }
    assert!(sentences(&page).iter().any(|sentence| sentence.contains("the fastest is")), "{page}");
    assert!(!folder.path().join("out").exists(), "nothing is written to the job's output");
}

/// The sentences of a part of a page that its reader sees: those of its paragraphs and captions.
fn sentences(part: &str) -> Vec<String> {
    let inside = |tag: &str| {
        let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
        let texts = part.split(open.as_str()).skip(1).filter_map(|rest| rest.split(close.as_str()).next());
        texts.flat_map(|text| text.split_inclusive(". ").map(|one| one.trim().to_owned())).collect::<Vec<_>>()
    };
    ["p", "figcaption"].iter().flat_map(|tag| inside(tag)).collect()
}

/// Files that refer to nothing outside, in either colour scheme.
pub fn stand_alone(folder: &Path, names: &[&str]) {
    for name in names {
        let text = std::fs::read_to_string(folder.join(name)).unwrap();
        let rest = text.replace("http://www.w3.org/2000/svg", "");
        for outside in ["http:", "https:", "url(", "@import", "<script", "<link", "<img", "src="] {
            assert!(!rest.contains(outside), "{outside} in {name}");
        }
        assert!(text.contains("prefers-color-scheme:dark"), "{name}");
    }
}

#[test]
fn wrong_arguments_say_what_is_allowed() {
    let folder = tempdir().unwrap();
    let job = job_file(folder.path(), &corpus(16, 10, 20), "small");
    let cases: &[(&[&str], &str)] = &[
        (&["--documents", "0"], "--documents"),
        (&["--documents", "10,0"], "--documents"),
        (&["--documents", ""], "--documents"),
        (&["--documents", "many"], "--documents"),
        (&["--documents", "-5"], "--documents"),
        (&["--repeat", "0"], "--repeat"),
    ];
    for (arguments, named) in cases {
        // As one word, so that a leading dash is the value's.
        let argument = format!("{}={}", arguments[0], arguments[1]);
        resemblance().arg("compare").arg(&job).arg(argument).assert().code(2).stderr(
            predicate::str::contains(*named)
                .and(predicate::str::contains("expected a whole number of 1 or more")),
        );
    }
    std::fs::write(folder.path().join("file"), "").unwrap();
    let inside = folder.path().join("file/plots");
    resemblance()
        .arg("compare")
        .arg(&job)
        .arg("--plots")
        .arg(&inside)
        .assert()
        .code(3)
        .stderr(predicate::str::contains("--plots"));
    resemblance()
        .arg("compare")
        .arg(&job)
        .args(["--set", "shingle.size=100"])
        .assert()
        .code(3)
        .stderr(predicate::str::contains("no document that can be compared"));
}
