//! Rewrites finished outputs as if some documents had never been read. No existing output is changed.
//!
//! Each output is made again by its own job, into a new folder. The job leaves the documents out, and names the new reference outputs. So
//! every table has the rows of a run over a source without the documents, whatever the rows depend on. The job reuses the documents of the
//! existing output with their signatures and shingles. It reads the texts again only if the rows depend on more than these.

mod ids;
mod receipt;

use std::collections::{BTreeMap, BTreeSet};

use datafusion::prelude::{DataFrame, Expr, SessionContext, col};
use serde::Deserialize;

pub(crate) use self::receipt::{RECEIPT, Receipt};
use crate::address::absolute_address;
use crate::error::{Context, Error, Result};
use crate::frames::{self, number, utf8};
use crate::job::{
    Against, Forgotten, ForgottenIds, Input, InputFile, Job, LimitSize, Output, Reference, Reuse,
    ShingleHash, Source,
};
use crate::lookup::rows;
use crate::output::manifest::ReferenceOutput;
use crate::output::{Layout, Stored};
use crate::pipeline::overlap;
use crate::schema::Table;

/// The outputs to rewrite, in order, and the documents to forget.
pub(crate) struct Erasure {
    ids: ForgottenIds,
    to: Layout,
    pub(crate) outputs: Vec<RewrittenOutput>,
}

/// An output, the job that makes it again, and the documents that the job leaves out.
pub(crate) struct RewrittenOutput {
    stored: Stored,
    pub(crate) job: Job,
    found: Vec<FoundDocument>,
}

/// A document to forget, or a reject with its id. The id is empty if an earlier erasure left the document out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
struct FoundDocument {
    #[serde(default)]
    id: String,
    source: String,
    position: u64,
}

impl Erasure {
    /// Plans the new outputs below `to` of the outputs at `urls`. Writes nothing. `ids` is the path of a file of ids.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) if an output or the file cannot be read, if no document has any of the ids, or if texts are
    /// needed and the source has changed. [`Kind::Job`](crate::error::Kind::Job) if an output was made from an output that `urls` does not
    /// name before it, or if `to` holds other files.
    pub(crate) async fn plan(
        session: &SessionContext,
        urls: &[String],
        file: &str,
        to: &str,
    ) -> Result<Self> {
        let ids = ids::read(session, file).await?;
        let (target, names) = (Layout::open(session, to)?, names(urls)?);
        refuse_others(&target, &names).await?;
        let mut outputs: Vec<RewrittenOutput> = Vec::new();
        // The new location of each output, by the fingerprint of the existing output.
        let mut places = BTreeMap::new();
        for (url, name) in urls.iter().zip(&names) {
            let stored = Stored::open(session, url).await?;
            overlap::refuse_output(&target, stored.layout(), "--to")?;
            let new = absolute_address(&format!("{}/{name}", to.trim_end_matches('/')));
            let new = new.context(|| format!("`{to}` cannot be made absolute"))?;
            let output = RewrittenOutput::plan(stored, new.clone(), &ids, &places).await?;
            places.insert(output.stored.manifest().fingerprint.clone(), new);
            outputs.push(output);
        }
        if outputs.iter().all(|output| output.found.is_empty()) {
            return Err(Error::input(format!(
                "no document of {} has an id of {file}: write ids as in the column id of the table documents",
                urls.join(", ")
            )));
        }
        Ok(Self { ids, to: target, outputs })
    }

    /// Returns the ids that no document has.
    pub(crate) fn unknown_ids(&self) -> Vec<&str> {
        let found = || self.outputs.iter().flat_map(|output| &output.found);
        let found: BTreeSet<(&str, &str)> =
            found().map(|document| (&*document.id, &*document.source)).collect();
        let any: BTreeSet<&str> = found.iter().map(|(id, _)| *id).collect();
        let is_unknown = |(id, source): &(&str, Option<&str>)| match source {
            Some(source) => !found.contains(&(id, source)),
            None => !any.contains(id),
        };
        self.ids.iter().filter(is_unknown).map(|(id, _)| id).collect()
    }
}

