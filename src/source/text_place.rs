//! Where the text of a document is in its file.

use serde::{Deserialize, Serialize};

/// Where the text of a document is in a file of its format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum TextPlace {
    /// In the column of this name, or the field of a struct.
    Column(String),
    /// In this field of a record, counted from 0.
    Field(usize),
    /// In the value at this path in an object.
    Path(Vec<String>),
    /// The file is the text, or its documents are written in another format.
    File,
}
