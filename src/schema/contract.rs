//! The contract of a table. Checks the schema and the rows of a table against its contract.

use std::fmt;
use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::functions::expr_fn::nullif;
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::prelude::{DataFrame, Expr, lit};
use serde::Deserialize;

use super::source_types::{IdType, SourceTypes};
use crate::error::{Error, Result};
use crate::job::{Bits, Columns, Job, ShingleHash, Source};

/// Defines the tables of an output. The name of a table is also the name of its folder and of its contract. If only some jobs write a
/// table, it has a condition on the job.
macro_rules! tables {
    (@jobs) => { None };
    (@jobs $is_written:expr) => { Some($is_written) };
    ($($(#[$meta:meta])* $table:ident = $name:literal $(if $is_written:expr)?,)*) => {
        /// The tables of an output.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Deserialize)]
        pub enum Table {
            $($(#[$meta])* #[serde(rename = $name)] $table,)*
        }

        impl Table {
            /// All tables.
            pub const ALL: [Table; [$($name),*].len()] = [$(Table::$table),*];

            /// The name of each table, its contract, and its condition on the job, if any.
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
    #[default]
    Pairs = "pairs",
    /// Clusters of documents.
    Clusters = "clusters",
    /// Clusters of documents at higher thresholds.
    ClusterLevels = "cluster_levels" if |job| !job.clusters.thresholds.is_empty(),
    /// The compared documents and their sketches.
    Documents = "documents",
    /// The documents that were read and rejected.
    Rejects = "rejects",
    /// The number of pairs between every two groups.
    GroupPairs = "group_pairs" if |job| job.has_groups(),
    /// The rejected documents in a second source.
    ReferenceRejects = "reference_rejects" if |job| job.second_source().is_some(),
    /// The dictionary of shingles, if the job has one.
    Dictionary = "dictionary" if |job| job.shingle.hash == ShingleHash::Dictionary,
    /// Clusters in earlier runs that now have another id.
    ClusterIdChanges = "cluster_id_changes" if |job| job.continues_clusters(),
    /// Documents that are kept although another document represents their cluster.
    Spared = "spared" if |job| job.clusters.spares(),
    /// Documents that are removed because a spared document has the same shingles.
    SparedCopies = "spared_copies" if |job| job.clusters.spares(),
    /// The decisions about pairs.
    Decisions = "decisions" if |job| job.clusters.decisions.is_some(),
    /// The occurrences of repeated passages in documents.
    Spans = "spans" if |job| job.passages.is_some(),
    /// The repeated passages.
    Passages = "passages" if |job| job.passages.is_some(),
    /// The shingles that comparisons ignore, because they occur in too many documents.
    FrequentShingles = "frequent_shingles" if |job| job.max_frequency.is_some(),
}

impl Table {
    pub(crate) fn written_by(job: &Job) -> Vec<Table> {
        let is_written =
            |table: &Table| Self::ENTRIES[*table as usize].2.is_none_or(|is_written| is_written(job));
        Table::ALL.into_iter().filter(is_written).collect()
    }

    /// Whether only some jobs write the table.
    pub(crate) fn is_optional(self) -> bool {
        Self::ENTRIES[self as usize].2.is_some()
    }

    pub(crate) fn named(name: &str) -> Option<Table> {
        Table::ALL.into_iter().find(|table| table.name() == name)
    }

    /// The name of the table and of its folder in the output.
    pub fn name(self) -> &'static str {
        Self::ENTRIES[self as usize].0
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The contract between a table and its readers.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contract {
    /// The table.
    pub table: Table,
    /// The meaning of one row, in one sentence.
    pub grain: String,
    /// The columns that identify a row.
    pub key: Vec<String>,
    /// The columns, in order.
    pub columns: Vec<Column>,
    /// SQL expressions over the columns that are true for every row.
    pub rules: Vec<String>,
    /// The values in the column `reason`, with their meanings. Only `rejects` and `reference_rejects` have this column.
    #[serde(default)]
    pub reasons: Vec<Reason>,
    /// Example rows that satisfy the contract, by column. Null columns are omitted.
    pub example: Vec<toml::Table>,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// The name of the column.
    pub name: String,
    /// The type of the column.
    #[serde(rename = "type")]
    pub kind: Type,
    /// Whether the column may be null.
    #[serde(default)]
    pub nullable: bool,
    /// The meaning of the values, with unit and range.
    pub doc: String,
}

/// A reason why a document is not compared.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reason {
    /// The value in the column `reason`.
    pub name: String,
    /// The meaning of the value.
    pub doc: String,
    /// Advice for users who want to compare such a document. Only `rejects` has it.
    #[serde(default)]
    pub remedy: String,
}

/// The types of columns. Contract files write them by their Arrow names. No type is unsigned, because some engines cannot read unsigned
/// numbers.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub enum Type {
    /// An id. It is text, or a number if [`SourceTypes`] says so.
    #[serde(rename = "Utf8 or Int64")]
    Id,
    /// Text.
    Utf8,
    /// True or false.
    Boolean,
    /// A 32-bit count.
    Int32,
    /// A 64-bit count, or the bits of an unsigned 64-bit key.
    Int64,
    /// A 64-bit share.
    Float64,
    /// A signature. With 32-bit values, it is a list of integers with the bits of the unsigned values. With 16-bit values, it is a binary
    /// value with two bytes for each value in the signature.
    #[serde(rename = "Binary or List<Int32>")]
    Signature,
    /// Bytes.
    Binary,
    /// A list of 32-bit integers with the bits of unsigned values. Contract files do not use this type.
    #[serde(skip)]
    ListInt32,
    /// A list of 64-bit integers with the bits of unsigned values.
    #[serde(rename = "List<Int64>")]
    ListInt64,
    /// The type of an integer id or of a carried column, which comes from the source. Contract files do not use this type.
    #[serde(skip)]
    Source(DataType),
}

impl Type {
    /// Returns the Arrow type that is written.
    pub fn arrow(&self) -> DataType {
        match self {
            Type::Id | Type::Utf8 => DataType::Utf8,
            Type::Boolean => DataType::Boolean,
            Type::Int32 => DataType::Int32,
            Type::Int64 => DataType::Int64,
            Type::Float64 => DataType::Float64,
            Type::Signature | Type::Binary => DataType::Binary,
            Type::ListInt32 => DataType::new_list(DataType::Int32, true),
            Type::ListInt64 => DataType::new_list(DataType::Int64, true),
            Type::Source(data_type) => data_type.clone(),
        }
    }

    /// Whether a column with the type `stored` contains the bits of unsigned numbers. Stages and queries convert such columns to unsigned
    /// numbers. Columns from the source are not converted.
    pub(crate) fn has_unsigned_bits(&self, stored: &DataType) -> bool {
        match self {
            Type::Int32 | Type::Int64 | Type::ListInt32 | Type::ListInt64 => true,
            Type::Signature => stored.is_nested(),
            Type::Id | Type::Utf8 | Type::Boolean | Type::Float64 | Type::Binary | Type::Source(_) => false,
        }
    }

    /// Whether `other` is the same type or another layout of it, such as a large type or a view type. A type with another width is not
    /// accepted. The name and the nullability of list items are ignored.
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
            Type::Signature | Type::Binary => {
                matches!(other, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
            }
            _ if self.arrow() == DataType::Utf8 => other.is_string(),
            _ => *other == self.arrow(),
        }
    }
}

/// Returns the contract of `table`.
pub fn contract(table: Table) -> &'static Contract {
    // The tests parse every contract file. An invalid file gives an empty contract, which no table satisfies.
    static CONTRACTS: LazyLock<[Contract; Table::ALL.len()]> =
        LazyLock::new(|| Table::ENTRIES.map(|(_, text, _)| toml::from_str(text).unwrap_or_default()));
    // Contracts are in the order of the variants, like `Table::ALL`.
    &CONTRACTS[table as usize]
}

/// The rule about signatures with 16-bit values.
const SHORT_RULE: &str = "signature <> ''";

impl Contract {
    /// Returns the contract of the table for a source with these types and a job with these `columns`. Ids have their type in the source.
    /// `documents` contains the kept sketches and the carried columns. `pairs` and `clusters` can contain groups, and `pairs` can contain
    /// passages. `clusters` contains `weakest_link` if the cluster method finds it.
    pub(crate) fn over(&self, source: &SourceTypes, columns: Columns) -> Contract {
        let Columns { keep, bits, bucket_tags, pair_passages, groups, clusters, decisions } = columns;
        let mut contract = self.clone();
        if source.id == IdType::Int64 {
            for column in contract.columns.iter_mut().filter(|column| column.kind == Type::Id) {
                column.kind = Type::Source(DataType::Int64);
            }
        }
        if self.table == Table::Pairs && !pair_passages {
            ["passage_a", "passage_b"].into_iter().for_each(|name| contract.leave_out(name));
        }
        if self.table == Table::Pairs && !decisions {
            contract.leave_out("decision");
        }
        if self.table == Table::Clusters && !clusters.has_weakest_links() {
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
            if !bucket_tags {
                contract.leave_out("bucket_tags");
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

    fn have_whole_signatures(&mut self) {
        for column in self.columns.iter_mut().filter(|column| column.kind == Type::Signature) {
            column.kind = Type::ListInt32;
        }
        for rule in &mut self.rules {
            *rule = rule.replace(SHORT_RULE, "array_length(signature) >= 1");
        }
    }

    /// Removes a column and the rules that name the column.
    fn leave_out(&mut self, name: &str) {
        self.columns.retain(|column| column.name != name);
        // Compares whole words, because the name of a column can be a part of another name.
        let is_about =
            |rule: &str| rule.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name);
        self.rules.retain(|rule| !is_about(rule));
        self.example.iter_mut().for_each(|row| {
            row.remove(name);
        });
    }

    /// Returns the Arrow schema that is written.
    pub fn arrow_schema(&self) -> SchemaRef {
        let field = |c: &Column| Field::new(&c.name, c.kind.arrow(), c.nullable);
        Arc::new(Schema::new(self.columns.iter().map(field).collect::<Vec<_>>()))
    }

    /// Checks that `schema` has the columns of the contract, in the same order and with the same types. Large and view layouts of a type
    /// are accepted. Nullable columns are accepted too, because [`Contract::audit`] finds nulls in the rows.
    ///
    /// # Errors
    /// [`Kind::Bug`](crate::error::Kind::Bug), with the table, the column and both types, if a column differs.
    pub fn check_schema(&self, schema: &Schema) -> Result<()> {
        let fields = schema.fields();
        for (at, column) in self.columns.iter().enumerate() {
            let (name, kind) = (&column.name, column.kind.arrow());
            let fault = match fields.get(at) {
                Some(field) if field.name() == name && column.kind.accepts(field.data_type()) => continue,
                Some(field) if field.name() == name => {
                    format!("has the column `{name}` as {}, but the contract as {kind}", field.data_type())
                }
                Some(field) if schema.field_with_name(name).is_ok() => {
                    format!("has `{}` as column {}, where the contract has `{name}`", field.name(), at + 1)
                }
                _ => format!("has no column `{name}` ({kind})"),
            };
            return Err(self.broken(&fault));
        }
        match fields.get(self.columns.len()) {
            Some(field) => Err(self.broken(&format!(
                "has the column `{}` ({}), which the contract does not have",
                field.name(),
                field.data_type()
            ))),
            None => Ok(()),
        }
    }

    pub(super) fn broken(&self, fault: &str) -> Error {
        Error::bug(format!("the table `{}` {fault} (schemas/{}.toml)", self.table, self.table))
    }
}

/// The columns that an audit reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditDepth {
    /// All columns except lists and binaries, which take most of the bytes in `documents`. This audit is cheap enough for every run.
    WithoutLists,
    /// Every column.
    Whole,
}

impl Contract {
    /// Returns the promises, which are SQL conditions that are true for every row. Columns that are not null come first, then the rules.
    fn promises(&self, depth: AuditDepth) -> Vec<String> {
        let list = |c: &&Column| c.kind.arrow().is_nested() || c.kind.arrow() == DataType::Binary;
        let lists: Vec<&str> = match depth {
            AuditDepth::Whole => vec![],
            AuditDepth::WithoutLists => self.columns.iter().filter(list).map(|c| c.name.as_str()).collect(),
        };
        let present = self.columns.iter().filter(|c| !c.nullable).map(|c| format!("{} IS NOT NULL", c.name));
        present
            .chain(self.rules.iter().cloned())
            .filter(|promise| !lists.iter().any(|list| promise.contains(list)))
            .collect()
    }

    /// Returns a lazy frame with one row of counts. The first number is the number of rows in `table`. It is followed by the number of rows
    /// that break each promise. The caller passes all numbers except the first to [`Contract::verdict`].
    ///
    /// # Errors
    /// [`Kind::Bug`](crate::error::Kind::Bug) if the table has other columns.
    pub fn audit(&self, table: DataFrame, depth: AuditDepth) -> Result<DataFrame> {
        self.check_schema(table.schema().as_arrow())?;
        let mut counts = vec![count(lit(1)).alias("rows")];
        for (at, promise) in self.promises(depth).iter().enumerate() {
            counts.push(broken(table.parse_sql_expr(promise)?.is_true()).alias(format!("promise_{at}")));
        }
        Ok(table.aggregate(vec![], counts)?)
    }

    /// Fails if any row breaks a promise. `broken` contains the counts from [`Contract::audit`].
    ///
    /// # Errors
    /// [`Kind::Bug`](crate::error::Kind::Bug), with the first broken promise and the number of rows, if a promise is broken.
    pub fn verdict(&self, broken: &[u64], depth: AuditDepth) -> Result<()> {
        let promises = self.promises(depth);
        if promises.len() != broken.len() {
            let (counts, table) = (broken.len(), &self.table);
            return Err(Error::bug(format!(
                "the audit of `{table}` has {counts} counts for {} promises",
                promises.len()
            )));
        }
        match promises.iter().zip(broken).find(|(_, broken)| **broken > 0) {
            Some((promise, broken)) => Err(self.broken(&format!("breaks `{promise}` in {broken} rows"))),
            None => Ok(()),
        }
    }
}

/// Returns the number of rows for which `kept` is false. `kept` is never null.
fn broken(kept: Expr) -> Expr {
    count(nullif(kept, lit(true)))
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
            assert_eq!(contract.table, table);
            assert!(contract.grain.ends_with('.') && contract.columns.iter().all(|c| c.doc.ends_with('.')));
            assert!((2..=3).contains(&contract.example.len()), "{table}");
            // Documents without a group also form a group.
            let nullable = table == Table::GroupPairs;
            for key in &contract.key {
                let is_key = |c: &Column| c.name == *key && c.nullable == nullable;
                assert!(contract.columns.iter().any(is_key), "{table} {key}");
            }
            contract.check_schema(&contract.arrow_schema()).unwrap();
        }
        let names: Vec<_> = contract(Table::Documents).columns.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, crate::job::DOCUMENTS_COLUMNS);
        let written = contract(Table::Pairs).arrow_schema();
        assert!(Contract::default().check_schema(&written).is_err());
    }

    #[test]
    fn ids_are_numbers_in_every_table_and_only_documents_carries_columns() {
        let columns = vec![SourceColumn { name: "title".into(), data_type: DataType::Utf8 }];
        let source = SourceTypes { id: IdType::Int64, columns };
        for table in Table::ALL {
            let columns = Columns {
                keep: Keep::Shingles,
                bits: Bits::Of32,
                bucket_tags: true,
                pair_passages: true,
                groups: true,
                clusters: ClusterMethod::Components,
                decisions: true,
            };
            let schema = contract(table).over(&source, columns).arrow_schema();
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
        assert!(rules(Keep::Signatures).contains("signature"));
        assert!(!rules(Keep::Signatures).contains("shingles"));
        assert_eq!(of(Keep::Shingles).rules, contract(Table::Documents).rules);
        let whole = Columns { bits: Bits::Of32, ..Columns::default() };
        let whole = contract(Table::Documents).over(&source, whole);
        assert!(whole.rules.contains(&"array_length(signature) >= 1".into()), "{:?}", whole.rules);
        let list = DataType::new_list(DataType::Int32, true);
        assert_eq!(whole.arrow_schema().field_with_name("signature").unwrap().data_type(), &list);
    }
}
