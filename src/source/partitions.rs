//! Partition columns: values that the path of a file has, as in `day=2026-11-01/part.parquet`, or that the log of its table has.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;

/// What Hive writes for a missing value.
const MISSING: &str = "__HIVE_DEFAULT_PARTITION__";

/// The partition columns of a file and their values, which are null where they are missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Partitions(BTreeMap<String, Option<String>>);

impl Partitions {
    /// Those that the folders of a path name as `NAME=VALUE`. Special characters are percent-encoded; of several folders with one
    /// name, the last counts.
    pub(super) fn of_path(path: &str) -> Self {
        let Some((folders, _)) = path.rsplit_once('/') else { return Self::default() };
        let decoded = |text: &str| percent_decode_str(text).decode_utf8().ok().map(String::from);
        let column = |folder: &str| {
            let (name, value) = folder.split_once('=')?;
            let name = decoded(name).filter(|name| !name.is_empty())?;
            let value = decoded(value)?;
            Some((name, (value != MISSING).then_some(value)))
        };
        Self(folders.split('/').filter_map(column).collect())
    }

    /// Those of a Delta table, with the values of the log, where an empty one is missing.
    pub(super) fn of_log(columns: &[String], values: &BTreeMap<String, Option<String>>) -> Self {
        let value = |name: &String| values.get(name).cloned().flatten().filter(|value| !value.is_empty());
        Self(columns.iter().map(|name| (name.clone(), value(name))).collect())
    }

    /// The value of a column; `None` if the file has no such column.
    pub(super) fn value(&self, name: &str) -> Option<Option<&str>> {
        self.0.get(name).map(Option::as_deref)
    }

    /// The names of the columns.
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_a_path_are_columns() {
        let found = Partitions::of_path(
            "s3://b/t=1/day=2026-11-01/h%3D=a%2Fb/n=__HIVE_DEFAULT_PARTITION__/t=2/x=9.csv",
        );
        let value = |name| found.value(name);
        assert_eq!(value("day"), Some(Some("2026-11-01")));
        assert_eq!(value("h="), Some(Some("a/b")));
        assert_eq!(value("n"), Some(None));
        assert_eq!(value("t"), Some(Some("2")));
        assert_eq!(value("x"), None);
        assert_eq!(found.names().count(), 4);
        assert_eq!(Partitions::of_path("a=1.csv"), Partitions::default());
    }

    #[test]
    fn a_log_has_values() {
        let log = [("day".to_owned(), Some("1".to_owned())), ("hour".to_owned(), Some(String::new()))];
        let columns = ["day", "hour", "minute"].map(str::to_owned);
        let found = Partitions::of_log(&columns, &log.into());
        assert_eq!(
            columns.each_ref().map(|name| found.value(name)),
            [Some(Some("1")), Some(None), Some(None)]
        );
    }
}
