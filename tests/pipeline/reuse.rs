//! `source.format = "output"`: other settings over the sketches of a finished output.

use resemblance::error::Result;
use resemblance::job::Draft;
use resemblance::output::Stored;

use crate::support::*;

/// A corpus with a rejected document, in a folder with the output of its first run.
struct First {
    scene: Scene,
}

has_a_scene!(First);

impl First {
    fn run(sets: &[&str]) -> Self {
        let first = Self { scene: Scene::new(&[]) };
        let mut documents = corpus(77, 150, 30);
        documents.push(("too short".into(), "two words".into()));
        documents.extend_from_within(3..5);
        first.write("in/a.parquet", &documents[..90]);
        first.write("in/b.parquet", &documents[90..]);
        run(&first.over_texts("first", sets)).unwrap();
        first
    }

    fn over_texts(&self, output: &str, sets: &[&str]) -> Job {
        let own = ["source.duplicate_ids=reject", "source.columns=text", "minhash.permutations=96"];
        self.job("in", output, &[&own, sets].concat())
    }

    fn over_output(&self, from: &str, output: &str, lines: &str) -> PathBuf {
        let file = self.path(&format!("{output}.toml"));
        let lines = format!("clusters.method = \"components\"\n{lines}");
        std::fs::write(&file, output_job_text(self.path(from), self.path(output), &lines)).unwrap();
        file
    }

    fn reuse(&self, from: &str, output: &str, sets: &[&str]) -> Result<Job> {
        let job = resolved(&self.over_output(from, output, ""), sets)?;
        run(&job).map(|_| job)
    }

    fn refused(&self, lines: &str, code: i32, parts: &[&str]) {
        let file = self.over_output("first", "refused", lines);
        program!["run", &file].assert().refused(code, parts);
        assert!(!self.path("refused").exists(), "something was written");
    }
}

fn resolved(file: &Path, sets: &[&str]) -> Result<Job> {
    let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
    let draft = Draft::read(file, &sets)?;
    let url = draft.reuse()?.expect("a job over an output");
    let session = session::session(&EngineSettings::local(1 << 26))?;
    let made = block_on(Stored::open(&session, &url))?;
    draft.resolve(Some(made.job()))
}

/// All of a result but what says how it came about.
fn result(output: &Path) -> (Vec<RecordBatch>, BTreeMap<String, u64>) {
    (tables(output), manifest(output).rejects)
}

#[test]
fn other_settings_give_the_rows_of_a_run_over_the_texts() {
    let kept = ["output.keep=shingles"];
    let cases: [(&[&str], &[&str]); 13] = [
        (&[], &[]),
        (&[], &["score.threshold=0.8"]),
        (&[], &["score.threshold=0.3", "engine.threads=3"]),
        (&[], &["lsh.bands=48", "lsh.rows=2"]),
        (&[], &["lsh.bands=24", "lsh.rows=4"]),
        (&[], &["lsh.bands=24", "lsh.rows=4", "score.by=signature"]),
        (&[], &["lsh.hot_bucket=3", "output.max_expand=4"]),
        (&[], &["output.expand=star", "output.keep=none"]),
        (&[], &["score.by=signature", "lsh.choose=recall"]),
        (&kept, &["candidates.method=prefix"]),
        (&kept, &["candidates.method=all", "output.keep=shingles"]),
        (&kept, &["candidates.method=prefix", "score.by=signature", "score.threshold=0.7"]),
        (&kept, &["lsh.bands=32", "lsh.rows=3", "lsh.hot_bucket=4"]),
    ];
    let (bare, full) =
        (First::run(&["minhash.bits=16"]), First::run(&[&kept[..], &["minhash.bits=32"]].concat()));
    for (at, (first, sets)) in cases.iter().enumerate() {
        let first = if first.is_empty() { &bare } else { &full };
        let (reused, whole) = (format!("reused{at}"), format!("whole{at}"));
        let job = first.reuse("first", &reused, sets).unwrap();
        assert_eq!(job.minhash.permutations, 96);
        // Other bands may have another default.
        let bits = format!("minhash.bits={}", u32::from(job.minhash.bits));
        run(&first.over_texts(&whole, &[sets, &[bits.as_str()][..]].concat())).unwrap();
        assert_eq!(result(&first.path(&reused)), result(&first.path(&whole)), "{sets:?}");
        let (reused, whole) = (manifest(&first.path(&reused)), manifest(&first.path(&whole)));
        assert!(reused.counts.pairs > 10, "{sets:?}: {:?}", reused.counts);
        assert_eq!(reused.counts, whole.counts, "{sets:?}");
        assert_eq!(reused.source, whole.source);
        let cut = |stage: &resemblance::output::manifest::StageTime| stage.name == "duplicates";
        assert!(whole.stages.iter().any(cut) && !reused.stages.iter().any(cut));
    }
}

