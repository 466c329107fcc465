//! Clusters by either method, against what one process makes of the pairs: one document after the other, every path looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::Float64Type;
use datafusion::prelude::{DataFrame, SessionContext, lit};
use predicates::prelude::*;
use resemblance::engine::session;
use resemblance::frames::cluster_id::ClusterId;
use resemblance::job::{ClusterMethod, Clusters, Engine, Job};
use resemblance::pipeline::stage;
use tempfile::tempdir;

use crate::support::walk::least_reachable;
use crate::support::*;

type Pairs = BTreeMap<(String, String), f64>;

/// The row of a document in `clusters/`.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    cluster_id: String,
    size: u64,
    representative: bool,
    jaccard: Option<f64>,
    weakest: Option<f64>,
}

/// The rows by id.
type Rows = BTreeMap<String, Row>;

fn jaccard(pairs: &Pairs, a: &str, b: &str) -> Option<f64> {
    match a == b {
        true => Some(1.0),
        false => pairs.get(&(a.min(b).to_owned(), a.max(b).to_owned())).copied(),
    }
}

/// Each document as its representative describes it.
fn rows(of: &BTreeMap<String, String>, jaccard: impl Fn(&str, &str) -> Option<f64>) -> Rows {
    let mut clusters: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    of.iter().for_each(|(id, representative)| clusters.entry(representative).or_default().push(id));
    let row = |(id, representative): (&String, &String)| {
        let members = &clusters[representative.as_str()];
        let row = Row {
            cluster_id: members.iter().min().unwrap().to_string(),
            size: members.len() as u64,
            representative: id == representative,
            jaccard: jaccard(id, representative),
            weakest: None,
        };
        (id.clone(), row)
    };
    of.iter().map(row).collect()
}

/// The clusters of documents that pairs connect; `order` has the preferred documents first.
fn by_components(order: &[String], pairs: &Pairs) -> Rows {
    let roots = least_reachable(pairs.keys().cloned());
    let mut first: BTreeMap<&str, &str> = BTreeMap::new();
    for id in order {
        if let Some(root) = roots.get(id) {
            first.entry(root).or_insert(id);
        }
    }
    let of = roots.iter().map(|(id, root)| (id.clone(), first[root.as_str()].to_owned())).collect();
    let mut rows = rows(&of, |a, b| jaccard(pairs, a, b));
    // How strong the best path is: no better one is found until nothing changes.
    let mut strength: BTreeMap<&str, f64> = of.values().map(|id| (id.as_str(), 1.0)).collect();
    loop {
        let before = strength.clone();
        for ((a, b), &jaccard) in pairs {
            for (from, to) in [(a, b), (b, a)] {
                let path = strength.get(from.as_str()).copied().unwrap_or(0.0).min(jaccard);
                let best = strength.entry(to).or_insert(0.0);
                *best = best.max(path);
            }
        }
        if strength == before {
            break;
        }
    }
    rows.iter_mut().for_each(|(id, row)| row.weakest = Some(strength[id.as_str()]));
    rows
}

/// The clusters of representatives, which are chosen one after the other.
fn by_representatives(order: &[String], pairs: &Pairs) -> Rows {
    let paired: BTreeSet<&String> = pairs.keys().flat_map(|(a, b)| [a, b]).collect();
    let mut representatives: Vec<&String> = Vec::new();
    let mut of = BTreeMap::new();
    for id in order.iter().filter(|id| paired.contains(id)) {
        let before = representatives.iter().find(|before| jaccard(pairs, before, id).is_some()).copied();
        if before.is_none() {
            representatives.push(id);
        }
        of.insert(id.clone(), before.unwrap_or(id).clone());
    }
    rows(&of, |a, b| jaccard(pairs, a, b))
}

fn expected(method: ClusterMethod, order: &[String], pairs: &Pairs) -> Rows {
    match method {
        ClusterMethod::Components => by_components(order, pairs),
        ClusterMethod::Representative => by_representatives(order, pairs),
    }
}

/// The rows of batches of the table; sizes are read from a column of either sign.
fn found(batches: &[RecordBatch]) -> Rows {
    let mut found = Rows::new();
    for batch in batches {
        let (ids, clusters, sizes) =
            (strings(batch, "id"), strings(batch, "cluster_id"), numbers(batch, "size"));
        let representative = batch.column_by_name("representative").unwrap().as_boolean();
        let share = |name: &str, row: usize| {
            let shares = batch.column_by_name(name)?.as_primitive::<Float64Type>();
            shares.is_valid(row).then(|| shares.value(row))
        };
        for row in 0..batch.num_rows() {
            let told = Row {
                cluster_id: clusters[row].clone(),
                size: sizes[row],
                representative: representative.value(row),
                jaccard: share("jaccard_to_representative", row),
                weakest: share("weakest_link", row),
            };
            assert_eq!(found.insert(ids[row].clone(), told), None, "{} is there twice", ids[row]);
        }
    }
    found
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter(columns).unwrap()
}

