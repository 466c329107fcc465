//! Clusters by either method. Random cases are in `brute_force`.

use crate::support::*;

/// New documents join the clusters of reference documents only where these were made in the same way.
#[test]
fn representatives_need_reference_outputs_that_have_them_too() {
    let path = paths();
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
        let sets = sets.iter().flat_map(|set| ["--set", set]);
        program!["run", path("job.toml")].args(sets).assert().refused(2, &[said]);
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
