//! The error for an id that no compared document has.

use std::collections::BTreeSet;

use datafusion::common::cast::as_string_array;
use datafusion::prelude::{col, lit};
use futures::TryStreamExt;
use serde::Deserialize;

use super::{Finished, rows};
use crate::error::spelling::near;
use crate::error::{Error, Result};
use crate::frames::utf8;
use crate::page::text::either;
use crate::schema::Table;

/// The most ids that an error suggests.
const NAMED: usize = 5;
/// From this length on, a text that is part of an id is similar to it, however long the id is.
const MIN_PART: usize = 3;

/// The error for an unknown `id`: the document was rejected, or there is none, with the ids that are similar.
///
/// # Errors
/// When the tables cannot be read.
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
    let mut nearest = Nearest::to(id);
    let mut ids = finished.table(Table::Documents)?.select(vec![utf8("id")])?.execute_stream().await?;
    while let Some(batch) = ids.try_next().await? {
        as_string_array(batch.column(0))?.iter().flatten().for_each(|id| nearest.take(id));
    }
    let not = match finished.id(id) {
        Some(_) => "",
        None => ", because the ids of this output are whole numbers",
    };
    Ok(Error::job(format!("no document has the id `{id}`{not}{}", nearest.suggestion())))
}

/// The ids with the fewest edits to a text, as far as a typing error can explain them.
struct Nearest<'a> {
    asked: &'a str,
    chars: usize,
    /// (edits, id); at most [`NAMED`].
    best: BTreeSet<(usize, String)>,
}

impl<'a> Nearest<'a> {
    fn to(asked: &'a str) -> Self {
        Self { asked, chars: asked.chars().count(), best: BTreeSet::new() }
    }

    fn take(&mut self, id: &str) {
        // The number of a row follows the name of its file.
        let is_last = id.strip_suffix(self.asked).is_some_and(|head| head.ends_with([':', '/']));
        let holds = self.chars > 0 && is_last || self.chars >= MIN_PART && id.contains(self.asked);
        let edits = near(self.asked, id).or_else(|| holds.then(|| strsim::levenshtein(self.asked, id)));
        if let Some(edits) = edits {
            self.best.insert((edits, id.to_owned()));
            if self.best.len() > NAMED {
                self.best.pop_last();
            }
        }
    }

    fn suggestion(&self) -> String {
        match self.best.is_empty() {
            true => "; the column `id` of the table documents lists all ids".into(),
            false => {
                let ids: Vec<String> = self.best.iter().map(|(_, id)| format!("`{id}`")).collect();
                let are = either(ids.len() as u64, "is", "are");
                format!("; near it {are} {}", ids.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(asked: &str, ids: &[&str]) -> Vec<String> {
        let mut nearest = Nearest::to(asked);
        ids.iter().for_each(|id| nearest.take(id));
        nearest.best.into_iter().map(|(_, id)| id).collect()
    }

    #[test]
    fn fewest_edits_come_first_and_far_ones_not_at_all() {
        assert_eq!(
            near("bread.txt", &["tea.txt", "bred.txt", "bread.tx", "garden.txt"]),
            ["bread.tx", "bred.txt", "tea.txt"]
        );
        assert_eq!(near("", &["a", "abc"]), ["a"]);
    }

    #[test]
    fn a_part_of_a_path_is_near_it() {
        assert_eq!(near("tea.txt", &["notes/1987/english/tea.txt"]), ["notes/1987/english/tea.txt"]);
        assert!(near("a", &["long-and-far"]).is_empty());
    }

    #[test]
    fn at_most_five_are_named() {
        assert_eq!(near("d1", &["d2", "d3", "d4", "d5", "d6", "d7", "d11"]), ["d11", "d2", "d3", "d4", "d5"]);
    }
}