fn u64s(values: impl IntoIterator<Item = u64>) -> ArrayRef {
    Arc::new(UInt64Array::from_iter_values(values))
}

/// A graph of shingle sets with copies. Few numbers make many ties.
struct Graph {
    /// (id, set) of each document.
    documents: Vec<(String, u64)>,
    /// Shingles of each set.
    sizes: Vec<u64>,
    /// (a, b, shared) of two sets.
    scores: Vec<(u64, u64, u64)>,
}

impl Graph {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let sets = 2 + random.below(16);
        let sizes: Vec<u64> = (0..sets).map(|_| 8 + random.below(4) as u64).collect();
        let mut scores = Vec::new();
        let chance = 2 + random.below(8);
        for b in 1..sets {
            for a in 0..b {
                if random.below(chance) == 0 {
                    let most = sizes[a].min(sizes[b]);
                    scores.push((a as u64, b as u64, most - random.below(4) as u64));
                }
            }
        }
        let mut documents = Vec::new();
        for set in 0..sets as u64 {
            for _ in 0..1 + random.below(3) {
                documents.push((format!("d{:02}", random.below(90)), set));
            }
        }
        documents.sort();
        documents.dedup_by(|a, b| a.0 == b.0);
        // Sets whose documents all lost their ids to others are not there.
        let there: BTreeSet<u64> = documents.iter().map(|(_, set)| *set).collect();
        scores.retain(|(a, b, _)| there.contains(a) && there.contains(b));
        Self { documents, sizes, scores }
    }

    fn pairs(&self) -> Pairs {
        let mut pairs = Pairs::new();
        for (at, (b, set_b)) in self.documents.iter().enumerate() {
            for (a, set_a) in &self.documents[..at] {
                let low = *set_a.min(set_b);
                let score = self.scores.iter().find(|(a, b, _)| (*a, *b) == (low, *set_a.max(set_b)));
                let union = |shared| self.sizes[*set_a as usize] + self.sizes[*set_b as usize] - shared;
                let jaccard = match score {
                    _ if set_a == set_b => 1.0,
                    Some((_, _, shared)) => *shared as f64 / union(shared) as f64,
                    None => continue,
                };
                pairs.insert((a.clone(), b.clone()), jaccard);
            }
        }
        pairs
    }

    /// All documents, the longest first, then the one of the smallest id.
    fn order(&self) -> Vec<String> {
        let mut order: Vec<_> = self
            .documents
            .iter()
            .map(|(id, set)| (u64::MAX - self.sizes[*set as usize], id.clone()))
            .collect();
        order.sort();
        order.into_iter().map(|(_, id)| id).collect()
    }

    /// The clusters by the stages of a run. Keys of sets are in no order.
    fn clusters(&self, context: &SessionContext, method: ClusterMethod) -> Rows {
        let key = |set: u64| Random(set).next();
        let scored: BTreeSet<u64> = self.scores.iter().flat_map(|(a, b, _)| [*a, *b]).collect();
        let count = |set: u64| self.documents.iter().filter(|(_, of)| *of == set).count();
        let paired = |set: &u64| scored.contains(set) || count(*set) > 1;
        let members: Vec<_> = self.documents.iter().filter(|(_, set)| paired(set)).collect();
        let ids: Vec<&str> = members.iter().map(|(id, _)| id.as_str()).collect();
        let members = batch(vec![
            ("id", Arc::new(StringArray::from(ids))),
            ("shingle_count", u64s(members.iter().map(|(_, set)| self.sizes[*set as usize]))),
            ("rep", u64s(members.iter().map(|(_, set)| key(*set)))),
            ("doc", u64s(0..members.len() as u64)),
            ("reference", Arc::new(BooleanArray::from(vec![false; members.len()]))),
        ]);
        let roots = least_reachable(self.scores.iter().map(|(a, b, _)| (key(*a), key(*b))));
        let components =
            batch(vec![("doc", u64s(roots.keys().copied())), ("root", u64s(roots.values().copied()))]);
        let size = |set: u64| self.sizes[set as usize];
        let scores = batch(vec![
            ("a", u64s(self.scores.iter().map(|(a, _, _)| key(*a)))),
            ("b", u64s(self.scores.iter().map(|(_, b, _)| key(*b)))),
            ("shared", u64s(self.scores.iter().map(|(_, _, shared)| *shared))),
            ("shingles_a", u64s(self.scores.iter().map(|(a, _, _)| size(*a)))),
            ("shingles_b", u64s(self.scores.iter().map(|(_, b, _)| size(*b)))),
        ]);
        let frame = |batch: RecordBatch| context.read_batch(batch).unwrap();
        let order = Clusters::default().order();
        let ranks = stage::ranks::ranks(frame(members), frame(components), &order).unwrap();
        let represented =
            stage::represented::represented(ranks.clone(), frame(scores), method, lit(true)).unwrap();
        found(&collect(
            stage::clusters::clusters(ranks, represented, method, lit(true), ClusterId::Least).unwrap(),
        ))
    }
}

