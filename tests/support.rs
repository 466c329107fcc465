//! Shared by the tests: corpora, runs in this process and as commands, tables read back, and the names that most tests use.

pub mod around;
pub mod browser;
#[cfg(feature = "cluster")]
pub mod cluster;
pub mod counting;
pub mod delta;
pub mod files;
pub mod formats;
pub mod garage;
pub mod needs;
pub mod oracle;
pub mod process;
pub mod refusing;
pub mod rows;
pub mod s3;
pub mod scene;
pub mod server;
pub mod sketch_joins;
pub mod stopping;
pub mod walk;

use std::collections::HashMap;
pub use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Debug, Display};
pub use std::ops::Range;
pub use std::path::{Path, PathBuf};
pub use std::process::{Command, Output, Stdio};
pub use std::sync::{Arc, Mutex};
pub use std::time::Duration;

use arrow::array::Array;
pub use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
pub use arrow::compute::cast;
use arrow::compute::{SortColumn, concat_batches, lexsort_to_indices, take_record_batch};
pub use arrow::datatypes::{DataType, Field, Schema};
use arrow::datatypes::{Float64Type, Int32Type, Int64Type, UInt64Type};
pub use assert_cmd::assert::Assert;
pub use datafusion::prelude::{SessionConfig, SessionContext};
pub use parquet::arrow::ArrowWriter;
pub use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
pub use resemblance::engine::{Engine, Local, RunControl, session};
pub use resemblance::error::Kind;
pub use resemblance::job::{self, EngineSettings, Job};
pub use resemblance::output::manifest::Run;
pub use resemblance::pipeline::{self, OnExisting, Outcome};

pub use around::{Around, Call, Hook};
pub use browser::Browser;
#[cfg(feature = "cluster")]
pub use cluster::{Cluster, Driver, ExecutorHost, Setup};
pub use delta::Table;
pub use files::files;
pub use formats::{COLUMNS, Format, formats, gzipped};
pub use needs::{python, real_data};
pub use process::{Process, killed_at, let_pass, wait_for};
pub use refusing::Refusing;
pub use rows::{assert_rows, moved, rows, rows_alone};
pub use s3::{Fault, S3};
pub use scene::Scene;
pub use serde_json::{Value, json};
pub use server::Server;
pub use stopping::run_until;
pub use tempfile::{TempDir, tempdir};

pub type Document = (String, String);

pub fn resemblance() -> assert_cmd::Command {
    let mut command =
        assert_cmd::Command::cargo_bin("resemblance").expect("the binary is built with the tests");
    command.env_remove("RESEMBLANCE_LOG").env("NO_COLOR", "1");
    command
}

/// The command under test with these arguments, of any type that is an argument.
macro_rules! program {
    ($($argument:expr),+ $(,)?) => {{
        let mut command = $crate::support::resemblance();
        $(command.arg($argument);)+
        command
    }};
}
pub(crate) use program;

/// Gives a type the methods of its field `scene`.
macro_rules! has_a_scene {
    ($type:ty) => {
        impl std::ops::Deref for $type {
            type Target = $crate::support::Scene;

            fn deref(&self) -> &Self::Target {
                &self.scene
            }
        }
    };
}
pub(crate) use has_a_scene;

/// A shell that runs a script in `folder` and knows the command under test.
pub fn shell(script: &str, folder: &Path) -> Command {
    let program = assert_cmd::cargo::cargo_bin("resemblance");
    let paths = std::env::var_os("PATH").unwrap();
    let paths = std::iter::once(program.parent().unwrap().to_owned()).chain(std::env::split_paths(&paths));
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", script]).current_dir(folder).env("PATH", std::env::join_paths(paths).unwrap());
    shell
}

