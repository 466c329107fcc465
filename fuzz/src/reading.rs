//! Bytes as a file of a source, read as a run reads it: from an object store, by the session, to rows.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, UInt64Type};
use datafusion::prelude::SessionContext;
use object_store::chunked::ChunkedStore;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use resemblance::engine::session;
use resemblance::error::{Error, Kind, Result};
use resemblance::job::{self, EngineSettings, Format, Source, SourceId};
use resemblance::source;
use tokio::runtime::Runtime;
use url::Url;

/// Two threads, as work moves between threads in a run.
pub static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads")
});

static SESSION: LazyLock<SessionContext> = LazyLock::new(|| {
    let engine = EngineSettings { threads: 2, ..EngineSettings::local(512 << 20) };
    session::session(&engine).expect("a session")
});

/// A document that was read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Row {
    /// Its number in the file.
    pub position: u64,
    /// Its id.
    pub id: Option<String>,
    /// Its text.
    pub text: Option<String>,
    /// The fault of the file.
    pub defect: Option<String>,
}

/// A store of one object, under a name that no other input had: what the session remembers of one must not serve
/// another. The session that knows the store, and the object's URL.
pub fn store_of(
    bytes: &[u8],
    name: &str,
    wrap: impl Fn(Arc<InMemory>) -> Arc<dyn ObjectStore>,
) -> (SessionContext, String) {
    static INPUTS: AtomicU64 = AtomicU64::new(0);
    let number = INPUTS.fetch_add(1, Ordering::Relaxed);
    let bucket = format!("s3://input-{}", number % 64);
    let memory = Arc::new(InMemory::new());
    let path = format!("{number}/{name}");
    RUNTIME
        .block_on(memory.put(&Path::from(path.as_str()), bytes.to_vec().into()))
        .expect("memory takes what it is given");
    let url = Url::parse(&bucket).expect("a URL");
    SESSION.runtime_env().register_object_store(&url, wrap(memory));
    (SESSION.clone(), format!("{bucket}/{path}"))
}

/// How a file is read.
pub struct Reading<'a> {
    /// Its format.
    pub format: Format,
    /// Its name.
    pub name: &'a str,
    /// The key of a document.
    pub id: SourceId,
    /// The columns of the text.
    pub text: Vec<String>,
    /// The marks of a CSV file.
    pub csv: job::Csv,
}

impl<'a> Reading<'a> {
    /// A file with the columns `id` and `text`, and the usual marks where it is CSV.
    pub fn of(format: Format, name: &'a str) -> Self {
        Self {
            format,
            name,
            id: SourceId::Columns(vec!["id".into()]),
            text: vec!["text".into()],
            csv: job::Csv::new(b','),
        }
    }

    /// The rows of the file, by position; its bytes come in chunks of this many.
    ///
    /// # Panics
    /// On an error that no input may cause, and when rows are not counted from 0, each once.
    pub fn rows(&self, bytes: &[u8], chunk: usize) -> Result<Vec<Row>> {
        let (session, url) =
            store_of(bytes, self.name, |memory| Arc::new(ChunkedStore::new(memory, chunk.max(1))));
        let source = Source {
            format: self.format,
            encoding: job::Encoding::Utf8,
            urls: vec![url],
            table_versions: Vec::new(),
            id: self.id.clone(),
            id_separator: ":".into(),
            text: self.text.clone(),
            columns: Vec::new(),
            group: None,
            condition: None,
            limit: None,
            forgotten: None,
            duplicate_ids: job::DuplicateIds::Error,
            on_error: job::OnError::Error,
            max_text: 1 << 27,
            csv: self.csv,
            references: job::References::Decode,
            html: None,
        };
        let rows = RUNTIME.block_on(collect(&session, &source));
        match &rows {
            Ok(rows) => {
                let positions = rows.iter().map(|row| row.position);
                assert!(positions.eq(0..rows.len() as u64), "positions have gaps: {rows:?}");
            }
            Err(error) => assert!(
                matches!(error.kind(), Kind::Job | Kind::Input),
                "{}: {}",
                error.kind().name(),
                causes(error)
            ),
        }
        rows
    }
}

/// The rows, or the kind of the error: what must not depend on how the bytes come in.
pub fn outcome(rows: &Result<Vec<Row>>) -> std::result::Result<&[Row], Kind> {
    rows.as_deref().map_err(Error::kind)
}

/// An error and its causes.
pub fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

async fn collect(session: &SessionContext, source: &Source) -> Result<Vec<Row>> {
    let documents = source::open(session, source).await?;
    let mut rows = Vec::new();
    for batch in documents.frame.collect().await? {
        let column = |name: &str| batch.column_by_name(name).expect("the five columns");
        let positions: &[u64] = column("position").as_primitive::<UInt64Type>().values();
        let (ids, texts) = (strings(column("id")), strings(column("text")));
        let defects = strings(column("defect"));
        let values = ids.into_iter().zip(texts).zip(defects);
        rows.extend(positions.iter().zip(values).map(|(&position, ((id, text), defect))| Row {
            position,
            id,
            text,
            defect,
        }));
    }
    rows.sort();
    Ok(rows)
}

fn strings(column: &ArrayRef) -> Vec<Option<String>> {
    let column = cast(column, &DataType::Utf8).expect("a column of text");
    column.as_string::<i32>().iter().map(|value| value.map(str::to_owned)).collect()
}
