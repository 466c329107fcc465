//! Outputs whose tables are Delta tables too: what the logs say, and when.

mod bucket;
mod source;

use arrow::array::{Date32Array, Int8Array, TimestampMicrosecondArray};
use arrow::array::{TimestampMillisecondArray, TimestampNanosecondArray};

use crate::support::delta::{names, tables_with_logs};
use crate::support::*;

const DELTA: &str = "output.tables=delta";

const TABLES: [&str; 4] = ["clusters", "documents", "pairs", "rejects"];

struct Scene {
    scene: crate::support::Scene,
}

has_a_scene!(Scene);

impl Scene {
    fn new() -> Self {
        Scene { scene: crate::support::Scene::new(&[]).with_job("in.parquet", &corpus(11, 60, 30)) }
    }

    fn output(&self) -> PathBuf {
        self.path("out")
    }

    fn run(&self, more: &[&str]) -> assert_cmd::assert::Assert {
        let mut command = program!["run", self.path("job.toml"), "--json"];
        for argument in more {
            match argument.starts_with("--") {
                true => command.arg(argument),
                false => command.args(["--set", argument]),
            };
        }
        command.assert()
    }

    fn record(&self, more: &[&str]) -> Value {
        self.run(more).json()
    }

    fn clean(&self, more: &[&str]) -> String {
        resemblance().arg("clean").arg(self.output()).args(more).assert().shown(&[])
    }
}

/// Holds every Delta table of an output against its manifest, and says their version.
fn check(output: &Path) -> usize {
    let manifest = manifest(output);
    let mut versions = BTreeMap::new();
    for (name, written) in &manifest.tables {
        let read = Table::read(&output.join(name));
        let expected: BTreeSet<&str> =
            written.files.iter().map(|file| &file.path[name.len() + 1..]).collect();
        assert!(read.files.keys().eq(expected), "{name}: {:?}", read.files.keys());
        assert_eq!(read.rows().num_rows() as u64, written.rows, "{name}");
        assert_eq!(sorted(&read.rows()), sorted(&table(output, name)), "{name}");
        check_schema(&read);
        versions.insert(name.clone(), read.version);
    }
    resemblance().arg("verify").arg(output).assert().success();
    let first = versions["pairs"];
    assert!(versions.values().all(|version| *version == first), "{versions:?}");
    first
}

