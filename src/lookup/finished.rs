//! A finished output with its tables registered for SQL. Also the ids of documents, and the error for unknown ids.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::JoinType;
use datafusion::common::cast::as_string_array;
use datafusion::functions::math::expr_fn::nanvl;
use datafusion::prelude::{DataFrame, Expr, SessionContext, cast, col, lit};
use futures::TryStreamExt;
use serde::{Deserialize, Serialize};

use super::rows;
use crate::error::counts::either;
use crate::error::spelling::near;
use crate::error::{Error, Result};
use crate::frames::clusters::similarity;
use crate::frames::utf8;
use crate::output::manifest::ReferenceOutput;
use crate::output::{Stored, read};
use crate::schema::{IdType, Table};

/// The maximum number of keys in a filter. With a filter, a scan reads other columns only for rows that pass the filter. With a join, it
/// reads all rows.
pub(super) const MOST_LISTED: usize = 256;

/// A finished output. Its tables are registered in a session under their names.
pub struct Finished(Stored);

impl Deref for Finished {
    type Target = Stored;

    fn deref(&self) -> &Stored {
        &self.0
    }
}

impl Finished {
    /// Opens the output at `url` and registers its tables in `session`. Reads only the manifest and the sizes of its files. Fails like
    /// [`Stored::open`].
    pub async fn open(session: &SessionContext, url: &str) -> Result<Self> {
        let stored = Stored::open(session, url).await?;
        for table in Table::ALL {
            if let Some(provider) = stored.provider(table)? {
                session.register_table(table.name(), Arc::new(provider))?;
            }
        }
        Ok(Self(stored))
    }

    /// Sets the locations to which the source was moved. `places` contains one location per URL. If it is empty, the source was not moved.
    #[must_use]
    pub fn with_source_in(self, places: Vec<String>) -> Self {
        Self(self.0.with_source_in(places))
    }

    /// Opens a reference output of the run that made this output, in a separate session. Fails with `Kind::Input` if a run over other
    /// documents has replaced the reference output.
    pub(super) async fn reference(&self, output: &ReferenceOutput) -> Result<Finished> {
        let state = self.session().state();
        let session =
            SessionContext::new_with_config_rt(state.config().clone(), Arc::clone(state.runtime_env()));
        let there = Finished::open(&session, &output.output).await?;
        if there.manifest().fingerprint != output.fingerprint {
            return Err(Error::input(format!(
                "{} was made again after {} was compared with it, so its documents may have changed: run the job of {1} again \
                 with --overwrite",
                output.output,
                self.layout().shown()
            )));
        }
        Ok(there)
    }

    /// Returns the documents with their signatures.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) if the output keeps no signatures.
    pub async fn signed(&self) -> Result<DataFrame> {
        if !self.job().output.keep.signatures() {
            return Err(Error::input(
                "this output keeps no signatures (output.keep = \"none\"), so nothing can be compared with its \
                 documents: run the job again with output.keep = \"signatures\"",
            ));
        }
        self.table(Table::Documents)
    }

    /// Returns a lazy frame with the rows of a table. Numbers are signed as in the files.
    pub(super) async fn stored(&self, table: Table) -> Result<DataFrame> {
        Ok(self.session().table(table.name()).await?)
    }

    /// Returns the documents with these keys. If there are few keys, only the key column of other rows is read.
    pub(crate) async fn documents_of(&self, keys: impl Iterator<Item = u64>) -> Result<DataFrame> {
        self.documents_among(self.stored(Table::Documents).await?, keys)
    }

