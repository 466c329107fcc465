//! `resemblance show`: shows pairs of a finished output, or removed documents of a result of apply, with their texts.

use arrow::datatypes::DataType;
use serde::Serialize;

use crate::apply::result::{AppliedResult, RemovedFilter};
use crate::cli::arguments::{self, CsvArguments};
use crate::cli::process::files::OwnFile;
use crate::cli::process::on_session;
use crate::cli::process::pair_page::{page_file, write_page};
use crate::cli::screen::print;
use crate::cli::screen::side_by_side::{self, FIRST_LINES};
use crate::error::visible::visible;
use crate::error::{Error, Result};
use crate::job::{Job, whole};
use crate::lookup::passage;
use crate::lookup::rows;
use crate::lookup::show::{self, MemberTexts, PairOrder, PairRow};
use crate::lookup::{Finished, Id, not_found};
use crate::page::passages::{CommonPassage, CommonPassages};

/// Show pairs of a finished output with their texts side by side
///
/// Common passages with the length of at least one shingle are marked and numbered, also moved and copied ones. The marks are colours on a
/// terminal, and [brackets] in a pipe. A passage has the same number in both texts. The texts come from the job's source, which must not
/// have changed since the run. For a result of apply or dedup, the command shows the removed documents, each next to the document that was
/// kept instead.
#[derive(clap::Args)]
#[command(after_help = "  resemblance show out/reviews/ --pairs least-similar --top 5
  resemblance show out/reviews/ --cluster 42
  resemblance show out/reviews/ --undecided --top 20
  resemblance show out/reviews/ --top 20 --html pairs.html
  resemblance show out/pages/ --passage 0f3a9c
  resemblance show out/reviews/ --top 1000 --excel > pairs.csv
  resemblance show clean/ --pairs least-similar")]
pub(crate) struct Show {
    /// The finished output: the folder or URL that a job names as output.url, or that apply or dedup wrote to
    output: String,
    /// Order of the pairs [default: most-similar, or least-similar with --undecided]
    #[arg(long, value_enum, value_name = "WHICH", conflicts_with = "cluster")]
    pairs: Option<Which>,
    /// Show only pairs without a decision: see clusters.decisions in the job
    #[arg(long, conflicts_with_all = ["cluster", "passage"])]
    undecided: bool,
    /// Show only pairs of this document
    #[arg(long, allow_negative_numbers = true, conflicts_with = "cluster")]
    id: Option<String>,
    /// Show the cluster of this document: its representative next to each other document
    #[arg(long, value_name = "ID", allow_negative_numbers = true)]
    cluster: Option<String>,
    /// Show a repeated passage and its places; give the id of the passage or the first digits of the id
    #[arg(long, value_name = "ID", conflicts_with_all = ["cluster", "id", "pairs", "seed", "full"])]
    passage: Option<String>,
    /// Maximum number of pairs, of documents next to the representative of a cluster, or of places of a passage
    #[arg(long, value_name = "N", default_value = "3", value_parser = whole(1..=arguments::MAX_TOP))]
    top: usize,
    /// Seed for random pairs; a different seed shows different pairs [default: the seed in the job]
    #[arg(long, value_name = "N", conflicts_with = "cluster")]
    seed: Option<u64>,
    /// Write the pairs side by side to this HTML file instead, to read, print or mail; an earlier page of pairs is replaced
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "csv", "excel", "passage"])]
    html: Option<String>,
    /// Show long texts completely
    #[arg(long, conflicts_with_all = ["json", "csv", "excel"])]
    full: bool,
    #[command(flatten)]
    csv: CsvArguments,
    /// Print one JSON object per pair, with both texts and the positions of their common passages
    #[arg(long)]
    json: bool,
    /// The new location of a moved source; give as many locations as the source has URLs, in the same order
    #[arg(long, value_name = "URL")]
    source: Vec<String>,
    /// Memory to use, such as 4GiB, or a share of the machine's
    #[arg(long, value_name = "SIZE", default_value = "50%", value_parser = arguments::memory)]
    memory: u64,
}

/// The noun for the pairs of a result of apply.
const REMOVED: &str = "removed document";

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Which {
    /// Highest similarity first, by the measure of the job
    MostSimilar,
    /// Lowest similarity first, by the measure of the job
    LeastSimilar,
    /// A random sample; the same seed gives the same pairs
    Random,
}

struct ShowView {
    pairs: Vec<PairRow>,
    texts: MemberTexts,
    /// The id of the cluster that contains the pairs, with `--cluster`.
    cluster_id: Option<Id>,
    head: String,
    /// The noun for the items that `all` counts, such as pairs or documents.
    noun: &'static str,
    /// The number of items, including items that are not shown.
    all: u64,
    job: Job,
}

