//! Reads a table from the files that a manifest lists.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::DFSchema;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::datasource::physical_plan::{FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::{MemTable, TableType, source_as_provider};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{Expr, LogicalPlan, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{DataFrame, SessionContext};

use super::Layout;
use super::check::{Damage, damaged};
use super::layout::WORK;
use super::manifest::File;
use crate::error::guard::guarded_async;
use crate::error::{Context, Error, Result};
use crate::plan::file_scan;
use crate::schema::{Table, contract};
use crate::udf::expr_fn::unsigned_bits;

/// Returns a lazy frame with the rows in `files`. The files must have the columns of `schema`. Fails if there are no files, or a path is
/// not a valid URL.
pub fn frame(
    session: &SessionContext,
    layout: &Layout,
    files: &[File],
    schema: SchemaRef,
) -> Result<DataFrame> {
    let table = provider(layout, files, schema)?;
    Ok(session.read_table(Arc::new(table))?)
}

/// Returns a table provider for `files`, for use in SQL.
pub(crate) fn provider(layout: &Layout, files: &[File], schema: SchemaRef) -> Result<ManifestTable> {
    if files.is_empty() {
        return Err(Error::bug("a table without files cannot be read"));
    }
    let mut urls = Vec::with_capacity(files.len());
    for file in files {
        urls.push(ListingTableUrl::try_new(layout.url(&file.path)?, None)?);
    }
    // No ending is required, because the names of files with removed documents do not end in `.parquet`.
    let options = ListingOptions::new(Arc::new(ParquetFormat::default())).with_file_extension("");
    let config =
        ListingTableConfig::new_with_multi_paths(urls).with_listing_options(options).with_schema(schema);
    let (files, listing) = (files.into(), ListingTable::try_new(config)?);
    Ok(ManifestTable { layout: layout.clone(), files, listing, wanted: None })
}

/// The estimated number of bytes in an id or another short text.
const BYTES_OF_TEXT: usize = 32;

/// Returns the approximate number of bytes in the columns of tables that the optimized `plan` reads. Returns `None` if it also reads other
/// files. Rows in memory do not count.
pub(crate) fn bytes_read(plan: &LogicalPlan) -> Option<u64> {
    let (mut bytes, mut only_tables) = (0, true);
    let add = |node: &LogicalPlan| {
        if let LogicalPlan::TableScan(scan) = node {
            let provider = source_as_provider(&scan.source)?;
            match provider.downcast_ref::<ManifestTable>() {
                Some(table) => bytes += table.bytes_of(scan.projected_schema.as_arrow()),
                None => only_tables &= provider.is::<MemTable>() || provider.is::<StreamingTable>(),
            }
        }
        Ok(TreeNodeRecursion::Continue)
    };
    plan.apply_with_subqueries(add).ok()?;
    only_tables.then_some(bytes)
}

/// Converts the signed numbers of a public table to the unsigned numbers with the same bits, which stages and queries use. Ids and carried
/// columns do not change.
pub(crate) fn unsigned(frame: DataFrame, table: Table) -> Result<DataFrame> {
    let contract = contract(table);
    let stored = frame.schema().clone();
    let has_unsigned_bits = |name: &str| {
        let of_name = contract.columns.iter().find(|column| column.name == name);
        let field = stored.as_arrow().field_with_name(name);
        of_name
            .zip(field.ok())
            .is_some_and(|(column, field)| column.kind.has_unsigned_bits(field.data_type()))
    };
    let columns: Vec<Expr> = frame
        .schema()
        .columns()
        .into_iter()
        .map(|column| {
            let name = column.name.clone();
            if has_unsigned_bits(&name) {
                unsigned_bits(Expr::Column(column)).alias(name)
            } else {
                Expr::Column(column)
            }
        })
        .collect();
    Ok(frame.select(columns)?)
}

/// A table that is read completely or not at all. When a scan is planned, every file in the manifest must have the recorded size and number
/// of rows. DataFusion's listing table would skip missing and empty files.
#[derive(Debug)]
pub(crate) struct ManifestTable {
    layout: Layout,
    files: Arc<[File]>,
    listing: ListingTable,
    /// The condition of [`Self::only`], if there is one.
    wanted: Option<Expr>,
}

impl ManifestTable {
    /// Returns the approximate number of bytes in `columns`, or in whole files if a column has lists or long texts.
    fn bytes_of(&self, columns: &Schema) -> u64 {
        let width = |field: &Arc<Field>| match field.data_type() {
            DataType::Utf8 => Some(BYTES_OF_TEXT),
            DataType::Boolean => Some(1),
            kind => kind.primitive_width(),
        };
        let row = columns.fields().iter().map(width).sum::<Option<usize>>();
        self.files.iter().map(|file| row.map_or(file.bytes, |row| file.rows * row as u64)).sum()
    }
}

