//! Single stages, compared with naive versions of what they do.

use arrow::array::UInt64Array;
use resemblance::frames;

use crate::support::*;

/// A 64-bit key collision cannot be waited for, so the stage is given one.
#[test]
fn two_ids_with_one_key_are_told_from_one_id_that_comes_twice() {
    let engine = EngineSettings { threads: 2, ..EngineSettings::local(1 << 30) };
    let context = session::session(&engine).unwrap();
    let strings = |values: &[&str]| Arc::new(StringArray::from(values.to_vec())) as ArrayRef;
    let numbers = |values: &[u64]| Arc::new(UInt64Array::from(values.to_vec())) as ArrayRef;
    let batch = RecordBatch::try_from_iter([
        ("source", strings(&["b", "a", "a", "a", "a"])),
        ("position", numbers(&[0, 9, 10, 2, 3])),
        ("id", strings(&["x", "x", "y", "z", "x"])),
        ("text", strings(&["one two three"; 5])),
        ("doc", numbers(&[1, 1, 1, 2, 1])),
        ("reason", Arc::new(StringArray::from(vec![None, None, None, None, Some("empty_text")])) as ArrayRef),
    ])
    .unwrap();
    let shingle = job(Path::new("in"), Path::new("out"), &[]).shingle;
    let found = frames::documents::duplicates(context.read_batch(batch).unwrap(), &shingle).unwrap();
    let mut rows = BTreeSet::new();
    for batch in block_on(found.collect()).unwrap() {
        let columns = [0, 1, 2].map(|column| cast(batch.column(column), &DataType::Utf8).unwrap());
        let row = |row| columns.each_ref().map(|column| column.as_string::<i32>().value(row).to_owned());
        rows.extend((0..batch.num_rows()).map(row));
    }
    // The first that can be compared is row 9 of `a`; row 3 is rejected for a reason of its own.
    let expected = [["a", "10", "key_collision"], ["b", "0", "duplicate_id"]];
    assert_eq!(rows, expected.map(|row| row.map(str::to_owned)).into());
}