impl RewrittenOutput {
    async fn plan(
        stored: Stored,
        new: String,
        ids: &ForgottenIds,
        places: &BTreeMap<String, String>,
    ) -> Result<Self> {
        let (made, shown) = (stored.job(), stored.layout().shown());
        if made.second_source().is_some() {
            return Err(Error::job(format!(
                "{shown} was made with against.source, which each run reads as a whole: delete the documents in its sources, and run its \
                 job again"
            )));
        }
        let found = found(&stored, ids).await?;
        let documents = found.len() as u64;
        let mut forgotten =
            Forgotten { documents, checksum: ids.checksum(), ids: ids.clone(), ..Forgotten::default() };
        let input = match (merged_again(&stored, places), reason_to_read(&stored, ids)) {
            (Some(parts), _) => Input::Merge(parts),
            (None, Some(reason)) => {
                leave_out_rows(&mut forgotten, &stored, &found, &reason).await?;
                Input::Read
            }
            (None, None) => {
                let keeps_shingles = made.output.keep.shingles();
                Input::Reuse(Reuse { output: stored.layout().absolute(), keeps_shingles })
            }
        };
        let is_merge = matches!(input, Input::Merge(_));
        let against =
            made.against.clone().map(|against| against_new(against, &stored, places)).transpose()?;
        let job = Job {
            source: Source { forgotten: (!is_merge).then_some(forgotten), ..made.source.clone() },
            output: Output { url: new, ..made.output.clone() },
            input,
            against,
            ..made.clone()
        };
        Ok(Self { stored, job, found })
    }
}

/// Returns the names of the new folders: the shortest ends of `urls` that differ.
fn names(urls: &[String]) -> Result<Vec<String>> {
    let parts = |url: &String| -> Vec<String> {
        url.split(['/', '\\']).filter(|part| !matches!(*part, "" | "." | "..")).map(str::to_owned).collect()
    };
    let parts: Vec<Vec<String>> = urls.iter().map(parts).collect();
    let longest = parts.iter().map(Vec::len).max().unwrap_or_default();
    let ends = |count: usize| -> Vec<String> {
        parts.iter().map(|parts| parts[parts.len().saturating_sub(count)..].join("/")).collect()
    };
    let differ = |names: &Vec<String>| names.iter().collect::<BTreeSet<_>>().len() == names.len();
    let names = (1..=longest).map(ends).find(differ);
    names.ok_or_else(|| Error::job(format!("{}: expected each output once", urls.join(", "))))
}

/// Refuses a folder with files outside the folders `names`. These folders can hold what an earlier attempt of the same command wrote.
async fn refuse_others(to: &Layout, names: &[String]) -> Result<()> {
    let is_inside = |inside: &str| names.iter().any(|name| inside.starts_with(&format!("{name}/")));
    match to.holds_beside(|entry| is_inside(&entry.inside)).await? {
        None => Ok(()),
        Some(entry) => Err(Error::job(format!(
            "{} holds other files ({}): name an empty folder with --to",
            to.shown(),
            entry.inside
        ))),
    }
}

/// Returns the documents and rejects of an output that have one of the ids.
async fn found(stored: &Stored, ids: &ForgottenIds) -> Result<Vec<FoundDocument>> {
    let of = |table: Table| -> Result<DataFrame> {
        let rows = stored.table(table)?.select(vec![
            utf8("id"),
            utf8("source"),
            number(col("position")).alias("position"),
        ])?;
        Ok(rows.filter(has_id(ids, "id", "source"))?)
    };
    let both = frames::union([Table::Documents, Table::Rejects].map(of))?;
    let mut found: Vec<FoundDocument> =
        rows::read(both.ok_or_else(|| Error::bug("there are tables"))?).await?;
    found.sort();
    Ok(found)
}

/// The condition that the column `id` has one of the ids, in rows whose file is in the column `source`.
fn has_id(ids: &ForgottenIds, id: &str, source: &str) -> Expr {
    ids.contain(&utf8(id).unalias(), &utf8(source).unalias())
}

