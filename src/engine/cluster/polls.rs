//! Answers to requests that are repeated until something has happened: those of executors for tasks, and those of drivers for the
//! end of a job.
//!
//! Ballista answers at once, and its clients sleep for 50 ms before the next request. A stage of ten query stages would take half a
//! second, whatever is in them. So an answer that has nothing to say waits for some milliseconds.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use ballista_core::serde::protobuf::scheduler_grpc_server::SchedulerGrpc;
use ballista_core::serde::protobuf::{self, job_status};
use ballista_core::serde::scheduler::ExecutorSpecification;
use ballista_scheduler::scheduler_server::SchedulerServer;
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};
use futures::{Stream, StreamExt};
use parking_lot::Mutex;
use tonic::{Request, Response, Status};

/// Ballista's scheduler for our plans.
pub(super) type TaskScheduler = SchedulerServer<LogicalPlanNode, PhysicalPlanNode>;

/// The milliseconds before each further look. The next query stage is usually ready after one or two.
const WAITS: [u64; 5] = [1, 2, 4, 8, 16];

/// How long executors wait for tasks after the last question of a driver that asks for the end of its job. A cluster without a
/// job is asked no more often than Ballista's.
const AWAITED: Duration = Duration::from_secs(2);

/// A scheduler whose answers wait for something to say.
pub(super) struct PatientScheduler {
    scheduler: TaskScheduler,
    drivers: Drivers,
}

impl PatientScheduler {
    pub(super) fn new(scheduler: TaskScheduler) -> Self {
        Self { scheduler, drivers: Drivers::default() }
    }
}

/// The drivers that wait for the end of a job.
#[derive(Default)]
struct Drivers {
    /// Jobs whose states are being sent to their drivers. Each stream holds a reference.
    streams: Arc<()>,
    /// When a driver asked for a state last.
    asked: Mutex<Option<Instant>>,
}

impl Drivers {
    fn note_question(&self) {
        *self.asked.lock() = Some(Instant::now());
    }

    /// The states of a job, for the driver that waits as long as it has them.
    fn waiting<S: Stream + Send + 'static>(&self, states: S) -> impl Stream<Item = S::Item> + Send + 'static {
        let waits = Arc::clone(&self.streams);
        states.inspect(move |_| _ = &waits)
    }

    /// Whether a driver waits, so that there may be tasks soon.
    fn wait(&self) -> bool {
        Arc::strong_count(&self.streams) > 1 || self.asked.lock().is_some_and(|at| at.elapsed() < AWAITED)
    }
}

type PollAnswer<T> = Result<Response<T>, Status>;

/// Looks until the answer is not `empty` or the waits are over.
async fn look<T, F: Future<Output = PollAnswer<T>>>(
    first: F,
    empty: impl Fn(&T) -> bool,
    mut again: impl FnMut() -> F,
) -> PollAnswer<T> {
    let mut answer = first.await?;
    for wait in WAITS {
        if !empty(answer.get_ref()) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(wait)).await;
        answer = again().await?;
    }
    Ok(answer)
}

/// Whether an executor runs no task. One that does would report the end of it late.
fn is_idle(params: &protobuf::PollWorkParams) -> bool {
    let specification = params.metadata.as_ref().and_then(|executor| executor.specification.clone());
    let specification: Option<ExecutorSpecification> = specification.map(Into::into);
    specification.is_some_and(|of| of.vcores == params.num_free_vcores)
}

fn has_nothing(work: &protobuf::PollWorkResult) -> bool {
    work.tasks.is_empty() && work.jobs_to_clean.is_empty()
}

fn is_unfinished(job: &protobuf::GetJobStatusResult) -> bool {
    let status = job.status.as_ref().and_then(|job| job.status.as_ref());
    matches!(status, Some(job_status::Status::Queued(_) | job_status::Status::Running(_)))
}

#[async_trait]
impl SchedulerGrpc for PatientScheduler {
    type ExecuteQueryPushStream = <TaskScheduler as SchedulerGrpc>::ExecuteQueryPushStream;

    async fn poll_work(
        &self,
        request: Request<protobuf::PollWorkParams>,
    ) -> PollAnswer<protobuf::PollWorkResult> {
        if !self.drivers.wait() || !is_idle(request.get_ref()) {
            return self.scheduler.poll_work(request).await;
        }
        let (metadata, extensions, params) = request.into_parts();
        // The ends of tasks are reported once.
        let later = protobuf::PollWorkParams { task_status: Vec::new(), ..params.clone() };
        let poll = |params| {
            let request = Request::from_parts(metadata.clone(), extensions.clone(), params);
            self.scheduler.poll_work(request)
        };
        look(poll(params), has_nothing, || poll(later.clone())).await
    }

