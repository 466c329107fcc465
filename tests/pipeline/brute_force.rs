//! Random corpora under random settings, against a brute force that shares no code with the program: every row of every
//! table must be the same, to the last digit.
//!
//! `RESEMBLANCE_CASES` is the number of cases of each test, `RESEMBLANCE_SEED` the first seed.

use resemblance::apply::{self, ApplySettings, Opened};
use resemblance::error::Result;

use crate::support::oracle::answer::{Answer, Documents, Name, add, answer};
use crate::support::oracle::corpus::{Corpus, Files, Sorted, Text, rename, sorted, write};
use crate::support::oracle::decisions::Decisions;
use crate::support::oracle::found::{Found, check_frequent, check_rejects};
use crate::support::oracle::settings::{Family, From, Hash, Settings};
use crate::support::sketch_joins::{Machine, run_on};
use crate::support::*;

/// Counts of the features that cases had, so that no test passes without them.
#[derive(Debug, Default)]
struct Seen {
    pairs: usize,
    rejects: usize,
    /// Pairs of documents with the same shingles, and copies that are not a pair.
    pairs_of_copies: usize,
    other_copies: usize,
    /// Pairs that stars leave out.
    left_out: usize,
    /// Documents that are not a pair with the one that represents them.
    indirect: usize,
    chained: usize,
    replaced: usize,
    removed: usize,
    spared: BTreeMap<String, usize>,
    spared_copies: usize,
    decisions: usize,
    decided_pairs: BTreeMap<String, usize>,
    lossy: u64,
    lost: u64,
    levels: usize,
}

type Run<'a> = &'a mut dyn FnMut(&Path, &Job) -> Result<Outcome>;

struct Case<'a> {
    what: String,
    settings: Settings,
    scene: Scene,
    random: Random,
    corpora: Vec<Corpus>,
    seen: &'a mut Seen,
    run: Run<'a>,
}

impl<'a> Case<'a> {
    fn new(seed: u64, settings: Settings, seen: &'a mut Seen, run: Run<'a>) -> Self {
        let seeds = (0..settings.corpora as u64).map(|number| seed | (number << 32));
        let corpora = seeds.map(|seed| Corpus::new(seed, settings.shape)).collect();
        let what = format!("seed {seed}, {settings:?}");
        Self { what, settings, scene: Scene::new(&[]), random: Random(!seed), corpora, seen, run }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scene.path(name)
    }

    fn check(mut self) {
        match self.settings.from {
            From::OneRun => self.one_run(),
            From::TwoSources => self.two_sources(),
            From::Days | From::Replaced | From::Skipped => self.days(),
        }
    }

    fn texts(&mut self) -> Vec<Text> {
        let (most, random) = (self.settings.documents, &mut self.random);
        let of_corpus = |(number, corpus): (usize, &mut Corpus)| {
            let mut texts = corpus.documents(most / 2 + random.below(most / 2 + 1));
            for text in texts.iter_mut().filter(|_| number > 0) {
                text.id = text.id.take().map(|id| format!("{id}-{number}"));
                text.text = text.text.take().map(|text| text.replace(['w', 'W'], &format!("w{number}x")));
            }
            texts
        };
        self.corpora.iter_mut().enumerate().flat_map(of_corpus).collect()
    }

    /// Writes the files of a source, and tells which rows can be compared.
    fn write(&mut self, source: &str, mut files: Files) -> (Files, Sorted) {
        std::fs::create_dir(self.path(source)).unwrap();
        let sorted = loop {
            match sorted(&files, &self.settings) {
                // The first source decides which shingles are frequent.
                Ok(sorted) => match self.settings.max_frequency {
                    Some(share) if self.settings.frequent.is_empty() => {
                        self.settings.frequent = sorted.frequent(share, self.settings.compare.is_some());
                        assert!(!self.settings.frequent.is_empty(), "no shingle is frequent: {}", self.what);
                    }
                    _ => break sorted,
                },
                Err(id) => rename(&mut files, &id),
            }
        };
        for (path, documents) in &files {
            write(Path::new(path), documents, 1 + self.random.below(30));
        }
        self.seen.rejects += sorted.rejects.len();
        (files, sorted)
    }

