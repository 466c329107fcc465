//! A passage that repeats inside documents, and its places.

use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use datafusion::common::cast::{as_string_array, as_uint64_array};
use datafusion::functions::string::expr_fn::starts_with;
use datafusion::prelude::{DataFrame, Expr, cast, col, lit};

use super::reference_places::reference_places;
use super::{Finished, Id, id};
use crate::error::{Error, Result};
use crate::schema::Table;

pub use super::places::Places;

/// A passage of a finished output.
#[derive(Debug)]
pub struct Passage {
    /// Its id.
    pub id: String,
    /// Its words.
    pub words: u64,
    /// How often it occurs.
    pub occurrences: u64,
    /// The documents in which it occurs.
    pub documents: u64,
    /// Its beginning, as it is written in one place.
    pub sample: String,
    /// Its places in the documents of the output, the one that stays before the others.
    pub places: Places,
    /// Its places in reference documents, by id; `None` if the output has none.
    pub reference: Option<Places>,
}

impl Passage {
    /// The columns of its places: whether the document is a reference document is among them if the output has any.
    pub fn columns(&self) -> &'static [&'static str] {
        const COLUMNS: [&str; 6] = ["id", "source", "char_start", "char_end", "kept", "reference"];
        if self.reference.is_some() { &COLUMNS } else { &COLUMNS[..5] }
    }

    /// The rows of its places, those in reference documents last.
    pub fn rows(&self) -> Vec<RecordBatch> {
        self.places
            .first
            .iter()
            .chain(self.reference.iter().flat_map(|reference| &reference.first))
            .cloned()
            .collect()
    }
}

/// The passage whose id begins with `id`, and `most` of its places, in the output's own documents and in reference documents. The
/// texts of those are read if one of them has the passage.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) if no passage has such an id, or several have;
/// [`Kind::Input`](crate::error::Kind::Input) if the output has no passages, or the sources of reference documents are gone or have
/// changed.
pub async fn passage(finished: &Finished, id: &str, most: usize) -> Result<Passage> {
    if finished.job().passages.is_none() {
        return Err(Error::input(
            "this output has no passages: add the section [passages] to its job, and run it again",
        ));
    }
    let passages = finished.table(Table::Passages)?;
    let text = |name: &str| cast(col(name), DataType::Utf8).alias(name);
    let columns = vec![
        text("passage_id"),
        text("sample"),
        col("words"),
        col("occurrences"),
        col("documents"),
        col("reference_documents"),
    ];
    let named = passages.filter(starts_with(col("passage_id"), lit(id)))?.select(columns)?;
    let batches = named.limit(0, Some(2))?.collect().await?;
    let mut found = Vec::new();
    for batch in &batches {
        let (ids, samples) = (as_string_array(batch.column(0))?, as_string_array(batch.column(1))?);
        let numbers = [2, 3, 4, 5].map(|column| as_uint64_array(batch.column(column)));
        let [words, occurrences, documents, reference] = numbers;
        let (words, occurrences, documents, reference) = (words?, occurrences?, documents?, reference?);
        for row in 0..batch.num_rows() {
            let passage = Passage {
                id: ids.value(row).to_owned(),
                words: words.value(row),
                occurrences: occurrences.value(row),
                documents: documents.value(row),
                sample: samples.value(row).to_owned(),
                places: Places::default(),
                reference: finished.job().against.is_some().then(Places::default),
            };
            found.push((passage, reference.value(row)));
        }
    }
    let (mut passage, reference) = match <[_; 1]>::try_from(found) {
        Ok([passage]) => passage,
        Err(found) if found.is_empty() => {
            return Err(Error::job(format!(
                "no passage has the id {id:?}: the column passage_id of the tables spans and passages has the ids"
            )));
        }
        Err(_) => {
            return Err(Error::job(format!(
                "several passages have ids that begin with {id:?}: give more digits"
            )));
        }
    };
    let places = finished.table(Table::Spans)?.filter(col("passage_id").eq(lit(passage.id.as_str())))?;
    let all = places.clone().count().await? as u64;
    let order = vec![
        col("kept").sort(false, false),
        col("id").sort(true, false),
        col("char_start").sort(true, false),
    ];
    let stays = places.clone().filter(col("kept_reference"))?;
    let columns: Vec<Expr> = passage
        .columns()
        .iter()
        .map(|&name| match name {
            "reference" => lit(false).alias(name),
            _ => col(name),
        })
        .collect();
    let first = places.sort(order)?.limit(0, Some(most))?.select(columns)?.collect().await?;
    passage.places = Places { first, all };
    if reference > 0 {
        let kept = kept_at(finished, stays).await?;
        passage.reference =
            Some(reference_places(finished, (&passage.id, passage.words), &kept, most).await?);
    }
    Ok(passage)
}

/// The reference documents in which passages stay that spans have, and the first characters there.
async fn kept_at(finished: &Finished, spans: DataFrame) -> Result<Vec<(Id, u64)>> {
    let columns = vec![id::column_named("kept_id", finished.manifest().source.id), col("kept_char_start")];
    let mut kept = Vec::new();
    for batch in spans.select(columns)?.distinct()?.collect().await? {
        let starts = as_uint64_array(batch.column(1))?.values().to_vec();
        kept.extend(id::ids(batch.column(0))?.into_iter().zip(starts));
    }
    Ok(kept)
}
