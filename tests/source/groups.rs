//! `source.group` and `candidates.compare`. Random cases are in `brute_force`.

use resemblance::error::Result;

use crate::support::*;

/// Writes documents with their groups, and runs a job over them that compares every two: its output.
fn run_over(folder: &Path, texts: &[(&str, &str, &str)], sets: &[&str]) -> Result<PathBuf> {
    let documents: Vec<Document> = texts.iter().map(|text| (text.0.to_owned(), text.1.to_owned())).collect();
    let shops = Arc::new(StringArray::from_iter_values(texts.iter().map(|text| text.2)));
    let (source, output) = (folder.join("in.parquet"), folder.join("out"));
    write_columns(&source, &documents, vec![("shop", shops)], 30);
    let sets = [&["source.group=shop", "candidates.method=all"], sets].concat();
    run(&job(&source, &output, &sets))?;
    Ok(output)
}

/// Two groups of copies are one score, and as many pairs as both have documents together.
#[test]
fn a_run_that_would_write_too_many_pairs_of_copies_ends_early() {
    let names: Vec<String> = (0..40).map(|n| format!("d{n:02}")).collect();
    let groups = ["n", "s"].into_iter().cycle();
    let texts: Vec<_> =
        names.iter().zip(groups).map(|(id, group)| (id.as_str(), "one two three four", group)).collect();
    let folder = tempdir().unwrap();
    let sets = ["candidates.compare=across", "output.max_pairs=399"];
    let error = run_over(folder.path(), &texts, &sets).unwrap_err().to_string();
    assert!(error.contains("would write at least 400 pairs"), "{error}");
    let sets = ["candidates.compare=across", "output.max_pairs=400"];
    let output = run_over(folder.path(), &texts, &sets).unwrap();
    assert_eq!(table(&output, "pairs").num_rows(), 400);
}

const TEXTS: [(&str, &str, &str); 4] = [
    ("a", "one two three four five", "n"),
    ("b", "one two three four five", "s"),
    ("c", "one two three four five", "n"),
    ("d", "six seven eight nine ten", "s"),
];

#[test]
fn a_group_that_is_not_there_is_refused() {
    let folder = tempdir().unwrap();
    let output = run_over(folder.path(), &TEXTS, &[]).unwrap();
    let text = job_text(folder.path().join("in.parquet"), folder.path().join("plain"));
    let resolve = |sets: &[&str]| resolve(&text, sets);
    let said = ["`candidates.compare` is set, and no document has a group"];
    fails(resolve(&["candidates.compare=within"]), Kind::Job, &said);
    fails(resolve(&["source.columns=shop", "source.group=SHOP"]), Kind::Job, &["expected one spelling"]);
    fails(run(&resolve(&["source.group=shopp"]).unwrap()), Kind::Job, &["shop"]);

    run(&resolve(&[]).unwrap()).unwrap();
    let known = format!("against.output={:?}", folder.path().join("plain"));
    let mut next = resolve(&["source.group=shop", &known]).unwrap();
    next.output.url = folder.path().join("next").display().to_string();
    fails(run(&next), Kind::Job, &["does not carry the column `shop`"]);
    assert!(output.exists());
}

/// A job over an output names another one of the columns that it carries.
#[test]
fn sketches_serve_other_groups() {
    let folder = tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let across = ["candidates.compare=across", "output.keep=shingles"];
    let expected = run_over(folder.path(), &TEXTS, &across).unwrap();
    run(&job(&path("in.parquet"), &path("plain"), &["source.columns=shop", "output.keep=shingles"])).unwrap();
    let more = format!(
        "source.group = \"shop\"\ncandidates = {{ method = \"all\", compare = \"across\" }}\n{CONNECTED}"
    );
    let text = output_job_text(path("plain"), path("across"), &more);
    std::fs::write(path("job.toml"), text).unwrap();
    resemblance().arg("run").arg(path("job.toml")).assert().success();
    for name in ["pairs", "clusters", "group_pairs"] {
        assert_eq!(table(&path("across"), name), table(&expected, name), "{name}");
    }
    assert_eq!(table(&expected, "pairs").num_rows(), 2);
}
