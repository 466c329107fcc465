//! `[alarms]`: a run and `apply` say when too much would go, and stop where the job says so.

use crate::support::*;

/// Ten documents: five copies in the group north, two in south, and others.
struct Shops {
    scene: Scene,
}

has_a_scene!(Shops);

impl Shops {
    fn new() -> Self {
        let scene = Scene::new(&[]);
        let (copied, again) = ("one two three four five six", "a b c d e f");
        let rows = [
            ("n1", copied, Some("north")),
            ("n2", copied, Some("north")),
            ("n3", copied, Some("north")),
            ("n4", copied, Some("north")),
            ("n5", copied, Some("north")),
            ("n6", "quite another text of this shop", Some("north")),
            ("s1", again, Some("south")),
            ("s2", again, Some("south")),
            ("s3", "nothing of the kind was seen here", Some("south")),
            ("x1", "no shop sells what this page is about", None),
        ];
        let documents = rows.map(|(id, text, _)| (id.to_owned(), text.to_owned()));
        let shops = Arc::new(rows.iter().map(|row| row.2).collect::<StringArray>());
        write_columns(&scene.path("in.parquet"), &documents, vec![("shop", shops)], 5);
        let text = job_text(scene.path("in.parquet"), SET_BY_THE_TEST);
        std::fs::write(scene.path("job.toml"), text).unwrap();
        Self { scene }
    }

    fn run(&self, output: &str, sets: &[&str]) -> Assert {
        let set = format!("output.url={}", self.path(output).display());
        let mut run = program!["run", self.path("job.toml"), "--set", set];
        for set in [&["source.group=shop"], sets].concat() {
            run.args(["--set", set]);
        }
        run.assert()
    }

    fn apply(&self, output: &str, more: &[&str]) -> Assert {
        program!["apply", self.path(output)].args(more).assert()
    }
}

fn finished(output: &Path) -> bool {
    ["manifest.json", "_resemblance/manifest.json"].iter().any(|manifest| output.join(manifest).exists())
}

#[test]
fn alarms_report_bound_and_value() {
    let shops = Shops::new();
    // Five of ten go: four of north, one of south.
    let quiet = shops.run("quiet", &["alarms.removed_share=0.5", "alarms.largest_cluster=5"]).warned(&[]);
    assert!(!quiet.contains("alarms"), "{quiet}");
    shops.run("told", &["alarms.removed_share=0.49", "alarms.largest_cluster=4"]).warned(&[
        "5 of 10 documents would be removed, a share of 0.5000, and alarms.removed_share allows 0.49",
        "the cluster `n1` has 5 documents, and alarms.largest_cluster allows 4",
    ]);
    let per = ["alarms.removed_share=0.5", "alarms.largest_cluster=1", "alarms.per=group"];
    let told = shops.run("per", &per).warned(&[
        "4 of 6 documents of group `north` would be removed, a share of 0.6667",
        "the cluster `n1` has 5 documents, some of group `north`",
        "the cluster `s1` has 2 documents, some of group `south`",
    ]);
    assert!(!told.contains("without a group") && !told.contains("1 of 3"), "{told}");
}

#[test]
fn where_the_job_fails_nothing_is_applied() {
    let shops = Shops::new();
    let sets = ["alarms.removed_share=0.6", "alarms.per=group", "alarms.fail=true"];
    shops.run("out", &sets).refused(6, &["of group `north`"]);
    assert!(finished(&shops.path("out")));
    // Also when it is finished already.
    shops.run("out", &sets).code(6);
    shops.run("out", &["alarms.removed_share=0.7", "alarms.per=group", "alarms.fail=true"]).success();

    let to = shops.path("clean").display().to_string();
    shops.apply("out", &["--to", &to]).refused(6, &["4 of 6 documents of group `north`"]);
    assert!(!shops.path("clean").exists());
    // An application that removes nothing goes on, with a warning.
    shops.apply("out", &["--dry-run"]).warned(&["of group `north`"]);
    shops.apply("out", &["--to", &shops.path("annotated").display().to_string(), "--annotate"]).success();

    shops.run("fine", &["alarms.removed_share=0.6", "alarms.fail=true"]).success();
    shops.apply("fine", &["--to", &to]).success();
    assert!(finished(&shops.path("clean")));
}

/// The run that made the output is not repeated: `apply` gets other bounds.
#[test]
fn bounds_are_mended_where_the_output_is_applied() {
    let shops = Shops::new();
    let sets = ["alarms.removed_share=0.4", "alarms.largest_cluster=4", "alarms.fail=true"];
    shops.run("out", &sets).code(6);
    let to = shops.path("clean").display().to_string();
    shops.apply("out", &["--to", &to]).refused(6, &["--removed-share"]);
    let mended = shops.apply("out", &["--to", &to, "--removed-share", "0.5"]);
    assert!(!mended.refused(6, &["`n1` has 5 documents"]).contains("5 of 10"));
    shops.apply("out", &["--to", &to, "--removed-share", "1.5"]).code(2);
    assert!(!shops.path("clean").exists());
    let bounds = ["--removed-share", "0.5", "--largest-cluster", "5"];
    let quiet = shops.apply("out", &[&["--to", &to][..], &bounds].concat()).warned(&[]);
    assert!(!quiet.contains("alarms"), "{quiet}");
    assert!(finished(&shops.path("clean")));
    // Tighter ones hold too.
    let tighter = ["--removed-share", "0.1", "--to", &to];
    shops.apply("out", &tighter).refused(6, &["alarms.removed_share allows 0.1"]);
}

