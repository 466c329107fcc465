//! An output as other programs see it: types that every engine reads, where each text is, ids of the source's own type, and the
//! columns of the source that the job names.

use arrow::array::{
    Array, BooleanArray, Date32Array, Float32Array, Int8Array, Int32Array, ListArray,
    TimestampMicrosecondArray, UInt32Array, UInt64Array,
};
use arrow::datatypes::{Int32Type, Int64Type, TimeUnit};
use resemblance::kernel::hash::document_key;
use resemblance::schema::{IdType, SourceColumn};

use crate::support::*;

/// Ids whose order as numbers is not that of their texts.
const IDS: [i64; 6] = [9, 10, 100, -3, 2_000_000_000, 11];

/// Three documents that are nearly alike, two copies, and one that is too short.
fn texts() -> [String; 6] {
    let long = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen";
    [
        long.to_owned(),
        format!("{long} fifteen"),
        format!("{long} sixteen seventeen"),
        "a b c d e f".to_owned(),
        "a b c d e f".to_owned(),
        "short".to_owned(),
    ]
}

fn write(path: &Path, columns: Vec<(&str, ArrayRef)>) {
    write_batch(path, &RecordBatch::try_from_iter(columns).unwrap(), 100);
}

fn text_column() -> ArrayRef {
    Arc::new(StringArray::from_iter_values(texts()))
}

fn int64s(batch: &RecordBatch, column: &str) -> Vec<Option<i64>> {
    batch[column].as_primitive::<Int64Type>().iter().collect()
}

fn sorted(batch: &RecordBatch, columns: [&str; 2]) -> Vec<(Option<i64>, Option<i64>)> {
    let [a, b] = columns.map(|column| int64s(batch, column));
    let mut rows: Vec<_> = a.into_iter().zip(b).collect();
    rows.sort();
    rows
}

#[test]
fn no_table_has_an_unsigned_column() {
    let path = paths();
    let source = path("in.parquet");
    write_parquet(&source, &corpus(31, 60, 30), 20);
    for (name, set) in [("hashes", "name=x"), ("dictionary", "shingle.hash=dictionary")] {
        let output = path(name);
        run(&job(&source, &output, &[set, "output.keep=shingles"])).unwrap();
        for (table, batch) in manifest(&output).tables.keys().zip(tables(&output)) {
            for field in batch.schema().fields() {
                let said = field.data_type().to_string();
                assert!(!said.contains("UInt"), "{table}.{} is {said}", field.name());
            }
        }
        let documents = table(&output, "documents");
        let keys = int64s(&documents, "doc");
        for (id, key) in strings(&documents, "id").iter().zip(&keys) {
            assert_eq!(key.unwrap().cast_unsigned(), document_key(id));
        }
        assert!(keys.iter().flatten().any(|key| *key < 0), "no key has the highest bit set");
        let lists: &ListArray = documents.column_by_name("shingles").unwrap().as_list();
        for list in lists.iter() {
            let list = list.unwrap();
            let list = list.as_primitive::<Int64Type>().values();
            assert!(list.is_sorted_by(|a, b| a.cast_unsigned() < b.cast_unsigned()));
        }
    }
}

/// Users who query documents/ with SQL call the functions on the stored columns.
#[test]
fn sql_functions_take_the_lists_that_are_stored() {
    let path = paths();
    let (source, output) = (path("in.parquet"), path("out"));
    write_parquet(&source, &corpus(32, 60, 30), 20);
    run(&job(&source, &output, &["output.keep=shingles"])).unwrap();
    assert!(table(&output, "pairs").num_rows() > 0);
    let query = "SELECT count(*) AS pairs, \
        sum(CASE WHEN abs(jaccard(a.shingles, b.shingles) - p.jaccard) < 1e-12 \
            AND abs(containment(a.shingles, b.shingles) - p.containment_a) < 1e-12 \
            AND minhash_similarity(a.signature, b.signature) = p.estimate \
            AND minhash(a.shingles, 128, 42) = arrow_cast(minhash(a.shingles, 128, 42), 'List(UInt32)') \
            AND minhash_similarity(short_signature(minhash(a.shingles, 128, 42)), a.signature) = 1.0 \
            AND lsh_bands(a.signature, 4, 2) = lsh_bands(short_signature(minhash(a.shingles, 128, 42)), 4, 2) \
            THEN 1 ELSE 0 END) AS agree \
        FROM pairs p JOIN documents a ON a.id = p.id_a JOIN documents b ON b.id = p.id_b";
    let said = resemblance().arg("sql").arg(&output).arg(query).arg("--json").assert().shown(&[]);
    let row: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(row["pairs"], row["agree"], "{said}");
    assert_eq!(row["pairs"], table(&output, "pairs").num_rows(), "{said}");
}

