//! Single stages, compared with naive versions of what they do.

use arrow::array::UInt64Array;
use arrow::datatypes::UInt64Type;
use resemblance::frames;

use crate::support::*;

/// A 64-bit key collision cannot be waited for, so the stage is given one.
#[test]
fn two_ids_with_one_key_are_told_from_one_id_that_comes_twice() {
    let engine = EngineSettings { threads: 2, ..EngineSettings::local(1 << 30) };
    let context = session::session(&engine).unwrap();
    let strings = |values: &[&str]| Arc::new(StringArray::from(values.to_vec())) as ArrayRef;
    let batch = RecordBatch::try_from_iter([
        ("source", strings(&["b", "a", "a", "a", "a"])),
        ("position", Arc::new(UInt64Array::from(vec![0, 9, 10, 2, 3])) as ArrayRef),
        ("id", strings(&["x", "x", "y", "z", "x"])),
        ("text", strings(&["one two three"; 5])),
        ("doc", Arc::new(UInt64Array::from(vec![1, 1, 1, 2, 1])) as ArrayRef),
        ("reason", Arc::new(StringArray::from(vec![None, None, None, None, Some("empty_text")])) as ArrayRef),
    ])
    .unwrap();
    let shingle = job(Path::new("in"), Path::new("out"), &[]).shingle;
    let found = frames::documents::duplicates(context.read_batch(batch).unwrap(), &shingle).unwrap();
    let mut rows = BTreeSet::new();
    for batch in block_on(found.collect()).unwrap() {
        let text = |i: usize| batch.column(i).as_string::<i32>();
        let positions = batch.column(1).as_primitive::<UInt64Type>();
        rows.extend(
            (0..batch.num_rows())
                .map(|r| (text(0).value(r).to_owned(), positions.value(r), text(2).value(r).to_owned())),
        );
    }
    // The first that can be compared is row 9 of `a`; row 3 is rejected for a reason of its own.
    let expected = [("a", 10, "key_collision"), ("b", 0, "duplicate_id")];
    assert_eq!(
        rows,
        expected.map(|(source, row, reason)| (source.to_owned(), row, reason.to_owned())).into()
    );
}
