//! Fields of structs and objects as columns.

use arrow::array::StructArray;

use super::*;

/// The rows with their columns in structs: doc {title, body} and meta {id, lang, of {stars}}; some structs are null.
fn nested(rows: &[Row], strings: fn(ArrayRef) -> ArrayRef) -> RecordBatch {
    let batch = batch(rows);
    let column = |name: &str| Arc::clone(batch.column_by_name(name).unwrap());
    let of = |fields: Vec<(&str, ArrayRef)>| -> ArrayRef {
        let pairs = fields
            .into_iter()
            .map(|(name, values)| (Arc::new(Field::new(name, values.data_type().clone(), true)), values));
        Arc::new(StructArray::from(pairs.collect::<Vec<_>>()))
    };
    let meta = of(vec![
        ("id", strings(column("id"))),
        ("lang", strings(column("lang"))),
        ("of", of(vec![("stars", column("stars"))])),
    ]);
    let doc = of(vec![("title", column("lang")), ("body", strings(column("text")))]);
    RecordBatch::try_from_iter_with_nullable([
        ("n", column("stars"), true),
        ("meta", meta, true),
        ("doc", doc, true),
    ])
    .unwrap()
}

fn nested_json(row: &Row) -> String {
    let Row { id, text, lang, stars } = row;
    json!({
        "n": stars, "meta": {"id": id, "lang": lang, "of": {"stars": stars}}, "doc": {"title": lang, "body": text}
    })
    .to_string()
}

const NAMES: [&str; 4] = [
    "source.id=meta.id",
    "source.text=doc.body",
    "source.columns=['meta.of.stars']",
    "source.group=meta.lang",
];
const CONDITION: &str = "source.where=meta.of.stars > 1 OR meta.lang = 'de'";

#[test]
fn fields_are_columns_for_every_key() {
    let all = rows(61, 150);
    let meets = |row: &&Row| row.stars.is_some_and(|stars| stars > 1) || row.lang == Some("de");
    let documents: Vec<Row> = all.iter().filter(meets).cloned().collect();
    let left_out = LeftOut { by_where: (all.len() - documents.len()) as u64, ..LeftOut::default() };
    for ending in ["parquet", "jsonl"] {
        let source = Source::new();
        std::fs::create_dir(source.path("in")).unwrap();
        match ending {
            "parquet" => {
                let large = |texts: ArrayRef| arrow::compute::cast(&texts, &DataType::LargeUtf8).unwrap();
                write_batch(&source.path("in/a.parquet"), &nested(&all[..60], |texts| texts), 20);
                write_batch(&source.path("in/b.parquet"), &nested(&all[60..], large), 20);
            }
            _ => {
                let lines = |rows: &[Row]| rows.iter().map(|row| nested_json(row) + "\n").collect::<String>();
                std::fs::write(source.path("in/a.jsonl"), lines(&all[..60])).unwrap();
                std::fs::write(source.path("in/b.jsonl"), lines(&all[60..])).unwrap();
            }
        }
        let sets = [&NAMES[..], &[CONDITION]].concat();
        source.check(&source.job(ending, "out", &sets), &documents, left_out, ending);
        let found = table(&source.path("out"), "documents");
        let [ids, stars, langs] = ["id", "meta.of.stars", "meta.lang"].map(|name| strings(&found, name));
        let carried: BTreeSet<_> = ids.into_iter().zip(stars).zip(langs).collect();
        let null = || "<null>".to_owned();
        let expected = documents.iter().map(|row| {
            let stars = row.stars.map_or_else(null, |n| n.to_string());
            ((row.id.clone(), stars), row.lang.map_or_else(null, str::to_owned))
        });
        assert_eq!(carried, expected.collect(), "{ending}");
    }
}

#[test]
fn a_column_whose_own_name_has_a_dot_wins() {
    let all = rows(62, 60);
    let source = Source::new();
    std::fs::create_dir(source.path("in")).unwrap();
    let nested = nested(&all, |texts| texts);
    let own: ArrayRef =
        Arc::new(StringArray::from_iter_values(all.iter().map(|row| format!("own {}", row.id))));
    let mut fields = nested.schema().fields().to_vec();
    fields.push(Arc::new(Field::new("meta.id", DataType::Utf8, true)));
    let columns = [nested.columns(), &[own]].concat();
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns);
    write_batch(&source.path("in/a.parquet"), &batch.unwrap(), 20);
    run(&source.job("parquet", "out", &NAMES)).unwrap();
    assert_eq!(ids(&source.path("out")), all.iter().map(|row| format!("own {}", row.id)).collect());
}

#[test]
fn fields_that_do_not_exist_or_hold_no_text_are_refused() {
    let source = Source::new();
    std::fs::create_dir(source.path("in")).unwrap();
    write_batch(&source.path("in/a.parquet"), &nested(&rows(63, 20), |texts| texts), 20);
    for (set, expected) in [
        ("source.text=doc.text", &["no column `doc.text`", "`doc.body`", "`meta.of.stars`"][..]),
        ("source.text=doc", &["text column `doc`", "not text"]),
        ("source.text=doc.body.more", &["no column `doc.body.more`"]),
        ("source.columns=['meta.of']", &["column `meta.of`", "cannot carry"]),
        ("source.where=meta.of.moons > 2", &["no column `meta.of.moons`", "`meta.of.stars`"]),
    ] {
        let sets = [&["source.id=meta.id", "source.text=doc.body"][..], &[set]].concat();
        let said = run(&source.job("parquet", "out", &sets)).unwrap_err().one_line();
        assert!(expected.iter().all(|part| said.contains(part)), "{set}: {said}");
    }
}

#[test]
fn fields_are_found_without_a_job() {
    let source = Source::new();
    let all = rows(64, 30);
    std::fs::create_dir(source.path("in")).unwrap();
    write_batch(&source.path("in/a.parquet"), &nested(&all, |texts| texts), 20);
    let lines = ["#   doc.title ", "#   meta.of.stars ", "\ntext = \"doc.body\"\n"];
    program!["init", source.path("in"), "-o", "-"].assert().shown(&lines);
    let found = |options: &[&str]| {
        let find = ["--json", "--unit", "word", "-k", "3", "--id", "meta.id", "--threshold", "0.5"];
        program!["find", source.path("in")].args(find).args(options).assert().shown(&[])
    };
    let pairs = found(&[]);
    assert!(!pairs.is_empty());
    assert_eq!(pairs, found(&["--text", "doc.body"]));
}