    /// Keeps the `documents` with these keys. The numbers in `documents` must be signed as in the files. If there are few keys, only the
    /// key column of other rows is read.
    pub(super) fn documents_among(
        &self,
        documents: DataFrame,
        keys: impl Iterator<Item = u64>,
    ) -> Result<DataFrame> {
        // The keys are signed as in the files, so that the scan can apply the filter to the column itself.
        let keys: Vec<i64> = keys.map(u64::cast_signed).collect();
        let rows = if keys.len() <= MOST_LISTED {
            documents.filter(col("doc").in_list(keys.into_iter().map(lit).collect(), false))?
        } else {
            let keys: ArrayRef = Arc::new(Int64Array::from(keys));
            let keys = self.session().read_batch(RecordBatch::try_from_iter([("needed", keys)])?)?;
            keys.join(documents, JoinType::RightSemi, &["needed"], &["doc"], None)?
        };
        read::unsigned(rows, Table::Documents)
    }

    /// Parses an id. Returns `None` if ids are numbers and `text` is not a number.
    pub fn id(&self, text: &str) -> Option<Id> {
        Id::parse(text, self.manifest().source.id)
    }

    /// Returns whether a compared document has this id.
    pub async fn has(&self, id: &Id) -> Result<bool> {
        let documents = self.stored(Table::Documents).await?.filter(col("id").eq(id.literal()))?;
        Ok(documents.limit(0, Some(1))?.count().await? > 0)
    }

    /// Returns whether the output keeps the shingles of its documents.
    pub fn keeps_shingles(&self) -> bool {
        self.job().output.keep.shingles()
    }

    /// The similarity of a row of the table `pairs` by the measure of the job. Two empty documents have a similarity of 1.
    pub(super) fn similarity(&self) -> Expr {
        nanvl(similarity(self.job().score.measure), lit(1.0_f64))
    }

    /// Returns pairs (id_a, id_b, jaccard, containment_a, containment_b), sorted by descending similarity and by id. If `most` is given,
    /// returns at most this many pairs.
    pub async fn top_pairs(&self, most: Option<usize>) -> Result<DataFrame> {
        let pairs = self.session().table("pairs").await?;
        let mut order = vec![self.similarity().sort(false, false)];
        order.extend(["id_a", "id_b", "reference_b"].map(|name| col(name).sort(true, false)));
        let columns = ["id_a", "id_b", "jaccard", "containment_a", "containment_b"].map(col).to_vec();
        Ok(pairs.sort(order)?.limit(0, most)?.select(columns)?)
    }
}

/// The id of a document. All ids in an output have the same variant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Id {
    /// An id from a column of integers.
    Number(i64),
    /// An id from any other column.
    Text(String),
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Id::Number(number) => number.fmt(f),
            Id::Text(text) => f.write_str(text),
        }
    }
}

impl Id {
    pub(crate) fn parse(text: &str, kind: IdType) -> Option<Self> {
        match kind {
            IdType::Utf8 => Some(Id::Text(text.to_owned())),
            IdType::Int64 => text.parse().ok().map(Id::Number),
        }
    }

    pub(crate) fn data_type(&self) -> DataType {
        match self {
            Id::Number(_) => DataType::Int64,
            Id::Text(_) => DataType::Utf8,
        }
    }

    pub(crate) fn literal(&self) -> Expr {
        match self {
            Id::Number(number) => lit(*number),
            Id::Text(text) => lit(text.as_str()),
        }
    }
}

/// Returns the column `name` with ids, cast to the type that [`ids`] reads.
pub(super) fn id_column(name: &str, kind: IdType) -> Expr {
    match kind {
        IdType::Utf8 => cast(col(name), DataType::Utf8).alias(name),
        IdType::Int64 => col(name),
    }
}

/// Returns the ids in a column, without NULLs.
pub(super) fn ids(column: &ArrayRef) -> Result<Vec<Id>> {
    Ok(match column.data_type() {
        DataType::Int64 => column.as_primitive::<Int64Type>().iter().flatten().map(Id::Number).collect(),
        _ => as_string_array(column)?.iter().flatten().map(|id| Id::Text(id.to_owned())).collect(),
    })
}

/// The maximum number of ids in a suggestion.
const NAMED: usize = 5;
/// A text with at least this many characters resembles every id that contains the text.
const MIN_PART: usize = 3;

