//! The commands of README and of the pages in `docs/`, run by a shell in the order in which they stand there.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use tempfile::tempdir;

use crate::support::*;

/// Pages whose commands run on the data of [`prepare`]. `daily.md` has a test of its own, in `daily.rs`; the other pages need a
/// bucket, a cluster or a scheduler, or name files of many kinds.
const PAGES: [&str; 3] = ["README.md", "docs/choosing.md", "docs/apply.md"];

/// Sixty reviews: each third one has the body of the one before, with another last word.
fn reviews(path: &Path, columns: &[&str]) {
    let numbers = 0..60i64;
    let body = |n: i64| {
        let of = if n % 3 == 2 { n - 1 } else { n };
        let words: Vec<String> = (0..60).map(|word| format!("r{of}w{word}")).collect();
        format!("{} {n}", words.join(" "))
    };
    let title = |n: i64| format!("Review of product {}", n / 3);
    let all: [(&str, ArrayRef); 3] = [
        ("review_id", Arc::new(Int64Array::from_iter_values(numbers.clone()))),
        ("title", Arc::new(StringArray::from_iter_values(numbers.clone().map(title)))),
        ("body", Arc::new(StringArray::from_iter_values(numbers.map(body)))),
    ];
    let columns = all.into_iter().filter(|(name, _)| columns.contains(name));
    write_batch(path, &RecordBatch::try_from_iter(columns).unwrap(), 20);
}

/// The blocks of shell commands of a page.
fn blocks(text: &str) -> Vec<String> {
    let blocks = text.split("\n```sh\n").skip(1).map(|rest| rest.split_once("\n```").unwrap().0);
    blocks.map(str::to_owned).collect()
}

/// The job of the README, which its commands call `my.toml`.
fn readme_job() -> String {
    let readme = std::fs::read_to_string(repository("README.md")).unwrap();
    let (_, rest) = readme.split_once("\n```toml\n").unwrap();
    rest.split_once("\n```").unwrap().0.to_owned()
}

/// Puts all that the commands name into a folder.
fn prepare(folder: &Path, page: &str) {
    let path = |name: &str| folder.join(name);
    let copied = Command::new("cp").arg("-r").arg(repository("jobs")).arg(path("jobs")).status().unwrap();
    assert!(copied.success());
    for day in ["data/day=2026-11-19", "data/day=2026-11-20", "data/reviews"] {
        std::fs::create_dir_all(path(day)).unwrap();
    }
    reviews(&path("reviews.parquet"), &["review_id", "body"]);
    reviews(&path("data/reviews/part-0.parquet"), &["review_id", "title", "body"]);
    reviews(&path("data/day=2026-11-19/part-0.parquet"), &["review_id", "title", "body"]);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("review_id", Arc::new(Int64Array::from(vec![1000]))),
        ("title", Arc::new(StringArray::from(vec!["Another product"]))),
        ("body", Arc::new(StringArray::from(vec!["one two three four five six seven eight nine ten"]))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    write_batch(&path("data/day=2026-11-20/part-0.parquet"), &batch, 20);
    // The table `spared`, which this page queries, is written if documents must be contained.
    let contained = if page == "docs/apply.md" { "\n[clusters]\ncontained = 0.98\n" } else { "" };
    std::fs::write(path("my.toml"), readme_job() + contained).unwrap();
}

/// What has been run before the daily commands of the README.
const YESTERDAY: &str =
    "resemblance run my.toml --set source.url=data/day=$yesterday/ --set output.url=out/until=$yesterday/";

fn run_page(page: &str) {
    let folder = tempdir().unwrap();
    prepare(folder.path(), page);
    let program = assert_cmd::cargo::cargo_bin("resemblance");
    let paths = std::env::var_os("PATH").unwrap();
    let paths = std::iter::once(program.parent().unwrap().to_owned()).chain(std::env::split_paths(&paths));
    let paths = std::env::join_paths(paths).unwrap();
    let mut ran = 0;
    for block in blocks(&std::fs::read_to_string(repository(page)).unwrap()) {
        // The program is compiled, and its tests are this test.
        let mut block = block.replace("cargo run --release -- ", "resemblance ");
        if block.lines().all(|line| line.starts_with("cargo ")) {
            continue;
        }
        if block.contains("$yesterday") {
            block = format!("{YESTERDAY}\n{block}");
        }
        let mut shell = Command::new("sh");
        shell.args(["-e", "-c", &block]).current_dir(folder.path()).env("PATH", &paths);
        shell.envs([("today", "2026-11-20"), ("yesterday", "2026-11-19")]);
        let ended = shell.stdin(std::process::Stdio::null()).output().unwrap();
        assert!(ended.status.success(), "{page}:\n{block}\n{}", String::from_utf8_lossy(&ended.stderr));
        ran += block.matches("resemblance ").count();
    }
    assert!(ran >= 3, "{page} has {ran} commands");
}

#[test]
fn the_commands_of_each_page_run_in_their_order() {
    for page in PAGES {
        run_page(page);
    }
}