/// Rows of a table with every id as text, for a comparison with another run.
fn cells(output: &Path, name: &str, columns: &[&str]) -> Vec<Vec<String>> {
    let files =
        manifest(output).tables[name].files.iter().map(|file| output.join(&file.path)).collect::<Vec<_>>();
    let mut rows: Vec<_> = files.iter().flat_map(|file| crate::support::cells(file, columns)).collect();
    rows.sort();
    rows
}

#[test]
fn an_integer_id_is_a_number_in_every_table() {
    let path = paths();
    let of_type: [(&str, ArrayRef); 3] = [
        ("int64", Arc::new(Int64Array::from_iter_values(IDS))),
        ("int32", Arc::new(Int32Array::from_iter_values(IDS.map(|id| id as i32)))),
        ("text", Arc::new(StringArray::from_iter_values(IDS.map(|id| id.to_string())))),
    ];
    for (name, ids) in of_type {
        let source = path(&format!("{name}.parquet"));
        write(&source, vec![("id", ids), ("text", text_column())]);
        for (to, set) in [("", "output.expand=all"), ("star", "output.expand=star")] {
            let sets = [set, "output.keep=shingles"];
            run(&job(&source, &path(&format!("{name}{to}")), &sets)).unwrap();
        }
    }
    for (name, batch) in manifest(&path("int32")).tables.keys().zip(tables(&path("int32"))) {
        for field in batch.schema().fields().iter().filter(|field| field.name().contains("id")) {
            assert_eq!(*field.data_type(), DataType::Int64, "{name}.{}", field.name());
        }
    }
    for name in ["int64", "int32"] {
        for star in ["", "star"] {
            let output = path(&format!("{name}{star}"));
            assert_eq!(manifest(&output).source.id, IdType::Int64);
            let pair = |a: i64, b: i64| (Some(a), Some(b));
            let expected = [pair(-3, 2_000_000_000), pair(9, 10), pair(9, 100), pair(10, 100)];
            assert_eq!(sorted(&table(&output, "pairs"), ["id_a", "id_b"]), expected, "{name}{star}");
            let of = sorted(&table(&output, "clusters"), ["id", "cluster_id"]);
            let expected = [pair(-3, -3), pair(9, 9), pair(10, 9), pair(100, 9), pair(2_000_000_000, -3)];
            assert_eq!(of, expected, "{name}{star}");
            assert_eq!(int64s(&table(&output, "rejects"), "id"), [Some(11)]);
        }
    }
    // Text ids are as they were: "10" before "9".
    let text = path("text");
    assert_eq!(manifest(&text).source.id, IdType::Utf8);
    assert!(cells(&text, "pairs", &["id_a", "id_b"]).contains(&vec!["10".into(), "9".into()]));
    // For every type, keys and sketches are computed from the id's decimal text.
    let sketch = ["id", "position", "doc", "shingle_count"];
    assert_eq!(cells(&text, "documents", &sketch), cells(&path("int32"), "documents", &sketch));
    let lists = |name: &str| {
        let rows = table(&path(name), "documents");
        let lists = rows["shingles"].as_list::<i32>().iter().map(Option::unwrap).collect::<Vec<_>>();
        strings(&rows, "id").into_iter().zip(lists).collect::<BTreeMap<_, _>>()
    };
    assert_eq!(lists("text"), lists("int32"));
    let signatures = |name: &str| {
        let rows = table(&path(name), "documents");
        let signatures = signature_values(rows.column_by_name("signature").unwrap());
        strings(&rows, "id").into_iter().zip(signatures).collect::<BTreeMap<_, _>>()
    };
    assert_eq!(signatures("text"), signatures("int32"));
}

