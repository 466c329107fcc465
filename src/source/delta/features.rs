//! What a Delta table asks of its readers, held against what this program does.

use super::action::{MetaData, Protocol};

/// Features that a reader of whole files keeps to, whatever the table does with them. Whether the first two are in use, the
/// files and the table's properties say.
const KNOWN: [&str; 4] = [DELETION_VECTORS, COLUMN_MAPPING, "timestampNtz", "vacuumProtocolCheck"];

const DELETION_VECTORS: &str = "deletionVectors";
const COLUMN_MAPPING: &str = "columnMapping";

/// The highest version of a reader that is known.
const READER_VERSION: u64 = 3;

/// Why a table cannot be read, and what can be done; `None` if it can.
pub(super) fn unknown(protocol: &Protocol, meta_data: &MetaData) -> Option<String> {
    let version = protocol.min_reader_version;
    if version > READER_VERSION {
        return Some(format!(
            "it asks for a reader of version {version}, and this program knows versions up to {READER_VERSION}: {COPY}"
        ));
    }
    let features = protocol.reader_features.iter().flatten();
    if let Some(feature) = features.into_iter().find(|name| !KNOWN.contains(&name.as_str())) {
        return Some(format!("it has the feature `{feature}`, which this program does not know: {COPY}"));
    }
    let mode = meta_data.configuration.get("delta.columnMapping.mode").cloned().flatten();
    let mode = mode.filter(|mode| mode != "none")?;
    Some(format!(
        "it has the feature `{COLUMN_MAPPING}` (delta.columnMapping.mode = {mode}), so its files have other column names: {COPY}"
    ))
}

/// What helps against most features.
const COPY: &str =
    "copy it into a table without that feature, or into Parquet files, by a program that can read it";

/// Why a table with a checkpoint of the second version cannot be read.
pub(super) fn second_checkpoint() -> String {
    "it has checkpoints of the feature `v2Checkpoint`, which this program does not know: set the table's property \
     delta.checkpointPolicy to classic, and let the program that writes it make a checkpoint"
        .to_owned()
}

/// Why a table cannot be read of whose file `path` some rows are deleted.
pub(super) fn deleted_rows(path: &str) -> String {
    format!(
        "it has the feature `{DELETION_VECTORS}`, and some rows of {path} are deleted by it: write its files again \
         without those rows, as REORG TABLE ... APPLY (PURGE) does in Spark"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(version: u64, features: &[&str], mode: Option<&str>) -> Option<String> {
        let features = features.iter().map(|name| (*name).to_owned()).collect();
        let mode = mode.map(|mode| ("delta.columnMapping.mode".to_owned(), Some(mode.to_owned())));
        unknown(
            &Protocol { min_reader_version: version, reader_features: Some(features) },
            &MetaData { partition_columns: Vec::new(), configuration: mode.into_iter().collect() },
        )
    }

    #[test]
    fn what_is_not_known_is_named() {
        for (version, features, mode, said) in [
            (4, &[][..], None, "version 4"),
            (3, &["typeWidening"], None, "`typeWidening`"),
            (3, &["timestampNtz", "v2Checkpoint"], None, "`v2Checkpoint`"),
            (2, &[], Some("name"), "`columnMapping`"),
            (3, &["columnMapping"], Some("id"), "`columnMapping`"),
        ] {
            let found = of(version, features, mode).unwrap();
            assert!(found.contains(said) && found.contains("copy"), "{found}");
        }
    }

    #[test]
    fn a_feature_that_is_not_in_use_is_no_obstacle() {
        assert_eq!(of(1, &[], None), None);
        assert_eq!(of(2, &[], Some("none")), None);
        assert_eq!(of(3, &["columnMapping", "deletionVectors", "timestampNtz"], None), None);
    }
}
