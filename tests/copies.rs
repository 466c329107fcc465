//! Copies in runs of every kind, against a brute force: which documents are copies of each other changes no pair, no cluster, no
//! count, and nothing that `apply` keeps.
//!
//! `RESEMBLANCE_COPIES_CASES` is the number of cases (16 without it), `RESEMBLANCE_COPIES_SEED` the first seed.

mod naive;
mod settings;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::datatypes::Float64Type;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use resemblance::job::Job;
use tempfile::{TempDir, tempdir};

use self::naive::{Document, Documents, Name, Row, answer, jaccard};
use self::settings::{Compare, From, Settings};
use crate::support::*;

/// A document as it is in a file: its id, its text and its group.
type Text = (String, String, Option<&'static str>);

/// Cases that are tried where no number is given.
const CASES: u64 = 16;

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |value| value.parse().unwrap())
}

/// What the cases of a test had in them, so that none passes for want of copies.
#[derive(Debug, Default)]
struct Seen {
    /// Pairs of documents with the same shingles, and copies that are not a pair.
    pairs_of_copies: usize,
    other_copies: usize,
    /// Pairs that stars leave out.
    left_out: usize,
    replaced: usize,
    removed: usize,
    superseded: usize,
    indirect: usize,
}

/// The half of the cases that one of two tests takes, which run side by side.
fn cases(half: u64) {
    let first = number("RESEMBLANCE_COPIES_SEED", 1);
    let all = number("RESEMBLANCE_COPIES_CASES", CASES);
    let mut seen = Seen::default();
    for seed in (first..first + all).filter(|seed| seed % 2 == half) {
        Case::new(seed).run(&mut seen);
    }
    let Seen { pairs_of_copies, other_copies, removed, .. } = seen;
    assert!(
        all < CASES || pairs_of_copies > 10 && other_copies > 10 && removed > 10,
        "these cases try too little: {seen:?}"
    );
    eprintln!("{half}: {seen:?}");
}

#[test]
fn random_cases_of_odd_seeds() {
    cases(1);
}

#[test]
fn random_cases_of_even_seeds() {
    cases(0);
}

struct Case {
    seed: u64,
    settings: Settings,
    folder: TempDir,
    random: Random,
    /// Ids so far.
    ids: usize,
}

impl Case {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let settings = Settings::new(seed, &mut random);
        Self { seed, settings, folder: tempdir().unwrap(), random, ids: 0 }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(mut self, seen: &mut Seen) {
        match self.settings.from {
            From::OneRun => self.one_run(seen),
            From::TwoSources => self.two_sources(seen),
            From::Days | From::Replaced | From::Skipped => self.days(seen),
        }
    }

    fn one_run(&mut self, seen: &mut Seen) {
        let texts = self.texts(30);
        self.write("in", &texts);
        run(&self.job("in", "out", &[])).unwrap_or_else(|error| panic!("{error:?}: {}", self.what()));
        let mut documents = Documents::new();
        self.add(&mut documents, &texts, 0);
        self.check("out", &documents, 0, true, seen);
        self.check_apply("out", &texts, seen);
    }

    fn two_sources(&mut self, seen: &mut Seen) {
        let (texts, mut known) = (self.texts(16), self.texts(16));
        // An id may be in both sources.
        let share_ids = self.random.below(2) == 0;
        if share_ids {
            for (text, own) in known.iter_mut().zip(&texts) {
                text.0.clone_from(&own.0);
            }
        }
        self.write("in", &texts);
        self.write("second", &known);
        let source = second_source(self.path("second.parquet"), ", group = 'shop'");
        let mut sets = vec![source.as_str()];
        if self.settings.new_old {
            sets.push("against.pairs=new-old");
        }
        run(&self.job("in", "out", &sets)).unwrap_or_else(|error| panic!("{error:?}: {}", self.what()));
        let mut documents = Documents::new();
        self.add(&mut documents, &texts, 0);
        documents.values_mut().for_each(|document| document.place = 1);
        for (id, text, group) in &known {
            let set = shingles(text, self.settings.size);
            if !set.is_empty() {
                documents.insert((true, id.clone()), Document { set, group: *group, run: 0, place: 0 });
            }
        }
        self.check("out", &documents, 0, false, seen);
        if !share_ids {
            self.check_apply("out", &texts, seen);
        }
    }

