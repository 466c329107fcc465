//! From a file to an answer without a job file: `find` and `dedup` on data, `init`, and what `check` says of the data.

use super::kinds_of_files::{latin_1, marked_utf_16};
use crate::support::*;

/// Titles and texts. The first two are similar, and the third is a copy of the first.
const ROWS: [(&str, &str); 4] = [
    ("chairs", "The quick brown fox jumps over the lazy dog while the sun goes down behind the hills."),
    ("tables", "The quick brown cat jumps over the lazy dog while the sun goes down behind the hills."),
    ("chairs again", "The quick brown fox jumps over the lazy dog while the sun goes down behind the hills."),
    ("stools", "Nothing of the kind was ever seen in this house, nor will it be before the end of winter."),
];

/// The rows as records, the ids from 1.
fn csv(delimiter: char, header: bool) -> String {
    let d = delimiter;
    let head = if header { format!("id{d}title{d}body\n") } else { String::new() };
    let row = |(at, (title, body)): (usize, &(&str, &str))| format!("{}{d}{title}{d}\"{body}\"\n", at + 1);
    head + &ROWS.iter().enumerate().map(row).collect::<String>()
}

fn json_lines() -> String {
    let row = |(at, (title, body)): (usize, &(&str, &str))| {
        format!("{}\n", json!({"id": at + 1, "title": title, "body": body}))
    };
    ROWS.iter().enumerate().map(row).collect()
}

fn call(arguments: &[&str], paths: &[&Path]) -> Assert {
    resemblance().args(arguments).args(paths).assert()
}

fn found(assert: &Assert) -> BTreeSet<(String, String)> {
    let pair = |line: &str| {
        let pair: Value = serde_json::from_str(line).unwrap();
        (pair["id_a"].to_string(), pair["id_b"].to_string())
    };
    assert.shown(&[]).lines().map(pair).collect()
}

/// The documents that the folder is without, each with the one that stays.
fn removed(clean: &Path) -> BTreeSet<(String, String)> {
    let rows = parquet(&clean.join("_resemblance/removed"));
    strings(&rows, "id").into_iter().zip(strings(&rows, "kept_id")).collect()
}

/// The texts of the rows, with ids from `first` on.
fn documents(first: usize) -> Vec<Document> {
    ROWS.iter().zip(first..).map(|((_, body), id)| (id.to_string(), (*body).to_owned())).collect()
}

/// The rows in windows-1252, with a letter that UTF-8 encodes otherwise.
fn latin_csv() -> Vec<u8> {
    latin_1(&csv(';', true).replace("chairs", "cha\u{ee}rs"))
}

const FIND: [&str; 5] = ["find", "-t", "0.5", "--all", "--json"];

#[test]
fn data_are_compared_by_rows_and_the_format_is_found_out() {
    let folder = tempdir().unwrap();
    let texts = |delimiter, header| csv(delimiter, header).into_bytes();
    write_parquet(&folder.path().join("a.parquet"), &documents(1), 2);
    let parquet = std::fs::read(folder.path().join("a.parquet")).unwrap();
    let commas = "as CSV: delimiter \",\", header, utf-8, text column body, id column id";
    for (name, bytes, sentence) in [
        ("comma.csv", texts(',', true), commas),
        ("semicolon.csv", latin_csv(), "delimiter \";\", header, windows-1252, text column body"),
        ("tab.tsv", texts('\t', true), "delimiter \"\\t\", header, utf-8"),
        ("bar.csv", texts('|', true), "delimiter \"|\", header, utf-8"),
        ("wide.csv", marked_utf_16(&csv('\t', true)), "delimiter \"\\t\", header, utf-16le"),
        ("lines.jsonl", json_lines().into(), "as JSON lines: utf-8, text column body, id column id"),
        ("one.json", json_lines().into(), "as JSON lines"),
        ("no-ending", json_lines().into(), "as JSON lines"),
        ("part-0", parquet.clone(), "as Parquet: text column text, id column id"),
        ("table.txt", [texts('\t', true), texts('\t', false)].concat(), "as CSV: delimiter \"\\t\", header"),
        ("b.parquet", parquet, "as Parquet: text column text, id column id"),
    ] {
        let path = write_file(&folder, name, bytes);
        let assert = call(&FIND, &[&path]);
        if name == "table.txt" {
            // Ids come twice there, so rows are numbered.
            assert.warned(&[sentence, "ids are row numbers"]);
            continue;
        }
        assert.warned(&[sentence, &format!("reading {}", path.display())]);
        let expected =
            [("1", "2"), ("1", "3"), ("2", "3")].map(|(a, b)| (json!(a).to_string(), json!(b).to_string()));
        assert_eq!(found(&assert), expected.into(), "{name}");
    }
}

