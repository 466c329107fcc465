//! Files of any kind without a job: texts in old encodings, HTML, compressed texts and JSON arrays are read, and other files are named with a
//! remedy.

use crate::support::*;

const TEXT: &str =
    "The quick brown fox jumps over the lazy dog at the caf\u{e9} while the sun goes down behind the hills.";

pub(super) fn latin_1(text: &str) -> Vec<u8> {
    text.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect()
}

/// The text in UTF-16, with a byte order mark.
pub(super) fn marked_utf_16(text: &str) -> Vec<u8> {
    format!("\u{feff}{text}").encode_utf16().flat_map(u16::to_le_bytes).collect()
}

fn find(path: &Path, options: &[&str]) -> assert_cmd::assert::Assert {
    resemblance().arg("find").arg(path).args(["--csv"]).args(options).assert()
}

fn found(path: &Path, options: &[&str]) -> Vec<[String; 2]> {
    let records = csv_records(&find(path, options).shown(&[]));
    records[1..].iter().map(|record| [record[0].clone(), record[1].clone()]).collect()
}

fn run_job(folder: &TempDir, source: &str, sets: &[&str]) -> assert_cmd::assert::Assert {
    let output = folder.path().join("out");
    let job = write_file(folder, "job.toml", format!("[source]\n{source}\n[output]\nurl = {output:?}\n"));
    let sets = sets.iter().flat_map(|set| ["--set", set]);
    resemblance().args(["run", "--overwrite"]).arg(job).args(sets).assert()
}

fn zip(inside: &str) -> Vec<u8> {
    [b"PK\x03\x04\x14\0\0\0\x08\0".as_slice(), &[0; 20], inside.as_bytes(), &[7; 900]].concat()
}

/// The name, the bytes and the advice of files that are no text.
fn other_files() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let pdf = [b"%PDF-1.7\n".as_slice(), &[b'x'; 100_000]].concat();
    let mut random = Random(7);
    vec![
        ("report.pdf", pdf, "`pdftotext "),
        ("letter.docx", zip("[Content_Types].xml word/document.xml"), "`pandoc -t plain -o "),
        ("table.xlsx", zip("[Content_Types].xml xl/workbook.xml"), "save each sheet as CSV"),
        ("photo.jpg", b"\xFF\xD8\xFF\xE0 and more".to_vec(), "`tesseract "),
        // The bytes decide, not the ending.
        ("scan.txt", b"\x89PNG\r\n\x1A\n and more".to_vec(), "`tesseract "),
        ("data.bin", (0..=255).collect(), "convert it to text"),
        // Bytes without a pattern, under the name of a text.
        (
            "bytes.txt",
            std::iter::repeat_with(|| random.below(256) as u8).take(5_000).collect(),
            "convert it to text",
        ),
    ]
}

fn with_other_files() -> TempDir {
    let folder = tempdir().unwrap();
    write_file(&folder, "in/a.txt", TEXT);
    for (name, bytes, _) in other_files() {
        write_file(&folder, &format!("in/{name}"), bytes);
    }
    folder
}

#[test]
fn files_without_text_are_named_with_their_remedy() {
    let folder = with_other_files();
    write_file(&folder, "in/README.md", TEXT.replace("fox", "cat"));
    let input = folder.path().join("in");
    let said = find(&input, &["-t", "0.3"]).warned(&[]);
    assert_eq!(found(&input, &["-t", "0.3"]), [["README.md", "a.txt"]]);
    find(&input, &["--text", "body"]).refused(2, &["--text names a column"]);
    for (name, bytes, advice) in other_files() {
        let line =
            said.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("{name} in {said}"));
        assert!(line.starts_with("not compared: ") && line.contains(advice), "{line}");
        let alone = write_file(&folder, name, bytes);
        let said = find(&alone, &[]).stdout("").refused(2, &["nothing in", name, advice]);
        assert!(!said.contains("of one format"), "{said}");
    }
    // Paths are absolute wherever the command runs.
    let mut relative = resemblance();
    relative.current_dir(folder.path()).args(["find", "in", "-t", "0.3", "--rejects", "rejects.csv"]);
    relative.assert().shown(&["among 2 files; not compared: 7 not_text"]);
    let records = csv_records(&std::fs::read_to_string(folder.path().join("rejects.csv")).unwrap());
    assert_eq!(records.len(), other_files().len() + 1, "{records:?}");
    for (name, _, advice) in other_files() {
        let path = input.join(name).display().to_string();
        let record = records.iter().find(|record| record[0] == path).unwrap_or_else(|| panic!("{records:?}"));
        assert!(record[3] == "not_text" && record[4].contains(advice), "{record:?}");
    }
    let dedup = program!["dedup", &input, "-t", "0.3", "--to", folder.path().join("clean")].assert();
    dedup.warned(&["report.pdf", "`pdftotext "]);
}

