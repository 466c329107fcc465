//! A result that is taken up where an attempt was killed.

use std::process::Command;

use super::*;
use crate::support::process::killed_at;

/// Files of the source: enough for several parts.
const FILES: usize = 1_500;

fn applied() -> Applied {
    let applied = Applied::new();
    for (id, text) in corpus(15, FILES, 8) {
        applied.put(&format!("{id}.txt"), text);
    }
    applied.run("text", "");
    applied
}

/// Kills the command as soon as it says that some files are done.
fn kill(applied: &Applied, to: &str) {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("resemblance"));
    command
        .args(["--log-format", "json", "apply"])
        .arg(applied.path("out"))
        .arg("--to")
        .arg(applied.path(to));
    let killed = killed_at(&mut command, |line| line["fields"]["message"] == "files written");
    assert!(killed, "it ended before it was killed");
    assert!(!applied.path(to).join("manifest.json").exists());
    assert!(std::fs::read_dir(applied.path(to).join("_work/parts")).unwrap().count() > 0);
}

#[test]
fn a_killed_attempt_is_taken_up_where_it_stopped() {
    let applied = applied();
    applied.apply("undisturbed", &[]);
    let expected = result(&applied.path("undisturbed"));
    kill(&applied, "to");
    // What a kill in the middle of a file leaves, and what somebody put where a file will be.
    std::fs::write(applied.path("to/kept/.resemblance-Ab12cd.tmp"), "half").unwrap();
    let files = expected["files"].as_array().unwrap();
    let written = files.iter().rev().find_map(|file| file["written"][0]["path"].as_str()).unwrap();
    assert!(!applied.path("to").join(written).exists(), "the last file was written before the kill");
    std::fs::write(applied.path("to").join(written), "somebody else's").unwrap();
    let said = applied.refused("to", &[], 3);
    assert!(said.contains(written) && said.contains("other bytes"), "{said}");
    assert_eq!(std::fs::read(applied.path("to").join(written)).unwrap(), b"somebody else's");
    std::fs::remove_file(applied.path("to").join(written)).unwrap();

    let begun = std::fs::read(applied.path("to/_work/apply.json")).unwrap();
    let printed = applied.apply("to", &[]);
    let reused = printed["files_reused"].as_u64().unwrap();
    assert!(reused >= 100, "{printed}");
    let found = result(&applied.path("to"));
    for part in ["files", "counts", "fingerprint"] {
        assert_eq!(found[part], expected[part], "{part}");
    }
    assert_eq!(printed["already_finished"], false);
    // As after a kill between the manifest and the end.
    std::fs::create_dir(applied.path("to/_work")).unwrap();
    std::fs::write(applied.path("to/_work/apply.json"), begun).unwrap();
    assert_eq!(applied.apply("to", &[])["already_finished"], true);
    assert!(!applied.path("to/_work").exists());
}

#[test]
fn files_that_were_lost_after_a_kill_are_written_again() {
    let applied = applied();
    kill(&applied, "to");
    let part = std::fs::read_dir(applied.path("to/_work/parts")).unwrap().next().unwrap().unwrap().path();
    let part: serde_json::Value = serde_json::from_slice(&std::fs::read(part).unwrap()).unwrap();
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
