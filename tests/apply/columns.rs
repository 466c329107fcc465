//! Parquet: every column, type and row group of what stays is as it was.

use std::fs::File;

use arrow::array::*;
use arrow::compute::filter_record_batch;
use arrow::datatypes::*;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::{KeyValue, ParquetMetaData, SortingColumn};
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;

use super::*;

const GROUP: usize = 25;

/// Documents with columns of many types, with some null values.
pub fn batch(documents: &[Document]) -> RecordBatch {
    let count = documents.len();
    let some = |at: usize| at % 5 != 2;
    let lists = (0..count).map(|at| some(at).then(|| (0..at % 4).map(|n| (n != 1).then_some(n as i32))));
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>(lists);
    let words: DictionaryArray<Int32Type> =
        (0..count).map(|at| some(at).then_some(["x", "y", "z"][at % 3])).collect();
    let decimal: Decimal128Array = (0..count).map(|at| some(at).then_some(at as i128 * 1_000_003)).collect();
    let times: TimestampMicrosecondArray = (0..count).map(|at| some(at).then_some(at as i64 * 7)).collect();
    let inner = Arc::new(Field::new("deep", DataType::UInt64, true));
    let deep: ArrayRef =
        Arc::new((0..count).map(|at| some(at).then_some(u64::MAX - at as u64)).collect::<UInt64Array>());
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("n", Arc::new((0..count).map(|at| some(at).then_some(at as i64)).collect::<Int64Array>())),
        ("id", Arc::new(StringArray::from_iter_values(documents.iter().map(|d| &d.0)))),
        ("text", Arc::new(LargeStringArray::from_iter_values(documents.iter().map(|d| &d.1)))),
        ("list", Arc::new(list)),
        ("word", Arc::new(words)),
        ("decimal", Arc::new(decimal.with_precision_and_scale(25, 3).unwrap())),
        ("time", Arc::new(times.with_timezone("Europe/Berlin"))),
        ("struct", Arc::new(StructArray::from(vec![(inner, deep)]))),
        (
            "bytes",
            Arc::new((0..count).map(|at| some(at).then(|| vec![at as u8, 0, 255])).collect::<BinaryArray>()),
        ),
        ("flag", Arc::new((0..count).map(|at| some(at).then_some(at % 2 == 0)).collect::<BooleanArray>())),
        ("small", Arc::new((0..count).map(|at| Some(at as u8)).collect::<UInt8Array>())),
        ("day", Arc::new((0..count).map(|at| some(at).then_some(at as i32)).collect::<Date32Array>())),
        ("f", Arc::new((0..count).map(|at| Some(at as f32 / 3.0)).collect::<Float32Array>())),
    ];
    let nullable = columns.into_iter().map(|(name, values)| (name, values, name != "small"));
    let batch = RecordBatch::try_from_iter_with_nullable(nullable).unwrap();
    let fields: Vec<Field> = batch
        .schema()
        .fields()
        .iter()
        .map(|field| {
            let about = [("comment".to_owned(), format!("about {}", field.name()))];
            field.as_ref().clone().with_metadata(about.into())
        })
        .collect();
    let schema = Schema::new_with_metadata(fields, [("owner".to_owned(), "somebody".to_owned())].into());
    RecordBatch::try_new(Arc::new(schema), batch.columns().to_vec()).unwrap()
}

/// Writes documents so that each way in which files differ is there.
pub fn write(path: &Path, batch: &RecordBatch, arrow_schema: bool) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let pair = KeyValue::new("pipeline".to_owned(), "nightly \u{e9}".to_owned());
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(GROUP))
        .set_compression(Compression::SNAPPY)
        .set_column_compression(ColumnPath::from("text"), Compression::ZSTD(ZstdLevel::default()))
        .set_column_compression(ColumnPath::from("n"), Compression::UNCOMPRESSED)
        .set_column_dictionary_enabled(ColumnPath::from("id"), false)
        .set_column_bloom_filter_enabled(ColumnPath::from("id"), true)
        .set_sorting_columns(Some(vec![SortingColumn {
            column_idx: 0,
            descending: false,
            nulls_first: true,
        }]))
        .set_key_value_metadata(Some(vec![pair]))
        .build();
    let options = parquet::arrow::arrow_writer::ArrowWriterOptions::new()
        .with_properties(properties)
        .with_skip_arrow_metadata(!arrow_schema)
        .with_schema_root("documents".to_owned());
    let file = File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new_with_options(file, batch.schema(), options).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
}

