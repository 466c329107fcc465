//! Files that must stay because of logs which do not follow our results: those of other programs, and those that this one cannot
//! continue.

use std::collections::BTreeSet;

use super::log::{self, Found};
use crate::error::Result;
use crate::output::Layout;
use crate::schema::Table;

/// What such logs name, or may name.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// Files, by their paths inside the output.
    files: BTreeSet<String>,
    /// Tables whose logs cannot be read.
    tables: BTreeSet<&'static str>,
}

impl Held {
    /// Whether the log of its table may name a file.
    pub(crate) fn holds(&self, inside: &str) -> bool {
        let table = inside.split_once('/').map_or(inside, |(table, _)| table);
        self.tables.contains(table) || self.files.contains(inside)
    }
}

/// What the logs of an output name that do not follow its results.
///
/// # Errors
/// When the store does not answer.
pub(crate) async fn held(output: &Layout) -> Result<Held> {
    let mut held = Held::default();
    for table in Table::ALL {
        match log::read(output, table).await? {
            Found::None => {}
            Found::Log(log) if !log.is_foreign() && log.forbids().is_none() => {}
            Found::Log(log) => held.files.extend(log.inside(table)),
            Found::Unreadable(_) => {
                held.tables.insert(table.name());
            }
        }
    }
    Ok(held)
}
