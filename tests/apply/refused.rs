//! Applications that are refused before anything is written.

use super::*;

#[test]
fn a_folder_that_is_not_empty_or_overlaps_is_refused() {
    let applied = Applied::of_rows(&corpus(16, 80, 15));
    write_file(&applied.folder, "full/notes.txt", "somebody's");
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
    applied.refused("to", &["--annotate"], 2, &["a finished result of apply"]);
    std::fs::rename(applied.path("out"), applied.path("moved")).unwrap();
    applied.run("parquet", COLUMNS);
    applied.refused("moved", &[], 2, &["apply did not write"]);
    std::fs::write(applied.path("in/a.parquet"), "").unwrap();
    program!["apply", applied.path("out"), "--dry-run"].assert().refused(3, &["source has changed"]);
}

#[test]
fn options_that_a_format_or_an_encoding_does_not_allow_are_refused() {
    let applied = Applied::of_texts(&corpus(18, 40, 10));
    applied.refused("to", &["--annotate"], 2, &["text files have no columns"]);
    let said = ["text files have no columns that --columns could add to"];
    applied.refused("to", &["--columns", "cluster_size"], 2, &said);
    program!["apply", applied.path("out")].assert().refused(2, &["--to"]);
    applied.refused("to", &["--annotate", "--rejects", "drop"], 2, &[]);

    let applied = Applied::new();
    let lines: String = corpus(18, 40, 10).iter().map(|(id, text)| format!("{id}|{text}\n")).collect();
    let utf16: Vec<u8> = format!("id|text\n{lines}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    applied.put("a.csv", utf16);
    applied.run("csv", &format!("{COLUMNS}delimiter = \"|\"\nencoding = \"utf-16le\""));
    applied.refused("to", &[], 2, &["source.encoding is utf-16le"]);
    assert!(!applied.path("to").exists());
}