/// Returns the error for an unknown `id`. If the document was rejected, the error names the reason. Otherwise it names similar ids.
pub async fn not_found(finished: &Finished, id: &str) -> Result<Error> {
    let rejects = finished.table(Table::Rejects)?;
    let rejects = match finished.id(id) {
        Some(id) => rejects.filter(col("id").eq(id.literal()))?,
        None => rejects.filter(lit(false))?,
    };
    let rejects = rejects.sort(vec![col("source").sort(true, false), col("position").sort(true, false)])?;
    #[derive(Deserialize)]
    struct Reject {
        source: String,
        position: u64,
        reason: String,
    }
    let found: Vec<Reject> = rows::read(rejects.limit(0, Some(1))?).await?;
    if let Some(Reject { source, position, reason }) = found.first() {
        return Ok(Error::job(format!(
            "`{id}` was rejected and not compared: {reason} ({source}, position {position})"
        )));
    }
    let near = near_ids(id, finished.table(Table::Documents)?.select(vec![utf8("id")])?).await?;
    let near = near.unwrap_or_else(|| "; the column `id` of the table documents lists all ids".into());
    let not = match finished.id(id) {
        Some(_) => "",
        None => ", because the ids of this output are whole numbers",
    };
    Ok(Error::job(format!("no document has the id `{id}`{not}{near}")))
}

/// Returns the end of an error message, which suggests ids that resemble the unknown id `asked`. `ids` has one column of texts. Returns
/// `None` if no id resembles `asked`.
pub(crate) async fn near_ids(asked: &str, ids: DataFrame) -> Result<Option<String>> {
    let mut best = BTreeSet::new();
    let mut ids = ids.execute_stream().await?;
    while let Some(batch) = ids.try_next().await? {
        as_string_array(batch.column(0))?.iter().flatten().for_each(|id| add_near(asked, id, &mut best));
    }
    let ids: Vec<String> = best.iter().map(|(_, id)| format!("`{id}`")).collect();
    let are = either(ids.len() as u64, "is", "are");
    Ok((!ids.is_empty()).then(|| format!("; near it {are} {}", ids.join(", "))))
}

/// Adds `id` to the at most [`NAMED`] pairs (edits, id) with the smallest edit distance to `asked`. Ignores `id` unless a typing error
/// explains the distance or the id contains `asked`.
fn add_near(asked: &str, id: &str, best: &mut BTreeSet<(usize, String)>) {
    // An id can be a path with a row number. A last part of it that is equal to the text counts as contained, however short.
    let is_last = id.strip_suffix(asked).is_some_and(|head| head.ends_with([':', '/']));
    let holds = !asked.is_empty() && is_last || id.contains(asked) && asked.chars().count() >= MIN_PART;
    if let Some(edits) = near(asked, id).or_else(|| holds.then(|| strsim::levenshtein(asked, id))) {
        best.insert((edits, id.to_owned()));
        if best.len() > NAMED {
            best.pop_last();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(asked: &str, ids: &[&str]) -> Vec<String> {
        let mut best = BTreeSet::new();
        ids.iter().for_each(|id| add_near(asked, id, &mut best));
        best.into_iter().map(|(_, id)| id).collect()
    }

    #[test]
    fn near_ids_are_few_and_the_nearest_come_first() {
        let found = near("bread.txt", &["tea.txt", "bred.txt", "bread.tx", "garden.txt"]);
        assert_eq!(found, ["bread.tx", "bred.txt", "tea.txt"]);
        assert_eq!(near("", &["a", "abc"]), ["a"]);
        assert_eq!(near("tea.txt", &["notes/1987/english/tea.txt"]), ["notes/1987/english/tea.txt"]);
        assert!(near("a", &["long-and-far"]).is_empty());
        assert_eq!(near("d1", &["d2", "d3", "d4", "d5", "d6", "d7", "d11"]), ["d11", "d2", "d3", "d4", "d5"]);
    }
}
