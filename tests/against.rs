//! `[against]`: days that come one after the other have the pairs and clusters of one run over all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use arrow::array::AsArray;
use resemblance::error::{Kind, Result};
use resemblance::job::Job;
use tempfile::{TempDir, tempdir};

use crate::support::*;

/// Days of documents in a folder, each with the output of its run.
struct Days {
    folder: TempDir,
    days: usize,
}

/// What is read of a pair: the smaller id first, and the columns that follow the ids turned with them.
type Pairs = BTreeMap<(String, String), String>;

impl Days {
    /// Writes each part of `documents`, and all of them.
    fn new(parts: &[Vec<Document>]) -> Self {
        let folder = tempdir().unwrap();
        for (day, part) in parts.iter().enumerate() {
            write_parquet(&folder.path().join(format!("day{day}.parquet")), part, 30);
        }
        write_parquet(&folder.path().join("all.parquet"), &parts.concat(), 30);
        Self { folder, days: parts.len() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn output(&self, day: usize) -> PathBuf {
        self.path(&format!("out{day}"))
    }

    /// The job of a day, against all days before it.
    fn job(&self, day: usize, sets: &[&str]) -> Job {
        let known: Vec<PathBuf> = (0..day).map(|earlier| self.output(earlier)).collect();
        let against = format!("against.output={known:?}");
        let mut sets = [&[AS_ONE_RUN], sets].concat();
        if day > 0 {
            sets.push(&against);
        }
        job(&self.path(&format!("day{day}.parquet")), &self.output(day), &sets)
    }

    /// Runs one day after the other, and one run over all of them.
    fn run(&self, sets: &[&str]) -> Result<()> {
        for day in 0..self.days {
            run(&self.job(day, sets))?;
        }
        run(&self.whole(sets))?;
        Ok(())
    }

    /// Merges all days: the same rows as those of the run over all of them.
    fn merge(&self, sets: &[&str]) -> Result<()> {
        let outputs = (0..self.days).map(|day| self.output(day).display().to_string()).collect();
        let last = self.job(self.days - 1, sets);
        run(&Job::of_merge(outputs, &last, &self.path("merged").display().to_string()))?;
        Ok(())
    }

    fn check_merged(&self, what: &str) {
        let tables = |output: &Path| -> Vec<_> {
            let mut tables: Vec<_> =
                ["pairs", "clusters", "documents"].map(|name| table(output, name)).into();
            // The days were read from other files.
            for column in ["source", "position", "origin_number"] {
                let at = tables[2].schema().index_of(column).unwrap();
                tables[2].remove_column(at);
            }
            tables
        };
        let (merged, whole) = (self.path("merged"), self.path("whole"));
        let keys = |output: &Path| rows(output).into_keys().collect::<BTreeSet<_>>();
        let (found, expected) = (keys(&merged), keys(&whole));
        let (missing, more): (Vec<_>, Vec<_>) =
            (expected.difference(&found).collect(), found.difference(&expected).collect());
        assert!(missing.is_empty() && more.is_empty(), "missing: {missing:?}, too many: {more:?}, {what}");
        for (found, expected) in tables(&merged).into_iter().zip(tables(&whole)) {
            assert_eq!(found, expected, "{what}");
        }
        let counts = |output: &Path| {
            let counts = manifest(output).counts;
            let clusters = (counts.clusters, counts.clustered_documents);
            (counts.documents, counts.pairs, clusters, counts.shingle_sets, counts.pairs_left_out)
        };
        assert_eq!(counts(&merged), counts(&whole), "{what}");
    }

    fn whole(&self, sets: &[&str]) -> Job {
        let own = sets.iter().copied().filter(|set| !set.starts_with("against"));
        let own: Vec<&str> = [AS_ONE_RUN].into_iter().chain(own).collect();
        job(&self.path("all.parquet"), &self.path("whole"), &own)
    }

    /// The pairs of all days together. No day finds a pair of an earlier one again, and which documents are known is right.
    fn pairs(&self) -> Pairs {
        let mut pairs = Pairs::new();
        let mut seen: BTreeSet<String> = BTreeSet::new();
        for day in 0..self.days {
            let own: BTreeSet<_> =
                strings(&table(&self.output(day), "documents"), "id").into_iter().collect();
            for (key, (a, b, known, columns)) in rows(&self.output(day)) {
                assert!(own.contains(&a), "{a} is not a document of day {day}");
                assert_eq!(known, seen.contains(&b) && !own.contains(&b), "{a} {b}");
                assert!(known || (own.contains(&b) && a < b), "{a} {b}");
                assert_eq!(pairs.insert(key.clone(), columns), None, "{key:?} was found before day {day}");
            }
            seen.extend(own);
        }
        pairs
    }

    /// The clusters that the last day of each document has it in, by their ids.
    fn clusters(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut of: BTreeMap<String, String> = BTreeMap::new();
        for day in 0..self.days {
            let clusters = clusters(&self.output(day));
            let renamed: BTreeMap<String, String> = match day {
                0 => BTreeMap::new(),
                _ => {
                    let merges = table(&self.output(day), "cluster_id_changes");
                    strings(&merges, "old_cluster_id")
                        .into_iter()
                        .zip(strings(&merges, "cluster_id"))
                        .collect()
                }
            };
            for (cluster, members) in &clusters {
                // Who was in a cluster before is in it still: it kept its id, or the table of merges names it.
                for id in members {
                    if let Some(before) = of.get(id) {
                        assert_eq!(renamed.get(before).unwrap_or(before), cluster, "{id} on day {day}");
                    }
                }
            }
            for old in renamed.keys() {
                assert!(of.values().any(|cluster| cluster == old), "{old} was no cluster before day {day}");
            }
            for (cluster, members) in clusters {
                of.extend(members.into_iter().map(|id| (id, cluster.clone())));
            }
        }
        let mut clusters: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (id, cluster) in of {
            clusters.entry(cluster).or_default().insert(id);
        }
        clusters
    }

    /// Holds the days against the run over all: the same pairs with the same numbers, and the same documents together.
    fn check(&self, what: &str) -> usize {
        let whole: Pairs =
            rows(&self.path("whole")).into_iter().map(|(key, (_, _, _, columns))| (key, columns)).collect();
        let days = self.pairs();
        assert_eq!(days, whole, "{what}");
        let parts = |clusters: BTreeMap<String, BTreeSet<String>>| -> BTreeSet<BTreeSet<String>> {
            clusters.into_values().collect()
        };
        assert_eq!(parts(self.clusters()), parts(clusters(&self.path("whole"))), "{what}");
        whole.len()
    }
}

/// The pairs of an output: by both ids in order, (id_a, id_b, reference_b, the other columns in that order).
fn rows(output: &Path) -> BTreeMap<(String, String), (String, String, bool, String)> {
    let batch = table(output, "pairs");
    let (a, b) = (strings(&batch, "id_a"), strings(&batch, "id_b"));
    let known = batch.column_by_name("reference_b").unwrap().as_boolean().clone();
    let all = (0..batch.num_rows()).map(|row| {
        let (a, b) = (a[row].clone(), b[row].clone());
        let turned = a > b;
        let of = |one: &str, other: &str| strings(&batch, if turned { other } else { one })[row].clone();
        let columns = [
            strings(&batch, "jaccard")[row].clone(),
            strings(&batch, "estimate")[row].clone(),
            of("containment_a", "containment_b"),
            of("containment_b", "containment_a"),
            strings(&batch, "shared")[row].clone(),
            of("shingles_a", "shingles_b"),
            of("shingles_b", "shingles_a"),
            strings(&batch, "shared_bands")[row].clone(),
        ];
        let key = if turned { (b.clone(), a.clone()) } else { (a.clone(), b.clone()) };
        (key, (a, b, known.value(row), columns.join(" ")))
    });
    all.collect()
}

/// The clusters of an output by their ids. One document of each represents it.
fn clusters(output: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let batch = table(output, "clusters");
    let representative = batch.column_by_name("representative").unwrap().as_boolean().clone();
    let mut clusters: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut representatives: BTreeSet<String> = BTreeSet::new();
    let ids = strings(&batch, "id").into_iter().zip(strings(&batch, "cluster_id"));
    for (row, (id, cluster)) in ids.enumerate() {
        assert!(clusters.entry(cluster.clone()).or_default().insert(id), "a document is in a cluster twice");
        if representative.value(row) {
            assert!(representatives.insert(cluster), "a cluster has two representatives");
        }
    }
    assert_eq!(representatives.len(), clusters.len());
    for (cluster, members) in &clusters {
        assert!(members.contains(cluster), "{cluster} is the id of no member");
    }
    clusters
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
fn days_find_what_one_run_over_all_finds() {
    let cases: [&[&str]; 8] = [
        &[],
        &["candidates.method=prefix", "output.keep=shingles"],
        &["candidates.method=all", "output.keep=shingles"],
        &["lsh.bands=32", "lsh.rows=2", "minhash.permutations=64", "output.keep=shingles"],
        &["score.threshold=0.3", "lsh.target_recall=0.999"],
        &["candidates.method=prefix", "score.by=signature", "score.threshold=0.7", "output.keep=shingles"],
        &["candidates.method=prefix", "score.measure=containment", "output.keep=shingles"],
        &["score.threshold=0.8", "engine.threads=3"],
    ];
    let mut pairs = 0;
    for (seed, sets) in (0..).zip(cases) {
        let mut random = Random(seed);
        let documents = corpus(seed, 120, 30);
        let days = Days::new(&split(&mut random, &documents, 2 + seed as usize % 4));
        days.run(sets).unwrap();
        pairs += days.check(&format!("{sets:?}"));
        days.merge(sets).unwrap();
        days.check_merged(&format!("{sets:?}"));
    }
    assert!(pairs > 300, "{pairs} pairs");
}

/// Where large groups are written as stars, no day writes all pairs of one run: merged, they are those.
#[test]
fn stars_and_hot_buckets_are_merged_as_one_run_writes_them() {
    let cases: [&[&str]; 4] = [
        &["output.max_expand=3", "lsh.hot_bucket=100000"],
        &["output.expand=star"],
        &["lsh.hot_bucket=3", "output.max_expand=0"],
        &["candidates.method=prefix", "output.expand=star", "output.keep=shingles"],
    ];
    for (seed, sets) in (20..).zip(cases) {
        let mut random = Random(seed);
        let documents = corpus(seed, 130, 25);
        let days = Days::new(&split(&mut random, &documents, 3));
        days.run(sets).unwrap();
        assert!(manifest(&days.path("whole")).counts.pairs > 20);
        days.merge(sets).unwrap();
        days.check_merged(&format!("{sets:?}"));
        for day in 0..days.days {
            assert!(days.output(day).join("manifest.json").exists());
        }
    }
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

/// Documents whose ids come again take the place of those that had them: merged, the days are a run over what is there.
#[test]
fn replaced_documents_leave_with_all_that_they_held_together() {
    for (seed, sets) in (40..).zip([
        &["against.same_id=replace"][..],
        &["against.same_id=replace", "candidates.method=prefix", "output.keep=shingles"],
        &["against.same_id=replace", "output.expand=star"],
        &["against.same_id=replace", "score.threshold=0.3"],
    ]) {
        let mut random = Random(seed);
        let documents = corpus(seed, 150, 25);
        let mut parts = split(&mut random, &documents, 3);
        // In every later day some known ids come with the texts of others.
        for day in 1..parts.len() {
            for _ in 0..12 {
                let earlier = &parts[random.below(day)];
                let id = earlier[random.below(earlier.len())].0.clone();
                if parts[day].iter().all(|document| document.0 != id) {
                    let text = documents[random.below(documents.len())].1.clone();
                    parts[day].push((id, text));
                }
            }
        }
        let mut there: BTreeMap<String, String> = BTreeMap::new();
        for (id, text) in parts.iter().flatten() {
            there.insert(id.clone(), text.clone());
        }
        let days = Days::new(&parts);
        write_parquet(&days.path("all.parquet"), &there.into_iter().collect::<Vec<_>>(), 30);
        let first: Vec<&str> = sets.iter().copied().filter(|set| !set.starts_with("against")).collect();
        run(&days.job(0, &first)).unwrap();
        let mut replaced = 0;
        for day in 1..days.days {
            run(&days.job(day, sets)).unwrap();
            replaced += manifest(&days.output(day)).counts.replaced_documents.unwrap();
        }
        assert!(replaced > 15, "{replaced} documents were replaced");
        run(&days.whole(sets)).unwrap();
        days.merge(sets).unwrap();
        days.check_merged(&format!("{sets:?}"));
    }
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
    let found: BTreeSet<_> = rows(&days.path("skipped")).into_keys().collect();
    assert!(found.is_subset(&expected) && found.len() * 100 > expected.len() * 95, "{}", found.len());
}

/// With `pairs = "new-old"` two new documents are not a pair, whatever groups they are in.
#[test]
fn new_documents_alone_with_known_ones() {
    for (seed, sets) in (70..).zip([
        &["against.pairs=new-old"][..],
        &["against.pairs=new-old", "candidates.method=prefix", "output.keep=shingles"],
        &["against.pairs=new-old", "candidates.method=all", "output.keep=shingles"],
        &["against.pairs=new-old", "lsh.hot_bucket=2", "output.max_expand=0"],
    ]) {
        let documents = corpus(seed, 100, 25);
        let days = Days::new(&[documents[..60].to_vec(), documents[60..].to_vec()]);
        let own: Vec<&str> = sets.iter().copied().filter(|set| !set.starts_with("against")).collect();
        run(&days.job(0, &own)).unwrap();
        run(&days.job(1, sets)).unwrap();
        run(&days.whole(sets)).unwrap();
        let known: BTreeSet<_> = documents[..60].iter().map(|document| document.0.clone()).collect();
        let expected: Pairs = rows(&days.path("whole"))
            .into_iter()
            .filter(|((a, b), _)| known.contains(a) != known.contains(b))
            .map(|(key, (_, _, _, columns))| (key, columns))
            .collect();
        let found = rows(&days.output(1));
        assert!(
            found
                .values()
                .all(|(a, b, reference_b, _)| *reference_b && !known.contains(a) && known.contains(b))
        );
        let found: Pairs = found.into_iter().map(|(key, (_, _, _, columns))| (key, columns)).collect();
        assert!(expected.len() > 10);
        assert_eq!(found, expected, "{sets:?}");
        // What a pair of these connects, and nothing else.
        let in_clusters: BTreeSet<_> = clusters(&days.output(1)).into_values().flatten().collect();
        let new_in_pairs: BTreeSet<_> = found.keys().flat_map(|(a, b)| [a.clone(), b.clone()]).collect();
        assert!(new_in_pairs.is_subset(&in_clusters));
        assert!(in_clusters.iter().all(|id| known.contains(id) || new_in_pairs.contains(id)), "{sets:?}");
    }
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
    let against = |outputs: &[PathBuf]| format!("against.output={outputs:?}");
    let one = |outputs: &[PathBuf], kind: Kind, said: &str| {
        let set = against(outputs);
        let mut job = job(&days.path("day2.parquet"), &days.path("refused"), &[&set]);
        job.name = "refused".into();
        let error = run(&job).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(said), "{said} is not in: {error}");
        assert!(!days.path("refused").exists(), "something was written");
    };
    one(&[days.output(1)], Kind::Job, "does not name before it");
    one(&[days.output(1), days.output(0)], Kind::Job, "does not name before it");
    one(&[days.path("nothing")], Kind::Input, "there is no `");
    one(&[days.path("refused")], Kind::Input, "there is no `");
    let merged = Job::of_merge(
        vec![days.output(1).display().to_string()],
        &days.job(1, &[]),
        &days.path("refused").display().to_string(),
    );
    assert!(run(&merged).unwrap_err().to_string().contains("does not name before it"));
    // The source of a known output that keeps no shingles has changed.
    let file = std::fs::OpenOptions::new().append(true).open(days.path("day0.parquet")).unwrap();
    file.set_len(10).unwrap();
    one(&[days.output(0), days.output(1)], Kind::Input, "has changed since");
}

/// Settings drawn at random, with a random split of a random corpus: whether anything was hot, and how many pairs there are.
fn random_days(seed: u64) -> (bool, usize) {
    let mut random = Random(seed);
    let documents = corpus(random.next(), 40 + random.below(120), 15 + random.below(30));
    let count = 2 + random.below(4);
    let days = Days::new(&split(&mut random, &documents, count));
    let mut sets: Vec<String> = vec![format!("score.threshold={}", [0.3, 0.5, 0.8, 1.0][random.below(4)])];
    let mut draw = |options: &[&str]| sets.push(options[random.below(options.len())].to_owned());
    draw(&["shingle.size=3", "shingle.size=2", "shingle.size=5"]);
    draw(&["minhash.permutations=128", "minhash.permutations=64"]);
    draw(&["output.expand=all", "output.expand=all", "output.expand=star"]);
    draw(&["output.max_expand=1000", "output.max_expand=3", "output.max_expand=0"]);
    draw(&["engine.threads=1", "engine.threads=2", "engine.threads=3"]);
    draw(&["output.keep=signatures", "output.keep=shingles"]);
    match random.below(8) {
        0 | 1 => sets.extend(["candidates.method=prefix", "output.keep=shingles"].map(String::from)),
        2 => sets.extend(["candidates.method=all", "output.keep=shingles"].map(String::from)),
        3 => sets.push("lsh.hot_bucket=3".into()),
        4 => sets.push("minhash.family=one-permutation".into()),
        _ => {}
    }
    let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
    days.run(&sets).unwrap();
    days.merge(&sets).unwrap();
    let what = format!("seed {seed}: {sets:?}");
    let outputs = (0..days.days).map(|day| days.output(day)).chain([days.path("whole")]);
    let dense = |output: &Path| manifest(output).counts.dense_documents.is_some_and(|n| n > 0);
    let hot = |output: &Path| manifest(output).counts.hot_documents.is_some_and(|n| n > 0);
    let hot = outputs.into_iter().any(|output| hot(&output) || dense(&output));
    let merged: Pairs =
        rows(&days.path("merged")).into_iter().map(|(key, (_, _, _, columns))| (key, columns)).collect();
    if !hot {
        days.check_merged(&what);
        return (false, merged.len());
    }
    // A bucket is hot in one run and not in another: both hold every pair that shares a bucket, and only true pairs. Dense
    // groups leave pairs out that are connected all the same.
    let mut plain = days.whole(&sets);
    plain.output.url = days.path("plain").display().to_string();
    (plain.lsh.hot_bucket, plain.output.max_expand) = (1_000_000, 0);
    let dense = dense(&days.path("whole")) || (0..days.days).any(|day| dense(&days.output(day)));
    let size = plain.shingle.size;
    let exact = exact_pairs(&documents, size, plain.score.threshold);
    assert!(merged.keys().all(|pair| exact.contains_key(pair)), "{what}");
    if !dense && plain.output.expand == resemblance::job::Expand::All {
        run(&plain).unwrap();
        let shared = rows(&days.path("plain"));
        let star = manifest(&days.path("whole")).counts.pairs_left_out > 0
            || manifest(&days.path("merged")).counts.pairs_left_out > 0;
        assert!(star || shared.keys().all(|pair| merged.contains_key(pair)), "{what}");
    }
    (true, merged.len())
}

#[test]
fn random_splits_and_settings_are_merged_as_one_run_has_them() {
    let (mut pairs, mut same) = (0, 0);
    for seed in 1000..1006 {
        let (hot, found) = random_days(seed);
        (pairs, same) = (pairs + found, same + usize::from(!hot));
    }
    assert!(pairs > 100 && same >= 3, "{pairs} pairs, {same} splits without hot buckets");
}

/// The same for as many splits as `RESEMBLANCE_SOAK_ROUNDS` says, from the seed `RESEMBLANCE_SOAK_SEED` on.
#[test]
#[ignore = "takes minutes"]
fn soak_random_splits() {
    let number = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |n| n.parse().unwrap_or_else(|_| panic!("{name} is no number")))
    };
    let (rounds, seed) = (number("RESEMBLANCE_SOAK_ROUNDS", 200), number("RESEMBLANCE_SOAK_SEED", 1));
    let (mut pairs, mut hot) = (0, Vec::new());
    for seed in seed..seed + rounds {
        let (was_hot, found) = random_days(seed);
        pairs += found;
        if was_hot {
            hot.push(seed);
        }
    }
    eprintln!("{rounds} splits with {pairs} pairs; hot or dense buckets in those of the seeds {hot:?}");
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
        let of_day =
            job(&days.path(&format!("day{day}.parquet")), &days.output(day), &[&against, AS_ONE_RUN]);
        let outcome = run(&of_day).unwrap();
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

    let (id, _) = rows(&days.output(1)).into_values().find(|row| row.2).map(|row| (row.0, row.1)).unwrap();
    for output in [days.output(1), days.path("merged")] {
        resemblance().arg("show").arg(output).args(["--id", &id]).assert().success();
    }
    let clean = days.path("clean");
    resemblance().arg("apply").arg(days.output(1)).arg("--to").arg(&clean).assert().success();
    let kept = std::fs::read_dir(&clean).unwrap().count();
    // And the folder of records.
    assert_eq!(kept, 2);
}
