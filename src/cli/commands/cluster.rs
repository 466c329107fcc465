//! `resemblance cluster`: finds the clusters of pairs that another program found.

use std::path::PathBuf;

use arrow::datatypes::DataType;
use datafusion::common::cast::as_boolean_array;
use datafusion::functions::math::expr_fn::isnan;
use datafusion::prelude::{DataFrame, Expr, ParquetReadOptions, SessionContext, cast, ident};
use futures::TryStreamExt;
use parquet::file::properties::WriterProperties;

use crate::address;
use crate::cli::arguments;
use crate::cli::process::{files, on_session};
use crate::cli::screen::print;
use crate::error::{Context, Error, Result};
use crate::frames::clusters::clusters_of_pairs;
use crate::job::{ClusterMethod, Score};
use crate::output::{NewFile, partial_file};

/// Find the clusters of pairs that any program wrote, and write them to one Parquet file
///
/// The pairs are Parquet files with two id columns (texts or integers) and a numeric column. The result has one row for each document in a
/// pair that reaches the threshold. Its columns are id, cluster_id (the smallest id in the cluster), size and representative, which is true
/// for the smallest id. Documents without such a pair have no row.
#[derive(clap::Args)]
#[command(after_help = "  resemblance cluster pairs.parquet --to clusters.parquet --threshold 0.9
  resemblance cluster out/a/pairs/ --to a.parquet --score jaccard --method components")]
pub(crate) struct ClusterCommand {
    /// The pairs: a Parquet file, or a folder of Parquet files
    #[arg(value_name = "PAIRS")]
    pairs: String,
    /// The Parquet file to write; it must not exist
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    /// The minimum score of a pair
    #[arg(long, value_name = "SCORE", default_value_t = Score::default().threshold, allow_negative_numbers = true)]
    threshold: f64,
    /// How clusters are formed
    #[arg(long, value_name = "METHOD", value_enum, default_value_t = ClusterMethod::default())]
    method: ClusterMethod,
    /// The column of the first id
    #[arg(long, value_name = "COLUMN", default_value = "id_a")]
    id_a: String,
    /// The column of the second id
    #[arg(long, value_name = "COLUMN", default_value = "id_b")]
    id_b: String,
    /// The column of the score
    #[arg(long, value_name = "COLUMN", default_value = "score")]
    score: String,
    /// Memory to use before rows spill to disk, such as 4GiB, or a share of the machine's memory
    #[arg(long, value_name = "SIZE", default_value = "50%", value_parser = arguments::memory)]
    memory: u64,
    /// Print the counts as one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(serde::Serialize)]
struct WrittenClusters {
    clusters: u64,
    documents: u64,
}

impl ClusterCommand {
    pub(crate) fn run(&self) -> Result<()> {
        self.check_target()?;
        let found = on_session(self.memory, async |session, _| {
            // The minimum and maximum in Parquet footers ignore NaN, so the engine could take a column with NaN for a constant.
            session.state_ref().write().config_mut().options_mut().execution.collect_statistics = false;
            let pairs = self.pairs(session).await?;
            let clusters = clusters_of_pairs(pairs, self.threshold, self.method)?;
            self.write(clusters).await
        })?;
        print::json_line_or(self.json, &found, || {
            format!(
                "{:>12} {} of {} in {}\n",
                print::count(found.clusters),
                print::plural(found.clusters, "cluster"),
                print::counted(found.documents, "document"),
                self.to.display()
            )
        })
    }

    /// Fails early if the file cannot be created.
    fn check_target(&self) -> Result<()> {
        if std::fs::symlink_metadata(&self.to).is_ok() {
            return Err(Error::job(format!(
                "--to: {} exists: remove it, or name another file",
                self.to.display()
            )));
        }
        let folder = files::folder(&self.to);
        let cannot = |e| Error::job(format!("--to: cannot write into {}", folder.display())).because(e);
        partial_file(folder, "").map(drop).map_err(cannot)
    }

    async fn write(&self, clusters: DataFrame) -> Result<WrittenClusters> {
        let mut batches = clusters.execute_stream().await?;
        let mut file = NewFile::create(&self.to, batches.schema(), WriterProperties::builder())?;
        let mut found = WrittenClusters { clusters: 0, documents: 0 };
        while let Some(batch) = batches.try_next().await? {
            let representatives = as_boolean_array(batch.column(3))?;
            found.clusters += representatives.true_count() as u64;
            found.documents += batch.num_rows() as u64;
            file.write(&batch)?;
        }
        file.finish(false)?;
        Ok(found)
    }

    /// Returns the pairs (id_a, id_b, score) without nulls.
    async fn pairs(&self, session: &SessionContext) -> Result<DataFrame> {
        let shown = &self.pairs;
        if let Some(missing) = address::missing(shown) {
            return Err(Error::input(format!("{missing}: name a Parquet file, or a folder of them")));
        }
        let read = session.read_parquet(shown.as_str(), ParquetReadOptions::default()).await;
        let read = read.context(|| format!("the pairs in {shown} cannot be read as Parquet"))?;
        let there: Vec<&str> = read.schema().fields().iter().map(|field| field.name().as_str()).collect();
        for (option, name) in [("--id-a", &self.id_a), ("--id-b", &self.id_b), ("--score", &self.score)] {
            if !there.contains(&name.as_str()) {
                return Err(Error::job(format!(
                    "{shown} has no column `{name}`: name one with {option}; it has {}",
                    there.join(", ")
                )));
            }
        }
        let kind = |name: &str| {
            read.schema().as_arrow().field_with_name(name).map(|field| field.data_type().clone())
        };
        let (a, b) = (kind(&self.id_a)?, kind(&self.id_b)?);
        if a != b {
            return Err(Error::input(format!(
                "{shown} has the column `{}` of the type {a} and `{}` of the type {b}: ids must have one type",
                self.id_a, self.id_b
            )));
        }
        let score = cast(ident(&self.score), DataType::Float64).alias("score");
        let pairs =
            read.select(vec![ident(&self.id_a).alias("id_a"), ident(&self.id_b).alias("id_b"), score])?;
        let incomplete =
            incomplete_rows(&pairs).await.context(|| format!("the pairs in {shown} cannot be read"))?;
        match incomplete {
            0 => Ok(pairs),
            rows => Err(Error::input(format!(
                "{shown} has {} without an id or a score: leave them out, or correct the program that wrote them",
                print::counted(rows, "row")
            ))),
        }
    }
}

/// Counts the rows without an id or a numeric score.
async fn incomplete_rows(pairs: &DataFrame) -> Result<u64> {
    let lacks = ["id_a", "id_b", "score"].map(|name| ident(name).is_null());
    // The engine orders NaN before or after all numbers, depending on the sign of the NaN. So NaN is tested separately.
    let lacks = lacks.into_iter().fold(isnan(ident("score")), Expr::or);
    Ok(pairs.clone().filter(lacks)?.count().await? as u64)
}
