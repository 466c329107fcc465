//! Lines of text as documents: `--lines`, and `source.format = "lines"`.

use crate::support::*;

const LINES: [&str; 6] = [
    "the quick brown fox jumps over the lazy dog while the sun goes down",
    "",
    "nothing of the kind was ever seen in this house before the winter",
    "the quick brown fox jumps over the lazy dog while the sun goes down",
    "   ",
    "the quick brown cat jumps over the lazy dog while the sun goes down",
];

fn write(folder: &TempDir, name: &str, text: impl AsRef<[u8]>) -> String {
    write_file(folder, name, text).display().to_string()
}

fn call(arguments: &[&str]) -> Assert {
    resemblance().args(arguments).assert()
}

/// The pairs of ids that `find --json` prints.
fn pairs_of(arguments: &[&str]) -> BTreeSet<(String, String)> {
    let shown = call(&[&["find", "--json", "-t", "0.3", "--all"], arguments].concat()).shown(&[]);
    let pair = |line: &str| {
        let row: Value = serde_json::from_str(line).unwrap();
        (row["id_a"].as_str().unwrap().to_owned(), row["id_b"].as_str().unwrap().to_owned())
    };
    shown.lines().map(pair).collect()
}

fn set(pairs: &[(&str, &str)]) -> BTreeSet<(String, String)> {
    pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}

#[test]
fn a_single_text_of_several_lines_asks_whether_each_is_a_document() {
    let folder = tempdir().unwrap();
    let text = write(&folder, "lines.txt", LINES.join("\n"));
    for command in [&["find"][..], &["dedup", "--dry-run"], &["init", "-o", "-"]] {
        let said = call(&[command, &[&text]].concat()).refused(2, &["--lines", "name more files"]);
        assert!(said.contains(&format!("`resemblance {} {text} --lines`", command[0])), "{said}");
    }
    let inside = folder.path().display().to_string();
    call(&["find", &inside]).refused(2, &["lines.txt is the only file"]);
    // Two files are documents, and a single line has no other to compare it with.
    let other = write(&folder, "other.txt", LINES.join("\n"));
    call(&["find", &text, &other]).shown(&["1 pair", "among 2 files"]);
    let one = write(&folder, "one/a.txt", format!("{}\n\n", LINES[0]));
    call(&["find", &one]).refused(3, &["is one document"]);
}

#[test]
fn lines_in_several_encodings_are_refused_and_tags_are_named() {
    let folder = tempdir().unwrap();
    let a = write(&folder, "in/a.txt", format!("<p>{}</p>\n", LINES[0]));
    let old: Vec<u8> = "d\u{e9}j\u{e0} vu\n".chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect();
    let b = write(&folder, "in/b.txt", &old);
    let inside = folder.path().join("in").display().to_string();
    call(&["find", &inside, "--lines"]).refused(3, &[&a, &b, "--encoding"]);
    call(&["find", &inside, "--lines", "--encoding", "latin-1"]).warned(&["HTML tags compared as words"]);
    assert!(!call(&["find", &b, "--lines"]).warned(&["windows-1252"]).contains("HTML"));
}

#[test]
fn a_single_text_among_other_files_is_named_with_them() {
    let folder = tempdir().unwrap();
    write(&folder, "in/a.txt", LINES.join("\n"));
    write(&folder, "in/b.pdf", "%PDF-1.7");
    write(&folder, "in/.hidden", "x");
    let inside = folder.path().join("in").display().to_string();
    call(&["find", "-q", &inside]).refused(2, &["is the only file (", "b.pdf (PDF)", ".hidden)"]);
}

