//! What the formats have in common.

use crate::schema::contract::Contract;

/// A finished output, as a contract describes it.
#[derive(Debug, Clone)]
pub(crate) struct DescribedOutput<'a> {
    /// The name of its job.
    pub(crate) name: &'a str,
    /// The folder of its tables, as an absolute path or a URL, without a `/` at its end.
    pub(crate) url: &'a str,
    /// The contracts of its tables.
    pub(crate) tables: Vec<Contract>,
}

impl DescribedOutput<'_> {
    /// The files of the table in the folder `name`.
    pub(super) fn files(&self, name: &str) -> String {
        format!("{}/{name}/*.parquet", self.url)
    }
}

/// A rule of a contract that counts as broken where it is null.
pub(super) fn strict(rule: &str) -> String {
    format!("coalesce(({rule}), false)")
}