/// Variables of an environment.
pub fn variables(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

pub fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The paths of files in a new folder, which is removed with this closure.
pub fn paths() -> impl Fn(&str) -> PathBuf {
    let folder = tempdir().unwrap();
    move |name| folder.path().join(name)
}

/// Writes a file into a folder, and the folders that its name has.
pub fn write_file(folder: &TempDir, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Random numbers from a seed: splitmix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

/// The seeds of random cases: `RESEMBLANCE_CASES` of them, or `cases`, from `RESEMBLANCE_SEED` on, or from 1.
pub fn seeds(cases: u64) -> Range<u64> {
    let number = |variable: &str, default: u64| {
        let value = std::env::var(variable).map(|value| value.parse());
        value.unwrap_or(Ok(default)).unwrap_or_else(|_| panic!("{variable} is not a number"))
    };
    let first = number("RESEMBLANCE_SEED", 1);
    first..first + number("RESEMBLANCE_CASES", cases)
}

/// `count` documents of `words` words: a third are copies of an earlier one, a third have some words replaced.
pub fn corpus(seed: u64, count: usize, words: usize) -> Vec<Document> {
    let mut random = Random(seed);
    let mut texts: Vec<Vec<String>> = Vec::new();
    for _ in 0..count {
        let kind = if texts.is_empty() { 0 } else { random.below(3) };
        let mut text = match kind {
            0 => (0..words).map(|_| format!("w{}", random.below(5_000))).collect(),
            _ => texts[random.below(texts.len())].clone(),
        };
        if kind == 1 {
            for _ in 0..1 + random.below(1 + words / 10) {
                let at = random.below(text.len());
                text[at] = format!("w{}", random.below(5_000));
            }
        }
        texts.push(text);
    }
    texts.into_iter().enumerate().map(|(i, text)| (format!("d{i:05}"), text.join(" "))).collect()
}

/// `count` words that no text of another name has.
pub fn own_words(name: impl Display, count: usize) -> String {
    (0..count).map(|word| format!("w{name}x{word}")).collect::<Vec<_>>().join(" ")
}

pub fn documents<I: ToString, T: ToString>(rows: &[(I, T)]) -> Vec<Document> {
    rows.iter().map(|(id, text)| (id.to_string(), text.to_string())).collect()
}

/// Documents whose ids take 4,000 bytes each, where plans reckon with a few: a task of 64 MiB has no room for those that a
/// join gives it at first. Each two documents are similar.
pub fn long_ids() -> Vec<Document> {
    let mut random = Random(61);
    let prefix = "x".repeat(4_000);
    let mut documents = Vec::new();
    for pair in 0..4_000 {
        let words: Vec<String> = (0..8).map(|_| format!("w{}", random.below(5_000))).collect();
        for (side, last) in ["this", "that"].iter().enumerate() {
            documents.push((format!("{prefix}{pair:05}{side}"), format!("{} {last}", words.join(" "))));
        }
    }
    documents
}

/// Writes documents as Parquet with the columns `id` and `text`.
pub fn write_parquet(path: &Path, documents: &[Document], row_group: usize) {
    write_columns(path, documents, vec![], row_group);
}

/// Writes documents as Parquet with the columns `id` and `text`, and with `more` columns.
pub fn write_columns(path: &Path, documents: &[Document], more: Vec<(&str, ArrayRef)>, row_group: usize) {
    let mut columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(StringArray::from_iter_values(documents.iter().map(|d| &d.0)))),
        ("text", Arc::new(StringArray::from_iter_values(documents.iter().map(|d| &d.1)))),
    ];
    columns.extend(more);
    write_batch(path, &RecordBatch::try_from_iter(columns).unwrap(), row_group);
}

pub fn write_batch(path: &Path, batch: &RecordBatch, row_group: usize) {
    let properties = parquet::file::properties::WriterProperties::builder()
        .set_max_row_group_row_count(Some(row_group))
        .build();
    let file = std::fs::File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
}

/// The text of a job file over Parquet files with columns `id` and `text`: 3-word shingles, threshold 0.5, clusters that pairs connect.
pub fn job_text(source: impl Debug, output: impl Debug) -> String {
    job_text_of("parquet", source, output)
}

pub fn job_text_of(format: &str, source: impl Debug, output: impl Debug) -> String {
    format!(
        "[source]\nformat = {format:?}\nurl = {source:?}\nid = \"id\"\ntext = \"text\"\n\
         [shingle]\nsize = 3\nshort = \"reject\"\n[score]\nthreshold = 0.5\n{CONNECTED}[output]\nurl = {output:?}\n"
    )
}

/// Returns the text of a job file over a finished output, with threshold 0.5 and `more` lines at its end.
pub fn output_job_text(from: impl Debug, output: impl Debug, more: &str) -> String {
    format!(
        "source.format = \"output\"\nsource.url = {from:?}\noutput.url = {output:?}\nscore.threshold = 0.5\n{more}\n"
    )
}

/// The section of a job file by which pairs connect the documents of a cluster.
pub const CONNECTED: &str = "[clusters]\nmethod = \"components\"\n";

