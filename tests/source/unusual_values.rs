//! No value is changed and none is dropped without a word: what is odd in a file is read as it stands, rejected with a reason, or
//! an error that names the file and the line.

use std::fmt::Write as _;
use std::fs;

use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use resemblance::error::Result;
use resemblance::source::{list, open};

use crate::support::*;

/// More rows than the columns of JSON lines are looked up in.
const ROWS: usize = 1_200;

#[test]
fn a_late_json_id_of_another_kind_is_an_error_of_its_line() {
    for id in ["5.7", "9007199254740993.0", "1e2", "true", "\"007\"", "[1]", "{\"x\":1}", "1.0"] {
        let folder = Folder::new();
        let mut lines: String = (0..ROWS).map(|i| format!("{{\"id\":{i},\"text\":\"a\"}}\n")).collect();
        writeln!(lines, "{{\"id\":{id},\"text\":\"b\"}}").unwrap();
        folder.write("in.jsonl", &lines);
        let line = format!("in.jsonl line {}", ROWS + 1);
        fails(read(&folder.job("jsonl", "in.jsonl", "")), Kind::Input, &[&line, "`id`"]);
    }
}

#[test]
fn a_late_json_line_that_is_not_read_goes_to_the_rejects_where_the_job_says_so() {
    let folder = Folder::new();
    let mut lines: String =
        (0..ROWS).map(|i| format!("{{\"id\":{i},\"text\":\"one two three four\"}}\n")).collect();
    lines.push_str("{\"id\":5.7,\"text\":\"x\"}\n{\"id\":7\n[]\n{\"id\":8,\"id\":9,\"text\":\"x\"}\n");
    lines.push_str("{\"id\":-1,\"text\":\"one two three four\"}\n");
    folder.write("in.jsonl", &lines);
    let job = folder.job("jsonl", "in.jsonl", "on_error = \"reject\"");
    run(&job).unwrap();
    assert_eq!(rejected(&folder), [1200, 1201, 1202, 1203].map(|row| (row, "malformed".to_owned())));
    assert_eq!(table(&folder.path("out"), "documents").num_rows(), ROWS + 1);
}

#[test]
fn a_json_text_that_is_no_string_is_an_error_of_its_line_wherever_it_is() {
    for bad in ["5", "[\"a\"]", "{\"x\":1}", "true", "NaN"] {
        for at in [0, ROWS] {
            let folder = Folder::new();
            let mut lines: Vec<String> =
                (0..ROWS).map(|i| format!("{{\"id\":{i},\"text\":\"one two three four\"}}\n")).collect();
            lines.insert(at, format!("{{\"id\":-1,\"text\":{bad}}}\n"));
            folder.write("in.jsonl", &lines.concat());
            let line = format!("in.jsonl line {} has ", at + 1);
            fails(read(&folder.job("jsonl", "in.jsonl", "")), Kind::Input, &[&line, "`text`"]);
            run(&folder.job("jsonl", "in.jsonl", "on_error = \"reject\"")).unwrap();
            let rejects = table(&folder.path("out"), "rejects");
            assert_eq!(numbers(&rejects, "position"), [at as u64], "{bad}");
        }
    }
}

#[test]
fn json_numbers_that_are_not_finite_are_read() {
    let folder = Folder::new();
    let line = |id, score| format!("{{\"id\":{id},\"score\":{score},\"x\":[NaN],\"text\":\"NaN {id}\"}}\n");
    let lines = [line(1, "NaN"), line(2, "-Infinity"), line(3, "0.5")];
    folder.write("in.jsonl", &lines.concat());
    let job = folder.job("jsonl", "in.jsonl", "where = \"score < 1\"");
    assert_eq!(values(&job).unwrap(), ["NaN 2", "NaN 3"]);
    assert_eq!(values(&folder.job("jsonl", "in.jsonl", "")).unwrap().len(), 3);
    folder.write("in.jsonl", &format!("{}{{\"id\":4,\"text\":NaN4}}\n", lines[0]));
    fails(read(&folder.job("jsonl", "in.jsonl", "")), Kind::Input, &["in.jsonl line 2 is not JSON"]);
}

