//! `output.passages`: the longest passage of each pair, against a plain search.

use std::collections::BTreeMap;
use std::path::Path;

use resemblance::pipeline::OnExisting;
use tempfile::tempdir;

use crate::support::stopping;
use crate::support::*;

/// The words of the longest run that two texts of words between spaces have in common.
fn longest(a: &str, b: &str) -> usize {
    let (a, b): (Vec<&str>, Vec<&str>) = (a.split(' ').collect(), b.split(' ').collect());
    let mut longest = 0;
    let mut before = vec![0; b.len() + 1];
    for word in &a {
        let mut now = vec![0; b.len() + 1];
        for (at, other) in b.iter().enumerate() {
            if word == other {
                now[at + 1] = before[at] + 1;
                longest = longest.max(now[at + 1]);
            }
        }
        before = now;
    }
    longest
}

/// Holds the passages of an output against the texts: how many pairs there are.
fn check(output: &Path, own: &BTreeMap<String, String>, known: &BTreeMap<String, String>) -> usize {
    let pairs = table(output, "pairs");
    let [a, b, of_a, of_b, known_b] =
        ["id_a", "id_b", "passage_a", "passage_b", "known_b"].map(|column| strings(&pairs, column));
    for row in 0..pairs.num_rows() {
        let text_a = &own[&a[row]];
        let text_b = if known_b[row] == "true" { &known[&b[row]] } else { &own[&b[row]] };
        assert!(text_a.contains(&of_a[row]) && text_b.contains(&of_b[row]), "{} {}", a[row], b[row]);
        assert_eq!(of_a[row].to_lowercase(), of_b[row].to_lowercase());
        let words = of_a[row].split(' ').count();
        assert_eq!(words, longest(&text_a.to_lowercase(), &text_b.to_lowercase()), "{} {}", a[row], b[row]);
    }
    pairs.num_rows()
}

fn by_id(documents: &[Document]) -> BTreeMap<String, String> {
    documents.iter().cloned().collect()
}

#[test]
fn every_pair_has_the_longest_passage_of_its_texts() {
    for (seed, sets) in (0..).zip([
        &[][..],
        &["candidates.method=prefix", "output.keep=shingles"],
        &["candidates.method=prefix", "score.measure=containment", "output.keep=shingles"],
        &["candidates.method=all", "output.expand=star", "output.keep=shingles"],
    ]) {
        let folder = tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let mut documents = corpus(seed, 120, 30);
        for (_, text) in documents.iter_mut().step_by(3) {
            *text = text.to_uppercase();
        }
        let (own, known) = documents.split_at(80);
        write_parquet(&path("own.parquet"), own, 30);
        write_parquet(&path("known.parquet"), known, 30);
        let sets = [sets, &["output.passages=true"]].concat();
        run(&job(&path("own.parquet"), &path("own"), &sets)).unwrap();
        let (own, known) = (by_id(own), by_id(known));
        assert!(check(&path("own"), &own, &known) > 20);

        // Beside documents of an earlier output, and of a second source.
        run(&job(&path("known.parquet"), &path("known"), &sets)).unwrap();
        let output = format!("against.output={:?}", path("known").display().to_string());
        let against = [&sets[..], &[&output]].concat();
        run(&job(&path("own.parquet"), &path("against"), &against)).unwrap();
        let count = check(&path("against"), &own, &known);
        assert!(count > 40, "{count}");
        let source = format!(
            "against.source={{ format = 'parquet', url = {:?}, id = 'id', text = 'text' }}",
            path("known.parquet").display()
        );
        let linked = [&sets[..], &[&source]].concat();
        run(&job(&path("own.parquet"), &path("linked"), &linked)).unwrap();
        assert_eq!(check(&path("linked"), &own, &known), count);
    }
}

#[test]
fn an_output_with_passages_is_used_again_and_its_run_taken_up() {
    let folder = tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let documents = corpus(9, 80, 30);
    write_parquet(&path("in.parquet"), &documents, 30);
    let sets = ["output.passages=true", "output.keep=shingles"];
    run(&job(&path("in.parquet"), &path("whole"), &sets)).unwrap();
    let whole = table(&path("whole"), "pairs");
    let mut stops = 0;
    for at in (0..).step_by(2) {
        let job = job(&path("in.parquet"), &path(&format!("stopped{at}")), &sets);
        if !stopping::run_until(&job, OnExisting::Fail, at).1 {
            break;
        }
        stops += 1;
        run(&job).unwrap();
        assert_eq!(table(&path(&format!("stopped{at}")), "pairs"), whole, "stopped at plan {at}");
    }
    assert!(stops > 3, "{stops}");
    assert!(
        resemblance()
            .args(["verify", &path("whole").display().to_string()])
            .output()
            .unwrap()
            .status
            .success()
    );

    let reused = format!(
        "source = {{ format = \"output\", url = {:?} }}\nscore.threshold = 0.5\n[output]\nurl = {:?}\npassages = true\n",
        path("whole").display().to_string(),
        path("reused").display().to_string()
    );
    std::fs::write(path("job.toml"), reused).unwrap();
    let ran = resemblance().args(["run", &path("job.toml").display().to_string()]).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(table(&path("reused"), "pairs"), whole);
}

#[test]
fn the_job_that_finds_leaked_questions_finds_them() {
    let folder = tempdir().unwrap();
    let out = folder.path().join("out").display().to_string();
    let ran = resemblance()
        .current_dir(repository(""))
        .args(["run", "jobs/decontaminate.toml", "--set", &format!("output.url={out}")])
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let pairs = table(folder.path().join("out").as_path(), "pairs");
    let found: Vec<_> = strings(&pairs, "id_a").into_iter().zip(strings(&pairs, "id_b")).collect();
    let expected = [("t1", "q1"), ("t3", "q2"), ("t5", "q1")];
    assert_eq!(found, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
    assert_eq!(
        strings(&pairs, "passage_a")[0],
        "Which metal is liquid at room temperature, and was once used in thermometers? Mercury"
    );
    assert_eq!(
        strings(&pairs, "passage_a")[1],
        "In which year did the first railway between two large towns carry passengers by steam? 1830"
    );
    let rejects = table(folder.path().join("out").as_path(), "known_rejects");
    assert_eq!(strings(&rejects, "id"), ["q4"]);
}
