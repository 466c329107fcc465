//! Dense groups: documents that share most of their text with very many others, compared with a comparison of all with all.

use resemblance::output::manifest::Counts;

use crate::support::walk::least_reachable;
use crate::support::*;

type Ids = (String, String);

/// Words of a page that are all pages' of its site.
const HEADER: usize = 60;

/// Documents of a dense group, at most, for all of their pairs to be written.
const LIMIT: usize = 20;

/// Pages of `sites` sites, each a header and 1 to 18 words of its own, so that not every two pages of a site are similar; and
/// documents without a header, some of them similar to each other.
fn pages(sites: usize, of_each: usize) -> Vec<Document> {
    let mut random = Random(31);
    let mut words = |n: usize| (0..n).map(|_| format!("w{}", random.below(1 << 30))).collect::<Vec<_>>();
    let mut documents = corpus(32, 120, 40);
    for site in 0..sites {
        let header = words(HEADER);
        for page in 0..of_each {
            let text = [header.clone(), words(1 + page % 18)].concat().join(" ");
            documents.push((format!("s{site}-{page:04}"), text));
        }
    }
    documents
}

struct Pages {
    folder: Scene,
    documents: Vec<Document>,
}

impl Pages {
    fn new(documents: Vec<Document>) -> Self {
        let folder = Scene::new(&["score.threshold=0.8"]);
        folder.write("in.parquet", &documents);
        Self { folder, documents }
    }

    fn job(&self, name: &str, sets: &[&str]) -> Job {
        self.folder.job("in.parquet", name, sets)
    }

    fn run(&self, name: &str, sets: &[&str]) -> Output {
        run(&self.job(name, sets)).unwrap();
        Output::read(&self.folder.path(name))
    }

    /// The number of these pairs where documents with the same shingles count as one.
    fn of_sets(&self, pairs: &[&Ids]) -> u64 {
        let texts: BTreeMap<&String, &String> = self.documents.iter().map(|(id, text)| (id, text)).collect();
        let sets = pairs.iter().map(|(a, b)| BTreeSet::from([texts[a], texts[b]]));
        sets.collect::<BTreeSet<_>>().len() as u64
    }

    /// Shingles that more documents have than a dense group may.
    fn frequent(&self) -> BTreeMap<String, BTreeSet<String>> {
        let sets: BTreeMap<_, _> =
            self.documents.iter().map(|(id, text)| (id.clone(), shingles(text, 3))).collect();
        let mut times: BTreeMap<&String, usize> = BTreeMap::new();
        for shingle in sets.values().flatten() {
            *times.entry(shingle).or_default() += 1;
        }
        let frequent = |set: &BTreeSet<String>| set.iter().filter(|s| times[s] > LIMIT).cloned().collect();
        sets.iter().map(|(id, set)| (id.clone(), frequent(set))).collect()
    }
}

struct Output {
    pairs: BTreeMap<Ids, f64>,
    clusters: BTreeMap<String, String>,
    counts: Counts,
    stages: Vec<String>,
    warnings: Vec<String>,
}

impl Output {
    fn read(output: &Path) -> Self {
        let manifest = manifest(output);
        let clusters = table(output, "clusters");
        Self {
            pairs: pairs(output),
            clusters: string_pairs(&clusters, ["id", "cluster_id"]),
            counts: manifest.counts,
            stages: manifest.stages.into_iter().map(|stage| stage.name).collect(),
            warnings: manifest.warnings,
        }
    }

    fn documents(&self) -> BTreeSet<&String> {
        self.pairs.keys().flat_map(|(a, b)| [a, b]).collect()
    }

    fn is_dense(&self) -> bool {
        self.stages.iter().any(|stage| stage == "dense_candidates")
    }
}

const METHODS: [&[&str]; 3] = [
    &["candidates.method=prefix"],
    &["candidates.method=lsh", "lsh.hot_bucket=20"],
    &["candidates.method=prefix", "score.by=signature"],
];

