//! What the first step of a run reads.

use std::time::UNIX_EPOCH;

use datafusion::prelude::DataFrame;

use crate::job::InputFile;
use crate::output::Stored;
use crate::schema::SourceTypes;

/// What the first step reads.
pub(super) struct Read {
    /// The documents, as [`stage::documents`] has them; of a finished output, as [`stage::reused`].
    pub(super) documents: DataFrame,
    /// The types that the source gives to the tables' columns.
    pub(super) types: SourceTypes,
    /// Every file that is read.
    pub(super) inputs: Vec<InputFile>,
}

/// A finished output as a file that was read.
pub(super) fn as_input(stored: &Stored) -> InputFile {
    let path = stored.layout().shown().to_owned();
    let bytes = stored.manifest().files().map(|file| file.bytes).sum();
    InputFile { path, bytes, modified: UNIX_EPOCH, e_tag: None }
}