/// A pair with both texts for `--json`.
#[derive(Serialize)]
struct PairLine<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster_id: Option<&'a Id>,
    #[serde(flatten)]
    pair: &'a PairRow,
    reference_a: bool,
    reference_b: bool,
    text_a: &'a str,
    text_b: &'a str,
    passages: Vec<CommonPassage>,
    /// Whether both texts were compared in full.
    passages_complete: bool,
}

impl Show {
    pub(crate) fn run(&self) -> Result<()> {
        if let Some(id) = &self.passage {
            return self.passage(id);
        }
        let page = page_file(self.html.as_deref())?;
        let shown = on_session(self.memory, async |session, _| {
            if let Some(applied) = AppliedResult::find(session, &self.output).await? {
                return self.removed(&applied.with_source_in(self.source.clone())).await;
            }
            let finished = Finished::open(session, &self.output).await?.with_source_in(self.source.clone());
            match &self.cluster {
                Some(id) => self.cluster(&finished, id).await,
                None => self.pairs(&finished).await,
            }
        })?;
        if let Some(page) = &page {
            return self.page(page, shown);
        }
        if !self.json && self.csv.is_set() {
            return shown.print_rows(&self.csv);
        }
        print::result(&if self.json { shown.json_lines()? } else { self.text(&shown)? })
    }

    fn passage(&self, id: &str) -> Result<()> {
        let (passage, source) = on_session(self.memory, async |session, _| {
            let finished = Finished::open(session, &self.output).await?.with_source_in(self.source.clone());
            let source = finished.job().source.clone();
            Ok((passage::passage(&finished, id, self.top).await?, source))
        })?;
        let rows = passage.rows();
        self.csv.print(self.json, passage.columns(), &rows, &source, || side_by_side::passage(&passage))
    }

    fn first(&self, job_seed: u64) -> PairOrder {
        let by_default = if self.undecided { Which::LeastSimilar } else { Which::MostSimilar };
        match self.pairs.unwrap_or(by_default) {
            Which::MostSimilar => PairOrder::MostSimilar,
            Which::LeastSimilar => PairOrder::LeastSimilar,
            Which::Random => PairOrder::Random { seed: self.seed.unwrap_or(job_seed) },
        }
    }

    async fn removed(&self, applied: &AppliedResult) -> Result<ShowView> {
        if self.undecided {
            return Err(Error::job(
                "--undecided: expected an output of run, and got a result of apply or dedup",
            ));
        }
        let filter = match (&self.id, &self.cluster) {
            (Some(id), _) => RemovedFilter::Document(id),
            (None, Some(id)) => RemovedFilter::Cluster(id),
            (None, None) => RemovedFilter::All,
        };
        let removed = applied.removed(self.first(0), filter, self.top).await?;
        let legend = "kept on the left, removed on the right\n";
        let mut head = if removed.pairs.is_empty() { String::new() } else { legend.to_owned() };
        if removed.by_reference > 0 {
            let hidden = print::counted(removed.by_reference, "removed document");
            head += &format!(
                "{hidden} cannot be shown here, because the kept documents are in a reference output or a second source\n"
            );
        }
        Ok(ShowView {
            pairs: removed.pairs,
            texts: removed.texts,
            cluster_id: None,
            head,
            noun: REMOVED,
            all: removed.all - removed.by_reference,
            job: removed.job,
        })
    }

    async fn pairs(&self, finished: &Finished) -> Result<ShowView> {
        let job = finished.job();
        let id = match &self.id {
            Some(id) => Some(document(finished, id).await?),
            None => None,
        };
        let first = self.first(job.minhash.seed);
        let found = show::pairs(finished, first, id.as_ref(), self.undecided, self.top).await?;
        let texts = MemberTexts::open(finished, found.first.iter().flat_map(PairRow::documents)).await?;
        Ok(ShowView {
            pairs: found.first,
            texts,
            cluster_id: None,
            head: String::new(),
            noun: if self.undecided { "undecided pair" } else { "pair" },
            all: found.all,
            job: job.clone(),
        })
    }

    async fn cluster(&self, finished: &Finished, id: &str) -> Result<ShowView> {
        let document = document(finished, id).await?;
        let Some(cluster) = show::cluster(finished, &document, self.top).await? else {
            return Err(Error::job(format!("`{id}` is in no pair, and so in no cluster")));
        };
        let representative = &cluster.representative;
        let documents = std::iter::once(representative).chain(&cluster.others);
        let texts = MemberTexts::open(finished, documents.cloned()).await?;
        let beside = |other| {
            show::similarity(
                [representative, other],
                [texts.text(representative)?, texts.text(other)?],
                finished.job(),
            )
        };
        let pairs = cluster.others.iter().map(beside).collect::<Result<Vec<_>>>()?;
        let size = print::counted(cluster.size, "document");
        let (shown_id, represented_by) = (cluster.id.to_string(), representative.id.to_string());
        let (shown_id, represented_by) = (visible(&shown_id), visible(&represented_by));
        Ok(ShowView {
            pairs,
            texts,
            head: format!("cluster {shown_id}: {size}, represented by {represented_by}\n"),
            noun: "document",
            all: cluster.size - 1,
            cluster_id: Some(cluster.id),
            job: finished.job().clone(),
        })
    }

