//! `merge`: runs that have seen each other's documents become one output, and all others are refused by name.

use std::cell::RefCell;

use resemblance::error::Result;
use resemblance::job::NewPairs;

use crate::support::*;

/// Outputs in a folder, and what the test knows of each.
struct Chains {
    scene: Scene,
    made: RefCell<BTreeMap<String, Made>>,
}

#[derive(Clone, Default)]
struct Made {
    /// The days whose documents it holds: its own day, or all merged days.
    days: Vec<String>,
    seen: BTreeSet<String>,
    /// Whether its own documents were compared with each other.
    inner: bool,
    documents: BTreeMap<String, String>,
}

has_a_scene!(Chains);

impl Chains {
    fn new(sets: &[&str]) -> Self {
        Self { scene: Scene::new(&[sets, &[AS_ONE_RUN]].concat()), made: RefCell::default() }
    }

    fn made(&self, name: &str) -> Made {
        self.made.borrow()[name].clone()
    }

    /// The job of the day `name`, whose documents lie in a folder of its own.
    fn job(&self, name: &str, documents: &[Document], against: &[&str], sets: &[&str]) -> Job {
        let source = format!("in/{name}");
        self.write(&format!("{source}/documents.parquet"), documents);
        let known = self.against(against);
        let sets = if against.is_empty() { sets.to_vec() } else { [sets, &[&known]].concat() };
        self.scene.job(&source, name, &sets)
    }

    fn day(&self, name: &str, documents: &[Document], against: &[&str], sets: &[&str]) -> Result<()> {
        let job = self.job(name, documents, against, sets);
        run(&job)?;
        let seen = against.iter().flat_map(|name| self.made(name).days).collect();
        let inner = job.against.is_none_or(|against| against.pairs == NewPairs::WithEachOther);
        let (days, documents) = (vec![name.to_owned()], documents.iter().cloned().collect());
        self.made.borrow_mut().insert(name.to_owned(), Made { days, seen, inner, documents });
        Ok(())
    }

    /// Runs the day `name` with the documents of the day `second` as its second source.
    fn linked(&self, name: &str, documents: &[Document], second: &str, sets: &[&str]) -> Result<()> {
        let source = second_source(self.path(&format!("in/{second}")), "");
        let sets: Vec<&str> = sets.iter().copied().chain([source.as_str()]).collect();
        self.day(name, documents, &[], &sets)
    }

    fn merge(&self, outputs: &[&str], to: &str) -> Result<()> {
        self.scene.merge(outputs, to)?;
        let mut made = Made { inner: true, ..Made::default() };
        for one in outputs.iter().map(|name| self.made(name)) {
            made.days.extend(one.days);
            made.documents.extend(one.documents);
        }
        self.made.borrow_mut().insert(to.to_owned(), made);
        Ok(())
    }

    /// Merges, and holds what comes out against one run over the documents that are there.
    fn merged_is_one_run(&self, outputs: &[&str], to: &str) -> usize {
        self.merge(outputs, to).unwrap_or_else(|error| panic!("{outputs:?}: {error}"));
        let documents: Vec<Document> = self.made(to).documents.into_iter().collect();
        let whole = format!("{to}-whole");
        run(&self.job(&whole, &documents, &[], &[])).unwrap();
        assert_eq!(self.results(to), self.results(&whole), "{outputs:?} {:?}", self.sets);
        table(&self.path(to), "pairs").num_rows()
    }

    /// The command refuses to merge, names both outputs and writes nothing.
    fn refused(&self, outputs: &[&str], names: [&str; 2], said: &str) {
        let mut merge = resemblance();
        merge.arg("merge").args(outputs.iter().map(|name| self.path(name))).arg("--to");
        let [a, b] = names.map(|name| self.path(name).display().to_string());
        merge.arg(self.path("refused")).assert().refused(2, &[&a, &b, said]);
        assert!(!self.path("refused").exists(), "{outputs:?}: something was written");
    }

    /// Whether the outputs, in this order, have seen each other, by what the test knows of them.
    fn is_right(&self, outputs: &[&str]) -> bool {
        let mut days: BTreeSet<String> = BTreeSet::new();
        for made in outputs.iter().map(|name| self.made(name)) {
            // A merged output was compared with an earlier day only if each of its days was.
            let seen = if made.days.len() > 1 { BTreeSet::new() } else { made.seen };
            if !made.inner || seen != days || !made.days.iter().all(|day| days.insert(day.clone())) {
                return false;
            }
        }
        true
    }
}