#[test]
fn a_job_rejects_files_without_text() {
    let folder = with_other_files();
    let source = format!("format = 'text'\nurl = {:?}", folder.path().join("in"));
    for encoding in ["utf-8", "detect"] {
        let ran = run_job(&folder, &source, &[&format!("source.encoding={encoding}")]);
        ran.warned(&[
            "report.pdf (PDF)",
            "`pdftotext ",
            "not_text",
            "bytes.txt (not text, and no known format)",
        ]);
        let rejects = table(&folder.path().join("out"), "rejects");
        let rows: Vec<_> = strings(&rejects, "id").into_iter().zip(strings(&rejects, "reason")).collect();
        assert!(rows.iter().all(|(_, reason)| reason == "not_text"), "{encoding}: {rows:?}");
        assert_eq!(rows.len(), other_files().len(), "{encoding}: {rows:?}");
    }
}

#[test]
fn texts_in_old_encodings_are_read_and_named() {
    let folder = tempdir().unwrap();
    write_file(&folder, "in/new.txt", TEXT);
    write_file(&folder, "in/old.txt", latin_1(TEXT));
    write_file(&folder, "in/wide.txt", marked_utf_16(TEXT));
    // A page in KOI8-R says so.
    let page =
        b"<html><meta charset='koi8-r'><p>\xCB\xCF\xD4 \xCE\xC1 \xCB\xCF\xD7\xD2\xC5 \xC9 \xC5\xDD\xC5";
    write_file(&folder, "in/page.html", page);
    write_file(&folder, "in/russian.txt", "кот на ковре и еще");
    let input = folder.path().join("in");
    let pairs = [
        ["new.txt", "old.txt"],
        ["new.txt", "wide.txt"],
        ["old.txt", "wide.txt"],
        ["page.html", "russian.txt"],
    ];
    assert_eq!(found(&input, &["-t", "1"]), pairs);
    let said = find(&input, &[]).warned(&["windows-1252 in ", "utf-16le in ", "koi8-r in "]);
    let line = said.lines().find(|line| line.contains("windows-1252")).unwrap();
    assert!(line.contains("old.txt") && !line.contains("new.txt"), "{line}");
    // The encoding that is given is used for every file.
    assert_eq!(found(&input, &["-t", "1", "--encoding", "utf-8"]), [["new.txt", "wide.txt"]; 0]);
    let job = folder.path().join("job.toml");
    resemblance().arg("init").arg(&input).arg("-o").arg(&job).assert().success();
    let written = std::fs::read_to_string(&job).unwrap();
    assert!(written.contains("encoding = \"detect\""), "{written}");
    resemblance().current_dir(folder.path()).args(["run", "job.toml"]).assert().success();
    let output = folder.path().join("out/job");
    assert_eq!(crate::support::pairs(&output).len(), 4);
    program!["show", &output, "--json"].assert().shown(&["caf\u{e9}"]);
    let csv = "format = 'csv'\nurl = 'a.csv'\ntext = 'text'\nencoding = 'detect'";
    run_job(&folder, csv, &[]).refused(2, &["`source.encoding`", "only works with the format text"]);
}

#[test]
fn a_text_alone_has_no_other_to_compare_with() {
    let folder = tempdir().unwrap();
    let one = write_file(&folder, "in/one.txt", TEXT);
    for path in [one.as_path(), one.parent().unwrap()] {
        let said = ["is one document", "no other to compare it with"];
        find(path, &[]).stdout("").refused(3, &said);
    }
    // The PDF beside it is no other document.
    write_file(&folder, "in/two.pdf", "%PDF-1.7");
    find(one.parent().unwrap(), &[]).stdout("").refused(3, &["is one document", "`pdftotext "]);
    resemblance().args(["init", "-o", "-"]).arg(&one).assert().success();
}

