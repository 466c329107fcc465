//! Files that stay because a log names them that does not follow our results: the log of another program, or one that
//! this program cannot continue.

use std::collections::BTreeSet;

use super::log::{self, FoundLog};
use crate::error::Result;
use crate::output::Layout;
use crate::schema::Table;

/// The files that such logs name, or may name.
#[derive(Debug, Default)]
pub(crate) struct LogFiles {
    /// Files, by their paths inside the output.
    files: BTreeSet<String>,
    /// Tables whose logs cannot be read.
    tables: BTreeSet<&'static str>,
}

impl LogFiles {
    /// Whether the log of its table may name a file.
    pub(crate) fn holds(&self, inside: &str) -> bool {
        let table = inside.split_once('/').map_or(inside, |(table, _)| table);
        self.tables.contains(table) || self.files.contains(inside)
    }
}

/// The files that such logs of an output name.
pub(crate) async fn held(output: &Layout) -> Result<LogFiles> {
    let mut held = LogFiles::default();
    for table in Table::ALL {
        match log::read(output, table).await? {
            FoundLog::None => {}
            FoundLog::Log(log) if !log.is_foreign() && log.forbids().is_none() => {}
            FoundLog::Log(log) => held.files.extend(log.inside(table)),
            FoundLog::Unreadable(_) => {
                held.tables.insert(table.name());
            }
        }
    }
    Ok(held)
}
