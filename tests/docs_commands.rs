//! The commands of README and of the pages in `docs/`, run by a shell in the order in which they stand there. A block `text` directly
//! after a block `sh` is its standard output.

use std::sync::LazyLock;

use regex::Regex;

use crate::support::*;

/// Pages whose commands run on the data of [`prepare`]. `daily.md` has a test of its own, in `daily.rs`; the other pages need a
/// bucket, a cluster or a scheduler. Only the outputs in README belong to the data of the test.
const PAGES: [&str; 4] = ["README.md", "docs/choosing.md", "docs/apply.md", "docs/commands.md"];

/// Pages that begin with an empty folder. Some use the folder `jobs/` of the repository.
const WALKS: [&str; 6] = [
    "docs/clean-a-table.md",
    "docs/every-day.md",
    "docs/training-corpus.md",
    "docs/copied-passages.md",
    "docs/keep.md",
    "docs/decisions.md",
];

/// The largest number of lines of a page for one kind of reader.
const MAX_LINES: usize = 80;

/// The body of a review: that of each third one is that of the one before, with another last word.
fn body(n: i64) -> String {
    let of = if n % 3 == 2 { n - 1 } else { n };
    let words: Vec<String> = (0..60).map(|word| format!("r{of}w{word}")).collect();
    format!("{} {n}", words.join(" "))
}

fn reviews(path: &Path, numbers: Range<i64>, columns: &[&str]) {
    let title = |n: i64| format!("Review of product {}", n / 3);
    let all: [(&str, ArrayRef); 4] = [
        ("review_id", Arc::new(Int64Array::from_iter_values(numbers.clone()))),
        ("lang", Arc::new(StringArray::from_iter_values(numbers.clone().map(|_| "en")))),
        ("title", Arc::new(StringArray::from_iter_values(numbers.clone().map(title)))),
        ("body", Arc::new(StringArray::from_iter_values(numbers.map(body)))),
    ];
    let columns = all.into_iter().filter(|(name, _)| columns.contains(name));
    write_batch(path, &RecordBatch::try_from_iter(columns).unwrap(), 20);
}

/// The blocks of shell commands of a page, each with its printed output if the page shows it.
fn blocks(page: &str) -> Vec<(String, Option<String>)> {
    let text = std::fs::read_to_string(repository(page)).unwrap();
    let blocks = text.split("\n```sh\n").skip(1).map(|rest| rest.split_once("\n```").unwrap());
    let printed = |rest: &str| Some(rest.strip_prefix("\n\n```text\n")?.split_once("\n```")?.0.to_owned());
    blocks.map(|(commands, rest)| (commands.to_owned(), printed(rest))).collect()
}

/// A printed line without the parts that differ between two runs: times, sizes of files, and the path of the working folder.
fn without_times(line: &str, folder: &str) -> String {
    static TIMES: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r" *[0-9][0-9.,]* (s|ms|seconds|[kMG]i?B)($|[^a-z])").unwrap());
    let line = line.replace(folder, "/home/me").trim_end().to_owned();
    TIMES.replace_all(&line, " 0 $1$2").into_owned()
}

/// Whether lines are equal to the lines of a page, in which a line `...` stands for any lines.
fn are_equal(shown: &[String], printed: &[String]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((dots, rest)) if dots == "..." => {
            (0..=printed.len()).any(|skipped| are_equal(rest, &printed[skipped..]))
        }
        Some((line, rest)) => printed.first() == Some(line) && are_equal(rest, &printed[1..]),
    }
}

#[test]
fn dots_stand_for_lines_and_nothing_else() {
    let lines = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    for (shown, printed, equal) in [
        ("a b", "a b", true),
        ("a ... c", "a b b c", true),
        ("a ...", "a", true),
        ("a b", "a", false),
        ("a", "a b", false),
        ("a ... c", "a b", false),
    ] {
        assert_eq!(are_equal(&lines(shown), &lines(printed)), equal, "{shown}");
    }
    assert_eq!(without_times("2 pairs in 0.31 s, /tmp/x/out", "/tmp/x"), "2 pairs in 0 s, /home/me/out");
    assert_ne!(without_times("2 pairs", "/tmp/x"), without_times("3 pairs", "/tmp/x"));
}

/// The job of the README, which its commands call `my.toml`.
fn readme_job() -> String {
    let readme = std::fs::read_to_string(repository("README.md")).unwrap();
    let (_, rest) = readme.split_once("\n```toml\n").unwrap();
    rest.split_once("\n```").unwrap().0.to_owned()
}

