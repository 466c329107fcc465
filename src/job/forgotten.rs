//! The documents that `forget` leaves out of a source.

use std::collections::{BTreeMap, BTreeSet};

use datafusion::logical_expr::{Expr, lit};
use datafusion::prelude::col;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

/// The documents that a run leaves out, as if the source had never had them. A manifest has their number and a checksum, but no ids.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forgotten {
    /// The number of documents, including rejected documents.
    pub documents: u64,
    /// The XXH3-64 of the ids that the command was given, as 16 hexadecimal digits.
    pub checksum: String,
    /// The ids to leave out of the tables of a finished output.
    #[serde(skip)]
    pub(crate) ids: ForgottenIds,
    /// The rows to leave out of the files of the source, by the path of the file.
    #[serde(skip)]
    pub(crate) places: BTreeMap<String, BTreeSet<u64>>,
    /// The paths of the files to read. If there are none, all files of the source are read.
    #[serde(skip)]
    pub(crate) files: BTreeSet<String>,
}

impl Forgotten {
    /// Returns the condition that a row (source, position, ..) of the source is left out.
    pub(crate) fn rows(&self) -> Option<Expr> {
        let in_file = |(file, rows): (&String, &BTreeSet<u64>)| {
            let rows = rows.iter().map(|row| lit(*row)).collect();
            col("source").eq(lit(file.as_str())).and(col("position").in_list(rows, false))
        };
        self.places.iter().map(in_file).reduce(Expr::or)
    }
}

/// Ids of documents, by the file to which they are limited. Ids under `None` are left out of all files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ForgottenIds(BTreeMap<Option<String>, BTreeSet<String>>);

impl ForgottenIds {
    pub(crate) fn insert(&mut self, id: String, source: Option<String>) {
        self.0.entry(source).or_default().insert(id);
    }

    /// Returns the ids with their files.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.0.iter().flat_map(|(source, ids)| ids.iter().map(|id| (id.as_str(), source.as_deref())))
    }

    /// Whether ids are limited to a file.
    pub(crate) fn has_sources(&self) -> bool {
        self.0.keys().any(Option::is_some)
    }

    pub(crate) fn checksum(&self) -> String {
        format!("{:016x}", xxh3_64(format!("{:?}", self.0).as_bytes()))
    }

    /// Returns the condition that `id`, a text, is one of the ids, for a row with this `source`. It is never null.
    pub(crate) fn contain(&self, id: &Expr, source: &Expr) -> Expr {
        let of_file = |(file, ids): (&Option<String>, &BTreeSet<String>)| {
            let is_listed = id.clone().in_list(ids.iter().map(|id| lit(id.as_str())).collect(), false);
            match file {
                None => is_listed,
                Some(file) => is_listed.and(source.clone().eq(lit(file.as_str()))),
            }
        };
        self.0.iter().map(of_file).reduce(Expr::or).unwrap_or_else(|| lit(false)).is_true()
    }
}
