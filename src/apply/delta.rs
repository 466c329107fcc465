//! Writes a result as Delta tables. Computes the schema of the kept documents, and writes the log of each table.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::prelude::SessionContext;
use futures::{StreamExt, TryStreamExt, stream};

use super::manifest::{ApplyManifest, kept_file};
use crate::delta::{same_type, unfit};
use crate::error::{Error, Result};
use crate::job;
use crate::output::attempt::{REMOVED, REMOVED_SPANS};
use crate::output::delta::put_whole;
use crate::output::manifest::File;
use crate::output::{APPLIED, Layout};
use crate::rewrite::{Annotation, annotated};
use crate::schema::IdType;
use crate::source::{Listed, ParquetFile, Rewriting, SourceFile, format_of};

/// The number of footers that are read at the same time.
const CONCURRENT_FOOTERS: usize = 32;

const OPTION: &str = "--tables delta";

/// Refuses a source whose files are not written as Parquet or lack the partition columns, with `Kind::Job` and advice.
pub(super) fn refuse(source: &job::Source, listed: &Listed) -> Result<()> {
    let format = format_of(source.format);
    if let Rewriting::ParquetValues = format.rewriting {
        let Some(column) = listed.partition_columns.first() else { return Ok(()) };
        return Err(Error::job(format!(
            "{OPTION}: the source is a Delta table with the partition column `{column}`, which the written files lack: apply without it, \
             or copy the source into a table without partitions and run the job again"
        )));
    }
    let format = format.title;
    Err(Error::job(format!(
        "{OPTION}: the files that stay keep their format, which is {format}, and Delta tables consist of Parquet files: apply without \
         it, or convert the source to Parquet and run the job again"
    )))
}

/// Returns the union of the columns in all files, followed by the columns of `annotations`. Fails with `Kind::Job` if Delta does not
/// support a column, or if a column has different types in different files.
pub(super) async fn kept_schema(
    session: &SessionContext,
    files: &[SourceFile],
    (annotations, id): (&[Annotation], IdType),
) -> Result<SchemaRef> {
    // Empty files have no columns.
    let files: Vec<SourceFile> = files.iter().filter(|file| file.size() > 0).cloned().collect();
    let schemas = stream::iter(files).map(|file| async move {
        let schema = Arc::new(ParquetFile::open(session, &file).await?.schema(Some("UTC"))?);
        Ok::<_, Error>((file.path().to_owned(), schema))
    });
    let schemas: Vec<(String, SchemaRef)> = schemas.buffered(CONCURRENT_FOOTERS).try_collect().await?;
    let mut fields: Vec<Field> = Vec::new();
    for (at, (path, schema)) in schemas.iter().enumerate() {
        for field in &mut fields {
            // If a file lacks a column, the column is null in its rows.
            let nullable = schema.field_with_name(field.name()).map_or(true, Field::is_nullable);
            field.set_nullable(field.is_nullable() || nullable);
        }
        for field in schema.fields() {
            match fields.iter().find(|other| other.name() == field.name()) {
                None => fields.push(field.as_ref().clone().with_nullable(at > 0 || field.is_nullable())),
                Some(other) if same_type(other.data_type(), field.data_type()) => {}
                Some(other) => {
                    return Err(Error::job(format!(
                        "{OPTION}: the column `{}` has the type {} in {path} and {} in other files: apply without the option, or \
                         write the files with one type and run the job again",
                        field.name(),
                        field.data_type(),
                        other.data_type()
                    )));
                }
            }
        }
    }
    let schema = Schema::new(fields);
    let schema = annotated(&schema, annotations, id);
    match unfit(&schema) {
        Some(why) => Err(Error::job(format!(
            "{OPTION}: the kept documents cannot be a Delta table: {why}, or apply without it"
        ))),
        None => Ok(Arc::new(schema)),
    }
}

/// Writes the logs of a result, after all of its files.
pub(super) async fn put_logs(
    target: &Layout,
    manifest: &ApplyManifest,
    kept: &Schema,
    [removed, removed_spans]: [&Schema; 2],
) -> Result<()> {
    let written = manifest.files.iter().flat_map(|file| &file.written);
    let files: Vec<File> = written.filter(|file| file.is_kept()).map(kept_file).collect();
    put_whole(target, "", kept, &files, &manifest.fingerprint).await?;
    let tables =
        [(REMOVED, removed, &manifest.removed), (REMOVED_SPANS, removed_spans, &manifest.removed_spans)];
    // An annotated result has no table of removed documents.
    for (name, schema, files) in tables.into_iter().filter(|(_, _, files)| !files.is_empty()) {
        let folder = format!("{APPLIED}/{name}");
        let inside = |file: &File| {
            let path = file.path.strip_prefix(&folder)?.strip_prefix('/')?.to_owned();
            Some(File { path, ..file.clone() })
        };
        let files: Vec<File> = files.iter().filter_map(inside).collect();
        put_whole(target, &folder, schema, &files, &manifest.fingerprint).await?;
    }
    Ok(())
}
