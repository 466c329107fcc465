//! Settings that meet: an output that one of them makes, read by what another one adds.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use resemblance::job::Job;
use serde_json::Value;
use tempfile::{TempDir, tempdir};

use crate::spans::spans;
use crate::support::s3::S3;
use crate::support::*;

/// Documents with a number and a group.
struct Scene {
    folder: TempDir,
    documents: Vec<Document>,
}

impl Scene {
    fn new(documents: Vec<Document>) -> Self {
        Self { folder: tempdir().unwrap(), documents }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes the documents for whose number `is_in` is true.
    fn write(&self, name: &str, is_in: impl Fn(usize) -> bool) {
        let rows: Vec<usize> = (0..self.documents.len()).filter(|&row| is_in(row)).collect();
        let text = |of: fn(&Document) -> &str| -> ArrayRef {
            Arc::new(StringArray::from_iter_values(rows.iter().map(|&row| of(&self.documents[row]))))
        };
        let columns: [(&str, ArrayRef); 4] = [
            ("id", text(|document| &document.0)),
            ("text", text(|document| &document.1)),
            ("number", Arc::new(Int64Array::from_iter_values(rows.iter().map(|&row| row as i64)))),
            ("site", Arc::new(StringArray::from_iter_values(rows.iter().map(|row| format!("s{}", row % 3))))),
        ];
        write_batch(&self.path(name), &RecordBatch::try_from_iter(columns).unwrap(), 20);
    }

    fn run(&self, source: &str, output: &str, sets: &[&str]) -> Job {
        let job = job(&self.path(source), &self.path(output), sets);
        run(&job).unwrap();
        job
    }
}

fn printed(command: &str, output: &Path, more: &[&str]) -> Value {
    let printed = resemblance().arg(command).arg(output).args(more).arg("--json").assert().success();
    serde_json::from_slice(&printed.get_output().stdout).unwrap()
}

/// Rows of a table in which a column of booleans has this value.
fn with(batch: &RecordBatch, column: &str, value: bool) -> usize {
    let column = batch.column_by_name(column).unwrap().as_boolean().clone();
    (0..column.len()).filter(|&row| column.value(row) == value).count()
}

#[test]
fn every_kind_of_output_has_a_report_with_the_numbers_of_its_tables() {
    let scene = Scene::new(corpus(81, 240, 25));
    scene.write("all.parquet", |_| true);
    scene.write("one.parquet", |row| row < 140);
    scene.write("two.parquet", |row| row >= 140);
    scene.run("one.parquet", "one", &["output.keep=shingles"]);
    let known = format!("against.output={:?}", scene.path("one").display().to_string());
    let source = format!(
        "against.source={{ format = 'parquet', url = {:?}, id = 'id', text = 'text' }}",
        scene.path("one.parquet").display().to_string()
    );
    scene.run("all.parquet", "groups", &["source.group=site"]);
    scene.run("all.parquet", "where", &["source.where='number % 4 <> 1'"]);
    scene.run("all.parquet", "contained", &["clusters.contained=0.9"]);
    let last = scene.run("two.parquet", "outputs", &[&known, "output.keep=shingles"]);
    scene.run("two.parquet", "source", &[&source]);
    let outputs = ["one", "outputs"].map(|name| scene.path(name).display().to_string()).to_vec();
    run(&Job::of_merge(outputs, &last, &scene.path("merged").display().to_string())).unwrap();
    for name in ["groups", "where", "contained", "outputs", "source", "merged"] {
        let output = scene.path(name);
        let page = scene.path("page.html");
        let report = printed("report", &output, &["--to", page.to_str().unwrap()]);
        let clusters = table(&output, "clusters");
        let ids: BTreeSet<String> = strings(&clusters, "cluster_id").into_iter().collect();
        let of = |what: &str| report["numbers"][what].as_u64().unwrap() as usize;
        assert_eq!(of("documents"), table(&output, "documents").num_rows(), "{name}");
        assert_eq!(of("pairs"), table(&output, "pairs").num_rows(), "{name}");
        assert_eq!(of("clusters"), ids.len(), "{name}");
        assert!(of("pairs") > 20, "{name}: {}", of("pairs"));
        let html = std::fs::read_to_string(&page).unwrap();
        assert!(html.contains("</html>") && html.len() < 3 << 20, "{name}");
    }
    // What stays besides the representatives is not removed.
    let (contained, removed) =
        (scene.path("contained"), |report: &Value| report["numbers"]["removed"].as_u64());
    let goes = with(&table(&contained, "clusters"), "representative", false);
    let stays = table(&contained, "spared").num_rows();
    assert!(stays > 0);
    assert_eq!(removed(&printed("report", &contained, &[])), Some((goes - stays) as u64));
}

/// Documents with lines of a few words, and some lines repeat.
fn lines(seed: u64, count: usize) -> Vec<Document> {
    let mut random = Random(seed);
    let line = |random: &mut Random, number: usize| match random.below(3) {
        0 => format!("A line that number {} has too", random.below(6)),
        _ => format!("Only here {number} {}", random.below(1 << 30)),
    };
    (0..count)
        .map(|number| {
            let lines: Vec<String> = (0..3 + random.below(5)).map(|_| line(&mut random, number)).collect();
            (format!("d{number:03}"), lines.join("\n"))
        })
        .collect()
}

#[test]
fn rows_that_are_left_out_have_no_part_in_passages() {
    let scene = Scene::new(lines(82, 90));
    scene.write("all.parquet", |_| true);
    scene.write("part.parquet", |row| row % 3 != 1);
    for unit in [&["passages.unit=line"][..], &["passages.unit=word", "passages.length=6"]] {
        scene.run("all.parquet", "all", unit);
        scene.run("all.parquet", "where", &[unit, &["source.where='number % 3 <> 1'"]].concat());
        scene.run("part.parquet", "part", unit);
        let found = spans(&scene.path("where"));
        assert_eq!(found, spans(&scene.path("part")), "{unit:?}");
        assert!(
            found.len() > 20 && found.len() < spans(&scene.path("all")).len(),
            "{unit:?}: {}",
            found.len()
        );

        // A sample: the passages of the documents that are drawn.
        scene.run("all.parquet", "limit", &[unit, &["source.limit=40"]].concat());
        let drawn: BTreeSet<String> =
            strings(&table(&scene.path("limit"), "documents"), "id").into_iter().collect();
        assert_eq!(drawn.len(), 40);
        scene.write("drawn.parquet", |row| drawn.contains(&scene.documents[row].0));
        scene.run("drawn.parquet", "drawn", unit);
        assert_eq!(spans(&scene.path("limit")), spans(&scene.path("drawn")), "{unit:?}");
        for output in ["all", "where", "part", "limit", "drawn"] {
            std::fs::remove_dir_all(scene.path(output)).unwrap();
        }
    }
}

#[test]
fn levels_and_what_stays_for_its_own_words_do_not_change_each_other() {
    let scene = Scene::new(corpus(83, 200, 25));
    scene.write("in.parquet", |_| true);
    let levels = "clusters.thresholds=[0.6, 0.9]";
    let contained = "clusters.contained=0.9";
    scene.run("in.parquet", "levels", &["score.threshold=0.6", levels]);
    scene.run("in.parquet", "contained", &["score.threshold=0.6", contained]);
    scene.run("in.parquet", "both", &["score.threshold=0.6", levels, contained]);
    let both = |table_of: &str, of: &str| {
        let (one, other) = (table(&scene.path("both"), table_of), table(&scene.path(of), table_of));
        assert_eq!(one, other, "{table_of}");
        assert!(one.num_rows() > 0, "{table_of}");
    };
    both("cluster_levels", "levels");
    both("spared", "contained");
    both("clusters", "contained");
}

#[test]
fn the_rows_that_are_left_out_are_not_evaluated() {
    let scene = Scene::new(corpus(84, 260, 25));
    scene.write("all.parquet", |_| true);
    scene.write("part.parquet", |row| row % 4 != 2);
    scene.run("all.parquet", "where", &["source.where='number % 4 <> 2'"]);
    scene.run("part.parquet", "part", &[]);
    let of = |output: &str| printed("evaluate", &scene.path(output), &["--sample", "1000"]);
    let (found, expected) = (of("where"), of("part"));
    assert!(found["recall"]["pairs"]["value"].as_f64().unwrap() > 0.9, "{found}");
    assert_eq!(found["recall"], expected["recall"]);
    assert_eq!(found["wrong_pairs"], expected["wrong_pairs"]);
}

/// The pairs at 0.5 whose documents share `least` shingles, or all that one of them has, by comparing every two documents; `is_compared`
/// has the rows of two documents.
fn sharing(
    documents: &[Document],
    least: usize,
    is_compared: impl Fn(usize, usize) -> bool,
) -> BTreeSet<(String, String)> {
    let sets: Vec<BTreeSet<String>> = documents.iter().map(|(_, text)| shingles(text, 3)).collect();
    let mut found = BTreeSet::new();
    for a in 0..sets.len() {
        for b in a + 1..sets.len() {
            let (shared, smaller) =
                (sets[a].intersection(&sets[b]).count(), sets[a].len().min(sets[b].len()));
            let union = sets[a].len() + sets[b].len() - shared;
            if is_compared(a, b) && 2 * shared >= union && shared >= smaller.min(least) {
                found.insert((documents[a].0.clone(), documents[b].0.clone()));
            }
        }
    }
    found
}

/// Documents of different lengths.
fn of_many_lengths(seed: u64, count: usize) -> Vec<Document> {
    let mut random = Random(seed);
    let mut documents = corpus(seed, count, 16);
    for (_, text) in &mut documents {
        let words: Vec<&str> = text.split(' ').collect();
        *text = words[random.below(5)..words.len() - random.below(5)].join(" ");
    }
    documents
}

#[test]
fn the_least_number_of_shared_shingles_holds_in_groups_and_in_merged_outputs() {
    const LEAST: &str = "score.min_shared=8";
    let scene = Scene::new(of_many_lengths(85, 240));
    let found = |output: &str| pairs(&scene.path(output)).into_keys().collect::<BTreeSet<_>>();
    scene.write("all.parquet", |_| true);
    let every = sharing(&scene.documents, 0, |_, _| true);
    for (compare, is_compared) in [("within", true), ("across", false)] {
        let method = ["candidates.method=prefix", "source.group=site"];
        let compare = format!("candidates.compare={compare}");
        scene.run("all.parquet", &compare, &[&method[..], &[&compare, LEAST]].concat());
        let expected = sharing(&scene.documents, 8, |a, b| (a % 3 == b % 3) == is_compared);
        assert_eq!(found(&compare), expected, "{compare}");
        assert!(expected.len() > 20 && expected.len() < every.len(), "{compare}: {}", expected.len());
    }

    scene.write("one.parquet", |row| row < 130);
    scene.write("two.parquet", |row| row >= 130);
    let sets = ["candidates.method=prefix", LEAST, "output.keep=shingles"];
    scene.run("one.parquet", "one", &sets);
    let known = format!("against.output={:?}", scene.path("one").display().to_string());
    let last = scene.run("two.parquet", "two", &[&sets[..], &[&known]].concat());
    let outputs = ["one", "two"].map(|name| scene.path(name).display().to_string()).to_vec();
    run(&Job::of_merge(outputs, &last, &scene.path("merged").display().to_string())).unwrap();
    let expected = sharing(&scene.documents, 8, |_, _| true);
    assert_eq!(found("merged"), expected);
    assert!(expected.len() < every.len());
}

/// Two days and the output that both become.
fn merged_days(scene: &Scene) {
    scene.write("one.parquet", |row| row < 130);
    scene.write("two.parquet", |row| row >= 130);
    scene.run("one.parquet", "one", &[AS_ONE_RUN]);
    let known = format!("against.output={:?}", scene.path("one").display().to_string());
    let last = scene.run("two.parquet", "two", &[AS_ONE_RUN, &known]);
    let outputs = ["one", "two"].map(|name| scene.path(name).display().to_string()).to_vec();
    run(&Job::of_merge(outputs, &last, &scene.path("merged").display().to_string())).unwrap();
}

#[test]
fn pairs_of_a_merged_output_are_drawn_with_the_texts_of_their_days() {
    let scene = Scene::new(corpus(86, 240, 25));
    merged_days(&scene);
    let pack = scene.path("pack");
    printed("evaluate", &scene.path("merged"), &["--audit", "60", "--to", pack.to_str().unwrap()]);
    let file = std::fs::File::open(pack.join("audit.parquet")).unwrap();
    let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let batches: Vec<RecordBatch> = reader.build().unwrap().map(Result::unwrap).collect();
    let rows = arrow::compute::concat_batches(&batches[0].schema(), &batches).unwrap();
    assert_eq!(rows.num_rows(), 60);
    let texts: BTreeMap<String, String> = scene.documents.iter().cloned().collect();
    let number = |id: &str| id[1..].parse::<usize>().unwrap();
    let (mut both, jaccard) = (0, floats(&rows, "jaccard"));
    let column = |name: &str| strings(&rows, name);
    let (a, b) = (column("id_a"), column("id_b"));
    let (text_a, text_b) = (column("text_a"), column("text_b"));
    for row in 0..rows.num_rows() {
        assert_eq!((&text_a[row], &text_b[row]), (&texts[&a[row]], &texts[&b[row]]));
        let (of_a, of_b) = (shingles(&text_a[row], 3), shingles(&text_b[row], 3));
        let shared = of_a.intersection(&of_b).count() as f64;
        assert_eq!(jaccard[row], shared / (of_a.len() as f64 + of_b.len() as f64 - shared));
        both += usize::from((number(&a[row]) < 130) != (number(&b[row]) < 130));
    }
    assert!(both > 5, "{both} pairs of two days");
}

#[test]
fn the_sizes_of_a_merged_output_are_those_of_its_clusters() {
    let scene = Scene::new(corpus(87, 240, 25));
    merged_days(&scene);
    let clean = scene.path("clean");
    let mut apply = resemblance();
    apply.arg("apply").arg(scene.path("merged")).arg("--to").arg(&clean).args(["--columns", "cluster_size"]);
    apply.assert().success();
    let clusters = table(&scene.path("merged"), "clusters");
    let mut members = BTreeMap::<String, u64>::new();
    strings(&clusters, "cluster_id").into_iter().for_each(|id| *members.entry(id).or_default() += 1);
    let represents: BTreeMap<String, u64> = strings(&clusters, "id")
        .into_iter()
        .zip(strings(&clusters, "cluster_id"))
        .zip(strings(&clusters, "representative"))
        .filter(|(_, representative)| representative == "true")
        .map(|((id, cluster), _)| (id, members[&cluster]))
        .collect();
    let mut kept = 0;
    for day in ["one.parquet", "two.parquet"] {
        let file = std::fs::File::open(clean.join(day)).unwrap();
        let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        for batch in reader.build().unwrap().map(Result::unwrap) {
            for (id, size) in strings(&batch, "id").into_iter().zip(numbers(&batch, "cluster_size")) {
                assert_eq!(size, represents.get(&id).copied().unwrap_or(1), "{id}");
                kept += size;
            }
        }
    }
    assert_eq!(kept, 240);
    assert!(represents.len() > 20);
}

#[test]
fn a_report_of_an_object_store_is_that_of_the_disk() {
    let server = S3::start();
    let scene = Scene::new(corpus(88, 160, 25));
    scene.write("in.parquet", |_| true);
    scene.run("in.parquet", "out", &["output.keep=shingles"]);
    server.put("in.parquet", std::fs::read(scene.path("in.parquet")).unwrap());
    let job = job_text(server.url("in.parquet"), server.url("out"));
    std::fs::write(scene.path("job.toml"), job).unwrap();
    let with_store = || {
        let mut command = resemblance();
        command.envs(server.env());
        command
    };
    with_store()
        .args(["run", "--set", "output.keep=shingles"])
        .arg(scene.path("job.toml"))
        .assert()
        .success();
    let page = scene.path("page.html");
    let of_store =
        with_store().args(["report", &server.url("out"), "--json", "--to"]).arg(&page).assert().success();
    let of_store: Value = serde_json::from_slice(&of_store.get_output().stdout).unwrap();
    let of_disk = printed("report", &scene.path("out"), &["--to", scene.path("disk.html").to_str().unwrap()]);
    assert_eq!(of_store["numbers"], of_disk["numbers"]);
    assert!(of_store["numbers"]["pairs"].as_u64().unwrap() > 20);
    assert!(std::fs::read_to_string(&page).unwrap().contains("</html>"));
}

#[test]
fn passages_without_compared_documents_are_marked_and_dropped() {
    let scene = Scene::new(lines(89, 120));
    scene.write("in.parquet", |_| true);
    scene.run("in.parquet", "out", &["candidates.method=none", "passages.unit=line", "passages.min_words=1"]);
    let goes: BTreeMap<String, usize> = spans(&scene.path("out")).into_iter().filter(|span| !span.kept).fold(
        Default::default(),
        |mut goes, span| {
            *goes.entry(span.id).or_default() += span.words;
            goes
        },
    );
    assert!(goes.len() > 20 && goes.len() < 120, "{}", goes.len());
    let rows = |mode: &str, more: &[&str]| {
        let to = scene.path(mode);
        let mut apply = resemblance();
        apply.arg("apply").arg(scene.path("out")).arg("--to").arg(&to).args(["--passages", mode]).args(more);
        apply.assert().success();
        let file = std::fs::File::open(to.join("in.parquet")).unwrap();
        let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        let batches: Vec<RecordBatch> = reader.build().unwrap().map(Result::unwrap).collect();
        arrow::compute::concat_batches(&batches[0].schema(), &batches).unwrap()
    };
    // Marked rows are all there, with the same texts.
    let marked = rows("mark", &[]);
    let texts = |batch: &RecordBatch| strings(batch, "id").into_iter().zip(strings(batch, "text"));
    assert_eq!(texts(&marked).collect::<Vec<_>>(), scene.documents);
    // A document that keeps too few words goes whole.
    let dropped = rows("drop", &["--min-words", "6"]);
    let words = |text: &str| text.split_whitespace().count();
    let expected: BTreeSet<String> = scene
        .documents
        .iter()
        .filter(|(id, text)| !goes.contains_key(id) || words(text) - goes[id] >= 6)
        .map(|(id, _)| id.clone())
        .collect();
    assert_eq!(strings(&dropped, "id").into_iter().collect::<BTreeSet<_>>(), expected);
    assert!(expected.len() > 20 && expected.len() < 120, "{}", expected.len());
}
