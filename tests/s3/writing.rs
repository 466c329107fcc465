//! Outputs in a bucket: parts, manifests, and several runs at once.

use super::*;

#[test]
fn a_large_table_is_uploaded_in_parts_and_queried_in_place() {
    let corpus = Corpus::new(700, 1_700);
    let output = corpus.s3.url("deep/out");
    // Shingles make the table large.
    let sets = ["--set", "engine.threads=1", "--set", "output.keep=shingles"];
    run_to(&corpus.s3.env(), &corpus.job, &output, &sets).shown(&[]);
    corpus.check("deep/out");
    assert!(!corpus.s3.faults.requests("partNumber=2").is_empty(), "no object was put in parts");
    let rows =
        command(&corpus.s3.env(), &["sql", &output, "SELECT count(*) AS n FROM pairs", "--json"]).shown(&[]);
    assert_eq!(rows.trim(), format!("{{\"n\":{}}}", corpus.expected[0].num_rows()));
    // A second run finds the result, and asks for nothing but the listing and the manifest.
    let before = corpus.s3.faults.requests("").len();
    let again = run_to(&corpus.s3.env(), &corpus.job, &output, &[&sets[..], &["--top", "0"]].concat()).json();
    assert_eq!(again["already_finished"], true);
    let asked = corpus.s3.faults.requests("").split_off(before);
    assert!(!asked.iter().any(|request| request.contains("/data/in/in.parquet")), "{asked:?}");
    // Another job may not write there.
    let said =
        run_to(&corpus.s3.env(), &corpus.job, &output, &["--set", "score.threshold=0.7"]).refused(2, &[]);
    assert!(said.contains("the result of another job"), "{said}");
}

#[test]
fn a_whole_bucket_may_be_the_output() {
    let corpus = Corpus::new(80, 30);
    let job = std::fs::read_to_string(&corpus.job).unwrap();
    let other = S3::start();
    // The input is a file here, so that the bucket holds nothing but the output.
    let job = job.replace("s3://data/in", corpus.folder.path().join("in.parquet").to_str().unwrap());
    std::fs::write(&corpus.job, job).unwrap();
    run_to(&other.env(), &corpus.job, "s3://data", &[]).shown(&[]);
    assert_eq!(answers(&other.bucket_dir), corpus.expected);
}

#[test]
fn a_manifest_whose_answer_is_lost_is_known_as_ones_own() {
    let corpus = Corpus::new(80, 30);
    corpus.s3.faults.add("PUT /data/out/manifest.json", 1, Fault::Silent);
    corpus.s3.faults.add("PUT /data/out/_work/copies.", 1, Fault::Silent);
    // The answer of S3 when two put one object at the same moment.
    let conflict = "<Error><Code>ConditionalRequestConflict</Code></Error>".to_owned();
    corpus.s3.faults.add("PUT /data/out/_work/scores.", 1, Fault::Answer(409, conflict));
    let record = corpus.run("out").json();
    assert_eq!(record["already_finished"], false);
    assert_eq!(corpus.s3.faults.left(), 0);
    let first = corpus.check("out");
    run_to(&corpus.s3.env(), &corpus.job, &corpus.s3.url("out"), &["--overwrite"]).shown(&[]);
    assert!(corpus.check("out").paths().is_disjoint(&first.paths()));
}

#[test]
fn two_runs_onto_one_output_both_end_well() {
    let corpus = Corpus::new(600, 40);
    for round in 0..3 {
        let output = format!("out{round}");
        let mut command = started(&corpus.s3.env(), &corpus.job, &corpus.s3.url(&output));
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        for child in [command.spawn().unwrap(), command.spawn().unwrap()] {
            child.wait_with_output().unwrap().shown(&[]);
        }
        corpus.check(&output);
    }
}

/// Another run replaces the result after the manifest was read, before its files are.
#[test]
fn a_result_that_was_replaced_meanwhile_is_not_called_damaged() {
    let corpus = Corpus::new(80, 30);
    let s3 = &corpus.s3;
    corpus.run("out").shown(&[]);
    let first = std::fs::read(s3.file("out/manifest.json")).unwrap();
    run_to(&s3.env(), &corpus.job, &s3.url("out"), &["--overwrite"]).shown(&[]);
    let second = std::fs::read(s3.file("out/manifest.json")).unwrap();
    let stale = || {
        std::fs::write(s3.file("out/manifest.json"), &first).unwrap();
        s3.faults.add("list-type=2", 1, Fault::Put("out/manifest.json".into(), second.clone()));
    };
    let sql = ["sql", "s3://data/out", "SELECT count(*) AS n FROM pairs", "--json"];
    stale();
    let rows = command(&s3.env(), &sql).shown(&[]);
    assert_eq!(rows.trim(), format!("{{\"n\":{}}}", corpus.expected[0].num_rows()));
    assert_eq!(s3.faults.left(), 0);
    // A file that is gone from a result that was not replaced is damage.
    std::fs::write(s3.file("out/manifest.json"), &first).unwrap();
    assert!(command(&s3.env(), &sql).refused(3, &[]).contains("is damaged"));
    assert!(command(&s3.env(), &["verify", "s3://data/out"]).refused(3, &[]).contains("is damaged"));
}

/// The claim is taken over at the very moment at which its owner renews it: it stays away, and the owner stops.
#[test]
fn a_claim_taken_over_by_another_process_is_not_restored() {
    let corpus = Corpus::new(80, 30);
    let (s3, claims) = (&corpus.s3, "PUT /data/out/_work/claims/");
    // A task of the run waits here, while the run renews its claim.
    s3.faults.add("PUT /data/out/_work/candidates/", usize::MAX, Fault::Unavailable);
    let mut command = started(&s3.env(), &corpus.job, "s3://data/out");
    command.envs([("RESEMBLANCE_RETRY_SECONDS", "100"), ("RESEMBLANCE_LEASE_SECONDS", "2")]);
    let mut run = Process::start("run", &mut command, corpus.folder.path());
    let renewed = |times: usize| (s3.faults.requests(claims).len() >= times).then_some(());
    // Asked for, owned and renewed.
    wait_for("a beat", DEADLINE, || renewed(4));
    s3.faults.add(claims, 1, Fault::Vanish);
    assert_eq!(run.wait(DEADLINE).code(), Some(3), "{}", run.said());
    assert!(run.said().contains("another process took over s3://data/out"), "{}", run.said());
    assert!(s3.keys("out/_work/claims/").is_empty());
}
