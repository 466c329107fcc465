//! `[against]`: days that come one after the other have the pairs and clusters of one run over all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use arrow::array::AsArray;
use predicates::prelude::*;
use resemblance::error::{Kind, Result};
use resemblance::job::Job;
use resemblance::pipeline::Outcome;
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
        let mut sets = sets.to_vec();
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

    fn whole(&self, sets: &[&str]) -> Job {
        let own: Vec<&str> = sets.iter().copied().filter(|set| !set.starts_with("against")).collect();
        job(&self.path("all.parquet"), &self.path("whole"), &own)
    }

    /// The pairs of all days together. No day finds a pair of an earlier one again, and which documents are known is right.
    fn pairs(&self) -> Pairs {
        let mut pairs = Pairs::new();
        let mut seen: BTreeSet<String> = BTreeSet::new();
        for day in 0..self.days {
            let own: BTreeSet<_> = strings(&table(&self.output(day), "documents"), "id").into_iter().collect();
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
                    let merges = table(&self.output(day), "merges");
                    strings(&merges, "old_cluster_id").into_iter().zip(strings(&merges, "cluster_id")).collect()
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

/// The pairs of an output: by both ids in order, (id_a, id_b, known_b, the other columns in that order).
fn rows(output: &Path) -> BTreeMap<(String, String), (String, String, bool, String)> {
    let batch = table(output, "pairs");
    let (a, b) = (strings(&batch, "id_a"), strings(&batch, "id_b"));
    let known = batch.column_by_name("known_b").unwrap().as_boolean().clone();
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
    }
    assert!(pairs > 300, "{pairs} pairs");
}
