//! `[against]`: days that come one after the other have the pairs and clusters of one run over all of them.

use crate::support::*;

/// Days of documents in a folder, each with the output of its run.
struct Days {
    scene: Scene,
}

has_a_scene!(Days);

impl Days {
    /// Writes each part of `documents`, and all of them.
    fn new(parts: &[Vec<Document>]) -> Self {
        let scene = Scene::new(&[AS_ONE_RUN]);
        for (day, part) in parts.iter().enumerate() {
            scene.write(&format!("day{day}.parquet"), part);
        }
        scene.write("all.parquet", &parts.concat());
        Self { scene }
    }

    fn output(&self, day: usize) -> PathBuf {
        self.path(&format!("out{day}"))
    }

    /// The job of a day, against all days before it.
    fn job(&self, day: usize, sets: &[&str]) -> Job {
        let known: Vec<String> = (0..day).map(|earlier| format!("out{earlier}")).collect();
        let against = self.against(&known.iter().map(String::as_str).collect::<Vec<_>>());
        let sets = if day > 0 { [sets, &[&against]].concat() } else { sets.to_vec() };
        self.scene.job(&format!("day{day}.parquet"), &format!("out{day}"), &sets)
    }
}

fn ordered((a, b): (String, String)) -> (String, String) {
    if a < b { (a, b) } else { (b, a) }
}

/// A document that cannot be compared takes nobody's place, and the run says so.
#[test]
fn rejected_documents_replace_nothing() {
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

#[test]
fn documents_that_are_known_are_an_error_or_left_out() {
    let documents = corpus(60, 80, 25);
    let days = Days::new(&[documents[..50].to_vec(), documents[40..].to_vec()]);
    run(&days.job(0, &[])).unwrap();
    fails(run(&days.job(1, &[])), Kind::Input, &["`d00040`, `d00041`", "against.same_id"]);
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
    let found: BTreeSet<_> = pairs(&days.path("skipped")).into_keys().map(ordered).collect();
    assert!(found.is_subset(&expected) && found.len() * 100 > expected.len() * 95, "{}", found.len());
}

/// The signatures of a linear family also depend on the modulus.
#[test]
fn an_output_with_another_modulus_is_refused() {
    let documents = corpus(81, 40, 25);
    let days = Days::new(&[documents[..30].to_vec(), documents[30..].to_vec()]);
    run(&days.job(0, &["minhash.family=linear"])).unwrap();
    let job = days.job(1, &["minhash.family=linear", "minhash.modulus=2^32-1"]);
    fails(run(&job), Kind::Job, &["another `minhash.modulus`"]);
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
        fails(run(&job), kind, &[said]);
        assert!(!days.path("refused").exists(), "something was written");
    };
    refused(&["shingle.size=4"], Kind::Job, "`shingle.size`");
    refused(&["minhash.seed=9"], Kind::Job, "`minhash.seed`");
    refused(&["minhash.bits=32"], Kind::Job, "`minhash.bits`");
    refused(&["candidates.method=prefix"], Kind::Job, "keeps no shingles");
    let one = |outputs: &[&str], kind: Kind, said: &str| {
        let mut job = days.scene.job("day2.parquet", "refused", &[&days.against(outputs)]);
        job.name = "refused".into();
        fails(run(&job), kind, &[said]);
        assert!(!days.path("refused").exists(), "something was written");
    };
    one(&["out1"], Kind::Job, "does not name before it");
    one(&["out1", "out0"], Kind::Job, "does not name before it");
    one(&["nothing"], Kind::Input, "there is no `");
    one(&["refused"], Kind::Input, "there is no `");
    let merged = days.scene.merge(&["out1"], "refused").unwrap_err();
    assert!(merged.to_string().contains("does not name before it"));
    // The source of a known output that keeps no shingles has changed.
    let file = std::fs::OpenOptions::new().append(true).open(days.path("day0.parquet")).unwrap();
    file.set_len(10).unwrap();
    one(&["out0", "out1"], Kind::Input, "has changed since");
}
