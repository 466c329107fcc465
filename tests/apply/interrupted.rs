//! A result that is taken up where an attempt was killed.

use std::process::Command;

use super::columns::parquet;
use super::*;
use crate::support::process::killed_at;

/// Files of the source: enough for several parts.
const FILES: usize = 1_500;

fn applied() -> Applied {
    applied_of(FILES)
}

fn applied_of(files: usize) -> Applied {
    let applied = Applied::new();
    for (id, text) in corpus(15, files, 8) {
        applied.put(&format!("{id}.txt"), text);
    }
    applied.run("text", "");
    applied
}

/// Kills the command as soon as it says that some files are done.
fn kill(applied: &Applied, to: &str) {
    kill_with(applied, to, &[]);
}

/// Kills the command with these options as soon as it says so of files that no attempt before it had done.
pub(super) fn kill_with(applied: &Applied, to: &str, more: &[&str]) {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("resemblance"));
    command
        .args(["-vv", "--log-format", "json", "apply"])
        .arg(applied.path("out"))
        .arg("--to")
        .arg(applied.path(to))
        .args(more);
    let killed = killed_at(&mut command, |line| line["fields"]["message"] == "files written");
    assert!(killed, "it ended before it was killed");
    assert!(!applied.path(to).join("_resemblance/manifest.json").exists());
    assert!(std::fs::read_dir(applied.path(to).join("_resemblance/_work/parts")).unwrap().count() > 0);
}

#[test]
fn a_killed_attempt_is_taken_up_where_it_stopped() {
    let applied = applied();
    applied.apply("undisturbed", &[]);
    let expected = result(&applied.path("undisturbed"));
    kill(&applied, "to");
    // The rest of a file after a kill, a foreign file of such a name, and a foreign file in the place of a result's.
    let begun = std::fs::read(applied.path("to/_resemblance/_work/apply.json")).unwrap();
    let fingerprint = serde_json::from_slice::<serde_json::Value>(&begun).unwrap()["fingerprint"].clone();
    let staged = format!("to/.resemblance-{}-Ab12cd.tmp", fingerprint.as_str().unwrap());
    std::fs::write(applied.path(&staged), "half").unwrap();
    let mine = applied.path("to/.resemblance-Ab12cd.tmp");
    std::fs::write(&mine, "mine").unwrap();
    let files = expected["files"].as_array().unwrap();
    let written = files.iter().rev().find_map(|file| file["written"][0]["path"].as_str()).unwrap();
    assert!(!applied.path("to").join(written).exists(), "the last file was written before the kill");
    std::fs::write(applied.path("to").join(written), "somebody else's").unwrap();
    let said = applied.refused("to", &[], 3);
    assert!(said.contains(written) && said.contains("other bytes"), "{said}");
    assert_eq!(std::fs::read(applied.path("to").join(written)).unwrap(), b"somebody else's");
    std::fs::remove_file(applied.path("to").join(written)).unwrap();
    assert!(!applied.path(&staged).exists() && std::fs::read(&mine).unwrap() == b"mine");
    std::fs::remove_file(mine).unwrap();

    // The same output, spelled in another way.
    let spelled = format!("{}/./", applied.path("in/../out").display());
    let mut again = resemblance();
    again.arg("apply").arg(spelled).args(["--json", "--to"]).arg(applied.path("to"));
    let printed: serde_json::Value =
        serde_json::from_slice(&again.assert().success().get_output().stdout).unwrap();
    let reused = printed["files_reused"].as_u64().unwrap();
    assert!(reused >= 100, "{printed}");
    let found = result(&applied.path("to"));
    for part in ["files", "counts", "fingerprint"] {
        assert_eq!(found[part], expected[part], "{part}");
    }
    assert_eq!(printed["already_finished"], false);
    // As after a kill between the manifest and the end.
    std::fs::create_dir(applied.path("to/_resemblance/_work")).unwrap();
    std::fs::write(applied.path("to/_resemblance/_work/apply.json"), begun).unwrap();
    assert_eq!(applied.apply("to", &[])["already_finished"], true);
    assert!(!applied.path("to/_resemblance/_work").exists());
}

#[test]
fn files_that_were_lost_after_a_kill_are_written_again() {
    let applied = applied();
    kill(&applied, "to");
    let mut parts = files(&applied.path("to/_resemblance/_work/parts"));
    parts.retain(|path, _| path.ends_with(".json"));
    let part: serde_json::Value = serde_json::from_slice(parts.values().next().unwrap()).unwrap();
    let files = part["files"].as_array().unwrap();
    let lost = files.iter().find_map(|file| file["written"][0]["path"].as_str()).unwrap();
    std::fs::remove_file(applied.path("to").join(lost)).unwrap();
    // Other options are another result, which has no place there.
    let said = applied.refused("to", &["--rejects", "drop"], 2);
    assert!(said.contains("unfinished result of apply"), "{said}");
    applied.apply("to", &[]);
    result(&applied.path("to"));
    assert!(applied.path("to").join(lost).exists());
}

