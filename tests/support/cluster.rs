//! A cluster of processes on this machine: a scheduler, executors, and drivers that send it jobs.

use std::sync::{Condvar, PoisonError};

use super::process::{free_ports, get};
use super::*;

const START: Duration = Duration::from_secs(60);

/// The place of an executor.
#[derive(Clone)]
pub struct ExecutorHost {
    pub host: String,
    /// A command that does something first and then becomes the executor, whose work folder it finds as `$WORK`.
    pub inside: Vec<String>,
}

impl Default for ExecutorHost {
    fn default() -> Self {
        Self { host: "127.0.0.1".into(), inside: Vec::new() }
    }
}

#[derive(Clone)]
pub struct Setup {
    pub host: String,
    pub executors: Vec<ExecutorHost>,
    /// Tasks at once of each executor.
    pub vcores: usize,
    pub memory: &'static str,
    /// Seconds without a sign of life after which an executor is given up. A busy one gives a sign every five.
    pub timeout: u64,
    /// Seconds that the scheduler waits without executors before jobs fail.
    pub grace: u64,
    pub environment: Vec<(String, String)>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            host: ExecutorHost::default().host,
            executors: vec![ExecutorHost::default(); 2],
            vcores: 1,
            memory: "512MiB",
            timeout: 10,
            grace: 20,
            environment: Vec::new(),
        }
    }
}

/// A scheduler and its executors, which end with this value. One cluster at a time: they share the cores.
pub struct Cluster {
    scheduler: Option<Process>,
    executors: Vec<Option<Process>>,
    /// The offset in each executor's log of its last start.
    log_starts: Vec<usize>,
    drivers: std::cell::Cell<usize>,
    setup: Setup,
    port: u16,
    executor_ports: Vec<u16>,
    folder: TempDir,
    _turn: Turn,
}

impl Cluster {
    pub fn start() -> Self {
        Self::with(Setup::default())
    }