/// The rows as text, in an order of their own.
fn sorted(rows: &RecordBatch) -> Vec<String> {
    let text = arrow::util::pretty::pretty_format_batches(std::slice::from_ref(rows)).unwrap().to_string();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

fn check_schema(table: &Table) {
    let rows = table.rows();
    let (schema, fields) = (rows.schema(), table.fields());
    assert_eq!(schema.fields().len(), fields.len());
    for (field, (name, kind, nullable)) in schema.fields().iter().zip(fields) {
        assert_eq!((field.name(), field.is_nullable()), (&name, nullable), "{}", table.folder.display());
        let expected = match field.data_type() {
            DataType::Utf8 => json!("string"),
            DataType::Int8 => json!("byte"),
            DataType::Int32 => json!("integer"),
            DataType::Int64 => json!("long"),
            DataType::Float64 => json!("double"),
            DataType::Boolean => json!("boolean"),
            DataType::Binary => json!("binary"),
            DataType::Date32 => json!("date"),
            DataType::Timestamp(_, None) => json!("timestamp_ntz"),
            DataType::Timestamp(_, Some(_)) => json!("timestamp"),
            DataType::List(item) => {
                let items = if *item.data_type() == DataType::Int32 { "integer" } else { "long" };
                json!({"type": "array", "elementType": items, "containsNull": true})
            }
            other => panic!("{name} is of type {other}"),
        };
        assert_eq!(kind, expected, "{name}");
    }
}

#[test]
fn every_table_is_a_delta_table_of_the_files_that_the_manifest_names() {
    let scene = Scene::new();
    scene.run(&[DELTA, "output.keep=shingles"]).success();
    assert_eq!(check(&scene.output()), 0);
    assert_eq!(tables_with_logs(&scene.output()), TABLES);
    for name in TABLES {
        let read = Table::read(&scene.output().join(name));
        assert_eq!(read.protocol, json!({"minReaderVersion": 1, "minWriterVersion": 2}));
        assert_eq!(read.meta_data["format"], json!({"provider": "parquet", "options": {}}));
        assert_eq!(read.meta_data["partitionColumns"], json!([]));
        assert!(uuid::Uuid::parse_str(read.meta_data["id"].as_str().unwrap()).is_ok());
        assert_eq!(names(&read.folder), ["00000000000000000000.json"]);
    }
    // They are neither garbage nor foreign files.
    assert_eq!(scene.clean(&[]), format!("0 files, 0 bytes, removed from {}\n", scene.output().display()));
    assert_eq!(scene.record(&[DELTA, "output.keep=shingles"])["already_finished"], true);
    assert_eq!(check(&scene.output()), 0);
}

#[test]
fn carried_columns_are_columns_of_the_delta_table() {
    let scene = Scene::new();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("stars, of five", Arc::new(Int8Array::from_iter_values((0..40).map(|i| i % 6)))),
        ("day", Arc::new(Date32Array::from_iter_values(0..40))),
        ("local", Arc::new(TimestampMicrosecondArray::from_iter_values(0..40))),
        ("at", Arc::new(TimestampMillisecondArray::from_iter_values(0..40).with_timezone("Europe/Berlin"))),
        ("exactly", Arc::new(TimestampNanosecondArray::from_iter_values(0..40))),
    ];
    write_columns(&scene.path("in.parquet"), &corpus(11, 40, 30), columns, 10);
    // Types that Delta does not have are refused before anything is computed.
    let ran = scene.run(&[DELTA, "source.columns=[\"day\", \"exactly\"]"]);
    ran.refused(2, &["`exactly`", "microseconds", "output.tables"]);
    assert!(!scene.output().join("documents").exists());
    let zoned = "source.columns=[\"stars, of five\", \"day\", \"at\"]";
    scene.run(&[DELTA, zoned]).success();
    assert_eq!(check(&scene.output()), 0);
    let before = Table::read(&scene.output().join("documents"));
    assert_eq!(before.protocol["minWriterVersion"], 2);
    // Another schema in the next version, which a feature comes with. It stays when the column goes.
    scene.run(&[DELTA, "--overwrite", "source.columns=[\"day\", \"local\"]"]).success();
    assert_eq!(check(&scene.output()), 1);
    let after = Table::read(&scene.output().join("documents"));
    assert_eq!(after.protocol["minReaderVersion"], 3);
    assert_eq!(after.protocol["readerFeatures"], json!(["timestampNtz"]));
    assert_eq!(after.meta_data["id"], before.meta_data["id"]);
    assert_ne!(after.meta_data["schemaString"], before.meta_data["schemaString"]);
    scene.run(&["--overwrite"]).success();
    assert_eq!(check(&scene.output()), 2);
    assert_eq!(Table::read(&scene.output().join("documents")).protocol, after.protocol);
    // A job without Delta tables must not break existing Delta tables.
    let ran = scene.run(&["--overwrite", "source.columns=[\"exactly\"]"]);
    ran.refused(2, &["`exactly`", "holds Delta tables"]);
    assert_eq!(check(&scene.output()), 2);
}

#[test]
fn a_result_that_is_replaced_is_the_next_version() {
    let scene = Scene::new();
    scene.run(&[DELTA]).success();
    let before = Table::read(&scene.output().join("pairs"));
    scene.run(&[DELTA, "--overwrite", "score.threshold=0.7"]).success();
    assert_eq!(check(&scene.output()), 1);
    let after = Table::read(&scene.output().join("pairs"));
    assert_eq!(after.removed, before.files.keys().cloned().collect::<Vec<_>>());
    assert_eq!(after.meta_data["id"], before.meta_data["id"]);
    for path in &after.removed {
        assert!(!after.folder.join(path).exists(), "{path} was replaced and is there");
    }
    // The log continues for its readers, also if the next job has no Delta tables, and never without a new result.
    scene.run(&["--overwrite"]).success();
    assert_eq!(check(&scene.output()), 2);
    assert_eq!(scene.record(&[])["already_finished"], true);
    assert_eq!(scene.record(&[DELTA])["already_finished"], true);
    assert_eq!(check(&scene.output()), 2);
}

