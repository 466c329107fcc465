//! `merge`: runs that have seen each other's documents become one output, and all others are refused by name. Random days are merged in
//! `brute_force`.

use std::cell::RefCell;

use resemblance::error::Result;

use crate::support::*;

/// Outputs in a folder, each with the documents of its day or of all merged days.
struct Chains {
    scene: Scene,
    documents: RefCell<BTreeMap<String, BTreeMap<String, String>>>,
}

has_a_scene!(Chains);

impl Chains {
    fn new(sets: &[&str]) -> Self {
        Self { scene: Scene::new(&[sets, &[AS_ONE_RUN]].concat()), documents: RefCell::default() }
    }

    /// Runs the day `name`, whose documents lie in a folder of its own, against these outputs.
    fn day(&self, name: &str, documents: &[Document], against: &[&str], sets: &[&str]) -> Result<()> {
        let source = format!("in/{name}");
        self.write(&format!("{source}/documents.parquet"), documents);
        run(&self.job_against(&source, name, against, sets))?;
        self.documents.borrow_mut().insert(name.to_owned(), documents.iter().cloned().collect());
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
        let mut documents = self.documents.borrow_mut();
        let merged = outputs.iter().flat_map(|name| documents[*name].clone()).collect();
        documents.insert(to.to_owned(), merged);
        Ok(())
    }

    /// Merges, and holds what comes out against one run over the documents that are there.
    fn merged_is_one_run(&self, outputs: &[&str], to: &str) -> usize {
        self.merge(outputs, to).unwrap_or_else(|error| panic!("{outputs:?}: {error}"));
        let documents: Vec<Document> = self.documents.borrow()[to].clone().into_iter().collect();
        let whole = format!("{to}-whole");
        self.day(&whole, &documents, &[], &[]).unwrap();
        assert_eq!(self.results(to), self.results(&whole), "{outputs:?} {:?}", self.sets);
        table(&self.path(to), "pairs").num_rows()
    }

    /// The command refuses to merge, names both outputs and writes nothing.
    fn refused(&self, outputs: &[&str], names: [&str; 2], said: &str) {
        let outputs = outputs.iter().map(|name| self.path(name));
        let mut merge = self.command(&["merge", "--to", "refused"]);
        let [a, b] = names.map(|name| self.text(name));
        merge.args(outputs).assert().refused(2, &[&a, &b, said]);
        assert!(!self.path("refused").exists(), "{names:?}: something was written");
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
    right_chains_are_merged_as_one_run(&["candidates.method=prefix", "output.keep=shingles"]);
    right_chains_are_merged_as_one_run(&[
        "candidates.method=all",
        "output.keep=shingles",
        "output.expand=star",
    ]);
    right_chains_are_merged_as_one_run(&["minhash.family=one-permutation"]);
}

fn right_chains_are_merged_as_one_run(sets: &[&str]) {
    let [a, b, c, d] = days(2);
    let chains = Chains::new(sets);
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
    for (outputs, source) in [(&["a", "b"][..], "in/a"), (&["a", "b"], "in/b"), (&["ab"], "in/a")] {
        let (to, source) = (format!("{source}/out"), chains.text(source));
        let merged = chains.command(&[&["merge", "--to", &to], outputs].concat()).assert();
        merged.refused(2, &["lies in the source", &source, "choose another --to"]);
        assert!(!chains.path(&to).exists());
    }
    // Nor is one in a source of a known output.
    let inside = format!("output.url={}", chains.text("in/a/out"));
    fails(chains.day("c", &c[..30], &["ab"], &[&inside]), Kind::Job, &["lies in the source"]);
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
    chains.command(&["merge", "a", "b", "--to", "ab", "--memory", "256MiB"]).assert().success();
    let merged = manifest(&chains.path("ab"));
    assert_eq!(merged.job["engine"]["memory"], "256MiB");
    assert_eq!(merged.job["engine"]["mode"], "local");
    assert_eq!(merged.job["output"]["keep"], "signatures");
    chains.day("whole", &[a, b].concat(), &[], &[]).unwrap();
    assert_eq!(pairs(&chains.path("ab")), pairs(&chains.path("whole")));
}
