//! `resemblance show`: shows pairs of a finished output with their texts.

use std::num::NonZeroUsize;

use serde::Serialize;

use crate::cli::support::work::on_session;
use crate::cli::support::{arguments, print, side_by_side};
use crate::error::visible::visible;
use crate::error::{Error, Result};
use crate::job::Job;
use crate::lookup::show::{self, Cluster, First, Pair, Texts};
use crate::lookup::side_by_side::{Common, common};
use crate::lookup::{Finished, Id, not_found};

/// Examples of the command.
const EXAMPLES: &str = "\
Examples:
  resemblance show out/reviews/ --pairs least-similar --top 5
  resemblance show out/reviews/ --cluster 42";

/// Show pairs of a finished output with their texts side by side
///
/// Common passages of a shingle or more are marked: in colour on a terminal, and with [brackets] in a pipe. The texts
/// come from the job's source, whose content must not have changed since the job ran.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Show {
    /// The finished output: the folder or URL that a job names as output.url
    output: String,
    /// Which pairs come first
    #[arg(long, value_enum, value_name = "WHICH", default_value_t = Which::MostSimilar, conflicts_with = "cluster")]
    pairs: Which,
    /// Show only pairs of this document
    #[arg(long, allow_negative_numbers = true, conflicts_with = "cluster")]
    id: Option<String>,
    /// Show the cluster of this document: the document that represents it, beside each of the others
    #[arg(long, value_name = "ID", allow_negative_numbers = true)]
    cluster: Option<String>,
    /// Maximum number of pairs to show, or of documents beside the one that represents the cluster
    #[arg(long, value_name = "N", default_value = "3", value_parser = arguments::one_to(arguments::MAX_TOP))]
    top: NonZeroUsize,
    /// Seed for random pairs; another seed shows other pairs [default: the job's]
    #[arg(long, value_name = "N", conflicts_with = "cluster")]
    seed: Option<u64>,
    /// Print one JSON object per pair, with both texts and the positions of their common passages
    #[arg(long)]
    json: bool,
    /// Where the source is now, if it was moved; name as many as the source has URLs, in their order
    #[arg(long, value_name = "URL")]
    source: Vec<String>,
    /// Memory to use, such as 4GiB, or a share of the machine's
    #[arg(long, value_name = "SIZE", default_value = "50%", value_parser = arguments::memory)]
    memory: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Which {
    /// The highest Jaccard similarity
    MostSimilar,
    /// The lowest Jaccard similarity
    LeastSimilar,
    /// Any, the same ones for the same seed
    Random,
}

/// What is shown.
struct Shown {
    pairs: Vec<Pair>,
    texts: Option<Texts>,
    /// The cluster that the pairs belong to, with `--cluster`.
    cluster: Option<Cluster>,
    /// How many pairs there are in all.
    all: u64,
    job: Job,
}

/// What `--json` prints for each pair.
#[derive(Serialize)]
struct Line<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster_id: Option<&'a Id>,
    #[serde(flatten)]
    pair: &'a Pair,
    /// Whether the document is from an earlier output or a second source.
    reference_a: bool,
    reference_b: bool,
    text_a: &'a str,
    text_b: &'a str,
    passages: Vec<Common>,
    /// Whether the texts were searched to their ends.
    passages_complete: bool,
}

impl Show {
    pub(in crate::cli) fn run(&self) -> Result<()> {
        let shown = on_session(self.memory, async |session, _| {
            let finished = Finished::open(session, &self.output).await?.with_source_in(self.source.clone());
            match &self.cluster {
                Some(id) => self.cluster(&finished, id).await,
                None => self.pairs(&finished).await,
            }
        })?;
        match self.json {
            true => print::result(&shown.json_lines()?),
            false => print::result(&self.text(&shown)?),
        }
    }

    async fn pairs(&self, finished: &Finished) -> Result<Shown> {
        let job = finished.job();
        let of = match &self.id {
            Some(id) => Some(document(finished, id).await?),
            None => None,
        };
        let first = match self.pairs {
            Which::MostSimilar => First::MostSimilar,
            Which::LeastSimilar => First::LeastSimilar,
            Which::Random => First::Random { seed: self.seed.unwrap_or(job.minhash.seed) },
        };
        let found = show::pairs(finished, first, of.as_ref(), self.top.get()).await?;
        let texts = match found.first.is_empty() {
            true => None,
            false => Some(Texts::open(finished, found.first.iter().flat_map(Pair::documents)).await?),
        };
        Ok(Shown { pairs: found.first, texts, cluster: None, all: found.all, job: job.clone() })
    }

    async fn cluster(&self, finished: &Finished, id: &str) -> Result<Shown> {
        let of = document(finished, id).await?;
        let Some(cluster) = show::cluster(finished, &of, self.top.get()).await? else {
            return Err(Error::job(format!("`{id}` is in no pair, and so in no cluster")));
        };
        let representative = &cluster.representative;
        let documents = std::iter::once(representative).chain(&cluster.others);
        let texts = Texts::open(finished, documents.cloned()).await?;
        let beside = |other| {
            show::similarity(
                [representative, other],
                [texts.of(representative)?, texts.of(other)?],
                finished.job(),
            )
        };
        let pairs = cluster.others.iter().map(beside).collect::<Result<Vec<_>>>()?;
        Ok(Shown {
            pairs,
            texts: Some(texts),
            all: cluster.size - 1,
            cluster: Some(cluster),
            job: finished.job().clone(),
        })
    }

    fn text(&self, shown: &Shown) -> Result<String> {
        let Some(texts) = &shown.texts else {
            return Ok(match &self.id {
                Some(id) => format!("{} is in no pair\n", visible(id)),
                None => "there is no pair\n".to_owned(),
            });
        };
        let sides = side_by_side::pairs(&shown.pairs, texts, &shown.job.shingle)?;
        let (head, noun) = match &shown.cluster {
            Some(cluster) => {
                let size = print::counted(cluster.size, "document");
                let (id, representative) = (cluster.id.to_string(), cluster.representative.id.to_string());
                let (id, representative) = (visible(&id), visible(&representative));
                let head = format!("cluster {id}: {size}, represented by {representative}\n");
                (head, "document")
            }
            None => (String::new(), "pair"),
        };
        let left_out = side_by_side::left_out(shown.all, shown.pairs.len(), noun, "--top");
        let all = format!("{head}{sides}{left_out}");
        Ok(all.strip_prefix('\n').map(str::to_owned).unwrap_or(all))
    }
}

impl Shown {
    fn json_lines(&self) -> Result<String> {
        let mut lines = String::new();
        let Some(texts) = &self.texts else { return Ok(lines) };
        for pair in &self.pairs {
            let [a, b] = pair.documents();
            let [text_a, text_b] = [texts.of(&a)?, texts.of(&b)?];
            let (passages, passages_complete) = common([text_a, text_b], &self.job.shingle);
            let line = Line {
                cluster_id: self.cluster.as_ref().map(|cluster| &cluster.id),
                pair,
                reference_a: a.known,
                reference_b: b.known,
                text_a,
                text_b,
                passages,
                passages_complete,
            };
            lines += &serde_json::to_string(&line)
                .map_err(|e| Error::bug("a pair cannot be written").because(e))?;
            lines.push('\n');
        }
        Ok(lines)
    }
}

/// The id of a document that was compared.
async fn document(finished: &Finished, id: &str) -> Result<Id> {
    if let Some(found) = finished.id(id)
        && finished.has(&found).await?
    {
        return Ok(found);
    }
    Err(not_found::not_found(finished, id).await?)
}