#[test]
fn a_finished_output_gets_logs_without_being_made_again() {
    let scene = Scene::new();
    scene.run(&[]).success();
    assert!(tables_with_logs(&scene.output()).is_empty());
    let before = std::fs::read(scene.output().join("manifest.json")).unwrap();
    assert_eq!(scene.record(&[DELTA])["already_finished"], true);
    assert_eq!(check(&scene.output()), 0);
    assert_eq!(std::fs::read(scene.output().join("manifest.json")).unwrap(), before);
    std::fs::remove_dir_all(scene.output().join("clusters/_delta_log")).unwrap();
    scene.run(&[]).success();
    assert_eq!(tables_with_logs(&scene.output()), ["documents", "pairs", "rejects"]);
    scene.run(&[DELTA]).success();
    assert_eq!(check(&scene.output()), 0);
}

#[test]
fn a_table_that_is_gone_from_the_result_is_empty_and_comes_back() {
    let scene = Scene::new();
    scene.run(&[DELTA, "shingle.hash=dictionary"]).success();
    let dictionary = scene.output().join("dictionary");
    let rows = Table::read(&dictionary).rows().num_rows();
    assert!(rows > 0);
    scene.run(&[DELTA, "--overwrite"]).success();
    assert_eq!(check(&scene.output()), 1);
    let empty = Table::read(&dictionary);
    assert_eq!((empty.version, empty.files.len(), empty.removed.is_empty()), (1, 0, false));
    scene.run(&[DELTA, "--overwrite", "shingle.hash=dictionary"]).success();
    assert_eq!(check(&scene.output()), 2);
    assert_eq!(Table::read(&dictionary).rows().num_rows(), rows);
}

#[test]
fn a_merge_is_a_delta_table_as_its_last_output_is() {
    let scene = Scene::new();
    let documents = corpus(5, 60, 30);
    scene.write("day0.parquet", &documents[..30]);
    scene.write("day1.parquet", &documents[30..]);
    scene.scene.run("day0.parquet", "out0", &[]);
    scene.scene.run("day1.parquet", "out1", &[DELTA, &scene.against(&["out0"])]);
    let outputs = [scene.path("out0"), scene.path("out1")];
    assert_eq!(check(&outputs[1]), 0);
    let found = tables_with_logs(&outputs[1]);
    assert_eq!(found, ["cluster_id_changes", "clusters", "documents", "pairs", "rejects"]);
    scene.merge(&["out0", "out1"], "out").unwrap();
    assert_eq!(check(&scene.output()), 0);
    program!["merge"].args(&outputs).arg("--to").arg(scene.output()).arg("--overwrite").assert().success();
    assert_eq!(check(&scene.output()), 1);
}

/// A commit of another program, behind the newest one.
fn commit(table: &Path, actions: &[Value]) {
    let text: String = actions.iter().map(|action| format!("{action}\n")).collect();
    let version = names(table).iter().filter(|name| name.ends_with(".json")).count();
    std::fs::write(table.join(format!("_delta_log/{version:020}.json")), text).unwrap();
}

fn meta_data(configuration: Value) -> Value {
    let schema = json!({"type": "struct", "fields": []}).to_string();
    json!({"metaData": {
        "id": uuid::Uuid::nil().to_string(), "name": "mine", "format": {"provider": "parquet", "options": {}},
        "schemaString": schema, "partitionColumns": [], "configuration": configuration, "createdTime": 1
    }})
}