/// Returns the new outputs that replace the parts of a merged output, if all of them are rewritten.
fn merged_again(stored: &Stored, places: &BTreeMap<String, String>) -> Option<Vec<String>> {
    let Input::Merge(_) = stored.job().input else { return None };
    let new = |input: &InputFile| places.get(input.e_tag.as_ref()?).cloned();
    stored.manifest().inputs.iter().map(new).collect()
}

/// Returns the section `[against]` with the new reference outputs. Fails with `Kind::Job` if a reference output is not rewritten.
fn against_new(against: Against, stored: &Stored, places: &BTreeMap<String, String>) -> Result<Against> {
    let Reference::Outputs { same_id, .. } = against.reference else { return Ok(against) };
    let shown = stored.layout().shown();
    let new = |output: &ReferenceOutput| {
        if output.applied.is_some() {
            return Err(Error::job(format!(
                "{shown} was made against {}, a result of apply: forget the documents of {}, apply the new output, and run the job of \
                 {shown} against this result",
                output.named(),
                output.output
            )));
        }
        places.get(&output.fingerprint).cloned().ok_or_else(|| {
            Error::job(format!(
                "{shown} was made against {}, which has to be rewritten too: name it before {shown}",
                output.output
            ))
        })
    };
    let urls = stored.manifest().reference_outputs.iter().map(new).collect::<Result<_>>()?;
    Ok(Against { reference: Reference::Outputs { urls, same_id }, ..against })
}

/// Returns the reason why the rows depend on more than the documents, signatures and shingles in the output. `None` if they do not.
fn reason_to_read(stored: &Stored, ids: &ForgottenIds) -> Option<String> {
    let (job, shown) = (stored.job(), stored.layout().shown());
    let rejects = |reason: &str| stored.manifest().rejects.get(reason).is_some_and(|count| *count > 0);
    let replaces_ids = ids.has_sources() && (rejects("duplicate_id") || rejects("reference_id"));
    let is_sample = job.source.limit.is_some_and(|limit| matches!(limit.size, LimitSize::Documents(_)));
    let needs_all = !job.output.keep.shingles() && job.compares() && !job.candidates.method.uses_buckets();
    let reasons = [
        (job.max_frequency.is_some(), "its frequent shingles are counted again (shingle.max_frequency)"),
        (job.passages.is_some(), "its passages are searched again"),
        (job.shingle.hash == ShingleHash::Dictionary, "its shingles are numbered again"),
        (is_sample, "its sample is drawn again (source.limit)"),
        (replaces_ids || rejects("key_collision"), "documents with repeated ids are read again"),
        (!job.output.keep.signatures(), "it keeps no signatures"),
        (needs_all, "it keeps no shingles"),
    ];
    let reason = reasons.into_iter().find_map(|(is_needed, reason)| is_needed.then_some(reason));
    reason.map(|reason| format!("{shown} is made from texts, because {reason}"))
}

/// Sets the files that the run of `stored` read, and the rows to leave out of them. These include the rows that an earlier erasure left out.
/// Fails with `Kind::Input` if the source has changed, or if the output was merged from several sources.
async fn leave_out_rows(
    forgotten: &mut Forgotten,
    stored: &Stored,
    found: &[FoundDocument],
    reason: &str,
) -> Result<()> {
    if let Input::Merge(_) = stored.job().input {
        return Err(Error::input(format!("{reason}: name the outputs that were merged before it")));
    }
    let sources = [stored.source(reason, "").await?];
    forgotten.files = sources[0].1.files().map(|file| file.path().to_owned()).collect();
    let earlier: Vec<FoundDocument> = match stored.forgotten_rows(&sources).await? {
        Some(earlier) => rows::read(earlier).await?,
        None => Vec::new(),
    };
    for FoundDocument { source, position, .. } in found.iter().chain(&earlier) {
        forgotten.places.entry(source.clone()).or_default().insert(*position);
    }
    forgotten.documents = forgotten.places.values().map(|rows| rows.len() as u64).sum();
    Ok(())
}
