//! Reads a finished result, with its files, its tables, and removed documents with their texts.

mod removed;

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::datasource::empty::EmptyTable;
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::prelude::{DataFrame, SessionContext, col, ident, lit};
use futures::{StreamExt, TryStreamExt, stream};
use object_store::ObjectMeta;

pub use self::removed::{Removed, RemovedFilter};
use super::decisions::removed_schema;
use super::manifest::{ApplyManifest, kept_file};
use super::passages::removed_spans_schema;
use crate::error::{Context, Error, Result};
use crate::job::{self, OnError};
use crate::output::check::{self, Damage, ReadProgress};
use crate::output::manifest::{File, read_job};
use crate::output::{Layout, read, results};
use crate::rewrite::WrittenFile;
use crate::schema::carried;
use crate::source::{self, Listed, ReadRequest, Rewriting, SourceFile, format_of};
use crate::{frames, inspect};

/// A finished result of `apply`.
pub struct AppliedResult {
    session: SessionContext,
    target: Layout,
    manifest: ApplyManifest,
    places: Vec<String>,
}

impl AppliedResult {
    /// Opens the finished result in the folder `url`. Returns `None` if the folder contains no result of `apply`.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) if the result is unfinished, if another version wrote it, or if the store does not
    /// answer.
    pub async fn find(session: &SessionContext, url: &str) -> Result<Option<Self>> {
        let target = Layout::open(session, url)?;
        let manifest = results::manifest(&target).await?;
        Ok(manifest.map(|manifest| Self { session: session.clone(), target, manifest, places: Vec::new() }))
    }

    /// Sets the new locations of moved sources. `places` contains one location per URL. It is empty if the sources were not moved.
    #[must_use]
    pub fn with_source_in(self, places: Vec<String>) -> Self {
        Self { places, ..self }
    }

    /// Returns the source of the documents. If there are several, returns the last.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) if the job in the manifest cannot be read.
    pub fn source(&self) -> Result<job::Source> {
        let origin = self.manifest.origins.last().ok_or_else(|| Error::bug("the result has no source"))?;
        Ok(read_job(&origin.job, &self.manifest.resemblance)?.source)
    }

    /// The files that the manifest names.
    pub(crate) fn files(&self) -> Vec<File> {
        self.manifest.all_files()
    }

    /// Returns the files that are missing or whose bytes differ from the manifest.
    pub(crate) async fn damage(&self, seen: ReadProgress<'_>) -> Result<Vec<Damage>> {
        check::bytes(&self.target, &self.files().iter().collect::<Vec<_>>(), seen).await
    }
}

/// Metadata is read from this many files at the same time.
const CONCURRENT_FILES: usize = 32;

/// The names of the tables.
pub const TABLES: [&str; 4] = ["kept", "removed", "rejected", "removed_spans"];

impl AppliedResult {
    /// Registers the tables in the session. The table `rejected` has rows only if rejected documents were written to separate files. Fails
    /// if a file is gone or damaged, or the job in the manifest cannot be read.
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

    pub(super) fn removed_rows(&self) -> Result<DataFrame> {
        self.table(&self.manifest.removed, removed_schema(self.manifest.id))
    }

    /// Returns the table in these files. If there are no files, the table has no rows.
    fn table(&self, files: &[File], schema: SchemaRef) -> Result<DataFrame> {
        match files {
            [] => Ok(self.session.read_table(Arc::new(EmptyTable::new(schema)))?),
            files => read::frame(&self.session, &self.target, files, schema),
        }
    }

    /// Returns the rows in the files that `wanted` selects, with the union of their columns. Returns `None` if `wanted` selects no file.
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
        let files: Vec<File> = files.iter().copied().map(kept_file).collect();
        read::frame(&self.session, &self.target, &files, schema)
    }

    /// Reads the rows of CSV, JSON lines and text files with the settings of the job.
    async fn records(&self, source: job::Source, files: &[&WrittenFile]) -> Result<DataFrame> {
        let metas = self.metas(files).await?.into_iter();
        let mut listed: Vec<SourceFile> = metas
            .zip(files)
            .map(|(meta, file)| {
                let shown = self.target.within(&file.path).shown().to_owned();
                // The extension of a path determines its compression.
                let path = shown.strip_suffix(".rejected").map_or(shown.clone(), str::to_owned);
                SourceFile::new(&path, &file.path, self.target.store_url().clone(), meta)
            })
            .collect();
        listed.sort_by(|a, b| a.path().cmp(b.path()));
        let columns = match listed.first() {
            Some(first) => inspect::column_names(&self.session, &source, first).await?,
            None => Vec::new(),
        };
        // Skips names that several columns have.
        let is_alone = |name: &&String| columns.iter().filter(|other| other == name).count() == 1;
        let columns = columns.iter().filter(is_alone).cloned().collect();
        // The table includes rows that could not be read.
        let source = job::Source { columns, group: None, on_error: OnError::Reject, ..source };
        let read = source::read(&self.session, &source, &Listed::from_files(&listed), ReadRequest::all())
            .await?
            .frame;
        let names = source.columns.iter().enumerate();
        let columns = if source.columns.is_empty() {
            vec![col("id"), col("text")]
        } else {
            names.map(|(at, name)| ident(carried(at)).alias(name)).collect()
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

/// Returns the rows of all frames, with the union of their columns in order of first appearance. A column with several types becomes text.
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