#[test]
fn neighbors_are_asked_for_by_number() {
    let path = paths();
    let (source, output) = (path("in.parquet"), path("out"));
    let ids = Arc::new(Int64Array::from_iter_values(IDS));
    write(&source, vec![("id", ids), ("text", text_column())]);
    run(&job(&source, &output, &[])).unwrap();
    let ask = |id: &str| resemblance().arg("neighbors").arg(&output).args(["--json", "--id", id]).assert();
    let found = |id: &str| -> Vec<Value> {
        let lines = ask(id).shown(&[]);
        lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].clone()).collect()
    };
    assert_eq!(found("9"), [10, 100]);
    // Leading zeros are allowed, and the document itself is never a neighbor.
    assert_eq!(found("009"), [10, 100]);
    assert_eq!(found("-3"), [2_000_000_000]);
    ask("12").refused(2, &["no document has the id `12`; near it are `10`"]);
    ask("nine").refused(2, &["`nine`", "whole numbers"]);
    ask("11").refused(2, &["was rejected", "position 5"]);
    let query = "SELECT id_a + 1 AS next FROM pairs WHERE id_b = 10";
    program!["sql", &output, query, "--json"].assert().success().stdout("{\"next\":10}\n");
}

#[test]
fn a_number_that_comes_twice_is_named() {
    let path = paths();
    let (source, output) = (path("in.parquet"), path("out"));
    let ids = Arc::new(UInt32Array::from(vec![Some(7), Some(7), None, Some(8), Some(9), Some(10)]));
    write(&source, vec![("id", ids), ("text", text_column())]);
    fails(run(&job(&source, &output, &[])), Kind::Input, &["`7` is the id of several documents"]);
    run(&job(&source, &output, &["source.duplicate_ids=reject"])).unwrap();
    let rejects = table(&output, "rejects");
    let found: Vec<_> = int64s(&rejects, "id").into_iter().zip(strings(&rejects, "reason")).collect();
    let expected = [(Some(7), "duplicate_id"), (None, "missing_id"), (Some(10), "too_short")];
    assert_eq!(found, expected.map(|(id, reason)| (id, reason.to_owned())));
}

#[test]
fn files_agree_about_the_type_of_ids() {
    let path = paths();
    let input = path("in");
    std::fs::create_dir(&input).unwrap();
    let ids = |from: i64| IDS.map(|id| (id + from).rem_euclid(1_000_000_007));
    let signed = Arc::new(Int64Array::from_iter_values(ids(0)));
    write(&input.join("a.parquet"), vec![("id", signed), ("text", text_column())]);
    let unsigned = UInt32Array::from_iter_values(ids(1_000).map(|id| id as u32));
    write(&input.join("b.parquet"), vec![("text", text_column()), ("id", Arc::new(unsigned))]);
    // Integers of any width that 64 bits with a sign hold are one type.
    let output = path("out");
    run(&job(&input, &output, &[])).unwrap();
    assert_eq!(manifest(&output).source.id, IdType::Int64);
    let found = int64s(&table(&output, "documents"), "id").into_iter().flatten();
    let expected: BTreeSet<i64> = [ids(0), ids(1_000)].iter().flat_map(|ids| ids[..5].to_vec()).collect();
    assert!(found.eq(expected));
    // An id that does not fit 64 bits with a sign is text, and so is an id of several columns.
    for (name, sets, ids) in [
        ("uint64", &[][..], Arc::new(UInt64Array::from_iter_values(IDS.map(|id| id as u64))) as ArrayRef),
        ("two", &["source.id=['id', 'text']"], Arc::new(Int64Array::from_iter_values(IDS))),
    ] {
        let (source, output) = (path(&format!("{name}.parquet")), path(name));
        write(&source, vec![("id", ids), ("text", text_column())]);
        run(&job(&source, &output, sets)).unwrap();
        assert_eq!(manifest(&output).source.id, IdType::Utf8, "{name}");
    }
    let first = &strings(&table(&path("uint64"), "documents"), "id")[0];
    assert!(first.parse::<u64>().is_ok(), "{first}");
    write(&input.join("c.parquet"), vec![("id", text_column()), ("text", text_column())]);
    let said = ["`id`", "Int64 in", "a.parquet", "Utf8 in", "c.parquet"];
    fails(run(&job(&input, &path("mixed"), &[])), Kind::Input, &said);
}