    fn days(&mut self, seen: &mut Seen) {
        let last = 2;
        let mut documents = Documents::new();
        // Documents that do not represent the last cluster that they were in.
        let mut removed: BTreeSet<String> = BTreeSet::new();
        let mut jobs: Vec<Job> = Vec::new();
        let days: Vec<Vec<Text>> = (0..=last).map(|_| self.texts(11)).collect();
        for (day, mut texts) in days.into_iter().enumerate() {
            let same_id = match self.settings.from {
                _ if day == 0 => "",
                From::Replaced => "replace",
                From::Skipped => "skip",
                _ => "",
            };
            if !same_id.is_empty() {
                self.repeat_ids(&mut texts, &documents);
            }
            let before = documents.clone();
            for text in &texts {
                let name = (false, text.0.clone());
                let is_known = before.contains_key(&name);
                let set = shingles(&text.1, self.settings.size);
                // What cannot be compared replaces nothing.
                if !set.is_empty() && (!is_known || same_id == "replace") {
                    removed.remove(&name.1);
                    documents.insert(name, Document { set, group: text.2, run: day, place: day });
                    seen.replaced += usize::from(is_known);
                }
            }
            let (source, output) = (format!("day{day}"), format!("out{day}"));
            self.write(&source, &texts);
            let known: Vec<PathBuf> = (0..day).map(|day| self.path(&format!("out{day}"))).collect();
            let (known, same_id) =
                (format!("against.output={known:?}"), format!("against.same_id={same_id}"));
            let mut sets = Vec::new();
            if day > 0 {
                sets.push(known.as_str());
            }
            if !same_id.ends_with('=') {
                sets.push(same_id.as_str());
            }
            // What is merged has all pairs.
            let new_old = self.settings.new_old;
            self.settings.new_old = new_old && day == last;
            if self.settings.new_old {
                sets.push("against.pairs=new-old");
            }
            let job = self.job(&source, &output, &sets);
            run(&job).unwrap_or_else(|error| panic!("{error:?}: {}", self.what()));
            for ((_, id), document) in documents.iter_mut().filter(|(_, document)| document.run < day) {
                // Behind the new documents, which are in no other result.
                document.place = if removed.contains(id) { day + 1 } else { document.run };
            }
            self.check(&output, &documents, day, day == 0, seen);
            let clusters = table(&self.path(&output), "clusters");
            let represents = clusters.column_by_name("representative").unwrap().as_boolean().clone();
            for (row, id) in strings(&clusters, "id").into_iter().enumerate() {
                match represents.value(row) {
                    true => removed.remove(&id),
                    false => removed.insert(id),
                };
            }
            self.settings.new_old = new_old;
            self.check_apply(&output, &texts, seen);
            jobs.push(job);
        }
        if self.settings.new_old {
            return;
        }
        let outputs = (0..=last).map(|day| self.path(&format!("out{day}")).display().to_string()).collect();
        let merged = Job::of_merge(outputs, &jobs[last], &self.path("merged").display().to_string());
        run(&merged).unwrap_or_else(|error| panic!("{error:?}: {}", self.what()));
        for ((_, id), document) in &mut documents {
            (document.run, document.place) = (0, usize::from(removed.contains(id)));
        }
        self.check("merged", &documents, 0, true, seen);
    }

    fn what(&self) -> String {
        format!("seed {}, {:?}", self.seed, self.settings)
    }

    fn job(&self, source: &str, output: &str, sets: &[&str]) -> Job {
        let keys = self.settings.keys();
        let sets: Vec<&str> = keys.iter().map(String::as_str).chain(sets.iter().copied()).collect();
        job(&self.path(&format!("{source}.parquet")), &self.path(output), &sets)
    }

    /// Adds the documents that can be compared.
    fn add(&self, documents: &mut Documents, texts: &[Text], run: usize) {
        for (id, text, group) in texts {
            let set = shingles(text, self.settings.size);
            if !set.is_empty() {
                documents.insert((false, id.clone()), Document { set, group: *group, run, place: 0 });
            }
        }
    }

    /// Gives some of the texts ids that are known, and two of these the same text.
    fn repeat_ids(&mut self, texts: &mut [Text], documents: &Documents) {
        let ids: Vec<&String> = documents.keys().map(|name| &name.1).collect();
        for text in 0..1 + self.random.below(3) {
            let id = ids[self.random.below(ids.len())].clone();
            if text < texts.len() && texts.iter().all(|(other, _, _)| *other != id) {
                texts[text].0 = id;
            }
        }
    }

