//! The steps of a run: what each is called, what it does, and which tables it writes.
//!
//! This list is the only one: `check` prints it, a run walks through it, and progress counts it.

use std::borrow::Cow;
use std::fmt;

use super::tables::WorkTable::{
    self, Agreeing, AllCandidates, Candidates, Components, Copies, Cuts, Dense, DenseCandidates, Duplicates,
    Followers, Frequencies, Hot, HotPositions, HotSketches, Keys, Known, KnownDuplicates, KnownKeys,
    LargeStar, Leaders, Members, Numbers, Positions, Prefixes, Proposed, Ranks, Represented, Sample,
    SamplePositions, Scores, SmallStar, TextPositions, Texts,
};
use super::tables::{AllSketches, AnyTable, target};
use crate::job::{ClusterMethod, DuplicateIds, Job, Measure, Method, Reuse, SameId, ShingleHash};
use crate::output::write::{Rows, Target};
use crate::schema::{SourceTypes, Table};

/// A part of a run that is published when it is done, and is not done again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Finds documents whose id came before.
    Duplicates,
    /// Cuts all texts, before the first shingle has its number.
    Cuts,
    /// Gives each distinct shingle its number.
    Dictionary,
    /// Reads the texts: shingles, signatures, buckets.
    Sketches,
    /// Finds documents of a second source whose id came before.
    KnownDuplicates,
    /// Finds the known documents that new ones may be similar to.
    Known,
    /// Finds documents with the same shingles.
    Copies,
    /// Finds documents that may be similar.
    Candidates,
    /// Finds the texts of documents of hot buckets.
    HotPositions,
    /// Cuts them again.
    HotSketches,
    /// Counts shingles, for a join by the rarest.
    Frequencies,
    /// Adds the candidates of hot buckets to the others.
    AllCandidates,
    /// Drops candidates whose signatures agree too little.
    Agreeing,
    /// Finds the texts that are cut again.
    Positions,
    /// Takes the rarest shingles of documents that share one with very many others.
    Prefixes,
    /// Names the leaders of a round, and whom they are compared with: see [`crate::stage::leaders`].
    Leaders(u32),
    /// Compares them.
    Followers(u32),
    /// Adds the candidates of dense buckets to the others.
    DenseCandidates,
    /// Finds the texts of a sample.
    SamplePositions,
    /// Compares a sample, to estimate how many pairs there are.
    Sample,
    /// Measures the candidates.
    Scores,
    /// Finds the documents that scores stand for.
    Members,
    /// Finds the texts of documents of pairs.
    TextPositions,
    /// Reads them.
    Texts,
    /// Writes the pairs.
    Pairs,
    /// A half of a round that finds components: every node's higher neighbours get its least one.
    LargeStar(usize),
    /// The other half: every node's lower neighbours get its least one.
    SmallStar(usize),
    /// Finds which documents are connected by scores.
    Components,
    /// Puts the documents of each component into the order in which they are wanted.
    Ranks,
    /// Finds which document represents each, and how well the two are connected.
    Represented,
    /// Writes the clusters.
    Clusters,
    /// Counts the pairs of every two groups.
    GroupPairs,
    /// Writes which clusters of earlier runs bear another id now.
    Merges,
}

/// The steps from pairs to clusters, where all documents are the run's own.
const CLUSTERS: [Step; 4] = [Step::Components, Step::Ranks, Step::Represented, Step::Clusters];