#[test]
fn halves_of_surrogate_pairs_are_the_replacement_character_where_the_encoding_is_lossy() {
    let folder = Folder::new();
    folder.write(
        "in.jsonl",
        "{\"id\":1,\"text\":\"a \\ud83d\"}\n{\"id\":2,\"text\":\"\\ude00 \\ud83d\\ude00\",\"\\ud83d\":0}\n",
    );
    let texts = values(&folder.job("jsonl", "in.jsonl", "encoding = \"utf-8-lossy\"")).unwrap();
    assert_eq!(texts, ["a \u{fffd}", "\u{fffd} \u{1f600}"]);
    folder.write("in.jsonl", "{\"id\":1,\"text\":\"a \\ud83d\"}\n");
    let what = "in.jsonl line 1 has a string `text` that is not text";
    fails(read(&folder.job("jsonl", "in.jsonl", "")), Kind::Input, &[what]);
}

#[test]
fn json_numbers_keep_every_digit() {
    let folder = Folder::new();
    let ids =
        ["1.5", "18446744073709551616", "18446744073709551617", "9007199254740993.0", "1e2", "100", "1.50"];
    let mut lines = String::new();
    // Before and after the rows that kinds are taken from.
    for i in 0..2 {
        for id in ids {
            writeln!(lines, "{{\"id\":{id},\"text\":\"t\",\"x\":{i}}}").unwrap();
        }
        (0..ROWS).for_each(|_| lines.push_str("{\"id\":null,\"text\":\"t\"}\n"));
    }
    folder.write("in.jsonl", &lines);
    let found: Vec<String> =
        read(&folder.job("jsonl", "in.jsonl", "")).unwrap().into_iter().flatten().collect();
    assert_eq!(found, [ids, ids].concat());
}

#[test]
fn csv_records_that_cannot_be_read_go_to_the_rejects_where_the_job_says_so() {
    let folder = Folder::new();
    let text = "one two three four";
    let mut csv = format!("id,text\n1,{text}\n2,too,many\n3\n4,").into_bytes();
    csv.extend(b"caf\xE9\n");
    csv.extend(format!("5,{text}\n6,\"never closed\n7,{text}\n").bytes());
    fs::write(folder.path("in.csv"), csv).unwrap();
    run(&folder.job("csv", "in.csv", "on_error = \"reject\"")).unwrap();
    let expected = [(1, "malformed"), (2, "malformed"), (3, "invalid_utf8"), (5, "truncated")];
    assert_eq!(rejected(&folder), expected.map(|(row, reason)| (row, reason.to_owned())));
    assert_eq!(strings(&table(&folder.path("out"), "documents"), "id"), ["1", "5", "7"]);
}

#[test]
fn a_stray_quote_in_a_csv_spoils_one_row() {
    const COUNT: usize = 1_500;
    for (at, reason) in [(7, "malformed"), (COUNT - 3, "truncated")] {
        let folder = Folder::new();
        let text = |row| if row == at { "\"one two three four" } else { "one two three four" };
        let rows: String = (0..COUNT).map(|row| format!("{row},{}\n", text(row))).collect();
        folder.write("in.csv", &format!("id,text\n{rows}"));
        let what = format!("in.csv line {} has a quote", at + 2);
        fails(read(&folder.job("csv", "in.csv", "")), Kind::Input, &[&what]);
        run(&folder.job("csv", "in.csv", "on_error = \"reject\"")).unwrap();
        assert_eq!(rejected(&folder), [(at as u64, reason.to_owned())]);
        assert_eq!(table(&folder.path("out"), "documents").num_rows(), COUNT - 1);
    }
}

#[test]
fn quotes_in_tsv_are_characters_unless_each_is_closed_in_its_line_or_the_job_has_them() {
    let folder = Folder::new();
    let tsv = "id\ttext\n1\t\"so\n2\t\"so\"\n3\t\"so\" it is\n4\tso \"it\"\n5\t\"so\tit\"\n";
    folder.write("in.tsv", tsv);
    folder.write("in.csv", "id,text\n1,\"so\n\n\n2,so\\, it is\n");
    let texts = |input, more: &str| values(&folder.job("csv", input, more));
    let usual = ["\"so", "so", "\"so\" it is", "so \"it\"", "so\tit"];
    assert_eq!(texts("in.tsv", "delimiter = '\t'\n").unwrap(), usual);
    let characters = texts("in.tsv", "delimiter = '\t'\nquote = ''\non_error = 'reject'\n").unwrap();
    assert_eq!(characters, ["\"so", "\"so\"", "\"so\" it is", "so \"it\"", ""]);
    let said = texts("in.tsv", "delimiter = '\t'\nquote = '\"'\n").unwrap_err().one_line();
    assert!(said.contains("in.tsv line 2 has a quote"), "{said}");
    assert_eq!(texts("in.csv", "quote = ''\nescape = '\\'\n").unwrap(), ["\"so", "so, it is"]);
}

