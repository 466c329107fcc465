//! `resemblance clean`, on this machine and in a bucket.

use resemblance::output::attempt::Attempt;

use super::*;

fn clean(s3: &S3, output: &str, more: &[&str]) -> (u64, u64) {
    let record = command(&s3.env(), &[&["clean", output, "--json"], more].concat()).json();
    (record["files"].as_u64().unwrap(), record["bytes"].as_u64().unwrap())
}

#[test]
fn an_output_in_a_bucket_keeps_named_and_foreign_files() {
    let corpus = Corpus::new(80, 30);
    let s3 = &corpus.s3;
    let output = s3.url("out");
    // The stage that writes the members is refused, so those before it are finished.
    s3.faults.add("PUT /data/out/_work/members/", usize::MAX, Fault::Answer(403, String::new()));
    corpus.run("out").refused(3, &[]);
    s3.faults.clear();
    let finished = s3.keys("out/");
    assert_eq!(clean(s3, &output, &[]), (0, 0));
    // Files that this attempt might have left, and files of other names and attempts.
    let attempt = attempt(finished.keys().map(String::as_str));
    let orphans =
        [attempt.part("_work/scores", 7), attempt.part("pairs", 0)].map(|inside| format!("out/{inside}"));
    let foreign = [
        "out/_work/notes.txt".to_owned(),
        "out/pairs/notes.txt".to_owned(),
        "out/pairs/part-00000-1.parquet".to_owned(),
        format!("out/{}", Attempt::random().part("pairs", 0)),
    ];
    // Outside of our folders nothing is looked at.
    let elsewhere = ["out/notes.parquet".to_owned(), "outer/part-0.parquet".to_owned()];
    for key in orphans.iter().chain(&foreign).chain(&elsewhere) {
        s3.put(key, "12345");
    }
    let before = s3.keys("");
    assert_eq!(clean(s3, &output, &["--dry-run"]), (2, 10));
    assert_eq!(s3.keys(""), before);
    assert_eq!(clean(s3, &output, &[]), (2, 10));
    let after = s3.keys("");
    for key in finished.keys().chain(&foreign).chain(&elsewhere) {
        assert!(after.contains_key(key), "{key} is gone");
    }
    for key in &orphans {
        assert!(!after.contains_key(key), "{key} is there");
    }
    let text = command(&s3.env(), &["clean", &output]).shown(&[]);
    assert!(text.contains("4 files in s3://data/out are not known to be written by this program"), "{text}");
    for key in foreign.iter().chain(&elsewhere) {
        std::fs::remove_file(s3.file(key)).unwrap();
    }
    let record = corpus.run("out").json();
    assert!(record["stages_reused"].as_u64().unwrap() >= 3, "{record}");
    let manifest = corpus.check("out");
    // An executor that wrote on after its run had ended: the manifest knows the attempt.
    assert!(manifest.attempts.contains(&attempt.to_string()));
    for key in &orphans {
        s3.put(key, "12345");
    }
    assert_eq!(clean(s3, &output, &[]), (2, 10));
    corpus.check("out");
    let text = command(&s3.env(), &["clean", &output]).shown(&[]);
    assert_eq!(text, "0 files, 0 bytes, removed from s3://data/out\n");
}

/// The attempt of a run that did not end well, by its record.
fn attempt<'a>(mut keys: impl Iterator<Item = &'a str>) -> Attempt {
    let record = keys.find_map(|key| key.split_once("_work/attempts/")).expect("an attempt has a record").1;
    Attempt::parse(record.trim_end_matches(".json")).unwrap()
}

#[test]
fn an_output_on_this_machine_loses_beginnings_of_files_too() {
    let s3 = S3::start();
    let folder = tempdir().unwrap();
    let input = folder.path().join("in.parquet");
    write_parquet(&input, &corpus(5, 60, 30), 100);
    let output = folder.path().join("out % [1]");
    run(&job(&input, &output, &[])).unwrap();
    let expected = tables(&output);
    let attempt = Attempt::parse(manifest(&output).attempts.last().unwrap()).unwrap();
    let orphans = [
        format!("{}#1", attempt.part("_work/keys", 0)),
        attempt.part("pairs", 1),
        format!("{}#12", attempt.part("pairs", 2)),
    ];
    let foreign = [
        "_work/keys/part of mine#1",
        "pairs/notes.json",
        "pairs/part-00001-2.parquet",
        "manifest.json#draft",
    ]
    .map(str::to_owned);
    for file in orphans.iter().chain(&foreign) {
        std::fs::create_dir_all(output.join(file).parent().unwrap()).unwrap();
        std::fs::write(output.join(file), "12345").unwrap();
    }
    assert_eq!(clean(&s3, output.to_str().unwrap(), &[]), (3, 15));
    assert_eq!(tables(&output), expected);
    assert!(orphans.iter().all(|file| !output.join(file).exists()));
    assert!(foreign.iter().all(|file| output.join(file).exists()));
    resemblance().arg("clean").arg(folder.path().join("nothing")).assert().code(3);
    assert!(!folder.path().join("nothing").exists());
}

#[test]
fn unknown_files_are_left_alone() {
    let s3 = S3::start();
    s3.put("out/_work/keys.json", "{}");
    s3.put("out/_work/keys/part-0.parquet", "12345");
    assert_eq!(clean(&s3, "s3://data/out", &[]), (0, 0));
    assert_eq!(s3.keys("").len(), 2);
    // A manifest that cannot be read may name any file.
    s3.put("out/manifest.json", "{}");
    command(&s3.env(), &["clean", "s3://data/out"]).refused(3, &["s3://data/out/manifest.json"]);
    assert_eq!(s3.keys("").len(), 3);
}
