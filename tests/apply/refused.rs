//! What is refused before anything is written, and `--dry-run`, which writes nothing.

use predicates::prelude::*;

use super::*;

fn applied() -> Applied {
    let applied = Applied::new();
    write_parquet(&applied.path("in/a.parquet"), &corpus(16, 80, 15), 30);
    applied.run("parquet", "id = \"id\"\ntext = \"text\"");
    applied
}

#[test]
fn a_folder_that_is_not_empty_or_overlaps_is_refused() {
    let applied = applied();
    std::fs::create_dir(applied.path("full")).unwrap();
    std::fs::write(applied.path("full/notes.txt"), "somebody's").unwrap();
    for (to, said) in [
        ("full", "it holds notes.txt"),
        ("in/deeper", "lies in the source"),
        ("out/kept", "overlaps with the output"),
        ("out", "overlaps with the output"),
        ("", "lies in the output"),
    ] {
        let refused = applied.refused(to, &[], 2);
        assert!(refused.contains(said) && refused.contains("--to"), "{to}: {refused}");
    }
    assert_eq!(files(&applied.path("full")).len(), 1);
    assert!(!applied.path("in/deeper").exists() && !applied.path("out/kept").exists());

    applied.apply("to", &[]);
    let before = files(&applied.path("to"));
    let refused = applied.refused("to", &["--annotate"], 2);
    assert!(refused.contains("a finished result of apply"), "{refused}");
    // The output of a job is not a result of apply, and the other way round.
    std::fs::rename(applied.path("out"), applied.path("moved")).unwrap();
    let job = applied.path("job.toml");
    let to = format!("output.url={:?}", applied.path("to"));
    resemblance().arg("run").arg(&job).args(["--set", &to]).assert().code(3);
    resemblance().args(["clean"]).arg(applied.path("to")).assert().code(3);
    assert_eq!(files(&applied.path("to")), before);
    applied.run("parquet", "id = \"id\"\ntext = \"text\"");
    let refused = applied.refused("moved", &[], 2);
    assert!(refused.contains("apply did not write"), "{refused}");
}

#[test]
fn a_source_or_output_that_is_not_what_it_was_is_refused() {
    let applied = applied();
    std::fs::rename(applied.path("out/manifest.json"), applied.path("manifest.json")).unwrap();
    assert!(applied.refused("to", &[], 3).contains("no finished output"));
    std::fs::rename(applied.path("manifest.json"), applied.path("out/manifest.json")).unwrap();
    write_parquet(&applied.path("in/a.parquet"), &corpus(17, 5, 15), 30);
    let refused = applied.refused("to", &[], 3);
    assert!(refused.contains("has changed since it was made"), "{refused}");
    assert!(!applied.path("to").exists());
}

#[test]
fn what_a_format_or_an_encoding_cannot_have_is_refused() {
    let applied = Applied::new();
    for (id, text) in corpus(18, 40, 10) {
        applied.put(&format!("{id}.txt"), text);
    }
    applied.run("text", "");
    assert!(applied.refused("to", &["--annotate"], 2).contains("text files have no columns"));
    resemblance()
        .arg("apply")
        .arg(applied.path("out"))
        .assert()
        .code(2)
        .stderr(predicate::str::contains("--to"));
    applied.refused("to", &["--annotate", "--rejects", "drop"], 2);

    let applied = Applied::new();
    let lines: String = corpus(18, 40, 10).iter().map(|(id, text)| format!("{id}|{text}\n")).collect();
    let utf16: Vec<u8> = format!("id|text\n{lines}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    applied.put("a.csv", utf16);
    applied.run("csv", "id = \"id\"\ntext = \"text\"\ndelimiter = \"|\"\nencoding = \"utf-16le\"");
    let refused = applied.refused("to", &[], 2);
    assert!(refused.contains("source.encoding is utf-16le"), "{refused}");
    assert!(!applied.path("to").exists());
}

#[test]
fn a_dry_run_counts_and_writes_nothing() {
    let applied = applied();
    let dry = |more: &[&str]| {
        let ran = resemblance()
            .arg("apply")
            .arg(applied.path("out"))
            .arg("--dry-run")
            .args(more)
            .assert()
            .success();
        String::from_utf8(ran.get_output().stdout.clone()).unwrap()
    };
    let to = applied.path("to");
    let counted: serde_json::Value =
        serde_json::from_str(&dry(&["--json", "--to", to.to_str().unwrap()])).unwrap();
    assert!(dry(&[]).contains("nothing was written"));
    assert!(!to.exists());
    let done = applied.apply("to", &[]);
    for count in ["read", "kept", "removed", "rejected"] {
        assert_eq!(counted[count], done[count]);
    }
    assert_eq!(counted["removed"], applied.gone().len());
    assert_eq!(counted["dry_run"], true);
}