#[test]
fn columns_of_csv_files_are_found_by_name() {
    let folder = Folder::new();
    folder.write("in/a.csv", "id,text,lang\n1,one two three four,en\n");
    folder.write("in/b.csv", "text,id,note\nfive six seven eight,2,more\n");
    folder.write("in/c.csv", "lang,id\nde,3\n");
    let job = folder.job_file("csv", "in", "columns = \"lang\"\n");
    assert_eq!(values(&job).unwrap(), ["one two three four", "five six seven eight", ""]);
    let said =
        ["b.csv has no column `lang`", "has a column `note`, which is ignored", "c.csv has no column `text`"];
    program!["run", folder.path("job.toml")].assert().warned(&said);
    let documents = table(&folder.path("out"), "documents");
    let rows: BTreeMap<_, _> =
        strings(&documents, "id").into_iter().zip(strings(&documents, "lang")).collect();
    assert_eq!(
        rows,
        [("1", "en"), ("2", "<null>")].map(|(id, lang)| (id.to_owned(), lang.to_owned())).into()
    );
}

#[test]
fn a_manifest_names_the_files_of_a_folder_that_were_skipped() {
    let folder = Folder::new();
    folder.write("in/a.csv", "id,text\n1,one two three four\n");
    folder.write("in/b.csv", "id,body\n2,one two three four\n");
    folder.write("in/none.csv", "");
    (0..7).for_each(|at| folder.write(&format!("in/{at}.pdf"), "x"));
    let warnings = run(&folder.job("csv", "in", "")).unwrap().manifest.warnings.join("\n");
    let parts = "do not end in .csv, .tsv, .txt are skipped: |4.pdf and 2 more|empty files are skipped: |none.csv|\
        b.csv has no column `text`, which is null in its rows, has a column `body`";
    for part in parts.split('|') {
        assert!(warnings.contains(part), "{part} is not in: {warnings}");
    }
}

#[test]
fn csv_for_excel_and_binary_files_are_named_with_their_remedy() {
    let folder = Folder::new();
    for (format, name, text, advice) in [
        ("csv", "in.csv", "sep=;\nid;text\n1;a\n", "`tail -n +2 "),
        ("csv", "in.csv", "%PDF-1.7\n1;a\n", "(PDF): `pdftotext "),
        ("jsonl", "in.jsonl", "PK\x03\x04 xl/workbook.xml\n", "(Excel): save each sheet as CSV"),
    ] {
        folder.write(name, text);
        let said = read(&folder.job(format, name, "on_error = 'reject'")).unwrap_err().one_line();
        assert!(said.contains(name) && said.contains(advice), "{said}");
        program!["find", folder.path(name)].assert().refused(2, &[advice]);
    }
}

#[test]
fn two_columns_of_the_name_that_is_wanted_are_an_error() {
    let folder = Folder::new();
    folder.write("in.csv", "id,text,text\n1,a,b\n");
    let error = read(&folder.job("csv", "in.csv", "")).unwrap_err();
    assert!(error.to_string().contains("in.csv has more than one column `text`"), "{error}");
    let field = |name: &str| Field::new(name, DataType::Utf8, true);
    let schema = Arc::new(Schema::new(vec![field("id"), field("text"), field("text")]));
    let column = |value: &str| Arc::new(StringArray::from(vec![value])) as ArrayRef;
    let batch = RecordBatch::try_new(schema, vec![column("1"), column("a"), column("b")]).unwrap();
    write_batch(&folder.path("in.parquet"), &batch, 10);
    let error = read(&folder.job("parquet", "in.parquet", "")).unwrap_err();
    assert!(error.to_string().contains("in.parquet has more than one column `text`"), "{error}");
}

