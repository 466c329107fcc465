//! Clusters by either method. Random cases are in `brute_force`.

use predicates::prelude::*;
use resemblance::job::Job;
use tempfile::tempdir;

use crate::support::oracle::answer::{clusters, rows};
use crate::support::oracle::found::{Found, read};
use crate::support::oracle::settings::Settings;
use crate::support::*;

/// New documents join the clusters of reference documents only where these were made in the same way.
#[test]
fn representatives_need_reference_outputs_that_have_them_too() {
    let folder = tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let all = corpus(7, 120, 30);
    let (first, second) = all.split_at(all.len() / 2);
    write_parquet(&path("first.parquet"), first, 40);
    write_parquet(&path("second.parquet"), second, 40);
    let method = "clusters.method=representative";
    let made = |name: &str, source: &str, sets: &[&str]| {
        run(&job(&path(source), &path(name), sets)).unwrap();
        format!("against.output=[{:?}]", path(name).display().to_string())
    };
    let components = made("components", "first.parquet", &[]);
    let representatives = made("representatives", "first.parquet", &[method]);
    let refused = |sets: &[&str], said: &str| {
        std::fs::write(path("job.toml"), job_text(path("second.parquet"), path("refused"))).unwrap();
        let mut command = resemblance();
        command.arg("run").arg(path("job.toml")).args(sets.iter().flat_map(|set| ["--set", set]));
        command.assert().code(2).stderr(predicate::str::contains(said));
        assert!(!path("refused").exists());
    };
    refused(&[&components, method], "another clusters.method or clusters.keep");
    refused(&[&representatives, method, "clusters.keep=['id']"], "another clusters.method or clusters.keep");
    made("new-old", "second.parquet", &[&representatives, method, "against.pairs=new-old"]);
    let both = format!("against.output={:?}", [path("representatives"), path("new-old")]);
    refused(&[&both, method, "against.same_id=skip"], "against.pairs = \"new-old\"");
    // Connected documents are found from either.
    made("after-representatives", "second.parquet", &[&representatives]);
    made("after-components", "second.parquet", &[&components]);
    let rows = |name: &str| table(&path(name), "clusters").num_rows();
    assert_eq!(rows("after-representatives"), rows("after-components"));
    assert!(rows("after-representatives") > 10);
}

/// Real texts by both methods, against the brute force.
#[test]
fn reuters_by_both_methods() {
    let Some(data) = real_data("reuters21578") else { return };
    let folder = tempdir().unwrap();
    let mut stay = Vec::new();
    for representative in [false, true] {
        let name = if representative { "representative" } else { "components" };
        let output = folder.path().join(name);
        let sets = [
            format!("source.url={}/", data.display()),
            format!("output.url={}", output.display()),
            "candidates.method=prefix".to_owned(),
            "score.threshold=0.5".to_owned(),
            "output.max_expand=0".to_owned(),
            "output.keep=shingles".to_owned(),
            format!("clusters.method={name}"),
        ];
        run(&Job::load(repository("jobs/recipes/reuters.toml"), &sets).unwrap()).unwrap();
        let (documents, edges, _) = read(&output);
        let settings = Settings { representative, keep: "[]", ..Settings::of_losses(0, &mut Random(1)) };
        let expected = rows(&clusters(&documents, &edges, &settings), &edges, &settings);
        let settings = Settings { compare: None, ..settings };
        let found = Found { output: &output, documents: &documents, run: 0, settings: &settings, what: name };
        found.check_clusters(found.clusters(&table(&output, "clusters")), &expected, true, name);
        stay.push(expected.iter().filter(|(id, row)| row.representative == **id).count());
        let removed = expected.len() - stay.last().unwrap();
        eprintln!(
            "Reuters at 0.5, {name}: {} documents in clusters, {removed} would be removed",
            expected.len()
        );
    }
    assert!(stay[0] < stay[1], "{stay:?}");
}