/// Checks the promises for dense groups against a run that finds all pairs.
#[test]
fn left_out_pairs_are_counted_and_have_paired_documents() {
    let scene = Pages::new(pages(2, 130));
    let (exact, frequent) = (exact_pairs(&scene.documents, 3, 0.8), scene.frequent());
    for (number, method) in METHODS.into_iter().enumerate() {
        let all = scene.run(&format!("all {number}"), &[method, &["output.max_expand=0"]].concat());
        let some = scene.run(&format!("some {number}"), &[method, &["output.max_expand=20"]].concat());
        assert!(!all.is_dense() && some.is_dense(), "{method:?}: {:?}", some.stages);
        if number == 0 {
            assert_eq!(all.pairs, exact, "without a limit all pairs are written");
        }
        // Fewer by far, and true ones.
        assert!(some.pairs.len() * 4 < all.pairs.len(), "{} of {}", some.pairs.len(), all.pairs.len());
        let candidates = [&some, &all].map(|output| output.counts.candidates.unwrap());
        assert!(candidates[0] * 3 < candidates[1], "{candidates:?}");
        assert!(some.pairs.iter().all(|(pair, jaccard)| all.pairs.get(pair) == Some(jaccard)));
        // A document that has a partner still has one, and keeps its cluster here.
        assert_eq!(some.documents(), all.documents(), "{method:?}");
        assert_eq!(some.clusters, least_reachable(some.pairs.keys().cloned()));
        for (a, b) in some.pairs.keys() {
            assert_eq!(all.clusters[a], all.clusters[b], "{a} and {b} are not connected");
        }
        if !method.contains(&"score.by=signature") {
            assert_eq!(some.clusters, all.clusters, "{method:?}");
        }
        // Pairs that are left out lie within groups that share a shingle, and their number is reported.
        let left_out: Vec<&Ids> = all.pairs.keys().filter(|pair| !some.pairs.contains_key(pair)).collect();
        for (a, b) in &left_out {
            assert!(!frequent[a].is_disjoint(&frequent[b]), "{a} and {b} are in no dense group");
        }
        assert_eq!(some.counts.dense_pairs_left_out.unwrap(), scene.of_sets(&left_out), "{method:?}");
        let ends: BTreeSet<&String> = left_out.iter().flat_map(|(a, b)| [a, b]).collect();
        assert!(ends.len() as u64 <= some.counts.dense_documents.unwrap());
        assert!(some.warnings.iter().any(|said| said.contains("output.max_expand")), "{:?}", some.warnings);
        // Where estimates decide, the job warns of pairs that they drop, and of nothing else.
        let by_estimate = usize::from(method.contains(&"score.by=signature"));
        assert_eq!(all.warnings.len(), by_estimate, "{:?}", all.warnings);
        assert!(all.warnings.iter().all(|said| said.contains("is expected to find")), "{:?}", all.warnings);
        assert!(all.counts.dense_documents.is_none());
    }
}

#[test]
fn dense_groups_are_the_same_for_any_threads_and_memory() {
    let scene = Pages::new(pages(2, 150));
    let dense = ["lsh.hot_bucket=20", "output.max_expand=20"];
    let at = |name: &str, threads: &str, memory: &str| {
        run(&scene.job(name, &[&dense[..], &[threads, memory]].concat())).unwrap();
        let output = scene.folder.path(name);
        (tables(&output), manifest(&output).counts)
    };
    let first = at("one", "engine.threads=1", "engine.memory=1GiB");
    assert!(first.1.dense_documents.unwrap() > 0);
    assert_eq!(at("four", "engine.threads=4", "engine.memory=1GiB"), first);
    assert_eq!(at("small", "engine.threads=2", "engine.memory=64MiB"), first);
}

#[test]
fn a_run_resumes_between_rounds() {
    let scene = Pages::new(pages(2, 100));
    let sets = ["candidates.method=prefix", "output.max_expand=20", "engine.threads=1"];
    assert!(scene.run("whole", &sets).is_dense());
    stopping::same_rows(|name| scene.job(name, &sets), 1, &["pairs", "clusters", "documents"]);
}

