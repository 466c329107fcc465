//! The sample in which shingles are counted, and the counts in it.

use std::collections::BTreeMap;

use xxhash_rust::xxh3::xxh3_64;

use super::*;

const SAMPLE: usize = 100_000;
const SHARE: f64 = 0.01;

/// Documents of five words. The second word is one of 90 headers, and the share of some headers is near the limit.
fn documents() -> Vec<Document> {
    let mut random = Random(17);
    let text = |number: usize| {
        // Header `n` is in about n / 4,095 of the documents.
        let at = random.below(90 * 91 / 2);
        let header = (1..=90).find(|n| n * (n + 1) / 2 > at).unwrap();
        format!("a header{header} here w{} own{number}", random.below(3_000))
    };
    (0..SAMPLE + 4_000).map(text).enumerate().map(|(at, text)| (format!("d{at}"), text)).collect()
}

/// The shingles that are in more than the share of these documents, with their counts and shares.
fn counted<'a>(texts: impl Iterator<Item = &'a str>) -> BTreeMap<String, (u64, f64)> {
    let (mut counts, mut all) = (BTreeMap::<String, u64>::new(), 0_u64);
    for text in texts {
        all += 1;
        shingles(text, 3).into_iter().for_each(|shingle| *counts.entry(shingle).or_default() += 1);
    }
    let shares = counts.into_iter().map(|(shingle, count)| (shingle, (count, count as f64 / all as f64)));
    shares.filter(|(_, (count, share))| *count > 10 && *share > SHARE).collect()
}

fn listed(output: &Path) -> BTreeMap<String, (u64, f64)> {
    let written = table(output, "frequent_shingles");
    let counts = numbers(&written, "documents").into_iter().zip(floats(&written, "share"));
    strings(&written, "sample").into_iter().zip(counts).collect()
}

#[test]
fn more_documents_than_a_sample_has_are_counted_by_a_sample() {
    let folder = tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let documents = documents();
    write_parquet(&path("in.parquet"), &documents, 20_000);
    let cheap = ["minhash.permutations=4", "lsh.bands=1", "lsh.rows=4", "score.threshold=0.99"];
    let run_with = |name: &str, sets: &[&str]| {
        run(&job(&path("in.parquet"), &path(name), &[&cheap[..], sets].concat())).unwrap();
    };
    run_with("drawn", &["source.limit=100000"]);
    let drawn: BTreeSet<String> = strings(&table(&path("drawn"), "documents"), "id").into_iter().collect();
    assert_eq!(drawn.len(), SAMPLE);
    let sample = documents.iter().filter(|(id, _)| drawn.contains(id)).map(|(_, text)| text.as_str());
    let counts = counted(sample);
    assert!((40..90).contains(&counts.len()), "{}", counts.len());
    assert_ne!(counts, counted(documents.iter().map(|(_, text)| text.as_str())));
    let key = format!("shingle.max_frequency={SHARE}");
    for (name, threads) in [("one", "engine.threads=1"), ("three", "engine.threads=3")] {
        run_with(name, &[&key, threads]);
        assert_eq!(listed(&path(name)), counts);
    }

    // A share of the source has the sample of a group: the ids decide.
    run_with("limited", &[&key, "source.limit=99.9%"]);
    run_with("share", &["source.limit=99.9%"]);
    let there: BTreeSet<String> = strings(&table(&path("share"), "documents"), "id").into_iter().collect();
    let is_drawn =
        |id: &str| (xxh3_64(id.as_bytes()) as f64) * (there.len() as f64) < 100_000.0 * 2_f64.powi(64);
    let sample = documents.iter().filter(|(id, _)| there.contains(id) && is_drawn(id));
    assert_eq!(listed(&path("limited")), counted(sample.map(|(_, text)| text.as_str())));
}