    /// Up to so many documents, many of them copies, near copies, or too short. The same few texts come again in every file.
    fn texts(&mut self, most: usize) -> Vec<Text> {
        let mut base = Random(self.seed);
        let word = |random: &mut Random| format!("w{}", random.below(60));
        let bases: Vec<Vec<String>> =
            (0..4).map(|_| (0..6 + base.below(10)).map(|_| word(&mut base)).collect()).collect();
        let random = &mut self.random;
        let count = most / 2 + random.below(most / 2 + 1);
        let mut texts = Vec::new();
        for _ in 0..count {
            let mut words = bases[random.below(bases.len())].clone();
            match random.below(20) {
                0..=8 => {}
                9..=12 => {
                    let at = random.below(words.len());
                    words[at] = word(random);
                }
                13 | 14 => words.truncate(3 + random.below(words.len() - 2)),
                15 | 16 => words.extend((0..1 + random.below(5)).map(|_| word(random))),
                17 => words.truncate(1),
                _ => words = (0..4 + random.below(8)).map(|_| word(random)).collect(),
            }
            // Other characters, and the same shingles.
            let mut text = words.join([" ", "  "][random.below(2)]);
            if random.below(3) == 0 {
                text = text.to_uppercase();
            }
            // Ids in another order than documents.
            let id = format!("{}-{}", random.below(100), self.ids);
            self.ids += 1;
            texts.push((id, text, [Some("n"), Some("s"), Some("e"), None][random.below(4)]));
        }
        texts
    }

    fn write(&self, name: &str, texts: &[Text]) {
        let column = |of: fn(&Text) -> Option<&str>| -> ArrayRef {
            Arc::new(texts.iter().map(of).collect::<StringArray>())
        };
        let columns = [
            ("id", column(|text| Some(&text.0)), false),
            ("text", column(|text| Some(&text.1)), false),
            ("shop", column(|text| text.2), true),
        ];
        let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
        write_batch(&self.path(&format!("{name}.parquet")), &batch, 7);
    }

    /// Holds the tables of an output against the brute force. `alone` says that no document was known.
    fn check(&self, output: &str, documents: &Documents, run: usize, alone: bool, seen: &mut Seen) {
        let what = format!("{output} of {}", self.what());
        let (settings, output) = (&self.settings, self.path(output));
        let expected = answer(documents, run, settings);
        let is_new = |name: &Name| !name.0 && documents[name].run == run;
        for (x, of_x) in documents.iter().filter(|(name, _)| is_new(name)) {
            for (y, _) in documents.iter().filter(|(y, of_y)| x != *y && of_y.set == of_x.set) {
                let is_pair = [(x, y), (y, x)]
                    .into_iter()
                    .any(|(x, y)| expected.pairs.contains_key(&(x.clone(), y.clone())));
                *if is_pair { &mut seen.pairs_of_copies } else { &mut seen.other_copies } += 1;
            }
        }
        let found = pairs_of(&output, documents, &is_new);
        for (pair, (sizes, jaccard_found)) in &found {
            assert_eq!(Some(sizes), expected.pairs.get(pair), "{pair:?}: {what}");
            assert!((jaccard_found - jaccard(*sizes)).abs() < 1e-12, "{pair:?}: {what}");
        }
        let counts = manifest(&output).counts;
        assert_eq!(counts.shingle_sets, expected.sets as u64, "{what}");
        let rows = rows_of(&output, documents, &is_new, &what);
        let found: BTreeSet<_> = found.into_keys().collect();
        // Each new document that has a pair has one that is written, and copies are in one cluster.
        let written: BTreeSet<&Name> = found.iter().flat_map(|(x, y)| [x, y]).collect();
        for (a, b) in expected.pairs.keys() {
            assert!(written.contains(a) && (written.contains(b) || !is_new(b)), "{a:?} {b:?}: {what}");
            if !settings.representative && documents[a].set == documents[b].set {
                let (of_a, of_b) = (rows.get(a), rows.get(b));
                assert!(
                    of_a.is_some() && of_a.map(|row| &row.0) == of_b.map(|row| &row.0),
                    "{a:?} {b:?}: {what}"
                );
            }
        }
        if settings.may_be_dense() {
            return;
        }
        let missing: Vec<_> = expected.written.difference(&found).collect();
        let more: Vec<_> = found.difference(&expected.written).collect();
        assert!(missing.is_empty() && more.is_empty(), "missing {missing:?}, too many {more:?}: {what}");
        let left_out = expected.pairs.len() - expected.written.len();
        assert_eq!(counts.pairs_left_out, left_out as u64, "{what}");
        seen.left_out += left_out;
        assert_eq!(
            rows.keys().collect::<Vec<_>>(),
            expected.rows.keys().collect::<Vec<_>>(),
            "documents of clusters: {what}"
        );
        for (name, row) in &expected.rows {
            let (id, found) = &rows[name];
            assert_eq!(
                (&found.cluster, &found.representative),
                (&row.cluster, &row.representative),
                "{name:?}: {what}"
            );
            let least = row.cluster.iter().filter(|name| !name.0).map(|name| &name.1).min().unwrap();
            // With days, a cluster keeps the id that it had.
            assert!(id == least || !alone && settings.from != From::TwoSources, "{id} {least}: {what}");
            same(found.jaccard, row.jaccard, &format!("jaccard of {name:?}: {what}"));
            same(found.weakest, row.weakest, &format!("weakest of {name:?}: {what}"));
            seen.indirect += usize::from(row.jaccard.is_none());
        }
        let is_superseded = |(name, row): (&Name, &Row)| {
            !name.0 && documents[name].place < run && row.representative != *name
        };
        let superseded = expected.rows.iter().filter(|row| is_superseded(*row)).count();
        assert_eq!(counts.superseded_reference_documents.unwrap_or_default(), superseded as u64, "{what}");
        seen.superseded += superseded;
        if settings.representative || settings.compare != Compare::Across {
            return;
        }
        // Across groups, copies of one group are together only by way of others.
        for row in rows.values() {
            let groups: BTreeSet<_> = row.1.cluster.iter().map(|name| documents[name].group).collect();
            assert!(groups.len() > 1, "{row:?}: {what}");
        }
    }