#[test]
fn commits_of_other_programs_stay_until_the_result_is_replaced() {
    let scene = Scene::new();
    scene.run(&[DELTA]).success();
    let pairs = scene.output().join("pairs");
    let before = Table::read(&pairs);
    // It packs the files into one of its own.
    let (path, add) = before.files.first_key_value().unwrap();
    std::fs::copy(pairs.join(path), pairs.join("packed, 100%.parquet")).unwrap();
    let mut packed = add.clone();
    packed["path"] = "packed%2C%20100%25.parquet".into();
    let mut actions = vec![json!({"commitInfo": {"operation": "OPTIMIZE", "engineInfo": "another 1"}})];
    actions.extend(before.files.keys().map(
        |path| json!({"remove": {"path": path, "deletionTimestamp": 1_700_000_000_000_i64, "dataChange": true}}),
    ));
    actions.push(json!({"add": packed}));
    commit(&pairs, &actions);
    assert_eq!(scene.record(&[DELTA])["already_finished"], true);
    assert_eq!(names(&pairs).len(), 2, "a finished output is not taken back");
    // Its files next to the commits are not ours.
    std::fs::write(pairs.join("_delta_log/_last_checkpoint"), "{\"version\":1,\"size\":4}").unwrap();
    std::fs::write(pairs.join("_delta_log/00000000000000000001.checkpoint.parquet"), "PAR1").unwrap();
    std::fs::write(pairs.join("_delta_log/00000000000000000001.crc"), "{}").unwrap();
    assert!(scene.clean(&[]).contains("packed, 100%.parquet"), "only the data file is somebody else's");
    scene.run(&["--overwrite"]).success();
    let after = Table::read(&pairs);
    assert_eq!((after.version, after.removed.as_slice()), (2, &["packed, 100%.parquet".to_owned()][..]));
    assert_eq!(sorted(&after.rows()), sorted(&table(&scene.output(), "pairs")));
    assert!(pairs.join("packed, 100%.parquet").exists(), "a file of another program was removed");
    assert_eq!(names(&pairs).len(), 6);
    // A log whose begin was removed is read from its end.
    std::fs::remove_file(pairs.join("_delta_log/00000000000000000000.json")).unwrap();
    std::fs::remove_file(pairs.join("_delta_log/00000000000000000001.json")).unwrap();
    scene.run(&["--overwrite"]).success();
    assert!(names(&pairs).contains(&"00000000000000000003.json".to_owned()));
}

#[test]
fn a_log_of_another_program_goes_on_only_where_the_job_asks_and_the_protocol_is_known() {
    let scene = Scene::new();
    scene.run(&[]).success();
    let pairs = scene.output().join("pairs");
    std::fs::create_dir(pairs.join("_delta_log")).unwrap();
    let file = &manifest(&scene.output()).tables["pairs"].files[0];
    let add = json!({"add": {
        "path": &file.path["pairs/".len()..], "partitionValues": {}, "size": file.bytes, "modificationTime": 1,
        "dataChange": true
    }});
    let first = |protocol: Value, configuration| {
        let _ = std::fs::remove_file(pairs.join("_delta_log/00000000000000000000.json"));
        commit(&pairs, &[json!({"protocol": protocol}), meta_data(configuration), add.clone()]);
    };
    let plain = json!({"minReaderVersion": 1, "minWriterVersion": 2});
    let vectors = json!({
        "minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"],
        "writerFeatures": ["deletionVectors"]
    });
    for (protocol, configuration, said) in [
        (vectors, json!({}), "deletionVectors"),
        (json!({"minReaderVersion": 2, "minWriterVersion": 5}), json!({}), "writer version 5"),
        (plain.clone(), json!({"delta.appendOnly": "true"}), "delta.appendOnly"),
    ] {
        first(protocol, configuration);
        scene.run(&[DELTA]).refused(3, &[said, "pairs/_delta_log away", "is published"]);
        assert_eq!(names(&pairs).len(), 1);
    }
    std::fs::write(pairs.join("_delta_log/00000000000000000000.json"), "no commit").unwrap();
    scene.run(&[DELTA]).refused(3, &["is not a commit of a Delta log"]);
    // A job that does not ask for Delta tables leaves it alone, with the files that it names, or may name.
    let still_there = || assert!(pairs.join(&file.path["pairs/".len()..]).exists());
    const STAYS: &str = "not follow the result";
    scene.run(&["--overwrite"]).warned(&[STAYS]);
    assert_eq!(names(&pairs).len(), 1);
    first(plain, json!({"delta.logRetentionDuration": "interval 1 days"}));
    scene.run(&["--overwrite"]).warned(&[STAYS]);
    assert_eq!(names(&pairs).len(), 1);
    assert!(scene.clean(&[]).contains("not follow the result"));
    still_there();
    // It names a file that this program wrote and no other, so that a job which asks for it continues.
    scene.run(&[DELTA]).success();
    scene.clean(&[]);
    assert!(!pairs.join(&file.path["pairs/".len()..]).exists(), "no log names the file any more");
    let read = Table::read(&pairs);
    assert_eq!(read.version, 1);
    let id = json!(uuid::Uuid::nil().to_string());
    assert_eq!((&read.meta_data["id"], &read.meta_data["name"]), (&id, &json!("mine")));
    assert_eq!(read.meta_data["configuration"]["delta.logRetentionDuration"], "interval 1 days");
    assert_eq!(sorted(&read.rows()), sorted(&table(&scene.output(), "pairs")));
    check_schema(&read);
}

