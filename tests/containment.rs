//! `score.measure = "containment"`: pairs in which one document holds a share of the other.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use predicates::prelude::*;
use tempfile::tempdir;

use crate::support::*;

/// Documents of all lengths: some are passages of others, whole or with words replaced, some hold two passages.
fn passages(seed: u64, count: usize) -> Vec<Document> {
    let mut random = Random(seed);
    let mut texts: Vec<Vec<String>> = Vec::new();
    for at in 0..count {
        let word = |random: &mut Random| format!("w{}", random.below(300));
        let mut text: Vec<String> = Vec::new();
        for _ in 0..1 + random.below(2) {
            if at == 0 || random.below(3) == 0 {
                let length = 3 + random.below(80);
                text.extend((0..length).map(|_| word(&mut random)));
            } else {
                let of = texts[random.below(texts.len())].clone();
                let from = random.below(of.len());
                text.extend_from_slice(&of[from..from + 1 + random.below(of.len() - from)]);
            }
        }
        for _ in 0..random.below(3) {
            let at = random.below(text.len());
            text[at] = word(&mut random);
        }
        texts.push(text);
    }
    texts.into_iter().enumerate().map(|(at, text)| (format!("d{at:04}"), text.join(" "))).collect()
}

/// Every pair whose larger set holds a share `threshold` of the smaller, by comparing all with all.
fn contained<T: Ord>(
    sets: &BTreeMap<String, BTreeSet<T>>,
    threshold: f64,
) -> BTreeMap<(String, String), u64> {
    let mut pairs = BTreeMap::new();
    for (id_a, a) in sets {
        for (id_b, b) in
            sets.range::<String, _>((std::ops::Bound::Excluded(id_a), std::ops::Bound::Unbounded))
        {
            let shared = a.intersection(b).count();
            if shared as f64 / a.len().min(b.len()) as f64 >= threshold {
                pairs.insert((id_a.clone(), id_b.clone()), shared as u64);
            }
        }
    }
    pairs
}

/// (id_a, id_b) -> shared, after the rows were compared with each other.
fn found(output: &Path, threshold: f64) -> BTreeMap<(String, String), u64> {
    let rows = table(output, "pairs");
    let (of_a, of_b) = (floats(&rows, "containment_a"), floats(&rows, "containment_b"));
    assert!(of_a.iter().zip(&of_b).all(|(a, b)| a.max(*b) >= threshold));
    let ids = strings(&rows, "id_a").into_iter().zip(strings(&rows, "id_b"));
    ids.zip(numbers(&rows, "shared")).collect()
}

#[test]
fn every_pair_is_found_by_both_methods() {
    let (mut some, mut uneven) = (0, 0);
    for seed in 0..12 {
        let documents = passages(seed, 120);
        let folder = tempdir().unwrap();
        let input = folder.path().join("in.parquet");
        write_parquet(&input, &documents, 50);
        let sets: BTreeMap<_, _> = documents
            .iter()
            .map(|(id, text)| (id.clone(), shingles(text, 3)))
            .filter(|(_, set)| !set.is_empty())
            .collect();
        let threshold = [0.8, 1.0, 0.5, 0.75, 2.0 / 3.0, 0.05][seed as usize % 6];
        let expected = contained(&sets, threshold);
        let score = format!("score.threshold={threshold}");
        let max_expand = format!("output.max_expand={}", [1000, 0, 2000][seed as usize % 3]);
        for method in ["prefix", "all"] {
            let output = folder.path().join(method);
            let method = format!("candidates.method={method}");
            let threads = format!("engine.threads={}", 1 + seed % 3);
            let sets = ["score.measure=containment", &score, &method, &max_expand, &threads];
            run(&job(&input, &output, &sets)).unwrap();
            assert_eq!(found(&output, threshold), expected, "seed {seed}, {method}");
        }
        some += expected.len();
        let sizes = |(a, b): &(String, String)| (sets[a].len(), sets[b].len());
        uneven += expected.keys().map(sizes).filter(|(a, b)| a.max(b) > &(3 * a.min(b))).count();
    }
    assert!(some > 500 && uneven > 200, "{some} pairs, {uneven} of very different sizes");
}