    /// Applies an output: the documents that stay are those that no other one represents.
    fn check_apply(&self, output: &str, texts: &[Text], seen: &mut Seen) {
        let (what, to) = (format!("{output} of {}", self.what()), self.path(&format!("clean-{output}")));
        resemblance().arg("apply").arg(self.path(output)).arg("--to").arg(&to).assert().success();
        let clusters = table(&self.path(output), "clusters");
        let of = |name: &str| clusters.column_by_name(name).unwrap().as_boolean().clone();
        let (known, representative) = (of("reference"), of("representative"));
        let ids = strings(&clusters, "id").into_iter().enumerate();
        let gone: BTreeSet<String> = ids
            .filter(|(row, _)| !known.value(*row) && !representative.value(*row))
            .map(|(_, id)| id)
            .collect();
        seen.removed += gone.len();
        let mut kept = Vec::new();
        for entry in std::fs::read_dir(&to).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|ending| ending == "parquet") {
                let file = std::fs::File::open(path).unwrap();
                let batches = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
                kept.extend(batches.flat_map(|batch| strings(&batch.unwrap(), "id")));
            }
        }
        let stays: Vec<String> =
            texts.iter().map(|text| text.0.clone()).filter(|id| !gone.contains(id)).collect();
        assert_eq!(kept, stays, "{what}");
    }
}

/// Writes documents with their groups, and runs a job over them that compares every two: its output.
fn run_over(
    folder: &Path,
    texts: &[(&str, &str, &str)],
    sets: &[&str],
) -> resemblance::error::Result<PathBuf> {
    let column = |of: fn(&(&str, &str, &str)) -> String| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(texts.iter().map(of)))
    };
    let columns = [
        ("id", column(|text| text.0.to_owned())),
        ("text", column(|text| text.1.to_owned())),
        ("shop", column(|text| text.2.to_owned())),
    ];
    let (source, output) = (folder.join("in.parquet"), folder.join("out"));
    write_batch(&source, &RecordBatch::try_from_iter(columns).unwrap(), 30);
    let sets = [&["source.group=shop", "candidates.method=all"], sets].concat();
    run(&job(&source, &output, &sets))?;
    Ok(output)
}

/// Two documents of one group are not a pair, and each is as well connected with the other as with the documents of other groups.
#[test]
fn copies_of_one_group_are_connected_by_way_of_others() {
    let folder = tempdir().unwrap();
    let texts = [
        ("a1", "one two three four five six", "n"),
        ("a2", "one two three four five six", "n"),
        ("alone", "seven eight nine ten", "n"),
        ("alone too", "seven eight nine ten", "n"),
        ("b", "one two three four five", "s"),
        ("c", "one two three four five", "s"),
    ];
    let output = run_over(folder.path(), &texts, &["candidates.compare=across"]).unwrap();
    let clusters = table(&output, "clusters");
    let share = |name: &str| -> Vec<Option<f64>> {
        clusters.column_by_name(name).unwrap().as_primitive::<Float64Type>().iter().collect()
    };
    assert_eq!(strings(&clusters, "id"), ["a1", "a2", "b", "c"]);
    assert_eq!(share("jaccard_to_representative"), [Some(1.0), None, Some(0.75), Some(0.75)]);
    assert_eq!(share("weakest_link"), [Some(1.0), Some(0.75), Some(0.75), Some(0.75)]);
    let counts = manifest(&output).counts;
    assert_eq!((counts.pairs, counts.shingle_sets, counts.scores), (4, 3, 1));
}