/// Where shingles are kept no text is read: the source may be gone. Else only the candidates' texts are, and a source that
/// changed is an error before anything is written.
#[test]
fn texts_are_read_only_where_shingles_are_not_kept() {
    let full = First::run(&["output.keep=shingles"]);
    std::fs::remove_dir_all(full.path("in")).unwrap();
    full.reuse("first", "again", &["score.threshold=0.6"]).unwrap();
    assert!(!pairs(&full.path("again")).is_empty());

    let bare = First::run(&[]);
    std::fs::OpenOptions::new().append(true).open(bare.path("in/b.parquet")).unwrap().set_len(4).unwrap();
    fails(bare.reuse("first", "again", &[]), Kind::Input, &["has changed since"]);
    assert!(!bare.path("again").exists());
    std::fs::remove_dir_all(bare.path("in")).unwrap();
    let error = bare.reuse("first", "again", &[]).unwrap_err();
    assert!(error.to_string().contains("keeps no shingles"), "{error}");
    assert!(!bare.path("again").exists());
}

/// An output of an output is one over the same texts, also for the commands that read these.
#[test]
fn an_output_of_an_output_knows_its_texts() {
    let first = First::run(&[]);
    first.reuse("first", "second", &["score.threshold=0.7"]).unwrap();
    first.reuse("second", "third", &["score.threshold=0.4"]).unwrap();
    run(&first.over_texts("whole", &["score.threshold=0.4"])).unwrap();
    assert_eq!(result(&first.path("third")), result(&first.path("whole")));
    std::fs::remove_dir_all(first.path("first")).unwrap();
    std::fs::remove_dir_all(first.path("second")).unwrap();
    for [command, option, value] in [["show", "--top", "3"], ["neighbors", "--id", "d00012"]] {
        let said = |output: &str| first.command(&[command, output, option, value]).assert().shown(&[]);
        assert_eq!(said("third"), said("whole"));
        assert!(!said("third").is_empty());
    }
}

#[test]
fn a_job_over_an_output_is_finished_until_that_output_changes() {
    let first = First::run(&[]);
    let file = first.over_output("first", "second", "");
    let run = || program!["run", &file].assert();
    assert!(!run().shown(&[]).contains("finished already"));
    run().shown(&["finished already"]);
    std::fs::remove_dir_all(first.path("first")).unwrap();
    crate::support::run(&first.over_texts("first", &["minhash.seed=7"])).unwrap();
    run().refused(2, &["of another job ("]);
}

#[test]
fn check_lists_reused_stages() {
    let first = First::run(&[]);
    let file = first.over_output("first", "second", "");
    let said = program!["check", &file].assert().shown(&["take the signatures of"]);
    assert!(said.contains("96 permutations") && !said.contains("duplicates:"), "{said}");
    assert!(said.contains("cut the shingles of candidates again"), "{said}");
    assert!(!first.path("second").exists());

    let full = First::run(&["output.keep=shingles"]);
    let said = program!["check", full.over_output("first", "second", "")].assert().shown(&[]);
    assert!(said.contains("take the signatures and shingles of"), "{said}");
    assert!(!said.contains("candidates again"), "{said}");
}

#[test]
fn outputs_that_cannot_be_reused_are_refused_before_writing() {
    let first = First::run(&[]);
    for (lines, code, said) in [
        ("shingle.size = 3", 2, "`shingle`"),
        ("minhash.seed = 3", 2, "`minhash`"),
        ("candidates.method = \"prefix\"", 2, "\"prefix\""),
        ("output.keep = \"shingles\"", 2, "\"shingles\""),
        ("lsh = { bands = 50, rows = 2 }", 2, "expected at most 96"),
    ] {
        first.refused(lines, code, &[said]);
    }
    // The key is named where it stands.
    first.refused("shingle.size = 3", 2, &["refused.toml:6"]);

    let manifest = std::fs::read(first.path("first/manifest.json")).unwrap();
    std::fs::remove_file(first.path("first/manifest.json")).unwrap();
    first.refused("", 3, &["no finished output"]);
    std::fs::write(first.path("first/manifest.json"), &manifest).unwrap();
    let documents = std::fs::read_dir(first.path("first/documents")).unwrap().next().unwrap().unwrap().path();
    std::fs::remove_file(documents).unwrap();
    first.refused("", 3, &["documents"]);

    let none = First::run(&["output.keep=none"]);
    none.refused("", 3, &["keeps no signatures"]);
    let numbered = First::run(&["shingle.hash=dictionary", "output.keep=shingles"]);
    numbered.refused("", 2, &["dictionary"]);

    let first = First::run(&[]);
    let file = first.over_output("first", "own", "");
    for output in ["first", "first/pairs/deeper"] {
        let set = format!("output.url={}", first.text(output));
        let said = program!["run", &file, "--set", set].assert().refused(2, &[]);
        assert!(said.contains("overlaps") || said.contains("another job"), "{said}");
        assert!(!first.path("first/pairs/deeper").exists());
    }
    for command in ["compare", "sweep"] {
        let file = first.over_output("first", "texts", "");
        program![command, &file].assert().refused(2, &["source.format"]);
    }
}
