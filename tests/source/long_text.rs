//! Text files so long that they are cut into shingles while they are read.

use super::encoding::utf_16;
use crate::support::*;

/// A text of about `bytes` bytes in lines of some words, with so many different ones: `vocabulary`.
fn long_text(seed: u64, bytes: usize, vocabulary: usize) -> String {
    let mut random = Random(seed);
    let lines: Vec<String> = (0..vocabulary / 10)
        .map(|_| (0..10).map(|_| format!("w{} ", random.below(vocabulary))).collect::<String>())
        .collect();
    let mut text = String::with_capacity(bytes + 100);
    while text.len() < bytes {
        text.push_str(&lines[random.below(lines.len())]);
        text.push('\n');
    }
    text
}

fn job_of(folder: &Path, shingle: &str) -> PathBuf {
    let job = folder.join("job.toml");
    let text = format!(
        "[source]\nformat = \"text\"\nurl = {:?}\n[shingle]\n{shingle}\nshort = \"reject\"\n[score]\nthreshold = 0.3\n[output]\nurl = {:?}\n\
         keep = \"shingles\"\n",
        folder.join("in/"),
        folder.join("out"),
    );
    std::fs::write(&job, text).unwrap();
    job
}

const MEGABYTE: usize = 1 << 20;

#[test]
fn long_files_have_the_pairs_that_sets_of_words_have() {
    let folder = tempdir().unwrap();
    let long = long_text(1, 9 * MEGABYTE, 4_000);
    let near = long.clone() + &long_text(2, MEGABYTE, 3_000);
    // Too short to be cut while it is read.
    let short = long[..5 * MEGABYTE].to_owned();
    let texts = [("long.txt", long), ("near.txt", near), ("short.txt", short)];
    let documents = texts.map(|(name, text)| (name.to_owned(), text));
    for (name, text) in &documents {
        write_file(&folder, &format!("in/{name}"), text);
    }
    let counts = documents.each_ref().map(|(_, text)| shingles(text, 3).len() as u64);
    let expected = exact_pairs(&documents, 3, 0.3);
    assert!(expected.len() >= 2, "{expected:?}");
    let job = job_of(folder.path(), "size = 3");
    for candidates in ["lsh", "all"] {
        let sets = [format!("candidates.method={candidates}"), "lsh.bands=64".into(), "lsh.rows=2".into()];
        let sets = sets.iter().flat_map(|set| ["--set", set]);
        resemblance().arg("run").arg(&job).arg("--overwrite").args(sets).assert().success();
        let rows = table(&folder.path().join("out"), "documents");
        assert_eq!(strings(&rows, "id"), ["long.txt", "near.txt", "short.txt"]);
        assert_eq!(numbers(&rows, "shingle_count"), counts);
        assert_eq!(pairs(&folder.path().join("out")), expected);
    }
}

type Bytes<'a> = &'a dyn Fn(usize) -> Vec<u8>;

#[test]
fn long_files_that_cannot_be_compared_have_the_reasons_of_short_ones() {
    let folder = tempdir().unwrap();
    let kinds: [(&str, Bytes); 5] = [
        ("blank", &|bytes| " \t\r\n".repeat(bytes / 4).into_bytes()),
        ("digits", &|bytes| "17 4 ".repeat(bytes / 5).into_bytes()),
        ("fine", &|bytes| long_text(3, bytes, 500).into_bytes()),
        ("invalid", &|bytes| [long_text(4, bytes, 500).as_bytes(), b"caf\xE9 "].concat()),
        ("word", &|bytes| "longword".repeat(bytes / 8).into_bytes()),
    ];
    for (name, bytes) in kinds {
        write_file(&folder, &format!("in/{name}-long"), bytes(9 * MEGABYTE));
        write_file(&folder, &format!("in/{name}-short"), bytes(1_000));
    }
    let job = job_of(folder.path(), "size = 2\nnormalize = [\"digits-out\"]");
    resemblance().arg("run").arg(&job).assert().success();
    let output = folder.path().join("out");
    assert_eq!(strings(&table(&output, "documents"), "id"), ["fine-long", "fine-short"]);
    let rejects = table(&output, "rejects");
    let found: BTreeSet<_> = strings(&rejects, "id").into_iter().zip(strings(&rejects, "reason")).collect();
    let expected = [
        ("blank", "empty_text"),
        ("digits", "empty_text"),
        ("invalid", "invalid_utf8"),
        ("word", "too_short"),
    ];
    let both = |(name, reason): (&str, &str)| {
        ["long", "short"].map(|length| (format!("{name}-{length}"), reason.to_owned()))
    };
    assert_eq!(found, expected.into_iter().flat_map(both).collect());
}

#[test]
fn other_encodings_are_read_as_they_come_too() {
    let folder = tempdir().unwrap();
    let text = long_text(5, 5 * MEGABYTE, 500).replace("w1", "ä");
    write_file(&folder, "in/long", utf_16(&text));
    let start = text.char_indices().nth(1_000_000).unwrap().0;
    write_file(&folder, "in/short", utf_16(&text[..start]));
    let job = job_of(folder.path(), "size = 1");
    resemblance().arg("run").arg(&job).args(["--set", "source.encoding=utf-16le"]).assert().success();
    let documents = table(&folder.path().join("out"), "documents");
    let counts = [&text[..], &text[..start]].map(|text| shingles(text, 1).len() as u64);
    assert_eq!(numbers(&documents, "shingle_count"), counts);
}

/// A file of 60 MB whose set is small: held whole, it would show.
#[cfg(target_os = "linux")]
#[test]
fn a_long_file_is_never_in_memory_as_a_whole() {
    let peak = |bytes: usize| {
        let folder = tempdir().unwrap();
        write_file(&folder, "in/long", long_text(6, bytes, 4_000));
        write_file(&folder, "in/near", long_text(6, 9 * MEGABYTE, 4_000));
        let job = job_of(folder.path(), "size = 3");
        let mut command = Command::new(resemblance().get_program());
        // The texts are read a second time for the score.
        command.arg("run").arg(job).args(["--set", "output.keep=signatures", "--set", "engine.threads=1"]);
        command.env("RESEMBLANCE_LOG", "off");
        let most = Process::start("run", &mut command, folder.path()).peak_until_success();
        let found = pairs(&folder.path().join("out"));
        assert_eq!(found.len(), 1, "{found:?}");
        most
    };
    let (small, large) = (peak(10 * MEGABYTE), peak(60 * MEGABYTE));
    assert!(large < small + 25 * MEGABYTE as u64, "{small} and {large} bytes");
}
