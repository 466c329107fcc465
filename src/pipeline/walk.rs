//! The walk of a run through the list of its steps.

use std::collections::VecDeque;

use datafusion::prelude::{DataFrame, col};

use super::earlier::Earlier;
use super::input::Input;
use super::known::Known;
use super::known_outputs::KnownOutputs;
use super::search::PairSearch;
use super::sketches::Sketches;
use super::step::Step;
use super::steps::Steps;
use super::tables::WorkTable;
use super::{components, pair_limit, results, texts};
use crate::error::{Error, Result};
use crate::job::{Job, Method};

/// A run on its way through its steps.
pub(super) struct Walk<'a> {
    steps: &'a Steps<'a>,
    job: &'a Job,
    /// The documents as the source gives them, also those whose id came before.
    documents: DataFrame,
    /// The documents that are known already, if the job names any.
    known: Option<&'a Known>,
    /// The outputs that are merged, if the job does that.
    merged: Option<&'a Earlier>,
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
        Self { steps, job, documents, known, merged: input.merged(), search }
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
            for further in self.asked_for_by(step).await?.into_iter().rev() {
                ahead.push_front(further);
            }
        }
        Ok(())
    }

    /// But for the one that counts the pairs of groups, no step after `pairs` needs what it writes. Where steps run at the same time,
    /// both sides come to their end, also when one of them fails: what the other has done by then need not be done again.
    async fn pairs_beside(&self, others: VecDeque<Step>) -> Result<()> {
        let (of_pairs, others): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|step| *step == Step::GroupPairs);
        let pairs = [vec![Step::Pairs], of_pairs].concat();
        let take_all = async |steps: Vec<Step>| {
            for step in steps {
                self.take(step).await?;
            }
            Ok(())
        };
        let (pairs, others) = futures::join!(take_all(pairs), take_all(others));
        pairs.and(others)
    }

    /// The steps that the results of `done` ask for, which come next.
    async fn asked_for_by(&self, done: Step) -> Result<Vec<Step>> {
        let hot = self.job.candidates.method == Method::Lsh && self.steps.rows(WorkTable::Hot) > 0;
        let found = matches!(done, Step::Candidates | Step::AllCandidates);
        let further = if done == Step::Candidates && hot {
            Step::of_hot_buckets(self.job)
        } else if found && self.search.signatures_first().await? {
            vec![Step::Agreeing]
        } else {
            Vec::new()
        };
        self.steps.expect(further.len());
        Ok(further)
    }

    fn known_outputs(&self) -> Option<&'a KnownOutputs> {
        self.known.and_then(Known::outputs)
    }

    /// What connects documents: (a, b).
    async fn edges(&self) -> Result<DataFrame> {
        match self.known {
            None => Ok(self.steps.table(WorkTable::Scores)?.select(vec![col("a"), col("b")])?),
            Some(known) => known.edges(self.steps, self.job).await,
        }
    }

    /// The documents (id) whose id is that of a cluster of an earlier run; `None` if there is no earlier run.
    fn founders(&self) -> Result<Option<DataFrame>> {
        let earlier = self.known_outputs().map(|known| &known.earlier).or(self.merged);
        earlier.map(|earlier| earlier.founders(self.steps.session())).transpose()
    }

    async fn take(&self, step: Step) -> Result<()> {
        let (steps, job, search) = (self.steps, self.job, &self.search);
        match step {
            Step::Duplicates => {
                texts::duplicates(steps, job, self.documents.clone(), self.known_outputs()).await
            }
            Step::KnownDuplicates => search.known_duplicates().await,
            Step::Cuts => texts::cuts(steps, job, self.documents.clone()).await,
            Step::Dictionary => texts::dictionary(steps).await,
            Step::Sketches => texts::sketches(steps, job, self.documents.clone()).await,
            Step::Known => search.known().await,
            Step::Copies => {
                texts::copies(steps, job).await?;
                pair_limit::check_copies(steps, job).await
            }
            Step::HotPositions => search.hot_positions().await,
            Step::HotSketches => search.hot_sketches().await,
            Step::Frequencies => search.frequencies().await,
            Step::Candidates => search.candidates().await,
            Step::AllCandidates => search.all_candidates().await,
            Step::Agreeing => search.agreeing().await,
            Step::Positions => search.positions().await,
            Step::Scores => match self.merged {
                Some(earlier) => results::merged_scores(steps, job, earlier).await,
                None => search.scores().await,
            },
            Step::Members => results::members(steps, job).await,
            Step::TextPositions => search.text_positions().await,
            Step::Texts => search.texts().await,
            Step::Pairs => results::pairs(steps, job).await,
            Step::Components => components::components(steps, self.edges().await?).await,
            Step::Ranks => results::ranks(steps, job).await,
            Step::Represented => results::represented(steps, job).await,
            Step::Clusters => match self.known {
                Some(Known::Outputs(known)) => {
                    let founders = known.earlier.founders(steps.session())?;
                    results::grown_clusters(steps, job, known.staying(steps, job)?, founders).await
                }
                Some(Known::Source(_)) => results::linked_clusters(steps, job).await,
                None => results::clusters(steps, job).await,
            },
            Step::GroupPairs => results::group_pairs(steps, job).await,
            Step::Merges => match self.founders()? {
                Some(founders) => results::merges(steps, founders).await,
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
