//! The tables of an output in the form of the brute force's answer, and the comparison of both.

use std::fmt::Debug;

use arrow::datatypes::Int64Type;

use super::answer::{Answer, Documents, Name, Pair, Pairs, Row};
use super::corpus::{Frequent, Reject};
use super::losses::{Losses, Spared};
use super::settings::{From, Settings};
use crate::support::*;

/// An output, and the documents that its run could know.
pub struct Found<'a> {
    pub output: &'a Path,
    pub documents: &'a Documents,
    pub run: usize,
    pub settings: &'a Settings,
    pub what: &'a str,
}

impl Found<'_> {
    fn is_new(&self, name: &Name) -> bool {
        !name.0 && self.documents[name].run == self.run
    }

    /// The name of a document by its id and by whether it is known.
    fn name(&self, id: &str, known: bool) -> Name {
        let second = (true, id.to_owned());
        let name =
            if known && self.documents.contains_key(&second) { second } else { (false, id.to_owned()) };
        assert_eq!(!self.is_new(&name), known, "{name:?}: {}", self.what);
        name
    }

    fn pairs(&self) -> Pairs {
        let pairs = table(self.output, "pairs");
        let (a, b, known) = (strings(&pairs, "id_a"), strings(&pairs, "id_b"), bools(&pairs, "reference_b"));
        let [jaccard, estimate, of_a, of_b] =
            ["jaccard", "estimate", "containment_a", "containment_b"].map(|column| floats(&pairs, column));
        let [shared, shingles_a, shingles_b, shared_bands] =
            ["shared", "shingles_a", "shingles_b", "shared_bands"].map(|column| numbers(&pairs, column));
        let groups =
            self.settings.compare.map(|_| ["group_a", "group_b"].map(|column| texts(&pairs, column)));
        let group = |side: usize, row: usize| groups.as_ref().and_then(|groups| groups[side][row].clone());
        let decisions = self.settings.decisions.as_ref().map(|_| texts(&pairs, "decision"));
        let rows = (0..pairs.num_rows()).map(|row| {
            let pair = Pair {
                jaccard: jaccard[row],
                estimate: estimate[row],
                containments: (of_a[row], of_b[row]),
                shared: shared[row],
                shingles: (shingles_a[row], shingles_b[row]),
                shared_bands: shared_bands[row],
                groups: (group(0, row), group(1, row)),
                decision: decisions.as_ref().and_then(|decisions| decisions[row].clone()),
            };
            ((self.name(&a[row], false), self.name(&b[row], known[row])), pair)
        });
        let found: Pairs = rows.collect();
        assert_eq!(found.len(), pairs.num_rows(), "a pair is there twice: {}", self.what);
        found
    }

    /// The rows of a table of clusters, each with the id of its cluster.
    pub fn clusters(&self, rows: &RecordBatch) -> BTreeMap<Name, (String, Row)> {
        let (known, representative) = (bools(rows, "reference"), bools(rows, "representative"));
        let (ids, cluster_ids, sizes) =
            (strings(rows, "id"), strings(rows, "cluster_id"), numbers(rows, "size"));
        let share = |name: &str| -> Vec<Option<f64>> {
            rows.column_by_name(name).map_or(vec![None; ids.len()], |_| optional(rows, name))
        };
        let (jaccard, weakest) = (share("jaccard_to_representative"), share("weakest_link"));
        let mut members: BTreeMap<&str, (BTreeSet<Name>, Vec<Name>)> = BTreeMap::new();
        for (row, cluster) in cluster_ids.iter().enumerate() {
            let (all, first) = members.entry(cluster).or_default();
            let name = self.name(&ids[row], known[row]);
            first.extend(representative[row].then(|| name.clone()));
            assert!(all.insert(name), "{} is there twice: {}", ids[row], self.what);
        }
        let mut found = BTreeMap::new();
        for (row, cluster_id) in cluster_ids.iter().enumerate() {
            let (cluster, representatives) = &members[cluster_id.as_str()];
            assert_eq!(representatives.len(), 1, "representatives of {cluster_id}: {}", self.what);
            assert_eq!(sizes[row], cluster.len() as u64, "size of {cluster_id}: {}", self.what);
            let of = Row {
                cluster: cluster.clone(),
                representative: representatives[0].clone(),
                jaccard: jaccard[row],
                weakest: weakest[row],
            };
            found.insert(self.name(&ids[row], known[row]), (cluster_id.clone(), of));
        }
        found
    }

    /// Holds clusters against the answer. `alone` says that no cluster has an id of an earlier run.
    pub fn check_clusters(
        &self,
        found: BTreeMap<Name, (String, Row)>,
        expected: &BTreeMap<Name, Row>,
        alone: bool,
        what: &str,
    ) {
        for (id, row) in found.values() {
            let least = row.cluster.iter().filter(|name| !name.0).map(|name| &name.1).min().unwrap();
            assert!(!alone || id == least, "{id} is the id of a cluster, not {least}: {what}");
        }
        let found = found.into_iter().map(|(name, (_, row))| (name, row)).collect();
        same(&found, expected, &format!("clusters: {what}"));
    }

    /// Holds all tables against the answer. `alone` says that no earlier run is known.
    pub fn check(&self, expected: &Answer, alone: bool) {
        let (settings, what) = (self.settings, self.what);
        let counts = manifest(self.output).counts;
        let found = self.pairs();
        assert_eq!(counts.pairs, found.len() as u64, "{what}");
        assert_eq!(counts.shingle_sets, expected.sets as u64, "{what}");
        for (ids, pair) in &found {
            assert_eq!(Some(pair), expected.pairs.get(ids), "{ids:?}: {what}");
        }
        self.check_documents();
        let rows = table(self.output, "clusters");
        let clusters = self.clusters(&rows);
        // Each new document that has a pair has one that is written, and copies are in one cluster.
        let written: BTreeSet<&Name> = found.keys().flat_map(|(x, y)| [x, y]).collect();
        for (a, b) in expected.pairs.keys() {
            assert!(written.contains(a) && (written.contains(b) || !self.is_new(b)), "{a:?} {b:?}: {what}");
            let is_judged = settings.decisions.as_ref().is_some_and(|all| all.verdict(a, b) == Some(false));
            if !settings.representative && !is_judged && self.documents[a].set == self.documents[b].set {
                let [of_a, of_b] = [a, b].map(|name| clusters.get(name).map(|row| &row.0));
                assert!(of_a.is_some() && of_a == of_b, "{a:?} {b:?}: {what}");
            }
        }
        if settings.may_be_dense() {
            return;
        }
        same(&found, &expected.written, &format!("pairs: {what}"));
        assert_eq!(counts.pairs_left_out, (expected.pairs.len() - found.len()) as u64, "{what}");
        let alone = alone || settings.from == From::TwoSources;
        if settings.compare.is_some() {
            let groups = clusters.values().map(|(_, row)| {
                row.cluster.iter().map(|name| self.documents[name].group).collect::<BTreeSet<_>>().len()
                    as u64
            });
            let ids = strings(&rows, "id").into_iter().zip(bools(&rows, "reference"));
            let written: BTreeMap<Name, u64> =
                ids.map(|(id, known)| self.name(&id, known)).zip(numbers(&rows, "groups")).collect();
            assert!(written.into_values().eq(groups), "groups of clusters: {what}");
            self.check_group_pairs(&found);
        }
        self.check_clusters(clusters, &expected.clusters, alone, what);
        // A document that is spared stays without representing others.
        if settings.contained.is_none() && settings.decisions.is_none() {
            let superseded = expected.clusters.iter().filter(|(name, row)| {
                !name.0 && self.documents[*name].place < self.run && row.representative != **name
            });
            let counted = counts.superseded_reference_documents.unwrap_or_default();
            assert_eq!(superseded.count() as u64, counted, "{what}");
        }
        if settings.representative {
            assert_eq!(counts.chained_documents, Some(expected.chained as u64), "{what}");
        }
        if !expected.levels.is_empty() {
            let rows = table(self.output, "cluster_levels");
            let thresholds = floats(&rows, "threshold");
            let mut all = 0;
            for (threshold, expected) in &expected.levels {
                // The rows are sorted by their first column.
                let first = thresholds.partition_point(|at| at < threshold);
                let count = thresholds.partition_point(|at| at <= threshold) - first;
                let rows = self.clusters(&rows.slice(first, count));
                let expected = expected
                    .iter()
                    .map(|(name, row)| (name.clone(), Row { jaccard: None, weakest: None, ..row.clone() }));
                self.check_clusters(rows, &expected.collect(), alone, &format!("at {threshold}: {what}"));
                all += count;
            }
            assert_eq!(all, rows.num_rows(), "{what}");
        }
        let is_safe = settings.contained.is_some() || settings.decisions.is_some();
        check_losses(self.output, &expected.losses, is_safe, what);
    }

    /// The documents that the run read, with their signatures and shingles as far as they are kept.
    fn check_documents(&self) {
        let rows = table(self.output, "documents");
        let ids = strings(&rows, "id");
        let new: BTreeSet<&str> =
            self.documents.keys().filter(|name| self.is_new(name)).map(|name| name.1.as_str()).collect();
        assert_eq!(ids.iter().map(String::as_str).collect::<BTreeSet<_>>(), new, "documents: {}", self.what);
        assert_eq!(ids.len(), new.len(), "a document is there twice: {}", self.what);
        let lists = rows.column_by_name("shingles").map(|lists| lists.as_list::<i32>());
        let signatures = rows.column_by_name("signature").map(signature_values);
        assert_eq!(
            (lists.is_some(), signatures.is_some()),
            match self.settings.keep_tables {
                "none" => (false, false),
                kept => (kept == "shingles", true),
            },
            "{}",
            self.what
        );
        for (row, id) in ids.iter().enumerate() {
            let expected = &self.documents[&(false, id.clone())];
            if let Some(signatures) = &signatures {
                assert_eq!(signatures[row], expected.signature, "signature of {id}: {}", self.what);
            }
            if let Some(lists) = lists {
                let values = lists.value(row).as_primitive::<Int64Type>().values().to_vec();
                let set = values.into_iter().map(i64::cast_unsigned);
                assert!(set.eq(expected.set.iter().copied()), "shingles of {id}: {}", self.what);
            }
        }
    }

    /// How many pairs and documents every two groups share, by the pairs that are written.
    fn check_group_pairs(&self, pairs: &Pairs) {
        let group = |name: &Name| self.documents[name].group;
        let last = |group: Option<&'static str>| (group.is_none(), group);
        let mut common: BTreeMap<_, (u64, [BTreeSet<&Name>; 2])> = BTreeMap::new();
        for (a, b) in pairs.keys() {
            let mut ends = [(last(group(a)), a), (last(group(b)), b)];
            ends.sort();
            let [(first, a), (second, b)] = ends;
            let (count, documents) = common.entry((first, second)).or_default();
            *count += 1;
            documents[0].insert(a);
            documents[1].insert(b);
            if first == second {
                documents[0].insert(b);
                documents[1].insert(a);
            }
        }
        // Reference documents count only if they are in a pair.
        let paired: BTreeSet<&Name> = pairs.keys().flat_map(|(a, b)| [a, b]).collect();
        let counts = |name: &&Name| self.is_new(name) || paired.contains(name);
        let size = |of| self.documents.keys().filter(|name| group(name) == of).filter(counts).count() as u64;
        let expected: BTreeMap<_, _> = common
            .into_iter()
            .map(|((first, second), (count, [a, b]))| {
                let named = [first.1, second.1].map(|group| group.map(str::to_owned));
                (named, [count, a.len() as u64, b.len() as u64, size(first.1), size(second.1)])
            })
            .collect();
        let rows = table(self.output, "group_pairs");
        let [a, b] = ["group_a", "group_b"].map(|column| texts(&rows, column));
        let counts =
            ["pairs", "documents_a", "documents_b", "size_a", "size_b"].map(|name| numbers(&rows, name));
        let found = (0..rows.num_rows())
            .map(|row| ([a[row].clone(), b[row].clone()], counts.each_ref().map(|column| column[row])));
        assert_eq!(found.collect::<BTreeMap<_, _>>(), expected, "group_pairs: {}", self.what);
    }
}