/// A run that would write too many pairs ends with advice before it looks for them, and continues under a higher limit.
#[test]
fn too_many_pairs_are_foretold() {
    let scene = Pages::new(pages(2, 150));
    let copies = Pages::new((0..60).map(|i| (format!("c{i}"), "one two three four five".into())).collect());
    let all = "output.max_expand=0";
    let cases: [(&Pages, &[&str], &str, &str); 6] = [
        (&scene, &["lsh.hot_bucket=20", all], "hot_positions", "set output.max_expand to about 1000"),
        (&scene, &["candidates.method=prefix", all], "frequencies", "set output.max_expand to about 1000"),
        (&scene, &["candidates.method=all"], "scores", "set candidates.method to \"lsh\" or \"prefix\""),
        (&scene, &["lsh.hot_bucket=1000"], "positions", "lower output.max_expand, which is 1000"),
        (&scene, &["candidates.method=prefix", "output.max_expand=140"], "members", "at least"),
        (&copies, &["output.max_expand=0"], "candidates", "1770 pairs of identical documents"),
    ];
    for (number, (scene, sets, not_begun, sentence)) in cases.into_iter().enumerate() {
        let name = format!("out {number}");
        let error = run(&scene.job(&name, &[sets, &["output.max_pairs=1000"]].concat())).unwrap_err();
        let said = error.to_string();
        assert_eq!((error.kind(), error.kind().exit_code()), (Kind::Engine, 4), "{said}");
        assert!(said.contains("output.max_pairs allows 1000") && said.contains(sentence), "{sets:?}: {said}");
        let output = scene.folder.path(&name);
        assert!(!output.join("manifest.json").exists());
        // The job with another limit reuses the stages before the limit.
        let done = run(&scene.job(&name, sets)).unwrap();
        let stages: Vec<&str> = done.manifest.stages.iter().map(|stage| stage.name.as_str()).collect();
        let without_sample = stages.iter().filter(|stage| **stage != "sample").copied().collect::<Vec<_>>();
        let begun = without_sample.iter().position(|stage| *stage == not_begun).unwrap();
        assert_eq!(done.stages_reused, begun, "{sets:?}: {stages:?}");
    }
}

#[test]
fn dense_groups_are_in_summary_and_metrics() {
    let scene = Scene::new(&[]).with_job("in.parquet", &pages(1, 100));
    let mut command = scene.command(&["run", "job.toml", "--metrics", "metrics.prom"]);
    command.args(["--set", "candidates.method=prefix", "--set", "output.max_expand=20"]);
    command.assert().shown(&["in dense groups: paired with leaders"]);
    let counts = manifest(&scene.path("out")).counts;
    let metrics = std::fs::read_to_string(scene.path("metrics.prom")).unwrap();
    for (name, count) in
        [("dense_documents", counts.dense_documents), ("dense_pairs_left_out", counts.dense_pairs_left_out)]
    {
        let line = metrics.lines().find(|line| line.starts_with(&format!("resemblance_{name}{{"))).unwrap();
        assert!(line.ends_with(&format!(" {}", count.unwrap())), "{line}");
    }
}

/// Documents that begin with the same words, as pages with one header do; a few of them are copies with another word.
#[test]
fn hot_buckets_lose_no_pair_and_are_reported() {
    let header = own_words("header", 80);
    let copied = |at: usize| if at % 50 == 49 { at - 1 } else { at };
    let text = |at: usize| format!("{header} first{at} {}", own_words(copied(at), 39));
    let scene = Pages::new((0..1_000).map(|at| (format!("d{at:05}"), text(at))).collect());
    let exact = exact_pairs(&scene.documents, 3, 0.8);
    assert_eq!(exact.len(), 20);
    let plain = scene.run("plain", &["lsh.hot_bucket=1000000"]);
    let hot = scene.run("hot", &["lsh.hot_bucket=50"]);
    assert!(plain.pairs.iter().all(|(pair, score)| hot.pairs.get(pair) == Some(score)), "a pair was lost");
    assert!(hot.pairs.iter().all(|(pair, score)| exact.get(pair) == Some(score)));
    assert!(plain.counts.hot_documents.is_none());
    assert!(hot.counts.hot_documents.unwrap() > 500, "{:?}", hot.counts);
    let candidates = [&hot, &plain].map(|output| output.counts.candidates.unwrap());
    assert!(20 * candidates[0] < candidates[1], "{candidates:?}");
}
