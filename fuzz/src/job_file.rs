//! Job files: TOML, and after a NUL each time a `--set`.

use resemblance::error::Kind;
use resemblance::job::{self, Job};

/// A job file is refused with a message, or is a job that a manifest can hold.
pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut parts = text.split('\0').map(str::to_owned);
    let text = parts.next().unwrap_or_default();
    let sets: Vec<String> = parts.collect();
    let job = match job::file::read(&text, "fuzz.toml", &sets).and_then(job::resolve) {
        Ok(job) => job,
        Err(error) => {
            assert_eq!(error.kind(), Kind::Job, "{error}");
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    assert!(job.lsh.bands * job.lsh.rows <= job.minhash.permutations, "{job:?}");
    assert!(!job.source.urls.is_empty() && !job.source.text.is_empty() && job.shingle.size > 0, "{job:?}");
    let written = serde_json::to_string(&job).expect("a job has a form as JSON");
    let read: Job = serde_json::from_str(&written).expect("what was written is read");
    assert_eq!(read, job, "{written}");
}
