//! Runs over inputs or jobs that have changed since: what is the same nevertheless, and what a message names.

use std::fs::File;

use crate::support::*;

/// A folder with `day=1/a.parquet`, `day=2/a.parquet` and a job over the first one.
struct Days(TempDir);

impl Days {
    fn new() -> Self {
        let days = Self(tempdir().unwrap());
        let documents = corpus(5, 90, 30);
        for (day, of) in (1..).zip(documents.chunks(30)) {
            let file = days.path(&format!("in/day={day}/a.parquet"));
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            write_parquet(&file, of, 7);
        }
        std::fs::write(days.path("job.toml"), job_text("in/day=1/", "out")).unwrap();
        days
    }

    fn path(&self, inside: &str) -> PathBuf {
        self.0.path().join(inside)
    }

    fn command(&self, arguments: &[&str]) -> Assert {
        resemblance().current_dir(self.0.path()).args(arguments).assert()
    }

    fn run(&self, sets: &[&str]) -> Assert {
        let sets = sets.iter().flat_map(|set| ["--set", set]);
        self.command(&["run", "job.toml", "--json"].into_iter().chain(sets).collect::<Vec<_>>())
    }

    fn is_finished(&self, sets: &[&str]) -> bool {
        self.run(sets).json()["already_finished"].as_bool().unwrap()
    }

    /// Applies an output, and returns the rows that were read. A dry run has the same counts.
    fn applied(&self, output: &str) -> u64 {
        let counts =
            |options: &[&str]| self.command(&[&["apply", output, "--json"], options].concat()).json();
        let dry = counts(&["--dry-run"]);
        let real = counts(&["--to", &format!("clean-{output}")]);
        for key in ["read", "kept", "removed", "rejected"] {
            assert_eq!(dry[key], real[key], "{output} {key}: {dry} {real}");
        }
        real["read"].as_u64().unwrap()
    }

    fn refused(&self, sets: &[&str]) -> String {
        self.run(sets).refused(2, &[])
    }
}

pub(super) fn touch(file: &Path) {
    let file = File::options().append(true).open(file).unwrap();
    let written = file.metadata().unwrap().modified().unwrap();
    file.set_modified(written - Duration::from_secs(3_600)).unwrap();
}

#[test]
fn a_second_source_that_was_only_touched_is_the_same() {
    let days = Days::new();
    let second = "against.source={format=\"parquet\",url=\"in/day=2/\",text=\"text\",id=\"id\"}";
    assert!(!days.is_finished(&[second]));
    touch(&days.path("in/day=2/a.parquet"));
    assert!(days.is_finished(&[second]));
    // Other rows of it are named, and so is a new file.
    let other = corpus(6, 30, 30);
    write_parquet(&days.path("in/day=2/a.parquet"), &other, 7);
    std::fs::copy(days.path("in/day=3/a.parquet"), days.path("in/day=2/b.parquet")).unwrap();
    let message = days.refused(&[second]);
    assert!(message.contains("of other inputs") && message.contains("day=2/a.parquet "), "{message}");
    assert!(message.contains("day=2/b.parquet is new") && !message.contains("is gone"), "{message}");
}

#[test]
fn files_that_a_condition_leaves_out_may_change() {
    let days = Days::new();
    let sets = ["source.url=in/", "source.where=day = '1'"];
    assert!(!days.is_finished(&sets));
    let left_out = days.path("in/day=2/a.parquet");
    let mut bytes = std::fs::read(&left_out).unwrap();
    let text = &corpus(5, 90, 30)[30].1;
    let at = bytes.windows(text.len()).position(|window| window == text.as_bytes()).unwrap();
    bytes[at] = b'x';
    std::fs::write(&left_out, &bytes).unwrap();
    touch(&left_out);
    assert!(days.is_finished(&sets));
    // Rows that are no documents stay, also rows of unread files.
    assert_eq!(days.applied("out"), 90);
}

#[test]
fn rows_of_files_that_were_not_read_are_counted_whatever_they_hold() {
    let days = Days::new();
    let documents = corpus(7, 40, 30);
    let rows: String = documents.iter().map(|(id, text)| format!("{id},{text}\n")).collect();
    for (file, text) in [
        ("lake/kind=doc/a.csv", format!("id,text\n{rows}")),
        ("lake/kind=meta/other.csv", "name,n\n\"one\ntwo\",1\nthree,2\n".to_owned()),
        ("lake/kind=meta/empty.csv", String::new()),
    ] {
        write_file(&days.0, file, text);
    }
    days.run(&["source.format=csv", "source.url=lake/", "source.where=kind = 'doc'"]).success();
    assert_eq!(days.applied("out"), 42);
}

#[test]
fn reference_outputs_that_were_made_again_are_named() {
    let days = Days::new();
    let second = ["source.url=in/day=2/", "output.url=second"];
    days.run(&[]).success();
    // Without the `/` at its end.
    assert!(days.is_finished(&["source.url=in/day=1"]));
    let against = |output: &str| days.run(&[second[0], second[1], &format!("against.output={output}")]);
    against("out").success();
    assert!(against("out/").json()["already_finished"].as_bool().unwrap());
    days.run(&["source.url=in/day=3/", "output.url=third"]).success();
    let both =
        |outputs: &str| days.run(&[second[0], "output.url=both", &format!("against.output={outputs}")]);
    both("[\"out\", \"third\"]").success();
    both("[\"third\", \"out\"]")
        .refused(2, &["of other inputs (the reference outputs are in another order)"]);
    days.command(&["run", "job.toml", "--set", "score.threshold=0.9", "--overwrite"]).success();
    against("out").refused(2, &["/out was made again since"]);
    std::fs::copy(days.path("in/day=3/a.parquet"), days.path("in/day=2/b.parquet")).unwrap();
    let message = against("out/").refused(2, &[]);
    assert!(message.contains("day=2/b.parquet is new") && !message.contains("another job ("), "{message}");
}

