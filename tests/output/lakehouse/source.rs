//! Delta tables as sources: the files that a log names are read, and no others.

use std::fs::File;

use arrow::json::ReaderBuilder;

use super::*;

/// A Delta table whose log is written by hand.
struct Written {
    folder: TempDir,
    documents: Vec<Document>,
}

const OF_FILE: usize = 20;

/// Files whose names the log has in other letters than the disk.
const NAMES: [&str; 4] = ["a.parquet", "sub folder/50%.parquet", "c.parquet", "d#.parquet"];
const URIS: [&str; 4] = ["a.parquet", "sub%20folder/50%25.parquet", "c.parquet", "d%23.parquet"];

impl Written {
    fn new() -> Self {
        let written = Self { folder: tempdir().unwrap(), documents: corpus(41, NAMES.len() * OF_FILE, 25) };
        for (name, documents) in NAMES.into_iter().zip(written.documents.chunks(OF_FILE)) {
            std::fs::create_dir_all(written.path("in").join(name).parent().unwrap()).unwrap();
            write_parquet(&written.path("in").join(name), documents, 10);
        }
        std::fs::create_dir(written.path("in/_delta_log")).unwrap();
        written
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn commit(&self, version: u64, actions: &[Value]) {
        let lines: String = actions.iter().map(|action| format!("{action}\n")).collect();
        std::fs::write(self.path(&format!("in/_delta_log/{version:020}.json")), lines).unwrap();
    }

    /// Writes the rows of a checkpoint, or of a part of one.
    fn checkpoint(&self, name: &str, rows: &[Value]) {
        let text = |name: &str| Field::new(name, DataType::Utf8, true);
        let not_null = |name: &str| Field::new(name, DataType::Utf8, false);
        let number = |name: &str| Field::new(name, DataType::Int64, true);
        let texts = |name: &str| Field::new(name, DataType::new_list(DataType::Utf8, true), true);
        let of = |name: &str, fields: Vec<Field>| Field::new_struct(name, fields, true);
        let values =
            Field::new_map("partitionValues", "key_value", not_null("key"), text("value"), false, true);
        let schema = Arc::new(Schema::new(vec![
            of("protocol", vec![number("minReaderVersion"), texts("readerFeatures")]),
            of("metaData", vec![text("id"), texts("partitionColumns")]),
            of(
                "add",
                vec![text("path"), values, number("size"), of("deletionVector", vec![text("storageType")])],
            ),
            of("remove", vec![text("path")]),
            of("checkpointMetadata", vec![number("version")]),
        ]));
        let mut decoder = ReaderBuilder::new(Arc::clone(&schema)).build_decoder().unwrap();
        decoder.serialize(rows).unwrap();
        let batch = decoder.flush().unwrap().unwrap();
        let file = File::create(self.path("in/_delta_log").join(name)).unwrap();
        let mut writer = ArrowWriter::try_new(file, schema, None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
    }

    fn of_file(&self, file: usize) -> &[Document] {
        self.documents.chunks(OF_FILE).nth(file).unwrap()
    }

    /// The action of [`Written::add`] with another value of a key.
    fn add_with(&self, file: usize, key: &str, value: Value) -> Value {
        let mut add = self.add(file);
        add["add"][key] = value;
        add
    }

    fn add(&self, file: usize) -> Value {
        let size = std::fs::metadata(self.path("in").join(NAMES[file])).unwrap().len();
        json!({"add": {
            "path": URIS[file], "partitionValues": {}, "size": size, "modificationTime": 0, "dataChange": true,
            "stats": "{\"numRecords\": 20}"
        }})
    }

    fn run(&self, output: &str, more: &[&str]) -> assert_cmd::assert::Assert {
        let text = job_text_of("delta", self.path("in"), self.path(output));
        std::fs::write(self.path("job.toml"), text).unwrap();
        let mut command =
            program!["run", self.path("job.toml"), "--json", "--set", "candidates.method=prefix"];
        command.args(more.iter().flat_map(|argument| ["--set", argument])).assert()
    }

    /// The pairs of a run over the table are those of plain code over these files, and of their documents every one was read.
    fn check(&self, output: &str, files: &[usize]) {
        self.run(output, &[]).success();
        self.check_output(&self.path(output), files);
    }

    fn check_output(&self, output: &Path, files: &[usize]) {
        let read: Vec<Document> = files.iter().flat_map(|file| self.of_file(*file).to_vec()).collect();
        let expected = exact_pairs(&read, 3, 0.5);
        assert!(expected.len() > 2);
        assert_eq!(pairs(output), expected);
        let ids: BTreeSet<String> = read.into_iter().map(|(id, _)| id).collect();
        assert!(strings(&table(output, "documents"), "id").into_iter().eq(ids));
    }

    fn refused(&self, more: &[&str], code: i32, parts: &[&str]) {
        self.run("refused", more).refused(code, parts);
        assert!(!self.path("refused").exists());
    }
}

fn protocol() -> Value {
    json!({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}})
}

fn meta_data() -> Value {
    meta_data_of(&[], json!({}))
}

fn meta_data_of(partitions: &[&str], configuration: Value) -> Value {
    json!({"metaData": {
        "id": "0", "format": {"provider": "parquet", "options": {}}, "schemaString": "{}", "partitionColumns": partitions,
        "configuration": configuration
    }})
}

fn remove(file: usize) -> Value {
    json!({"remove": {"path": URIS[file], "deletionTimestamp": 7, "dataChange": true}})
}

#[test]
fn the_files_of_the_newest_version_are_read() {
    let written = Written::new();
    written.commit(0, &[json!({"commitInfo": {}}), protocol(), meta_data(), written.add(0), written.add(1)]);
    written.check("first", &[0, 1]);
    let record = |output: &str| -> Value { written.run(output, &[]).json() };
    assert_eq!(record("first")["already_finished"], true);
    // The order of the actions in a commit means nothing.
    written.commit(
        1,
        &[written.add(3), written.add(0), remove(0), json!({"txn": {"appId": "a", "version": 1}})],
    );
    written.commit(2, &[remove(1), written.add(2)]);
    written.run("first", &[]).refused(2, &["--overwrite"]);
    written.check("second", &[0, 2, 3]);
    // Whatever names no other files is no reason to compare them again.
    written.commit(3, &[meta_data()]);
    assert_eq!(record("second")["already_finished"], true);
}

#[test]
fn apply_writes_the_files_that_the_table_has() {
    let written = Written::new();
    written.commit(0, &[protocol(), meta_data(), written.add(1), written.add(2)]);
    written.check("out", &[1, 2]);
    let (out, to) = (written.path("out"), written.path("to"));
    resemblance().arg("apply").arg(&out).arg("--to").arg(&to).assert().success();
    let gone = removed(&out);
    assert!(!gone.is_empty());
    for file in [1, 2] {
        let ids = written.of_file(file).iter().map(|(id, _)| id.clone());
        let expected: Vec<String> = ids.filter(|id| !gone.contains(id)).collect();
        assert_eq!(strings(&parquet(&to.join(NAMES[file])), "id"), expected, "{}", NAMES[file]);
    }
    assert!(!to.join("a.parquet").exists() && !to.join("_delta_log").exists());
}

#[test]
fn rereads_of_a_table_use_the_version_of_the_run() {
    let written = Written::new();
    written.commit(0, &[protocol(), meta_data(), written.add(0), written.add(1)]);
    let (before, after, moved) = (written.path("before"), written.path("after"), written.path("moved"));
    let kept = |to: &Path, more: &[&str]| {
        resemblance().arg("apply").arg(written.path("out")).arg("--to").arg(to).args(more).assert().success();
        let is_data = |path: &Path| path.extension().is_some_and(|ending| ending == "parquet");
        files(to).into_iter().filter(|(path, _)| is_data(path)).collect::<Vec<_>>()
    };
    let bytes =
        |files: Vec<(PathBuf, Vec<u8>)>| files.into_iter().map(|(_, bytes)| bytes).collect::<Vec<_>>();
    let lsh = ["candidates.method=lsh", "minhash.permutations=64", "lsh.bands=64", "lsh.rows=1"];
    written.run("out", &lsh).success();
    let expected = bytes(kept(&before, &[]));
    assert_eq!(expected.len(), 2);
    // A day later the table has another file, and one of the files is not a part of it any more.
    written.commit(1, &[written.add(2), remove(1)]);
    assert_eq!(bytes(kept(&after, &[])), expected);
    std::fs::rename(written.path("in"), written.path("elsewhere")).unwrap();
    let source = written.path("elsewhere").display().to_string();
    assert_eq!(bytes(kept(&moved, &["--source", &source])), expected);
    std::fs::rename(written.path("elsewhere"), written.path("in")).unwrap();

    // The reference documents have the texts of version 0.
    let against = format!("against.output={:?}", written.path("out"));
    written.run("next", &[&lsh[..], &[&against, "against.same_id=skip"]].concat()).success();
    let mut pairs_of_new = exact_pairs(&written.documents[..3 * OF_FILE], 3, 0.5);
    let is_new = |id: &String| written.of_file(2).iter().any(|(new, _)| new == id);
    pairs_of_new.retain(|(a, b), _| is_new(a) || is_new(b));
    assert!(pairs_of_new.keys().filter(|(a, b)| is_new(a) != is_new(b)).count() > 2);
    let found = pairs(&written.path("next")).into_iter();
    let found = found.map(|((a, b), jaccard)| ((a.clone().min(b.clone()), a.max(b)), jaccard));
    assert_eq!(found.collect::<BTreeMap<_, _>>(), pairs_of_new);

    // Without the commits of the version, as after the retention of the log, it cannot be read.
    written.checkpoint(&format!("{:020}.checkpoint.parquet", 1), &[protocol(), meta_data(), written.add(0)]);
    std::fs::remove_file(written.path(&format!("in/_delta_log/{:020}.json", 0))).unwrap();
    let refused = program!["apply", written.path("out"), "--to", written.path("late")].assert();
    refused.refused(3, &["00000000000000000000.json is gone", "--overwrite"]);
}

#[test]
fn days_of_a_table_that_grows_are_merged_and_applied() {
    let written = Written::new();
    let keep = "output.keep=shingles";
    written.commit(0, &[protocol(), meta_data(), written.add(0)]);
    written.run("first", &[keep, "source.where=id < 'd00020'"]).success();
    written.commit(1, &[written.add(1)]);
    let against = format!("against.output={:?}", written.path("first"));
    written.run("second", &[keep, "source.where=id >= 'd00020'", &against]).success();
    let (merged, to) = (written.path("merged"), written.path("to"));
    program!["merge", written.path("first"), written.path("second"), "--to", &merged].assert().success();
    resemblance().arg("apply").arg(&merged).arg("--to").arg(&to).assert().success();
    let result = std::fs::read(to.join("_resemblance/manifest.json")).unwrap();
    let counts = serde_json::from_slice::<Value>(&result).unwrap()["counts"].clone();
    let removed = manifest(&merged).counts.removed_documents;
    assert!(removed > 0);
    assert_eq!((&counts["read"], &counts["removed"]), (&(2 * OF_FILE).into(), &removed.into()));
    assert!(NAMES[..2].iter().all(|name| to.join(name).exists()));
}

#[test]
fn rereads_of_a_second_source_skip_new_files() {
    let written = Written::new();
    written.commit(0, &[protocol(), meta_data(), written.add(0)]);
    let new = written.of_file(0).iter().map(|(id, text)| (format!("new {id}"), format!("{text} z")));
    write_parquet(&written.path("new.parquet"), &new.collect::<Vec<_>>(), 10);
    let source = format!(
        "against.source={{ format = 'delta', url = {:?}, id = 'id', text = 'text' }}",
        written.path("in")
    );
    run(&job(&written.path("new.parquet"), &written.path("linked"), &[&source])).unwrap();
    written.commit(1, &[written.add(2), remove(0)]);
    let shown = program!["show", written.path("linked"), "--json", "--top", "100"].assert().shown(&[]);
    let texts: BTreeMap<&str, &str> =
        written.documents.iter().map(|(id, text)| (id.as_str(), text.as_str())).collect();
    let lines = shown.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let known: Vec<Value> = lines.filter(|line| line["reference_b"] == true).collect();
    assert!(known.len() >= OF_FILE);
    for line in known {
        assert_eq!(line["text_b"].as_str().unwrap(), texts[line["id_b"].as_str().unwrap()]);
    }
}

#[test]
fn a_checkpoint_stands_for_the_commits_before_it() {
    let written = Written::new();
    let first = [protocol(), meta_data(), written.add(0), remove(3)];
    // The commits before it are gone, as after some weeks.
    written.checkpoint(&format!("{:020}.checkpoint.parquet", 5), &first);
    written.commit(6, &[written.add(1)]);
    written.check("single", &[0, 1]);
    let part = |part: u64| format!("{:020}.checkpoint.{part:010}.{:010}.parquet", 6, 2);
    written.checkpoint(&part(2), &[written.add(3), protocol()]);
    written.check("still", &[0, 1]);
    written.checkpoint(&part(1), &[meta_data(), written.add(2)]);
    written.check("parts", &[2, 3]);
    std::fs::write(written.path("in/_delta_log").join(part(1)), "PAR1 and no more PAR1").unwrap();
    written.refused(&[], 3, &[&part(1)]);
}

#[test]
fn unknown_table_features_are_refused_by_name() {
    let features = |names: &[&str]| {
        json!({"protocol": {
            "minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": names, "writerFeatures": names
        }})
    };
    let mapped = meta_data_of(&[], json!({"delta.columnMapping.mode": "name"}));
    let written = Written::new();
    let add = || written.add(0);
    let vector = json!({"storageType": "u", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": 1});
    let deleted = written.add_with(0, "deletionVector", vector);
    let at = |path: &str| vec![protocol(), meta_data(), written.add_with(0, "path", json!(path))];
    let larger = written.add_with(0, "size", json!(1));
    let version = json!({"protocol": {"minReaderVersion": 4, "minWriterVersion": 7}});
    let mapping = json!({"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}});
    for (actions, said) in [
        (vec![features(&["deletionVectors"]), meta_data(), deleted], &["`deletionVectors`", "a.parquet"][..]),
        (vec![mapping, mapped, add()], &["`columnMapping`", "copy it"]),
        (vec![features(&["typeWidening"]), meta_data(), add()], &["`typeWidening`", "copy it"]),
        (vec![features(&["v2Checkpoint"]), meta_data(), add()], &["`v2Checkpoint`"]),
        (vec![version, meta_data(), add()], &["version 4", "copy it"]),
        (at("s3://other/table/a.parquet"), &["s3://other/table/a.parquet", "copy all rows"]),
        (at("/other/a.parquet"), &["/other/a.parquet", "copy all rows"]),
        (vec![protocol(), meta_data(), larger], &["a.parquet", "says 1"]),
        (at("gone.parquet"), &["gone.parquet", "restore it"]),
        (vec![protocol(), meta_data()], &["is empty"]),
        (vec![meta_data(), add()], &["`protocol`"]),
    ] {
        written.commit(0, &actions);
        written.refused(&[], 3, said);
    }
    // Features and partitions that no file uses do not stop the reader.
    let known = features(&["deletionVectors", "columnMapping", "timestampNtz"]);
    written.commit(0, &[known, meta_data_of(&["day"], json!({})), add(), written.add(1)]);
    written.check("out", &[0, 1]);
}

/// The values of partition columns are in the log, also in that of a checkpoint, and not in the files.
#[test]
fn partition_columns_have_the_values_of_the_log() {
    let partitioned = meta_data_of(&["day"], json!({}));
    let written = Written::new();
    let add =
        |file: usize, day: Option<&str>| written.add_with(file, "partitionValues", json!({ "day": day }));
    let first = [protocol(), partitioned, add(0, Some("2026-11-01")), add(1, Some("2026-11-02"))];
    written.checkpoint(&format!("{:020}.checkpoint.parquet", 5), &first);
    written.commit(6, &[add(2, None), add(3, Some("2026-11-03"))]);
    let sets = ["source.group=day", "source.where=day >= '2026-11-02' OR day IS NULL"];
    written.run("out", &sets).success();
    written.check_output(&written.path("out"), &[1, 2, 3]);
    let documents = table(&written.path("out"), "documents");
    let of_files = [None, Some("2026-11-02"), None, Some("2026-11-03")];
    for (id, day) in strings(&documents, "id").into_iter().zip(documents["day"].as_string::<i32>()) {
        let at = written.documents.iter().position(|(other, _)| other == &id).unwrap();
        assert_eq!(day, of_files[at / OF_FILE], "{id}");
    }
    let counts = manifest(&written.path("out")).counts;
    assert_eq!(counts.files_left_out, Some(1));
}

#[test]
fn a_log_that_is_damaged_or_of_another_kind_is_refused() {
    let written = Written::new();
    written.refused(&[], 3, &["no Delta table", "_delta_log"]);
    let pattern = format!("source.url={}/*.parquet", written.path("in").display());
    written.refused(&[&pattern], 2, &["pattern", "folder of a table"]);
    written.refused(&["source.encoding=latin-1"], 2, &["source.encoding"]);
    written.commit(0, &[protocol(), meta_data(), written.add(0)]);
    written.commit(2, &[written.add(1)]);
    written.refused(&[], 3, &[&format!("{:020}.json is gone", 1), "restore it"]);
    std::fs::write(written.path(&format!("in/_delta_log/{:020}.json", 1)), "{\"add\": ").unwrap();
    written.refused(&[], 3, &[&format!("{:020}.json is not a commit", 1)]);
    std::fs::remove_file(written.path(&format!("in/_delta_log/{:020}.json", 0))).unwrap();
    let second = format!("in/_delta_log/{:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json", 0);
    std::fs::write(written.path(&second), "{}").unwrap();
    written.refused(&[], 3, &[&format!("{:020}.json is gone", 0), "`v2Checkpoint`"]);
}

#[test]
fn a_table_in_a_bucket_is_read_there() {
    let (written, s3) = (Written::new(), S3::start());
    written.commit(0, &[protocol(), meta_data(), written.add(0), written.add(1), written.add(3)]);
    written.commit(1, &[remove(3)]);
    for name in
        NAMES.into_iter().map(str::to_owned).chain([0, 1].map(|at| format!("_delta_log/{at:020}.json")))
    {
        s3.put(&format!("in/{name}"), std::fs::read(written.path("in").join(&name)).unwrap());
    }
    let job = written.path("job.toml");
    for (url, output) in [("in/", "out"), ("in", "again")] {
        std::fs::write(&job, job_text_of("delta", s3.url(url), written.path(output))).unwrap();
        let sets = ["--set", "candidates.method=prefix"];
        resemblance().envs(s3.env()).arg("run").arg(&job).args(sets).assert().success();
        written.check_output(&written.path(output), &[0, 1]);
    }
}