#[test]
fn compressed_texts_are_read_whatever_their_names_are() {
    let folder = tempdir().unwrap();
    let zstd = zstd::encode_all(TEXT.as_bytes(), 1).unwrap();
    let files = [
        ("a.txt", TEXT.as_bytes().to_vec()),
        ("b.txt", gzipped(TEXT)),
        ("c.txt.gz", gzipped(TEXT)),
        ("d.md", zstd),
    ];
    for (name, bytes) in &files {
        write_file(&folder, &format!("in/{name}"), bytes);
    }
    write_file(&folder, "in/empty.txt.gz", "");
    let input = folder.path().join("in");
    assert_eq!(found(&input, &["-t", "1"]).len(), 6);
    let clean = folder.path().join("clean");
    resemblance().arg("dedup").arg(&input).arg("--to").arg(&clean).assert().success();
    let stays = files.iter().filter(|(name, _)| clean.join(name).exists()).collect::<Vec<_>>();
    let [(name, bytes)] = stays.as_slice() else { panic!("one of the copies stays") };
    assert_eq!(&std::fs::read(clean.join(name)).unwrap(), bytes);
    // Data under another name, and a document inside that is no text.
    let rows: String = (0..6).map(|row| format!("{row}\t{TEXT}\n")).collect();
    assert_eq!(found(&write_file(&folder, "rows.dat", gzipped(&rows)), &["-t", "1"]).len(), 15);
    assert_eq!(found(&folder.path().join("rows.dat"), &["--lines", "--all"]).len(), 15);
    let pdf = write_file(&folder, "report.pdf.gz", gzipped("%PDF-1.7 and more"));
    find(&pdf, &[]).refused(2, &["`pdftotext "]);
}

/// A text of 9 MiB is cut into shingles while it is read, also if its stored size does not tell that it is long.
#[test]
fn a_long_compressed_text_is_like_the_plain_one() {
    let folder = tempdir().unwrap();
    let mut random = Random(3);
    let mut long = String::new();
    while long.len() < 9 << 20 {
        long.push_str(&format!("w{} ", random.below(500)));
    }
    write_file(&folder, "in/a.txt", &long);
    write_file(&folder, "in/b.txt.gz", gzipped(&long));
    write_file(&folder, "in/c.txt", gzipped(&long));
    // HTML is read as a whole, up to a limit.
    write_file(&folder, "in/d.html", format!("<p>{long}</p>"));
    let source = format!("format = 'text'\nurl = {:?}", folder.path().join("in"));
    run_job(&folder, &source, &[]).success();
    let output = folder.path().join("out");
    let similarities: BTreeSet<u64> =
        pairs(&output).into_values().map(|value| (value * 1e6) as u64).collect();
    assert_eq!((pairs(&output).len(), similarities), (6, BTreeSet::from([1_000_000])));
    let ran = run_job(&folder, &source, &["source.max_text=8MiB"]);
    ran.warned(&["d.html has ", "more than source.max_text"]);
    assert_eq!(strings(&table(&output, "rejects"), "reason"), ["too_long"]);
    assert_eq!(pairs(&output).len(), 3);
}

const PAGE: &str = "<!DOCTYPE html>\n<html><head><title>Fox</title><style>p { color: red }</style>\n\
    <script>if (a < b) document.write(\"<p>no\")</script></head>\n<body><p>The <b>qu</b>ick brown fox jumps\nover the lazy dog at the \
    caf&eacute; while the sun</p>goes down<br>behind the hills.</body></html>\n";

