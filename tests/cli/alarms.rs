//! `[alarms]`: a run and `apply` say when too much would go, and stop where the job says so.

use assert_cmd::assert::Assert;

use crate::support::*;

/// Ten documents: five copies in the group north, two in south, and others.
struct Shops {
    folder: TempDir,
}

impl Shops {
    fn new() -> Self {
        let folder = tempdir().unwrap();
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
        write_columns(&folder.path().join("in.parquet"), &documents, vec![("shop", shops)], 5);
        let text = job_text(folder.path().join("in.parquet"), SET_BY_THE_TEST);
        std::fs::write(folder.path().join("job.toml"), text).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, output: &str, sets: &[&str]) -> Assert {
        let mut run = resemblance();
        run.arg("run").arg(self.path("job.toml"));
        run.args(["--set", &format!("output.url={}", self.path(output).display())]);
        for set in [&["source.group=shop"], sets].concat() {
            run.args(["--set", set]);
        }
        run.assert()
    }

    fn apply(&self, output: &str, more: &[&str]) -> Assert {
        resemblance().arg("apply").arg(self.path(output)).args(more).assert()
    }
}

fn said(assert: &Assert) -> String {
    stderr(assert.get_output())
}

fn finished(output: &Path) -> bool {
    ["manifest.json", "_resemblance/manifest.json"].iter().any(|manifest| output.join(manifest).exists())
}

#[test]
fn alarms_report_bound_and_value() {
    let shops = Shops::new();
    // Five of ten go: four of north, one of south.
    let quiet = shops.run("quiet", &["alarms.removed_share=0.5", "alarms.largest_cluster=5"]).success();
    assert!(!said(&quiet).contains("alarms"), "{}", said(&quiet));
    let told = shops.run("told", &["alarms.removed_share=0.49", "alarms.largest_cluster=4"]).success();
    for part in [
        "5 of 10 documents would be removed, a share of 0.5000, and alarms.removed_share allows 0.49",
        "the cluster `n1` has 5 documents, and alarms.largest_cluster allows 4",
    ] {
        assert!(said(&told).contains(part), "{}", said(&told));
    }
    let per = ["alarms.removed_share=0.5", "alarms.largest_cluster=1", "alarms.per=group"];
    let told = said(&shops.run("per", &per).success());
    for part in [
        "4 of 6 documents of group `north` would be removed, a share of 0.6667",
        "the cluster `n1` has 5 documents, some of group `north`",
        "the cluster `s1` has 2 documents, some of group `south`",
    ] {
        assert!(told.contains(part), "{told}");
    }
    assert!(!told.contains("without a group") && !told.contains("1 of 3"), "{told}");
}

#[test]
fn where_the_job_fails_nothing_is_applied() {
    let shops = Shops::new();
    let sets = ["alarms.removed_share=0.6", "alarms.per=group", "alarms.fail=true"];
    let failed = shops.run("out", &sets).code(6);
    assert!(said(&failed).contains("of group `north`") && finished(&shops.path("out")), "{}", said(&failed));
    // Also when it is finished already.
    shops.run("out", &sets).code(6);
    shops.run("out", &["alarms.removed_share=0.7", "alarms.per=group", "alarms.fail=true"]).success();

    let to = shops.path("clean").display().to_string();
    let refused = shops.apply("out", &["--to", &to]).code(6);
    assert!(said(&refused).contains("4 of 6 documents of group `north`"), "{}", said(&refused));
    assert!(!shops.path("clean").exists());
    // An application that removes nothing goes on, with a warning.
    let dry = shops.apply("out", &["--dry-run"]).success();
    assert!(said(&dry).contains("of group `north`"), "{}", said(&dry));
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
    let refused = shops.apply("out", &["--to", &to]).code(6);
    assert!(said(&refused).contains("--removed-share"), "{}", said(&refused));
    let refused = shops.apply("out", &["--to", &to, "--removed-share", "0.5"]).code(6);
    assert!(said(&refused).contains("`n1` has 5 documents") && !said(&refused).contains("5 of 10"));
    shops.apply("out", &["--to", &to, "--removed-share", "1.5"]).code(2);
    assert!(!shops.path("clean").exists());
    let bounds = ["--removed-share", "0.5", "--largest-cluster", "5"];
    let quiet = shops.apply("out", &[&["--to", &to][..], &bounds].concat()).success();
    assert!(!said(&quiet).contains("alarms"), "{}", said(&quiet));
    assert!(finished(&shops.path("clean")));
    // Tighter ones hold too.
    let tighter = ["--removed-share", "0.1", "--to", &to];
    assert!(said(&shops.apply("out", &tighter).code(6)).contains("alarms.removed_share allows 0.1"));
}

#[test]
fn bounds_that_cannot_be_are_refused() {
    let shops = Shops::new();
    for (set, part) in
        [("alarms.removed_share=1.5", "expected a number from 0 to 1"), ("alarms.per=shop", "alarms.per")]
    {
        let refused = shops.run("out", &[set]).code(2);
        assert!(said(&refused).contains(part), "{}", said(&refused));
    }
    assert!(!finished(&shops.path("out")));
}