pub fn metadata(path: &Path) -> Arc<ParquetMetaData> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap();
    Arc::clone(builder.metadata())
}

fn assert_like(kept: &Path, source: &Path, stays: impl Fn(usize) -> bool) {
    let (kept_rows, kept, rows, about) = (parquet(kept), metadata(kept), parquet(source), metadata(source));
    let mask: BooleanArray = (0..rows.num_rows()).map(|row| Some(stays(row))).collect();
    assert_eq!(kept_rows, filter_record_batch(&rows, &mask).unwrap(), "{source:?}");
    assert_eq!(kept_rows.schema(), rows.schema());
    let (of_kept, of_source) = (kept.file_metadata(), about.file_metadata());
    assert_eq!(of_kept.schema_descr().root_schema(), of_source.schema_descr().root_schema());
    assert_eq!(of_kept.key_value_metadata(), of_source.key_value_metadata());
    let groups = kept.row_groups();
    // The rows have an order, so no two groups become one.
    let starts = (0..rows.num_rows()).step_by(GROUP);
    let counts = starts
        .map(|start| (start..rows.num_rows().min(start + GROUP)).filter(|row| stays(*row)).count() as i64);
    let counts: Vec<i64> = counts.filter(|count| *count > 0).collect();
    assert_eq!(groups.iter().map(|group| group.num_rows()).collect::<Vec<_>>(), counts);
    for group in groups {
        let first = about.row_group(0);
        assert_eq!(group.sorting_columns(), first.sorting_columns());
        for (column, of_source) in group.columns().iter().zip(first.columns()) {
            let path = column.column_path();
            assert_eq!(column.compression_codec(), of_source.compression_codec(), "{path}");
            let found = column.bloom_filter_offset().is_some();
            assert_eq!(found, of_source.bloom_filter_offset().is_some(), "{path}");
            let dictionaries = [column, of_source].map(|column| column.dictionary_page_offset().is_some());
            assert_eq!(dictionaries[0], dictionaries[1], "{path}");
        }
    }
}

#[test]
fn parquet_keeps_every_column_and_its_row_groups() {
    let applied = Applied::new();
    let mut documents = corpus(8, 230, 25);
    for at in [17, 120] {
        documents[at].1 = "two words".into();
    }
    let names = ["day=1/a.parquet", "day=1/b.parquet", "day=2/a.parquet"];
    for (at, (name, part)) in names.into_iter().zip(documents.chunks(90)).enumerate() {
        write(&applied.path("in").join(name), &batch(part), at != 1);
    }
    applied.run("parquet", COLUMNS);
    let (gone, rejected) = (applied.gone(), applied.rejected());
    assert!(gone.len() > 30 && rejected.len() == 2);
    for rejects in ["keep", "separate"] {
        let to = applied.path(rejects);
        applied.apply(rejects, &["--rejects", rejects, "--memory", "128MiB"]);
        let manifest = result(&to);
        let counts = &manifest["counts"];
        assert_eq!(counts["read"].as_u64(), Some(230));
        assert_eq!(counts["removed"].as_u64(), Some(gone.len() as u64));
        for name in names {
            let is = |set: &BTreeSet<Place>, row| set.contains(&applied.place(name, row));
            let stays = |row| !is(&gone, row) && (rejects == "keep" || !is(&rejected, row));
            let source = applied.path("in").join(name);
            assert_like(&to.join(name), &source, stays);
            let apart = to.join("_resemblance/rejected").join(format!("{name}.rejected"));
            assert_eq!(
                apart.exists(),
                rejects == "separate" && rejected.iter().any(|p| p.source == source.to_str().unwrap())
            );
            if apart.exists() {
                assert_like(&apart, &source, |row| is(&rejected, row));
            }
        }
    }
}