/// One column of each kind that is carried, and under which type.
fn many() -> Vec<(&'static str, ArrayRef, DataType)> {
    let zone = TimestampMicrosecondArray::from_iter_values(0..6).with_timezone("UTC");
    let titles = StringArray::from(vec![Some("a"), None, Some("c"), Some("d"), None, Some("f")]);
    let reasons = StringArray::from_iter_values(["r0", "r1", "r2", "r3", "r4", "r5"]);
    let stars = Float32Array::from_iter_values([0.5, 1.5, 2.5, 3.5, 4.5, 5.5]);
    let good = BooleanArray::from(vec![true, false, true, false, true, false]);
    let large = UInt64Array::from_iter_values(u64::MAX - 5..=u64::MAX);
    vec![
        ("title", Arc::new(titles), DataType::Utf8),
        // Names that this program itself uses on the way.
        ("reason", Arc::new(reasons), DataType::Utf8),
        ("buckets", Arc::new(Int8Array::from_iter_values(-3..3)), DataType::Int8),
        ("stars", Arc::new(stars), DataType::Float32),
        ("good", Arc::new(good), DataType::Boolean),
        ("day", Arc::new(Date32Array::from_iter_values(-1..5)), DataType::Date32),
        ("when", Arc::new(zone), DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))),
        ("small", Arc::new(UInt32Array::from_iter_values(u32::MAX - 5..=u32::MAX)), DataType::Int64),
        ("large", Arc::new(large), DataType::Decimal128(20, 0)),
    ]
}

#[test]
fn columns_of_the_source_are_carried_into_documents() {
    let path = paths();
    let source = path("in.parquet");
    let mut columns: Vec<(&str, ArrayRef)> =
        vec![("id", Arc::new(Int64Array::from_iter_values(IDS))), ("text", text_column())];
    columns.extend(many().into_iter().map(|(name, array, _)| (name, array)));
    write(&source, columns);
    let names: Vec<&str> = many().iter().map(|(name, ..)| *name).chain(["text"]).collect();
    let set = format!("source.columns={names:?}");
    for (to, more) in [
        ("plain", "name=x"),
        ("twice", "source.duplicate_ids=reject"),
        ("dictionary", "shingle.hash=dictionary"),
    ] {
        let output = path(to);
        run(&job(&source, &output, &[&set, more])).unwrap();
        let rows = table(&output, "documents");
        let own =
            "id source position origin_number doc shingle_count set_hash_0 set_hash_1 signature bucket_tags";
        let own: Vec<&str> = own.split(' ').collect();
        let found: Vec<_> = rows.schema().fields().iter().map(|field| field.name().clone()).collect();
        assert_eq!(found, [&own[..], &names].concat(), "{to}");
        let positions = int64s(&rows, "position");
        for (name, array, data_type) in many() {
            let expected = arrow::compute::cast(&array, &data_type).unwrap();
            let carried = rows.column_by_name(name).unwrap();
            assert_eq!(*carried.data_type(), data_type, "{to} {name}");
            for (row, position) in positions.iter().enumerate() {
                let position = position.unwrap() as usize;
                assert_eq!(&carried.slice(row, 1), &expected.slice(position, 1), "{to} {name} {position}");
            }
        }
        for (text, position) in strings(&rows, "text").iter().zip(&positions) {
            assert_eq!(*text, texts()[position.unwrap() as usize]);
        }
        assert_eq!(strings(&table(&output, "rejects"), "reason"), ["too_short"]);
        let told = manifest(&output).source.columns;
        assert_eq!(told[0], SourceColumn { name: "title".into(), data_type: DataType::Utf8 });
        let query = "SELECT title, reason, large FROM documents WHERE position = 2";
        let shown = program!["sql", &output, query, "--json"].assert().success();
        shown.stdout("{\"title\":\"c\",\"reason\":\"r2\",\"large\":18446744073709551612}\n");
    }
    program!["neighbors", path("plain"), "--id", "9"].assert().success();
}

