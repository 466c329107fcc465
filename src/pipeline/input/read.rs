//! The input of the first stage.

use datafusion::prelude::DataFrame;

use crate::job::InputFile;
use crate::output::Stored;
use crate::schema::SourceTypes;

/// The input of the first stage.
pub(crate) struct FirstStageInput {
    /// The documents in the columns of [`documents`](crate::frames::documents), or of
    /// [`reused`](crate::frames::reused) if an output is read.
    pub(crate) documents: DataFrame,
    /// The types that the source gives to the tables' columns.
    pub(crate) types: SourceTypes,
    /// Every file that is read.
    pub(crate) inputs: Vec<InputFile>,
}

/// A finished output as a file that was read.
pub(crate) fn as_input(stored: &Stored) -> InputFile {
    let path = stored.layout().shown().to_owned();
    let bytes = stored.manifest().files().map(|file| file.bytes).sum();
    let e_tag = Some(stored.manifest().fingerprint.clone());
    InputFile::new(path, bytes, None, e_tag)
}