fn collect(frame: DataFrame) -> Vec<RecordBatch> {
    block_on(frame.collect()).unwrap()
}

#[test]
fn random_graphs_with_ties_are_clustered_as_one_document_after_the_other_would_be() {
    let context = session::session(&Engine { threads: 2, ..Engine::local(1 << 30) }).unwrap();
    let (mut chained, mut alone, mut indirect) = (0, 0, 0);
    for seed in 0..200 {
        let graph = Graph::new(seed);
        let (order, pairs) = (graph.order(), graph.pairs());
        for method in [ClusterMethod::Components, ClusterMethod::Representative] {
            let rows = graph.clusters(&context, method);
            assert_eq!(rows, expected(method, &order, &pairs), "{method:?} of graph {seed}");
            alone += rows.values().filter(|row| row.size == 1).count();
            indirect += rows.values().filter(|row| row.jaccard.is_none()).count();
        }
        let of = |rows: Rows| rows.values().filter(|row| row.representative).count();
        chained += of(by_representatives(&order, &pairs)) - of(by_components(&order, &pairs));
    }
    // Else the graphs would not tell the methods apart.
    assert!(chained > 200 && alone > 50 && indirect > 500, "{chained} {alone} {indirect}");
}

/// Documents that are windows of one long text, and others with copies.
fn documents(seed: u64) -> Vec<Document> {
    let window = |i: usize| (7 * i..7 * i + 40).map(|n| format!("w{n}")).collect::<Vec<_>>().join(" ");
    let mut documents: Vec<_> = (0..40).map(|i| (format!("w{:02}", (i * 17) % 40), window(i))).collect();
    documents.extend((0..12).map(|i| (format!("c{i:02}"), window(3 * (i % 4)))));
    documents.extend(corpus(seed, 60, 30).into_iter().map(|(id, text)| (format!("x{id}"), text)));
    documents
}

fn read(output: &Path) -> Rows {
    found(&[table(output, "clusters")])
}

/// The documents of an output, in the order of the columns by which they are wanted.
fn order(output: &Path, wanted: impl Fn(u64, &str) -> (i64, String)) -> Vec<String> {
    let documents = table(output, "documents");
    let mut order: Vec<_> = strings(&documents, "id")
        .into_iter()
        .zip(numbers(&documents, "shingle_count"))
        .map(|(id, length)| (wanted(length, &id), id))
        .collect();
    order.sort();
    order.into_iter().map(|(_, id)| id).collect()
}

#[test]
fn a_run_clusters_as_its_pairs_say_also_where_copies_are_written_as_stars() {
    let folder = tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for (seed, keep) in [(1, "[]"), (2, "['length asc']"), (3, "['id desc']")] {
        write_parquet(&path("in.parquet"), &documents(seed), 40);
        let keep_set = format!("clusters.keep={keep}");
        for method in ["components", "representative"] {
            let what = format!("{method} {keep} {seed}");
            let method_set = format!("clusters.method={method}");
            let of = |name: &str, more: &[&str]| {
                let sets = [&["score.threshold=0.4", &keep_set, &method_set], more].concat();
                let output = path(&format!("{name} {what}"));
                run(&job(&path("in.parquet"), &output, &sets)).unwrap();
                output
            };
            let whole = of("whole", &["output.max_expand=0"]);
            let descending = |id: &str| id.chars().map(|c| char::from(255 - c as u8)).collect::<String>();
            let order = order(&whole, |length, id| match keep {
                "[]" => (-(length as i64), id.to_owned()),
                "['length asc']" => (length as i64, id.to_owned()),
                _ => (0, descending(id) + "\u{ff}"),
            });
            let pairs = pairs(&whole);
            let method = match method {
                "components" => ClusterMethod::Components,
                _ => ClusterMethod::Representative,
            };
            let rows = read(&whole);
            assert_eq!(rows, expected(method, &order, &pairs), "{what}");
            let chained = manifest(&whole).counts.chained_documents;
            let by_components = by_components(&order, &pairs);
            let stay = |rows: &Rows| rows.values().filter(|row| row.representative).count() as u64;
            match method {
                ClusterMethod::Components => assert_eq!(chained, None, "{what}"),
                ClusterMethod::Representative => {
                    let more = stay(&rows) - stay(&by_components);
                    assert!(more > 10, "no chains: {what}");
                    assert_eq!(chained, Some(more), "{what}");
                }
            }
            // Stars of copies leave pairs out, and no row here.
            let stars = of("stars", &["output.max_expand=2", "engine.threads=3"]);
            assert!(manifest(&stars).counts.pairs_left_out > 0);
            assert_eq!(read(&stars), rows, "{what}");
            let stars = of("all stars", &["output.expand=star", "engine.threads=1"]);
            assert_eq!(read(&stars), rows, "{what}");
        }
    }
}