/// Two texts that can be compared, and three that are empty.
fn with_empty_texts() -> Scene {
    let texts = ["one two three four five six", "quite another text of this kind", "", " ", "\n"];
    let documents: Vec<Document> = (1..).zip(texts).map(|(n, text)| (format!("d{n}"), text.into())).collect();
    Scene::new(&[]).with_job("in.parquet", &documents)
}

#[test]
fn too_few_documents_and_too_many_rejects_are_alarms() {
    let scene = with_empty_texts();
    let run = |sets: &[&str]| {
        let sets = sets.iter().flat_map(|set| ["--set", set]);
        scene.command(&[&["run", "job.toml"][..], &sets.collect::<Vec<_>>()].concat()).assert()
    };
    let fine = ["alarms.min_documents=2", "alarms.max_rejected_share=0.6", "alarms.fail=true"];
    assert!(!run(&fine).warned(&[]).contains("alarms."));
    let few = "alarms.min_documents requires 3 compared documents, and there are 2";
    let many = "3 of 5 documents were rejected, a share of 0.6000, and alarms.max_rejected_share allows 0.59";
    run(&["alarms.min_documents=3", "alarms.max_rejected_share=0.59"]).warned(&[few, many]);
    run(&["alarms.min_documents=3", "alarms.fail=true"]).refused(6, &[few]);
    let sets = ["alarms.min_documents=3", "alarms.fail=true"].map(|set| ["--set", set]).concat();
    let written = ["--record", "record.json", "--metrics", "run.prom"];
    scene.command(&[&["run", "job.toml"][..], &sets, &written].concat()).assert().code(6);
    let record: Value = serde_json::from_slice(&std::fs::read(scene.path("record.json")).unwrap()).unwrap();
    assert_eq!((&record["kind"], &record["exit_code"]), (&json!("alarm"), &json!(6)), "{record}");
    assert_eq!(record["manifest"]["counts"]["documents"], json!(2), "{record}");
    let metrics = std::fs::read_to_string(scene.path("run.prom")).unwrap();
    let counted = |line: &str| line.starts_with("resemblance_documents{") && line.ends_with(" 2");
    assert!(metrics.lines().any(counted), "{metrics}");
    run(&["alarms.max_rejected_share=0.59", "alarms.fail=true"]).refused(6, &[many]);
    // The record names both, also without groups.
    let record = printed(&mut scene.command(&["run", "job.toml", "--set", "alarms.min_documents=3"]));
    let verdict = &record["alarms"][0];
    assert_eq!(verdict["bound"], "min_documents");
    assert!(verdict["allowed"] == 3.0 && verdict["found"] == 2.0, "{verdict}");
}

#[test]
fn apply_takes_other_bounds_on_what_was_read() {
    let scene = with_empty_texts();
    let bounds = "--set alarms.min_documents=3 --set alarms.max_rejected_share=0.5 --set alarms.fail=true";
    let bounds: Vec<&str> = bounds.split(' ').collect();
    scene.command(&[&["run", "job.toml"][..], &bounds].concat()).assert().code(6);
    let apply =
        |more: &[&str]| scene.command(&[&["apply", "out", "--to", "clean"][..], more].concat()).assert();
    apply(&[]).refused(6, &["alarms.min_documents requires 3", "allows 0.5"]);
    apply(&["--min-documents", "2"]).code(6);
    apply(&["--min-documents", "2", "--max-rejected-share", "1.5"]).code(2);
    assert!(!scene.path("clean").exists());
    apply(&["--min-documents", "2", "--max-rejected-share", "0.6"]).success();
    assert!(finished(&scene.path("clean")));
    // A merge compares no documents, so it raises no alarm.
    let merged = scene.command(&["merge", "out", "--to", "all"]).assert().warned(&[]);
    assert!(!merged.contains("alarms."), "{merged}");
}

/// A run over nothing, or over what it could hardly read, says so first; the log and the manifest say it too.
#[test]
fn a_summary_begins_with_what_makes_the_result_doubtful() {
    let nothing =
        "source.where leaves no document (rows left out: 5, files left out: 0): correct the condition";
    let rejected = "3 of 5 documents were rejected, so most of them are not compared";
    let one = (&["--set", "source.where=id = 'd3'"][..], "1 of 1 document was rejected");
    for (sets, warning) in [(&["--set", "source.where=id = 'none'"][..], nothing), one, (&[], rejected)] {
        let scene = with_empty_texts();
        let run = scene.command(&[&["run", "job.toml"][..], sets].concat()).assert();
        run.warned(&[warning]);
        assert!(run.shown(&[]).starts_with(warning), "{run:?}");
        assert!(manifest(&scene.path("out")).warnings[0].starts_with(warning));
    }
    let scene = with_empty_texts();
    for (more, warning) in [(&["--where", "id = 'none'"][..], nothing), (&[], rejected)] {
        let find = scene.command(&[&["find", "in.parquet"][..], more].concat()).assert().shown(&[]);
        assert!(find.starts_with(warning), "{find}");
    }
    // Most documents were compared.
    let scene = with_empty_texts();
    let run = ["run", "job.toml", "--set", "source.where=id < 'd4'"];
    let said = scene.command(&run).assert().warned(&[]);
    assert!(!said.contains("rejected") && manifest(&scene.path("out")).warnings.is_empty());
}
