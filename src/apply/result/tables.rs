//! The tables of a result for SQL: the documents that were kept, removed and rejected, and the spans that were cut.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::datasource::empty::EmptyTable;
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::prelude::{DataFrame, col, ident, lit};
use futures::{StreamExt, TryStreamExt, stream};
use object_store::ObjectMeta;

use super::{AppliedResult, file};
use crate::apply::decisions::removed_schema;
use crate::apply::passages::removed_spans_schema;
use crate::error::{Context, Error, Result};
use crate::frames;
use crate::inspect;
use crate::job::{self, OnError};
use crate::output::manifest::{File, read_job};
use crate::output::read;
use crate::rewrite::WrittenFile;
use crate::schema::carried;
use crate::source::{self, Listed, ReadRequest, Rewriting, SourceFile, format_of};

/// Files whose metadata are read at the same time.
const CONCURRENT_FILES: usize = 32;

/// The names of the tables.
pub const TABLES: [&str; 4] = ["kept", "removed", "rejected", "removed_spans"];

impl AppliedResult {
    /// Registers the tables in the session. `rejected` has rows only if they were written to files of their own.
    ///
    /// # Errors
    /// When a file is gone or damaged, or the job in the manifest cannot be read.
    pub async fn register(&self) -> Result<()> {
        let [kept, removed, rejected, removed_spans] = TABLES;
        let nothing = || self.session.read_table(Arc::new(EmptyTable::new(Arc::new(Schema::empty()))));
        let rows = match self.documents(WrittenFile::is_kept).await? {
            Some(rows) => rows,
            None => nothing()?,
        };
        let of_rejected = match self.documents(|written| !written.is_kept()).await? {
            Some(rows) => rows,
            None => rows.clone().filter(lit(false))?,
        };
        self.session.register_table(kept, rows.into_view())?;
        self.session.register_table(rejected, of_rejected.into_view())?;
        let rows = self.removed_rows()?;
        self.session.register_table(removed, rows.into_view())?;
        let rows = self.table(&self.manifest.removed_spans, removed_spans_schema(self.manifest.id))?;
        self.session.register_table(removed_spans, rows.into_view())?;
        Ok(())
    }

    /// The table of removed documents.
    pub(super) fn removed_rows(&self) -> Result<DataFrame> {
        self.table(&self.manifest.removed, removed_schema(self.manifest.id))
    }

    /// A table of these files; empty if there are none, as where nothing is removed.
    fn table(&self, files: &[File], schema: SchemaRef) -> Result<DataFrame> {
        match files {
            [] => Ok(self.session.read_table(Arc::new(EmptyTable::new(schema)))?),
            files => read::frame(&self.session, &self.target, files, schema),
        }
    }

    /// The rows of the files of documents that are `wanted`, with the columns of any of them; `None` if there are no such files.
    async fn documents(&self, wanted: impl Fn(&WrittenFile) -> bool) -> Result<Option<DataFrame>> {
        let mut all = Vec::new();
        for (number, origin) in (0..).zip(&self.manifest.origins) {
            let of_origin = self.manifest.files.iter().filter(|file| file.origin == number);
            let files: Vec<&WrittenFile> =
                of_origin.flat_map(|file| &file.written).filter(|file| wanted(file)).collect();
            if files.is_empty() {
                continue;
            }
            let source = read_job(&origin.job, &self.manifest.resemblance)?.source;
            all.push(match format_of(source.format).rewriting {
                Rewriting::ParquetValues | Rewriting::AsParquet => self.parquet(&files).await?,
                Rewriting::Rows(_) | Rewriting::WholeFile => self.records(source, &files).await?,
            });
        }
        by_name(all)
    }

    async fn parquet(&self, files: &[&WrittenFile]) -> Result<DataFrame> {
        let store = self.session.runtime_env().object_store(self.target.store_url())?;
        let metas = self.metas(files).await?;
        let schema = ParquetFormat::default().infer_schema(&self.session.state(), &store, &metas).await;
        let schema = schema.context(|| format!("the columns of {} cannot be read", self.target.shown()))?;
        let files: Vec<File> = files.iter().copied().map(file).collect();
        read::frame(&self.session, &self.target, &files, schema)
    }

    /// The rows of CSV or JSON lines, and text files, as the job read them.
    async fn records(&self, source: job::Source, files: &[&WrittenFile]) -> Result<DataFrame> {
        let metas = self.metas(files).await?.into_iter();
        let mut listed: Vec<SourceFile> = metas
            .zip(files)
            .map(|(meta, file)| {
                let shown = self.target.within(&file.path).shown().to_owned();
                // The ending says how a file is compressed.
                let path = shown.strip_suffix(".rejected").map_or(shown.clone(), str::to_owned);
                SourceFile::new(&path, &file.path, self.target.store_url().clone(), meta)
            })
            .collect();
        listed.sort_by(|a, b| a.path().cmp(b.path()));
        let columns = match listed.first() {
            Some(first) => inspect::column_names(&self.session, &source, first).await?,
            None => Vec::new(),
        };
        // A name that several columns have names none of them.
        let is_alone = |name: &&String| columns.iter().filter(|other| other == name).count() == 1;
        let columns = columns.iter().filter(is_alone).cloned().collect();
        // The table has rows that could not be read, too.
        let source = job::Source { columns, group: None, on_error: OnError::Reject, ..source };
        let read =
            source::read(&self.session, &source, &Listed::of(&listed), ReadRequest::all()).await?.frame;
        let names = source.columns.iter().enumerate();
        let columns = match source.columns.is_empty() {
            true => vec![col("id"), col("text")],
            false => names.map(|(at, name)| ident(carried(at)).alias(name)).collect(),
        };
        Ok(read.select(columns)?)
    }

    async fn metas(&self, files: &[&WrittenFile]) -> Result<Vec<ObjectMeta>> {
        let metas = stream::iter(files.iter().copied()).map(|file| async move {
            self.target.meta(&file.path).await?.ok_or_else(|| {
                let shown = self.target.shown();
                Error::input(format!("{} is gone: `resemblance verify {shown}` checks all files", file.path))
            })
        });
        metas.buffered(CONCURRENT_FILES).try_collect().await
    }
}

/// The rows of all frames, with the columns of any of them in the order in which they come first. A column that has several types is
/// text.
fn by_name(all: Vec<DataFrame>) -> Result<Option<DataFrame>> {
    let (mut fields, mut places) = (Vec::<(String, DataType)>::new(), HashMap::new());
    for field in all.iter().flat_map(|frame| frame.schema().as_arrow().fields()) {
        let place = *places.entry(field.name().clone()).or_insert(fields.len());
        match fields.get_mut(place) {
            None => fields.push((field.name().clone(), field.data_type().clone())),
            Some((_, kind)) if kind != field.data_type() => *kind = DataType::Utf8,
            Some(_) => {}
        }
    }
    let fields = fields.into_iter().map(|(name, data_type)| Field::new(name, data_type, true));
    let schema = Schema::new(fields.collect::<Vec<_>>());
    frames::union(all.into_iter().map(|frame| frames::in_columns(frame, &schema)))
}
