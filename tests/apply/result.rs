//! Other programs read a finished result as a dataset, and `verify`, `sql`, `show` and `clean` work on it.

use super::*;

/// Reads the result in every way that the documentation names. Prints the ids of each result and the ids of the removed documents.
const READERS: &str = r#"
import json, sys
import duckdb, pandas, polars, pyarrow.dataset as ds
to = sys.argv[1]
removed = f"{to}/_resemblance/removed"
ids = lambda rows: sorted(row[0] for row in rows.fetchall())
print(json.dumps({
    "pyarrow": sorted(ds.dataset(to, format="parquet").to_table()["id"].to_pylist()),
    "pyarrow_hive": sorted(ds.dataset(to, partitioning="hive").to_table()["id"].to_pylist()),
    "pandas": sorted(pandas.read_parquet(to)["id"]),
    "polars": sorted(polars.read_parquet(f"{to}/**/*.parquet")["id"]),
    "duckdb": ids(duckdb.sql(f"SELECT id FROM '{to}/**/*.parquet'")),
}))
print(json.dumps({
    "pyarrow": sorted(ds.dataset(removed, format="parquet").to_table()["id"].to_pylist()),
    "pandas": sorted(pandas.read_parquet(removed)["id"]),
    "polars": sorted(polars.read_parquet(f"{removed}/*")["id"]),
    "duckdb": ids(duckdb.sql(f"SELECT id FROM read_parquet('{removed}/*')")),
}))
"#;

/// The output of a job over two days of documents, and their ids.
fn days() -> (Applied, BTreeSet<String>) {
    let applied = Applied::new();
    let mut documents = corpus(81, 120, 15);
    documents.push(("short".to_owned(), "one two".to_owned()));
    for (day, part) in documents.chunks(70).enumerate() {
        std::fs::create_dir(applied.path(&format!("in/day={day}"))).unwrap();
        write_parquet(&applied.path(&format!("in/day={day}/part-0.parquet")), part, 30);
    }
    applied.run("parquet", COLUMNS);
    (applied, documents.into_iter().map(|(id, _)| id).collect())
}

fn gone_ids(applied: &Applied) -> BTreeSet<String> {
    applied.kept_of_gone().into_keys().collect()
}