#[test]
fn columns_that_cannot_be_carried_are_named() {
    let path = paths();
    let (source, output) = (path("in.parquet"), path("out"));
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>((0..6).map(|i| Some([Some(i)])));
    let ids = Arc::new(Int64Array::from_iter_values(IDS)) as ArrayRef;
    write(&source, vec![("id", ids.clone()), ("text", text_column()), ("tags", Arc::new(lists))]);
    for (set, parts) in [
        ("['Doc', 'DOC']", ["`DOC`", "twice"]),
        ("['source', 'source_']", ["`source` and `source_`", "are both"]),
        ("['title', 'text', 'title']", ["`title`", "twice"]),
        ("['']", ["source.columns", "is empty"]),
        ("['titel']", ["`titel`", "`text`"]),
        ("['tags']", ["`tags`", "List(Int32)"]),
    ] {
        let resolved = resolve(&job_text(&source, &output), &[&format!("source.columns={set}")]);
        fails(resolved.and_then(|job| run(&job)), Kind::Job, &parts);
    }
    let two = path("two");
    std::fs::create_dir(&two).unwrap();
    for (name, stars) in [("a.parquet", ids.clone()), ("b.parquet", text_column())] {
        write(&two.join(name), vec![("id", ids.clone()), ("text", text_column()), ("stars", stars)]);
    }
    let ran = run(&job(&two, &output, &["source.columns=stars"]));
    fails(ran, Kind::Input, &["`stars`", "a.parquet", "b.parquet"]);
}

#[test]
fn an_output_of_another_format_is_refused_with_what_to_do() {
    let scene = Scene::new(&[]).with_job("in.parquet", &corpus(34, 30, 30));
    let (job, shown, out) = (scene.text("job.toml"), scene.text("out"), scene.path("out"));
    let (job, shown) = (job.as_str(), shown.as_str());
    resemblance().args(["run", job]).assert().success();
    let path = out.join("manifest.json");
    let whole: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(whole["format_version"], 17);
    let reading: [&[&str]; 3] =
        [&["sql", shown, "SELECT 1 FROM pairs"], &["neighbors", shown, "--id", "d00001"], &["run", job]];
    let others: [&[&str]; 2] = [&["verify", shown], &["clean", shown, "--dry-run"]];
    for format in [1, 16, 18] {
        let mut told = whole.clone();
        told["format_version"] = format.into();
        told["resemblance"] = "0.0.7".into();
        std::fs::write(&path, told.to_string()).unwrap();
        let found = format!("tables of format {format}, which resemblance 0.0.7 wrote");
        for arguments in reading {
            resemblance().args(arguments).assert().refused(3, &[&found, "format 17", "--overwrite"]);
        }
        // Bytes are bytes in every format, but a newer program may mean something else by its names.
        for arguments in others {
            let asked = resemblance().args(arguments).assert();
            match format {
                18 => drop(asked.refused(3, &["tables of format 18"])),
                _ => drop(asked.success()),
            }
        }
    }
    // The way out that the message names, which leaves nothing of the old result behind.
    let before = manifest(&out);
    resemblance().args(["run", job, "--overwrite"]).assert().success();
    resemblance().args(["sql", shown, "SELECT 1 FROM pairs"]).assert().success();
    for file in before.files() {
        assert!(!out.join(&file.path).exists(), "{} is left", file.path);
    }
}