/// The placeholder of an output that every run of the job file sets.
pub const SET_BY_THE_TEST: &str = "set by the test";

/// A job over Parquet files with columns `id` and `text`: 3-word shingles, threshold 0.5, and what `sets` says.
pub fn job(source: &Path, output: &Path, sets: &[&str]) -> Job {
    resolve(&job_text(source, output), sets).unwrap()
}

/// The job of a file of the repository over another source.
pub fn job_of(file: &str, source: &Path, output: &Path, sets: &[&str]) -> Job {
    let places = [format!("source.url={}", source.display()), format!("output.url={}", output.display())];
    let sets: Vec<String> = places.into_iter().chain(sets.iter().map(|set| set.to_string())).collect();
    Job::load(repository(file), &sets).unwrap()
}

/// The job of a file with this text, and what `sets` says.
pub fn resolve(text: &str, sets: &[&str]) -> resemblance::error::Result<Job> {
    let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
    job::resolve(job::file::read(text, "test.toml", &sets)?)
}

/// The message by which a job with these settings is refused.
pub fn refusal(sets: &[&str]) -> String {
    let error = resolve(&job_text("in.parquet", "out"), sets).unwrap_err();
    assert_eq!(error.kind(), Kind::Job, "{error}");
    error.to_string()
}

/// Checks that a run failed with an error of this kind, whose message has all parts; returns the message.
pub fn fails<T: Debug>(ended: resemblance::error::Result<T>, kind: Kind, parts: &[&str]) -> String {
    let error = ended.unwrap_err();
    let said = format!("{error}\n{}", error.one_line());
    assert_eq!(error.kind(), kind, "{said}");
    assert!(parts.iter().all(|part| said.contains(part)), "{parts:?} in: {said}");
    said
}

/// The setting of a second source of Parquet files at `url` with columns `id` and `text`. `more` has other keys of the section, each after
/// a comma.
pub fn second_source(url: impl Debug, more: &str) -> String {
    format!("against.source={{ format = 'parquet', url = {url:?}, id = 'id', text = 'text'{more} }}")
}

/// The settings of programs that number shingles.
pub const DICTIONARY: [&str; 4] = [
    "shingle.hash=dictionary",
    "minhash.family=linear",
    "minhash.modulus=next-prime",
    "lsh.bucket_hash=crc32",
];

/// An order in which reference documents come last of all, so that merged outputs are clustered as one run clusters their documents.
pub const AS_ONE_RUN: &str = "clusters.keep=['length desc', 'id', 'reference']";

pub fn run(job: &Job) -> resemblance::error::Result<Outcome> {
    run_with(job, |config| config)
}

/// Runs a job in this process, on a session whose settings `change` alters.
pub fn run_with(
    job: &Job,
    change: impl Fn(SessionConfig) -> SessionConfig,
) -> resemblance::error::Result<Outcome> {
    block_on(async {
        let context = session::session(&job.engine)?;
        let state = context.state();
        let config = change(state.config().clone());
        let state =
            datafusion::execution::SessionStateBuilder::new_from_existing(state).with_config(config).build();
        let engine = Local::new(SessionContext::new_with_state(state));
        pipeline::run(job, &engine, &RunControl::detached(), OnExisting::Fail).await
    })
}

pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all().build().unwrap().block_on(future)
}

pub fn manifest(output: &Path) -> Run {
    serde_json::from_slice(&std::fs::read(output.join("manifest.json")).unwrap()).unwrap()
}

/// The rows of a Parquet file, or of all in a folder in the order of their paths, as readers of data sets take them: names that begin
/// with an underscore are skipped.
pub fn parquet_rows(path: &Path) -> Vec<RecordBatch> {
    if path.is_dir() {
        let is_shown = |path: &PathBuf| !path.file_name().unwrap().to_str().unwrap().starts_with('_');
        let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).filter(is_shown);
        return entries.collect::<BTreeSet<_>>().iter().flat_map(|path| parquet_rows(path)).collect();
    }
    let reader = ParquetRecordBatchReaderBuilder::try_new(std::fs::File::open(path).unwrap()).unwrap();
    let none = RecordBatch::new_empty(Arc::clone(reader.schema()));
    std::iter::once(none).chain(reader.build().unwrap().map(Result::unwrap)).collect()
}

pub fn parquet(path: &Path) -> RecordBatch {
    let batches = parquet_rows(path);
    concat_batches(&batches[0].schema(), &batches).unwrap()
}