fn lines(command: &[&str], result: &Path) -> Vec<Value> {
    let out = program![command[0], result].args(&command[1..]).assert().shown(&[]);
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn other_programs_read_only_kept_documents() {
    let Some(mut python) = python("duckdb, pandas, polars, pyarrow") else { return };
    let (applied, mut stay) = days();
    applied.apply("to", &["--rejects", "separate"]);
    let gone = gone_ids(&applied);
    assert!(gone.len() > 10);
    stay.retain(|id| !gone.contains(id) && id != "short");
    let printed = python.args(["-c", READERS]).arg(applied.path("to")).output().unwrap().shown(&[]);
    for (line, expected) in printed.lines().zip([&stay, &gone]) {
        let readers: BTreeMap<String, Vec<String>> = serde_json::from_str(line).unwrap();
        for (reader, ids) in readers {
            assert_eq!(ids, expected.iter().cloned().collect::<Vec<_>>(), "{reader}");
        }
    }
    assert_eq!(printed.lines().count(), 2);
}

#[test]
fn verify_compares_every_file_of_a_result() {
    let (applied, _) = days();
    applied.apply("to", &["--rejects", "separate"]);
    let to = applied.path("to");
    let manifest = result(&to);
    let verified = &lines(&["verify", "--json"], &to)[0];
    let named = files(&to).len() - 1;
    assert_eq!((&verified["files"], &verified["damaged"]), (&named.into(), &json!([])));
    let removed = manifest["removed"][0]["path"].as_str().unwrap();
    for path in ["day=0/part-0.parquet", "_resemblance/rejected/day=1/part-0.parquet.rejected", removed] {
        let whole = std::fs::read(to.join(path)).unwrap();
        let mut bytes = whole.clone();
        bytes[whole.len() / 2] ^= 1;
        std::fs::write(to.join(path), bytes).unwrap();
        let said = stdout(program!["verify", &to].assert().code(3).get_output());
        assert!(said.contains(path) && said.contains("CRC-32"), "{said}");
        std::fs::write(to.join(path), whole).unwrap();
    }
    std::fs::remove_file(to.join("day=0/part-0.parquet")).unwrap();
    assert!(stdout(program!["verify", &to].assert().code(3).get_output()).contains("is gone"));
}

#[test]
fn sql_has_the_tables_of_a_result() {
    let (applied, all) = days();
    applied.apply("to", &["--rejects", "separate"]);
    let (to, gone) = (applied.path("to"), gone_ids(&applied));
    let ids = |query: &str| -> BTreeSet<String> {
        let rows = lines(&["sql", query, "--json"], &to);
        rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids("SELECT id FROM removed"), gone);
    assert_eq!(ids("SELECT id FROM rejected"), ["short".to_owned()].into());
    let stay: BTreeSet<String> = all.into_iter().filter(|id| !gone.contains(id) && id != "short").collect();
    assert_eq!(ids("SELECT * FROM kept"), stay);
    // The text of the document that was kept is where the row says.
    let rows = lines(&["sql", "SELECT kept_id, kept_source, kept_position FROM removed", "--json"], &to);
    for row in &rows {
        let source = row["kept_source"].as_str().unwrap();
        let file = parquet(Path::new(source));
        let position = row["kept_position"].as_u64().unwrap() as usize;
        assert_eq!(strings(&file, "id")[position], row["kept_id"].as_str().unwrap());
    }
    let asked = program!["sql", &to, "SELECT * FROM pairs"].assert();
    asked.refused(2, &["there is no table `pairs`: the tables are kept, rejected, removed"]);
}

#[test]
fn sql_reads_records_as_the_job_did() {
    for (format, delimiter) in [("csv", "delimiter = \";\"\n"), ("jsonl", "")] {
        let applied = Applied::new();
        let line = |(id, text): &Document| match format {
            "csv" => format!("{id};{text};{}\n", text.len()),
            _ => format!("{}\n", json!({"id": id, "text": text, "length": text.len(), "tags": ["a"]})),
        };
        let head = if format == "csv" { "id;text;length\n" } else { "" };
        let documents = corpus(82, 60, 15);
        let text = head.to_owned() + &documents.iter().map(line).collect::<String>();
        applied.put(&format!("a.{format}"), text);
        applied.run(format, &format!("{COLUMNS}{delimiter}"));
        applied.apply("to", &[]);
        let gone = gone_ids(&applied);
        assert!(!gone.is_empty());
        let rows =
            lines(&["sql", "SELECT id, text, length FROM kept ORDER BY id", "--json"], &applied.path("to"));
        let stay = documents.iter().filter(|(id, _)| !gone.contains(id));
        let expected =
            stay.map(|(id, text)| json!({"id": id, "text": text, "length": text.len().to_string()}));
        assert_eq!(rows, expected.collect::<Vec<_>>(), "{format}");
    }
}

#[test]
fn sql_reads_texts_that_look_like_json() {
    let applied = Applied::new();
    let text = "{\"one\": \"two three four five six seven eight\"}";
    for name in ["a.txt", "b.txt"] {
        applied.put(name, text);
    }
    for name in ["c.txt", "d.txt"] {
        applied.put(name, "nine ten eleven twelve thirteen fourteen");
    }
    applied.run("text", "");
    applied.apply("to", &[]);
    let rows = lines(&["sql", "SELECT id, text FROM kept ORDER BY id", "--json"], &applied.path("to"));
    assert_eq!(rows.len(), 2);
    assert_eq!((&rows[0]["id"], &rows[0]["text"]), (&"a.txt".into(), &text.into()));
}

/// Tables of a merged output whose sources have different formats have the rows and the columns of both.
#[test]
fn sql_reads_sources_of_different_formats() {
    let path = paths();
    let documents = corpus(83, 60, 15);
    let (records, rows) = documents.split_at(30);
    let line = |(id, text): &Document| format!("{}\n", json!({"id": id, "text": text, "more": id.len()}));
    for name in ["records", "rows"] {
        std::fs::create_dir(path(name)).unwrap();
    }
    std::fs::write(path("records/a.jsonl"), records.iter().map(line).collect::<String>()).unwrap();
    write_parquet(&path("rows/a.parquet"), rows, 30);
    run(&job(&path("records"), &path("A"), &["source.format=jsonl"])).unwrap();
    let against = format!("against.output={:?}", path("A"));
    let last = job(&path("rows"), &path("B"), &[&against]);
    run(&last).unwrap();
    let outputs = ["A", "B"].map(|name| path(name).display().to_string()).to_vec();
    run(&Job::merge(outputs, &last, &path("M").display().to_string())).unwrap();
    program!["apply", path("M"), "--to", path("to")].assert().success();
    let removed = lines(&["sql", "SELECT id, source, origin_number FROM removed", "--json"], &path("to"));
    let gone: BTreeSet<&str> = removed.iter().map(|row| row["id"].as_str().unwrap()).collect();
    let kept = lines(&["sql", "SELECT * FROM kept", "--json"], &path("to"));
    let found: BTreeMap<&str, &Value> = kept.iter().map(|row| (row["id"].as_str().unwrap(), row)).collect();
    let stay: Vec<&Document> = documents.iter().filter(|(id, _)| !gone.contains(id.as_str())).collect();
    assert!(kept.len() == stay.len() && stay.len() < documents.len());
    for (id, text) in stay {
        let more = records.iter().any(|(other, _)| other == id).then(|| id.len().to_string());
        let expected = json!({"id": id, "text": text, "more": more});
        assert_eq!(*found[id.as_str()], expected);
    }
    for row in &removed {
        let is_row = row["source"].as_str().unwrap().ends_with(".parquet");
        assert_eq!(row["origin_number"], i64::from(is_row));
    }
    let shown = lines(&["show", "--json", "--top", "1000"], &path("to"));
    assert_eq!(shown.len(), removed.len());
}

/// Frameworks leave files of no bytes behind, and all rows of a file may be copies of others.
#[test]
fn other_programs_open_every_file_that_is_written() {
    const READER: &str = r#"
import glob, json, sys
import duckdb, pyarrow.csv, pyarrow.json, pyarrow.parquet
to, ending = sys.argv[1:]
arrow = {"parquet": pyarrow.parquet.read_table, "csv": pyarrow.csv.read_csv, "jsonl": pyarrow.json.read_json}[ending]
db = {"parquet": duckdb.read_parquet, "csv": lambda name: duckdb.read_csv(name, header=True), "jsonl": duckdb.read_json}[ending]
files = sorted(glob.glob(f"{to}/*.{ending}"))
ids = lambda rows: sorted(str(row) for row in rows)
print(json.dumps([
    ids(row for name in files for row in arrow(name)["id"].to_pylist()),
    ids(row[0] for row in db(f"{to}/*.{ending}").project("id").fetchall()),
]))
"#;
    let documents = corpus(84, 40, 15);
    let copies: Vec<Document> =
        documents[..3].iter().map(|(id, text)| (format!("z{id}"), text.clone())).collect();
    for format in ["parquet", "csv", "jsonl"] {
        let applied = Applied::new();
        for (name, documents) in [("a", &documents), ("copies", &copies)] {
            let line = |(id, text): &Document| match format {
                "csv" => format!("{id},{text}\n"),
                _ => format!("{}\n", json!({"id": id, "text": text})),
            };
            let name = format!("{name}.{format}");
            match format {
                "parquet" => write_parquet(&applied.path("in").join(name), documents, 10),
                _ => {
                    let head = if format == "csv" { "id,text\n" } else { "" };
                    applied.put(&name, head.to_owned() + &documents.iter().map(line).collect::<String>());
                }
            }
        }
        applied.put(&format!("empty.{format}"), "");
        applied.run(format, COLUMNS);
        applied.apply("to", &[]);
        let gone = gone_ids(&applied);
        assert!(copies.iter().all(|(id, _)| gone.contains(id)));
        let mut stay: Vec<&String> =
            documents.iter().map(|(id, _)| id).filter(|id| !gone.contains(*id)).collect();
        stay.sort();
        let Some(mut python) = python("duckdb, pyarrow") else { return };
        let ran = python.arg("-c").arg(READER).arg(applied.path("to")).arg(format).output().unwrap();
        assert!(ran.status.success(), "{format}: {}", stderr(&ran));
        let found: Vec<Vec<String>> = serde_json::from_slice(&ran.stdout).unwrap();
        assert!(found.iter().all(|found| found.iter().eq(stay.iter().copied())), "{format}: {found:?}");
        result(&applied.path("to"));
    }
}

#[test]
fn show_prints_removed_beside_kept_documents() {
    let (applied, _) = days();
    applied.apply("to", &[]);
    let (to, clustered) = (applied.path("to"), applied.clustered());
    let texts: BTreeMap<String, String> = corpus(81, 120, 15).into_iter().collect();
    let shown = lines(&["show", "--json", "--top", "1000"], &to);
    let text = |row: &Value, name: &str| row[name].as_str().unwrap().to_owned();
    let kept: BTreeMap<_, _> = shown.iter().map(|row| (text(row, "id_b"), text(row, "id_a"))).collect();
    let expected = applied.kept_of_gone();
    assert_eq!(kept, expected);
    let mut last = f64::MAX;
    for row in &shown {
        assert_eq!(text(row, "text_a"), texts[&text(row, "id_a")]);
        assert_eq!(text(row, "text_b"), texts[&text(row, "id_b")]);
        let jaccard = row["jaccard"].as_f64().unwrap();
        assert!(jaccard <= last && jaccard > 0.0, "{jaccard} after {last}");
        last = jaccard;
    }
    let (id, of) = expected.first_key_value().unwrap();
    let cluster = &clustered.values().find(|(_, _, member)| member == id).unwrap().0;
    let members = clustered.values().filter(|(cluster_id, ..)| cluster_id == cluster).count();
    assert_eq!(lines(&["show", "--json", "--top", "100", "--cluster", id], &to).len(), members - 1);
    let one = lines(&["show", "--json", "--id", id], &to);
    assert_eq!((one.len(), &text(&one[0], "id_a")), (1, of));
    program!["show", &to, "--csv"].assert().shown(&["id_kept,id_removed,jaccard", "text_kept"]);
    let text = program!["show", &to].assert().shown(&[]);
    assert!(text.starts_with("kept on the left, removed on the right\n"), "{text}");
    assert!(text.contains("more removed documents are not shown"), "{text}");
    let shown = program!["show", &to, "--id", "nobody"].assert();
    shown.refused(2, &["no document with the id `nobody` was removed"]);
    // The source is needed, unchanged; it may be at another place.
    std::fs::rename(applied.path("in"), applied.path("moved")).unwrap();
    program!["show", &to].assert().code(3);
    let moved = applied.path("moved").display().to_string();
    let shown = lines(&["show", "--json", "--id", id, "--source", &moved], &to);
    assert_eq!(shown, one);
    std::fs::rename(applied.path("moved"), applied.path("in")).unwrap();
    write_parquet(&applied.path("in/day=0/part-0.parquet"), &corpus(83, 5, 5), 5);
    program!["show", &to].assert().refused(3, &["has changed since"]);
}

/// Commands that need an output name the mistake, and nothing writes among the files of a result.
#[test]
fn a_result_is_no_output() {
    let (applied, _) = days();
    applied.apply("to", &[]);
    let (to, before) = (applied.path("to"), files(&applied.path("to")));
    let (to_text, job) = (to.display().to_string(), applied.path("job.toml").display().to_string());
    let output = format!("output.url={to_text}");
    for arguments in [
        vec!["neighbors", &to_text, "--id", "d1"],
        vec!["clean", &to_text],
        vec!["run", &job, "--set", &output],
        vec!["run", &job, "--set", &output, "--overwrite"],
    ] {
        resemblance().args(arguments).assert().refused(3, &["a result of apply"]);
    }
    assert_eq!(files(&to), before);
    // One that has begun is finished first.
    std::fs::create_dir(to.join("_resemblance/_work")).unwrap();
    let begun = "{\n  \"fingerprint\": \"a\",\n  \"output\": \"out\"\n}\n";
    std::fs::write(to.join("_resemblance/_work/apply.json"), begun).unwrap();
    std::fs::remove_file(to.join("_resemblance/manifest.json")).unwrap();
    program!["verify", &to].assert().refused(3, &["unfinished result of apply"]);
}

#[test]
fn a_file_may_not_have_the_place_of_a_record() {
    let applied = Applied::new();
    let document = |id: usize| format!("a text that is the same in all of these files, but for {id}");
    // A folder of this name is skipped unless a job names it.
    for at in 0..3 {
        applied.put(&format!("_resemblance/{at}.txt"), document(at));
    }
    let job = format!(
        "source = {{ format = \"text\", url = [{:?}, {:?}] }}\nscore.threshold = 0.3\noutput.url = {:?}\n",
        applied.path("in/_resemblance/0.txt"),
        applied.path("in/_resemblance/1.txt"),
        applied.path("out")
    );
    applied.run_job(&job);
    // Files that are named alone go by their own names.
    applied.apply("to", &[]);
    assert!(applied.path("to/0.txt").exists());
}
