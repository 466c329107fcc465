//! A real cluster of processes gives the rows of one process, also when parts of it die.
//!
//! Each test has a cluster of its own, and few run at the same time, for they share the cores.

mod apply;
mod components;
mod executors;
pub(crate) mod faults;
mod memory;
mod network;
mod progress;
pub(crate) mod rows;
mod setups;
mod storage;
mod strangers;
mod tls;
mod token;

use crate::support::*;

/// Seconds that a run without faults may take.
const QUIET: u64 = 240;

/// A job over Parquet with columns `id` and `text`: 3-word shingles, a threshold of 0.5. Each run sets the rest.
fn job_file(folder: &Path, source: &Path) -> PathBuf {
    let job = folder.join("job.toml");
    let text = job_text(source, SET_BY_THE_TEST);
    std::fs::write(&job, text).unwrap();
    job
}

/// Documents in as many Parquet files, in a folder of their own.
fn parquet_files(folder: &Path, documents: &[Document], files: usize) -> PathBuf {
    let source = folder.join("in");
    std::fs::create_dir_all(&source).unwrap();
    for (number, part) in documents.chunks(documents.len().div_ceil(files)).enumerate() {
        write_parquet(&source.join(format!("{number}.parquet")), part, 500);
    }
    source
}

fn job_over(folder: &Path, documents: &[Document], files: usize) -> PathBuf {
    job_file(folder, &parquet_files(folder, documents, files))
}
