//! `output.pair_passages`: the longest passage of each pair, against a plain search.

use async_trait::async_trait;
use resemblance::output::manifest::File;

use crate::support::around::run_around;
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
    let [a, b, of_a, of_b, reference_b] =
        ["id_a", "id_b", "passage_a", "passage_b", "reference_b"].map(|column| strings(&pairs, column));
    for row in 0..pairs.num_rows() {
        let text_a = &own[&a[row]];
        let text_b = if reference_b[row] == "true" { &known[&b[row]] } else { &own[&b[row]] };
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
        let path = paths();
        let mut documents = corpus(seed, 120, 30);
        for (_, text) in documents.iter_mut().step_by(3) {
            *text = text.to_uppercase();
        }
        let (own, known) = documents.split_at(80);
        write_parquet(&path("own.parquet"), own, 30);
        write_parquet(&path("reference.parquet"), known, 30);
        let sets = [sets, &["output.pair_passages=true"]].concat();
        run(&job(&path("own.parquet"), &path("own"), &sets)).unwrap();
        let (own, known) = (by_id(own), by_id(known));
        assert!(check(&path("own"), &own, &known) > 20);

        // With documents of an earlier output, and of a second source.
        run(&job(&path("reference.parquet"), &path("reference"), &sets)).unwrap();
        let output = format!("against.output={:?}", path("reference").display().to_string());
        let against = [&sets[..], &[&output]].concat();
        run(&job(&path("own.parquet"), &path("against"), &against)).unwrap();
        let count = check(&path("against"), &own, &known);
        assert!(count > 40, "{count}");
        let source = second_source(path("reference.parquet"), "");
        let linked = [&sets[..], &[&source]].concat();
        run(&job(&path("own.parquet"), &path("linked"), &linked)).unwrap();
        assert_eq!(check(&path("linked"), &own, &known), count);
    }
}

#[test]
fn an_output_with_passages_is_reused_and_its_run_resumes() {
    let path = paths();
    let documents = corpus(9, 80, 30);
    write_parquet(&path("in.parquet"), &documents, 30);
    let sets = ["output.pair_passages=true", "output.keep=shingles"];
    run(&job(&path("in.parquet"), &path("whole"), &sets)).unwrap();
    let whole = table(&path("whole"), "pairs");
    stopping::same_rows(|name| job(&path("in.parquet"), &path(name), &sets), 2, &["pairs"]);
    resemblance().arg("verify").arg(path("whole")).assert().success();

    let reused = output_job_text(path("whole"), path("reused"), "output.pair_passages = true");
    std::fs::write(path("job.toml"), reused).unwrap();
    resemblance().args(["run", &path("job.toml").display().to_string()]).output().unwrap().shown(&[]);
    assert_eq!(table(&path("reused"), "pairs"), whole);
}

/// Remembers how many rows the batches of each stage have.
#[derive(Default)]
struct BatchRows(Mutex<BTreeMap<String, usize>>);

#[async_trait]
impl Hook for BatchRows {
    async fn run(&self, engine: &dyn Engine, call: Call<'_>) -> resemblance::error::Result<Vec<File>> {
        self.0.lock().unwrap().insert(call.stage.to_owned(), call.config.batch_size());
        call.run_on(engine).await
    }
}

/// A batch of a thousand pairs would hold their texts twice, which follows the texts and not the budget.
#[test]
fn long_texts_come_in_batches_of_few() {
    let path = paths();
    // Documents of 40 KB and of a few words, in groups of 10 that differ in one of them.
    let mut documents: Vec<Document> = Vec::new();
    for (group, length) in [(0, 1), (1, 400), (2, 1), (3, 400)] {
        let words: Vec<String> = (0..101).map(|at| format!("{:x>length$}", group * 1_000 + at)).collect();
        for member in 0..10 {
            let mut words = words.clone();
            words[51] = format!("w{member}");
            documents.push((format!("{group}-{member}"), words.join(" ")));
        }
    }
    write_parquet(&path("in.parquet"), &documents, 20);
    let mut rows = BTreeMap::new();
    for memory in ["64MiB", "8GiB"] {
        let sets = ["output.pair_passages=true", "engine.threads=2", &format!("engine.memory={memory}")];
        let job = job(&path("in.parquet"), &path(memory), &sets);
        let most = Local::new(session::session(&job.engine).unwrap()).bucket_bytes() / 4;
        let (ended, hook) = run_around(&job, OnExisting::Fail, BatchRows::default());
        ended.unwrap();
        let found = table(&path(memory), "pairs");
        assert_eq!(found.num_rows(), 4 * 45);
        let texts = by_id(&documents);
        // The first half, which is a word longer than the other one.
        for (id, passage) in strings(&found, "id_a").iter().zip(strings(&found, "passage_a")) {
            assert_eq!(passage, texts[id].split(' ').take(51).collect::<Vec<_>>().join(" "), "{id}");
        }
        let of_stage = hook.0.into_inner().unwrap();
        let longest = documents.iter().map(|(_, text)| text.len() as u64).max().unwrap();
        assert!(of_stage["pairs"] as u64 * 2 * longest <= most, "{of_stage:?}");
        assert_eq!(of_stage["members"], 1_024);
        rows.insert(memory, of_stage["pairs"]);
    }
    assert!(rows["64MiB"] < 20 && rows["8GiB"] == 1_024, "{rows:?}");
}