/// A claim of a process of another machine, which is dead: it is not renewed.
fn dead_claim() -> String {
    let process = serde_json::json!({"host": "far", "pid": 1, "place": "elsewhere", "began": 1});
    serde_json::json!({"owner": true, "beat": 7, "seconds": 2, "what": "apply", "process": process})
        .to_string()
}

const DEAD_CLAIM: &str = "_work/claims/00000000000000000000000000000000.json";

/// A claim of another machine or boot, whose process cannot be looked up, is waited for as in a run.
#[test]
fn a_dead_process_of_another_machine_blocks_neither_apply_nor_clean() {
    let applied = applied_of(20);
    for (to, records) in [("to", "_resemblance/"), ("out", "")] {
        let claim = applied.path(to).join(records).join(DEAD_CLAIM);
        std::fs::create_dir_all(claim.parent().unwrap()).unwrap();
        std::fs::write(&claim, dead_claim()).unwrap();
        let mut command = resemblance();
        let (name, ended) = match to {
            "to" => (
                "apply",
                command.arg("apply").arg(applied.path("out")).arg("--to").arg(applied.path(to)).assert(),
            ),
            _ => ("clean", command.arg("clean").arg(applied.path(to)).assert()),
        };
        let said = String::from_utf8(ended.success().get_output().stderr.clone()).unwrap();
        assert!(said.contains("(process 1 on far) is writing to"), "{said}");
        assert!(said.contains(&format!("this {name} waits until it has ended")), "{said}");
        assert!(!claim.exists());
    }
    result(&applied.path("to"));
}

/// How often the command is killed, and the files of a source that has far more parts: it must never come to its end before.
const KILLS: usize = 10;
const FILES_OF_MANY_PARTS: usize = 3_000;

/// Files of the source in each part.
const PART: u64 = 100;

/// Each attempt takes up the one before it, and is killed itself when it has done some more: ten moments, each with other
/// numbers of parts that are done.
#[test]
fn a_result_that_was_killed_ten_times_has_the_bytes_of_an_undisturbed_one() {
    let applied = applied_of(FILES_OF_MANY_PARTS);
    applied.apply("undisturbed", &["--rejects", "separate"]);
    // A record that a kill cut off ends otherwise.
    let done = |path: &String| path.ends_with(".json");
    let parts =
        || files(&applied.path("to/_resemblance/_work/parts")).into_keys().filter(done).count() as u64;
    let mut moments = vec![0];
    for _ in 0..KILLS {
        kill_with(&applied, "to", &["--rejects", "separate"]);
        moments.push(parts());
    }
    let all = FILES_OF_MANY_PARTS as u64 / PART;
    assert!(moments.is_sorted_by(|a, b| a < b) && *moments.last().unwrap() < all, "{moments:?}");
    let printed = applied.apply("to", &["--rejects", "separate"]);
    assert_eq!(printed["files_reused"], moments.last().unwrap() * PART);

    let [expected, found] = ["undisturbed", "to"].map(|to| {
        let manifest = result(&applied.path(to));
        let mut bytes = files(&applied.path(to));
        bytes.remove("_resemblance/manifest.json").unwrap();
        // Which task writes which rows of a table is open, and so are the names of its files: its rows are the same.
        bytes.retain(|path, _| !path.starts_with("_resemblance/removed/"));
        assert!(bytes.len() > FILES_OF_MANY_PARTS / 2);
        let removed = manifest["removed"].as_array().unwrap().iter();
        let tables = removed.map(|file| parquet(&applied.path(to).join(file["path"].as_str().unwrap())).0);
        let text =
            arrow::util::pretty::pretty_format_batches(&tables.collect::<Vec<_>>()).unwrap().to_string();
        let mut rows: Vec<String> = text.lines().map(str::to_owned).collect();
        rows.sort();
        assert!(rows.len() > FILES_OF_MANY_PARTS / 10);
        (bytes, rows, ["files", "counts", "fingerprint", "warnings"].map(|key| manifest[key].clone()))
    });
    let differ = expected.0.iter().filter(|(path, bytes)| found.0.get(*path) != Some(bytes)).count();
    assert_eq!((differ, found.0.len()), (0, expected.0.len()), "files of other bytes");
    assert_eq!((found.1, found.2), (expected.1, expected.2));
}
