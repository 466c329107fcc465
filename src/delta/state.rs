//! The state of a table after the actions of its log.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;

use super::action::{Action, MetaData, Protocol};

/// The state of a table after some actions.
#[derive(Debug, Default)]
pub(crate) struct TableState {
    pub protocol: Option<Protocol>,
    pub meta_data: Option<MetaData>,
    /// The files, by their paths in the table's folder.
    pub files: BTreeMap<String, FileState>,
}

/// A file of a table.
#[derive(Debug)]
pub(crate) struct FileState {
    /// The path as the action names it.
    pub uri: String,
    /// Bytes.
    pub size: u64,
    /// The values of the partition columns.
    pub partition_values: BTreeMap<String, Option<String>>,
    /// Whether some of its rows are deleted.
    pub has_deletion_vector: bool,
}

impl TableState {
    /// Applies the actions of a commit or of a part of a checkpoint.
    pub(crate) fn apply(&mut self, actions: Vec<Action>) {
        // A file that a commit both removes and adds is in the table: the order of its actions has no meaning.
        for remove in actions.iter().filter_map(|action| action.remove.as_ref()) {
            self.files.remove(&decoded(&remove.path));
        }
        for action in actions {
            if let Some(add) = action.add {
                let has_deletion_vector = add.deletion_vector.is_some();
                let (size, partition_values) = (add.size, add.partition_values);
                let file = FileState { size, partition_values, has_deletion_vector, uri: add.path };
                self.files.insert(decoded(&file.uri), file);
            }
            self.protocol = action.protocol.or(self.protocol.take());
            self.meta_data = action.meta_data.or(self.meta_data.take());
        }
    }
}

/// The path of a URI; the URI itself if it is not an encoded path.
fn decoded(uri: &str) -> String {
    percent_decode_str(uri).decode_utf8().map_or_else(|_| uri.to_owned(), |path| path.into_owned())
}