    async fn get_job_status(
        &self,
        request: Request<protobuf::GetJobStatusParams>,
    ) -> PollAnswer<protobuf::GetJobStatusResult> {
        self.drivers.note_question();
        let (metadata, extensions, params) = request.into_parts();
        let status = || {
            let request = Request::from_parts(metadata.clone(), extensions.clone(), params.clone());
            self.scheduler.get_job_status(request)
        };
        look(status(), is_unfinished, status).await
    }

    async fn register_executor(
        &self,
        request: Request<protobuf::RegisterExecutorParams>,
    ) -> PollAnswer<protobuf::RegisterExecutorResult> {
        self.scheduler.register_executor(request).await
    }

    async fn heart_beat_from_executor(
        &self,
        request: Request<protobuf::HeartBeatParams>,
    ) -> PollAnswer<protobuf::HeartBeatResult> {
        self.scheduler.heart_beat_from_executor(request).await
    }

    async fn update_task_status(
        &self,
        request: Request<protobuf::UpdateTaskStatusParams>,
    ) -> PollAnswer<protobuf::UpdateTaskStatusResult> {
        SchedulerGrpc::update_task_status(&self.scheduler, request).await
    }

    async fn create_update_session(
        &self,
        request: Request<protobuf::CreateUpdateSessionParams>,
    ) -> PollAnswer<protobuf::CreateUpdateSessionResult> {
        self.scheduler.create_update_session(request).await
    }

    async fn remove_session(
        &self,
        request: Request<protobuf::RemoveSessionParams>,
    ) -> PollAnswer<protobuf::RemoveSessionResult> {
        self.scheduler.remove_session(request).await
    }

    async fn execute_query_push(
        &self,
        request: Request<protobuf::ExecuteQueryParams>,
    ) -> PollAnswer<Self::ExecuteQueryPushStream> {
        let states = self.scheduler.execute_query_push(request).await?;
        Ok(states.map(|states| -> Self::ExecuteQueryPushStream { Box::pin(self.drivers.waiting(states)) }))
    }

    async fn execute_query(
        &self,
        request: Request<protobuf::ExecuteQueryParams>,
    ) -> PollAnswer<protobuf::ExecuteQueryResult> {
        self.drivers.note_question();
        self.scheduler.execute_query(request).await
    }

    async fn get_job_metrics(
        &self,
        request: Request<protobuf::GetJobMetricsParams>,
    ) -> PollAnswer<protobuf::GetJobMetricsResult> {
        self.scheduler.get_job_metrics(request).await
    }

    async fn executor_stopped(
        &self,
        request: Request<protobuf::ExecutorStoppedParams>,
    ) -> PollAnswer<protobuf::ExecutorStoppedResult> {
        self.scheduler.executor_stopped(request).await
    }

    async fn cancel_job(
        &self,
        request: Request<protobuf::CancelJobParams>,
    ) -> PollAnswer<protobuf::CancelJobResult> {
        SchedulerGrpc::cancel_job(&self.scheduler, request).await
    }

    async fn clean_job_data(
        &self,
        request: Request<protobuf::CleanJobDataParams>,
    ) -> PollAnswer<protobuf::CleanJobDataResult> {
        self.scheduler.clean_job_data(request).await
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use ballista_core::serde::protobuf::{ExecutorRegistration, PollWorkParams};

    use super::*;

    #[tokio::test]
    async fn an_answer_waits_until_it_has_something_to_say() {
        for (ready_at, asked) in [(1, 1), (3, 3), (100, 1 + WAITS.len())] {
            let times = Cell::new(0);
            let ready = || {
                times.set(times.get() + 1);
                std::future::ready(Ok(Response::new(times.get() >= ready_at)))
            };
            let answer = look(ready(), |ready| !ready, ready).await.unwrap().into_inner();
            assert_eq!((answer, times.get()), (ready_at <= asked, asked));
        }
        let fails = || std::future::ready(Err::<Response<bool>, _>(Status::internal("broken")));
        assert!(look(fails(), |_| true, fails).await.is_err());
    }

    #[test]
    fn no_answer_waits_unless_a_driver_does() {
        let drivers = Drivers::default();
        assert!(!drivers.wait());
        // One that asks.
        drivers.note_question();
        assert!(drivers.wait());
        *drivers.asked.lock() = Instant::now().checked_sub(AWAITED);
        assert!(!drivers.wait());
        // One that is sent the states.
        let states = drivers.waiting(futures::stream::iter([1, 2]));
        assert!(drivers.wait());
        drop(states);
        assert!(!drivers.wait());
    }

    #[test]
    fn executors_with_a_task_are_answered_at_once() {
        let specification = Some(ExecutorSpecification::default().with_vcores(2).into());
        let metadata = Some(ExecutorRegistration { specification, ..Default::default() });
        for (num_free_vcores, idle) in [(0, false), (1, false), (2, true)] {
            let params = PollWorkParams { metadata: metadata.clone(), num_free_vcores, task_status: vec![] };
            assert_eq!(is_idle(&params), idle);
        }
        assert!(!is_idle(&PollWorkParams::default()));
    }
}
