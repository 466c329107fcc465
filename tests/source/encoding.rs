//! Files that are not UTF-8: every format reads them by the job's encoding, as often as they are read.

use crate::support::*;

/// Documents whose words have the letters of Latin-1 between 0xC0 and 0xFF, outside ASCII.
fn latin_corpus() -> Vec<Document> {
    let accented = |word: &str| {
        word.chars()
            .map(|c| c.to_digit(10).map_or(c, |digit| char::from(0xE0 + digit as u8)))
            .collect::<String>()
    };
    let text = |text: String| text.split(' ').map(accented).collect::<Vec<_>>().join(" ");
    corpus(5, 60, 20).into_iter().map(|(id, words)| (id, text(words))).collect()
}

type Encode = fn(&str) -> Vec<u8>;

fn latin_1(text: &str) -> Vec<u8> {
    text.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect()
}

pub(super) fn utf_16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// A job over the files of `format` in `folder`, with further keys of its source.
fn job_of(format: &Format, folder: &Path, output: &Path, keys: &str) -> Job {
    let source = format.source(&folder.display().to_string());
    let text = format!(
        "[source]\n{source}{keys}\n[shingle]\nsize = 3\n[score]\nthreshold = 0.5\n[output]\nurl = {output:?}\n"
    );
    resolve(&text, &[]).unwrap()
}

/// The formats whose files have an encoding, as plain files.
fn text_formats(documents: &[Document]) -> Vec<Format> {
    let compressed = |format: &Format| format.files.iter().any(|(name, _)| name.ends_with(".gz"));
    formats(documents).into_iter().filter(|f| f.name != "parquet" && !compressed(f)).collect()
}

/// The texts are read when the documents are cut, again when pairs are scored, and again for neighbors.
#[test]
fn every_format_gives_the_same_tables_in_every_encoding() {
    let documents = latin_corpus();
    let scratch = tempdir().unwrap();
    let encodings: [(&str, Encode); 3] =
        [("latin-1", latin_1), ("windows-1252", latin_1), ("utf-16le", utf_16)];
    let mut compared = 0;
    for (number, format) in text_formats(&documents).into_iter().enumerate() {
        let folder = scratch.path().join(number.to_string());
        format.write(&folder.join("utf-8"));
        let expected = scratch.path().join(format!("out-{number}"));
        run(&job_of(&format, &folder.join("utf-8"), &expected, "")).unwrap();
        assert!(!pairs(&expected).is_empty());
        for (encoding, encode) in encodings {
            let files = format
                .files
                .iter()
                .map(|(name, bytes)| (name.clone(), encode(std::str::from_utf8(bytes).unwrap())));
            let encoded = Format { name: format.name, keys: format.keys, files: files.collect() };
            encoded.write(&folder.join(encoding));
            let output = scratch.path().join(format!("out-{number}-{encoding}"));
            run(&job_of(&encoded, &folder.join(encoding), &output, &format!("encoding = {encoding:?}")))
                .unwrap();
            let found = tables_of_any_source(&output);
            assert_eq!(found, tables_of_any_source(&expected), "{} in {encoding}", format.name);
            let neighbors = |output: &Path| {
                let id = &pairs(output).into_keys().next().unwrap().0;
                let command = program!["neighbors", output, "--id", id, "--json"].assert();
                command.shown(&[])
            };
            assert!(neighbors(&expected).contains("\"jaccard\":"));
            assert_eq!(neighbors(&output), neighbors(&expected), "{} in {encoding}", format.name);
            compared += 1;
        }
    }
    assert_eq!(compared, 15, "four formats, JSON as lines and as an array, in three encodings");
}

fn rejected(output: &Path) -> Vec<(String, String)> {
    let rejects = table(output, "rejects");
    strings(&rejects, "id").into_iter().zip(strings(&rejects, "reason")).collect()
}

fn folder_of(files: &[(&str, &[u8])]) -> TempDir {
    let folder = tempdir().unwrap();
    files.iter().for_each(|(name, bytes)| std::fs::write(folder.path().join(name), bytes).unwrap());
    folder
}

fn texts_job(folder: &Path, output: &Path, keys: &str) -> Job {
    let format = Format { name: "text", keys: "", files: Vec::new() };
    job_of(&format, folder, output, keys)
}

