//! Applications that are refused before anything is written, and `--dry-run`, which writes nothing.

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
        applied.refused(to, &[], 2, &[said, "--to"]);
    }
    assert_eq!(files(&applied.path("full")).len(), 1);
    assert!(!applied.path("in/deeper").exists() && !applied.path("out/kept").exists());

    applied.apply("to", &[]);
    let before = files(&applied.path("to"));
    applied.refused("to", &["--annotate"], 2, &["a finished result of apply"]);
    // The output of a job is not a result of apply, and the other way round.
    std::fs::rename(applied.path("out"), applied.path("moved")).unwrap();
    let job = applied.path("job.toml");
    let to = format!("output.url={:?}", applied.path("to"));
    program!["run", &job, "--set", &to].assert().code(3);
    program!["clean", applied.path("to")].assert().code(3);
    assert_eq!(files(&applied.path("to")), before);
    applied.run("parquet", "id = \"id\"\ntext = \"text\"");
    applied.refused("moved", &[], 2, &["apply did not write"]);
}

#[test]
fn options_that_a_format_or_an_encoding_does_not_allow_are_refused() {
    let applied = Applied::new();
    for (id, text) in corpus(18, 40, 10) {
        applied.put(&format!("{id}.txt"), text);
    }
    applied.run("text", "");
    applied.refused("to", &["--annotate"], 2, &["text files have no columns"]);
    program!["apply", applied.path("out")].assert().refused(2, &["--to"]);
    applied.refused("to", &["--annotate", "--rejects", "drop"], 2, &[]);

    let applied = Applied::new();
    let lines: String = corpus(18, 40, 10).iter().map(|(id, text)| format!("{id}|{text}\n")).collect();
    let utf16: Vec<u8> = format!("id|text\n{lines}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    applied.put("a.csv", utf16);
    applied.run("csv", "id = \"id\"\ntext = \"text\"\ndelimiter = \"|\"\nencoding = \"utf-16le\"");
    applied.refused("to", &[], 2, &["source.encoding is utf-16le"]);
    assert!(!applied.path("to").exists());
}

#[test]
fn a_dry_run_counts_and_writes_nothing() {
    let applied = applied();
    let dry =
        |more: &[&str]| program!["apply", applied.path("out"), "--dry-run"].args(more).assert().shown(&[]);
    let to = applied.path("to");
    let counted: Value = serde_json::from_str(&dry(&["--json", "--to", to.to_str().unwrap()])).unwrap();
    assert!(dry(&[]).contains("nothing was written"));
    assert!(!to.exists());
    let done = applied.apply("to", &[]);
    for count in ["read", "kept", "removed", "rejected"] {
        assert_eq!(counted[count], done[count]);
    }
    assert_eq!(counted["removed"], applied.gone().len());
    assert_eq!(counted["dry_run"], true);
    std::fs::write(applied.path("in/a.parquet"), "").unwrap();
    program!["apply", applied.path("out"), "--dry-run"].assert().refused(3, &["source has changed"]);
}
