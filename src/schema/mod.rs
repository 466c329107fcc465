//! The contracts of the tables: the meaning of a row, its columns, and rules for every row.
//!
//! They are the files `schemas/*.toml`, compiled in. What is written is checked against them: the schema by
//! [`Contract::check_schema`], the rows by [`Contract::audit`] and [`Contract::verdict`]. `publish` writes them in the formats of
//! other tools.

mod audit;
mod contract;
mod manifest;
pub(crate) mod publish;
mod source_types;

pub use self::audit::AuditDepth;
pub use self::contract::{Column, Contract, Table, Type, contract};
pub(crate) use self::manifest::check_manifest;
pub use self::source_types::{IdType, SourceColumn, SourceTypes, carried};
