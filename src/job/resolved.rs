//! The resolved job, and functions that derive values from its settings.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::band_choice::Curve;
use super::lsh::ROWS_OF_16_BITS;
use super::{
    Against, Alarms, Candidates, Clusters, Columns, EngineSettings, Lsh, Minhash, NewPairs, Output, Passages,
    Reference, SameId, Score, ScoreBy, Source,
};
use crate::address::absolute_address;
use crate::error::counts::counted;
use crate::error::{Context, Error, Result};
use crate::kernel::shingle::{Shingle, Short};
use crate::kernel::signature::Bits;

/// A resolved job. Every default is filled in, and every rule was checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The name of the run in logs and in the manifest.
    pub name: String,
    /// The files with the documents, and their columns.
    pub source: Source,
    /// The input of the run.
    pub input: Input,
    /// The settings for cutting texts into shingles.
    pub shingle: Shingle,
    /// `[shingle] max_frequency`: the maximum share of documents, in the source or in a group, in which a shingle may occur. `None` means
    /// that all shingles count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_frequency: Option<f64>,
    /// The settings for computing signatures.
    pub minhash: Minhash,
    /// The settings for computing buckets.
    pub lsh: Lsh,
    /// The settings for finding candidates.
    pub candidates: Candidates,
    /// The reference documents, or `None` if only documents of the source are compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<Against>,
    /// The section `[against]` of a run on the first day, when none of its outputs existed. `against` is then `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_day: Option<Against>,
    /// The threshold and the measure of pairs.
    pub score: Score,
    /// The cluster method, and the rules that choose the representative of a cluster.
    pub clusters: Clusters,
    /// The search for repeated passages inside documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passages: Option<Passages>,
    /// Limits after which a person should check the result before duplicates are removed.
    pub alarms: Alarms,
    /// The location and the columns of the tables.
    pub output: Output,
    /// The engine that runs the job. It changes no row.
    pub engine: EngineSettings,
}

/// A job gets a warning if its expected recall at the threshold is below this value.
const LOW_RECALL: f64 = 0.9;

impl Job {
    pub(crate) fn reads_texts(&self) -> bool {
        matches!(self.input, Input::Read)
    }

    /// Returns whether documents are compared. A merge takes the pairs from its outputs, and some jobs only find passages.
    pub(crate) fn compares(&self) -> bool {
        !matches!(self.input, Input::Merge(_)) && self.candidates.method.compares()
    }

    /// Returns the location of the reference documents, or `None` if the job has no reference documents.
    pub fn reference(&self) -> Option<&Reference> {
        self.against.as_ref().map(|against| &against.reference)
    }

    /// Returns the kinds of documents that are paired, or `None` if the job has no reference documents.
    pub(crate) fn new_pairs(&self) -> Option<NewPairs> {
        self.against.as_ref().map(|against| against.pairs)
    }

    /// Returns the treatment of a new document with the id of a reference document, if the reference documents are in outputs.
    pub(crate) fn same_id(&self) -> Option<SameId> {
        match self.reference()? {
            Reference::Outputs { same_id, .. } => Some(*same_id),
            Reference::Source(_) => None,
        }
    }

    pub(crate) fn second_source(&self) -> Option<&Source> {
        match self.reference()? {
            Reference::Outputs { .. } => None,
            Reference::Source(source) => Some(source),
        }
    }

    /// Returns the probability that the job finds a pair, as a function of the similarity of the pair.
    pub fn curve(&self) -> Curve {
        Curve::new(self.candidates.method, &self.minhash, &self.lsh, &self.score)
    }

    /// Returns the expected recall for pairs with a similarity exactly at the threshold. The recall is higher for pairs with a higher
    /// similarity.
    pub fn expected_recall(&self) -> f64 {
        if !self.candidates.method.compares() {
            return 0.0;
        }
        self.curve().kept(self.score.least_jaccard())
    }