/// Two groups of copies are one score, and as many pairs as both have documents together.
#[test]
fn a_run_that_would_write_too_many_pairs_of_copies_ends_early() {
    let names: Vec<String> = (0..40).map(|n| format!("d{n:02}")).collect();
    let texts: Vec<(&str, &str, &str)> = names
        .iter()
        .zip(["n", "s"].into_iter().cycle())
        .map(|(id, group)| (id.as_str(), "one two three four", group))
        .collect();
    let folder = tempdir().unwrap();
    let sets = ["candidates.compare=across", "output.max_pairs=399"];
    let error = run_over(folder.path(), &texts, &sets).unwrap_err().to_string();
    assert!(error.contains("would write at least 400 pairs"), "{error}");
    let sets = ["candidates.compare=across", "output.max_pairs=400"];
    let output = run_over(folder.path(), &texts, &sets).unwrap();
    assert_eq!(table(&output, "pairs").num_rows(), 400);
}

/// The name of a document by its id and by whether it is known.
fn name(documents: &Documents, is_new: &impl Fn(&Name) -> bool, id: String, known: bool) -> Name {
    let second = (true, id.clone());
    let name = if known && documents.contains_key(&second) { second } else { (false, id) };
    assert_eq!(!is_new(&name), known, "{name:?}");
    name
}

type Pairs = BTreeMap<(Name, Name), (naive::Sizes, f64)>;

fn pairs_of(output: &Path, documents: &Documents, is_new: &impl Fn(&Name) -> bool) -> Pairs {
    let pairs = table(output, "pairs");
    let known = pairs.column_by_name("reference_b").unwrap().as_boolean().clone();
    let counts = ["shared", "shingles_a", "shingles_b"].map(|name| numbers(&pairs, name));
    let jaccard = floats(&pairs, "jaccard");
    let ids = strings(&pairs, "id_a").into_iter().zip(strings(&pairs, "id_b"));
    let rows = ids.enumerate().map(|(row, (a, b))| {
        let [shared, of_a, of_b] = counts.each_ref().map(|column| column[row] as usize);
        let pair = (name(documents, is_new, a, false), name(documents, is_new, b, known.value(row)));
        (pair, ((shared, of_a, of_b), jaccard[row]))
    });
    let rows: Pairs = rows.collect();
    assert_eq!(rows.len(), pairs.num_rows(), "a pair is there twice");
    rows
}

/// The rows of the table of clusters, each with the id of its cluster.
fn rows_of(
    output: &Path,
    documents: &Documents,
    is_new: &impl Fn(&Name) -> bool,
    what: &str,
) -> BTreeMap<Name, (String, Row)> {
    let table = table(output, "clusters");
    let of = |name: &str| table.column_by_name(name).unwrap().as_boolean().clone();
    let (known, representative) = (of("reference"), of("representative"));
    let share = |name: &str, row: usize| {
        let column = table.column_by_name(name)?.as_primitive::<Float64Type>();
        column.is_valid(row).then(|| column.value(row))
    };
    let (ids, cluster_ids) = (strings(&table, "id"), strings(&table, "cluster_id"));
    let names: Vec<Name> =
        ids.into_iter().enumerate().map(|(row, id)| name(documents, is_new, id, known.value(row))).collect();
    let mut rows = BTreeMap::new();
    for (row, name) in names.iter().enumerate() {
        let members = || (0..names.len()).filter(|other| cluster_ids[*other] == cluster_ids[row]);
        let best: Vec<&Name> =
            members().filter(|row| representative.value(*row)).map(|row| &names[row]).collect();
        assert_eq!(best.len(), 1, "representatives of {}: {what}", cluster_ids[row]);
        let found = Row {
            cluster: members().map(|row| names[row].clone()).collect(),
            representative: best[0].clone(),
            jaccard: share("jaccard_to_representative", row),
            weakest: share("weakest_link", row),
        };
        assert_eq!(numbers(&table, "size")[row], found.cluster.len() as u64, "{name:?}: {what}");
        rows.insert(name.clone(), (cluster_ids[row].clone(), found));
    }
    rows
}

fn same(found: Option<f64>, expected: Option<f64>, what: &str) {
    let close = match (found, expected) {
        (Some(found), Some(expected)) => (found - expected).abs() < 1e-12,
        (found, expected) => found.is_none() && expected.is_none(),
    };
    assert!(close, "{found:?} in place of {expected:?}: {what}");
}