/// Holds a table of rejects against the rows that cannot be compared; a reason may be one of two.
pub fn check_rejects(output: &Path, name: &str, expected: &[Reject], what: &str) {
    let rows = table(output, name);
    let (sources, positions) = (strings(&rows, "source"), numbers(&rows, "position"));
    let (ids, reasons) = (strings(&rows, "id"), strings(&rows, "reason"));
    let reject = |row: usize| Reject {
        source: sources[row].clone(),
        position: positions[row],
        id: ids[row].clone(),
        reason: reasons[row].clone(),
    };
    let mut found: Vec<Reject> = (0..rows.num_rows()).map(reject).collect();
    found.sort();
    if name == "rejects" {
        let mut counts = BTreeMap::new();
        found.iter().for_each(|reject| *counts.entry(reject.reason.clone()).or_insert(0) += 1);
        assert_eq!(manifest(output).rejects, counts, "{what}");
    }
    for (found, expected) in found.iter_mut().zip(expected) {
        if expected.reason.split(" or ").any(|reason| reason == found.reason) {
            found.reason.clone_from(&expected.reason);
        }
    }
    assert_eq!(found, expected, "{name}: {what}");
}

/// Compares the table of frequent shingles with the first source. Their texts are not compared.
pub fn check_frequent(output: &Path, expected: &Frequent, what: &str) {
    let rows = table(output, "frequent_shingles");
    let mut found: Vec<(u64, f64)> =
        numbers(&rows, "documents").into_iter().zip(floats(&rows, "share")).collect();
    let mut expected: Vec<(u64, f64)> = expected.values().copied().collect();
    [&mut found, &mut expected].into_iter().for_each(|rows| rows.sort_by(|a, b| a.partial_cmp(b).unwrap()));
    assert_eq!(found, expected, "frequent_shingles: {what}");
}

