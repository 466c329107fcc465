//! A table's contract and the check of a schema against it.

use std::fmt;
use std::sync::{Arc, LazyLock};

use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use serde::Deserialize;

use crate::error::{Error, Result};
use crate::job::{Job, ShingleHash};

/// The tables of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Table {
    /// Pairs of similar documents.
    Pairs,
    /// Documents that belong together by way of pairs.
    Clusters,
    /// The sketches of the documents that were compared.
    Documents,
    /// The documents that were read and not compared.
    Rejects,
    /// The shingles by their numbers, where the job asks for a dictionary.
    Dictionary,
}

impl Table {
    /// All of them, the last of which only some jobs write.
    pub const ALL: [Table; 5] =
        [Table::Pairs, Table::Clusters, Table::Documents, Table::Rejects, Table::Dictionary];

    /// Those that `job` writes.
    pub fn of(job: &Job) -> &'static [Table] {
        match job.shingle.hash {
            ShingleHash::Dictionary => &Table::ALL,
            _ => &Table::ALL[..4],
        }
    }

    /// The table of this name.
    pub fn named(name: &str) -> Option<Table> {
        Table::ALL.into_iter().find(|table| table.name() == name)
    }

    /// The table's name, which is its folder's under the output.
    pub fn name(self) -> &'static str {
        match self {
            Table::Pairs => "pairs",
            Table::Clusters => "clusters",
            Table::Documents => "documents",
            Table::Rejects => "rejects",
            Table::Dictionary => "dictionary",
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a table promises to its readers.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contract {
    /// The table.
    pub table: Table,
    /// What one row stands for, in one sentence.
    pub grain: String,
    /// The columns that tell rows apart.
    pub key: Vec<String>,
    /// The columns, in their order.
    pub columns: Vec<Column>,
    /// SQL expressions over the columns, each true of every row.
    pub rules: Vec<String>,
    /// The values of the column `reason` and what they mean; only `rejects` has them.
    #[serde(default)]
    pub reasons: Vec<Reason>,
    /// Rows that keep the contract, by column; a column that is null is left out.
    pub example: Vec<toml::Table>,
    /// Why the compiled-in file could not be read; every check then fails with it.
    #[serde(skip)]
    pub(super) fault: Option<String>,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: Type,
    /// Whether it may be null.
    #[serde(default)]
    pub nullable: bool,
    /// What it holds, with its unit and range.
    pub doc: String,
}

/// A reason for which a document is not compared.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reason {
    /// The value in the column.
    pub name: String,
    /// What it means.
    pub doc: String,
}

/// The types that columns have, by their Arrow names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Type {
    /// Text.
    Utf8,
    /// True or false.
    Boolean,
    /// A 16-bit count.
    UInt16,
    /// A 64-bit count, key or hash.
    UInt64,
    /// A 64-bit share.
    Float64,
    /// A list of 32-bit values.
    #[serde(rename = "List<UInt32>")]
    ListUInt32,
    /// A list of 64-bit values.
    #[serde(rename = "List<UInt64>")]
    ListUInt64,
}

impl Type {
    /// The Arrow type that is written.
    pub fn arrow(self) -> DataType {
        match self {
            Type::Utf8 => DataType::Utf8,
            Type::Boolean => DataType::Boolean,
            Type::UInt16 => DataType::UInt16,
            Type::UInt64 => DataType::UInt64,
            Type::Float64 => DataType::Float64,
            Type::ListUInt32 => DataType::new_list(DataType::UInt32, true),
            Type::ListUInt64 => DataType::new_list(DataType::UInt64, true),
        }
    }

    /// Whether `other` is a layout of the same values: a large or view type is, another width is not. Whether a list's
    /// items may be null, and what they are called, does not matter.
    fn accepts(self, other: &DataType) -> bool {
        let item = match other {
            DataType::List(item)
            | DataType::LargeList(item)
            | DataType::ListView(item)
            | DataType::LargeListView(item) => Some(item.data_type()),
            _ => None,
        };
        match self {
            Type::Utf8 => matches!(other, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View),
            Type::ListUInt32 => item == Some(&DataType::UInt32),
            Type::ListUInt64 => item == Some(&DataType::UInt64),
            Type::Boolean | Type::UInt16 | Type::UInt64 | Type::Float64 => *other == self.arrow(),
        }
    }
}