fn change_manifest(chains: &Chains, output: &str, change: impl FnOnce(&mut Value)) {
    let path = chains.path(output).join("manifest.json");
    let mut written: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    change(&mut written);
    std::fs::write(&path, written.to_string()).unwrap();
}

/// Four days; the third and the fourth have new texts for some ids.
fn days(seed: u64) -> [Vec<Document>; 4] {
    let documents = corpus(seed, 120, 25);
    let mut days = [0, 30, 60, 90].map(|from| documents[from..from + 30].to_vec());
    for (at, day) in days.iter_mut().enumerate().skip(2) {
        for n in 0..6 {
            day.push((documents[n * 7].0.clone(), documents[119 - n * at].1.clone()));
        }
    }
    days
}

const REPLACE: &[&str] = &["against.same_id=replace"];

#[test]
fn every_right_chain_is_merged_as_one_run() {
    let [a, b, c, d] = days(2);
    let chains = Chains::new(&["candidates.method=prefix", "output.keep=shingles"]);
    chains.day("a", &a, &[], &[]).unwrap();
    chains.day("b", &b, &["a"], &[]).unwrap();
    assert!(chains.merged_is_one_run(&["a", "b"], "ab") > 10);
    chains.day("c", &c, &["a", "b"], REPLACE).unwrap();
    assert_eq!(manifest(&chains.path("c")).counts.replaced_documents.unwrap(), 6);
    chains.day("c2", &c, &["ab"], REPLACE).unwrap();
    chains.day("d", &d, &["a", "b", "c"], REPLACE).unwrap();
    // The runs one by one, or what was merged of them, whichever the later run named; and outputs merged from merged ones.
    for outputs in ["a b c", "ab c", "ab c2", "a b c2", "ab c d"] {
        chains.merged_is_one_run(&outputs.split(' ').collect::<Vec<_>>(), &outputs.replace(' ', "-"));
    }
    chains.day("d2", &d, &["ab", "c"], REPLACE).unwrap();
    for outputs in ["ab-c d", "ab-c d2", "a-b-c d2", "a b c d2"] {
        chains.merged_is_one_run(&outputs.split(' ').collect::<Vec<_>>(), &outputs.replace(' ', "_"));
    }
}

#[test]
fn outputs_that_have_not_seen_each_other_are_refused_by_name() {
    let [a, b, ..] = days(3);
    let (c, d) = (corpus(4, 30, 25), corpus(5, 30, 25));
    let named = |documents: Vec<Document>, prefix: &str| -> Vec<Document> {
        documents.into_iter().map(|(id, text)| (format!("{prefix}{id}"), text)).collect()
    };
    let (c, d) = (named(c, "c"), named(d, "d"));
    let chains = Chains::new(&[]);
    chains.day("a", &a, &[], &[]).unwrap();
    chains.day("b", &b, &["a"], &[]).unwrap();
    chains.day("alone", &c, &[], &[]).unwrap();
    chains.day("new-old", &c, &["a"], &["against.pairs=new-old"]).unwrap();
    chains.day("of-a", &c, &["a"], &[]).unwrap();
    chains.day("of-both", &d, &["a", "b"], &[]).unwrap();
    chains.merge(&["a", "b"], "ab").unwrap();
    chains.day("of-ab", &d, &["ab"], &[]).unwrap();

    let (unseen, order) = ("was not made against all documents of", "does not name before it");
    let twice = "hold the documents of the same run";
    for (outputs, names, said) in [
        ("a alone", ["a", "alone"], unseen),
        ("a b alone", ["a", "alone"], unseen),
        ("ab alone", ["ab", "alone"], unseen),
        ("alone ab", ["alone", "ab"], unseen),
        ("alone a", ["alone", "a"], unseen),
        ("ab of-a", ["ab", "of-a"], unseen),
        ("a b of-a", ["b", "of-a"], unseen),
        ("a of-a b", ["b", "of-a"], unseen),
        ("a new-old", ["a", "new-old"], "against.pairs = \"new-old\""),
        ("b a", ["b", "a"], order),
        ("a of-both", ["b", "of-both"], order),
        ("a of-ab", ["ab", "of-ab"], order),
        ("of-both ab", ["of-both", "a"], order),
        ("ab a", ["ab", "a"], twice),
        ("ab b", ["ab", "b"], twice),
        ("a ab", ["a", "ab"], twice),
        ("a a", ["a", "a"], twice),
    ] {
        chains.refused(&outputs.split(' ').collect::<Vec<_>>(), names, said);
    }
    // A known output that was made again is not the one that was known.
    std::fs::remove_dir_all(chains.path("a")).unwrap();
    chains.day("a", &a[1..], &[], &[]).unwrap();
    chains.refused(&["a", "b"], ["a", "b"], "holds another result now");
}