#[test]
fn rows_without_a_header_and_ids_are_numbered() {
    let folder = tempdir().unwrap();
    let path = write_file(&folder, "a.csv", csv(',', false));
    let assert = call(&[&FIND[..], &["--text", "column_3"]].concat(), &[&path]);
    assert.warned(&["no header, utf-8, text column column_3, ids are row numbers"]);
    let pair = |a: u32, b: u32| (format!("\"a.csv:{a}\""), format!("\"a.csv:{b}\""));
    assert_eq!(found(&assert), [pair(0, 1), pair(0, 2), pair(1, 2)].into());
}

#[test]
fn rows_are_numbered_if_files_have_the_same_ids() {
    let folder = tempdir().unwrap();
    std::fs::create_dir(folder.path().join("parquet")).unwrap();
    for name in ["a", "b"] {
        write_file(&folder, &format!("csv/{name}.csv"), csv(',', true));
        write_file(&folder, &format!("lines/{name}.jsonl"), json_lines());
        write_parquet(&folder.path().join(format!("parquet/{name}.parquet")), &documents(0), 9);
    }
    let repeated = "--id row_number in find and dedup";
    for (format, text) in [("csv", "body"), ("lines", "body"), ("parquet", "text")] {
        let data = folder.path().join(format);
        let found = call(&["find", "--text", text], &[&data]);
        found.warned(&["ids are row numbers"]);
        found.shown(&["among 8 documents\n"]);
        let job = call(&["init", "--text", text, "-o", "-"], &[&data]).shown(&[]);
        assert!(!job.contains("\nid = "), "{job}");
        call(&["find", "--text", text, "--id", "id"], &[&data]).refused(3, &[repeated]);
    }
    // The first rows do not show that an id occurs twice.
    let rows: String = (0..2_000).map(|n| format!("{n},row {n} has words of its own: {n}a {n}b\n")).collect();
    let late = write_file(&folder, "late.csv", format!("id,body\n{rows}7,the last row\n"));
    call(&["find"], &[&late]).refused(3, &[repeated]);
    call(&["find", "--id", "row_number"], &[&late]).success();
    call(&["init", "--id", "id, body", "-o", "-"], &[&late]).shown(&["\nid = [\"id\", \"body\"]"]);
}