/// Columns of a Parquet file, row by row, as texts.
pub fn cells(path: &Path, columns: &[&str]) -> Vec<Vec<String>> {
    let rows = parquet(path);
    let columns: Vec<Vec<String>> = columns.iter().map(|name| strings(&rows, name)).collect();
    (0..rows.num_rows()).map(|row| columns.iter().map(|column| column[row].clone()).collect()).collect()
}

pub fn stdout(ended: &Output) -> String {
    String::from_utf8(ended.stdout.clone()).unwrap()
}

pub fn stderr(ended: &Output) -> String {
    String::from_utf8_lossy(&ended.stderr).into_owned()
}

/// A command that ended: how, and what it printed.
pub trait CommandOutput: Debug {
    fn ended(&self) -> &Output;

    /// The message of a command that failed with this exit code; it has all these parts.
    #[track_caller]
    fn refused(&self, code: i32, parts: &[&str]) -> String {
        assert_eq!(self.ended().status.code(), Some(code), "{self:?}");
        let said = stderr(self.ended());
        assert!(parts.iter().all(|part| said.contains(part)), "{parts:?} in {self:?}");
        said
    }

    /// The output of a command that succeeded; it has all these parts.
    #[track_caller]
    fn shown(&self, parts: &[&str]) -> String {
        assert!(self.ended().status.success(), "{self:?}");
        let printed = stdout(self.ended());
        assert!(parts.iter().all(|part| printed.contains(part)), "{parts:?} in {self:?}");
        printed
    }

    /// The log of a command that succeeded; it has all these parts.
    #[track_caller]
    fn warned(&self, parts: &[&str]) -> String {
        self.refused(0, parts)
    }

    /// The JSON that a successful command printed.
    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.shown(&[])).unwrap()
    }
}

impl CommandOutput for Output {
    fn ended(&self) -> &Output {
        self
    }
}

impl CommandOutput for Assert {
    fn ended(&self) -> &Output {
        self.get_output()
    }
}

/// Returns the records of a CSV text, the header first.
pub fn csv_records(text: &str) -> Vec<Vec<String>> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes());
    reader.records().map(|record| record.unwrap().iter().map(str::to_owned).collect()).collect()
}

pub fn printed(command: &mut assert_cmd::Command) -> Value {
    command.arg("--json").assert().json()
}

/// All rows of a table of an output, sorted by every column: what must not change between runs.
pub fn table(output: &Path, name: &str) -> RecordBatch {
    let files = &manifest(output).tables[name].files;
    let batches: Vec<_> = files.iter().flat_map(|file| parquet_rows(&output.join(&file.path))).collect();
    let all = concat_batches(&batches.first().expect("a table has a file").schema(), &batches).unwrap();
    let sortable = all.columns().iter().filter(|c| !c.data_type().is_nested());
    let keys: Vec<_> = sortable.map(|c| SortColumn { values: Arc::clone(c), options: None }).collect();
    let order = lexsort_to_indices(&keys, None).unwrap();
    take_record_batch(&all, &order).unwrap()
}

/// The table of documents without where each was read from.
pub fn without_places(mut documents: RecordBatch) -> RecordBatch {
    for column in ["source", "position", "origin_number"] {
        documents.remove_column(documents.schema().index_of(column).unwrap());
    }
    documents
}

/// The tables of an output, but not where each document was read from: for runs over the same documents in other files.
pub fn tables_of_any_source(output: &Path) -> Vec<RecordBatch> {
    let is_of_documents = |table: &RecordBatch| table.column_by_name("signature").is_some();
    let tables = tables(output).into_iter();
    tables.map(|table| if is_of_documents(&table) { without_places(table) } else { table }).collect()
}

pub fn tables(output: &Path) -> Vec<RecordBatch> {
    manifest(output).tables.keys().map(|name| table(output, name)).collect()
}

/// A column as texts; ids may be numbers.
pub fn strings(batch: &RecordBatch, column: &str) -> Vec<String> {
    texts(batch, column).into_iter().map(|text| text.unwrap_or_else(|| "<null>".to_owned())).collect()
}