/// Short documents that very many others hold: no bucket is too large, and none is settled by leaders.
#[test]
fn a_document_that_all_others_hold_is_paired_with_each() {
    let mut documents: Vec<Document> = Vec::new();
    for at in 0..60 {
        let own: Vec<String> = (0..30).map(|word| format!("v{at}x{word}")).collect();
        documents
            .push((format!("long{at:02}"), format!("every page begins with this line {}", own.join(" "))));
    }
    documents.push(("short".into(), "page begins with this".into()));
    let folder = tempdir().unwrap();
    let (input, output) = (folder.path().join("in.parquet"), folder.path().join("out"));
    write_parquet(&input, &documents, 50);
    let sets = [
        "score.measure=containment",
        "candidates.method=prefix",
        "output.max_expand=5",
        "score.threshold=0.9",
    ];
    run(&job(&input, &output, &sets)).unwrap();
    let pairs = found(&output, 0.9);
    assert_eq!(pairs.len(), 60);
    assert!(pairs.iter().all(|((_, b), shared)| b == "short" && *shared == 2));
}

/// 19,000 stories at 0.8, against counts of shared shingles by an inverted index over the kept shingles.
#[test]
fn reuters_stories_that_hold_others() {
    let Some(data) = real_data("reuters21578") else { return };
    let folder = tempdir().unwrap();
    let output = folder.path().join("out");
    let job = folder.path().join("job.toml");
    let text = format!(
        "[source]\nformat = \"reuters\"\nurl = {data:?}\n[shingle]\nsize = 3\n[candidates]\nmethod = \"prefix\"\n\
         [score]\nmeasure = \"containment\"\nthreshold = 0.8\n[output]\nurl = {output:?}\nkeep = \"shingles\"\nmax_expand = 0\n"
    );
    std::fs::write(&job, text).unwrap();
    resemblance()
        .arg("run")
        .arg(&job)
        .assert()
        .success()
        .stdout(predicate::str::contains("of containment 0.8"));

    let documents = table(&output, "documents");
    let ids = strings(&documents, "id");
    let lists = documents.column_by_name("shingles").unwrap().as_list::<i32>();
    let sets: Vec<Vec<i64>> =
        lists.iter().map(|set| set.unwrap().as_primitive::<Int64Type>().values().to_vec()).collect();
    let mut holders: HashMap<i64, Vec<usize>> = HashMap::new();
    for (at, set) in sets.iter().enumerate() {
        set.iter().for_each(|shingle| holders.entry(*shingle).or_default().push(at));
    }
    let mut expected = BTreeMap::new();
    let mut shared = vec![0_u64; sets.len()];
    for (at, set) in sets.iter().enumerate() {
        shared.fill(0);
        let others = set.iter().flat_map(|shingle| &holders[shingle]).filter(|other| **other > at);
        others.for_each(|other| shared[*other] += 1);
        for (other, &shared) in shared.iter().enumerate().filter(|(_, shared)| **shared > 0) {
            if shared as f64 / set.len().min(sets[other].len()) as f64 >= 0.8 {
                let (a, b) = (&ids[at], &ids[other]);
                let pair = if a < b { (a.clone(), b.clone()) } else { (b.clone(), a.clone()) };
                expected.insert(pair, shared);
            }
        }
    }
    eprintln!("{} pairs of {} stories", expected.len(), sets.len());
    assert!(expected.len() > 800);
    assert_eq!(found(&output, 0.8), expected);
}

#[test]
fn what_cannot_find_all_is_refused() {
    let folder = tempdir().unwrap();
    let (input, job) = (folder.path().join("in.parquet"), folder.path().join("job.toml"));
    write_parquet(&input, &passages(1, 10), 50);
    std::fs::write(&job, job_text(&input, folder.path().join("out"))).unwrap();
    let refused = |command: &str, sets: &[&str]| {
        let mut asked = resemblance();
        asked.arg(command).arg(&job).args(["--set", "score.measure=containment"]);
        asked.args(sets.iter().flat_map(|set| ["--set", set]));
        let said = asked.assert().code(2);
        String::from_utf8(said.get_output().stderr.clone()).unwrap()
    };
    let prefix = "candidates.method=prefix";
    assert!(refused("run", &[]).contains("`candidates.method` is \"lsh\""));
    assert!(refused("run", &[prefix, "score.by=signature"]).contains("`score.by`"));
    assert!(refused("run", &[prefix, "score.prefilter=true"]).contains("`score.prefilter`"));
    assert!(refused("compare", &[prefix]).contains("`score.measure`"));
    assert!(!folder.path().join("out").exists());
}