#[cfg(unix)]
#[test]
fn text_files_are_read_or_named_whatever_they_are_called() {
    use std::os::unix::ffi::OsStrExt;

    let folder = Folder::new();
    for name in ["a", "issue#42", "sub/b#7", "_x", ".y"] {
        folder.write(&format!("in/{name}"), &format!("one two three four {name}"));
    }
    fs::write(folder.path("in").join(std::ffi::OsStr::from_bytes(b"caf\xE9.txt")), "one two three four")
        .unwrap();
    std::os::unix::fs::symlink("nowhere", folder.path("in/dangling")).unwrap();
    let made = Command::new("mkfifo").arg(folder.path("in/pipe")).status().unwrap();
    assert!(made.success());

    let job = folder.job_file("text", "in", "");
    let named = ["in/_x", "in/.y", "in/dangling", "in/pipe"];
    program!["run", "-v", folder.path("job.toml")].assert().warned(&named);
    let documents = table(Path::new(&job.output.url), "documents");
    assert_eq!(strings(&documents, "id"), ["a", "caf\\xE9.txt", "issue#42", "sub/b#7"]);

    let job = folder.job("text", "in/issue#42", "");
    assert_eq!(read(&job).unwrap(), [Some("issue#42".to_owned())]);
}

#[cfg(unix)]
#[test]
fn files_are_read_by_the_bytes_of_their_names() {
    use std::os::unix::ffi::OsStrExt;

    let text = "one two three four";
    for format in &formats(&[("1".to_owned(), text.to_owned())])[..3] {
        let (format, bytes) = (format.name, &format.files[0].1);
        for (name, shown) in [
            (&b"caf\xE9"[..], "caf\\xE9"),
            (b"tab\there", "tab\\x09here"),
            (b"x\\x41\n", "x\\x5Cx41\\x0A"),
            (b"\xE9/b", "\\xE9/b"),
        ] {
            let folder = Folder::new();
            let path = [name, b".", format.as_bytes()].concat();
            let path = folder.path("in").join(std::ffi::OsStr::from_bytes(&path));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
            let job = folder.job_file(format, "in", "");
            run(&job).unwrap();
            let documents = table(&folder.path("out"), "documents");
            let expected = format!("{}/{shown}.{format}", folder.path("in").display());
            assert_eq!(strings(&documents, "source"), [expected]);
            let to = folder.path("clean");
            resemblance().arg("apply").arg(folder.path("out")).arg("--to").arg(&to).assert().success();
            assert!(!fs::read(to.join(format!("{shown}.{format}"))).unwrap().is_empty());
        }
    }
    // Two files that would have one name in the tables.
    let folder = Folder::new();
    folder.write("in/caf\\xE9", text);
    fs::write(folder.path("in").join(std::ffi::OsStr::from_bytes(b"caf\xE9")), text).unwrap();
    fails(run(&folder.job("text", "in", "")), Kind::Input, &["in/caf\\xE9"]);
}

#[test]
fn an_objects_e_tag_is_part_of_what_a_run_is_known_by() {
    let store = Arc::new(InMemory::new());
    let folder = Folder::new();
    let mut job = folder.job("csv", "in.csv", "");
    job.source.urls = vec!["mem://bucket/in.csv".into()];
    let inputs = block_on(async {
        store.put(&"in.csv".into(), "id,text\n1,a\n".into()).await.unwrap();
        let ctx = SessionContext::new();
        ctx.register_object_store(&"mem://bucket".try_into().unwrap(), store.clone());
        list(&ctx, &job.source).await.unwrap().inputs()
    });
    let [file] = inputs.as_slice() else { panic!("one file was listed") };
    assert!(file.e_tag.is_some());
    let mut other = file.clone();
    other.e_tag = Some("another".into());
    let found = job::fingerprint(&job, &[other]).unwrap();
    assert_ne!(found, job::fingerprint(&job, std::slice::from_ref(file)).unwrap());
}

#[test]
fn where_the_first_of_two_ids_is_too_short_the_second_is_compared() {
    for hash in [job::ShingleHash::Xxh3, job::ShingleHash::Dictionary] {
        let folder = Folder::new();
        let rows = "x,short\nx,one two three four\nx,one two three four five\ny,one two three four\ny,\n";
        folder.write("in.csv", &format!("id,text\n{rows}"));
        let mut job = folder.job("csv", "in.csv", "duplicate_ids = \"reject\"");
        job.shingle.hash = hash;
        run(&job).unwrap();
        let expected = [(0, "too_short"), (2, "duplicate_id"), (4, "missing_text")];
        assert_eq!(rejected(&folder), expected.map(|(row, reason)| (row, reason.to_owned())), "{hash:?}");
        assert_eq!(table(&folder.path("out"), "pairs").num_rows(), 1, "{hash:?}");
    }
}

