//! Rows on their way into a batch that is bounded by its bytes, not by its rows alone.

use std::sync::Arc;

use bytes::Bytes;
use datafusion::arrow::array::{ArrayRef, RecordBatch, StringBuilder, StringViewBuilder, UInt64Builder};
use datafusion::arrow::buffer::Buffer;
use datafusion::arrow::datatypes::SchemaRef;

use super::sgml::Story;
use super::to_parse::FileToParse;
use crate::error::{Error, Result};

/// Rows of a batch at most.
const BATCH_ROWS: usize = 1024;
/// Bytes of text after which a batch is full. One text may be longer; then it is alone with those before it.
const BATCH_BYTES: usize = 4 * 1024 * 1024;
/// Bytes from which a text's buffer becomes part of the batch as it is, without a copy.
const OWN_BUFFER_BYTES: usize = 64 * 1024;

/// A batch that is being filled.
pub(super) struct Batch {
    schema: SchemaRef,
    values: Vec<StringViewBuilder>,
    sources: StringViewBuilder,
    names: StringViewBuilder,
    positions: UInt64Builder,
    defects: StringBuilder,
    pub rows: usize,
    bytes: usize,
}

impl Batch {
    /// An empty batch of rows with `values` values.
    pub fn new(schema: SchemaRef, values: usize) -> Self {
        // A batch has few files and many rows: each path is held once.
        let paths = || StringViewBuilder::new().with_deduplicate_strings();
        Self {
            schema,
            values: (0..values).map(|_| StringViewBuilder::new()).collect(),
            sources: paths(),
            names: paths(),
            positions: UInt64Builder::new(),
            defects: StringBuilder::new(),
            rows: 0,
            bytes: 0,
        }
    }

    /// Whether it should be given away before another row comes.
    pub fn is_full(&self) -> bool {
        self.rows >= BATCH_ROWS || self.bytes >= BATCH_BYTES
    }

    /// The story at `position` of its file.
    pub fn push_story(&mut self, file: &FileToParse, position: u64, story: &Story) -> Result<()> {
        let defect = match story.truncated {
            true => Some("truncated"),
            false => story.defect,
        };
        self.push(file, position, &story.parts(), defect)
    }

    /// The row at `position` of its file.
    pub fn push(
        &mut self,
        file: &FileToParse,
        position: u64,
        values: &[Option<&str>],
        defect: Option<&str>,
    ) -> Result<()> {
        for (builder, value) in self.values.iter_mut().zip(values) {
            match value {
                Some(value) => {
                    self.bytes += value.len();
                    if u32::try_from(value.len()).is_err() {
                        return Err(too_long(file, value.len()));
                    }
                    builder.try_append_value(value)?;
                }
                None => builder.append_null(),
            }
        }
        self.origin(file, position, defect)
    }

    /// The document that is the whole file.
    pub fn push_text(&mut self, file: &FileToParse, text: Bytes) -> Result<()> {
        let Ok(length) = u32::try_from(text.len()) else {
            return Err(too_long(file, text.len()));
        };
        let [builder] = self.values.as_mut_slice() else {
            return Err(Error::bug("a text file has one value"));
        };
        self.bytes += text.len();
        if text.len() < OWN_BUFFER_BYTES || length == u32::MAX {
            let text =
                std::str::from_utf8(&text).map_err(|e| Error::bug("text was not looked at").because(e))?;
            builder.try_append_value(text)?;
        } else {
            let block = builder.append_block(Buffer::from(text));
            builder.try_append_view(block, 0, length)?;
        }
        self.origin(file, 0, None)
    }

    fn origin(&mut self, file: &FileToParse, position: u64, defect: Option<&str>) -> Result<()> {
        self.sources.try_append_value(&*file.source)?;
        self.names.try_append_value(&*file.name)?;
        self.positions.append_value(position);
        self.defects.append_option(defect);
        self.rows += 1;
        Ok(())
    }

    /// The batch, and an empty one in its place.
    pub fn finish(&mut self) -> Result<RecordBatch> {
        let mut columns: Vec<ArrayRef> =
            self.values.iter_mut().map(|builder| Arc::new(builder.finish()) as ArrayRef).collect();
        columns.push(Arc::new(self.sources.finish()));
        columns.push(Arc::new(self.names.finish()));
        columns.push(Arc::new(self.positions.finish()));
        columns.push(Arc::new(self.defects.finish()));
        self.rows = 0;
        self.bytes = 0;
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }
}

fn too_long(file: &FileToParse, bytes: usize) -> Error {
    let source = &file.source;
    Error::input(format!("{source} has a text of {bytes} bytes, and a text may have {}: split it", u32::MAX))
}
