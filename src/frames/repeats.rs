//! repeats: the lines, windows or fingerprints that occur more than once, in new documents and in reference documents.

use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::functions_aggregate::expr_fn::{count, sum};
use datafusion::logical_expr::{Expr, ident};
use datafusion::prelude::{DataFrame, cast, col, lit};

use crate::error::Result;
use crate::job::NewPairs;
use crate::operator::may_repeat::MayRepeat;
use crate::operator::{Operator, apply};

/// Rows (doc, ..) by which passages are found: those of new documents, and those of reference documents if there are any.
pub(crate) struct PassageRows {
    new: DataFrame,
    reference: Option<(DataFrame, NewPairs)>,
}

impl PassageRows {
    /// The rows of new documents only.
    pub(crate) fn of_new(new: DataFrame) -> Self {
        Self { new, reference: None }
    }

    /// The same without most of the rows whose number `key` no other row has.
    ///
    /// With reference documents these rows stay: one of those may have the key.
    fn that_may_repeat(self, key: &str) -> Result<Self> {
        if self.reference.is_some() {
            return Ok(self);
        }
        let columns = self.new.schema().columns().into_iter().filter(|column| column.name != key);
        let columns = std::iter::once(col(key)).chain(columns.map(|column| ident(column.name)));
        let rows = self.new.clone().select(columns.collect::<Vec<_>>())?;
        Ok(Self::of_new(apply(Operator::MayRepeat(MayRepeat), vec![rows])?))
    }

    /// The rows of both. `pairs` says whether what only new documents have counts too.
    pub(crate) fn with_reference(new: DataFrame, reference: DataFrame, pairs: NewPairs) -> Self {
        Self { new, reference: Some((reference, pairs)) }
    }

    /// The rows whose `key` a new document has, and that occurs more than once or, with [`NewPairs::WithReference`], in a
    /// reference document: with the columns `occurrences: UInt64`, how often it occurs in all documents, `reference_documents:
    /// UInt64`, how many reference documents have it, and `reference: Boolean`, whether the row is one of those.
    pub(crate) fn repeated<const N: usize>(self, key: [&str; N]) -> Result<DataFrame> {
        let this = match key.first() {
            Some(first) => self.that_may_repeat(first)?,
            None => self,
        };
        let columns = this.new.schema().columns().into_iter().map(|column| ident(column.name));
        let mut columns: Vec<Expr> = columns.collect();
        columns.extend(["occurrences", "reference_documents", "reference"].map(col));
        let names = key.map(|name| format!("repeated_{name}"));
        let mut counted: Vec<Expr> =
            key.iter().zip(&names).map(|(key, name)| col(*key).alias(name)).collect();
        counted.extend(
            ["occurrences", "reference_documents"]
                .map(|count| cast(col(count), DataType::UInt64).alias(count)),
        );
        let repeated = this.counted(key)?.select(counted)?;
        let marked = |rows: DataFrame, is: bool| rows.with_column("reference", lit(is));
        let mut rows = marked(this.new, false)?;
        if let Some((reference, _)) = this.reference {
            rows = rows.union(marked(reference, true)?)?;
        }
        let left = names.each_ref().map(String::as_str);
        Ok(repeated.join(rows, JoinType::Inner, &left, &key, None)?.select(columns)?)
    }

    /// (key, occurrences, reference_documents) of those keys.
    fn counted<const N: usize>(&self, key: [&str; N]) -> Result<DataFrame> {
        let by_key = || key.map(col).to_vec();
        let occurrences = || count(lit(1)).alias("occurrences");
        let new = self.new.clone().aggregate(by_key(), vec![occurrences()])?;
        let Some((reference, pairs)) = &self.reference else {
            let repeated = new.filter(col("occurrences").gt(lit(1)))?;
            return Ok(repeated.with_column("reference_documents", lit(0_i64))?);
        };
        let by_document = [by_key(), vec![col("doc")]].concat();
        let known = reference.clone().aggregate(by_document, vec![occurrences()])?.aggregate(
            by_key(),
            vec![sum(col("occurrences")).alias("known"), count(lit(1)).alias("reference_documents")],
        )?;
        let columns = |counts: [Expr; 3]| {
            let names = ["new", "known", "reference_documents"];
            let counts = counts.into_iter().zip(names).map(|(count, name)| count.alias(name));
            by_key().into_iter().chain(counts).collect::<Vec<_>>()
        };
        let none = || lit(0_i64);
        let new = new.select(columns([col("occurrences"), none(), none()]))?;
        let known = known.select(columns([none(), col("known"), col("reference_documents")]))?;
        let sums = ["new", "known", "reference_documents"].map(|count| sum(col(count)).alias(count)).to_vec();
        let counts = new.union(known)?.aggregate(by_key(), sums)?;
        let occurrences = || col("new") + col("known");
        let counts_too = match pairs {
            NewPairs::WithReference => col("known").gt(none()),
            NewPairs::WithEachOther => occurrences().gt(lit(1_i64)),
        };
        let columns = [occurrences().alias("occurrences"), col("reference_documents")];
        let repeated = counts.filter(col("new").gt(none()).and(counts_too))?;
        Ok(repeated.select([by_key(), columns.to_vec()].concat())?)
    }
}