    fn file(&self, source: &str, name: &str) -> String {
        self.scene.text(&format!("{source}/{name}.parquet"))
    }

    fn job(&self, source: &str, output: &str, more: &[String]) -> Job {
        let sets = [&self.settings.sets(), more].concat();
        self.scene.job(source, output, &sets.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn run(&mut self, job: &Job, output: &str) {
        let output = self.path(output);
        (self.run)(&output, job).unwrap_or_else(|error| panic!("{error:?}: {}", self.what));
    }

    fn merge(&mut self, outputs: Vec<String>, last: &Job, to: &str) {
        self.run(&Job::merge(outputs, last, &self.scene.text(to)), to);
    }

    fn one_run(&mut self) {
        let mut texts = self.texts();
        let mut files = Files::new();
        for name in ["a", "b", "c"].iter().take(1 + self.random.below(3)) {
            let rest = texts.split_off(texts.len().min(1 + self.random.below(self.settings.documents)));
            files.push((self.file("in", name), texts));
            texts = rest;
        }
        files[0].1.append(&mut texts);
        let (files, sorted) = self.write("in", files);
        let mut documents = Documents::new();
        let dictionary = add(&mut documents, &sorted, &self.settings, false, 0);
        let decided = self.decide(&documents);
        let job = self.job("in", "out", &decided);
        // The factors are drawn from a dictionary that has too few entries.
        if self.settings.family == Family::Linear(None) && dictionary.len() < self.settings.permutations {
            let output = self.path("out");
            let ended = (self.run)(&output, &job);
            assert_eq!(ended.map(|_| ()).unwrap_err().kind(), Kind::Job, "{}", self.what);
            return;
        }
        self.run(&job, "out");
        self.check_output("out", &documents, 0, true);
        check_rejects(&self.path("out"), "rejects", &sorted.rejects, &self.what);
        if self.settings.hash == Hash::Dictionary {
            let rows = table(&self.path("out"), "dictionary");
            let found = numbers(&rows, "number").into_iter().zip(strings(&rows, "shingle"));
            let shingles = dictionary.into_iter().map(|shingle| String::from_utf8(shingle).unwrap());
            let [found, expected] = [found.collect::<BTreeMap<_, _>>(), (1..).zip(shingles).collect()];
            assert_eq!(found, expected, "dictionary: {}", self.what);
        }
        if self.settings.plain {
            self.check_apply("out", &files);
        }
        // Without `clusters.contained` more is removed.
        if self.settings.decisions.is_none() && self.settings.contained.take().is_some() {
            let job = self.job("in", "unsafe", &[]);
            self.run(&job, "unsafe");
            let all = self.check_output("unsafe", &documents, 0, true).losses;
            (self.seen.lossy, self.seen.lost) = (self.seen.lossy + all.lossy, self.seen.lost + all.gone);
        }
    }

    fn two_sources(&mut self) {
        let (own, mut second) = (self.texts(), self.texts());
        // An id may be in both sources.
        let share_ids = self.random.below(2) == 0;
        if share_ids {
            second.iter_mut().zip(&own).for_each(|(text, own)| text.id.clone_from(&own.id));
        }
        let (files, own) = self.write("in", vec![(self.file("in", "a"), own)]);
        let (_, second) = self.write("second", vec![(self.file("second", "a"), second)]);
        let group = if self.settings.compare.is_some() { ", group = 'shop'" } else { "" };
        let mut sets = vec![second_source(self.path("second"), group)];
        if self.settings.new_old {
            sets.push("against.pairs=new-old".to_owned());
        }
        let job = self.job("in", "out", &sets);
        self.run(&job, "out");
        let mut documents = Documents::new();
        add(&mut documents, &own, &self.settings, false, 0);
        add(&mut documents, &second, &self.settings, true, 0);
        self.check_output("out", &documents, 0, false);
        let counts = manifest(&self.path("out")).counts;
        assert_eq!(counts.reference_documents, Some(second.compared.len() as u64), "{}", self.what);
        check_rejects(&self.path("out"), "rejects", &own.rejects, &self.what);
        check_rejects(&self.path("out"), "reference_rejects", &second.rejects, &self.what);
        if !share_ids {
            self.check_apply("out", &files);
        }
    }

    fn days(&mut self) {
        let last = self.settings.days - 1;
        let mut documents = Documents::new();
        // Documents that do not represent the last cluster that they were in.
        let mut removed: BTreeSet<String> = BTreeSet::new();
        let mut ids: BTreeMap<Name, String> = BTreeMap::new();
        let mut jobs: Vec<Job> = Vec::new();
        let new_old = self.settings.new_old;
        for day in 0..=last {
            let mut texts = self.texts();
            let same_id = match self.settings.from {
                From::Replaced if day > 0 => "replace",
                From::Skipped if day > 0 => "skip",
                _ => "",
            };
            if !same_id.is_empty() {
                self.repeat_ids(&mut texts, &documents);
            }
            let (source, output) = (format!("day{day}"), format!("out{day}"));
            let (files, mut sorted) = self.write(&source, vec![(self.file(&source, "a"), texts)]);
            let known: BTreeSet<&Name> = documents.keys().collect();
            let name = |(text, _): &(Text, _)| (false, text.id.clone().unwrap());
            let again = sorted.compared.iter().filter(|text| known.contains(&name(text))).count();
            if same_id == "skip" {
                sorted.compared.retain(|text| !known.contains(&name(text)));
            } else {
                // A rejected document replaces no other one.
                sorted.compared.iter().for_each(|text| {
                    removed.remove(&name(text).1);
                });
                self.seen.replaced += again;
            }
            add(&mut documents, &sorted, &self.settings, false, day);
            let mut sets = Vec::new();
            if day > 0 {
                let known: Vec<String> = (0..day).map(|day| format!("out{day}")).collect();
                sets.push(self.scene.against(&known.iter().map(String::as_str).collect::<Vec<_>>()));
            }
            if !same_id.is_empty() {
                sets.push(format!("against.same_id={same_id}"));
            }
            // The merged output has all pairs.
            self.settings.new_old = new_old && day == last;
            if self.settings.new_old {
                sets.push("against.pairs=new-old".to_owned());
            }
            sets.extend(self.decide(&documents));
            let job = self.job(&source, &output, &sets);
            self.run(&job, &output);
            for ((_, id), document) in documents.iter_mut().filter(|(_, document)| document.run < day) {
                // Behind the new documents, which are in no other result.
                document.place = if removed.contains(id) { day + 1 } else { document.run };
            }
            let expected = self.check_output(&output, &documents, day, day == 0);
            if self.settings.from == From::Days
                && self.settings.decisions.is_none()
                && !self.settings.representative
                && !self.settings.may_be_dense()
            {
                self.check_ids(&output, &expected, &mut ids, day);
            }
            match same_id {
                "skip" => {
                    let skipped = manifest(&self.path(&output)).rejects.get("reference_id").copied();
                    assert!(skipped.unwrap_or(0) >= again as u64, "{}", self.what);
                }
                _ => check_rejects(&self.path(&output), "rejects", &sorted.rejects, &self.what),
            }
            let clusters = table(&self.path(&output), "clusters");
            let spared: BTreeSet<String> = match self.settings.decisions {
                Some(_) => strings(&table(&self.path(&output), "spared"), "id").into_iter().collect(),
                None => BTreeSet::new(),
            };
            for (id, stays) in strings(&clusters, "id").into_iter().zip(bools(&clusters, "representative")) {
                match stays || spared.contains(&id) {
                    true => removed.remove(&id),
                    false => removed.insert(id),
                };
            }
            self.check_apply(&output, &files);
            jobs.push(job);
        }
        if new_old || self.settings.contained.is_some() {
            return;
        }
        for ((_, id), document) in &mut documents {
            (document.run, document.place) = (0, usize::from(removed.contains(id)));
        }
        // All days at once; and the first two before the others, where ids decide before what earlier days removed.
        let mut outputs: Vec<String> = (0..=last).map(|day| self.scene.text(&format!("out{day}"))).collect();
        self.merge(outputs.clone(), &jobs[last], "merged");
        self.check_output("merged", &documents, 0, true);
        let keep = self.settings.keep;
        if last > 1 && keep.contains("'id") && keep.ends_with("'reference']") {
            let rest = outputs.split_off(2);
            self.merge(outputs, &jobs[1], "first");
            let outputs = std::iter::once(self.scene.text("first")).chain(rest).collect();
            self.merge(outputs, &jobs[last], "in turn");
            self.check_output("in turn", &documents, 0, true);
        }
    }

    /// Compares cluster ids with the ids of earlier days. A cluster keeps its id; merged clusters keep their smallest id.
    fn check_ids(&self, output: &str, expected: &Answer, ids: &mut BTreeMap<Name, String>, day: usize) {
        let columns = ["id", "cluster_id"];
        let found: BTreeMap<String, String> = string_pairs(&table(&self.path(output), "clusters"), columns);
        let mut changes = BTreeSet::new();
        for row in expected.clusters.values() {
            let before: BTreeSet<String> =
                row.cluster.iter().filter_map(|name| ids.get(name)).cloned().collect();
            let least = row.cluster.iter().map(|name| &name.1).min().unwrap();
            let id = before.first().unwrap_or(least).clone();
            let is_kept = row.cluster.iter().all(|name| found[&name.1] == id);
            assert!(is_kept, "{output}: {row:?} is not {id}: {}", self.what);
            changes.extend(before.into_iter().filter(|old| *old != id).map(|old| (old, id.clone())));
        }
        ids.extend(expected.clusters.keys().map(|name| (name.clone(), found[&name.1].clone())));
        if day > 0 {
            let rows = table(&self.path(output), "cluster_id_changes");
            let written: BTreeSet<_> = string_pairs(&rows, ["old_cluster_id", "cluster_id"]);
            assert_eq!(written, changes, "{output}: {}", self.what);
        }
    }

    /// Adds decisions about documents of this day and of earlier days. The file has the new decisions, and earlier outputs have the others.
    fn decide(&mut self, documents: &Documents) -> Vec<String> {
        let Some(decisions) = &mut self.settings.decisions else { return Vec::new() };
        let known = decisions.0.len();
        self.corpora.iter().for_each(|_| decisions.draw(documents, &mut self.random));
        let csv = decisions.csv(known);
        self.seen.decisions += decisions.0.len() - known;
        let file = self.path(&format!("decisions-{known}.csv"));
        std::fs::write(&file, csv).unwrap();
        vec![format!("clusters.decisions={:?}", file.display().to_string())]
    }

    fn repeat_ids(&mut self, texts: &mut [Text], documents: &Documents) {
        let ids: Vec<&String> = documents.keys().map(|name| &name.1).collect();
        for text in 0..texts.len().min(1 + self.random.below(3)) {
            let id = Some(ids[self.random.below(ids.len())].clone());
            if texts.iter().all(|other| other.id != id) {
                texts[text].id = id;
            }
        }
    }

    /// Holds an output against the brute force. `alone` says that no document was known.
    fn check_output(&mut self, output: &str, documents: &Documents, run: usize, alone: bool) -> Answer {
        let what = format!("{output} of {}", self.what);
        let (settings, output) = (&self.settings, &self.path(output));
        if settings.max_frequency.is_some() {
            check_frequent(output, &settings.frequent, &what);
        }
        let expected = answer(documents, run, settings);
        Found { output, documents, run, settings, what: &what }.check(&expected, alone);
        let seen = &mut *self.seen;
        let is_new = |name: &Name| !name.0 && documents[name].run == run;
        for (x, of_x) in documents.iter().filter(|(name, _)| is_new(name)) {
            for (y, _) in documents.iter().filter(|(y, of_y)| x != *y && of_y.set == of_x.set) {
                let is_pair = |x: &Name, y: &Name| expected.pairs.contains_key(&(x.clone(), y.clone()));
                *if is_pair(x, y) || is_pair(y, x) {
                    &mut seen.pairs_of_copies
                } else {
                    &mut seen.other_copies
                } += 1;
            }
        }
        seen.pairs += expected.pairs.len();
        seen.left_out += expected.pairs.len() - expected.written.len();
        seen.indirect += expected.clusters.values().filter(|row| row.jaccard.is_none()).count();
        seen.chained += expected.chained;
        seen.levels += expected.levels.iter().skip(1).map(|(_, rows)| rows.len()).sum::<usize>();
        seen.spared_copies += expected.losses.copies.len();
        for decision in expected.pairs.values().filter_map(|pair| pair.decision.clone()) {
            *seen.decided_pairs.entry(decision).or_default() += 1;
        }
        for spared in expected.losses.spared.values() {
            *seen.spared.entry(spared.reason.clone()).or_default() += 1;
        }
        expected
    }

    /// Applies an output. Unrepresented and spared documents stay.
    fn check_apply(&mut self, output: &str, files: &Files) {
        let what = format!("{output} of {}", self.what);
        let (from, to) = (self.scene.text(output), self.scene.text(&format!("clean-{output}")));
        let applied = block_on(async {
            let engine = Local::new(session::session(&EngineSettings::local(1 << 30))?);
            let opened = Opened::open(engine.session(), &from, Vec::new(), ApplySettings::default()).await?;
            apply::apply(&engine, opened, &to, &RunControl::detached()).await
        });
        applied.unwrap_or_else(|error| panic!("{error:?}: {what}"));
        let (output, to) = (self.path(output), Path::new(&to));
        let clusters = table(&output, "clusters");
        let flags = bools(&clusters, "reference").into_iter().zip(bools(&clusters, "representative"));
        let ids = strings(&clusters, "id").into_iter().zip(flags);
        let mut gone: BTreeSet<String> =
            ids.filter(|(_, (known, stays))| !known && !stays).map(|(id, _)| id).collect();
        if self.settings.contained.is_some() || self.settings.decisions.is_some() {
            let copies = strings(&table(&output, "spared_copies"), "id");
            let spared = strings(&table(&output, "spared"), "id");
            gone.retain(|id| copies.contains(id) || !spared.contains(id));
        }
        self.seen.removed += gone.len();
        let kept: Vec<String> = parquet_rows(to).iter().flat_map(|rows| strings(rows, "id")).collect();
        let stays = files.iter().flat_map(|(_, texts)| texts).filter_map(|text| text.id.clone());
        assert_eq!(kept, stays.filter(|id| !gone.contains(id)).collect::<Vec<_>>(), "{what}");
    }
}

/// The cases of one of several tests, which run side by side, and what they had in them.
fn cases(all: u64, part: (u64, u64), settings: impl Fn(u64, &mut Random) -> Settings) -> Seen {
    let mut seen = Seen::default();
    for seed in seeds(all).filter(|seed| seed % part.1 == part.0) {
        Case::new(seed, settings(seed, &mut Random(seed)), &mut seen, &mut |_, job| run(job)).check();
    }
    eprintln!("{seen:?}");
    seen
}

/// Holds what was seen against what a test needs; fewer cases than the test has need nothing.
fn assert_seen(all: u64, is_enough: bool, seen: &Seen) {
    // Cases without pairs, say, would prove nothing.
    assert!(seeds(all).count() < all as usize || is_enough, "these cases try too little: {seen:?}");
}

/// Tests of the parts of some cases, which run side by side.
macro_rules! parts {
    ($check:ident: $($test:ident = $part:literal),+) => {
        $(#[test]
        fn $test() {
            $check($part);
        })+
    };
}

fn sketches(quarter: u64) {
    let seen = cases(40, (quarter, 4), |_, random| Settings::of_sketches(random));
    assert_seen(40, seen.pairs > 10 && seen.rejects > 10, &seen);
}

parts!(
    sketches: random_sketches_first_quarter = 0,
    random_sketches_second_quarter = 1,
    random_sketches_third_quarter = 2,
    random_sketches_last_quarter = 3
);

fn copies(half: u64) {
    let seen = cases(16, (half, 2), Settings::of_copies);
    let enough = seen.pairs_of_copies > 10 && seen.other_copies > 10 && seen.removed > 10;
    assert_seen(16, enough && seen.left_out > 0 && seen.indirect > 0, &seen);
}

parts!(copies: random_copies_of_odd_seeds = 1, random_copies_of_even_seeds = 0);

#[test]
fn random_losses() {
    let seen = cases(12, (0, 1), Settings::of_losses);
    let many = seen.spared.len() == 2 && seen.spared.values().all(|&times| times > 10);
    let lossy = seen.lost > 50 && seen.lossy > 15 && seen.spared_copies > 5;
    assert_seen(12, many && lossy && seen.levels > 50 && seen.chained > 10, &seen);
}

/// Decisions in one run, over days and in merges, with each cluster method, with `clusters.contained` and without. Each case has the
/// documents of five corpora, so that 40 cases try 200 of them.
fn decisions(half: u64) {
    let seen = cases(40, (half, 2), |seed, random| {
        let (crossing, random_settings) = (seed as usize / 2, Settings::plain(random));
        let from = [From::OneRun, From::Days][crossing % 2];
        let method = ["lsh", "prefix", "all"][random.below(3)];
        let keep = if from == From::Days { "['length desc', 'id', 'reference']" } else { "['id desc']" };
        Settings {
            from,
            contained: [None, Some(0.9), None][crossing / 2 % 3],
            representative: crossing / 6 % 2 == 0,
            days: 3,
            corpora: 5,
            documents: 14 + 26 * usize::from(from == From::OneRun),
            method,
            threshold: [0.3, 0.5, 0.8][random.below(3)],
            compare: [None, Some("within")][random.below(2)],
            new_old: from == From::Days && random.below(3) == 0,
            // Dense groups may leave pairs out.
            max_expand: if from == From::Days || method == "prefix" {
                0
            } else {
                [0, 2, 1000][random.below(3)]
            },
            star: from == From::OneRun && random.below(4) == 0,
            keep,
            thresholds: Vec::new(),
            decisions: Some(Decisions::default()),
            ..random_settings
        }
    });
    let decided = seen.decided_pairs.values().all(|&times| times > 50) && seen.decided_pairs.len() == 2;
    let divided =
        ["different", "chain", "not_contained"].iter().all(|reason| seen.spared.get(*reason) > Some(&5));
    assert_seen(40, decided && divided && seen.spared_copies > 5, &seen);
}

parts!(decisions: random_decisions_of_odd_seeds = 1, random_decisions_of_even_seeds = 0);

/// Clusters that do not fit in memory are found in rounds.
#[test]
fn random_clusters_beyond_memory() {
    let (mut seen, mut refused) = (Seen::default(), 0);
    for seed in seeds(6).map(|seed| seed + 2_000_000) {
        let settings = Settings {
            representative: false,
            contained: None,
            ..Settings::of_losses(seed, &mut Random(seed))
        };
        let mut run = |_: &Path, job: &Job| {
            let engine = Box::new(Local::new(session::session(&job.engine)?));
            let (engine, pool) = Refusing::around(engine, 0);
            let ended = block_on(pipeline::run(job, &engine, &RunControl::detached(), OnExisting::Fail));
            refused += pool.granted_and_refused().1;
            ended
        };
        Case::new(seed, settings, &mut seen, &mut run).check();
    }
    assert_seen(6, seen.indirect > 20 && refused >= 6, &seen);
}

/// Sketches as above, with candidates that are joined with them at random.
#[test]
fn random_sketches_with_every_join() {
    let (mut taken, mut seen) = (BTreeMap::new(), Seen::default());
    for seed in seeds(20).map(|seed| seed + 1_000_000) {
        let mut random = Random(!seed);
        let mut run = |output: &Path, job: &Job| {
            let task_bytes = if random.below(4) == 0 { usize::MAX } else { 1 << (8 + random.below(10)) };
            let (one_process, partitions) = (random.below(4) > 0, 1 + random.below(9));
            let outcome = run_on(job, Machine { task_bytes, one_process, partitions })?;
            manifest(output).stages.into_iter().for_each(|stage| *taken.entry(stage.join).or_insert(0) += 1);
            Ok(outcome)
        };
        Case::new(seed, Settings::of_sketches(&mut Random(seed)), &mut seen, &mut run).check();
    }
    let missing = ["held", "segments", "blocks"].into_iter();
    let missing: Vec<_> = missing.filter(|join| !taken.contains_key(&Some((*join).to_owned()))).collect();
    assert!(seeds(20).count() < 20 || missing.is_empty(), "no case took {missing:?}: {taken:?}");
}
