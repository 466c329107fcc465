//! S3 over real HTTP: reading, writing, faults, and what no message may hold.

mod bodies;
mod clean;
mod cut;
mod environment;
mod faults;
mod listings;
mod pinned;
mod random;
mod reading;
mod secrets;
mod without_conditional_puts;
mod writing;

use std::path::Path as FsPath;

use object_store::ObjectStore;
use resemblance::engine::stores;

use crate::support::s3::BUCKET;
use crate::support::*;

/// No command of these tests may take longer.
const DEADLINE: Duration = Duration::from_secs(180);

/// The variables of the process without variables of a real cloud account, and then these.
fn environment(variables: &[(String, String)]) -> BTreeMap<String, String> {
    let own = std::env::vars().filter(|(name, _)| !name.starts_with("AWS_"));
    own.chain(variables.iter().cloned()).collect()
}

fn command(variables: &[(String, String)], arguments: &[&str]) -> Output {
    let mut command = resemblance();
    command.env_clear().envs(environment(variables)).env("NO_COLOR", "1").env_remove("RESEMBLANCE_LOG");
    command.args(arguments).timeout(DEADLINE).output().unwrap()
}

fn changed(s3: &S3, changes: &[(&str, &str)]) -> Vec<(String, String)> {
    [s3.env(), variables(changes)].concat()
}

/// A job file over `source` in a folder that is gone with the test.
fn job_file(folder: &FsPath, source: &str) -> PathBuf {
    let path = folder.join("job.toml");
    let text = format!(
        "[source]\n{source}\n[shingle]\nsize = 3\n[score]\nthreshold = 0.5\n{CONNECTED}[output]\nurl = \"set by the test\"\n"
    );
    std::fs::write(&path, text).unwrap();
    path
}

/// A command that runs a job in a process of its own.
fn started(variables: &[(String, String)], job: &FsPath, output: &str) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("resemblance"));
    command.env_clear().envs(environment(variables)).env("NO_COLOR", "1");
    command.arg("run").arg(job).args(["--set", &format!("output.url={output:?}")]);
    command
}

fn run_to(variables: &[(String, String)], job: &FsPath, output: &str, more: &[&str]) -> Output {
    let output = format!("output.url={output:?}");
    let run = ["run", job.to_str().unwrap(), "--set", &output, "--json"];
    command(variables, &[&run[..], more].concat())
}

/// The bucket as the program knows it with these variables.
fn store(variables: &[(String, String)]) -> Arc<dyn ObjectStore> {
    let registry = stores::registry_of(variables.iter().cloned().collect());
    registry.get_store(&format!("s3://{BUCKET}").parse().unwrap()).unwrap()
}

fn session_of(variables: &[(String, String)]) -> SessionContext {
    let context = session::session(&resolved("format = \"text\"\nurl = \"unused\"").engine).unwrap();
    context.register_object_store(&format!("s3://{BUCKET}").parse().unwrap(), store(variables));
    context
}

/// The job over `source` with everything else as it comes.
fn resolved(source: &str) -> Job {
    let text = format!("[source]\n{source}\n[output]\nurl = \"unused-output\"\n");
    resolve(&text, &[]).unwrap()
}

impl Format {
    /// Writes the files into a folder, and runs the job over them there: the output.
    fn run_locally(&self, folder: &FsPath) -> PathBuf {
        let (input, output) = (folder.join("in"), folder.join("out"));
        self.write(&input);
        let job = job_file(folder, &self.source(input.to_str().unwrap()));
        run_to(&[], &job, output.to_str().unwrap(), &[]).shown(&[]);
        output
    }

    fn put(&self, s3: &S3, prefix: &str) {
        for (name, bytes) in &self.files {
            s3.put(&format!("{prefix}/{name}"), bytes);
        }
    }

    /// Puts the files into the bucket: a job file over them there.
    fn put_with_job(&self, s3: &S3, prefix: &str, folder: &FsPath) -> PathBuf {
        self.put(s3, prefix);
        job_file(folder, &self.source(&s3.url(prefix)))
    }
}

/// The tables that a user takes from an output, pairs and clusters, under any file names.
fn answers(output: &FsPath) -> Vec<RecordBatch> {
    ["pairs", "clusters"].map(|name| table(output, name)).to_vec()
}

/// A bucket with a corpus as Parquet under `in`, a job file over it, and what a run of that on local files gives.
struct Corpus {
    s3: Arc<S3>,
    folder: TempDir,
    job: PathBuf,
    expected: Vec<RecordBatch>,
}

impl Corpus {
    fn new(documents: usize, words: usize) -> Corpus {
        let s3 = Arc::new(S3::start());
        let folder = tempdir().unwrap();
        let file = folder.path().join("in.parquet");
        write_parquet(&file, &corpus(5, documents, words), 100);
        s3.put("in/in.parquet", std::fs::read(&file).unwrap());
        let local = folder.path().join("local");
        run(&job(&file, &local, &[])).unwrap();
        let source = format!("format = \"parquet\"\nurl = {:?}\n{COLUMNS}", s3.url("in"));
        let job = job_file(folder.path(), &source);
        Corpus { s3, folder, job, expected: answers(&local) }
    }

    fn run(&self, output: &str) -> Output {
        run_to(&self.s3.env(), &self.job, &self.s3.url(output), &[])
    }

    /// Holds what is at `output` against the local run, and that nothing lies there that the manifest does not name.
    fn check(&self, output: &str) -> Run {
        let path = self.s3.file(output);
        assert_eq!(answers(&path), self.expected);
        let manifest = manifest(&path);
        let mut named: Vec<String> =
            manifest.paths().iter().map(|inside| format!("{output}/{inside}")).collect();
        named.push(format!("{output}/manifest.json"));
        named.sort();
        let there: Vec<String> = self.s3.keys(&format!("{output}/")).into_keys().collect();
        assert_eq!(there, named);
        manifest
    }
}
