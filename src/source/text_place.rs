//! Where the text of a document is in its file.

use datafusion::prelude::SessionContext;
use serde::{Deserialize, Serialize};

use super::format::{Reading, Rewriting};
use super::parser::WantedValues;
use super::{Listed, format_of};
use crate::error::{Error, Result};
use crate::job;

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

impl TextPlace {
    /// The place in the listed files of `source`. Reads headers and first rows as [`read`](super::read) does.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) if the text is joined from several columns, or is in the paths of files; and as
    /// [`read`](super::read).
    pub(crate) async fn of(ctx: &SessionContext, source: &job::Source, listed: &Listed) -> Result<Self> {
        let format = format_of(source.format);
        if let Rewriting::WholeFile | Rewriting::AsParquet = format.rewriting {
            return Ok(Self::File);
        }
        let [name] = source.text.as_slice() else {
            return Err(Error::job(format!(
                "source.text joins {} columns, and places in a joined text are in none of them: name one column in the job, and run \
                 it again",
                source.text.len()
            )));
        };
        let files = &listed.files;
        if !files.is_empty() && files.iter().all(|file| file.partitions.value(name).is_some()) {
            return Err(Error::job(format!(
                "the text `{name}` is in the paths of the files, not in the files: name another column in the job, and run it again"
            )));
        }
        let Reading::Parser(parser) = format.reading else { return Ok(Self::Column(name.clone())) };
        match parser.plan(ctx, source, &[name.as_str()], files).await?.wanted {
            WantedValues::Columns { wanted, .. } => wanted.first().copied().map(Self::Field),
            WantedValues::Fields(fields) => fields.into_iter().next().map(|field| Self::Path(field.path)),
            WantedValues::All(_) => None,
        }
        .ok_or_else(|| Error::bug(format!("the place of the text in {} is not known", format.title)))
    }
}
