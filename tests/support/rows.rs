//! Checks a cluster's output: it has the rows of the same job in one process, and no other files.

use super::*;

/// The rows of every public table, sorted.
pub type Rows = BTreeMap<String, RecordBatch>;

pub fn rows(output: &Path) -> Rows {
    manifest(output).tables.keys().map(|name| (name.clone(), table(output, name))).collect()
}

/// The rows of a job that runs in one process of this machine.
pub fn rows_alone(job: &Path, output: &Path, sets: &[&str]) -> Rows {
    let mut command = resemblance();
    command.arg("run").arg(job).args(["--set", &format!("output.url={}", output.display())]);
    command.args(sets.iter().flat_map(|set| ["--set", *set])).assert().success();
    rows(output)
}

/// The rows of the same job over the same files, moved from the folder `from` to the folder `to`.
pub fn moved(rows: &Rows, from: &str, to: &str) -> Rows {
    let of_table = |rows: &RecordBatch| {
        let Ok(column) = rows.schema().index_of("source") else { return rows.clone() };
        let sources = strings(rows, "source").into_iter().map(|source| source.replacen(from, to, 1));
        let mut columns = rows.columns().to_vec();
        columns[column] = Arc::new(StringArray::from_iter_values(sources));
        RecordBatch::try_new(rows.schema(), columns).unwrap()
    };
    rows.iter().map(|(name, rows)| (name.clone(), of_table(rows))).collect()
}

/// Ends the test where an output has other rows than `expected`, or files that its manifest does not name.
pub fn assert_rows(output: &Path, expected: &Rows, what: &str) {
    let found = rows(output);
    let names = |rows: &Rows| rows.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&found), names(expected), "tables after {what}");
    for (name, expected) in expected {
        let found = &found[name];
        let counts = (found.num_rows(), expected.num_rows());
        assert_eq!(counts.0, counts.1, "rows of {name} after {what}");
        let differs = |&row: &usize| found.slice(row, 1) != expected.slice(row, 1);
        if let Some(row) = (0..counts.0).find(differs) {
            let (found, expected) = (found.slice(row, 1), expected.slice(row, 1));
            panic!("row {row} of {name} after {what}: {found:?} in place of {expected:?}");
        }
    }
    let left = orphans(output);
    assert!(left.is_empty(), "files that no manifest names after {what}: {left:?}");
}

/// Files of a finished output that its manifest does not name.
fn orphans(output: &Path) -> BTreeSet<PathBuf> {
    let named: BTreeSet<PathBuf> = manifest(output)
        .tables
        .values()
        .flat_map(|table| &table.files)
        .map(|file| output.join(&file.path))
        .chain([output.join("manifest.json")])
        .collect();
    files(output).into_keys().filter(|file| !named.contains(file)).collect()
}