/// An output with a second source is made against that source: with an output of it, both are days of one chain.
#[test]
fn an_output_with_a_second_source_follows_an_output_of_that_source() {
    let settings = [&["candidates.method=prefix", "output.keep=shingles"][..], &["source.columns=['text']"]];
    for (seed, sets) in (30..).zip(settings) {
        let [releases, a, b, c] = days(seed);
        // The texts of the last day replace some of the first two.
        let b: Vec<Document> = b.into_iter().take(30).collect();
        let chains = Chains::new(sets);
        chains.day("releases", &releases, &[], &[]).unwrap();
        chains.linked("a", &a, "releases", &[]).unwrap();
        assert!(chains.merged_is_one_run(&["releases", "a"], "merged") > 10);
        chains.day("b", &b, &["releases", "a"], &[]).unwrap();
        chains.day("b-merged", &b, &["merged"], &[]).unwrap();
        assert_eq!(table(&chains.path("b"), "pairs"), table(&chains.path("b-merged"), "pairs"));
        assert!(chains.merged_is_one_run(&["releases", "a", "b"], "all") > 20);
        chains.merged_is_one_run(&["merged", "b"], "all-2");
        chains.day("c", &c, &["releases", "a", "b"], REPLACE).unwrap();
        assert_eq!(manifest(&chains.path("c")).counts.replaced_documents.unwrap(), 6);
        chains.merged_is_one_run(&["releases", "a", "b", "c"], "replaced");
        // The day against an output, and not against the source that it was made from.
        chains.day("a-against", &a, &["releases"], &[]).unwrap();
        chains.day("b-against", &b, &["releases", "a-against"], &[]).unwrap();
        for name in ["pairs", "clusters"] {
            let found = table(&chains.path("b"), name);
            assert_eq!(found, table(&chains.path("b-against"), name), "{name} {sets:?}");
        }
    }
}

/// An output of the second source by other rules for pairs holds the same documents, so a later day can name it; a merge cannot.
#[test]
fn an_output_of_a_second_source_may_have_other_rules_for_pairs() {
    let [releases, a, b, _] = days(34);
    let chains = Chains::new(&[]);
    let others = ["score.threshold=0.95", "source.columns=['text']", "lsh.bands=9", "lsh.rows=3"];
    chains.day("releases", &releases, &[], &others).unwrap();
    chains.linked("a", &a, "releases", &["against.pairs=new-old"]).unwrap();
    chains.day("b", &b, &["releases", "a"], REPLACE).unwrap();
    let all: Vec<Document> = [releases.clone(), a.clone()].concat();
    chains.day("both", &all, &[], &[]).unwrap();
    chains.day("b-both", &b, &["both"], REPLACE).unwrap();
    assert_eq!(table(&chains.path("b"), "pairs"), table(&chains.path("b-both"), "pairs"));
    chains.linked("a-2", &a, "releases", &[]).unwrap();
    let said = ["was made with another `score.threshold`"];
    fails(chains.merge(&["releases", "a-2"], "merged"), Kind::Job, &said);
}

#[test]
fn an_output_with_a_second_source_is_refused_without_an_output_of_that_source() {
    let [releases, a, b, c] = days(35);
    let chains = Chains::new(&[]);
    chains.day("releases", &releases, &[], &[]).unwrap();
    chains.linked("a", &a, "releases", &[]).unwrap();
    chains.linked("new-old", &a, "releases", &["against.pairs=new-old"]).unwrap();
    // Some of its ids are also ids of the second source.
    chains.linked("c", &c, "releases", &[]).unwrap();
    chains.day("other", &b, &[], &[]).unwrap();
    let missing = "names no output of that source";
    for outputs in [&["a"][..], &["a", "releases"], &["other", "a"]] {
        chains.refused(outputs, ["a", "in/releases"], missing);
    }
    let said = "was not made against all documents of";
    chains.refused(&["releases", "other", "a"], ["releases", "other"], said);
    chains.refused(&["releases", "new-old"], ["new-old", "in/releases"], "against.pairs = \"new-old\"");
    let error = chains.merge(&["releases", "c"], "shared-ids").unwrap_err().to_string();
    assert!(error.contains("give the documents of one of them other ids"), "{error}");
    fails(chains.day("next", &b, &["a"], REPLACE), Kind::Job, &[missing]);
    fails(chains.day("next", &b, &["releases", "c"], REPLACE), Kind::Input, &["have a document with the id"]);

    // The source has changed since `a` was made.
    std::fs::remove_dir_all(chains.path("releases")).unwrap();
    chains.day("releases", &releases[1..], &[], &[]).unwrap();
    chains.refused(&["releases", "a"], ["a", "in/releases"], "if the files have changed since");
}

