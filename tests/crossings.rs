//! Settings that meet: an output that one of them makes, read by what another one adds.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use resemblance::job::Job;
use serde_json::Value;
use tempfile::{TempDir, tempdir};

use crate::spans::spans;
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
