//! Reuters-21578: a document from each story of an SGML file.

pub(in crate::source) mod sgml;

use std::sync::Arc;

use bytes::Bytes;
use datafusion::execution::context::SessionContext;
use futures::future::BoxFuture;

use self::sgml::{Stories, Story};
use crate::error::{Error, Result};
use crate::job;
use crate::source::columns::{NamedExpressions, column, missing, value_name};
use crate::source::documents::DocumentSink;
use crate::source::file::SourceFile;
use crate::source::format::{
    DocumentReader, EmptyFile, Listing, ParsePlan, ParsedFormat, Reading, Rewriting, SourceFormat,
};
use crate::source::parser::{FileToParse, Parser, WantedValues};

pub(super) const FORMAT: SourceFormat = SourceFormat {
    title: "SGML",
    listing: Listing::Files,
    endings: &[".sgm", ".sgml"],
    empty_file: EmptyFile::NoDocuments,
    reading: Reading::Parser(&Reuters),
    rewriting: Rewriting::AsParquet,
};

struct Reuters;

impl ParsedFormat for Reuters {
    fn plan<'a>(
        &'a self,
        _: &'a SessionContext,
        source: &'a job::Source,
        columns: &'a [&'a str],
        files: &'a [Arc<SourceFile>],
    ) -> BoxFuture<'a, Result<ParsePlan>> {
        Box::pin(async move {
            let value = |name: &str| match Story::COLUMNS.iter().position(|column| *column == name) {
                Some(place) => Ok((name.to_owned(), column(value_name(place)))),
                None => Err(missing(source, name, "Reuters stories", Story::COLUMNS.map(str::to_owned))),
            };
            let values = columns.iter().copied().map(value).collect::<Result<NamedExpressions>>()?;
            Ok(ParsePlan { wanted: WantedValues::All(Story::COLUMNS.len()), values, files: files.to_vec() })
        })
    }

    fn reader(&self, parser: &Parser, _: &FileToParse) -> Result<Box<dyn DocumentReader>> {
        let job::Source { encoding, references, .. } = parser.source;
        Ok(Box::new(StoryReader(Stories::of(encoding, references))))
    }
}

/// Reads stories as documents.
struct StoryReader(Stories);

impl DocumentReader for StoryReader {
    fn read(&mut self, chunk: &mut Bytes, documents: &mut DocumentSink<'_>) -> Result<()> {
        self.0.feed(&std::mem::take(chunk));
        while !documents.is_full()
            && let Some(story) = self.0.next()
        {
            push(&story, documents)?;
        }
        Ok(())
    }

    fn end(&mut self, documents: &mut DocumentSink<'_>) -> Result<()> {
        if let Some(story) = self.0.end() {
            push(&story, documents)?;
        }
        match documents.count() {
            0 => Err(Error::input(format!(
                "{} holds no <REUTERS> story: take it out of [source] url, or correct [source] format",
                documents.source()
            ))),
            _ => Ok(()),
        }
    }
}

fn push(story: &Story, documents: &mut DocumentSink<'_>) -> Result<()> {
    let defect = if story.truncated { Some("truncated") } else { story.defect };
    documents.push(&story.parts(), defect)
}