/// A second file of one name changes the names of both, which are parts of ids, in a run over the folder as it is now.
#[test]
fn a_folder_that_grows_is_read_again_without_its_new_files() {
    let days = Days::new();
    let id = "source.id='row_number'";
    days.run(&[id]).success();
    std::fs::create_dir(days.path("in/day=1/later")).unwrap();
    std::fs::copy(days.path("in/day=2/a.parquet"), days.path("in/day=1/later/a.parquet")).unwrap();
    assert_eq!(days.applied("out"), 30);
    let new = "source.url=['in/day=1/later/', 'in/day=3/']";
    days.run(&[id, new, "output.url=next", "against.output=out"]).success();
    assert_eq!(manifest(&days.path("next")).counts.reference_documents, Some(30));
    assert_eq!(days.applied("next"), 60);
    days.command(&["merge", "out", "next", "--to", "merged"]).success();
    assert_eq!(days.applied("merged"), 90);
    days.command(&["show", "out"]).warned(&["new since the run", "in/day=1/later/a.parquet"]);
}

/// Names of files are whole paths if two files have one name. A new file is not read, so it changes no name and no id.
#[test]
fn a_new_file_with_the_name_of_another_file_changes_no_id() {
    let days = Days::new();
    std::fs::create_dir(days.path("in/second")).unwrap();
    std::fs::copy(days.path("in/day=2/a.parquet"), days.path("in/second/b.parquet")).unwrap();
    days.run(&["source.id='row_number'", "source.url=['in/day=1/', 'in/second/']"]).success();
    let shown = || days.command(&["show", "out", "--json", "--top", "1000"]).shown(&[]);
    let before = shown();
    assert!(before.contains("\"a.parquet:") && before.contains("\"b.parquet:"), "{before}");
    std::fs::copy(days.path("in/day=3/a.parquet"), days.path("in/second/a.parquet")).unwrap();
    assert_eq!(shown(), before);
    days.command(&["evaluate", "out"]).success();
    assert_eq!(days.applied("out"), 60);
}

#[test]
fn a_result_of_apply_that_is_merged_is_refused_with_the_output_to_write() {
    let days = Days::new();
    days.run(&[]).success();
    assert_eq!(days.applied("out"), 30);
    days.run(&["source.url=in/day=2/", "output.url=next", "against.output=clean-out"]).success();
    assert_eq!(days.applied("next"), 30);
    for outputs in [["clean-out", "next"], ["out", "clean-next"]] {
        let output = days.path(outputs.iter().find_map(|name| name.strip_prefix("clean-")).unwrap());
        let told = format!("name the output that was applied, {}", output.display());
        days.command(&[&["merge"], &outputs[..], &["--to", "merged"]].concat()).refused(3, &[&told]);
    }
    days.command(&["merge", "out", "next", "--to", "merged"]).success();
}

#[test]
fn a_merged_output_that_is_used_again_can_be_applied() {
    let days = Days::new();
    let keep = "output.keep=shingles";
    days.run(&[keep, "source.where=id NOT LIKE '%7'"]).success();
    let next =
        ["source.url=in/day=2/", "output.url=second", "against.output=out", "source.where=id NOT LIKE '%7'"];
    days.run(&[&next[..], &[keep]].concat()).success();
    days.command(&["merge", "out", "second", "--to", "merged"]).success();
    let again = "source={format=\"output\",url=\"merged\"}\nscore.threshold=0.9\noutput.url=\"strict\"\n";
    std::fs::write(days.path("strict.toml"), again).unwrap();
    days.command(&["run", "strict.toml"]).success();
    for output in ["merged", "strict"] {
        assert_eq!(days.applied(output), 60, "{output}");
        for day in [1, 2] {
            assert!(days.path(&format!("clean-{output}/day={day}/a.parquet")).is_file(), "{output}");
        }
    }
    // A merge into a finished merge of others says what differs and what to do.
    days.command(&["merge", "out", "--to", "merged"]).refused(2, &["`merge` is ", "--to"]);
}

#[test]
fn folders_with_files_of_one_name_are_applied_below_the_folder_that_they_share() {
    let days = Days::new();
    days.run(&["source.url=[\"in/day=1/\", \"in/day=3/\"]"]).success();
    days.command(&["apply", "out", "--to", "clean"]).success();
    for day in [1, 3] {
        assert!(days.path(&format!("clean/day={day}/a.parquet")).is_file());
    }
}

#[test]
fn a_file_is_no_output() {
    let days = Days::new();
    for command in ["show", "verify", "apply", "report", "clean"] {
        let rest: &[&str] = if command == "apply" { &["--dry-run"] } else { &[] };
        days.command(&[&[command, "job.toml"], rest].concat()).refused(2, &["job.toml is a file"]);
    }
}