/// The table of another program, as this one finds it in the place of its own.
fn foreign_table(folder: &Path, rows: &[Document]) {
    std::fs::create_dir_all(folder.join("_delta_log")).unwrap();
    let mut actions =
        vec![json!({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}), meta_data(json!({}))];
    if !rows.is_empty() {
        let name = "part-00000-7d1c2e0a-0001-4c1d-8d5f-2d9d3a1c0b7e-c000.snappy.parquet";
        write_parquet(&folder.join(name), rows, 10);
        let size = std::fs::metadata(folder.join(name)).unwrap().len();
        let stats = json!({"numRecords": rows.len()}).to_string();
        actions.push(json!({"add": {
            "path": name, "partitionValues": {}, "size": size, "modificationTime": 1_700_000_000_000_i64,
            "dataChange": true, "stats": stats
        }}));
    }
    commit(folder, &actions);
}

#[test]
fn a_delta_table_of_another_program_is_neither_emptied_nor_taken_over() {
    for rows in [corpus(31, 12, 10), Vec::new()] {
        let scene = Scene::new();
        let documents = scene.output().join("documents");
        foreign_table(&documents, &rows);
        let log = documents.join("_delta_log/00000000000000000000.json");
        let before = (std::fs::read(&log).unwrap(), files(&scene.output()));
        for more in [&[DELTA][..], &[DELTA, "--overwrite"]] {
            let refused = ["documents is a Delta table that another program made", "output.url"];
            scene.run(more).refused(2, &refused);
            assert_eq!((std::fs::read(&log).unwrap(), files(&scene.output())), before);
        }
        // A result without a log of its own may be put next to it.
        scene.run(&[]).success();
        scene.run(&[DELTA]).refused(2, &["is published", "another program made"]);
        assert_eq!(std::fs::read(&log).unwrap(), before.0);
        if !rows.is_empty() {
            assert_eq!(Table::read(&documents).rows().num_rows(), rows.len());
        }
    }
}

/// A log of ours that another program raised to a protocol which this one does not know: nothing is computed, and nothing removed
/// that the log names.
#[test]
fn a_result_whose_log_cannot_be_continued_is_not_replaced() {
    let scene = Scene::new();
    scene.run(&[DELTA]).success();
    let pairs = scene.output().join("pairs");
    let vectors = json!({"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"],
        "writerFeatures": ["deletionVectors"]});
    commit(&pairs, &[json!({"protocol": vectors})]);
    let before = files(&scene.output());
    for more in [&["--overwrite"][..], &[DELTA, "--overwrite"]] {
        scene.run(more).refused(3, &["deletionVectors", "_delta_log away"]);
        assert_eq!(files(&scene.output()), before);
    }
    // Its beginning is gone, so its files are unknown: all files that it may name stay.
    std::fs::remove_file(pairs.join("_delta_log/00000000000000000000.json")).unwrap();
    let named = manifest(&scene.output()).tables["pairs"].files[0].path.clone();
    scene.run(&["--overwrite"]).warned(&["not follow the result"]);
    scene.clean(&[]);
    assert!(scene.output().join(named).exists());
}

#[test]
fn copies_of_commits_in_a_folder_of_a_log_are_no_commits() {
    let scene = Scene::new();
    scene.run(&[DELTA]).success();
    let log = scene.output().join("pairs/_delta_log");
    std::fs::create_dir(log.join("backup")).unwrap();
    std::fs::write(log.join("backup/00000000000000000007.json"), "{}").unwrap();
    scene.run(&[DELTA, "--overwrite"]).success();
    assert!(log.join("00000000000000000001.json").exists());
    assert!(!log.join("00000000000000000008.json").exists());
    assert!(log.join("backup/00000000000000000007.json").exists());
}

#[test]
fn clean_removes_only_unfinished_commits_of_a_log() {
    let scene = Scene::new();
    scene.run(&[DELTA]).success();
    let log = scene.output().join("pairs/_delta_log");
    std::fs::write(log.join(".resemblance-aB3dE6.tmp"), "{\"commitInfo\"").unwrap();
    std::fs::write(log.join("notes.txt"), "mine").unwrap();
    let said = scene.clean(&[]);
    assert!(said.starts_with("1 file, 13 bytes, removed") && said.contains("_delta_log/notes.txt"), "{said}");
    assert_eq!(names(&scene.output().join("pairs")), ["00000000000000000000.json", "notes.txt"]);
}
