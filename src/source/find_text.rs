//! Finds where the text of a document is in the files of a source.

use std::sync::Arc;

use datafusion::prelude::SessionContext;

use super::file::SourceFile;
use super::format::{Reading, Rewriting};
use super::formats;
use super::parser::WantedValues;
use super::rows::TextPlace;
use crate::error::{Error, Result};
use crate::job;

/// The place of the text in the `files` of `source`. Reads headers and first rows as [`read`](super::read) does.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) if the text is joined from several columns, or is in the paths of files; and as
/// [`read`](super::read).
pub(super) async fn text_place(
    ctx: &SessionContext,
    source: &job::Source,
    files: &[Arc<SourceFile>],
) -> Result<TextPlace> {
    let format = formats::of(source.format);
    if let Rewriting::WholeFile | Rewriting::AsParquet = format.rewriting {
        return Ok(TextPlace::File);
    }
    let [name] = source.text.as_slice() else {
        return Err(Error::job(format!(
            "source.text joins {} columns, and a place in the joined text is in no single column: name one column in the job, and \
             run it again",
            source.text.len()
        )));
    };
    if !files.is_empty() && files.iter().all(|file| file.partitions.value(name).is_some()) {
        return Err(Error::job(format!(
            "the text `{name}` is in the paths of the files, not in the files: name another column in the job, and run it again"
        )));
    }
    let Reading::Parser(parser) = format.reading else { return Ok(TextPlace::Column(name.clone())) };
    match parser.plan(ctx, source, &[name.as_str()], files).await?.wanted {
        WantedValues::Columns(names) => names.into_iter().next().map(TextPlace::Column),
        WantedValues::Fields(fields) if fields.iter().any(|field| field.inside.is_some()) => {
            return Err(Error::job(format!(
                "the text `{name}` is in lists, and a place in the joined text is in no single one: name another text in the job, and \
                 run it again"
            )));
        }
        WantedValues::Fields(fields) => fields.into_iter().next().map(|field| TextPlace::Path(field.path)),
        WantedValues::All(_) => None,
    }
    .ok_or_else(|| Error::bug(format!("the place of the text in {} is not known", format.title)))
}
