//! The contracts of an output in the formats of other tools.

mod dbt;
mod described;
mod odcs;
mod sql_type;
mod yaml;

pub(crate) use dbt::dbt;
pub(crate) use described::DescribedOutput;
pub(crate) use odcs::odcs;
pub(crate) use yaml::yaml;
