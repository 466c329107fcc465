//! `score.measure = "containment"`: pairs in which one document holds a share of the other. Random cases are in `brute_force`.

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
    let path = paths();
    let (input, output) = (path("in.parquet"), path("out"));
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

#[test]
fn methods_that_miss_contained_pairs_are_refused() {
    let path = paths();
    let (input, job) = (path("in.parquet"), path("job.toml"));
    write_parquet(&input, &corpus(1, 10, 20), 50);
    std::fs::write(&job, job_text(&input, path("out"))).unwrap();
    let refused = |command: &str, sets: &[&str]| {
        let mut asked = resemblance();
        asked.arg(command).arg(&job).args(["--set", "score.measure=containment"]);
        asked.args(sets.iter().flat_map(|set| ["--set", set]));
        asked.assert().refused(2, &[])
    };
    let prefix = "candidates.method=prefix";
    assert!(refused("run", &[]).contains("`candidates.method` is \"lsh\""));
    assert!(refused("run", &[prefix, "score.by=signature"]).contains("`score.by`"));
    assert!(refused("run", &[prefix, "score.prefilter=true"]).contains("`score.prefilter`"));
    assert!(refused("compare", &[prefix]).contains("`score.measure`"));
    assert!(!path("out").exists());
}
