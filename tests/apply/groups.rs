//! The groups of a job: which ones removed documents are of, and what of each would stay and go.

use arrow::array::*;

use super::sizes::{GROUPS, scene};
use super::*;

fn source_group(place: &Place) -> Option<&'static str> {
    let first = if place.source.ends_with("b.parquet") { 100 } else { 0 };
    GROUPS[(first + place.position as usize) % 4]
}

#[test]
fn removed_documents_are_listed_with_groups() {
    let applied = scene("parquet").applied;
    applied.apply("to", &[]);
    let rows = applied.removed("to");
    let expected = "id source position origin_number kept_id kept_source kept_position kept_origin_number jaccard \
         containment cluster_id group reason";
    assert_eq!(column_names(&rows).join(" "), expected);
    let places = strings(&rows, "source").into_iter().zip(numbers(&rows, "position"));
    for ((source, position), group) in places.zip(rows["group"].as_string::<i32>()) {
        assert_eq!(group, source_group(&Place { source, position }));
    }
    assert!(rows.num_rows() > 10 && rows.num_rows() == applied.gone().len());
}

#[test]
fn a_dry_run_counts_each_group_and_writes_nothing() {
    let applied = scene("parquet").applied;
    let to = applied.path("to");
    let counted = applied.counted(&["--to", to.to_str().unwrap()]);
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
    let text = applied.dry(&[]);
    for part in ["| group ", "(without a group)", "nothing was written"] {
        assert!(text.contains(part), "{text}");
    }
    // Where all stay, nothing goes of any group; and a result that is written has no groups.
    let marked = applied.counted(&["--annotate"]);
    assert!(marked["groups"].as_array().unwrap().iter().all(|counts| counts["removed"] == 0));
    assert!(counted["dry_run"] == true && !to.exists());
    let done = applied.apply("to", &[]);
    assert!(done["groups"].is_null());
    for count in ["read", "kept", "removed", "rejected"] {
        assert_eq!(counted[count], done[count], "{count}");
    }
}

#[test]
fn without_groups_the_column_is_null() {
    let applied = Applied::of_rows(&corpus(16, 80, 15));
    applied.apply("to", &[]);
    let removed = applied.removed("to");
    assert!(removed.num_rows() > 5 && removed["group"].null_count() == removed.num_rows());
    assert!(applied.counted(&[])["groups"].is_null());
}