    /// Returns settings, each as KEY=VALUE, that make exact similarities decide on pairs. Omits settings that the job already has.
    pub(crate) fn keys_for_exact_scores(&self) -> Vec<&'static str> {
        let keys = [
            (self.shingle.short == Short::Empty, "shingle.short=whole"),
            (self.score.by == ScoreBy::Signature, "score.by=shingles"),
            (self.score.prefilter, "score.prefilter=false"),
        ];
        keys.into_iter().filter_map(|(is_needed, key)| is_needed.then_some(key)).collect()
    }

    /// Returns a warning if the expected recall at the threshold is below [`LOW_RECALL`].
    pub(crate) fn low_recall(&self) -> Option<String> {
        const PREFIX: &str = "set candidates.method = \"prefix\" to find more";
        let bands =
            if self.candidates.method.uses_buckets() { "leave [lsh] out to find 99 %, or " } else { "" };
        let (curve, threshold) = (self.curve(), self.score.threshold);
        let least = self.score.least_jaccard();
        let (recall, candidates) = (curve.kept(least), curve.candidate(least));
        (self.compares() && recall < LOW_RECALL).then(|| {
            let exact = self.keys_for_exact_scores().join(" and ");
            let advice = match (exact.as_str(), candidates < LOW_RECALL) {
                ("", _) => format!("{bands}{PREFIX}"),
                (exact, false) => format!("set {exact} to find {:.1} %", 100.0 * candidates),
                (exact, true) => format!("set {exact}, and {bands}{PREFIX}"),
            };
            format!(
                "this job is expected to find {:.1} % of the pairs at similarity {threshold}: {advice}",
                100.0 * recall
            )
        })
    }

    pub(crate) fn first_day_warning(&self) -> Option<String> {
        let outputs = self.first_day.as_ref()?.outputs();
        let (are, exist) = if outputs.len() == 1 { ("", "does not exist") } else { ("none of ", "exists") };
        Some(format!(
            "this is the first day, because {are}{} {exist} yet: documents are only compared with each other \
             (against.first_day)",
            outputs.join(", ")
        ))
    }

    pub(crate) fn warnings(&self) -> Vec<String> {
        let short = self.candidates.method.uses_buckets() && self.minhash.bits == Bits::Of16;
        let few_bits = (short && self.lsh.has_few_rows()).then(|| {
            format!(
                "values of 16 bits in bands of {} make candidates by chance: set minhash.bits = 32, or lsh.rows = \
                 {ROWS_OF_16_BITS} or more",
                counted(self.lsh.rows as u64, "row")
            )
        });
        self.low_recall().into_iter().chain(few_bits).collect()
    }

    pub(crate) fn columns(&self) -> Columns {
        let Output { keep, pair_passages, .. } = self.output;
        let (groups, bits) = (self.has_groups(), self.minhash.bits);
        let bucket_tags =
            keep.signatures() && self.candidates.method.compares() && self.lsh.table_size.is_none();
        let (clusters, decisions) = (self.clusters.method, self.clusters.decisions.is_some());
        Columns { keep, bits, bucket_tags, pair_passages, groups, clusters, decisions }
    }

    pub(crate) fn has_groups(&self) -> bool {
        self.source.group.is_some() || self.second_source().is_some_and(|second| second.group.is_some())
    }

    /// Returns whether clusters of other outputs can get another id, as in a merge or with reference outputs.
    pub(crate) fn continues_clusters(&self) -> bool {
        matches!(self.input, Input::Merge(_)) || matches!(self.reference(), Some(Reference::Outputs { .. }))
    }

    pub(crate) fn second_source_job(&self, second: &Source) -> Job {
        Job { source: second.clone(), against: None, ..self.clone() }
    }

    /// Returns the job that merges `outputs` into the output at `url`. `last` is the job of the last output.
    pub fn merge(outputs: Vec<String>, last: &Job, url: &str) -> Job {
        // A merge reads no texts.
        let output = Output { url: url.to_owned(), pair_passages: false, ..last.output.clone() };
        Job {
            name: "merge".into(),
            input: Input::Merge(outputs),
            against: None,
            first_day: None,
            passages: None,
            output,
            // The merged outputs lack these documents, so the merge leaves none out.
            source: Source { forgotten: None, ..last.source.clone() },
            // The merged outputs contain their decisions.
            clusters: Clusters { decisions: None, ..last.clusters.clone() },
            ..last.clone()
        }
    }

    /// Returns the job as JSON. Fails with `Kind::Bug` if a value of the job has no form in JSON.
    pub(crate) fn as_value(&self) -> Result<Value> {
        serde_json::to_value(self).map_err(|e| Error::bug("the job cannot be written").because(e))
    }

    /// Returns the job with absolute paths, as manifests and tables store them.
    pub(crate) fn with_absolute_paths(&self) -> Result<Job> {
        let mut job = self.clone();
        match &mut job.input {
            Input::Read => make_absolute(&mut job.source.urls)?,
            // The source is taken from the manifest of the reused output, where its paths are absolute.
            Input::Reuse(reuse) => make_absolute(std::slice::from_mut(&mut reuse.output))?,
            Input::Merge(outputs) => make_absolute(outputs)?,
        }
        match job.against.as_mut().or(job.first_day.as_mut()).map(|against| &mut against.reference) {
            Some(Reference::Outputs { urls, .. }) => make_absolute(urls)?,
            Some(Reference::Source(source)) => make_absolute(&mut source.urls)?,
            None => {}
        }
        if let Some(file) = job.clusters.decisions.as_mut().filter(|file| *file != Clusters::EARLIER) {
            make_absolute(std::slice::from_mut(file))?;
        }
        Ok(job)
    }

    /// Returns the job with the URLs of `made` if the URLs of both jobs differ only by a trailing `/`, and therefore name the same
    /// folders.
    pub(crate) fn with_places_of(&self, made: &Job) -> Job {
        let mut job = self.clone();
        job.source.take_places_of(&made.source);
        if let Some(Reference::Source(second)) = job.against.as_mut().map(|against| &mut against.reference)
            && let Some(made) = made.second_source()
        {
            second.take_places_of(made);
        }
        job
    }
}

impl Source {
    fn take_places_of(&mut self, made: &Source) {
        let plain = |urls: &[String]| -> Vec<String> {
            urls.iter().map(|url| url.trim_end_matches('/').to_owned()).collect()
        };
        if plain(&self.urls) == plain(&made.urls) {
            self.urls.clone_from(&made.urls);
        }
    }
}

fn make_absolute(addresses: &mut [String]) -> Result<()> {
    for address in addresses {
        *address = absolute_address(address).context(|| format!("`{address}` cannot be made absolute"))?;
    }
    Ok(())
}

/// The input of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Input {
    /// The texts of the source.
    #[default]
    Read,
    /// The sketches of a finished output with the same source, `[shingle]` and `[minhash]`.
    Reuse(Reuse),
    /// Finished outputs that are merged, in the order of their creation. No documents are compared.
    Merge(Vec<String>),
}

/// A finished output whose sketches are reused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reuse {
    /// The output's folder or URL prefix.
    pub output: String,
    /// Whether the output contains shingles, so that no text has to be read again.
    pub keeps_shingles: bool,
}
