//! Totals of a run: numbers of its tables for the manifest, as the stage [`totals`](super::stage::totals) counted them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use datafusion::common::cast::{as_list_array, as_string_array, as_uint64_array};
use datafusion::prelude::col;

use super::context::StageContext;
use super::tables::WorkTable;
use crate::error::{Error, Result};
use crate::frames::utf8;
use crate::schema::{self, AuditDepth, Table};

/// The columns that the check of each run reads.
pub(super) const DEPTH: AuditDepth = AuditDepth::WithoutLists;

/// One number or more for the manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Total {
    /// The rows of a table, and how many of them break each promise of its contract.
    Contract(Table),
    /// Pairs within groups of copies that are written as stars.
    PairsLeftOut,
    /// Documents whose shingle set an earlier one has.
    RepeatedSets,
    /// Documents that represent a cluster.
    Representatives,
    /// Documents that `apply` removes.
    Removed,
    /// Documents whose removal loses much, and the shingles that are lost; nothing if they were not counted.
    Lost,
    /// Documents with a single shingle.
    SingleShingle,
    /// Components of documents, where the cluster method divides them.
    Components,
    /// Rejects, by their reason.
    Reasons,
    /// Reference documents that were replaced.
    Replaced,
    /// Reference documents that the reference outputs kept, and that are removed now.
    Superseded,
}

impl Total {
    pub(super) fn name(self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Contract(table) => return format!("contract of {}", table.name()).into(),
            Self::PairsLeftOut => "pairs_left_out",
            Self::RepeatedSets => "repeated_sets",
            Self::Representatives => "representatives",
            Self::Removed => "removed",
            Self::Lost => "lost",
            Self::SingleShingle => "single_shingle",
            Self::Components => "components",
            Self::Reasons => "reasons",
            Self::Replaced => "replaced",
            Self::Superseded => "superseded",
        })
    }
}

/// The totals of a run.
pub(super) struct Totals(Vec<TotalRow>);

/// A row of the table.
struct TotalRow {
    total: String,
    key: String,
    numbers: Vec<u64>,
}

impl Totals {
    /// Those that the stage counted.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub(super) async fn read(cx: &StageContext<'_>) -> Result<Self> {
        let mut rows = Vec::new();
        let columns = vec![utf8("total"), utf8("key"), col("numbers")];
        for batch in cx.table(WorkTable::TOTALS)?.select(columns)?.collect().await? {
            let (totals, keys) = (as_string_array(batch.column(0))?, as_string_array(batch.column(1))?);
            let numbers = as_list_array(batch.column(2))?;
            for ((total, key), numbers) in totals.iter().zip(keys).zip(numbers.iter()) {
                let numbers = numbers.as_ref().map(|numbers| as_uint64_array(numbers)).transpose()?;
                rows.push(TotalRow {
                    total: total.unwrap_or_default().to_owned(),
                    key: key.unwrap_or_default().to_owned(),
                    numbers: numbers.map(|numbers| numbers.values().to_vec()).unwrap_or_default(),
                });
            }
        }
        Ok(Self(rows))
    }

    fn rows(&self, total: Total) -> impl Iterator<Item = &TotalRow> {
        let name = total.name();
        self.0.iter().filter(move |row| row.total == name)
    }

    /// The numbers of a total that has one row; `None` if the stage did not count it.
    pub(super) fn numbers(&self, total: Total) -> Option<&[u64]> {
        self.rows(total).next().map(|row| row.numbers.as_slice())
    }

    /// The number of a total that has one.
    ///
    /// # Errors
    /// [`Kind::Bug`](crate::error::Kind::Bug) if the stage did not count it.
    pub(super) fn number(&self, total: Total) -> Result<u64> {
        self.numbers(total).and_then(|numbers| numbers.first()).copied().ok_or_else(|| not_counted(total))
    }

    /// The number of each key of a total.
    pub(super) fn by_key(&self, total: Total) -> BTreeMap<String, u64> {
        self.rows(total).map(|row| (row.key.clone(), row.numbers.iter().sum())).collect()
    }

    /// Checks that `table`, which was written with `written` rows, has these and that they keep its contract.
    ///
    /// # Errors
    /// [`Kind::Bug`](crate::error::Kind::Bug) if not.
    pub(super) fn check(&self, cx: &StageContext<'_>, table: Table) -> Result<()> {
        let contract = schema::contract(table).over(&cx.types, cx.job.columns());
        let (written, total) = (cx.rows(table), Total::Contract(table));
        let counted = self.numbers(total).and_then(|numbers| numbers.split_first());
        let (&rows, broken) = counted.ok_or_else(|| not_counted(total))?;
        if rows != written {
            return Err(Error::bug(format!(
                "{} was written with {written} rows and reads back with {rows}",
                contract.table
            )));
        }
        contract.verdict(broken, DEPTH)
    }
}

fn not_counted(total: Total) -> Error {
    Error::bug(format!("the total {} was not counted", total.name()))
}