/// Ends the test at the first rows that are not the same.
fn same<K: Ord + Debug, V: PartialEq + Debug>(found: &BTreeMap<K, V>, expected: &BTreeMap<K, V>, what: &str) {
    for (key, row) in expected {
        assert_eq!(found.get(key), Some(row), "{key:?}: {what}");
    }
    let more: Vec<_> = found.keys().filter(|key| !expected.contains_key(key)).collect();
    assert!(more.is_empty(), "too many: {more:?}: {what}");
}

pub fn spared(output: &Path) -> BTreeMap<(String, bool), Spared> {
    let rows = table(output, "spared");
    let (jaccard, containment) = (optional(&rows, "jaccard"), optional(&rows, "containment"));
    let lost = rows.column_by_name("lost_shingles").unwrap().as_primitive::<Int64Type>().iter();
    let lost: Vec<Option<u64>> = lost.map(|lost| lost.map(i64::unsigned_abs)).collect();
    let (of, reasons) = (strings(&rows, "representative"), strings(&rows, "reason"));
    let ids = strings(&rows, "id").into_iter().zip(bools(&rows, "reference"));
    let spared = |row: usize| Spared {
        representative: of[row].clone(),
        jaccard: jaccard[row],
        containment: containment[row],
        reason: reasons[row].clone(),
        lost: lost[row],
    };
    let found: BTreeMap<_, _> = ids.enumerate().map(|(row, document)| (document, spared(row))).collect();
    assert_eq!(found.len(), rows.num_rows(), "a document is there twice");
    found
}

/// Holds what a run spares and loses against the answer; without `is_safe` it spares nothing.
pub fn check_losses(output: &Path, expected: &Losses, is_safe: bool, what: &str) {
    let counts = manifest(output).counts;
    assert_eq!(counts.spared, is_safe.then_some(expected.spared.len() as u64), "{what}");
    if is_safe {
        same(&spared(output), &expected.spared, &format!("spared: {what}"));
        let rows = table(output, "spared_copies");
        let ends = |id: &str, of: &str| strings(&rows, id).into_iter().zip(bools(&rows, of));
        let copies = ends("id", "reference").zip(ends("kept_id", "kept_reference")).collect();
        same(&copies, &expected.copies, &format!("spared_copies: {what}"));
    }
    let found = (counts.removed_documents, counts.lossy_removals, counts.lost_shingles);
    let wanted = (expected.removed.len() as u64, Some(expected.lossy), Some(expected.gone));
    assert_eq!(found, wanted, "{what}");
}