impl Step {
    /// The steps of `job`, in their order. A run over hot buckets has those of `Step::of_hot_buckets` too, after the
    /// candidates; one over dense buckets has rounds of [`Step::Leaders`] and [`Step::Followers`] between
    /// [`Step::Prefixes`] and [`Step::DenseCandidates`]; one with many candidates that signatures decide on has
    /// [`Step::Agreeing`]; and one that may write too many pairs has a [`Step::Sample`].
    pub fn of(job: &Job) -> Vec<Step> {
        if job.merge.is_some() {
            let mut steps = vec![Step::Sketches, Step::Copies, Step::Scores, Step::Members, Step::Pairs];
            if job.has_groups() {
                steps.push(Step::GroupPairs);
            }
            steps.extend(CLUSTERS);
            steps.push(Step::Merges);
            return steps;
        }
        let mut steps = Vec::new();
        // What these find is known of the documents of a finished output.
        let texts = job.reuse.is_none();
        let skips = job.same_id() == Some(SameId::Skip);
        if texts && (job.source.duplicate_ids == DuplicateIds::Reject || skips) {
            steps.push(Step::Duplicates);
        }
        if texts && job.shingle.hash == ShingleHash::Dictionary {
            steps.extend([Step::Cuts, Step::Dictionary]);
        }
        steps.push(Step::Sketches);
        // What is known is found by the shingles of the new documents, where it is found by shingles.
        let known = job.against.is_some();
        if known && job.candidates.method == Method::Prefix {
            steps.push(Step::Frequencies);
        }
        if job.known_source().is_some_and(|source| source.duplicate_ids == DuplicateIds::Reject) {
            steps.push(Step::KnownDuplicates);
        }
        if known {
            steps.push(Step::Known);
        }
        steps.push(Step::Copies);
        match job.candidates.method {
            Method::All => {}
            Method::Prefix if !known => steps.extend([Step::Frequencies, Step::Candidates]),
            Method::Lsh | Method::Prefix => steps.push(Step::Candidates),
        }
        if AllSketches::of(job) == AllSketches::Nowhere {
            steps.push(Step::Positions);
        }
        steps.extend([Step::Scores, Step::Members]);
        if job.output.passages {
            steps.extend([Step::TextPositions, Step::Texts]);
        }
        steps.push(Step::Pairs);
        match known {
            true => steps.extend([Step::Components, Step::Clusters]),
            false => steps.extend(CLUSTERS),
        }
        if job.has_groups() {
            steps.push(Step::GroupPairs);
        }
        if job.goes_on() {
            steps.push(Step::Merges);
        }
        steps
    }

    /// The steps that find the pairs of hot buckets.
    pub(crate) fn of_hot_buckets(job: &Job) -> Vec<Step> {
        let mut steps = match AllSketches::of(job) {
            AllSketches::Written(_) | AllSketches::Kept => Vec::new(),
            AllSketches::Nowhere => vec![Step::HotPositions, Step::HotSketches],
        };
        steps.extend([Step::Frequencies, Step::AllCandidates]);
        steps
    }

    /// The step of this name that is a half of a round; none for the others.
    pub(super) fn star_named(name: &str) -> Option<Step> {
        let (half, round) = name.rsplit_once('_')?;
        let round = round.parse().ok()?;
        match half {
            "large_star" => Some(Step::LargeStar(round)),
            "small_star" => Some(Step::SmallStar(round)),
            _ => None,
        }
    }

