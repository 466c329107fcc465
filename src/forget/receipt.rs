//! The receipt of an erasure: what was forgotten, the files before and after, and the places that still hold the documents.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, UNIX_EPOCH};

use datafusion::common::JoinType;
use datafusion::prelude::{SessionContext, col, lit};
use humantime::format_rfc3339_seconds;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Erasure, RewrittenOutput, has_id};
use crate::apply::decisions::removed_ids;
use crate::error::{Error, Result};
use crate::frames::utf8;
use crate::job::{Format, Input, TableFormat};
use crate::lookup::rows;
use crate::machine;
use crate::output::manifest::Table as Files;
use crate::output::{APPLIED, Layout, Stored};
use crate::schema::Table;

/// The file of the receipt, in the folder of the new outputs.
pub(crate) const RECEIPT: &str = "receipt.json";

#[derive(Debug, Serialize)]
pub(crate) struct Receipt {
    resemblance: &'static str,
    /// The time in UTC, in RFC 3339 to the second.
    finished: String,
    /// The ids that were given, each with the file to which it is limited.
    ids: Vec<Value>,
    /// The ids that no document has.
    pub(crate) unknown_ids: Vec<String>,
    pub(crate) outputs: Vec<ReceiptOutput>,
    /// The places that still hold the documents, or copies of them.
    pub(crate) still_held: BTreeSet<HeldPlace>,
}

/// An output before and after the erasure.
#[derive(Debug, Serialize)]
pub(crate) struct ReceiptOutput {
    pub(crate) before: String,
    pub(crate) after: String,
    fingerprint_before: String,
    fingerprint_after: String,
    /// The forgotten documents in the tables `documents` and `rejects`.
    pub(crate) forgotten: Vec<String>,
    /// The documents that the output before removed and the output after keeps.
    pub(crate) promoted: Vec<Promoted>,
    tables_before: BTreeMap<String, Files>,
    tables_after: BTreeMap<String, Files>,
}

/// A document that is kept now, and the document that represented it before.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Promoted {
    id: String,
    instead_of: String,
}

/// A place with forgotten documents, which no command of this program changes.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct HeldPlace {
    pub(crate) what: &'static str,
    pub(crate) url: String,
}

impl Receipt {
    /// Checks that no new table has one of the ids, and writes the receipt.
    pub(crate) async fn write(session: &SessionContext, erasure: &Erasure) -> Result<Self> {
        let mut outputs = Vec::with_capacity(erasure.outputs.len());
        for output in &erasure.outputs {
            let new = Stored::open(session, &output.job.output.url).await?;
            check_forgotten(erasure, &new).await?;
            let promoted = promoted(erasure, &output.stored, &new).await?;
            let (before, after) = (output.stored.manifest(), new.manifest());
            outputs.push(ReceiptOutput {
                before: url_of(output.stored.layout()),
                after: url_of(new.layout()),
                fingerprint_before: before.fingerprint.clone(),
                fingerprint_after: after.fingerprint.clone(),
                forgotten: output.found.iter().map(|document| document.id.clone()).collect(),
                promoted,
                tables_before: before.tables.clone(),
                tables_after: after.tables.clone(),
            });
        }
        let receipt = Self {
            resemblance: env!("CARGO_PKG_VERSION"),
            finished: format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs_f64(machine::now()))
                .to_string(),
            ids: erasure.ids.iter().map(|(id, source)| json!({ "id": id, "source": source })).collect(),
            unknown_ids: erasure.unknown_ids().into_iter().map(str::to_owned).collect(),
            outputs,
            still_held: still_held(session, &erasure.outputs).await?,
        };
        if erasure.to.create(RECEIPT, &receipt).await? {
            return Ok(receipt);
        }
        let to = erasure.to.shown();
        Err(Error::input(format!("another process wrote {to}/{RECEIPT}: name another folder with --to")))
    }
}

/// The columns with ids. The table `documents` can carry columns of the source with these names.
fn id_columns(table: Table) -> &'static [&'static str] {
    match table {
        Table::Documents => &["id"],
        Table::Spared => &["id", "representative"],
        _ => &["id", "id_a", "id_b", "cluster_id", "old_cluster_id", "kept_id"],
    }
}

/// Fails with `Kind::Bug` if a table still has an id that is forgotten in all files.
async fn check_forgotten(erasure: &Erasure, new: &Stored) -> Result<()> {
    let is_written = |table: &Table| new.manifest().tables.contains_key(table.name());
    for table in Table::ALL.into_iter().filter(is_written) {
        let rows = new.table(table)?;
        let has = |name: &&&str| rows.schema().has_column_with_unqualified_name(name);
        let names = id_columns(table).iter().filter(has);
        let Some(left) =
            names.map(|name| erasure.ids.contain(&utf8(name).unalias(), &lit(""))).reduce(|a, b| a.or(b))
        else {
            continue;
        };
        if rows.filter(left)?.limit(0, Some(1))?.count().await? > 0 {
            let shown = new.layout().shown();
            return Err(Error::bug(format!("the table {table} of {shown} still has an id to forget")));
        }
    }
    Ok(())
}