/// The contract of `table`.
pub fn contract(table: Table) -> &'static Contract {
    static PAIRS: LazyLock<Contract> =
        LazyLock::new(|| Contract::read(Table::Pairs, include_str!("../../schemas/pairs.toml")));
    static CLUSTERS: LazyLock<Contract> =
        LazyLock::new(|| Contract::read(Table::Clusters, include_str!("../../schemas/clusters.toml")));
    static DOCUMENTS: LazyLock<Contract> =
        LazyLock::new(|| Contract::read(Table::Documents, include_str!("../../schemas/documents.toml")));
    static REJECTS: LazyLock<Contract> =
        LazyLock::new(|| Contract::read(Table::Rejects, include_str!("../../schemas/rejects.toml")));
    static DICTIONARY: LazyLock<Contract> =
        LazyLock::new(|| Contract::read(Table::Dictionary, include_str!("../../schemas/dictionary.toml")));
    match table {
        Table::Pairs => &PAIRS,
        Table::Clusters => &CLUSTERS,
        Table::Documents => &DOCUMENTS,
        Table::Rejects => &REJECTS,
        Table::Dictionary => &DICTIONARY,
    }
}

impl Contract {
    /// Reads a compiled-in file. One that cannot be read makes a contract that nothing keeps; the tests read them all.
    fn read(table: Table, text: &str) -> Self {
        toml::from_str(text).unwrap_or_else(|e: toml::de::Error| Contract {
            table,
            grain: String::new(),
            key: Vec::new(),
            columns: Vec::new(),
            rules: Vec::new(),
            reasons: Vec::new(),
            example: Vec::new(),
            fault: Some(e.to_string()),
        })
    }

    /// The Arrow schema that is written.
    pub fn arrow_schema(&self) -> SchemaRef {
        let field = |c: &Column| Field::new(&c.name, c.kind.arrow(), c.nullable);
        Arc::new(Schema::new(self.columns.iter().map(field).collect::<Vec<_>>()))
    }

    /// Whether `schema` has the contract's columns, in their order and with their types.
    ///
    /// Large and view layouts of a type pass. So does a column that may be null where the contract's may not: whether
    /// there are nulls is seen in the rows, by [`Contract::audit`].
    ///
    /// # Errors
    /// [`Kind::Bug`](crate::error::Kind::Bug) with the table, the column and both types.
    pub fn check_schema(&self, schema: &Schema) -> Result<()> {
        self.readable()?;
        for column in &self.columns {
            let Ok(field) = schema.field_with_name(&column.name) else {
                return Err(self.broken(&format!(
                    "has no column `{}` ({})",
                    column.name,
                    column.kind.arrow()
                )));
            };
            if !column.kind.accepts(field.data_type()) {
                return Err(self.broken(&format!(
                    "has the column `{}` as {}, the contract as {}",
                    column.name,
                    field.data_type(),
                    column.kind.arrow()
                )));
            }
        }
        for (at, field) in schema.fields().iter().enumerate() {
            match self.columns.get(at) {
                Some(column) if column.name == *field.name() => {}
                Some(column) if self.columns.iter().any(|c| c.name == *field.name()) => {
                    return Err(self.broken(&format!(
                        "has `{}` as column {}, where the contract has `{}`",
                        field.name(),
                        at + 1,
                        column.name
                    )));
                }
                _ => {
                    return Err(self.broken(&format!(
                        "has the column `{}` ({}), which the contract does not have",
                        field.name(),
                        field.data_type()
                    )));
                }
            }
        }
        Ok(())
    }

    /// Fails if the compiled-in file could not be read.
    pub(super) fn readable(&self) -> Result<()> {
        match &self.fault {
            Some(fault) => Err(Error::bug(format!("schemas/{}.toml cannot be read: {fault}", self.table))),
            None => Ok(()),
        }
    }

    pub(super) fn broken(&self, said: &str) -> Error {
        Error::bug(format!("the table `{}` {said} (schemas/{}.toml)", self.table, self.table))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_read_and_is_its_tables() {
        for table in Table::ALL {
            let contract = contract(table);
            assert_eq!(contract.fault, None, "{table}");
            assert_eq!(contract.table, table);
            assert!(contract.grain.ends_with('.') && contract.columns.iter().all(|c| c.doc.ends_with('.')));
            assert!((2..=3).contains(&contract.example.len()), "{table}");
            for key in &contract.key {
                assert!(contract.columns.iter().any(|c| c.name == *key && !c.nullable), "{table} {key}");
            }
            contract.check_schema(&contract.arrow_schema()).unwrap();
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_keeps_no_promise() {
        let contract = Contract::read(Table::Pairs, "grain = 1");
        let said = contract.check_schema(&Schema::empty()).unwrap_err().to_string();
        assert!(said.contains("schemas/pairs.toml cannot be read"), "{said}");
    }
}
