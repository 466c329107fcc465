//! The versions and features of the protocol that this program supports, as a reader and as a writer.

use arrow::datatypes::Schema;

use super::action::{MetaData, Protocol};
use super::schema::has_ntz;

const DELETION_VECTORS: &str = "deletionVectors";
const COLUMN_MAPPING: &str = "columnMapping";
const TIMESTAMP_NTZ: &str = "timestampNtz";

/// Features that a reader of whole files supports. A table that has the first two may still not use them: its files and
/// properties decide.
const READ: [&str; 4] = [DELETION_VECTORS, COLUMN_MAPPING, TIMESTAMP_NTZ, "vacuumProtocolCheck"];

/// Features of a table that a writer of whole tables supports.
const WRITTEN: [&str; 3] = [TIMESTAMP_NTZ, "appendOnly", "invariants"];

/// The highest supported version of readers.
const READER_VERSION: u32 = 3;

/// The advice for most features.
const COPY: &str =
    "copy it into a table without that feature, or into Parquet files, by a program that can read it";

/// Why a table cannot be read, and what can be done; `None` if it can.
pub(super) fn unreadable(protocol: &Protocol, meta_data: &MetaData) -> Option<String> {
    let version = protocol.min_reader_version;
    if version > READER_VERSION {
        return Some(format!(
            "it asks for a reader of version {version}, and this program knows versions up to {READER_VERSION}: {COPY}"
        ));
    }
    let features = protocol.reader_features.iter().flatten();
    if let Some(feature) = features.into_iter().find(|name| !READ.contains(&name.as_str())) {
        return Some(format!("it has the feature `{feature}`, which this program does not know: {COPY}"));
    }
    let mode = meta_data.property("delta.columnMapping.mode").filter(|mode| *mode != "none")?;
    Some(format!(
        "it has the feature `{COLUMN_MAPPING}` (delta.columnMapping.mode = {mode}), so its files have other column names: {COPY}"
    ))
}

/// Why a table with v2 checkpoints cannot be read.
pub(super) const V2_CHECKPOINT: &str = "it has checkpoints of the feature `v2Checkpoint`, which this program does not know: set the \
    table's property delta.checkpointPolicy to classic, and let the program that writes it make a checkpoint";

/// Why a table with deleted rows in the file `path` cannot be read.
pub(super) fn deleted_rows(path: &str) -> String {
    format!(
        "it has the feature `{DELETION_VECTORS}`, and some rows of {path} are deleted by it: write its files again \
         without those rows, as REORG TABLE ... APPLY (PURGE) does in Spark"
    )
}

impl Protocol {
    /// The lowest protocol for a table of this schema, but no lower than `before`.
    pub(crate) fn of(schema: &Schema, before: Option<&Protocol>) -> Protocol {
        let needs_ntz = schema.fields().iter().any(|field| has_ntz(field.data_type()));
        let mut protocol = before.cloned().unwrap_or(Protocol {
            min_reader_version: 1,
            min_writer_version: 2,
            reader_features: None,
            writer_features: None,
        });
        let has =
            |features: &Option<Vec<String>>| features.iter().flatten().any(|name| name == TIMESTAMP_NTZ);
        if needs_ntz && !(has(&protocol.reader_features) && has(&protocol.writer_features)) {
            // From version 7 on, the features that earlier versions imply are listed.
            let writer = match protocol.min_writer_version {
                0 | 1 => vec![],
                _ => vec!["appendOnly".to_owned(), "invariants".to_owned()],
            };
            let with_ntz = |features: Option<Vec<String>>, else_these: Vec<String>| {
                let mut features = features.unwrap_or(else_these);
                if !features.iter().any(|name| name == TIMESTAMP_NTZ) {
                    features.push(TIMESTAMP_NTZ.to_owned());
                }
                Some(features)
            };
            (protocol.min_reader_version, protocol.min_writer_version) = (3, 7);
            protocol.reader_features = with_ntz(protocol.reader_features, vec![]);
            protocol.writer_features = with_ntz(protocol.writer_features, writer);
        }
        protocol
    }

