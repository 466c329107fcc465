//! `[against]`: days that come one after the other have the pairs and clusters of one run over all of them.

use crate::support::*;

/// Documents of days in a folder.
fn days(parts: &[Vec<Document>]) -> Scene {
    let scene = Scene::new(&[AS_ONE_RUN]);
    for (day, part) in parts.iter().enumerate() {
        scene.write(&format!("day{day}.parquet"), part);
    }
    scene
}

/// The job of a day against all days before it.
fn job_of_day(days: &Scene, day: usize, sets: &[&str]) -> Job {
    let (source, output) = (format!("day{day}.parquet"), format!("out{day}"));
    days.job_against(&source, &output, &["out0", "out1"][..day], sets)
}

/// A document that cannot be compared takes nobody's place, and the run says so.
#[test]
fn rejected_documents_replace_nothing() {
    let text = "one two three four five six";
    let days = days(&[
        documents(&[("a", text), ("b", "seven eight nine ten")]),
        documents(&[("a", "too short"), ("b", "eleven twelve thirteen"), ("c", text)]),
    ]);
    run(&job_of_day(&days, 0, &[])).unwrap();
    run(&job_of_day(&days, 1, &["against.same_id=replace"])).unwrap();
    let run = manifest(&days.path("out1"));
    assert_eq!(run.counts.replaced_documents.unwrap(), 1);
    let said: Vec<_> = run.warnings.iter().filter(|warning| warning.contains("do not replace")).collect();
    assert!(said.len() == 1 && said[0].contains("same ids: `a`; rejects/"), "{said:?}");
    assert_eq!(pairs(&days.path("out1")).into_keys().collect::<Vec<_>>(), [("c".to_owned(), "a".to_owned())]);
}

#[test]
fn documents_that_are_known_are_an_error_or_left_out() {
    let documents = corpus(60, 80, 25);
    let days = days(&[documents[..50].to_vec(), documents[40..].to_vec()]);
    run(&job_of_day(&days, 0, &[])).unwrap();
    fails(run(&job_of_day(&days, 1, &[])), Kind::Input, &["`d00040`, `d00041`", "against.same_id"]);
    assert!(!days.path("out1").join("manifest.json").exists());

    // In another output, since the one above holds what a run left.
    let sets = ["against.same_id=skip", "source.duplicate_ids=reject", &days.against(&["out0"])];
    let skipped = days.run("day1.parquet", "skipped", &sets).manifest;
    assert_eq!((skipped.rejects["reference_id"], skipped.counts.documents), (10, 30));
    let is_new = |id: &String| documents[50..].iter().any(|(new, _)| new == id);
    let expected: BTreeSet<_> =
        exact_pairs(&documents, 3, 0.5).into_keys().filter(|(a, b)| is_new(a) || is_new(b)).collect();
    let ordered = |(a, b)| if a < b { (a, b) } else { (b, a) };
    let found: BTreeSet<_> = pairs(&days.path("skipped")).into_keys().map(ordered).collect();
    assert!(found.is_subset(&expected) && found.len() * 100 > expected.len() * 95, "{}", found.len());
}

/// The signatures of a linear family also depend on the modulus.
#[test]
fn an_output_with_another_modulus_is_refused() {
    let documents = corpus(81, 40, 25);
    let days = days(&[documents[..30].to_vec(), documents[30..].to_vec()]);
    run(&job_of_day(&days, 0, &["minhash.family=linear"])).unwrap();
    let job = job_of_day(&days, 1, &["minhash.family=linear", "minhash.modulus=2^32-1"]);
    fails(run(&job), Kind::Job, &["another `minhash.modulus`"]);
}

#[test]
fn outputs_that_do_not_fit_are_refused_before_anything_is_written() {
    let documents = corpus(80, 60, 25);
    let days = days(&[documents[..30].to_vec(), documents[30..45].to_vec(), documents[45..].to_vec()]);
    run(&job_of_day(&days, 0, &[])).unwrap();
    run(&job_of_day(&days, 1, &[])).unwrap();
    let refused = |outputs: &[&str], sets: &[&str], kind: Kind, said: &str| {
        let mut job = days.job("day2.parquet", "refused", &[sets, &[&days.against(outputs)]].concat());
        job.name = "refused".into();
        fails(run(&job), kind, &[said]);
        assert!(!days.path("refused").exists(), "something was written");
    };
    let both = ["out0", "out1"];
    refused(&both, &["shingle.size=4"], Kind::Job, "`shingle.size`");
    refused(&both, &["minhash.seed=9"], Kind::Job, "`minhash.seed`");
    refused(&both, &["minhash.bits=32"], Kind::Job, "`minhash.bits`");
    refused(&both, &["candidates.method=prefix"], Kind::Job, "keeps no shingles");
    refused(&["out1"], &[], Kind::Job, "does not name before it");
    refused(&["out1", "out0"], &[], Kind::Job, "does not name before it");
    refused(&["nothing"], &[], Kind::Input, "there is no `");
    refused(&["refused"], &[], Kind::Input, "there is no `");
    fails(days.merge(&["out1"], "refused"), Kind::Job, &["does not name before it"]);
    // The source of a known output that keeps no shingles has changed.
    let file = std::fs::OpenOptions::new().append(true).open(days.path("day0.parquet")).unwrap();
    file.set_len(10).unwrap();
    refused(&both, &[], Kind::Input, "has changed since");
}
