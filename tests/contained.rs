//! `clusters.contained`: which documents stay and what is lost, against a comparison of every two documents.
//!
//! `RESEMBLANCE_CASES` is the number of corpora (24 without it), `RESEMBLANCE_SEED` the first seed.

mod definition;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::datatypes::{Float64Type, Int64Type};
use resemblance::job::Job;
use tempfile::{TempDir, tempdir};

use self::definition::{Expected, Sided, Spared, expected};
use crate::support::*;

/// Which pairs of documents there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Plain,
    Within,
    Across,
    /// A second source, with pairs of new documents.
    Second,
    /// A second source, without those.
    SecondAlone,
    /// The documents of an earlier output.
    Daily,
}

const MODES: [Mode; 6] =
    [Mode::Plain, Mode::Within, Mode::Across, Mode::Second, Mode::SecondAlone, Mode::Daily];

/// The settings of a case.
#[derive(Debug, Clone)]
pub struct Case {
    pub mode: Mode,
    pub by_representative: bool,
    pub keep: &'static str,
    pub threshold: f64,
    pub contained: f64,
    more: Vec<&'static str>,
}

fn one_of<T: Copy>(random: &mut Random, choices: &[T]) -> T {
    choices[random.below(choices.len())]
}

/// A case that finds every pair: bands of one row meet wherever two documents are half as similar as these thresholds.
fn case(seed: u64) -> Case {
    let mut random = Random(seed ^ 0xc0de);
    let mode = MODES[seed as usize % MODES.len()];
    let keep = match mode {
        Mode::Daily => {
            one_of(&mut random, &["['length desc', 'id', 'reference']", "['length asc', 'id', 'reference']"])
        }
        _ => one_of(
            &mut random,
            &["[]", "['length asc']", "['id', 'reference']", "['length desc', 'id', 'reference']"],
        ),
    };
    let lsh = ["lsh.bands=64", "lsh.rows=1", "minhash.permutations=64"];
    let mut more = match (random.below(3), mode) {
        (0, _) => vec!["candidates.method=all", "output.keep=shingles"],
        (1, _) => vec!["candidates.method=prefix", "output.keep=shingles", "output.max_expand=0"],
        _ => lsh.to_vec(),
    };
    more.push(one_of(&mut random, &["engine.threads=1", "engine.threads=3"]));
    if !more.contains(&"output.max_expand=0") {
        more.push(one_of(&mut random, &["output.expand=all", "output.expand=star", "output.max_expand=2"]));
    }
    Case {
        mode,
        by_representative: random.below(2) == 0,
        keep,
        threshold: one_of(&mut random, &[0.3, 0.4, 0.5, 0.7]),
        contained: one_of(&mut random, &[0.3, 0.6, 0.75, 0.9, 0.98, 1.0]),
        more,
    }
}

const GROUPS: [Option<&str>; 3] = [Some("north"), Some("south"), None];

/// Documents of different lengths: windows of long texts, copies, edited copies, and pieces of others.
fn documents(seed: u64, mode: Mode) -> Vec<Sided> {
    let mut random = Random(seed);
    let mut texts: Vec<Vec<String>> = Vec::new();
    for _ in 0..70 {
        let mut text: Vec<String> = match (random.below(5), texts.is_empty()) {
            (0, _) | (_, true) => {
                (0..12 + random.below(30)).map(|_| format!("w{}", random.below(3_000))).collect()
            }
            _ => texts[random.below(texts.len())].clone(),
        };
        match random.below(5) {
            // A copy.
            0 => {}
            // A piece of it, or with more at its end.
            1 => text.truncate(6 + random.below(text.len())),
            2 => text.extend((0..1 + random.below(9)).map(|_| format!("w{}", random.below(3_000)))),
            // The window moves on, so that chains arise.
            3 => {
                text.drain(..random.below(5).min(text.len() - 5));
                text.extend((0..random.below(5)).map(|_| format!("w{}", random.below(3_000))));
            }
            _ => {
                let at = random.below(text.len());
                text[at] = format!("w{}", random.below(3_000));
            }
        }
        texts.push(text);
    }
    let sided = |(at, words): (usize, Vec<String>)| {
        let reference = !matches!(mode, Mode::Plain | Mode::Within | Mode::Across) && at < 35;
        // In a second source ids are those of the source too.
        let id = if matches!(mode, Mode::Second | Mode::SecondAlone) { at % 35 } else { at };
        Sided {
            id: format!("d{id:03}"),
            reference,
            group: GROUPS[random.below(GROUPS.len())],
            shingles: shingles(&words.join(" "), 3),
            text: words.join(" "),
        }
    };
    texts.into_iter().enumerate().map(sided).collect()
}

