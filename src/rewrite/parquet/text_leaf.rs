//! The leaf of the schema that has the texts, and the spans that are cut out of them.

use parquet::basic::Type as PhysicalType;
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::schema::types::SchemaDescriptor;

use super::super::spans::{SpanCursor, other_text};
use super::batch::{Batch, Edit};
use super::blocking::Waiter;
use crate::error::{Error, Result};
use crate::kernel::text::without_spans::without_spans;
use crate::source::TextPlace;

/// The leaf that has the texts of a file.
pub(super) struct TextLeaf {
    /// Its index.
    pub leaf: usize,
    /// The file, as errors name it.
    path: String,
    cuts: SpanCursor,
    waiter: Waiter,
}

impl TextLeaf {
    /// The leaf of the texts at `text`.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) if the file has no text there.
    pub(super) fn find(
        schema: &SchemaDescriptor,
        text: &TextPlace,
        path: &str,
        cuts: SpanCursor,
        waiter: &Waiter,
    ) -> Result<Self> {
        let TextPlace::Column(name) = text else {
            return Err(Error::bug(format!("the texts of {path} are in no column")));
        };
        // As the run reads it: the column of that name, or else a field of a column.
        let is_column = schema.root_schema().get_fields().iter().any(|column| column.name() == name);
        let place: Vec<&str> = if is_column { vec![name] } else { name.split('.').collect() };
        let is_text = |leaf: &usize| {
            let column = schema.column(*leaf);
            column.path().parts() == place
                && column.physical_type() == PhysicalType::BYTE_ARRAY
                && column.max_rep_level() == 0
        };
        match (0..schema.num_columns()).find(is_text) {
            Some(leaf) => Ok(Self { leaf, path: path.to_owned(), cuts, waiter: waiter.clone() }),
            None => Err(Error::input(format!(
                "{path} has no column `{name}` with a text in each row: run the job again with --overwrite, and apply its output"
            ))),
        }
    }
}

impl Edit<ByteArrayType> for TextLeaf {
    /// Cuts the spans out of the texts of a batch of rows, each with one value at most.
    fn edit(&mut self, batch: &mut Batch<ByteArrayType>) -> Result<()> {
        let Self { path, cuts, waiter, .. } = self;
        let positions = || batch.positions.iter().cloned().flatten();
        let spans = async {
            let mut found = Vec::new();
            for position in positions() {
                found.push(cuts.at(position).await?);
            }
            Ok(found)
        };
        let spans = waiter.wait(spans)?;
        let mut values = batch.values.iter_mut();
        for (row, (position, spans)) in positions().zip(spans).enumerate() {
            let is_null = batch.definitions.get(row).is_some_and(|level| *level < batch.max_definition);
            let value = if is_null { None } else { values.next() };
            if spans.is_empty() {
                continue;
            }
            let text = value.as_ref().and_then(|value| std::str::from_utf8(value.data()).ok());
            match (text.and_then(|text| without_spans(text, &spans)), value) {
                (Some(cut), Some(value)) => *value = ByteArray::from(cut.into_bytes()),
                _ => return Err(other_text(path, position)),
            }
        }
        Ok(())
    }
}