#[test]
fn a_text_of_which_normalisation_leaves_nothing_is_empty() {
    for hash in [job::ShingleHash::Xxh3, job::ShingleHash::Dictionary] {
        let folder = Folder::new();
        folder.write("in.csv", "id,text\na,12 34 56 78\nb,one 2\nc,one two three four\nd,  \n");
        let mut job = folder.job("csv", "in.csv", "");
        job.shingle.normalize = vec![job::Normalize::LettersOnly];
        job.shingle.hash = hash;
        run(&job).unwrap();
        let expected = [(0, "empty_text"), (1, "too_short"), (3, "empty_text")];
        assert_eq!(rejected(&folder), expected.map(|(row, reason)| (row, reason.to_owned())), "{hash:?}");
    }
}

/// Long rows that come late: their batches are bounded by bytes, though the first rows were short.
#[cfg(target_os = "linux")]
#[test]
fn late_long_rows_do_not_fill_the_memory() {
    const LONG: usize = 2_000_000;
    const COUNT: usize = 100;
    let long = format!("{} ", "w".repeat(9_999)).repeat(LONG / 10_000);
    for format in ["csv", "jsonl"] {
        let folder = Folder::new();
        let mut text = String::new();
        let mut add = |id: usize, value: &str| match format {
            "csv" => writeln!(text, "{id},{value} {id} a b c").unwrap(),
            _ => writeln!(text, "{{\"id\":{id},\"text\":\"{value} {id} a b c\"}}").unwrap(),
        };
        (0..4_000).for_each(|id| add(id, "short"));
        (4_000..4_000 + COUNT).for_each(|id| add(id, &long));
        if format == "csv" {
            text.insert_str(0, "id,text\n");
        }
        folder.write("in", &text);
        folder.job_file(format, "in", "");
        let mut command = Command::new(resemblance().get_program());
        command.arg("run").arg(folder.path("job.toml")).args(["--set", "engine.memory=64MiB"]);
        let peak = Process::start("run", &mut command, folder.0.path()).peak_until_success();
        assert!(peak > 0, "nobody measured the memory");
        assert!(peak < 256 * 1024 * 1024, "{format} took {} MiB", peak / 1024 / 1024);
    }
}

/// A column of a job's source, in order, of one partition.
fn column(job: &Job, of: impl Fn(&RecordBatch) -> ArrayRef) -> Result<Vec<Option<String>>> {
    block_on(async {
        let config = datafusion::prelude::SessionConfig::new().with_target_partitions(1);
        let frame = open(&SessionContext::new_with_config(config), &job.source).await?.frame;
        let mut found = Vec::new();
        for batch in frame.collect().await? {
            let column = cast(&of(&batch), &DataType::Utf8).unwrap();
            found.extend(column.as_string::<i32>().iter().map(|value| value.map(str::to_owned)));
        }
        Ok(found)
    })
}

fn read(job: &Job) -> Result<Vec<Option<String>>> {
    column(job, |batch| Arc::clone(batch.column(2)))
}

/// The texts of a job's source; empty where a row has none.
fn values(job: &Job) -> Result<Vec<String>> {
    let texts = column(job, |batch| Arc::clone(batch.column_by_name("text").unwrap()))?;
    Ok(texts.into_iter().map(Option::unwrap_or_default).collect())
}

/// The rejects of the output `out`: positions and reasons.
fn rejected(folder: &Folder) -> Vec<(u64, String)> {
    let rejects = table(&folder.path("out"), "rejects");
    let mut found: Vec<_> =
        numbers(&rejects, "position").into_iter().zip(strings(&rejects, "reason")).collect();
    found.sort();
    found
}

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        write_file(&self.0, name, text);
    }

    /// A job over `input` in this folder, whose result goes to `out` there; `more` are keys of `[source]`.
    fn job(&self, format: &str, input: &str, more: &str) -> Job {
        resolve(&self.toml(format, input, more), &[]).unwrap()
    }

    fn job_file(&self, format: &str, input: &str, more: &str) -> Job {
        self.write("job.toml", &self.toml(format, input, more));
        self.job(format, input, more)
    }

    fn toml(&self, format: &str, input: &str, more: &str) -> String {
        let columns = if format == "text" { "" } else { COLUMNS };
        let (input, output) = (self.path(input), self.path("out"));
        format!(
            "[source]\nformat = \"{format}\"\nurl = {input:?}\n{columns}{more}\n[shingle]\nsize = 3\nshort = \"reject\"\n\
             [score]\nthreshold = 0.5\n[output]\nurl = {output:?}\n"
        )
    }
}
