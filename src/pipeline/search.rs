//! The search for pairs: from sketches to candidates and scores.

use datafusion::prelude::{DataFrame, col, lit};
use tokio::sync::OnceCell;

use super::by_group;
use super::known::Known;
use super::known_ids::{self, replaces};
use super::known_outputs::KnownOutputs;
use super::known_source::{KnownSource, refuse_same_keys};
use super::leader_rounds;
use super::numbers::one_number;
use super::pair_limit::{self, Population};
use super::sketches::{Sketches, TextsToCut};
use super::step::Step;
use super::steps::Steps;
use super::tables::WorkTable;
use super::verify::{BYTES_OF_PREFIX, Candidates, agree, every_two, signatures_first, verify};
use crate::error::{Error, Result};
use crate::job::{Compare, Job, Measure, Method};
use crate::schema::Table;
use crate::stage;
use crate::stage::prefix::Join;

/// Bytes of a row (bucket, document), and of one (document, document).
const BYTES_OF_ROW: u64 = 16;

/// What the steps of the search have in common.
pub(super) struct PairSearch<'a> {
    steps: &'a Steps<'a>,
    sketches: Sketches<'a>,
    /// How documents are joined by their prefixes, where they are: known with the first step that needs it.
    join: OnceCell<Join>,
}

impl<'a> PairSearch<'a> {
    pub(super) fn new(sketches: Sketches<'a>) -> Self {
        Self { steps: sketches.steps, sketches, join: OnceCell::new() }
    }