    /// Its name, in logs, records and the names of its files.
    pub fn name(self) -> Cow<'static, str> {
        let name = match self {
            Step::Duplicates => "duplicates",
            Step::Cuts => "cuts",
            Step::Dictionary => "dictionary",
            Step::Sketches => "sketches",
            Step::KnownDuplicates => "known_duplicates",
            Step::Known => "known",
            Step::Copies => "copies",
            Step::Candidates => "candidates",
            Step::Frequencies => "frequencies",
            Step::AllCandidates => "all_candidates",
            Step::HotPositions => "hot_positions",
            Step::HotSketches => "hot_sketches",
            Step::Agreeing => "agreeing",
            Step::Positions => "positions",
            Step::Prefixes => "prefixes",
            Step::Leaders(round) => return format!("leaders_{round}").into(),
            Step::Followers(round) => return format!("followers_{round}").into(),
            Step::DenseCandidates => "dense_candidates",
            Step::SamplePositions => "sample_positions",
            Step::Sample => "sample",
            Step::Scores => "scores",
            Step::Members => "members",
            Step::TextPositions => "text_positions",
            Step::Texts => "texts",
            Step::Pairs => "pairs",
            Step::LargeStar(round) => return format!("large_star_{round}").into(),
            Step::SmallStar(round) => return format!("small_star_{round}").into(),
            Step::Components => "components",
            Step::Ranks => "ranks",
            Step::Represented => "represented",
            Step::Clusters => "clusters",
            Step::GroupPairs => "group_pairs",
            Step::Merges => "merges",
        };
        name.into()
    }

    /// What it does for `job`, in one line.
    pub(crate) fn describe(self, job: &Job) -> String {
        let (noun, threshold) = (job.score.measure.noun(), job.score.threshold);
        match self {
            Step::Duplicates => "find documents that have the id of an earlier one".into(),
            Step::KnownDuplicates => {
                "find documents of the second source that have the id of an earlier one".into()
            }
            Step::Known if let Some(source) = job.known_source() => format!(
                "read {} from {}, and keep the documents that new ones may be similar to",
                source.text.join(" + "),
                source.urls.join(", ")
            ),
            Step::Known => {
                let outputs = job.against.iter().flat_map(|against| &against.outputs);
                let outputs: Vec<&str> = outputs.map(String::as_str).collect();
                format!("find the documents of {} that new ones may be similar to", outputs.join(", "))
            }
            Step::Cuts => {
                format!("read {} from {} and cut the shingles", texts(job), job.source.urls.join(", "))
            }
            Step::Dictionary => "number the distinct shingles of the collection".into(),
            Step::Sketches if let Some(Reuse { output, keeps_shingles }) = &job.reuse => {
                let kept = if *keeps_shingles { "signatures and shingles" } else { "signatures" };
                format!("take the {kept} of {output}, {} permutations", job.minhash.permutations)
            }
            Step::Sketches if let Some(outputs) = &job.merge => {
                format!("take the documents of {}", outputs.join(", "))
            }
            Step::Sketches => format!("{}, {} permutations", shingles(job), job.minhash.permutations),
            Step::Copies => "let one document stand for all that have the same shingle set".into(),
            Step::Candidates if job.score.measure == Measure::Containment => {
                "pair documents if one of them has one of the other's rarest shingles".into()
            }
            Step::Candidates if job.candidates.method == Method::Prefix => {
                format!("pair documents that share one of their rarest shingles{}", dense(job))
            }
            Step::Candidates => format!(
                "pair documents that share one of {} buckets of {} rows (in a bucket of more than {} documents, those \
                 that share one of their rarest shingles{})",
                job.lsh.bands,
                job.lsh.rows,
                job.lsh.hot_bucket,
                dense(job)
            ),
            Step::Frequencies => "count how often each shingle occurs".into(),
            Step::AllCandidates => {
                "pair documents of hot buckets that share one of their rarest shingles".into()
            }
            Step::HotPositions => "find where the texts of hot buckets are".into(),
            Step::HotSketches => "cut the shingles of those texts again".into(),
            Step::Agreeing => {
                format!("drop candidates whose signatures agree in less than {threshold}")
            }
            Step::Positions => "find where the texts of candidates are".into(),
            Step::Prefixes => {
                "take the rarest shingles of documents that share one with very many others".into()
            }
            Step::Leaders(_) => "name leaders among them".into(),
            Step::Followers(_) => "compare them with their leaders".into(),
            Step::DenseCandidates => "add their candidates to the others".into(),
            Step::SamplePositions => "find where the texts of a sample are".into(),
            Step::Sample => "estimate how many pairs there are".into(),
            Step::Scores if job.merge.is_some() => "take the pairs that were found".into(),
            Step::Scores if job.candidates.method == Method::All => {
                format!("keep every two documents of {noun} {threshold} or more")
            }
            Step::Scores => {
                let cut = if AllSketches::of(job) == AllSketches::Nowhere {
                    "cut the shingles of candidates again, and "
                } else {
                    ""
                };
                format!("{cut}keep candidates of {noun} {threshold} or more")
            }
            Step::Members => "find the documents that scores stand for".into(),
            Step::TextPositions => "find where the texts of pairs are".into(),
            Step::Texts => "read them again".into(),
            Step::Pairs => {
                let passages = if job.output.passages { " with their longest common passages" } else { "" };
                format!("write the pairs{passages}, {} at most", job.output.max_pairs)
            }
            Step::LargeStar(_) | Step::SmallStar(_) | Step::Components => {
                "find which documents are connected by scores".into()
            }
            Step::Ranks => "put documents that are connected into the order in which they are wanted".into(),
            Step::Represented => match job.clusters.method {
                ClusterMethod::Components => {
                    "find how well documents are connected with the first one".into()
                }
                ClusterMethod::Representative => {
                    "let documents represent those that they are paired with".into()
                }
            },
            Step::Clusters if job.against.is_some() => "write the clusters that new documents are in".into(),
            Step::Clusters => "write the clusters".into(),
            Step::GroupPairs => "count the pairs of every two groups".into(),
            Step::Merges => "write which clusters of earlier runs bear another id now".into(),
        }
    }

    /// The tables that it writes, and which rows go into each.
    fn tables(self, job: &Job) -> Vec<(AnyTable, Rows)> {
        let all = |table: WorkTable| vec![(table.into(), Rows::All)];
        let null = |column: &str| Rows::Null(column.into());
        let not_null = |column: &str| Rows::NotNull(column.into());
        match self {
            Step::Duplicates => all(Duplicates),
            Step::Cuts => all(Cuts),
            Step::Dictionary => {
                vec![(Numbers.into(), Rows::All), (Table::Dictionary.into(), not_null("shingle"))]
            }
            Step::Sketches => {
                let mut tables = vec![
                    (Table::Documents.into(), null("reason")),
                    (Table::Rejects.into(), not_null("reason")),
                    (Keys.into(), null("reason")),
                ];
                if let AllSketches::Written(table @ AnyTable::Work(_)) = AllSketches::of(job) {
                    tables.push((table, null("reason")));
                }
                tables
            }
            Step::KnownDuplicates => all(KnownDuplicates),
            Step::Known if job.known_source().is_some() => vec![
                (Known.into(), not_null("touched")),
                (Table::KnownRejects.into(), not_null("reason")),
                (KnownKeys.into(), null("reason")),
            ],
            Step::Known => all(Known),
            Step::Copies => all(Copies),
            // A document of a hot or dense bucket comes without a second one, and so does a leader.
            Step::Candidates => vec![(Candidates.into(), not_null("b")), (Hot.into(), null("b"))],
            Step::Frequencies => all(Frequencies),
            Step::HotPositions => all(HotPositions),
            Step::HotSketches => all(HotSketches),
            Step::Agreeing => all(Agreeing),
            Step::Positions => all(Positions),
            Step::AllCandidates => vec![(AllCandidates.into(), not_null("b")), (Dense.into(), null("b"))],
            Step::Prefixes => all(Prefixes),
            Step::Leaders(round) => {
                vec![(Proposed(round).into(), not_null("b")), (Leaders(round).into(), null("b"))]
            }
            Step::Followers(round) => all(Followers(round)),
            Step::DenseCandidates => all(DenseCandidates),
            Step::SamplePositions => all(SamplePositions),
            Step::Sample => all(Sample),
            Step::Scores => all(Scores),
            Step::Members => all(Members),
            Step::TextPositions => all(TextPositions),
            Step::Texts => all(Texts),
            Step::Pairs => vec![(Table::Pairs.into(), Rows::All)],
            Step::LargeStar(round) => all(LargeStar(round)),
            Step::SmallStar(round) => all(SmallStar(round)),
            Step::Components => all(Components),
            Step::Ranks => all(Ranks),
            Step::Represented => all(Represented),
            Step::Clusters => vec![(Table::Clusters.into(), Rows::All)],
            Step::GroupPairs => vec![(Table::GroupPairs.into(), Rows::All)],
            Step::Merges => vec![(Table::Merges.into(), Rows::All)],
        }
    }

    /// What the writer node needs to know of them.
    pub(super) fn targets(self, job: &Job, source: &SourceTypes) -> Vec<Target> {
        self.tables(job).into_iter().map(|(table, rows)| target(table, rows, job, source)).collect()
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// What is done where very many documents share a shingle.
fn dense(job: &Job) -> String {
    match job.output.most_expanded() {
        Some(limit) => format!("; where more than {limit} share one, each is paired with a leader"),
        None => String::new(),
    }
}

fn texts(job: &Job) -> String {
    job.source.text.join(" + ")
}

fn shingles(job: &Job) -> String {
    let shingle = &job.shingle;
    let unit = format!("{:?}", shingle.unit).to_lowercase();
    match shingle.hash {
        ShingleHash::Dictionary => "take the numbers of the shingles".into(),
        _ => format!(
            "read {} from {}, cut {}-{unit} shingles",
            texts(job),
            job.source.urls.join(", "),
            shingle.size
        ),
    }
}
