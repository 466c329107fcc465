//! A finished result of `apply`, as a reference of later runs: the output that was applied, and what was removed from its documents.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use datafusion::prelude::{DataFrame, SessionContext, cast, col};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::manifest::{AppliedReference, File, ReferenceOutput};
use super::paths::{BEGUN, MANIFEST};
use super::{APPLIED, Layout, Stored, read};
use crate::error::{Context, Error, Result};
use crate::schema::IdType;
use crate::udf::expr_fn::document_key;

/// The version of what an application writes. Raise it with every change that gives other files.
pub(crate) const FORMAT_VERSION: u64 = 7;

/// What the manifest of a result says about the documents of its output.
#[derive(Debug, Deserialize)]
struct ResultContents {
    fingerprint: String,
    output_url: String,
    output_fingerprint: String,
    id: IdType,
    rejects: String,
    removed: Vec<File>,
    removed_spans: Vec<File>,
}

/// The version that wrote a manifest.
#[derive(Debug, Deserialize)]
struct ManifestVersion {
    apply_format: u64,
    resemblance: String,
}

/// A finished result of `apply`.
pub(crate) struct AppliedOutput {
    session: SessionContext,
    target: Layout,
    contents: ResultContents,
}

/// The manifest of the finished result in the folder `target`; `None` if the folder has no result of `apply`.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) when it is not finished, another version wrote it, or the store does not answer.
pub(crate) async fn manifest<T: DeserializeOwned>(target: &Layout) -> Result<Option<T>> {
    let (records, shown) = (target.within(APPLIED), target.shown());
    let Some(ManifestVersion { apply_format, resemblance }) = records.read(MANIFEST).await? else {
        return match records.size(BEGUN).await? {
            Some(_) => Err(Error::input(format!(
                "{shown} holds an unfinished result of apply: run the same command again, which finishes it"
            ))),
            None => Ok(None),
        };
    };
    if apply_format != FORMAT_VERSION {
        return Err(Error::input(format!(
            "{shown} holds a result of apply of format {apply_format}, which resemblance {resemblance} wrote, and this version reads \
             format {FORMAT_VERSION}: use the version that wrote it, or apply the output to another folder"
        )));
    }
    records.read(MANIFEST).await
}

impl AppliedOutput {
    /// The output at `url`, or the one whose result of `apply` is there.
    ///
    /// # Errors
    /// As [`Stored::open`] and [`manifest`], and [`Kind::Input`](crate::error::Kind::Input) if the output was made again since it was
    /// applied.
    pub(crate) async fn open(session: &SessionContext, url: &str) -> Result<(Stored, Option<Self>)> {
        let error = match Stored::open(session, url).await {
            Ok(stored) => return Ok((stored, None)),
            Err(error) => error,
        };
        let Some(applied) = Self::find(session, url).await? else { return Err(error) };
        let ResultContents { output_url, output_fingerprint, .. } = &applied.contents;
        let stored = Stored::open(session, output_url).await;
        let stored = stored.context(|| format!("{url} is the result of apply over {output_url}"))?;
        if stored.manifest().fingerprint != *output_fingerprint {
            return Err(Error::input(format!(
                "{url} is the result of apply over {output_url}, which was made again since: apply that to another folder, and name it \
                 instead"
            )));
        }
        Ok((stored, Some(applied)))
    }

    /// The finished result in the folder `url`; `None` if there is no result of `apply`.
    ///
    /// # Errors
    /// As [`manifest`].
    async fn find(session: &SessionContext, url: &str) -> Result<Option<Self>> {
        let target = Layout::open(session, url)?;
        let contents = manifest(&target).await?;
        Ok(contents.map(|contents| Self { session: session.clone(), target, contents }))
    }

    /// The result of `apply` by which a run named the reference output `output`; `None` if it named the output.
    ///
    /// # Errors
    /// As [`manifest`], and [`Kind::Input`](crate::error::Kind::Input) if the result is gone or was made again.
    pub(crate) async fn recorded(session: &SessionContext, output: &ReferenceOutput) -> Result<Option<Self>> {
        let Some(record) = &output.applied else { return Ok(None) };
        match Self::find(session, &record.url).await? {
            Some(applied) if applied.record() == *record => Ok(Some(applied)),
            Some(_) | None => Err(Error::input(format!(
                "{} is not the result of apply that the run was made against: bring it back, or run the job again with --overwrite",
                record.url
            ))),
        }
    }

    /// The folder of the result.
    pub(crate) fn layout(&self) -> &Layout {
        &self.target
    }

    /// The record of it in the manifest of a run.
    pub(crate) fn record(&self) -> AppliedReference {
        AppliedReference {
            url: self.target.shown().to_owned(),
            fingerprint: self.contents.fingerprint.clone(),
        }
    }

    /// Whether documents that the output rejects stay among the others.
    pub(crate) fn keeps_rejects(&self) -> bool {
        self.contents.rejects == "keep"
    }

    /// The documents (id) that were removed; `None` if all of them stay.
    ///
    /// # Errors
    /// When the engine refuses the table.
    pub(crate) fn removed(&self) -> Result<Option<DataFrame>> {
        self.table(&self.contents.removed, &[])
    }

    /// The bytes (doc, byte_start: UInt64, byte_end: UInt64) that were cut out of texts; `None` if none were.
    ///
    /// # Errors
    /// When the engine refuses the table.
    pub(crate) fn cuts(&self) -> Result<Option<DataFrame>> {
        let ends = ["byte_start", "byte_end"];
        let Some(rows) = self.table(&self.contents.removed_spans, &ends)? else { return Ok(None) };
        let mut columns = vec![document_key(col("id")).alias("doc")];
        columns.extend(ends.map(|end| cast(col(end), DataType::UInt64).alias(end)));
        Ok(Some(rows.select(columns)?))
    }

    /// The ids and these numbers of a table; `None` if it has no rows.
    fn table(&self, files: &[File], numbers: &[&str]) -> Result<Option<DataFrame>> {
        if files.iter().all(|file| file.rows == 0) {
            return Ok(None);
        }
        let mut fields = vec![Field::new("id", self.contents.id.arrow(), false)];
        fields.extend(numbers.iter().map(|name| Field::new(*name, DataType::Int64, false)));
        read::frame(&self.session, &self.target, files, Arc::new(Schema::new(fields))).map(Some)
    }
}