fn texts(folder: &Path) {
    let rows = |name: &str, numbers: std::ops::Range<i64>| {
        let rows = numbers.map(|n| format!("{},{}\n", n + 1, body(n)));
        let text = std::iter::once("number,body\n".to_owned()).chain(rows).collect::<String>();
        std::fs::write(folder.join(name), text).unwrap();
    };
    for name in ["exports", "essays", "letters"] {
        std::fs::create_dir(folder.join(name)).unwrap();
    }
    rows("export.csv", 0..60);
    rows("exports/a.csv", 0..30);
    rows("exports/b.csv", 30..60);
    for n in 1..4 {
        std::fs::write(folder.join(format!("essays/{n}.txt")), body(n)).unwrap();
        // A letter of Latin-1, which is not valid UTF-8.
        std::fs::write(folder.join(format!("letters/{n}.txt")), [b"\xe9 ", body(n).as_bytes()].concat())
            .unwrap();
    }
    std::fs::write(folder.join("one.txt"), body(1)).unwrap();
    std::fs::write(folder.join("request-17.txt"), "5\n").unwrap();
    std::fs::write(folder.join("two.txt"), body(2)).unwrap();
    std::fs::write(folder.join("titles.txt"), (1..4).map(|n| body(n) + "\n").collect::<String>()).unwrap();
}

fn copy_jobs(folder: &Path) {
    assert!(Command::new("cp").arg("-r").arg(repository("jobs")).arg(folder).status().unwrap().success());
}

fn prepare(folder: &Path, page: &str) {
    let path = |name: &str| folder.join(name);
    copy_jobs(folder);
    for day in ["data/day=2026-11-19", "data/day=2026-11-20", "data/day=2026-11-21", "data/reviews"] {
        std::fs::create_dir_all(path(day)).unwrap();
    }
    reviews(&path("reviews.parquet"), 0..60, &["review_id", "body", "lang"]);
    for (folder, numbers) in [
        ("reviews", 0..60),
        ("day=2026-11-19", 0..60),
        ("day=2026-11-20", 1000..1001),
        ("day=2026-11-21", 2000..2001),
    ] {
        reviews(&path(&format!("data/{folder}/part-0.parquet")), numbers, &["review_id", "title", "body"]);
    }
    texts(folder);
    // The table `spared`, which the page of apply queries, is written if documents must be contained.
    let contained = if page == "docs/apply.md" { "\n[clusters]\ncontained = 0.98\n" } else { "" };
    // The page of the commands writes the job itself.
    let name = if page == "docs/commands.md" { "daily.toml" } else { "my.toml" };
    std::fs::write(path(name), readme_job() + contained).unwrap();
}

const BEFORE: [(&str, &str); 2] = [
    ("resemblance neighbors out/quickstart", "resemblance run jobs/quickstart.toml\n"),
    (
        "resemblance merge out/monday",
        "resemblance run daily.toml --set source.url=data/day=2026-11-19/ --set output.url=out/monday\n\
         resemblance run daily.toml --set source.url=data/day=2026-11-20/ --set output.url=out/tuesday \
         --set against.output=out/monday\n\
         resemblance run daily.toml --set source.url=data/day=2026-11-21/ --set output.url=out/wednesday \
         --set 'against.output=[\"out/monday\", \"out/tuesday\"]'\n",
    ),
];

/// Sizes in the pages, and the smaller sizes that the test uses instead.
const SIZES: [(&str, &str); 2] = [("--documents 1000000", "--documents 1000"), ("--repeat 3", "--repeat 1")];

/// Runs the commands of a page in a folder, and returns how many outputs were compared.
fn run_page(page: &str, folder: &Path) -> usize {
    let (mut ran, mut compared) = (0, 0);
    for (block, shown) in blocks(page) {
        // The program is compiled, and its tests are this test.
        let mut block = block.replace("cargo run --release -- ", "resemblance ");
        if block.lines().all(|line| line.starts_with("cargo ")) {
            continue;
        }
        for (large, small) in SIZES {
            block = block.replace(large, small);
        }
        let before: String =
            BEFORE.iter().filter(|(text, _)| block.contains(text)).map(|(_, commands)| *commands).collect();
        block.insert_str(0, &before);
        let ended = shell(&block, folder).stdin(Stdio::null()).output().unwrap();
        assert!(ended.status.success(), "{page}:\n{block}\n{}", stderr(&ended));
        ran += block.matches("resemblance ").count();
        if let Some(shown) = shown.filter(|_| page == "README.md" || WALKS.contains(&page)) {
            let folder = folder.canonicalize().unwrap();
            let lines = |text: &str| {
                text.lines().map(|line| without_times(line, &folder.to_string_lossy())).collect::<Vec<_>>()
            };
            let printed = String::from_utf8(ended.stdout).unwrap();
            assert!(are_equal(&lines(&shown), &lines(&printed)), "{page}:\n{block}\nprints\n{printed}");
            compared += 1;
        }
    }
    assert!(ran >= 3, "{page} has {ran} commands");
    compared
}

#[test]
fn the_commands_of_each_page_run_in_their_order() {
    for page in PAGES {
        let folder = tempdir().unwrap();
        prepare(folder.path(), page);
        let compared = run_page(page, folder.path());
        assert!(page != "README.md" || compared >= 2, "{page}: {compared}");
    }
}

#[test]
fn the_commands_of_each_walk_print_what_the_page_shows() {
    for page in WALKS {
        let folder = tempdir().unwrap();
        copy_jobs(folder.path());
        let compared = run_page(page, folder.path());
        assert!(compared >= 1, "{page}: {compared}");
        let lines = std::fs::read_to_string(repository(page)).unwrap().lines().count();
        assert!(lines <= MAX_LINES || page == "docs/keep.md", "{page} has {lines} lines");
    }
}