#[test]
fn pages_are_compared_by_the_text_that_a_browser_shows() {
    let folder = tempdir().unwrap();
    write_file(&folder, "in/a.txt", TEXT);
    write_file(&folder, "in/b.html", PAGE);
    write_file(&folder, "in/c.cache", PAGE);
    write_file(&folder, "in/d.md", TEXT.replace(" fox ", " <b>fox</b> "));
    let input = folder.path().join("in");
    let shown = found(&input, &["-t", "1"]);
    assert_eq!(shown, [["a.txt", "b.html"], ["a.txt", "c.cache"], ["b.html", "c.cache"]]);
    assert_eq!(found(&input, &["-t", "1", "--html-as", "text"]).len(), 3);
    assert_eq!(found(&input, &["-t", "1", "--html-as", "source"]), [["b.html", "c.cache"]]);
    find(&input, &["--html-as", "words"]).refused(2, &["--html-as", "source"]);
    let source = format!("format = 'text'\nurl = {input:?}\n[score]\nthreshold = 1.0");
    for (sets, expected) in [(&[][..], 3), (&["source.html=source"], 1), (&["source.html=text"], 3)] {
        run_job(&folder, &source, sets).success();
        assert_eq!(pairs(&folder.path().join("out")).len(), expected, "{sets:?}");
    }
    run_job(&folder, &source, &[]).success();
    let clean = folder.path().join("clean");
    resemblance().arg("apply").arg(folder.path().join("out")).arg("--to").arg(&clean).assert().success();
    for path in std::fs::read_dir(&clean).unwrap().map(|entry| entry.unwrap().path()).filter(|p| p.is_file())
    {
        let source = input.join(path.file_name().unwrap());
        assert_eq!(std::fs::read(path).unwrap(), std::fs::read(source).unwrap());
    }
    let csv = write_file(&folder, "a.csv", "id,text\n1,a\n");
    find(&csv, &["--html-as", "text"]).refused(2, &["--html-as", "a.csv is data"]);
}

#[test]
fn no_passage_is_cut_out_of_a_page() {
    let folder = tempdir().unwrap();
    let lines = (0..8).map(|line| format!("line {line} has some words of its own\n")).collect::<String>();
    write_file(&folder, "in/a.txt", format!("{lines}{TEXT}"));
    let page = format!("<html><pre>{lines}</pre> and nothing of the other text</html>");
    write_file(&folder, "in/b.html", page);
    let input = folder.path().join("in");
    let source = format!("format = 'text'\nurl = {input:?}\n[passages]\nunit = 'line'\nmin_words = 3");
    run_job(&folder, &source, &[]).success();
    let clean = folder.path().join("clean");
    let cut = program!["apply", folder.path().join("out"), "--passages", "cut", "--to", &clean].assert();
    cut.refused(2, &["b.html", "source.html", "--passages"]);
}

fn array(rows: &[Value]) -> String {
    serde_json::to_string_pretty(rows).unwrap()
}

fn rows() -> Vec<Value> {
    let text = |row: usize| {
        if row.is_multiple_of(2) {
            TEXT.to_owned()
        } else {
            format!("row {row} is \"[{{ no }},\\ other\" {row}")
        }
    };
    (0..6).map(|row| json!({"id": format!("r{row}"), "tags": ["a", {"b": 1}], "text": text(row)})).collect()
}

#[test]
fn the_objects_of_a_json_array_are_documents() {
    let folder = tempdir().unwrap();
    let expected = [["r0", "r2"], ["r0", "r4"], ["r2", "r4"]];
    let compact = serde_json::to_string(&rows()).unwrap();
    for (name, text) in [
        ("a.json", array(&rows())),
        ("b.json", compact.clone()),
        ("c.txt", format!("\u{feff}\n{}", array(&rows()).replace('\n', "\r\n"))),
        ("d", format!("{compact}\n")),
    ] {
        let path = write_file(&folder, name, text);
        assert_eq!(found(&path, &["-t", "1"]), expected, "{name}");
    }
    let zipped = write_file(&folder, "e.json", gzipped(array(&rows())));
    assert_eq!(found(&zipped, &["-t", "1"]), expected);
    let job = resemblance().args(["init", "-o", "-"]).arg(&zipped).assert();
    job.shown(&["format = \"jsonl\"", "#   tags ", "id = \"id\""]);
    write_file(&folder, "in/a.json", array(&rows()[..3]));
    write_file(&folder, "in/b.json", array(&rows()[3..]));
    write_file(&folder, "in/c.json", "[]");
    assert_eq!(found(&folder.path().join("in"), &["-t", "1"]), expected);
    // One document is enough for no pair.
    assert!(found(&write_file(&folder, "f.json", array(&rows()[..1])), &[]).is_empty());
}

