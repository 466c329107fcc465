//! The walk of a run through the list of its steps.

use std::collections::VecDeque;

use datafusion::prelude::{DataFrame, col};

use super::input::Input;
use super::known::{Known, KnownClusters};
use super::search::PairSearch;
use super::sketches::Sketches;
use super::step::Step;
use super::steps::Steps;
use super::tables::WorkTable;
use super::{components, pair_limit, results, texts};
use crate::error::{Error, Result};
use crate::job::{Job, Method};
use crate::stage;

/// A run on its way through its steps.
pub(super) struct Walk<'a> {
    steps: &'a Steps<'a>,
    job: &'a Job,
    /// The documents as the source gives them, also those whose id came before.
    documents: DataFrame,
    /// The documents that earlier runs know, if the job names any.
    known: Option<&'a Known>,
    search: PairSearch<'a>,
}

impl<'a> Walk<'a> {
    /// The walk over `documents`, which are those of `input`.
    pub(super) fn new(
        steps: &'a Steps<'a>,
        job: &'a Job,
        input: &'a Input,
        known: Option<&'a Known>,
        documents: DataFrame,
    ) -> Self {
        let search = PairSearch::new(Sketches::new(steps, job, input, known));
        Self { steps, job, documents, known, search }
    }

    /// Takes all steps of the job. Some steps are on no list, because only the data tell how many there are, such as the rounds
    /// that settle dense groups. The step on the list that needs them runs them.
    pub(super) async fn walk(&self) -> Result<()> {
        let mut ahead = VecDeque::from(Step::of(self.job));
        while let Some(step) = ahead.pop_front() {
            if step == Step::Pairs && self.steps.run_together() {
                return self.pairs_beside(ahead).await;
            }
            self.take(step).await?;
            for further in self.asked_for_by(step).into_iter().rev() {
                ahead.push_front(further);
            }
        }
        Ok(())
    }

    /// No step after `pairs` needs what it writes. Where steps run at the same time, both sides come to their end, also when
    /// one of them fails: what the other has done by then need not be done again.
    async fn pairs_beside(&self, others: VecDeque<Step>) -> Result<()> {
        let others = async {
            for step in others {
                self.take(step).await?;
            }
            Ok(())
        };
        let (pairs, others) = futures::join!(self.take(Step::Pairs), others);
        pairs.and(others)
    }

    /// The steps that the results of `done` ask for, which come next.
    fn asked_for_by(&self, done: Step) -> Vec<Step> {
        let hot = self.job.candidates.method == Method::Lsh && self.steps.rows(WorkTable::Hot) > 0;
        if done != Step::Candidates || !hot {
            return Vec::new();
        }
        let further = Step::of_hot_buckets(self.job);
        self.steps.expect(further.len());
        further
    }

    /// The clusters of earlier runs, if the job names any.
    fn known_clusters(&self) -> Result<Option<KnownClusters>> {
        self.known.map(|known| known.grown(self.steps, self.job)).transpose()
    }

    /// What connects documents: (a, b).
    fn edges(&self) -> Result<DataFrame> {
        let scores = self.steps.table(WorkTable::Scores)?;
        match self.known_clusters()? {
            None => Ok(scores.select(vec![col("a"), col("b")])?),
            Some(known) => {
                let members = self.steps.table(WorkTable::Members)?;
                stage::known::connections(scores, members, known.connections)
            }
        }
    }

    async fn take(&self, step: Step) -> Result<()> {
        let (steps, job, search) = (self.steps, self.job, &self.search);
        match step {
            Step::Duplicates => texts::duplicates(steps, job, self.documents.clone(), self.known).await,
            Step::Cuts => texts::cuts(steps, job, self.documents.clone()).await,
            Step::Dictionary => texts::dictionary(steps).await,
            Step::Sketches => texts::sketches(steps, job, self.documents.clone()).await,
            Step::Known => search.known().await,
            Step::Groups => {
                texts::groups(steps, job).await?;
                pair_limit::check_copies(steps, job).await
            }
            Step::HotPositions => search.hot_positions().await,
            Step::HotSketches => search.hot_sketches().await,
            Step::Frequencies => search.frequencies().await,
            Step::Candidates => search.candidates().await,
            Step::AllCandidates => search.all_candidates().await,
            Step::Positions => search.positions().await,
            Step::Scores => search.scores().await,
            Step::Members => results::members(steps, job).await,
            Step::Pairs => results::pairs(steps, job).await,
            Step::Components => components::components(steps, self.edges()?).await,
            Step::Clusters => results::clusters(steps, self.known_clusters()?.as_ref()).await,
            Step::Merges => match self.known_clusters()? {
                Some(known) => results::merges(steps, &known).await,
                None => Err(Error::bug("the job knows no clusters")),
            },
            Step::Prefixes
            | Step::Leaders(_)
            | Step::Followers(_)
            | Step::DenseCandidates
            | Step::SamplePositions
            | Step::Sample
            | Step::LargeStar(_)
            | Step::SmallStar(_) => Err(Error::bug(format!("{step} is on the list of steps"))),
        }
    }
}