#[test]
fn each_line_is_a_document_whose_id_is_its_number() {
    let folder = tempdir().unwrap();
    let text = LINES.join("\n");
    let expected = set(&[("1", "4"), ("1", "6"), ("4", "6")]);
    let windows = LINES.join("\r\n") + "\r\n";
    let wide: Vec<u8> = format!("\u{feff}{text}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    let latin = text.replace("winter", "wint\u{e9}r").chars().map(|c| c as u8).collect::<Vec<u8>>();
    for (name, bytes, encoding) in [
        ("a.txt", text.clone().into_bytes(), "utf-8"),
        ("no-ending", windows.into_bytes(), "utf-8"),
        ("wide.txt", wide, "utf-16le"),
        ("latin.txt", latin, "windows-1252"),
    ] {
        let path = write(&folder, name, bytes);
        assert_eq!(pairs_of(&[&path, "--lines"]), expected, "{name}");
        let found = call(&["find", &path, "--lines"]);
        let said = found.warned(&[]);
        let sentence = format!("as lines of text: {encoding}, text column text, id column line");
        assert!(said.contains(&sentence), "{name}: {said}");
        found.shown(&["| line", "among 4 lines"]);
    }
    let rows = "one,two three four five six seven\n".repeat(6);
    let table = write(&folder, "table.txt", rows);
    call(&["find", &table, "--lines"]).shown(&["15 pairs", "among 6 lines"]);
    let more = write(&folder, "more.txt", format!("\n{}\n", LINES[2]));
    let text = folder.path().join("a.txt").display().to_string();
    let ids =
        [("a.txt:1", "a.txt:4"), ("a.txt:1", "a.txt:6"), ("a.txt:3", "more.txt:2"), ("a.txt:4", "a.txt:6")];
    assert_eq!(pairs_of(&[&text, &more, "--lines"]), set(&ids));
}

#[test]
fn lines_that_are_no_text_are_rejected_or_refused() {
    let folder = tempdir().unwrap();
    let lines =
        [LINES[0].as_bytes(), b"caf\xE9 \xC3\xA9", "é é".as_bytes(), LINES[3].as_bytes()].join(&b'\n');
    let path = write(&folder, "a.txt", lines);
    call(&["find", &path, "--lines", "--encoding", "utf-8"])
        .shown(&["1 pair", "among 3 lines; not compared: 1 invalid_utf8"]);
    let parquet = folder.path().join("in.parquet");
    write_parquet(&parquet, &corpus(3, 5, 20), 10);
    call(&["find", &parquet.display().to_string(), "--lines"]).refused(2, &["is Parquet: leave --lines out"]);
    call(&["find", &path, "--lines", "--text", "body"]).refused(2, &["`body`", "`text`"]);
}

#[test]
fn dedup_removes_lines_and_init_writes_a_job_of_lines() {
    let folder = tempdir().unwrap();
    let path = write(&folder, "in/a.txt", LINES.join("\r\n"));
    let clean = folder.path().join("clean");
    call(&["dedup", &path, "--lines", "-t", "0.9", "--to", clean.to_str().unwrap()]).shown(&["1 removed"]);
    let kept = LINES.iter().enumerate().filter(|(at, _)| *at != 3).map(|(_, line)| *line);
    let kept = kept.collect::<Vec<_>>().join("\r\n");
    assert_eq!(std::fs::read_to_string(clean.join("a.txt")).unwrap(), kept);
    call(&["show", clean.to_str().unwrap()]).shown(&["1", "4", "quick brown fox"]);

    let at = |arguments: &[&str]| resemblance().current_dir(folder.path()).args(arguments).assert();
    at(&["init", "in/a.txt", "--lines", "-o", "my.toml"]).success();
    let job = std::fs::read_to_string(folder.path().join("my.toml")).unwrap();
    assert!(job.contains("format = \"lines\"") && job.contains("id = \"line\""), "{job}");
    at(&["check", "my.toml"]).shown(&["4 rows"]);
    at(&["run", "my.toml", "--set", "score.threshold=0.9"]).success();
    let output = folder.path().join("out/my");
    assert_eq!(pairs(&output).into_keys().collect::<Vec<_>>(), [("1".to_owned(), "4".to_owned())]);
    at(&["apply", "out/my", "--to", "annotated", "--annotate"]).refused(2, &["no columns that --annotate"]);
}

#[test]
fn a_job_of_lines_numbers_them_by_file_and_reads_compressed_files() {
    let folder = tempdir().unwrap();
    write(&folder, "in/a.txt", LINES[..3].join("\n"));
    write(&folder, "in/b.txt.gz", gzipped(LINES[3..].join("\n")));
    let (source, output) = (folder.path().join("in"), folder.path().join("out"));
    let text = format!(
        "source = {{ format = 'lines', url = {source:?} }}\nscore.threshold = 0.9\noutput.url = {output:?}\n"
    );
    run(&resolve(&text, &[]).unwrap()).unwrap();
    let found = pairs(&output).into_keys().collect::<Vec<_>>();
    assert_eq!(found, [("a.txt:1".to_owned(), "b.txt.gz:1".to_owned())]);
    // Two days can have files of the same name, so an id must be chosen.
    fails(resolve(&text, &["against.output=out/before"]), Kind::Job, &["`source.id` is left out"]);
    let other = format!("output.url={}", folder.path().join("other").display());
    let said = run(&resolve(&text, &["source.text=words", &other]).unwrap()).unwrap_err().to_string();
    assert!(said.contains("no column `words`") && said.contains("`line`"), "{said}");
}

#[test]
fn passages_are_cut_out_of_lines() {
    let folder = tempdir().unwrap();
    let shared = "this very sentence of ten words is in both lines";
    write(&folder, "in/a.txt", format!("one {shared} and more\n\ntwo {shared}\n"));
    let job = "source = { format = 'lines', url = 'in' }\ncandidates.method = 'none'\noutput.url = 'out'\n\
               passages = { unit = 'word', length = 10 }\n";
    write(&folder, "job.toml", job);
    let at = |arguments: &[&str]| resemblance().current_dir(folder.path()).args(arguments).assert();
    at(&["run", "job.toml"]).success();
    at(&["apply", "out", "--to", "clean", "--passages", "cut"]).success();
    let left = std::fs::read_to_string(folder.path().join("clean/a.txt")).unwrap();
    let lines: Vec<&str> = left.lines().map(str::trim_end).collect();
    assert_eq!(lines, [&format!("one {shared} and more"), "", "two"]);
    let marked = at(&["apply", "out", "--to", "marked", "--passages", "mark"]);
    marked.refused(2, &["no columns that --passages mark"]);
}
