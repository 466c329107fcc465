//! The groups of a job: which ones removed documents are of, and what of each would stay and go.

use arrow::array::*;

use super::columns::parquet;
use super::sizes::{GROUPS, scene};
use super::*;

/// The group of a row of the source.
fn source_group(place: &Place) -> Option<&'static str> {
    let first = if place.source.ends_with("b.parquet") { 100 } else { 0 };
    GROUPS[(first + place.position as usize) % 4]
}

impl Applied {
    fn removed(&self, to: &str) -> Vec<RecordBatch> {
        let manifest = result(&self.path(to));
        let files = manifest["removed"].as_array().unwrap();
        files.iter().map(|file| parquet(&self.path(to).join(file["path"].as_str().unwrap())).0).collect()
    }
}

#[test]
fn removed_documents_are_listed_with_groups() {
    let applied = scene("parquet").applied;
    applied.apply("to", &[]);
    let mut seen = 0;
    for rows in applied.removed("to") {
        let names: Vec<String> = rows.schema().fields().iter().map(|field| field.name().clone()).collect();
        let expected = "id source position origin_number kept_id kept_source kept_position kept_origin_number jaccard \
             containment cluster_id group reason";
        assert_eq!(names.join(" "), expected);
        let column = rows.column_by_name("group").unwrap().as_string::<i32>().clone();
        let places = strings(&rows, "source").into_iter().zip(numbers(&rows, "position"));
        for ((source, position), group) in places.zip(&column) {
            assert_eq!(group, source_group(&Place { source, position }));
            seen += 1;
        }
    }
    assert!(seen > 10 && seen == applied.gone().len());
}

#[test]
fn a_dry_run_counts_each_group() {
    let applied = scene("parquet").applied;
    let dry =
        |more: &[&str]| program!["apply", applied.path("out"), "--dry-run"].args(more).assert().shown(&[]);
    let counted: Value = serde_json::from_str(&dry(&["--json"])).unwrap();
    let gone = applied.gone();
    let mut expected = BTreeMap::<Option<&str>, (u64, u64)>::new();
    for place in (0..160).map(|row| match row {
        ..100 => applied.place("a.parquet", row),
        _ => applied.place("b.parquet", row - 100),
    }) {
        let counts = expected.entry(source_group(&place)).or_default();
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
    let counted = program!["apply", applied.path("out"), "--dry-run", "--json"].assert().json();
    assert!(counted["groups"].is_null());
}
