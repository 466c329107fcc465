//! The contracts of the tables: what each row stands for, its columns, and what is true of every row.
//!
//! They are the files `schemas/*.toml`, compiled in. What is written is checked against them: the schema by
//! [`Contract::check_schema`], the rows by [`Contract::audit`] and [`Contract::verdict`].

mod audit;
mod contract;
mod manifest;
mod source_types;

pub use self::audit::Depth;
pub use self::contract::{Column, Contract, Table, Type, contract};
pub(crate) use self::manifest::check_manifest;
pub use self::source_types::{IdType, SourceColumn, SourceTypes, carried};