#[test]
fn several_columns_of_strings_are_listed_with_a_value_of_each() {
    let folder = tempdir().unwrap();
    let head = format!("name;notes;stars\n\"A\u{7} \"\"C\"\"\";{};5\nB;short;4\n", "long ".repeat(20).trim());
    let path = write_file(&folder, "a.csv", head);
    let (name, notes) =
        (r#"`name` ("A\u{7} \"C\"")"#, "`notes` (\"long long long long long long long long …\")");
    let parts = ["--text COL", name, notes, &path.display().to_string()];
    let said = call(&["find"], &[&path]).stdout("").refused(2, &parts);
    assert!(!said.contains("`stars`"), "{said}");
    call(&["find", "--text", "notes"], &[&path]).success();
    call(&["find", "--text", "nots"], &[&path]).refused(2, &["nots", "`notes`"]);
    let numbers = write_file(&folder, "n.csv", "a,b\n1,2\n");
    call(&["find"], &[&numbers]).refused(2, &["no column", "`a` (number)"]);
}

/// Rows of CSV that are not similar, with ids from `first` on.
fn many(first: usize) -> String {
    let row = |(at, (_, text)): (usize, Document)| format!("{},{text}\n", first + at);
    "id,body\n".to_owned() + &corpus(7, 60, 30).into_iter().enumerate().map(row).collect::<String>()
}

#[test]
fn other_files_in_a_folder_of_one_format_are_skipped() {
    let folder = tempdir().unwrap();
    let data = folder.path().join("data");
    write_file(&folder, "data/a.csv", many(0));
    write_file(&folder, "data/sub/b.csv", many(100));
    call(&["find"], &[&data]).shown(&["among 120 documents\n"]);
    call(&["find"], &[&data.join("*.csv")]).shown(&["among 60 documents\n"]);
    let pattern = data.join("*.csv").display().to_string();
    program!["init", "-o", "-", &pattern].assert().shown(&[&format!("{pattern:?}"), "text = \"body\""]);
    let companions =
        ["README.md", "LICENSE", ".gitattributes", "dataset_info.json", "Thumbs.db", "notes.txt"];
    for name in companions {
        write_file(&folder, &format!("data/{name}"), "[{\"a\": 1}]\n");
    }
    let pattern = data.join("*");
    let all: Vec<PathBuf> = companions[..2].iter().chain(&["a.csv"]).map(|name| data.join(name)).collect();
    let all: Vec<&Path> = all.iter().map(PathBuf::as_path).collect();
    for (paths, documents, named) in [
        (vec![data.as_path()], 120, &companions[..]),
        (vec![pattern.as_path()], 120, &companions[..0]),
        (all, 60, &companions[..2]),
    ] {
        let found = call(&["find"], &paths);
        found.shown(&[&format!("among {documents} documents\n")]);
        found.warned(named);
        assert!(!call(&["find", "-q"], &paths).warned(&[]).contains("README"));
    }
    let clean = folder.path().join("clean");
    program!["dedup", "-t", "1", "--to", &clean, &data].assert().success();
    let written: Vec<PathBuf> =
        files(&clean).into_keys().filter(|path| !path.to_string_lossy().contains("_resemblance")).collect();
    assert_eq!(written, [clean.join("a.csv"), clean.join("sub/b.csv")]);
    program!["init", "-o", "-", &data].assert().shown(&["/**/*.csv"]);
}

#[test]
fn a_description_next_to_lines_of_json_is_left_out() {
    let folder = tempdir().unwrap();
    let row = |(id, body): Document| format!("{}\n", json!({"id": id, "body": body}));
    let rows: String = corpus(3, 50, 30).into_iter().map(row).collect();
    // Without endings, and with the ending of documents.
    for name in ["data/part-0", "data/part-1.json"] {
        write_file(&folder, name, &rows);
        write_file(&folder, "data/stats.json", "{\n  \"rows\": 50\n}\n");
        let found = call(&["find"], &[&folder.path().join("data")]);
        found.shown(&["among 50 documents\n"]);
        found.warned(&["stats.json"]);
        std::fs::remove_dir_all(folder.path().join("data")).unwrap();
    }
}

#[test]
fn mixed_or_unknown_formats_are_an_error_with_advice() {
    let folder = tempdir().unwrap();
    let csv = write_file(&folder, "in/a.csv", many(0));
    let lines = write_file(&folder, "in/b.jsonl", json_lines().repeat(9));
    let folder_of_both = folder.path().join("in");
    let commands = |path: &str| format!("`resemblance find {}/{path}`", folder_of_both.display());
    for (paths, names) in [
        (vec![folder_of_both.as_path()], ["**/*.csv", "**/*.jsonl"]),
        (vec![csv.as_path(), lines.as_path()], ["a.csv", "b.jsonl"]),
    ] {
        let counts = ["1 CSV (", "1 JSON lines ("];
        let said = call(&["find"], &paths).stdout("").refused(2, &counts).replace('\'', "");
        for command in names.map(commands) {
            assert!(said.contains(&command), "{command} is not in: {said}");
        }
    }
    let path = write_file(&folder, "c.json", "{\n\"a\": 1\n}");
    for command in ["find", "dedup", "init"] {
        let options = if command == "dedup" { &[command, "--dry-run"][..] } else { &[command][..] };
        let convert = format!("`jq -c '.KEY[]' {0} > {0}.jsonl`", path.display());
        call(options, &[&path]).stdout("").refused(2, &[&convert]);
    }
    let documents = ["1.json", "2.json"].map(|name| write_file(&folder, name, "{\n\"a\": 1\n}"));
    call(&["find"], &[&documents[0], &documents[1]]).shown(&["\n1 pair"]);
    let picture = write_file(&folder, "pictures/a.png", (0..=255).collect::<Vec<u8>>());
    call(&["find"], &[picture.parent().unwrap()])
        .refused(2, &["a.png (not text, and no known format)", "convert it"]);
}

#[test]
fn dedup_fails_where_it_compared_nothing_or_less_than_half() {
    let folder = tempdir().unwrap();
    let one = write_file(&folder, "one.txt", ROWS[0].1);
    let rows = json_lines();
    let half = write_file(&folder, "half.jsonl", format!("{rows}{}", "{\"id\": 5}\n".repeat(4)));
    let less = write_file(&folder, "less.jsonl", format!("{rows}{}", "{\"id\": 5}\n".repeat(5)));
    let clean = folder.path().join("clean");
    for (path, said) in [
        (one, &["one.txt is one document", "no other to compare it with"]),
        (less, &["4 of 9 documents", "nothing was written"]),
    ] {
        for target in [&["--to", clean.to_str().unwrap()][..], &["--dry-run"][..]] {
            call(&[&["dedup"][..], target].concat(), &[&path]).stdout("").refused(3, said);
            assert!(!clean.exists());
        }
    }
    call(&["dedup", "--to", clean.to_str().unwrap()], &[&half]).success();
}

/// A Delta table of two files. The second is removed.
fn delta_table(folder: &TempDir) -> PathBuf {
    let table = folder.path().join("table");
    std::fs::create_dir_all(table.join("_delta_log")).unwrap();
    write_parquet(&table.join("a.parquet"), &documents(0)[..2], 10);
    write_parquet(&table.join("b.parquet"), &documents(0)[2..], 10);
    let size = std::fs::metadata(table.join("a.parquet")).unwrap().len();
    let schema = json!({"type": "struct", "fields": []}).to_string();
    let log = [
        json!({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}),
        json!({"metaData": {"id": "x", "format": {"provider": "parquet", "options": {}}, "schemaString": schema, "partitionColumns": [], "configuration": {}}}),
        json!({"add": {"path": "a.parquet", "partitionValues": {}, "size": size, "modificationTime": 0, "dataChange": true}}),
    ];
    let log: String = log.iter().map(|action| format!("{action}\n")).collect();
    std::fs::write(table.join("_delta_log/00000000000000000000.json"), log).unwrap();
    table
}

#[test]
fn a_delta_table_is_known_by_its_log() {
    let folder = tempdir().unwrap();
    let table = delta_table(&folder);
    let assert = call(&FIND, &[&table]);
    assert.warned(&["as Delta: text column text, id column id"]);
    assert_eq!(found(&assert), [(json!("0").to_string(), json!("1").to_string())].into());
    // Its files alone may have been removed from it.
    let job = folder.path().join("job.toml");
    for url in [table.clone(), folder.path().join("tab*"), table.join("*.parquet")] {
        std::fs::write(&job, job_text_of("parquet", &url, folder.path().join("out"))).unwrap();
        let named = format!("`{}` is the folder of a Delta table", table.display());
        call(&["run"], &[&job]).refused(2, &[&named, "format to \"delta\""]);
        assert!(!folder.path().join("out").exists());
    }
    std::fs::write(&job, job_text_of("parquet", table.join("a.parquet"), folder.path().join("out"))).unwrap();
    call(&["run"], &[&job]).success();
    let other = write_file(&folder, "x.csv", csv(',', true));
    call(&["find"], &[&table, &other]).refused(2, &["is a Delta table"]);
}

#[test]
fn dedup_writes_kept_documents() {
    let folder = tempdir().unwrap();
    let data = write_file(&folder, "in.csv", csv(';', true));
    let (clean, tables) = (folder.path().join("clean"), folder.path().join("out"));
    let dedup = |more: &[&str]| program!["dedup", &data, "-t", "0.9", "--all"].args(more).assert();
    let ran = dedup(&["--to", clean.to_str().unwrap(), "--output", tables.to_str().unwrap()]);
    ran.shown(&["4 documents read", "3 kept", "1 removed", "1 file in"]);
    let kept = std::fs::read_to_string(clean.join("in.csv")).unwrap();
    let all = csv(';', true);
    assert_eq!(kept, all.split_inclusive('\n').filter(|line| !line.starts_with('3')).collect::<String>());
    assert_eq!(removed(&clean), [("3".to_owned(), "1".to_owned())].into());
    assert_eq!(manifest(&tables).counts.documents, 4);
    // A second run does nothing, and other files are never overwritten.
    dedup(&["--to", clean.to_str().unwrap()]).shown(&["is finished already"]);
    let mine = write_file(&folder, "mine/notes.txt", "mine");
    let before = files(folder.path());
    let taken = dedup(&["-v", "--to", mine.parent().unwrap().to_str().unwrap()]);
    let said = taken.refused(2, &["is not empty", "notes.txt"]);
    assert!(!said.contains("stage="), "it was refused too late: {said}");
    assert_eq!(files(folder.path()), before);
    dedup(&[]).refused(2, &["--to"]);
}

#[test]
fn in_a_pipe_one_line_says_how_the_data_are_read() {
    let folder = tempdir().unwrap();
    let data = write_file(&folder, "in.csv", csv(';', true));
    let to = folder.path().join("clean").display().to_string();
    for arguments in [&["find"][..], &["dedup", "--to", &to, "--text", "body"]] {
        let said = call(arguments, &[&data]).warned(&["/in.csv as CSV"]);
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    call(&["find", "-v"], &[&data]).warned(&["stage=\"pairs\""]);
}

#[test]
fn a_dry_run_lists_removals_and_writes_nothing() {
    let folder = tempdir().unwrap();
    let (_, text) = ROWS[0];
    let rows: String =
        (0..30).map(|at| format!("{}\n", json!({"id": format!("d{at:02}"), "text": text}))).collect();
    let data = write_file(&folder, "in.jsonl", rows);
    let before = files(folder.path());
    let dry =
        |more: &[&str]| program!["dedup", &data, "--dry-run"].current_dir(folder.path()).args(more).assert();
    let text = dry(&[]).shown(&["29 removed", "and 9 more\n"]);
    assert!(text.ends_with("nothing was written\n"), "{text}");
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| d")).collect();
    assert_eq!(rows.len(), 20, "{text}");
    assert!(rows[0].contains("d01") && rows[0].contains("d00") && rows[0].contains("1.000000"), "{text}");
    let json = dry(&["--json"]).json();
    assert_eq!((&json["removed"], &json["dry_run"]), (&json!(29), &json!(true)));
    assert_eq!(json["first_removed"][0], json!({"id": "d01", "kept_id": "d00", "jaccard": 1.0}));
    assert_eq!(files(folder.path()), before);
}

#[test]
fn data_as_other_programs_write_them_are_found_out() {
    let folder = tempdir().unwrap();
    let [a, b, c, d] = ROWS.map(|(_, body)| body);
    let score = |body: &str| format!("{{\"body\":\"{body}\",\"score\":NaN}}\n");
    let mut lines: String = [a, b, c, d].map(score).concat();
    lines.push_str("{\"body\":5}\n");
    let escaped = |body: &str| format!("x,\"he said \\\"so, then\\\". {body}\"\n");
    for (name, data, documents, rejected) in [
        ("nan.jsonl", lines, 4, "; not compared: 1 malformed"),
        ("escaped.csv", format!("name,body\n{}", [a, b, c, d].map(escaped).concat()), 4, "\n"),
        ("quotes.tsv", format!("body\tname\n\"{a}\tx\n{b}\tx\n\"{c}\tx\n{d}\tx\n"), 4, "\n"),
    ] {
        let data = write_file(&folder, name, data);
        let found = call(&["find", "-t", "0.5", "--all", "--text", "body"], &[&data]);
        let shown = found.shown(&[&format!("among {documents} documents{rejected}")]);
        assert!(!shown.starts_with("0 pairs"), "{name}: {shown}");
    }
}

#[test]
fn an_encoding_that_was_found_is_checked_in_every_row_and_file() {
    let folder = tempdir().unwrap();
    let row = |body: &str| format!("{{\"body\":\"é {body}\"}}\n");
    let rows: String = ROWS.iter().map(|(_, body)| row(body)).collect();
    let bad = [b"{\"body\":\"caf\xE9\"}\n".as_slice(), rows.as_bytes()].concat();
    let data = write_file(&folder, "bad.jsonl", bad);
    let shown = ["among 4 documents; not compared: 1 invalid_utf8"];
    call(&["find", "-t", "0.5", "--all"], &[&data]).shown(&shown);
    for (encoding, first) in [("utf-16le", marked_utf_16(&rows)), ("windows-1252", latin_1(&rows))] {
        write_file(&folder, &format!("{encoding}/a.jsonl"), first);
        write_file(&folder, &format!("{encoding}/b.jsonl"), &rows);
        let found = call(&["find", "--all"], &[&folder.path().join(encoding)]);
        found.refused(3, &[&format!("a.jsonl is {encoding}"), "b.jsonl is utf-8"]);
    }
}

#[test]
fn init_writes_a_job_that_check_takes() {
    let folder = tempdir().unwrap();
    write_file(&folder, "reviews.csv", latin_csv());
    let at = |arguments: &[&str]| resemblance().current_dir(folder.path()).args(arguments).assert();
    at(&["init", "reviews.csv"]).shown(&["resemblance check reviews.toml"]);
    let text = std::fs::read_to_string(folder.path().join("reviews.toml")).unwrap();
    let lines = "url = \"reviews.csv\"|delimiter = \";\"|encoding = \"windows-1252\"|id = \"id\"|text = \"body\"|\
                 #   title  text  cha\u{ee}rs";
    for line in lines.split('|') {
        assert!(text.contains(line), "{line} is not in: {text}");
    }
    at(&["check", "reviews.toml"]).shown(&["4 rows"]);
    at(&["run", "reviews.toml", "--set", "score.threshold=0.5", "--set", "candidates.method=all"]).success();
    let shown = found(&at(&[&FIND[..], &["reviews.csv"]].concat()).success());
    let written = pairs(&folder.path().join("out/reviews"));
    assert_eq!((written.len(), shown.len()), (3, 3), "{written:?}");
    at(&["init", "reviews.csv"]).refused(2, &["reviews.toml exists"]);
    at(&["init", "reviews.csv", "-o", "reviews.csv"]).code(2);
    assert_eq!(std::fs::read_to_string(folder.path().join("reviews.toml")).unwrap(), text);
    assert_eq!(at(&["init", "reviews.csv", "-o", "-"]).shown(&[]), text);
    // Where no column is named as texts are, the longest is proposed.
    write_file(&folder, "open.csv", "name,notes\nA,quite a long text\nB,another long text\n");
    at(&["init", "open.csv", "-o", "my.toml"]).success();
    let text = std::fs::read_to_string(folder.path().join("my.toml")).unwrap();
    assert!(text.contains("text = \"notes\"") && text.contains("the longest"), "{text}");
    write_file(&folder, "essays/a.txt", ROWS[0].1);
    at(&["init", "essays/"]).success();
    at(&["check", "essays.toml"]).success();
}

/// The first block of this language in a page, without its first and last line.
fn first_block(page: &str, language: &str) -> String {
    let (_, rest) = page.split_once(&format!("\n```{language}\n")).unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

#[test]
fn the_first_example_of_the_readme_prints_its_table_and_a_job_finds_the_same() {
    let readme = std::fs::read_to_string(repository("README.md")).unwrap();
    let rows = readme.lines().filter_map(|line| {
        let (id, text) = line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | ")?;
        (id.len() == 1).then(|| (id.to_owned(), text.to_owned()))
    });
    let documents: Vec<Document> = rows.take(4).collect();
    let csv = std::fs::read_to_string(repository("jobs/cats.csv")).unwrap();
    let row = |(id, text): &Document| format!("{id},{text}\n");
    assert_eq!(csv.replace('"', ""), "id,text\n".to_owned() + &documents.iter().map(row).collect::<String>());

    let at =
        |arguments: &[&str]| resemblance().current_dir(repository(".")).args(arguments).assert().success();
    let command = first_block(&readme, "sh");
    let arguments: Vec<&str> = command.split_whitespace().skip(1).collect();
    let printed = at(&arguments).shown(&[]);
    assert_eq!(printed, first_block(&readme, "text"));
    // The texts have no punctuation that plain words do not lose.
    let plain: Vec<Document> =
        documents.into_iter().map(|(id, text)| (id, text.replace([',', '.'], ""))).collect();
    let expected = exact_pairs(&plain, 5, 0.8);
    for ((a, b), jaccard) in &expected {
        assert!(printed.contains(&format!("| {a}        | {b}          | {jaccard:.6} |")), "{printed}");
    }
    let path = paths();
    let (job, output) = (path("cats.toml"), path("out"));
    let set = format!("output.url={}", output.display());
    at(&["init", "jobs/cats.csv", "-o", job.to_str().unwrap()]);
    at(&["run", job.to_str().unwrap(), "--set", &set]);
    assert_eq!(pairs(&output), expected);
}

/// Texts of a hundred words, each with one word changed of the one before: a chain of pairs whose ends are not similar.
fn chain() -> Vec<Document> {
    let mut words: Vec<String> = (0..100).map(|at| format!("w{at}")).collect();
    let link = |at: usize| {
        words[10 * at + 5] = format!("changed{at}");
        (format!("c{at}"), words.join(" "))
    };
    (0..9).map(link).collect()
}

/// Texts of many scripts, some of them with one word more, decomposed, or with another emoji.
fn mixed_scripts() -> Vec<Document> {
    let texts = [
        "人人生而自由,在尊严和权利上一律平等。他们赋有理性和良心,并应以兄弟关系的精神相对待。",
        "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。",
        "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ ต่างมีเหตุผลและมโนธรรม",
        "Все люди рождаются свободными и равными в своем достоинстве и правах и наделены разумом",
        "Tous les êtres humains naissent libres et égaux en dignité et en droits, doués de raison 😍",
    ];
    let variants = |text: &str| {
        let [decomposed, angry] = [("ê", "e\u{302}"), ("😍", "😡")].map(|(from, to)| text.replace(from, to));
        [text.to_owned(), format!("{text} et 自由"), decomposed, angry]
    };
    let all = texts.iter().flat_map(|text| variants(text)).enumerate();
    all.map(|(at, text)| (format!("m{at:02}"), text)).collect()
}

fn short_texts() -> Vec<Document> {
    let texts = "Yes|yes!|No|?!|?!|...|😍|😡|😍||good book|Good Book|a good book";
    texts.split('|').enumerate().map(|(at, text)| (format!("s{at:02}"), text.to_owned())).collect()
}

#[test]
fn a_job_of_init_removes_the_rows_that_dedup_removes() {
    let folder = tempdir().unwrap();
    let short = folder.path().join("short.parquet");
    write_parquet(&short, &short_texts(), 1_000);
    for (id, text) in chain() {
        write_file(&folder, &format!("chain/{id}.txt"), text);
    }
    let line = |(id, text): Document| format!("{}\n", json!({"id": id, "body": text}));
    let mixed = write_file(&folder, "mixed.jsonl", mixed_scripts().into_iter().map(line).collect::<String>());
    let mut corpora = vec![(folder.path().join("chain"), None), (mixed, Some("body")), (short, Some("text"))];
    corpora.extend(real_data("amazon-books/Books_rating.sample.csv").map(|csv| (csv, Some("review/text"))));
    corpora.extend(real_data("reuters21578").map(|sgml| {
        let stories = |(_, bytes): (PathBuf, Vec<u8>)| {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let bodies = text.split("<BODY>").skip(1).map(|rest| rest.split("</BODY>").next().unwrap());
            bodies.map(|body| format!("{}\n", json!({"body": body}))).collect::<String>()
        };
        let lines: String = files(&sgml).into_iter().map(stories).collect();
        (write_file(&folder, "reuters.jsonl", lines), Some("body"))
    }));
    for (at, (data, text)) in corpora.iter().enumerate() {
        let own = |name: &str| folder.path().join(format!("{at}-{name}"));
        let [by_dedup, by_apply, job, output] = ["dedup", "apply", "job.toml", "out"].map(own);
        let text: Vec<&str> = text.iter().flat_map(|text| ["--text", text]).collect();
        call(&[&["dedup", "--to", by_dedup.to_str().unwrap()][..], &text].concat(), &[data]).success();
        call(&[&["init", "-o", job.to_str().unwrap()][..], &text].concat(), &[data]).success();
        let set = format!("output.url={}", output.display());
        call(&["run", "--set", &set], &[&job]).success();
        call(&["apply", "--to", by_apply.to_str().unwrap()], &[&output]).success();
        assert_eq!(removed(&by_dedup), removed(&by_apply), "{}", data.display());
        assert!(!removed(&by_dedup).is_empty(), "{}", data.display());
    }
    // A document goes only if it is similar to the one that stays: of a chain of pairs, several stay.
    assert_eq!(removed(&folder.path().join("0-dedup")).len(), 6);
}

#[test]
fn texts_of_the_same_meaning_are_equal_and_emoji_tell_texts_apart() {
    let folder = tempdir().unwrap();
    let texts = [
        ("loved", "Love it 😍"),
        ("hated", "Love it 😡"),
        ("loved too", "love it... 😍"),
        ("composed", "Un caf\u{e9} cr\u{e8}me, s'il vous pla\u{ee}t, et un th\u{e9}"),
        ("decomposed", "Un cafe\u{301} cre\u{300}me, s'il vous plai\u{302}t, et un the\u{301}"),
        ("dots", "..."),
        ("asked", "?!"),
        ("asked again", " ?!\n"),
        ("faces", "😍😍"),
    ];
    let rows = texts.map(|(id, text)| format!("{}\n", json!({"id": id, "text": text})));
    let data = write_file(&folder, "in.jsonl", rows.concat());
    call(&["find"], &[&data]).shown(&[
        "3 pairs of similarity 0.8 or more among 9 documents;",
        "; 7 texts have 5 words or fewer: texts of fewer match only equal ones",
    ]);
    let expected = [("asked", "asked again"), ("composed", "decomposed"), ("loved", "loved too")];
    let expected = expected.map(|(a, b)| (json!(a).to_string(), json!(b).to_string()));
    assert_eq!(found(&call(&["find", "--json"], &[&data]).success()), expected.into());
}

#[test]
fn every_one_of_many_columns_is_looked_at() {
    let folder = tempdir().unwrap();
    let column = |at: usize| -> (String, ArrayRef) {
        let (name, values) = match at {
            790 => ("key".to_owned(), ["k1", "k2"]),
            795 => ("story".to_owned(), ["a text of several words", "another text of several words"]),
            _ => (format!("c{at}"), ["x", "x"]),
        };
        (name, Arc::new(StringArray::from(values.to_vec())))
    };
    let batch = RecordBatch::try_from_iter((0..800).map(column)).unwrap();
    write_batch(&folder.path().join("wide.parquet"), &batch, 9);
    resemblance().current_dir(folder.path()).args(["init", "wide.parquet"]).assert().success();
    let text = std::fs::read_to_string(folder.path().join("wide.toml")).unwrap();
    assert!(text.contains("id = \"key\"") && text.contains("text = \"story\""), "{text}");
}

#[test]
fn check_describes_the_data() {
    let folder = tempdir().unwrap();
    let data = write_file(&folder, "in.jsonl", json_lines());
    let text = format!(
        "[source]\nurl = {data:?}\nid = \"id\"\ntext = \"body\"\n[output]\nurl = {:?}\n",
        folder.path().join("out")
    );
    let job = write_file(&folder, "job.toml", text);
    let check = |more: &[&str]| program!["check", &job].args(more).assert();
    check(&[]).shown(&[
        "data: 1 file, ",
        ", 4 rows\n",
        "| title",
        "  Nothing of the kind was ever seen in thi…\n",
        "words of a document: 17.5 on average in the first 4 documents",
        "expected disk: 356 bytes of a document",
        "expected recall of pairs",
        "  score.threshold = 0.8\n",
        "  shingle.size = 5\n",
    ]);
    let json = check(&["--json"]).json();
    let data_of = &json["data"];
    let title = json!({"name": "title", "values": "text", "example": "chairs"});
    let found = ["files", "rows", "rows_are_exact", "expected_bytes_of_result"].map(|key| &data_of[key]);
    assert_eq!(json!([found, data_of["columns"][2]]), json!([[1, 4, true, 4 * 356], title]));
    assert!(!folder.path().join("out").exists());
    let above = "warning: the memory budget is 1048576000 MiB, and this machine";
    check(&["--set", "engine.memory=1000TiB"]).shown(&[above, "  engine.memory = \"1000TiB\"\n"]);
    // A column that is not there, and then data that are not there.
    check(&["--set", "source.text=bdy"]).stdout("").refused(2, &["`body`"]);
    std::fs::remove_file(&data).unwrap();
    check(&[]).stdout("").refused(3, &["in.jsonl", "--no-data"]);
    let alone = check(&["--no-data"]).shown(&["expected recall"]);
    assert!(!alone.contains("expected disk"), "{alone}");
    assert_eq!(check(&["--no-data", "--json"]).json()["data"], Value::Null);
}

#[test]
fn check_knows_the_rows_of_every_format() {
    let documents = corpus(3, 60, 30);
    for format in formats::formats(&documents) {
        let folder = tempdir().unwrap();
        let data = folder.path().join("in");
        format.write(&data);
        let source = format.source(data.to_str().unwrap());
        let job = write_file(&folder, "job.toml", format!("[source]\n{source}\n[output]\nurl = \"out\"\n"));
        let json = program!["check", &job, "--json"].assert().json();
        let data = &json["data"];
        assert_eq!(data["sampled_documents"], 60, "{}", format.name);
        assert_eq!(data["words_of_a_document"], 30.0, "{}", format.name);
        match (format.name, data["rows"].as_u64()) {
            ("reuters", rows) => assert_eq!(rows, None),
            // An estimate from the beginning of the first file, where all rows would have to be read.
            (name, rows) => assert!(rows.is_some_and(|rows| rows.abs_diff(60) <= 20), "{name}: {rows:?}"),
        }
    }
}

#[test]
fn a_job_may_leave_its_format_to_the_ending() {
    let folder = tempdir().unwrap();
    let job = |url: &str| {
        format!("[source]\nurl = {url}\ntext = \"text\"\n[output]\nurl = {:?}\n", folder.path().join("out"))
    };
    let documents = corpus(5, 20, 20);
    write_parquet(&folder.path().join("a.parquet"), &documents, 10);
    let path = write_file(&folder, "job.toml", job(&format!("{:?}", folder.path().join("a.parquet"))));
    call(&["run"], &[&path]).success();
    assert_eq!(manifest(&folder.path().join("out")).counts.documents, 20);
    for (url, said) in [
        ("'data/'", "`data/` has no ending"),
        ("['a.csv', 'b.parquet']", "`a.csv` and `b.parquet` have the endings of different formats"),
    ] {
        write_file(&folder, "job.toml", job(url));
        call(&["check", "--no-data"], &[&path]).refused(2, &[said, "source.format"]);
    }
}