/// Older manifests do not say what a known output was merged of. A run that names it as it was made is merged all the same.
#[test]
fn outputs_of_older_versions_are_merged_or_refused() {
    let [a, b, c, _] = days(8);
    let chains = Chains::new(&[]);
    chains.day("a", &a, &[], &[]).unwrap();
    chains.day("b", &b, &["a"], &[]).unwrap();
    chains.merge(&["a", "b"], "ab").unwrap();
    chains.day("c", &c, &["ab"], REPLACE).unwrap();
    change_manifest(&chains, "c", |written| {
        assert!(written["reference_outputs"][0].as_object_mut().unwrap().remove("merged").is_some());
    });
    chains.merged_is_one_run(&["ab", "c"], "ab-c");
    chains.refused(&["a", "b", "c"], ["ab", "c"], "does not name before it");
}

/// No output is written into a source, also not by runs that read an output over it.
#[test]
fn an_output_inside_of_any_source_is_refused() {
    let [a, b, c, _] = days(6);
    let chains = Chains::new(&[]);
    chains.day("a", &a, &[], &[]).unwrap();
    chains.day("b", &b, &["a"], &[]).unwrap();
    chains.merge(&["a", "b"], "ab").unwrap();
    let refused = |ended: std::process::Output, source: &str, setting: &str| {
        let (source, advice) = (chains.path(source), format!("choose another {setting}"));
        ended.refused(2, &["lies in the source", &source.display().to_string(), &advice]);
    };
    for (outputs, source) in [(&["a", "b"][..], "in/a"), (&["a", "b"], "in/b"), (&["ab"], "in/a")] {
        let to = chains.path(source).join("out");
        let outputs: Vec<PathBuf> = outputs.iter().map(|name| chains.path(name)).collect();
        refused(program!["merge"].args(outputs).arg("--to").arg(&to).output().unwrap(), source, "--to");
        assert!(!to.exists());
    }
    // Nor is one in a source of a known output.
    let mut next = chains.job("c", &c[..30], &["ab"], &[]);
    next.output.url = chains.path("in/a/out").display().to_string();
    fails(run(&next), Kind::Job, &["lies in the source"]);
    assert!(!chains.path("in/a/out").exists());
}

/// A merge runs where its command says, whatever ran the jobs. It keeps what the last output does.
#[test]
fn a_merge_has_its_own_engine_and_keep_settings() {
    let [a, b, ..] = days(7);
    let chains = Chains::new(&[]);
    chains.day("a", &a, &[], &["output.keep=shingles"]).unwrap();
    chains.day("b", &b, &["a"], &["output.keep=signatures"]).unwrap();
    // The last output claims to be of a cluster that is gone.
    let gone = [("mode", "cluster"), ("scheduler", "df://127.0.0.1:1"), ("spill", "/nonexistent/spill")];
    change_manifest(&chains, "b", |written| {
        gone.into_iter().for_each(|(key, value)| written["job"]["engine"][key] = value.into());
    });
    program!["merge", chains.path("a"), chains.path("b"), "--to", chains.path("ab"), "--memory", "256MiB"]
        .assert()
        .success();
    let merged = manifest(&chains.path("ab"));
    assert_eq!(merged.job["engine"]["memory"], "256MiB");
    assert_eq!(merged.job["engine"]["mode"], "local");
    assert_eq!(merged.job["output"]["keep"], "signatures");
    run(&chains.job("whole", &[a, b].concat(), &[], &[])).unwrap();
    assert_eq!(pairs(&chains.path("ab")), pairs(&chains.path("whole")));
}