#[test]
fn removed_documents_are_listed_with_kept_ones() {
    let applied = Applied::new();
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values((0..200).map(|at| at * 3 - 100)));
    let texts: ArrayRef =
        Arc::new(StringArray::from_iter_values(corpus(9, 200, 25).into_iter().map(|d| d.1)));
    let rows = RecordBatch::try_from_iter([("id", ids), ("text", texts)]).unwrap();
    write_batch(&applied.path("in/a.parquet"), &rows.slice(0, 120), 40);
    write_batch(&applied.path("in/b.parquet"), &rows.slice(120, 80), 40);
    applied.run("parquet", COLUMNS);
    applied.apply("to", &[]);
    let removed = applied.removed("to");
    assert_eq!(removed.schema().field(0).data_type(), &DataType::Int64);
    let pairs = table(&applied.path("out"), "pairs");
    let ids = strings(&pairs, "id_a").into_iter().zip(strings(&pairs, "id_b"));
    let shares = floats(&pairs, "containment_a").into_iter().zip(floats(&pairs, "containment_b"));
    let rows = ids.zip(floats(&pairs, "jaccard")).zip(shares);
    let of_pair: BTreeMap<(String, String), (f64, f64, f64)> =
        rows.map(|((ids, jaccard), (a, b))| (ids, (jaccard, a, b))).collect();
    let clustered = applied.clustered();
    let [jaccards, containments] = ["jaccard", "containment"].map(|name| optional(&removed, name));
    let (mut seen, mut direct) = (BTreeSet::new(), 0);
    let columns = ["id", "kept_id", "cluster_id", "source"].map(|name| strings(&removed, name));
    for (row, position) in numbers(&removed, "position").into_iter().enumerate() {
        let [id, kept, cluster, source] = [0, 1, 2, 3].map(|column| columns[column][row].clone());
        let place = Place { source, position };
        assert_eq!(clustered[&place], (cluster, kept.clone(), id.clone()));
        let as_a = of_pair.get(&(id.clone(), kept.clone())).map(|(jaccard, a, _)| (*jaccard, *a));
        let expected = as_a.or_else(|| of_pair.get(&(kept, id)).map(|(jaccard, _, b)| (*jaccard, *b)));
        assert_eq!(jaccards[row].zip(containments[row]), expected);
        direct += usize::from(expected.is_some());
        assert!(seen.insert(place));
    }
    assert!(direct > 20 && seen == applied.gone());
}

/// Stars leave pairs out, and with them the similarity of removed documents would be lost.
#[test]
fn removed_documents_are_listed_where_copies_are_stars() {
    let path = paths();
    write_parquet(&path("in.parquet"), &corpus(11, 300, 15), 100);
    let removed = |name: &str, set: &str| {
        let (output, to) = (path(name), path(&format!("{name}-applied")));
        run(&job(&path("in.parquet"), &output, &[set])).unwrap();
        resemblance().arg("apply").arg(&output).arg("--to").arg(&to).assert().success();
        result(&to);
        let rows = parquet(&to.join("_resemblance/removed"));
        let kept = strings(&rows, "kept_id").into_iter().zip(optional(&rows, "jaccard"));
        let kept = kept.zip(optional(&rows, "containment"));
        let rows: BTreeMap<_, _> = strings(&rows, "id").into_iter().zip(kept).collect();
        (rows, manifest(&output).counts.pairs_left_out)
    };
    let (expected, none) = removed("all", "output.max_expand=0");
    let (found, left_out) = removed("stars", "output.expand=star");
    assert!(none == 0 && left_out > 0);
    assert_eq!(found.len(), expected.len());
    for (id, ((kept, jaccard), containment)) in found {
        let ((expected_kept, expected_jaccard), expected_containment) = &expected[&id];
        assert_eq!((&kept, jaccard), (expected_kept, *expected_jaccard), "{id}");
        assert!(containment == *expected_containment || containment.is_none() && jaccard < Some(1.0), "{id}");
    }
}