    fn page(&self, page: &OwnFile, shown: ShowView) -> Result<()> {
        let ShowView { pairs, texts, head, noun, all, job, .. } = shown;
        let counts = format!("{} of {}.", print::count(pairs.len() as u64), print::counted(all, noun));
        let intro = head.lines().map(str::to_owned).chain([counts]).collect();
        write_page(page, (&job, &job.source.urls), intro, (&pairs, &texts), self.full)?;
        let path = page.path().display().to_string();
        let left_out = side_by_side::left_out(all, pairs.len(), noun, "--top");
        print::result(&format!("written to {}\n{left_out}", visible(&path)))
    }

    fn text(&self, shown: &ShowView) -> Result<String> {
        if shown.pairs.is_empty() {
            return Ok(match &self.id {
                _ if !shown.head.is_empty() => shown.head.clone(),
                Some(id) => format!("{} is in no pair\n", visible(id)),
                None => format!("there is no {}\n", shown.noun),
            });
        }
        let most = if self.full { usize::MAX } else { FIRST_LINES };
        let sides = side_by_side::pairs(&shown.pairs, &shown.texts, &shown.job.shingle, most)?;
        let head = &shown.head;
        let left_out = side_by_side::left_out(shown.all, shown.pairs.len(), shown.noun, "--top");
        let all = format!("{head}{sides}{left_out}");
        Ok(all.strip_prefix('\n').map(str::to_owned).unwrap_or(all))
    }
}

impl ShowView {
    fn print_rows(&self, csv: &CsvArguments) -> Result<()> {
        use DataType::{Float64, Utf8};
        let lines = self.lines(|_| Ok((Vec::new(), true)))?;
        let id = self.pairs.first().map_or(Utf8, |pair| pair.id_a.data_type());
        let columns = [
            ("cluster_id", id.clone()),
            ("id_a", id.clone()),
            ("id_b", id),
            ("jaccard", Float64),
            ("containment_a", Float64),
            ("containment_b", Float64),
            ("text_a", Utf8),
            ("text_b", Utf8),
        ];
        // The first column is the cluster id. It is printed only with `--cluster`.
        let columns = &columns[usize::from(self.cluster_id.is_none())..];
        // For a result of apply, the names say which document stays.
        let shown = |name: &str| match name.rsplit_once('_') {
            Some((name, "a")) if self.noun == REMOVED => format!("{name}_kept"),
            Some((name, "b")) if self.noun == REMOVED => format!("{name}_removed"),
            _ => name.to_owned(),
        };
        let names: Vec<String> = columns.iter().map(|(name, _)| shown(name)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        csv.print_rows(&names, &[rows::batch(&lines, columns)?], &self.job.source)
    }

    fn json_lines(&self) -> Result<String> {
        let common = |texts: [&str; 2]| {
            let passages = CommonPassages::find(texts, &self.job.shingle)?;
            Ok((passages.places(texts), passages.are_complete()))
        };
        self.lines(common)?.iter().map(print::json_line).collect()
    }

    /// Returns the pairs with both texts, and the passages that `common` finds in them.
    fn lines(
        &self,
        common: impl Fn([&str; 2]) -> Result<(Vec<CommonPassage>, bool)>,
    ) -> Result<Vec<PairLine<'_>>> {
        let mut lines = Vec::with_capacity(self.pairs.len());
        for pair in &self.pairs {
            let [a, b] = pair.documents();
            let [text_a, text_b] = [self.texts.text(&a)?, self.texts.text(&b)?];
            let (passages, passages_complete) = common([text_a, text_b])?;
            lines.push(PairLine {
                cluster_id: self.cluster_id.as_ref(),
                pair,
                reference_a: a.is_reference,
                reference_b: b.is_reference,
                text_a,
                text_b,
                passages,
                passages_complete,
            });
        }
        Ok(lines)
    }
}

/// Returns the id of a compared document. Fails if no compared document has this id.
async fn document(finished: &Finished, id: &str) -> Result<Id> {
    if let Some(found) = finished.id(id)
        && finished.has(&found).await?
    {
        return Ok(found);
    }
    Err(not_found(finished, id).await?)
}