async fn promoted(erasure: &Erasure, old: &Stored, new: &Stored) -> Result<Vec<Promoted>> {
    let clusters = old.table(Table::Clusters)?;
    let kept = clusters.clone().filter(col("representative"))?;
    let kept = kept.select(vec![col("cluster_id").alias("kept_cluster"), utf8("id").alias("instead_of")])?;
    let members = clusters.filter(!col("reference"))?.select(vec![col("id"), col("cluster_id")])?;
    let before = removed_ids(old, None)?;
    let removed = before.join(members, JoinType::RightSemi, &["gone_id"], &["id"], None)?;
    let after = removed_ids(new, None)?;
    let back = after.join(removed, JoinType::RightAnti, &["gone_id"], &["id"], None)?;
    let documents = old.table(Table::Documents)?.select(vec![utf8("id").alias("text_id"), utf8("source")])?;
    let back = back.select(vec![utf8("id"), col("cluster_id")])?;
    let back = documents.join(back, JoinType::Inner, &["text_id"], &["id"], None)?;
    let back = back.filter(!has_id(&erasure.ids, "id", "source"))?;
    let back = kept.join(back, JoinType::Inner, &["kept_cluster"], &["cluster_id"], None)?;
    rows::read(back.select(vec![col("id"), col("instead_of")])?.sort_by(vec![col("id")])?).await
}

/// Returns the sources and the existing outputs. Also returns the outputs and results of `apply` that belong to them, beside the outputs or
/// named by their jobs.
async fn still_held(session: &SessionContext, outputs: &[RewrittenOutput]) -> Result<BTreeSet<HeldPlace>> {
    let mut held = BTreeSet::new();
    let mut beside = Vec::new();
    for RewrittenOutput { stored, .. } in outputs {
        for source in stored.read_sources()? {
            let is_delta = source.format == Format::Delta;
            let what = if is_delta { "source, with all versions of the Delta table" } else { "source" };
            held.extend(source.urls.into_iter().map(|url| HeldPlace { what, url }));
        }
        let what = match stored.job().output.tables {
            TableFormat::Delta => "output, with all versions of its Delta tables",
            TableFormat::Parquet => "output",
        };
        held.insert(HeldPlace { what, url: url_of(stored.layout()) });
        beside.extend(near(session, stored.layout()).await?);
        let named: &[String] = match &stored.job().input {
            Input::Merge(urls) => urls,
            Input::Reuse(reuse) => std::slice::from_ref(&reuse.output),
            Input::Read => &[],
        };
        for url in named {
            beside.push(Layout::open(session, url)?);
        }
    }
    let mut named: BTreeSet<String> = held.iter().map(|place| place.url.clone()).collect();
    named.extend(outputs.iter().map(|output| output.job.output.url.clone()));
    for layout in beside {
        let url = url_of(&layout);
        if !named.contains(&url)
            && let Some(what) = related(&layout, outputs).await.unwrap_or_else(|error| {
                tracing::warn!("{url} is not in the receipt, because it cannot be read: {error}");
                None
            })
        {
            held.insert(HeldPlace { what, url });
        }
    }
    Ok(held)
}

/// Returns the folders beside an output and beside its parent folder. Results of `apply` are often in `clean/NAME` for `out/NAME`.
async fn near(session: &SessionContext, output: &Layout) -> Result<Vec<Layout>> {
    let siblings = async |layout: &Layout| {
        layout.siblings().await.unwrap_or_else(|error| {
            tracing::warn!("the receipt lacks the folders beside {}: {error}", layout.shown());
            Vec::new()
        })
    };
    let mut near = siblings(output).await;
    let url = url_of(output);
    if let Some((parent, name)) =
        url.rsplit_once('/').filter(|(parent, _)| !parent.is_empty() && !parent.ends_with('/'))
    {
        for folder in siblings(&Layout::open(session, parent)?).await {
            near.extend([folder.within(name), folder]);
        }
    }
    Ok(near)
}

fn url_of(layout: &Layout) -> String {
    layout.absolute().trim_end_matches('/').to_owned()
}

/// Returns what a folder is if its manifest names one of the outputs, or one of their manifests names it.
async fn related(layout: &Layout, outputs: &[RewrittenOutput]) -> Result<Option<&'static str>> {
    let related = "output made from one of these or before it";
    for (what, records) in [(related, layout.clone()), ("result of apply", layout.within(APPLIED))] {
        let Some((bytes, _)) = records.manifest_bytes().await? else { continue };
        let written = String::from_utf8_lossy(&bytes);
        let own: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let own = own["fingerprint"].as_str().unwrap_or_default();
        for RewrittenOutput { stored, .. } in outputs {
            let manifest = stored.manifest();
            let names_it = || {
                let inputs = manifest.inputs.iter().filter_map(|input| input.e_tag.as_deref());
                inputs.chain(manifest.merged.iter().map(String::as_str)).any(|fingerprint| fingerprint == own)
            };
            if written.contains(&manifest.fingerprint) || (!own.is_empty() && names_it()) {
                return Ok(Some(what));
            }
        }
    }
    Ok(None)
}
