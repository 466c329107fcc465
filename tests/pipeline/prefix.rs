//! The exact join by rarest shingles, alone and for the documents of hot buckets.

use crate::support::*;

/// Documents that begin with the same words, as pages with one header do; a few of them are copies with changed words.
fn boilerplate(count: usize, shared: usize, own: usize) -> Vec<Document> {
    let mut random = Random(9);
    let mut words = |n: usize| (0..n).map(|_| format!("w{}", random.below(1 << 30))).collect::<Vec<_>>();
    let header = words(shared);
    let mut rests: Vec<Vec<String>> = Vec::new();
    for at in 0..count {
        let mut rest = words(own);
        if at % 50 == 49 {
            rest[1..].clone_from_slice(&rests[at - 1][1..]);
        }
        rests.push(rest);
    }
    let text = |rest: &[String]| [header.as_slice(), rest].concat().join(" ");
    rests.iter().enumerate().map(|(at, rest)| (format!("d{at:05}"), text(rest))).collect()
}

#[test]
fn hot_buckets_lose_no_pair_and_are_reported() {
    let path = paths();
    let documents = boilerplate(1_000, 60, 40);
    write_parquet(&path("in.parquet"), &documents, 64);
    let exact = exact_pairs(&documents, 3, 0.8);
    assert_eq!(exact.len(), 20);
    let at = |name: &str, hot: &str| {
        let sets = ["score.threshold=0.8", &format!("lsh.hot_bucket={hot}")];
        let ran = run(&job(&path("in.parquet"), &path(name), &sets)).unwrap();
        (pairs(&path(name)), ran.manifest.counts)
    };
    let (plain, plain_counts) = at("plain", "1000000");
    let (found, counts) = at("hot", "50");
    assert!(plain.iter().all(|(pair, jaccard)| found.get(pair) == Some(jaccard)), "a pair was lost");
    assert!(found.iter().all(|(pair, jaccard)| exact.get(pair) == Some(jaccard)));
    assert!(plain_counts.hot_documents.is_none());
    assert!(counts.hot_documents.unwrap() > 500, "{counts:?}");
    assert!(
        20 * counts.candidates.unwrap() < plain_counts.candidates.unwrap(),
        "{counts:?} against {plain_counts:?}"
    );
}
