//! The contracts of the tables. A contract contains the meaning of a row, the columns, and rules for every row. Contracts are the files
//! `schemas/*.toml`, which are compiled in. Runs check the schemas of their tables with [`Contract::check_schema`], and the rows with
//! [`Contract::audit`] and [`Contract::verdict`]. `publish` writes contracts in the formats of other tools.

mod contract;
pub(crate) mod publish;
mod source_types;

pub use self::contract::{AuditDepth, Column, Contract, Table, Type, contract};
pub(crate) use self::source_types::as_text;
pub use self::source_types::{IdType, SourceColumn, SourceTypes, carried};