#[async_trait]
impl TableProvider for ManifestTable {
    fn schema(&self) -> SchemaRef {
        self.listing.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> DfResult<Vec<TableProviderFilterPushDown>> {
        self.listing.supports_filters_pushdown(filters)
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _limit: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        // With a limit, the listing table would skip files. The operator above the scan applies the limit anyway. Planning reads the
        // footers, and the library panics on some damaged footers.
        let plan =
            guarded_async(self.listing.scan(state, projection, filters, None)).await.context(|| {
                let shown = self.layout.shown();
                format!("a file of {shown} cannot be read: `resemblance verify {shown}` says which")
            })??;
        if let Err(error) = self.check(&plan) {
            return Err(self.replaced().await.unwrap_or(error).into());
        }
        match &self.wanted {
            Some(wanted) => filtered(state, plan, wanted.clone()),
            None => Ok(plan),
        }
    }
}

/// A file in the scans of a plan.
struct Scanned {
    bytes: u64,
    rows: Option<u64>,
}

impl ManifestTable {
    /// Makes scans skip rows for which `wanted` is false. They read all pages of the columns in `wanted`, and only
    /// pages with remaining rows of other columns. The condition is not part of the logical plan, so it can contain many values. A scan can return all rows if its reader cannot
    /// evaluate the condition.
    pub(crate) fn only(self, wanted: Option<Expr>) -> Self {
        Self { wanted, ..self }
    }

    /// Returns an error if another run replaced the result while it was read.
    async fn replaced(&self) -> Option<Error> {
        let now = self.layout.manifest().await.ok()??;
        let (paths, shown) = (now.paths(), self.layout.shown());
        let file = self.files.iter().find(|file| !paths.contains(file.path.as_str()))?;
        // No manifest lists the tables between stages, so their absence from it shows nothing.
        (!file.path.starts_with(WORK)).then(|| {
            Error::input(format!(
                "another run replaced the result in {shown} while it was read, and removed {}: run the command again",
                file.path
            ))
        })
    }

    /// Compares the files that `plan` reads with the manifest.
    fn check(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
        let mut scanned = BTreeMap::new();
        collect(plan, &mut scanned);
        let mut found = Vec::new();
        for file in self.files.iter() {
            let path = self.layout.path(&file.path).to_string();
            let there = scanned.get(&path);
            // DataFusion skips both empty and missing files.
            if let Some(damage) = Damage::from_size(file, there.map(|there| there.bytes)) {
                found.push(damage);
            } else if let Some(rows) = there.and_then(|there| there.rows).filter(|rows| *rows != file.rows) {
                return Err(Error::input(format!(
                    "{}/{} has {rows} rows, but {} in the manifest: bring the file back, or make the result again with \
                     `run --overwrite`",
                    self.layout.shown(),
                    file.path,
                    file.rows
                )));
            }
        }
        if found.is_empty() { Ok(()) } else { Err(damaged(&self.layout, &found)) }
    }
}

/// Adds the condition `wanted` to the scan `plan` of Parquet files.
fn filtered(
    state: &dyn Session,
    plan: Arc<dyn ExecutionPlan>,
    wanted: Expr,
) -> DfResult<Arc<dyn ExecutionPlan>> {
    let Some(scan) = file_scan(&plan) else { return Ok(plan) };
    let Some(parquet) = scan.file_source().downcast_ref::<ParquetSource>() else { return Ok(plan) };
    let wanted = state.create_physical_expr(wanted, &DFSchema::try_from(Arc::clone(scan.file_schema()))?)?;
    let source = parquet.with_predicate(wanted).with_pushdown_filters(true);
    let scan = FileScanConfigBuilder::from(scan.clone()).with_source(Arc::new(source)).build();
    Ok(DataSourceExec::from_data_source(scan))
}

/// Collects the files that a plan's scans read, by their paths.
fn collect(plan: &Arc<dyn ExecutionPlan>, scanned: &mut BTreeMap<String, Scanned>) {
    let groups = file_scan(plan).map(|scan| scan.file_groups.as_slice()).unwrap_or_default();
    for file in groups.iter().flat_map(|group| group.iter()) {
        let rows = match file.statistics.as_ref().map(|statistics| statistics.num_rows) {
            Some(Precision::Exact(rows)) => Some(rows as u64),
            _ => None,
        };
        let bytes = file.object_meta.size;
        scanned.insert(file.object_meta.location.to_string(), Scanned { bytes, rows });
    }
    for child in plan.children() {
        collect(child, scanned);
    }
}