    /// The part of the protocol that prevents this program from writing to the table; `None` if nothing does.
    pub(crate) fn unknown_to_writers(&self) -> Option<String> {
        let features = self.reader_features.iter().chain(&self.writer_features).flatten();
        if let Some(feature) = features.into_iter().find(|name| !WRITTEN.contains(&name.as_str())) {
            return Some(format!("the feature `{feature}`"));
        }
        let (reader, writer) = (self.min_reader_version, self.min_writer_version);
        let known = matches!(reader, 0 | 1 | 3) && matches!(writer, 0..=2 | 7);
        (!known).then(|| format!("reader version {reader} and writer version {writer}"))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::{DataType, Field, TimeUnit};

    use super::*;

    fn of(version: u32, features: &[&str], mode: Option<&str>) -> Option<String> {
        let features = features.iter().map(|name| (*name).to_owned()).collect();
        let mode = mode.map(|mode| ("delta.columnMapping.mode".to_owned(), Some(mode.to_owned())));
        unreadable(
            &Protocol { min_reader_version: version, reader_features: Some(features), ..Protocol::default() },
            &MetaData { configuration: mode.into_iter().collect(), ..MetaData::default() },
        )
    }

    #[test]
    fn unknown_features_are_named() {
        for (version, features, mode, named) in [
            (4, &[][..], None, "version 4"),
            (3, &["typeWidening"], None, "`typeWidening`"),
            (3, &["timestampNtz", "v2Checkpoint"], None, "`v2Checkpoint`"),
            (2, &[], Some("name"), "`columnMapping`"),
            (3, &["columnMapping"], Some("id"), "`columnMapping`"),
        ] {
            let found = of(version, features, mode).unwrap();
            assert!(found.contains(named) && found.contains("copy"), "{found}");
        }
    }

    #[test]
    fn a_feature_that_is_not_in_use_is_no_obstacle() {
        assert_eq!(of(1, &[], None), None);
        assert_eq!(of(2, &[], Some("none")), None);
        assert_eq!(of(3, &["columnMapping", "deletionVectors", "timestampNtz"], None), None);
    }

    #[test]
    fn only_timestamps_without_a_zone_need_features_and_a_protocol_is_never_lowered() {
        let plain = table(&[("a", DataType::Utf8)]);
        let local = table(&[("a", DataType::Timestamp(TimeUnit::Microsecond, None))]);
        let first = Protocol::of(&plain, None);
        assert_eq!(
            (first.min_reader_version, first.min_writer_version, &first.reader_features),
            (1, 2, &None)
        );
        let raised = Protocol::of(&local, Some(&first));
        assert_eq!((raised.min_reader_version, raised.min_writer_version), (3, 7));
        assert_eq!(raised.reader_features, Some(vec!["timestampNtz".to_owned()]));
        let features = ["appendOnly", "invariants", "timestampNtz"].map(str::to_owned).to_vec();
        assert_eq!(raised.writer_features, Some(features));
        let inside = |at: DataType| {
            DataType::new_list(DataType::Struct(vec![Field::new("at", at, true)].into()), true)
        };
        let zone = |zone: Option<Arc<str>>| DataType::Timestamp(TimeUnit::Microsecond, zone);
        assert_eq!(Protocol::of(&table(&[("a", inside(zone(None)))]), None), raised);
        assert_eq!(Protocol::of(&table(&[("a", inside(zone(Some("UTC".into()))))]), None), first);
        assert_eq!(Protocol::of(&plain, Some(&raised)), raised);
        assert_eq!(Protocol::of(&local, Some(&raised)), raised);
        for known in [first, raised.clone()] {
            assert_eq!(known.unknown_to_writers(), None);
        }
        let vectors = Protocol { reader_features: Some(vec!["deletionVectors".into()]), ..raised.clone() };
        assert_eq!(vectors.unknown_to_writers().as_deref(), Some("the feature `deletionVectors`"));
        let mapped = Protocol { min_reader_version: 2, min_writer_version: 5, ..raised };
        assert!(mapped.unknown_to_writers().is_some_and(|error| error.contains("writer version 5")));
    }

    fn table(fields: &[(&str, DataType)]) -> Schema {
        Schema::new(
            fields.iter().map(|(name, kind)| Field::new(*name, kind.clone(), true)).collect::<Vec<_>>(),
        )
    }
}