/// Copies of one group are not pairs of each other if groups are compared across.
#[test]
fn copies_that_are_no_pairs_represent_themselves() {
    let folder = tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let documents = documents(5);
    let (ids, texts): (Vec<&str>, Vec<&str>) =
        documents.iter().map(|(id, text)| (id.as_str(), text.as_str())).unzip();
    let mut random = Random(5);
    let groups: Vec<_> = documents.iter().map(|_| ["north", "south"][random.below(2)]).collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(StringArray::from(ids))),
        ("text", Arc::new(StringArray::from(texts))),
        ("shop", Arc::new(StringArray::from(groups))),
    ];
    write_batch(&path("in.parquet"), &batch(columns), 40);
    let output = path("out");
    let sets = [
        "score.threshold=0.4",
        "source.group=shop",
        "candidates.compare=across",
        "clusters.method=representative",
        "output.max_expand=0",
    ];
    run(&job(&path("in.parquet"), &output, &sets)).unwrap();
    let order = order(&output, |length, id| (-(length as i64), id.to_owned()));
    let rows = read(&output);
    assert_eq!(rows, by_representatives(&order, &pairs(&output)));
    assert!(rows.values().filter(|row| row.representative).count() > 20);
}

/// New documents join the clusters of reference documents only where these were made in the same way.
#[test]
fn representatives_need_reference_outputs_that_have_them_too() {
    let folder = tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let all = documents(7);
    let (first, second) = all.split_at(all.len() / 2);
    write_parquet(&path("first.parquet"), first, 40);
    write_parquet(&path("second.parquet"), second, 40);
    let method = "clusters.method=representative";
    let made = |name: &str, source: &str, sets: &[&str]| {
        run(&job(&path(source), &path(name), sets)).unwrap();
        format!("against.output=[{:?}]", path(name).display().to_string())
    };
    let components = made("components", "first.parquet", &[]);
    let representatives = made("representatives", "first.parquet", &[method]);
    let refused = |sets: &[&str], said: &str| {
        std::fs::write(path("job.toml"), job_text(path("second.parquet"), path("refused"))).unwrap();
        let mut command = resemblance();
        command.arg("run").arg(path("job.toml")).args(sets.iter().flat_map(|set| ["--set", set]));
        command.assert().code(2).stderr(predicate::str::contains(said));
        assert!(!path("refused").exists());
    };
    refused(&[&components, method], "another clusters.method or clusters.keep");
    refused(&[&representatives, method, "clusters.keep=['id']"], "another clusters.method or clusters.keep");
    made("new-old", "second.parquet", &[&representatives, method, "against.pairs=new-old"]);
    let both = format!("against.output={:?}", [path("representatives"), path("new-old")]);
    refused(&[&both, method, "against.same_id=skip"], "against.pairs = \"new-old\"");
    // Connected documents are found from either.
    made("after-representatives", "second.parquet", &[&representatives]);
    made("after-components", "second.parquet", &[&components]);
    assert_eq!(read(&path("after-representatives")).len(), read(&path("after-components")).len());
    assert!(read(&path("after-representatives")).len() > 10);
}

/// Real texts: counts of both methods.
#[test]
fn reuters_by_both_methods() {
    let Some(data) = real_data("reuters21578") else { return };
    let folder = tempdir().unwrap();
    let mut stay = Vec::new();
    for (name, method) in
        [("components", ClusterMethod::Components), ("representative", ClusterMethod::Representative)]
    {
        let output = folder.path().join(name);
        let sets = [
            format!("source.url={}/", data.display()),
            format!("output.url={}", output.display()),
            "candidates.method=prefix".to_owned(),
            "score.threshold=0.5".to_owned(),
            "output.max_expand=0".to_owned(),
            format!("clusters.method={name}"),
        ];
        run(&Job::load(repository("jobs/recipes/reuters.toml"), &sets).unwrap()).unwrap();
        let order = order(&output, |length, id| (-(length as i64), id.to_owned()));
        let rows = read(&output);
        assert!(rows == expected(method, &order, &pairs(&output)), "{name}");
        stay.push(rows.values().filter(|row| row.representative).count());
        let removed = rows.len() - stay.last().unwrap();
        eprintln!("Reuters at 0.5, {name}: {} documents in clusters, {removed} would be removed", rows.len());
    }
    assert!(stay[0] < stay[1], "{stay:?}");
}
