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
fn check(output: &Path, own: &[Document], known: &[Document]) -> usize {
    let pairs = table(output, "pairs");
    let [own, known] =
        [own, known].map(|documents| documents.iter().cloned().collect::<BTreeMap<String, String>>());
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

#[test]
fn every_pair_has_the_longest_passage_of_its_texts() {
    let (prefix, kept) = ("candidates.method=prefix", "output.keep=shingles");
    for (seed, sets) in (0..).zip([
        &[][..],
        &[prefix, kept],
        &[prefix, "score.measure=containment", kept],
        &["candidates.method=all", "output.expand=star", kept],
    ]) {
        let scene = Scene::new(&[sets, &["output.pair_passages=true"]].concat());
        let mut documents = corpus(seed, 120, 30);
        documents.iter_mut().step_by(3).for_each(|(_, text)| *text = text.to_uppercase());
        let (own, known) = documents.split_at(80);
        scene.write("own.parquet", own);
        scene.write("reference.parquet", known);
        scene.run("own.parquet", "own", &[]);
        assert!(check(&scene.path("own"), own, known) > 20);

        // With documents of an earlier output, and of a second source.
        scene.run("reference.parquet", "reference", &[]);
        scene.run("own.parquet", "against", &[&scene.against(&["reference"])]);
        let count = check(&scene.path("against"), own, known);
        assert!(count > 40, "{count}");
        scene.run("own.parquet", "linked", &[&second_source(scene.path("reference.parquet"), "")]);
        assert_eq!(check(&scene.path("linked"), own, known), count);
    }
}

#[test]
fn an_output_with_passages_is_reused_and_its_run_resumes() {
    let scene = Scene::new(&["output.pair_passages=true", "output.keep=shingles"]);
    scene.write("in.parquet", &corpus(9, 80, 30));
    stopping::same_rows(|name| scene.job("in.parquet", name, &[]), 2, &["pairs"]);
    scene.command(&["verify", "undisturbed"]).assert().success();

    let reused =
        output_job_text(scene.path("undisturbed"), scene.path("reused"), "output.pair_passages = true");
    scene.run_text(&reused).success();
    let pairs_of = |output: &str| table(&scene.path(output), "pairs");
    assert_eq!(pairs_of("reused"), pairs_of("undisturbed"));
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
    let texts: BTreeMap<String, String> = documents.iter().cloned().collect();
    let scene = Scene::new(&["output.pair_passages=true", "engine.threads=2"]);
    scene.write("in.parquet", &documents);
    let mut rows = BTreeMap::new();
    for memory in ["64MiB", "8GiB"] {
        let job = scene.job("in.parquet", memory, &[&format!("engine.memory={memory}")]);
        let most = Local::new(session::session(&job.engine).unwrap()).bucket_bytes() / 4;
        let (ended, hook) = run_around(&job, OnExisting::Fail, BatchRows::default());
        ended.unwrap();
        let found = table(&scene.path(memory), "pairs");
        assert_eq!(found.num_rows(), 4 * 45);
        // The first half, which is a word longer than the other one.
        for (id, passage) in strings(&found, "id_a").iter().zip(strings(&found, "passage_a")) {
            assert_eq!(passage, texts[id].split(' ').take(51).collect::<Vec<_>>().join(" "), "{id}");
        }
        let of_stage = hook.0.into_inner().unwrap();
        let longest = documents.iter().map(|(_, text)| text.len() as u64).max().unwrap();
        assert!(of_stage["pairs"] as u64 * 2 * longest <= most, "{of_stage:?}");
        assert_eq!(of_stage["scores"], 1_024);
        rows.insert(memory, of_stage["pairs"]);
    }
    assert!(rows["64MiB"] < 20 && rows["8GiB"] == 1_024, "{rows:?}");
}