#[test]
fn an_array_without_some_elements_is_an_array() {
    let folder = tempdir().unwrap();
    let path = write_file(&folder, "a.json", array(&rows()));
    let clean = folder.path().join("clean");
    resemblance().arg("dedup").arg(&path).args(["-t", "1", "--to"]).arg(&clean).assert().success();
    let text = std::fs::read_to_string(clean.join("a.json")).unwrap();
    let kept: Vec<Value> = serde_json::from_str(&text).unwrap();
    let expected: Vec<Value> = [0, 1, 3, 5].iter().map(|row| rows()[*row].clone()).collect();
    assert_eq!(kept, expected);
    assert_eq!(text, array(&expected));
    let mut mixed = rows();
    mixed.insert(1, json!({"id": "none", "text": ""}));
    mixed.push(json!({"id": "last", "text": ""}));
    write_file(&folder, "a.json", array(&mixed));
    let source =
        format!("format = 'jsonl'\nurl = {path:?}\nid = 'id'\ntext = 'text'\n[score]\nthreshold = 1.0");
    run_job(&folder, &source, &[]).success();
    let output = folder.path().join("out");
    let apply = |to: &str, options: &[&str]| {
        let to = folder.path().join(to);
        resemblance().arg("apply").arg(&output).arg("--to").arg(&to).args(options).assert().success();
        to
    };
    let read = |path: &Path| -> Vec<Value> { serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap() };
    let apart = apply("apart", &["--rejects", "separate"]);
    assert_eq!(read(&apart.join("a.json")), expected);
    let rejected = read(&apart.join("_resemblance/rejected/a.json.rejected"));
    assert_eq!(rejected, [mixed[1].clone(), mixed[7].clone()]);
    let noted = read(&apply("noted", &["--annotate"]).join("a.json"));
    assert_eq!(noted.len(), 8);
    assert!(noted.iter().all(|row| row.as_object().unwrap().len() > 2), "{noted:?}");
}

#[test]
fn damaged_arrays_are_errors_or_rejects_with_the_element() {
    let folder = tempdir().unwrap();
    let [first, second, third] = [0, 2, 4].map(|row: usize| rows()[row].to_string());
    let path = folder.path().join("a.json");
    let source = format!("format = 'jsonl'\nurl = {path:?}\nid = 'id'\ntext = 'text'");
    let open = "ends before the `]`";
    let number = "{\"id\": \"x\", \"text\": 1}";
    for (text, said, reasons) in [
        (format!("[{first},\n7,\n{second}]"), "a.json element 2 is not a JSON object", &["malformed"][..]),
        (format!("[{first},\n{number},\n{second}]"), "element 2 has 1 for `text`", &["malformed"]),
        (format!("[{first},\n{second} {third}]"), "element 2 is not JSON (trailing", &["malformed"]),
        (format!("[{first},\n{second},"), open, &[]),
        (format!("[{first},\n{second}"), open, &[]),
        (format!("[{first},\n{second},{{\"id\": \"y"), "element 3 is not JSON", &["malformed"]),
    ] {
        std::fs::write(&path, &text).unwrap();
        run_job(&folder, &source, &[]).stdout("").refused(3, &[said]);
        run_job(&folder, &source, &["source.on_error=reject"]).warned(&[said]);
        let output = folder.path().join("out");
        assert_eq!(strings(&table(&output, "rejects"), "reason"), reasons, "{text}");
        if text.ends_with(']') {
            let clean = folder.path().join("clean");
            resemblance().arg("apply").arg(&output).arg("--to").arg(&clean).assert().success();
            std::fs::remove_dir_all(clean).unwrap();
        }
    }
    let long = json!({"id": "x", "text": "y".repeat(3_000_000)});
    std::fs::write(&path, format!("[{first},\n{long},\n{second}]")).unwrap();
    run_job(&folder, &source, &["source.max_text=1MiB"]).warned(&["element 2 has 30000", "too_long"]);
    assert_eq!(strings(&table(&folder.path().join("out"), "rejects"), "reason"), ["too_long"]);
    assert_eq!(pairs(&folder.path().join("out")).len(), 1);
}
