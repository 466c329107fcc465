//! The groups of a job: which ones removed documents are of, and what of each would stay and go.

use arrow::array::*;

use super::columns::parquet;
use super::*;

/// Groups that differ in what they hold: one without copies, and documents without a group.
const GROUPS: [Option<&str>; 4] = [Some("north"), Some("south"), Some(""), None];

/// Two files of documents. Every fourth row is of the same group; the first row cannot be compared.
fn applied() -> (Applied, Vec<Option<&'static str>>) {
    let applied = Applied::new();
    let mut documents = corpus(31, 160, 25);
    documents[0].1 = "short".into();
    let groups: Vec<Option<&str>> = (0..documents.len()).map(|row| GROUPS[row % 4]).collect();
    for (name, rows) in [("a.parquet", 0..100), ("b.parquet", 100..160)] {
        let column = |values: Vec<&str>| -> ArrayRef { Arc::new(StringArray::from(values)) };
        let columns: [(&str, ArrayRef); 3] = [
            ("id", column(documents[rows.clone()].iter().map(|d| d.0.as_str()).collect())),
            ("text", column(documents[rows.clone()].iter().map(|d| d.1.as_str()).collect())),
            ("shop", Arc::new(StringArray::from(groups[rows].to_vec()))),
        ];
        write_batch(
            &applied.path("in").join(name),
            &RecordBatch::try_from_iter_with_nullable(
                columns.into_iter().map(|(name, values)| (name, values, true)),
            )
            .unwrap(),
            40,
        );
    }
    applied.run("parquet", "id = \"id\"\ntext = \"text\"\ngroup = \"shop\"");
    (applied, groups)
}

impl Applied {
    /// The group of a row of the source.
    fn group(&self, groups: &[Option<&'static str>], place: &Place) -> Option<&'static str> {
        let first = if place.source.ends_with("b.parquet") { 100 } else { 0 };
        groups[first + place.position as usize]
    }

    fn removed(&self, to: &str) -> Vec<RecordBatch> {
        let manifest = result(&self.path(to));
        let files = manifest["removed"].as_array().unwrap();
        files.iter().map(|file| parquet(&self.path(to).join(file["path"].as_str().unwrap())).0).collect()
    }
}

#[test]
fn removed_documents_are_listed_with_groups() {
    let (applied, groups) = applied();
    applied.apply("to", &[]);
    let mut seen = 0;
    for rows in applied.removed("to") {
        let names: Vec<String> = rows.schema().fields().iter().map(|field| field.name().clone()).collect();
        assert_eq!(
            names,
            [
                "id",
                "source",
                "position",
                "origin_number",
                "kept_id",
                "kept_source",
                "kept_position",
                "kept_origin_number",
                "jaccard",
                "containment",
                "cluster_id",
                "group",
                "reason"
            ]
        );
        let column = rows.column_by_name("group").unwrap().as_string::<i32>().clone();
        let places = strings(&rows, "source").into_iter().zip(numbers(&rows, "position"));
        for ((source, position), group) in places.zip(&column) {
            assert_eq!(group, applied.group(&groups, &Place { source, position }));
            seen += 1;
        }
    }
    assert!(seen > 10 && seen == applied.gone().len());
}

#[test]
fn a_dry_run_counts_each_group() {
    let (applied, groups) = applied();
    let dry = |more: &[&str]| {
        resemblance().arg("apply").arg(applied.path("out")).arg("--dry-run").args(more).assert().shown(&[])
    };
    let counted: Value = serde_json::from_str(&dry(&["--json"])).unwrap();
    let gone = applied.gone();
    let mut expected = BTreeMap::<Option<&str>, (u64, u64)>::new();
    for place in (0..160).map(|row| match row {
        ..100 => applied.place("a.parquet", row),
        _ => applied.place("b.parquet", row - 100),
    }) {
        let counts = expected.entry(applied.group(&groups, &place)).or_default();
        // Rejected documents were not compared and belong to no group.
        counts.0 += u64::from(!applied.rejected().contains(&place));
        counts.1 += u64::from(gone.contains(&place));
    }
    let found: BTreeMap<Option<&str>, (u64, u64)> = counted["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|counts| {
            let number = |name: &str| counts[name].as_u64().unwrap();
            assert_eq!(number("documents"), number("removed") + number("kept"), "{counts}");
            (counts["group"].as_str(), (number("documents"), number("removed")))
        })
        .collect();
    assert_eq!(found, expected);
    assert_eq!(found[&Some("north")].0, 39, "the first row was rejected");
    let removed: u64 = found.values().map(|(_, removed)| removed).sum();
    assert!(removed > 10 && counted["removed"] == removed);
    let text = dry(&[]);
    assert!(text.contains("| group ") && text.contains("(without a group)"), "{text}");
    // Where all stay, nothing goes of any group; and a result that is written has no groups.
    let marked: Value = serde_json::from_str(&dry(&["--json", "--annotate"])).unwrap();
    assert!(marked["groups"].as_array().unwrap().iter().all(|counts| counts["removed"] == 0));
    assert!(applied.apply("to", &[])["groups"].is_null());
}

#[test]
fn without_groups_the_column_is_null() {
    let applied = Applied::new();
    write_parquet(&applied.path("in/a.parquet"), &corpus(16, 80, 15), 30);
    applied.run("parquet", "id = \"id\"\ntext = \"text\"");
    applied.apply("to", &[]);
    let removed = applied.removed("to");
    assert!(removed.iter().map(RecordBatch::num_rows).sum::<usize>() > 5);
    assert!(removed.iter().all(|rows| rows.column_by_name("group").unwrap().null_count() == rows.num_rows()));
    let mut command = resemblance();
    let counted = command.arg("apply").arg(applied.path("out")).args(["--dry-run", "--json"]).assert().json();
    assert!(counted["groups"].is_null());
}