/// The values of signatures: binaries of two bytes for each, or lists of the bits of unsigned numbers.
pub fn signature_values(column: &ArrayRef) -> Vec<Vec<u32>> {
    match column.as_binary_opt::<i32>() {
        Some(binaries) => {
            let values = |bytes: &[u8]| {
                assert!(bytes.len().is_multiple_of(2));
                bytes.chunks(2).map(|pair| u32::from(pair[0]) + 256 * u32::from(pair[1])).collect()
            };
            binaries.iter().map(|bytes| values(bytes.unwrap())).collect()
        }
        None => {
            let lists = column.as_list::<i32>().iter();
            let values = |list: ArrayRef| {
                list.as_primitive::<Int32Type>().values().iter().map(|value| value.cast_unsigned()).collect()
            };
            lists.map(|list| values(list.unwrap())).collect()
        }
    }
}

pub fn string_pairs<C: FromIterator<(String, String)>>(batch: &RecordBatch, columns: [&str; 2]) -> C {
    strings(batch, columns[0]).into_iter().zip(strings(batch, columns[1])).collect()
}

pub fn texts(batch: &RecordBatch, column: &str) -> Vec<Option<String>> {
    let array = cast(batch.column_by_name(column).unwrap(), &DataType::Utf8).unwrap();
    array.as_string::<i32>().iter().map(|text| text.map(str::to_owned)).collect()
}

pub fn bools(batch: &RecordBatch, column: &str) -> Vec<bool> {
    batch.column_by_name(column).unwrap().as_boolean().iter().map(Option::unwrap).collect()
}

pub fn optional(batch: &RecordBatch, column: &str) -> Vec<Option<f64>> {
    batch.column_by_name(column).unwrap().as_primitive::<Float64Type>().iter().collect()
}

pub fn floats(batch: &RecordBatch, column: &str) -> Vec<f64> {
    batch.column_by_name(column).unwrap().as_primitive::<Float64Type>().values().to_vec()
}

/// A column of counts, or of keys by their bits.
pub fn numbers(batch: &RecordBatch, column: &str) -> Vec<u64> {
    let array = batch.column_by_name(column).unwrap();
    match array.data_type() {
        DataType::UInt64 => array.as_primitive::<UInt64Type>().values().to_vec(),
        DataType::Int32 => {
            let numbers = array.as_primitive::<Int32Type>().values().iter();
            numbers.map(|number| u64::from(number.cast_unsigned())).collect()
        }
        _ => array.as_primitive::<Int64Type>().values().iter().map(|number| number.cast_unsigned()).collect(),
    }
}

/// The documents in clusters of an output that do not represent these.
pub fn removed(output: &Path) -> BTreeSet<String> {
    let clusters = table(output, "clusters");
    let ids = strings(&clusters, "id").into_iter().zip(bools(&clusters, "representative"));
    ids.filter(|(_, stays)| !stays).map(|(id, _)| id).collect()
}

/// The pairs of an output: (id_a, id_b) -> jaccard.
pub fn pairs(output: &Path) -> BTreeMap<(String, String), f64> {
    let batch = table(output, "pairs");
    let ids = strings(&batch, "id_a").into_iter().zip(strings(&batch, "id_b"));
    ids.zip(floats(&batch, "jaccard")).collect()
}

/// The shingles of a text by plain means: lower case, words between white space, `size` in a row.
///
/// Good for texts without punctuation, which is what the corpora here are made of.
pub fn shingles(text: &str, size: usize) -> BTreeSet<String> {
    let text = text.to_lowercase();
    let words: Vec<&str> = text.split_whitespace().collect();
    words.windows(size).map(|window| window.join(" ")).collect()
}

/// Every pair of a corpus whose Jaccard similarity is `threshold` or more, by counting the shingles that each two documents share.
pub fn exact_pairs(documents: &[Document], size: usize, threshold: f64) -> BTreeMap<(String, String), f64> {
    let sets: Vec<_> = documents.iter().map(|(_, text)| shingles(text, size)).collect();
    let mut with: HashMap<&str, Vec<usize>> = HashMap::new();
    let mut shared: HashMap<(usize, usize), usize> = HashMap::new();
    for (at, set) in sets.iter().enumerate() {
        for shingle in set {
            let others = with.entry(shingle).or_default();
            others.iter().for_each(|other| *shared.entry((*other, at)).or_default() += 1);
            others.push(at);
        }
    }
    let pairs = shared.into_iter().filter_map(|((i, j), shared)| {
        let jaccard = shared as f64 / (sets[i].len() + sets[j].len() - shared) as f64;
        let mut ids = [i, j].map(|at| documents[at].0.clone());
        ids.sort();
        (jaccard >= threshold).then(|| (ids.into(), jaccard))
    });
    pairs.collect()
}