    pub fn with(setup: Setup) -> Self {
        let mut cluster = Self {
            scheduler: None,
            executors: setup.executors.iter().map(|_| None).collect(),
            log_starts: vec![0; setup.executors.len()],
            drivers: Default::default(),
            port: free_ports(1),
            executor_ports: setup.executors.iter().map(|_| free_ports(3)).collect(),
            folder: tempfile::tempdir().unwrap(),
            _turn: turn(),
            setup,
        };
        cluster.start_scheduler();
        for place in 0..cluster.executors.len() {
            cluster.spawn_executor(place);
        }
        for place in 0..cluster.executors.len() {
            cluster.await_executor(place);
        }
        cluster
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The scheduler's address, as a job names it.
    pub fn url(&self) -> String {
        format!("df://{}:{}", self.setup.host, self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The ports on which executors serve what their tasks wrote.
    pub fn ports_of_executors(&self) -> &[u16] {
        &self.executor_ports
    }

    fn command(&self, inside: &[String]) -> Command {
        let program = assert_cmd::cargo::cargo_bin("resemblance");
        let mut command = match inside {
            [] => Command::new(program),
            [first, rest @ ..] => {
                let mut command = Command::new(first);
                command.args(rest).arg(program);
                command
            }
        };
        command.env_remove("RESEMBLANCE_LOG").env("NO_COLOR", "1");
        // Tables of tests are small, and are to be read by executors.
        command.env("RESEMBLANCE_SMALL_STAGES", "1B");
        command.envs(self.setup.environment.iter().map(|(key, value)| (key, value)));
        command
    }

    pub fn start_scheduler(&mut self) {
        let mut command = self.command(&[]);
        command.arg("scheduler").args(["--bind", &self.url()[5..]]).args(allowed(&self.setup.host));
        command.args(["--executor-timeout", &self.setup.timeout.to_string()]);
        command.args(["--grace", &self.setup.grace.to_string()]);
        self.scheduler = Some(Process::start("scheduler", &mut command, self.folder()));
        let scheduler = self.scheduler.as_mut().unwrap();
        wait_for("the scheduler", START, || {
            assert!(scheduler.ended().is_none(), "the scheduler did not start");
            ask(&self.setup, &self.setup.host, self.port, "/healthz").filter(|(status, _)| *status == 200)
        });
    }

    /// Adds a place for an executor, starts it there and waits until the scheduler knows it. Says which place it is.
    pub fn add_executor(&mut self, place: ExecutorHost) -> usize {
        let (at, known) = (self.executors.len(), self.known_executors());
        self.setup.executors.push(place);
        self.executors.push(None);
        self.log_starts.push(0);
        self.executor_ports.push(free_ports(3));
        self.start_executor(at);
        wait_for("the scheduler to know one more executor", START, || {
            (self.known_executors() > known).then_some(())
        });
        at
    }

    /// Starts the executor at a place and waits until the scheduler can send it work.
    pub fn start_executor(&mut self, place: usize) {
        self.spawn_executor(place);
        self.await_executor(place);
    }

    pub fn spawn_executor(&mut self, place: usize) {
        let work = self.folder().join(format!("work{place}"));
        std::fs::create_dir_all(&work).unwrap();
        let ExecutorHost { host, inside } = &self.setup.executors[place];
        let mut command = self.command(inside);
        command.arg("executor").args(["--scheduler", &self.url()[5..]]);
        command.args(["--bind", &format!("{host}:{}", self.executor_ports[place]), "--advertise", host]);
        command.args(allowed(host));
        command.args(["--vcores", &self.setup.vcores.to_string(), "--memory", self.setup.memory]);
        command.arg("--work-dir").arg(&work).env("WORK", work);
        // It tells when its tasks begin and end.
        command.env("RESEMBLANCE_LOG", "warn,resemblance=debug");
        let name = format!("executor{place}");
        self.log_starts[place] = self.executors[place].as_ref().map_or(0, |last| last.said().len());
        self.executors[place] = Some(Process::start(&name, &mut command, self.folder()));
    }

    fn await_executor(&mut self, place: usize) {
        let (host, port) = (self.setup.executors[place].host.clone(), self.executor_ports[place]);
        let executor = self.executors[place].as_mut().unwrap();
        wait_for("an executor", START, || {
            assert!(executor.ended().is_none(), "executor {place} did not start");
            ask(&self.setup, &host, port + 2, "/readyz").filter(|(status, _)| *status == 200)
        });
        wait_for("the scheduler to know an executor", START, || {
            self.get("/readyz").filter(|(status, _)| *status == 200)
        });
    }

    pub fn scheduler(&mut self) -> &mut Process {
        self.scheduler.as_mut().expect("a scheduler")
    }

    pub fn executor(&mut self, place: usize) -> &mut Process {
        self.executors[place].as_mut().expect("an executor")
    }

    /// The tasks of a stage that the executor at a place has begun since its start.
    pub fn tasks(&self, place: usize, stage: &str) -> Vec<Task> {
        self.tasks_of(place, &format!("/{stage}/"))
    }

    pub fn is_busy(&self, place: usize) -> bool {
        self.tasks_of(place, "job=").iter().any(|task| task.ended.is_none())
    }

    fn tasks_of(&self, place: usize, job: &str) -> Vec<Task> {
        let Some(executor) = &self.executors[place] else { return Vec::new() };
        let said = executor.said();
        let mut tasks: Vec<Task> = Vec::new();
        for line in said[self.log_starts[place]..].lines().filter(|line| line.contains(job)) {
            let Some(name) = line.split_once("task=\"").and_then(|(_, rest)| rest.split('"').next()) else {
                continue;
            };
            if line.contains("a task begins") {
                tasks.push(Task { name: name.to_owned(), ended: None });
            } else if line.contains("a task ends")
                && let Some(task) = tasks.iter_mut().find(|task| task.name == name)
            {
                task.ended = Some(!line.contains("failed=true"));
            }
        }
        tasks
    }

    /// Stops an executor in the midst of a task of a stage, and says which one; `None` where the stage ends before. The executor's log shows
    /// that the task has begun and not that it has ended, so that a signal after that cannot come too late. `wanted` looks at the tasks
    /// of the stage that the executor has begun.
    pub fn stop_in_a_task(
        &mut self,
        stage: &str,
        driver: &mut Driver,
        wanted: impl Fn(&[Task]) -> bool,
    ) -> Option<usize> {
        let in_a_task = |tasks: &[Task]| tasks.iter().any(|task| task.ended.is_none()) && wanted(tasks);
        let began = std::time::Instant::now();
        loop {
            for place in 0..self.executors.len() {
                if !in_a_task(&self.tasks(place, stage)) {
                    continue;
                }
                self.executor(place).stop();
                if in_a_task(&self.tasks(place, stage)) {
                    return Some(place);
                }
                self.executor(place).signal("CONT");
            }
            if driver.done(stage) {
                return None;
            }
            assert!(driver.0.ended().is_none(), "the run ended before an executor was stopped in {stage}");
            assert!(began.elapsed() < Duration::from_secs(120), "no executor has a task of {stage}");
            let_pass(Duration::from_millis(1));
        }
    }

    pub fn kill_in_a_task(&mut self, stage: &str, driver: &mut Driver) -> usize {
        let place = self.stop_in_a_task(stage, driver, |_| true).expect("a task of the stage");
        self.executor(place).kill();
        place
    }

    pub fn known_executors(&self) -> usize {
        let Some((200, body)) = self.get("/api/executors") else { return 0 };
        serde_json::from_str::<Vec<Value>>(&body).unwrap().len()
    }

    pub fn get(&self, path: &str) -> Option<(u16, String)> {
        ask(&self.setup, &self.setup.host, self.port, path)
    }

    pub fn logs(&self) -> String {
        let entries = std::fs::read_dir(self.folder()).unwrap().map(|entry| entry.unwrap().path());
        let logs = entries.filter(|path| path.extension().is_some_and(|e| e == "log" || e == "out"));
        logs.map(|path| String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned()).collect()
    }

    fn drive(&self, command: &mut Command) -> Driver {
        let number = self.drivers.replace(self.drivers.get() + 1);
        Driver(Process::start_apart(&format!("driver{number}"), command.arg("--json"), self.folder()))
    }

    pub fn run(&self, job: &Path, output: impl AsRef<Path>, sets: &[&str]) -> Driver {
        let mut command = self.command(&[]);
        let at = format!("engine.scheduler={}", self.url());
        let to = format!("output.url={}", output.as_ref().display());
        let sets = ["engine.mode=cluster", &at, &to].into_iter().chain(sets.iter().copied());
        self.drive(command.arg("run").arg(job).args(sets.flat_map(|set| ["--set", set])))
    }

    pub fn apply(&self, output: impl AsRef<Path>, to: impl AsRef<Path>, options: &[&str]) -> Driver {
        let mut command = self.command(&[]);
        command.arg("apply").arg(output.as_ref()).arg("--to").arg(to.as_ref());
        self.drive(command.args(["--scheduler", &self.url()]).args(options))
    }

    /// Waits until a stage of a job runs, or the driver ends; whether the stage was seen running.
    pub fn await_stage(&self, stage: &str, driver: &mut Driver) -> bool {
        wait_for(&format!("the stage {stage}"), Duration::from_secs(120), || {
            if self.running().iter().any(|running| running == stage) {
                return Some(true);
            }
            driver.0.ended().map(|_| false)
        })
    }

    pub fn running(&self) -> Vec<String> {
        let Some((200, body)) = self.get("/api/jobs") else { return Vec::new() };
        let jobs: Vec<Value> = serde_json::from_str(&body).unwrap();
        let running = jobs.iter().filter(|job| job["status"] == "Running");
        running.filter_map(|job| stage_of(job["job_name"].as_str()?)).collect()
    }
}

/// Status and body of the answer of a role; over TLS if the cluster has an authority.
fn ask(setup: &Setup, host: &str, port: u16, path: &str) -> Option<(u16, String)> {
    let authority = setup.environment.iter().find(|(name, _)| name == "RESEMBLANCE_CLUSTER_CA");
    let Some((_, authority)) = authority else { return get(host, port, path) };
    let authority = reqwest::Certificate::from_pem(&std::fs::read(authority).unwrap()).unwrap();
    let client = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(2));
    let client = client.tls_built_in_root_certs(false).add_root_certificate(authority).build().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let answer = client.get(format!("https://{host}:{port}{path}")).send().await.ok()?;
        Some((answer.status().as_u16(), answer.text().await.ok()?))
    })
}

