//! Rows on their way into a batch that is bounded by its bytes, not by its rows alone.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, ListArray, RecordBatch, StringBuilder, StringViewBuilder, UInt64Array, UInt64Builder,
};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, SchemaRef};
use bytes::Bytes;

use super::sgml::Story;
use super::to_parse::{CUT, FileToParse};
use crate::error::{Error, Result};
use crate::kernel::text::long_text::CutText;

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
    /// None where the schema has no such column.
    cuts: Option<Vec<Option<Vec<u64>>>>,
    pub rows: usize,
    bytes: usize,
}

impl Batch {
    /// An empty batch of rows with `values` values.
    pub(crate) fn new(schema: SchemaRef, values: usize) -> Self {
        // A batch has few files and many rows: each path is held once.
        let paths = || StringViewBuilder::new().with_deduplicate_strings();
        Self {
            values: (0..values).map(|_| StringViewBuilder::new()).collect(),
            sources: paths(),
            names: paths(),
            positions: UInt64Builder::new(),
            defects: StringBuilder::new(),
            cuts: schema.column_with_name(CUT).map(|_| Vec::new()),
            schema,
            rows: 0,
            bytes: 0,
        }
    }

    /// Whether it should be given away before another row comes.
    pub(crate) fn is_full(&self) -> bool {
        self.rows >= BATCH_ROWS || self.bytes >= BATCH_BYTES
    }

    /// The story at `position` of its file.
    pub(crate) fn push_story(&mut self, file: &FileToParse, position: u64, story: &Story) -> Result<()> {
        let defect = match story.truncated {
            true => Some("truncated"),
            false => story.defect,
        };
        self.push(file, position, &story.parts(), defect)
    }

    /// The row at `position` of its file.
    pub(crate) fn push(
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
    pub(crate) fn push_text(&mut self, file: &FileToParse, text: Bytes) -> Result<()> {
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

    /// The document that is the whole file, which was cut while it was read.
    pub(crate) fn push_cut(&mut self, file: &FileToParse, text: CutText) -> Result<()> {
        let (Some(cuts), [builder]) = (&mut self.cuts, self.values.as_mut_slice()) else {
            return Err(Error::bug("a text was cut that is wanted whole"));
        };
        self.bytes += size_of_val(text.shingles.as_slice()) + text.sample.len();
        cuts.resize(self.rows, None);
        cuts.push(Some(text.shingles));
        builder.try_append_value(&text.sample)?;
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
    pub(crate) fn finish(&mut self) -> Result<RecordBatch> {
        let mut columns: Vec<ArrayRef> =
            self.values.iter_mut().map(|builder| Arc::new(builder.finish()) as ArrayRef).collect();
        columns.push(Arc::new(self.sources.finish()));
        columns.push(Arc::new(self.names.finish()));
        columns.push(Arc::new(self.positions.finish()));
        columns.push(Arc::new(self.defects.finish()));
        if let Some(cuts) = &mut self.cuts {
            cuts.resize(self.rows, None);
            columns.push(Arc::new(lists(std::mem::take(cuts))?));
        }
        self.rows = 0;
        self.bytes = 0;
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }
}

/// A row for each list. A list that is alone stays where it is: it may be most of what this process holds.
fn lists(mut rows: Vec<Option<Vec<u64>>>) -> Result<ListArray> {
    let valid = NullBuffer::from_iter(rows.iter().map(Option::is_some));
    let offsets = OffsetBuffer::from_lengths(rows.iter().map(|row| row.as_ref().map_or(0, Vec::len)));
    let mut lists = rows.iter_mut().flatten();
    let mut values = lists.next().map(std::mem::take).unwrap_or_default();
    lists.for_each(|list| values.append(list));
    let field = Arc::new(Field::new_list_field(DataType::UInt64, true));
    Ok(ListArray::try_new(field, offsets, Arc::new(UInt64Array::from(values)), Some(valid))?)
}

fn too_long(file: &FileToParse, bytes: usize) -> Error {
    let source = &file.source;
    Error::input(format!(
        "{source} has a text of {bytes} bytes, but a text may have at most {}: split it",
        u32::MAX
    ))
}