/// Days that continue outputs drawn at random, and merges of outputs drawn at random: how many were right, and how many were
/// refused.
fn random_chains(seed: u64) -> (usize, usize) {
    let mut random = Random(seed);
    let one_of = |random: &mut Random, choice: &'static str| {
        let options: Vec<&'static str> = choice.split(' ').collect();
        options[random.below(options.len())]
    };
    let choices = [
        "score.threshold=0.3 score.threshold=0.5 score.threshold=0.8 score.threshold=1.0",
        "shingle.size=3 shingle.size=2 shingle.size=5",
        "minhash.permutations=128 minhash.permutations=64",
        "output.expand=all output.expand=all output.expand=star",
        "engine.threads=1 engine.threads=2 engine.threads=3",
    ];
    let mut sets = choices.map(|choice| one_of(&mut random, choice)).to_vec();
    // Dense groups leave other pairs out in one run than in days.
    let of_method: &[&str] = match random.below(6) {
        0 | 1 => &[
            "candidates.method=prefix",
            "output.max_expand=1000 output.max_expand=0",
            "output.keep=shingles",
        ],
        2 => &["candidates.method=all", "output.keep=shingles"],
        3 => &["minhash.family=one-permutation"],
        _ => &[
            "output.max_expand=1000 output.max_expand=0 output.max_expand=3",
            "output.keep=signatures output.keep=shingles",
        ],
    };
    sets.extend(of_method.iter().map(|choice| one_of(&mut random, choice)));
    let chains = Chains::new(&sets);
    let documents = corpus(random.next(), 90, 20);
    let mut names: Vec<String> = Vec::new();
    let (mut right, mut refused) = (0, 0);
    for step in 0..9 {
        let drawn = |names: &[String], random: &mut Random, most: usize| -> Vec<String> {
            let mut drawn: Vec<String> = Vec::new();
            // Often outputs that can continue each other, and else any.
            let chain = random.below(3) > 0;
            for name in names {
                let next: Vec<&str> = drawn.iter().chain([name]).map(String::as_str).collect();
                if drawn.len() < most && random.below(4) > 0 && (!chain || chains.is_right(&next)) {
                    drawn.push(name.clone());
                }
            }
            if random.below(8) == 0 {
                drawn.reverse();
            }
            drawn
        };
        let name = format!("{}{step}", if step < 2 || step % 2 == 0 { "day" } else { "merged" });
        if name.starts_with("day") {
            let against = drawn(&names, &mut random, 4);
            let against: Vec<&str> = against.iter().map(String::as_str).collect();
            let mut own = documents[step * 10..(step + 1) * 10].to_vec();
            let known: BTreeMap<String, String> =
                against.iter().flat_map(|name| chains.made(name).documents).collect();
            for _ in 0..random.below(4).min(known.len()) {
                let id = known.keys().nth(random.below(known.len())).unwrap().clone();
                if own.iter().all(|document| document.0 != id) {
                    own.push((id, documents[random.below(90)].1.clone()));
                }
            }
            let sets: &[&str] = match (against.is_empty(), random.below(6)) {
                (true, _) => &[],
                (false, 0) => &["against.same_id=replace", "against.pairs=new-old"],
                (false, _) => REPLACE,
            };
            match chains.day(&name, &own, &against, sets) {
                Ok(()) => names.push(name),
                // For example, an output whose own reference was not drawn.
                Err(error) => assert!(matches!(error.kind(), Kind::Job | Kind::Input), "{error}"),
            }
            continue;
        }
        for attempt in 0..4 {
            let outputs = drawn(&names, &mut random, 5);
            let outputs: Vec<&str> = outputs.iter().map(String::as_str).collect();
            if outputs.len() < 2 {
                continue;
            }
            let to = format!("{name}-{attempt}");
            if chains.is_right(&outputs) {
                chains.merged_is_one_run(&outputs, &to);
                names.push(to);
                right += 1;
            } else {
                let error = chains.merge(&outputs, &to).expect_err(&format!("seed {seed}: {outputs:?}"));
                assert_eq!(error.kind(), Kind::Job, "seed {seed}: {outputs:?}: {error}");
                let named = outputs
                    .iter()
                    .filter(|name| error.to_string().contains(&chains.path(name).display().to_string()));
                assert!(named.count() >= 1, "seed {seed}: {outputs:?}: {error}");
                assert!(!chains.path(&to).exists());
                refused += 1;
            }
        }
    }
    (right, refused)
}

#[test]
fn random_chains_are_merged_as_one_run_or_refused() {
    let mut all = (0, 0);
    for seed in seeds(3).map(|seed| seed - 1) {
        let (right, refused) = random_chains(seed);
        all = (all.0 + right, all.1 + refused);
    }
    assert!(seeds(3).count() < 3 || all.0 > 3 && all.1 > 3, "{all:?}");
}
