//! A table's contract and the check of a schema against it.

use std::fmt;
use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use serde::Deserialize;

use super::source_types::{IdType, SourceTypes};
use crate::error::{Error, Result};
use crate::job::{Bits, Columns, Job, ShingleHash, Source};

/// Defines the tables of an output: each with its name, which its folder and its contract have too, and with the jobs that write
/// it if not all do.
macro_rules! tables {
    (@jobs) => { None };
    (@jobs $is_written:expr) => { Some($is_written) };
    ($($(#[$doc:meta])* $table:ident = $name:literal $(if $is_written:expr)?,)*) => {
        /// The tables of an output.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
        pub enum Table {
            $($(#[$doc])* #[serde(rename = $name)] $table,)*
        }

        impl Table {
            /// All of them.
            pub const ALL: [Table; [$($name),*].len()] = [$(Table::$table),*];

            /// The name of each table, its contract, and whether a job writes it, if not all do.
            const ENTRIES: [(&'static str, &'static str, Option<fn(&Job) -> bool>); Table::ALL.len()] = [$((
                $name,
                include_str!(concat!("../../schemas/", $name, ".toml")),
                tables!(@jobs $($is_written)?),
            )),*];
        }
    };
}

tables! {
    /// Pairs of similar documents.
    Pairs = "pairs",
    /// Clusters of documents.
    Clusters = "clusters",
    /// Clusters of documents at higher thresholds.
    ClusterLevels = "cluster_levels" if |job| !job.clusters.thresholds.is_empty(),
    /// The compared documents and their sketches.
    Documents = "documents",
    /// The documents that were read and rejected.
    Rejects = "rejects",
    /// The numbers of pairs by their two groups.
    GroupPairs = "group_pairs" if |job| job.has_groups(),
    /// The documents of a second source that were rejected.
    ReferenceRejects = "reference_rejects" if |job| job.second_source().is_some(),
    /// The dictionary of shingles, if the job has one.
    Dictionary = "dictionary" if |job| job.shingle.hash == ShingleHash::Dictionary,
    /// Clusters of earlier runs whose id changed.
    ClusterIdChanges = "cluster_id_changes" if |job| job.continues_clusters(),
    /// Documents that stay although another one represents their cluster.
    Spared = "spared" if |job| job.clusters.contained.is_some(),
    /// Documents that go because a spared document has the same shingles.
    SparedCopies = "spared_copies" if |job| job.clusters.contained.is_some(),
    /// The places of passages that repeat inside documents.
    Spans = "spans" if |job| job.passages.is_some(),
    /// Those passages.
    Passages = "passages" if |job| job.passages.is_some(),
    /// The shingles that do not count, because too many documents have them.
    FrequentShingles = "frequent_shingles" if |job| job.max_frequency.is_some(),
    /// The buckets of the compared documents, in their order.
    Buckets = "buckets" if |job| job.output.buckets,
}

impl Table {
    /// The tables that `job` writes.
    pub(crate) fn of(job: &Job) -> Vec<Table> {
        let is_written =
            |table: &Table| Self::ENTRIES[*table as usize].2.is_none_or(|is_written| is_written(job));
        Table::ALL.into_iter().filter(is_written).collect()
    }

    /// Whether only some jobs write it.
    pub(crate) fn is_optional(self) -> bool {
        Self::ENTRIES[self as usize].2.is_some()
    }

    /// The table of this name.
    pub(crate) fn named(name: &str) -> Option<Table> {
        Table::ALL.into_iter().find(|table| table.name() == name)
    }

    /// The table's name, which is its folder's under the output.
    pub fn name(self) -> &'static str {
        Self::ENTRIES[self as usize].0
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The contract of a table with its readers.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contract {
    /// The table.
    pub table: Table,
    /// The meaning of one row, in one sentence.
    pub grain: String,
    /// The columns that identify a row.
    pub key: Vec<String>,
    /// The columns, in their order.
    pub columns: Vec<Column>,
    /// SQL expressions over the columns, each true of every row.
    pub rules: Vec<String>,
    /// The values of the column `reason` and what they mean; only `rejects` and `reference_rejects` have them.
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
    /// Its meaning, with unit and range.
    pub doc: String,
}

/// A reason for which a document is not compared.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reason {
    /// The value in the column.
    pub name: String,
    /// Its meaning.
    pub doc: String,
}

/// The types that columns have, by their Arrow names. None is unsigned, since not every engine reads those.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub enum Type {
    /// An id: text, or a number where [`SourceTypes`] says so.
    #[serde(rename = "Utf8 or Int64")]
    Id,
    /// Text.
    Utf8,
    /// True or false.
    Boolean,
    /// A 32-bit count.
    Int32,
    /// A 64-bit count, or the bits of an unsigned key.
    Int64,
    /// A 64-bit share.
    Float64,
    /// A signature: a list of 32-bit values, each the bits of an unsigned one, where the job keeps all bits, and else two bytes for
    /// each value.
    #[serde(rename = "Binary or List<Int32>")]
    Signature,
    /// A list of 32-bit values, each the bits of an unsigned one. No contract names it.
    #[serde(skip)]
    ListInt32,
    /// A list of 64-bit values, each the bits of an unsigned one.
    #[serde(rename = "List<Int64>")]
    ListInt64,
    /// The type of an integer id or a carried column, from the source. No contract names it.
    #[serde(skip)]
    Source(DataType),
}

impl Type {
    /// The Arrow type that is written.
    pub fn arrow(&self) -> DataType {
        match self {
            Type::Id | Type::Utf8 => DataType::Utf8,
            Type::Boolean => DataType::Boolean,
            Type::Int32 => DataType::Int32,
            Type::Int64 => DataType::Int64,
            Type::Float64 => DataType::Float64,
            Type::Signature => DataType::Binary,
            Type::ListInt32 => DataType::new_list(DataType::Int32, true),
            Type::ListInt64 => DataType::new_list(DataType::Int64, true),
            Type::Source(data_type) => data_type.clone(),
        }
    }

    /// Whether stages and queries compute on the unsigned numbers of these bits, where the column is of the type `stored`. Columns
    /// from the source stay as they are.
    pub(crate) fn has_unsigned_bits(&self, stored: &DataType) -> bool {
        match self {
            Type::Int32 | Type::Int64 | Type::ListInt32 | Type::ListInt64 => true,
            Type::Signature => stored.is_nested(),
            Type::Id | Type::Utf8 | Type::Boolean | Type::Float64 | Type::Source(_) => false,
        }
    }

    /// Whether `other` is a layout of the same values: a large or view type is, another width is not. Whether a list's
    /// items may be null, and what they are called, does not matter.
    fn accepts(&self, other: &DataType) -> bool {
        let item = match other {
            DataType::List(item)
            | DataType::LargeList(item)
            | DataType::ListView(item)
            | DataType::LargeListView(item) => Some(item.data_type()),
            _ => None,
        };
        match self {
            Type::ListInt32 => item == Some(&DataType::Int32),
            Type::ListInt64 => item == Some(&DataType::Int64),
            Type::Signature => {
                matches!(other, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
            }
            _ if self.arrow() == DataType::Utf8 => {
                matches!(other, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
            }
            _ => *other == self.arrow(),
        }
    }
}

/// The contract of `table`.
pub fn contract(table: Table) -> &'static Contract {
    static CONTRACTS: LazyLock<[Contract; Table::ALL.len()]> =
        LazyLock::new(|| Table::ALL.map(|table| Contract::read(table, Table::ENTRIES[table as usize].1)));
    // They are in the order of the variants, as `Table::ALL` is.
    &CONTRACTS[table as usize]
}

/// The rule about signatures of 16-bit values.
const SHORT_RULE: &str = "signature <> ''";

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

    /// The contract of the same table over a source of these types, with the columns that the job asks for: every id has its type,
    /// `documents` has the sketches that are kept and the columns that it carries, `pairs` and `clusters` may have groups and
    /// passages, and `clusters` has `weakest_link` where pairs connect its documents.
    pub(crate) fn over(&self, source: &SourceTypes, columns: Columns) -> Contract {
        let Columns { keep, bits, pair_passages, groups, clusters } = columns;
        let mut contract = self.clone();
        if source.id == IdType::Int64 {
            for column in contract.columns.iter_mut().filter(|column| column.kind == Type::Id) {
                column.kind = Type::Source(DataType::Int64);
            }
        }
        if self.table == Table::Pairs && !pair_passages {
            ["passage_a", "passage_b"].into_iter().for_each(|name| contract.leave_out(name));
        }
        if self.table == Table::Clusters && !clusters.keeps_chains() {
            contract.leave_out("weakest_link");
        }
        if !groups && self.table != Table::GroupPairs {
            ["group", "group_a", "group_b", "groups"].into_iter().for_each(|name| contract.leave_out(name));
        }
        if self.table == Table::Documents {
            if !keep.signatures() {
                ["signature", "set_hash_0", "set_hash_1"]
                    .into_iter()
                    .for_each(|name| contract.leave_out(name));
            }
            if !keep.shingles() {
                contract.leave_out("shingles");
            }
            if bits == Bits::Of32 {
                contract.have_whole_signatures();
            }
            contract.columns.extend(source.columns.iter().map(|carried| Column {
                name: Source::stored(&carried.name),
                kind: Type::Source(carried.data_type.clone()),
                nullable: true,
                doc: "A column of the source.".into(),
            }));
        }
        contract
    }

    /// Makes signatures lists of 32-bit values.
    fn have_whole_signatures(&mut self) {
        for column in self.columns.iter_mut().filter(|column| column.kind == Type::Signature) {
            column.kind = Type::ListInt32;
        }
        for rule in &mut self.rules {
            *rule = rule.replace(SHORT_RULE, "array_length(signature) >= 1");
        }
    }

    /// Takes a column out, and the rules that are about it.
    fn leave_out(&mut self, name: &str) {
        self.columns.retain(|column| column.name != name);
        // Some names begin like others: `shingles` is not `shingle_count`.
        let is_about =
            |rule: &str| rule.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name);
        self.rules.retain(|rule| !is_about(rule));
        self.example.iter_mut().for_each(|row| {
            row.remove(name);
        });
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
                    "has the column `{}` as {}, but the contract as {}",
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

    pub(super) fn broken(&self, fault: &str) -> Error {
        Error::bug(format!("the table `{}` {fault} (schemas/{}.toml)", self.table, self.table))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{ClusterMethod, Keep};
    use crate::schema::SourceColumn;

    #[test]
    fn every_file_is_read_and_is_its_tables() {
        for table in Table::ALL {
            let contract = contract(table);
            assert_eq!(contract.fault, None, "{table}");
            assert_eq!(contract.table, table);
            assert!(contract.grain.ends_with('.') && contract.columns.iter().all(|c| c.doc.ends_with('.')));
            assert!((2..=3).contains(&contract.example.len()), "{table}");
            // Having no group is a group too.
            let nullable = table == Table::GroupPairs;
            for key in &contract.key {
                assert!(
                    contract.columns.iter().any(|c| c.name == *key && c.nullable == nullable),
                    "{table} {key}"
                );
            }
            contract.check_schema(&contract.arrow_schema()).unwrap();
        }
    }

    #[test]
    fn a_job_knows_the_columns_that_it_cannot_carry() {
        let names: Vec<_> = contract(Table::Documents).columns.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, crate::job::DOCUMENTS_COLUMNS);
    }

    #[test]
    fn ids_are_numbers_in_every_table_and_only_documents_carries_columns() {
        let columns = vec![SourceColumn { name: "title".into(), data_type: DataType::Utf8 }];
        let source = SourceTypes { id: IdType::Int64, columns };
        for table in Table::ALL {
            let schema = contract(table)
                .over(
                    &source,
                    Columns {
                        keep: Keep::Shingles,
                        bits: Bits::Of32,
                        pair_passages: true,
                        groups: true,
                        clusters: ClusterMethod::Components,
                    },
                )
                .arrow_schema();
            for name in ["id", "id_a", "id_b", "cluster_id"] {
                let kind = schema.field_with_name(name).ok().map(|field| field.data_type());
                assert!(kind.is_none_or(|kind| *kind == DataType::Int64), "{table} {name}");
            }
            assert_eq!(schema.fields().last().unwrap().name() == "title", table == Table::Documents);
            let unsigned = |field: &Arc<Field>| field.data_type().to_string().contains("UInt");
            assert!(!schema.fields().iter().any(unsigned), "{table}");
        }
    }

    #[test]
    fn what_is_not_kept_is_no_column_and_no_rule() {
        let columns = vec![SourceColumn { name: "title".into(), data_type: DataType::Utf8 }];
        let source = SourceTypes { id: IdType::Utf8, columns };
        let of = |keep| contract(Table::Documents).over(&source, Columns { keep, ..Columns::default() });
        let names =
            |keep| of(keep).columns.iter().map(|column| column.name.clone()).collect::<Vec<_>>().join(" ");
        let least = "id source position origin_number doc shingle_count";
        assert_eq!(names(Keep::None), format!("{least} title"));
        let hashes = "set_hash_0 set_hash_1";
        assert_eq!(names(Keep::Signatures), format!("{least} {hashes} signature title"));
        assert_eq!(names(Keep::Shingles), format!("{least} {hashes} signature shingles title"));
        let rules = |keep| of(keep).rules.join("; ");
        assert_eq!(rules(Keep::None), "shingle_count >= 0; position >= 0");
        assert!(
            rules(Keep::Signatures).contains("signature") && !rules(Keep::Signatures).contains("shingles")
        );
        assert_eq!(of(Keep::Shingles).rules, contract(Table::Documents).rules);
        let whole = Columns { bits: Bits::Of32, ..Columns::default() };
        let whole = contract(Table::Documents).over(&source, whole);
        assert!(whole.rules.contains(&"array_length(signature) >= 1".into()), "{:?}", whole.rules);
        let list = DataType::new_list(DataType::Int32, true);
        assert_eq!(whole.arrow_schema().field_with_name("signature").unwrap().data_type(), &list);
    }

    #[test]
    fn a_file_that_cannot_be_read_keeps_no_promise() {
        let contract = Contract::read(Table::Pairs, "grain = 1");
        let error = contract.check_schema(&Schema::empty()).unwrap_err().to_string();
        assert!(error.contains("schemas/pairs.toml cannot be read"), "{error}");
    }
}
