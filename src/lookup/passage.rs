//! A passage that repeats inside documents, and its places.

use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use datafusion::common::cast::{as_string_array, as_uint64_array};
use datafusion::functions::string::expr_fn::starts_with;
use datafusion::prelude::{cast, col, lit};

use super::Finished;
use crate::error::{Error, Result};
use crate::schema::Table;

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
    /// The first of its places, the one that stays before the others: (id, source, char_start, char_end, kept).
    pub places: Vec<RecordBatch>,
    /// The number of all places.
    pub all: u64,
}

/// The columns of [`Passage::places`].
pub const PLACE: [&str; 5] = ["id", "source", "char_start", "char_end", "kept"];

/// The passage whose id begins with `id`, and `most` of its places.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) if no passage has such an id, or several have;
/// [`Kind::Input`](crate::error::Kind::Input) if the output has no passages.
pub async fn passage(finished: &Finished, id: &str, most: usize) -> Result<Passage> {
    if finished.job().passages.is_none() {
        return Err(Error::input(
            "this output has no passages: add the section [passages] to its job, and run it again",
        ));
    }
    let passages = finished.table(Table::Passages).await?;
    let text = |name: &str| cast(col(name), DataType::Utf8).alias(name);
    let columns =
        vec![text("passage_id"), text("sample"), col("words"), col("occurrences"), col("documents")];
    let named = passages.filter(starts_with(col("passage_id"), lit(id)))?.select(columns)?;
    let batches = named.limit(0, Some(2))?.collect().await?;
    let mut found = Vec::new();
    for batch in &batches {
        let (ids, samples) = (as_string_array(batch.column(0))?, as_string_array(batch.column(1))?);
        let numbers = [2, 3, 4].map(|column| as_uint64_array(batch.column(column)));
        let [words, occurrences, documents] = numbers;
        let (words, occurrences, documents) = (words?, occurrences?, documents?);
        for row in 0..batch.num_rows() {
            found.push(Passage {
                id: ids.value(row).to_owned(),
                words: words.value(row),
                occurrences: occurrences.value(row),
                documents: documents.value(row),
                sample: samples.value(row).to_owned(),
                places: Vec::new(),
                all: 0,
            });
        }
    }
    let passage = match <[Passage; 1]>::try_from(found) {
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
    let places =
        finished.table(Table::Spans).await?.filter(col("passage_id").eq(lit(passage.id.as_str())))?;
    let all = places.clone().count().await? as u64;
    let order = vec![
        col("kept").sort(false, false),
        col("id").sort(true, false),
        col("char_start").sort(true, false),
    ];
    let places = places.sort(order)?.limit(0, Some(most))?.select(PLACE.map(col).to_vec())?.collect().await?;
    Ok(Passage { places, all, ..passage })
}