fn write<'a>(path: &Path, documents: impl Iterator<Item = &'a Sided> + Clone) {
    let column = |of: fn(&Sided) -> Option<&str>| -> ArrayRef {
        Arc::new(StringArray::from_iter(documents.clone().map(of)))
    };
    let columns: [(&str, ArrayRef); 3] =
        [("id", column(|d| Some(&d.id))), ("text", column(|d| Some(&d.text))), ("shop", column(|d| d.group))];
    let columns = columns.into_iter().map(|(name, values)| (name, values, true));
    write_batch(path, &RecordBatch::try_from_iter_with_nullable(columns).unwrap(), 20);
}

/// A corpus in a folder.
struct Scene {
    folder: TempDir,
    documents: Vec<Sided>,
}

impl Scene {
    fn new(seed: u64, mode: Mode) -> Self {
        let (folder, documents) = (tempdir().unwrap(), documents(seed, mode));
        let of = |reference: bool| documents.iter().filter(move |d| d.reference == reference);
        write(&folder.path().join("own.parquet"), of(false));
        write(&folder.path().join("reference.parquet"), of(true));
        Self { folder, documents }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The job over the source, without `clusters.contained`.
    fn job(&self, case: &Case, source: &str, output: &str, further: &[String]) -> Job {
        let method = if case.by_representative { "representative" } else { "components" };
        let mut sets = vec![
            format!("score.threshold={}", case.threshold),
            format!("clusters.method={method}"),
            format!("clusters.keep={}", case.keep),
        ];
        sets.extend(case.more.iter().map(|set| (*set).to_owned()));
        match case.mode {
            Mode::Within => sets.extend(["source.group=shop".into(), "candidates.compare=within".into()]),
            Mode::Across => sets.extend(["source.group=shop".into(), "candidates.compare=across".into()]),
            _ => {}
        }
        sets.extend_from_slice(further);
        let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
        job(&self.path(source), &self.path(output), &sets)
    }

    /// What the job is run against.
    fn against(&self, case: &Case) -> Vec<String> {
        let source = second_source(self.path("reference.parquet"), "");
        match case.mode {
            Mode::Second => vec![source],
            Mode::SecondAlone => vec![source, "against.pairs=new-old".into()],
            Mode::Daily => vec![format!("against.output={:?}", self.path("first"))],
            Mode::Plain | Mode::Within | Mode::Across => Vec::new(),
        }
    }

    /// Runs the job of a case, after that of the earlier day.
    fn run(&self, case: &Case, output: &str, contained: Option<f64>) {
        let contained: Vec<String> =
            contained.iter().map(|share| format!("clusters.contained={share}")).collect();
        if case.mode == Mode::Daily && !self.path("first").exists() {
            run(&self.job(case, "reference.parquet", "first", &contained)).unwrap();
        }
        let further = [self.against(case), contained].concat();
        run(&self.job(case, "own.parquet", output, &further)).unwrap();
    }
}

/// The table spared of an output: by document and side.
fn spared(output: &Path) -> BTreeMap<(String, bool), Spared> {
    let rows = table(output, "spared");
    let float = |name: &str| rows.column_by_name(name).unwrap().as_primitive::<Float64Type>().clone();
    let lost = rows.column_by_name("lost_shingles").unwrap().as_primitive::<Int64Type>().clone();
    let (jaccard, containment) = (float("jaccard"), float("containment"));
    let reference = rows.column_by_name("reference").unwrap().as_boolean().clone();
    let (ids, of, reasons) =
        (strings(&rows, "id"), strings(&rows, "representative"), strings(&rows, "reason"));
    let found: BTreeMap<_, _> = (0..rows.num_rows())
        .map(|row| {
            let spared = Spared {
                representative: of[row].clone(),
                jaccard: jaccard.is_valid(row).then(|| jaccard.value(row)),
                containment: containment.is_valid(row).then(|| containment.value(row)),
                reason: reasons[row].clone(),
                lost: lost.is_valid(row).then(|| lost.value(row).unsigned_abs()),
            };
            ((ids[row].clone(), reference.value(row)), spared)
        })
        .collect();
    assert_eq!(found.len(), rows.num_rows(), "a document is there twice");
    found
}

/// The table spared_copies of an output: the document that stays instead of each.
fn copies(output: &Path) -> BTreeMap<(String, bool), (String, bool)> {
    let rows = table(output, "spared_copies");
    let flags =
        |name: &str| rows.column_by_name(name).unwrap().as_boolean().iter().flatten().collect::<Vec<_>>();
    let ends = |id: &str, of: &str| strings(&rows, id).into_iter().zip(flags(of));
    ends("id", "reference").zip(ends("kept_id", "kept_reference")).collect()
}

/// Holds the counts of a run against the definition.
fn check_counts(output: &Path, expected: &Expected, what: &str) {
    let counts = manifest(output).counts;
    let found = (counts.removed_documents, counts.lossy_removals, counts.lost_shingles);
    let wanted = (expected.removed.len() as u64, Some(expected.lossy), Some(expected.gone));
    assert_eq!(found, wanted, "{what}");
}

#[test]
fn random_cases_keep_what_the_definition_keeps() {
    let (mut by_reason, mut gone, mut lossy, mut copied) = (BTreeMap::<String, usize>::new(), 0, 0, 0);
    for seed in seeds(24) {
        let case = case(seed);
        let what = format!("seed {seed}: {case:?}");
        let scene = Scene::new(seed, case.mode);
        scene.run(&case, "out", Some(case.contained));
        let output = scene.path("out");
        let safe = expected(&scene.documents, &case, Some(case.contained));
        let found = spared(&output);
        assert_eq!(found, safe.spared, "{what}");
        assert_eq!(copies(&output), safe.copies, "{what}");
        copied += safe.copies.len();
        assert_eq!(manifest(&output).counts.spared, Some(found.len() as u64), "{what}");
        check_counts(&output, &safe, &what);
        for spared in found.into_values() {
            *by_reason.entry(spared.reason).or_default() += 1;
        }
        // The same without, which removes more.
        if case.mode != Mode::Daily {
            scene.run(&case, "unsafe", None);
            let all = expected(&scene.documents, &case, None);
            check_counts(&scene.path("unsafe"), &all, &what);
            assert_eq!(manifest(&scene.path("unsafe")).counts.spared, None);
            (gone, lossy) = (gone + all.gone, lossy + all.lossy);
        }
    }
    // Else the cases would prove nothing.
    let many = by_reason.len() == 2 && by_reason.values().all(|&times| times > 30);
    assert!(
        seeds(24).count() < 24 || many && gone > 100 && lossy > 30 && copied > 10,
        "{by_reason:?} {gone} {lossy} {copied}"
    );
}

/// The old text of `r` has all shingles of the new documents, and its new text does not.
#[test]
fn a_replaced_text_does_not_decide_what_is_contained_or_lost() {
    let words = |of: &str, count: usize| (0..count).map(|n| format!("{of}{n}")).collect::<Vec<_>>().join(" ");
    let (base, [x, y]) = (words("b", 60), ["x", "y"].map(|of| words(of, 4)));
    let old = format!("{base} {x} {} {base} {y} {}", words("z", 30), words("v", 5));
    let day = |texts: &[(&str, String)]| -> Vec<Document> {
        texts.iter().map(|(id, text)| (id.to_string(), text.clone())).collect()
    };
    let first = day(&[("r", old), ("s", words("s", 70))]);
    let texts = [
        ("r", format!("{base} {}", words("q", 5))),
        ("n1", format!("{base} {x}")),
        ("n2", format!("{base} {y}")),
    ];
    let second = day(&texts);
    let of = |at: usize| shingles(&second[at].1, 3);
    let gone: BTreeSet<String> = of(1).union(&of(2)).cloned().collect();
    let gone = gone.difference(&of(0)).count() as u64;
    for more in [
        &["output.keep=signatures"][..],
        &["output.keep=shingles"],
        &["output.keep=shingles", "candidates.method=prefix"],
    ] {
        let folder = tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        write_parquet(&path("1.parquet"), &first, 10);
        write_parquet(&path("2.parquet"), &second, 10);
        let sets = [&["score.threshold=0.7"][..], more].concat();
        run(&job(&path("1.parquet"), &path("one"), &sets)).unwrap();
        let against = format!("against.output={:?}", path("one"));
        let again = [&sets[..], &[against.as_str(), "against.same_id=replace"]].concat();
        run(&job(&path("2.parquet"), &path("two"), &again)).unwrap();
        let counts = manifest(&path("two")).counts;
        let found = (counts.removed_documents, counts.lossy_removals, counts.lost_shingles);
        assert_eq!(found, (2, Some(2), Some(gone)), "{more:?}");
        run(&job(&path("2.parquet"), &path("safe"), &[&again[..], &["clusters.contained=0.98"]].concat()))
            .unwrap();
        let ids: Vec<String> = spared(&path("safe")).into_keys().map(|(id, _)| id).collect();
        assert_eq!(ids, ["n1", "n2"], "{more:?}");
    }
}

/// The ids that an application removes, by its table.
fn removed(to: &Path) -> Vec<String> {
    let result: serde_json::Value =
        serde_json::from_slice(&std::fs::read(to.join("_resemblance/manifest.json")).unwrap()).unwrap();
    let mut ids = Vec::new();
    for file in result["removed"].as_array().unwrap() {
        let file = std::fs::File::open(to.join(file["path"].as_str().unwrap())).unwrap();
        let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        for batch in reader.build().unwrap() {
            ids.extend(strings(&batch.unwrap(), "id"));
        }
    }
    ids.sort();
    ids
}

fn apply(output: &Path, more: &[&str]) -> serde_json::Value {
    let ran = resemblance().arg("apply").arg(output).args(more).arg("--json").assert().success();
    serde_json::from_slice(&ran.get_output().stdout).unwrap()
}

#[test]
fn apply_removes_what_is_contained_by_the_job_or_by_its_option() {
    let mut differ = 0;
    for (seed, by_representative) in [(3, true), (5, false)] {
        let mut case = case(seed);
        (case.mode, case.by_representative, case.keep) = (Mode::Plain, by_representative, "[]");
        (case.threshold, case.contained, case.more) = (0.4, 0.9, vec!["candidates.method=all"]);
        let scene = Scene::new(seed, case.mode);
        scene.run(&case, "safe", Some(case.contained));
        scene.run(&case, "plain", None);
        let expected = |contained| expected(&scene.documents, &case, contained);
        let to = scene.path("to").display().to_string();
        let applied = apply(&scene.path("safe"), &["--to", &to]);
        let safe = expected(Some(0.9));
        assert_eq!(removed(&scene.path("to")), safe.removed);
        assert_eq!(applied["losses"]["spared"], safe.spared.len());
        assert_eq!(applied["losses"]["lossy_removals"], safe.lossy);
        assert_eq!(applied["losses"]["lost_shingles"], safe.gone);
        for share in [0.5, 0.9, 1.0] {
            let wanted = expected(Some(share));
            for output in ["safe", "plain"] {
                let (dry, option) = (format!("dry {share}"), format!("--contained={share}"));
                let dry = apply(&scene.path(output), &["--dry-run", &option, "--to", &dry]);
                let known = output == "safe" && share == 0.9;
                // Without the key copies of a spared document stay with it.
                let copies = if known { 0 } else { wanted.copies.len() };
                assert_eq!(dry["removed"], wanted.removed.len() - copies, "{output} {share}");
                assert_eq!(dry["losses"]["lossy_removals"], wanted.lossy, "{output} {share}");
                let gone = known.then_some(wanted.gone);
                assert_eq!(dry["losses"]["lost_shingles"], serde_json::json!(gone), "{output} {share}");
            }
            let to = scene.path(&format!("to {share}")).display().to_string();
            apply(&scene.path("plain"), &["--to", &to, &format!("--contained={share}")]);
            let stays = |id: &String| wanted.copies.contains_key(&(id.clone(), false));
            let without: Vec<String> = wanted.removed.iter().filter(|id| !stays(id)).cloned().collect();
            assert_eq!(removed(Path::new(&to)), without, "{share}");
            differ += wanted.copies.len() + expected(None).removed.len() - wanted.removed.len();
        }
    }
    assert!(differ > 30, "{differ}");
}

#[test]
fn annotated_documents_that_are_spared_represent_themselves() {
    let mut case = case(7);
    (case.mode, case.keep, case.threshold, case.contained) = (Mode::Plain, "[]", 0.4, 0.9);
    let scene = Scene::new(7, case.mode);
    scene.run(&case, "out", Some(case.contained));
    let to = scene.path("to").display().to_string();
    apply(&scene.path("out"), &["--to", &to, "--annotate"]);
    let expected = expected(&scene.documents, &case, Some(case.contained));
    let result: serde_json::Value =
        serde_json::from_slice(&std::fs::read(scene.path("to").join("_resemblance/manifest.json")).unwrap())
            .unwrap();
    let file = result["files"][0]["written"][0]["path"].as_str().unwrap();
    let file = std::fs::File::open(scene.path("to").join(file)).unwrap();
    let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let (mut own, mut others) = (0, 0);
    for batch in reader.build().unwrap() {
        let batch = batch.unwrap();
        let stays = batch.column_by_name("representative").unwrap().as_boolean().clone();
        let (ids, kept) = (strings(&batch, "id"), strings(&batch, "kept_id"));
        for row in (0..batch.num_rows()).filter(|&row| stays.is_valid(row)) {
            assert_eq!(stays.value(row), !expected.removed.contains(&ids[row]), "{}", ids[row]);
            assert_eq!(stays.value(row), kept[row] == ids[row], "{}", ids[row]);
            own += usize::from(expected.spared.contains_key(&(ids[row].clone(), false)));
            others += usize::from(!stays.value(row));
        }
    }
    assert!(own > 3 && others > 3 && others == expected.removed.len(), "{own} {others}");
}

#[test]
fn pairs_that_stars_leave_out_are_an_error_of_the_option_and_none_of_the_job() {
    let folder = tempdir().unwrap();
    let words = |n: usize| (0..n).map(|n| format!("w{n}")).collect::<Vec<_>>().join(" ");
    let texts = [words(30), words(30), words(30), words(26), words(26), words(26)];
    let documents: Vec<Document> = (0..).map(|n| format!("d{n}")).zip(texts).collect();
    write_parquet(&folder.path().join("in.parquet"), &documents, 10);
    let (input, output) = (folder.path().join("in.parquet"), folder.path().join("out"));
    run(&job(&input, &output, &["output.expand=star", "clusters.keep=['id desc']"])).unwrap();
    let ran =
        resemblance().arg("apply").arg(&output).args(["--dry-run", "--contained", "0.98"]).assert().code(2);
    let said = String::from_utf8_lossy(&ran.get_output().stderr).into_owned();
    assert!(said.contains("clusters.contained = 0.98") && said.contains("--contained"), "{said}");
    let safe = folder.path().join("safe");
    let sets = ["output.expand=star", "clusters.keep=['id desc']", "clusters.contained=0.98"];
    run(&job(&input, &safe, &sets)).unwrap();
    // d5 represents the cluster: its 24 shingles are a smaller share of the 28 of the first three.
    let kept: Vec<_> = spared(&safe).into_keys().map(|(id, _)| id).collect();
    assert_eq!(kept, ["d2"]);
    let copies = table(&safe, "spared_copies");
    assert_eq!(
        (strings(&copies, "id"), strings(&copies, "kept_id")),
        (vec!["d0".to_owned(), "d1".to_owned()], vec!["d2".to_owned(); 2],)
    );
}

#[test]
fn a_share_that_is_none_is_refused() {
    for share in ["0", "1.1", "-0.5", "nan"] {
        let text = job_text("in", "out").replace("[clusters]", &format!("[clusters]\ncontained = {share}"));
        let read = resemblance::job::file::read(&text, "test.toml", &[]);
        let error = read.and_then(resemblance::job::resolve).unwrap_err().to_string();
        assert!(error.contains("clusters.contained"), "{error}");
    }
}

#[test]
fn reuters_at_a_half_loses_what_all_pairs_say() {
    let Some(data) = real_data("reuters21578") else { return };
    let folder = tempdir().unwrap();
    let mut losses = Vec::new();
    for method in ["components", "representative"] {
        let output = folder.path().join(method);
        let sets: Vec<String> = [
            format!("source.url={}/", data.display()),
            format!("output.url={}", output.display()),
            "score.threshold=0.5".into(),
            "candidates.method=all".into(),
            "output.keep=shingles".into(),
            "clusters.contained=0.98".into(),
            format!("clusters.method={method}"),
        ]
        .into();
        run(&Job::load(repository("jobs/recipes/reuters.toml"), &sets).unwrap()).unwrap();
        let all = definition::of_output(&output, Some(0.98));
        assert_eq!(spared(&output), all.spared, "{method}");
        check_counts(&output, &all, method);
        let without = definition::of_output(&output, None);
        losses.push((method, without.removed.len(), without.lossy, without.gone, all.removed.len()));
    }
    eprintln!("Reuters at 0.5: (method, removed, lossy, lost shingles, removed with contained) {losses:?}");
}