/// The options that a role needs to bind `host`.
fn allowed(host: &str) -> &'static [&'static str] {
    match host.starts_with("127.") {
        true => &[],
        false => &["--allow-unauthenticated"],
    }
}

#[derive(Debug, Clone)]
pub struct Task {
    /// `TID job/stage.attempt/task.attempt`.
    pub name: String,
    /// Whether it ended well, where it has ended.
    pub ended: Option<bool>,
}

impl Task {
    pub fn stage(&self) -> &str {
        self.name.split('/').nth(1).unwrap()
    }
}

/// The stage in a job's name, which is `run/stage/attempt`.
fn stage_of(name: &str) -> Option<String> {
    name.rsplit('/').nth(1).map(str::to_owned)
}

/// Clusters that run at the same time. Most of a test's time goes by in waiting, for a timeout or for a killed process to be
/// missed.
const AT_ONCE: usize = 2;

/// One of the clusters that may run, until it is dropped.
pub struct Turn(());

static RUNNING: Mutex<usize> = Mutex::new(0);
static ENDED: Condvar = Condvar::new();

/// Waits until few enough other clusters run.
pub fn turn() -> Turn {
    let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    while *running >= AT_ONCE {
        running = ENDED.wait(running).unwrap_or_else(PoisonError::into_inner);
    }
    *running += 1;
    Turn(())
}

impl Drop for Turn {
    fn drop(&mut self) {
        *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        ENDED.notify_one();
    }
}

/// A `run` on the cluster, which ends with this value.
pub struct Driver(pub Process);

impl Driver {
    pub fn end(mut self, seconds: u64) -> Output {
        let status = self.0.wait(Duration::from_secs(seconds));
        Output { status, stdout: self.0.printed().into(), stderr: self.0.said().into() }
    }

    pub fn done(&self, stage: &str) -> bool {
        self.0.said().contains(&format!("done stage=\"{stage}\""))
    }

    /// Its record when it has ended well, which must be within `seconds`.
    pub fn succeed(self, seconds: u64) -> Value {
        self.end(seconds).json()
    }
}