#[test]
fn text_files_need_an_encoding_unless_they_are_utf_8() {
    let folder = folder_of(&[("a", b"un caf\xE9 noir et un th\xE9"), ("b", b"un caf\xE9 noir et un verre")]);
    let out = tempdir().unwrap();
    for (keys, rejects) in [
        ("", 2),
        ("encoding = 'utf-8'", 2),
        ("encoding = 'utf-8-lossy'", 0),
        ("encoding = 'latin-1'", 0),
        ("encoding = 'windows-1252'", 0),
    ] {
        let output = out.path().join(keys.replace([' ', '\''], ""));
        run(&texts_job(folder.path(), &output, keys)).unwrap();
        let expected = [("a", "invalid_utf8"), ("b", "invalid_utf8")].map(|(a, b)| (a.into(), b.into()));
        assert_eq!(rejected(&output), expected[..rejects], "{keys}");
        assert_eq!(pairs(&output).len(), usize::from(rejects == 0), "{keys}");
    }
}

/// 0x81 starts a character of two bytes in Shift JIS, and `\n` does not end one.
#[test]
fn invalid_bytes_are_rejects_or_errors_with_a_line() {
    let good = b"\x83\x65\x83\x58\x83\x67 one two three";
    let folder = folder_of(&[("a.txt", good), ("b.txt", b"one two \x81\n three")]);
    let out = tempdir().unwrap();
    run(&texts_job(folder.path(), out.path(), "encoding = 'shift_jis'")).unwrap();
    assert_eq!(rejected(out.path()), [("b.txt".to_owned(), "invalid_encoding".to_owned())]);

    let csv = [b"id,text\n1,".as_slice(), good, b"\n2,\x81\"\n3,", good, b"\n"].concat();
    let jsonl = [
        b"{\"id\":\"1\",\"text\":\"".as_slice(),
        good,
        b"\"}\n{\"id\":\"2\",\"text\":\"\x81 \"}\n{\"id\":\"3\",\"text\":\"",
        good,
        b"\"}\n",
    ]
    .concat();
    for (name, bytes) in [("csv", csv), ("jsonl", jsonl)] {
        let file = format!("in.{name}");
        let folder = folder_of(&[(&file, &bytes)]);
        let format = Format { name, keys: "id = \"id\"\ntext = \"text\"\n", files: Vec::new() };
        let keys = "encoding = 'shift_jis'\non_error = 'reject'";
        let out = tempdir().unwrap();
        run(&job_of(&format, &folder.path().join(&file), out.path(), keys)).unwrap();
        let reasons = strings(&table(out.path(), "rejects"), "reason");
        assert_eq!(reasons, ["invalid_encoding"], "{name}");
        assert_eq!(pairs(out.path()).len(), 1, "{name}");

        let out = tempdir().unwrap();
        let strict = job_of(&format, &folder.path().join(&file), out.path(), "encoding = 'shift_jis'");
        let error = run(&strict).unwrap_err();
        assert_eq!(error.kind(), Kind::Input);
        let said = error.to_string();
        let line = if name == "csv" { 3 } else { 2 };
        let expected = format!("{file} line {line} is not shift_jis: correct source.encoding");
        assert!(said.contains(&expected), "{said}");
    }

    let story = |id: &str, body: &[u8]| {
        [format!("<REUTERS OLDID=\"{id}\"><BODY>").as_bytes(), body, b"</BODY></REUTERS>\n"].concat()
    };
    let stories = [story("1", good), story("2", b"one \x81\n two three"), story("3", good)].concat();
    let folder = folder_of(&[("in.sgm", &stories)]);
    let format = Format { name: "reuters", keys: "", files: Vec::new() };
    let out = tempdir().unwrap();
    run(&job_of(&format, folder.path(), out.path(), "encoding = 'shift_jis'")).unwrap();
    assert_eq!(rejected(out.path()), [("2".to_owned(), "invalid_encoding".to_owned())]);
    assert_eq!(pairs(out.path()).len(), 1);
}

/// The bytes 0x93 and 0x94 are quotes in windows-1252 and control characters in ISO 8859-1.
#[test]
fn latin_1_is_not_windows_1252() {
    let folder = folder_of(&[("a", b"one \x93two\x94 three"), ("b", b"one \x93two\x94 three")]);
    let quoted = |encoding: &str| {
        let find = ["--encoding", encoding, "-k", "3", "--show"];
        program!["find", folder.path()].args(find).assert().shown(&[]).contains("“two”")
    };
    assert!(quoted("windows-1252") && quoted("latin1"));
    assert!(!quoted("latin-1"));
    program!["find", folder.path(), "--encoding", "utf-8"].assert().shown(&["2 invalid_utf8"]);
    program!["find", folder.path(), "--encoding", "latin-7x"].assert().refused(2, &["utf-8-lossy"]);
}