    fn job(&self) -> &'a Job {
        self.sketches.job
    }

    /// Finds documents that may be similar.
    pub(super) async fn candidates(&self) -> Result<()> {
        let (steps, job) = (self.steps, self.job());
        match job.candidates.method {
            Method::Prefix => self.joined(Step::Candidates, WorkTable::Candidates).await,
            Method::Lsh | Method::All => {
                let buckets = vec![col("doc"), col("buckets")];
                let mut keys = steps.table(WorkTable::Keys)?.select(buckets.clone())?;
                if self.sketches.known.is_some() {
                    let known = stage::bands::bands(steps.table(WorkTable::Known)?, &job.lsh)?;
                    keys = keys.union(known.select(buckets)?)?;
                }
                let (copies, known) = (steps.table(WorkTable::Copies)?, self.sketches.known_docs()?);
                let frame = stage::candidates::candidates(keys, copies, job.lsh.hot_bucket, known)?;
                let frame = by_group::compared(steps, job, frame)?;
                let documents = steps.rows(WorkTable::Keys) + steps.rows(WorkTable::Known);
                let bytes = documents * job.lsh.bands as u64 * BYTES_OF_ROW;
                steps.run(Step::Candidates, bytes, vec![frame]).await?;
                if steps.rows(WorkTable::Hot) > 0 {
                    return Ok(());
                }
                // No pair is scored that is no candidate.
                let at_most = steps.rows(WorkTable::Candidates);
                pair_limit::check_pairs(&self.sketches, None, at_most).await
            }
        }
    }

    /// Adds the candidates of hot buckets to the others.
    pub(super) async fn all_candidates(&self) -> Result<()> {
        self.joined(Step::AllCandidates, WorkTable::AllCandidates).await
    }

    /// Finds where the texts of documents of hot buckets are.
    pub(super) async fn hot_positions(&self) -> Result<()> {
        self.sketches.find(&self.sketches.wanted_of_hot()?).await
    }

    /// Cuts those texts again. Their sketches are read several times, so they are written.
    pub(super) async fn hot_sketches(&self) -> Result<()> {
        let sketches = self.sketches.cut(self.sketches.wanted_of_hot()?).await?;
        self.steps.run(Step::HotSketches, 0, vec![sketches]).await
    }

    /// Finds documents of the second source whose key came before.
    pub(super) async fn known_duplicates(&self) -> Result<()> {
        let Some(Known::Source(source)) = self.sketches.known else {
            return Err(Error::bug("the job has no second source"));
        };
        let duplicates = stage::duplicates::duplicates(source.documents(), &self.job().shingle)?;
        self.steps.run(Step::KnownDuplicates, 0, vec![duplicates]).await
    }

    /// Finds the known documents that new ones may be similar to.
    pub(super) async fn known(&self) -> Result<()> {
        match self.sketches.known {
            Some(Known::Outputs(outputs)) => self.known_of_outputs(outputs).await,
            Some(Known::Source(source)) => self.known_of_source(source).await,
            None => Err(Error::bug("the job knows no documents")),
        }
    }

    async fn known_of_outputs(&self, known: &KnownOutputs) -> Result<()> {
        let (steps, job) = (self.steps, self.job());
        if steps.is_done(Step::Known).await? {
            return steps.run(Step::Known, 0, vec![]).await;
        }
        known_ids::settle(steps, job, known.names(steps.session())?).await?;
        let frame = self.touched(known.documents(steps.session())?).await?.filter(col("touched"))?;
        let frame = match replaces(job) {
            true => stage::known::without(frame, steps.table(WorkTable::Keys)?)?,
            false => frame,
        };
        steps.run(Step::Known, 0, vec![frame]).await
    }

    /// The one pass over the texts of the second source.
    async fn known_of_source(&self, known: &KnownSource) -> Result<()> {
        let (steps, job) = (self.steps, self.job());
        let mut frames = Vec::new();
        if !steps.is_done(Step::Known).await? {
            let mut documents = known.documents();
            if steps.is_taken(Step::KnownDuplicates) {
                let duplicates = steps.table(WorkTable::KnownDuplicates)?;
                documents = stage::duplicates::reject(documents, duplicates)?;
            }
            let shingles = stage::shingles::shingles(stage::known::turned(documents)?, &job.shingle)?;
            let signatures = stage::signatures::signatures(shingles, job, None)?;
            let group = known.group();
            frames.push(stage::known::of_source(self.touched(signatures).await?, group)?);
        }
        steps.run(Step::Known, 0, frames).await?;
        refuse_same_keys(steps).await
    }

    /// Known `documents` with a mark `touched`.
    async fn touched(&self, documents: DataFrame) -> Result<DataFrame> {
        let (steps, job) = (self.steps, self.job());
        match job.candidates.method {
            Method::All => Ok(documents.with_column("touched", lit(true))?),
            Method::Lsh => {
                let keys = steps.table(WorkTable::Keys)?;
                stage::known::by_buckets(documents, keys, steps.rows(WorkTable::Keys), &job.lsh)
            }
            Method::Prefix => {
                let (new, join) = (self.new_documents_to_join()?, self.join().await?);
                stage::known::by_elements(documents, new, steps.table(WorkTable::Frequencies)?, join)
            }
        }
    }

    /// Counts the shingles of the documents that are joined by their prefixes: of new ones, where others are known.
    pub(super) async fn frequencies(&self) -> Result<()> {
        let documents = self.new_documents_to_join()?;
        let frame = stage::prefix::frequencies(documents, self.join().await?)?;
        self.steps.run(Step::Frequencies, 0, vec![frame]).await
    }

    /// Finds where the texts of candidates are.
    pub(super) async fn positions(&self) -> Result<()> {
        self.sketches.find(&self.wanted_of_candidates()?).await
    }

    /// Scores the candidates; where there are none by this method, every two documents.
    pub(super) async fn scores(&self) -> Result<()> {
        match self.job().candidates.method {
            Method::All => self.scores_of_all().await?,
            Method::Lsh | Method::Prefix => {
                let documents = self.sketches.of_candidates(self.wanted_of_candidates()?).await?;
                let (candidates, same) = (self.candidates_to_compare()?, self.scores_of_sides()?);
                verify(&self.sketches, Step::Scores, documents, candidates, same).await?;
            }
        }
        pair_limit::check_scores(self.steps, self.job()).await
    }

    async fn scores_of_all(&self) -> Result<()> {
        let steps = self.steps;
        let at_most = pair_limit::with_new(steps.rows(Table::Documents), steps.rows(WorkTable::Known));
        pair_limit::check_pairs(&self.sketches, None, at_most).await?;
        let mut frames = Vec::new();
        if !steps.is_done(Step::Scores).await? {
            let copies = steps.table(WorkTable::Copies)?;
            let documents = stage::copies::without_copies(self.sketches.of_all()?, copies)?;
            frames = every_two(&self.sketches, documents).await?;
        }
        steps.run(Step::Scores, 0, frames).await
    }

    /// Finds where the texts of pairs are.
    pub(super) async fn text_positions(&self) -> Result<()> {
        let needed = self.steps.table(WorkTable::Members)?.select(vec![col("doc").alias("needed")])?;
        self.sketches.find_texts(needed).await
    }

    /// Reads those texts.
    pub(super) async fn texts(&self) -> Result<()> {
        let frames = match self.steps.is_done(Step::Texts).await? {
            true => vec![],
            false => self.sketches.texts().await?,
        };
        self.steps.run(Step::Texts, 0, frames).await
    }

    /// The documents that are compared.
    fn wanted_of_candidates(&self) -> Result<TextsToCut> {
        let Candidates { pairs, rows } = self.candidates_to_compare()?;
        self.sketches.wanted_of_candidates(pairs, rows)
    }

    /// The candidates whose scores are not known.
    fn candidates_to_compare(&self) -> Result<Candidates> {
        let found = Candidates::of(self.steps, self.found())?;
        Ok(match self.scores_of_sides()? {
            Some(same) => Candidates { pairs: stage::copies::unscored(found.pairs, same)?, ..found },
            None => found,
        })
    }

    /// The scores of new documents and known ones that have the same shingles: most of what comes again has not changed, and is not
    /// read a second time. `None` where all documents are new, and where copies are of one group, which is not compared with itself.
    fn scores_of_sides(&self) -> Result<Option<DataFrame>> {
        let (steps, job) = (self.steps, self.job());
        if self.sketches.known.is_none() || job.candidates.compare == Compare::Across {
            return Ok(None);
        }
        let (copies, groups) = (steps.table(WorkTable::Copies)?, by_group::keys(steps, job)?);
        let of_side = |table: WorkTable, columns: &[&str]| {
            let columns = columns.iter().map(|column| col(*column)).collect::<Vec<_>>();
            let keys = stage::copies::without_copies(steps.table(table)?.select(columns)?, copies.clone())?;
            match &groups {
                Some(groups) => stage::with_columns(keys, groups.clone()),
                None => Ok(keys),
            }
        };
        let new = of_side(WorkTable::Keys, &["doc", "set_hash_0", "set_hash_1"])?;
        let known = of_side(WorkTable::Known, &["doc", "set_hash_0", "set_hash_1", "shingle_count"])?;
        stage::copies::scores_of_sides(new, known, job.lsh.bands).map(Some)
    }

    /// Whether signatures are compared before any shingle is needed.
    pub(super) async fn signatures_first(&self) -> Result<bool> {
        signatures_first(&self.sketches, self.found()).await
    }

    /// Drops candidates by their signatures.
    pub(super) async fn agreeing(&self) -> Result<()> {
        match self.sketches.signatures()? {
            Some(signatures) => {
                let candidates = Candidates::of(self.steps, self.found())?;
                agree(&self.sketches, signatures, candidates).await
            }
            None => Err(Error::bug("no signatures are kept")),
        }
    }

    /// The table that holds all candidates that are left, once they were found.
    fn found(&self) -> WorkTable {
        let steps = self.steps;
        if steps.is_taken(Step::Agreeing) {
            WorkTable::Agreeing
        } else if steps.is_taken(Step::DenseCandidates) {
            WorkTable::DenseCandidates
        } else if steps.is_taken(Step::AllCandidates) {
            WorkTable::AllCandidates
        } else {
            WorkTable::Candidates
        }
    }

    /// Joins documents by their prefixes in `step`, which writes `table`, and takes over the candidates that other buckets
    /// gave. Settles the dense groups among them.
    async fn joined(&self, step: Step, table: WorkTable) -> Result<()> {
        let (steps, job) = (self.steps, self.job());
        let beside = (step == Step::AllCandidates).then_some(WorkTable::Candidates);
        // Leaders stand for documents of a like set. What contains a leader need not contain the others, and a document that has its
        // leader in its own group may be similar to documents of other groups.
        let is_plain = job.score.measure == Measure::Jaccard && job.candidates.compare == Compare::All;
        let dense = job.output.most_expanded().filter(|_| is_plain);
        if dense.is_none() {
            // Nothing keeps the number of pairs down.
            let (of, count) = match beside {
                Some(_) => {
                    let keys = steps.table(WorkTable::Hot)?.select(vec![col("a").alias("needed")])?;
                    let count = steps.rows(WorkTable::Hot);
                    (Some(Population { keys, count }), count)
                }
                None => (None, steps.rows(Table::Documents)),
            };
            let known = if beside.is_some() { 0 } else { steps.rows(WorkTable::Known) };
            pair_limit::check_pairs(&self.sketches, of, pair_limit::with_new(count, known)).await?;
        }
        let (documents, join) = (self.documents_to_join()?, self.join().await?);
        let (frequencies, known) = (steps.table(WorkTable::Frequencies)?, self.sketches.known_docs()?);
        let frame = stage::prefix::candidates(documents, frequencies, join, dense, known)?;
        let mut frame = by_group::compared(steps, job, frame)?;
        if let Some(beside) = beside {
            frame = frame.union(steps.table(beside)?)?.distinct()?;
        }
        let documents = steps.rows(Table::Documents) + steps.rows(WorkTable::Known);
        let bytes = (join.rows() + documents) * BYTES_OF_PREFIX;
        steps.run(step, bytes, vec![frame]).await?;
        leader_rounds::candidates(&self.sketches, join, table).await
    }

    /// The sketches that are joined by their prefixes.
    fn documents_to_join(&self) -> Result<DataFrame> {
        match self.job().candidates.method {
            Method::Prefix => {
                let copies = self.steps.table(WorkTable::Copies)?;
                stage::copies::without_copies(self.sketches.of_all()?, copies)
            }
            Method::Lsh | Method::All => {
                let hot = self.steps.table(WorkTable::Hot)?;
                stage::prefix::only(self.sketches.of_joined()?.frame, hot)
            }
        }
    }

    /// Those of new documents among them; before the groups are known also of copies.
    fn new_documents_to_join(&self) -> Result<DataFrame> {
        if self.sketches.known.is_some() && self.job().candidates.method == Method::Prefix {
            let stored = self.sketches.stored_new()?;
            return stored.ok_or_else(|| Error::bug("the sketches of all documents were not stored"));
        }
        match self.sketches.known_docs()? {
            Some(known) => stage::known::without(self.documents_to_join()?, known),
            None => self.documents_to_join(),
        }
    }

    async fn join(&self) -> Result<&Join> {
        let known = self.join.get_or_try_init(|| async {
            let (score, permutations) = (&self.job().score, self.job().minhash.permutations);
            let elements = stage::prefix::elements(self.new_documents_to_join()?, score, permutations)?;
            let against = self.sketches.known.is_some();
            Ok(Join::new(score, permutations, one_number(elements).await?, against))
        });
        known.await
    }
}
