//! `score.measure = "containment"`: pairs in which one document holds a share of the other. Random cases are in `brute_force`.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use predicates::prelude::*;
use tempfile::tempdir;

use crate::support::*;

/// (id_a, id_b) -> shared, after the rows were compared with each other.
fn found(output: &Path, threshold: f64) -> BTreeMap<(String, String), u64> {
    let rows = table(output, "pairs");
    let (of_a, of_b) = (floats(&rows, "containment_a"), floats(&rows, "containment_b"));
    assert!(of_a.iter().zip(&of_b).all(|(a, b)| a.max(*b) >= threshold));
    let ids = strings(&rows, "id_a").into_iter().zip(strings(&rows, "id_b"));
    ids.zip(numbers(&rows, "shared")).collect()
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
    write_parquet(&input, &corpus(1, 10, 20), 50);
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
