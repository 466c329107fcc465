//! Executors whose tasks have too little memory for a stage as it was planned first.

use super::*;

/// Seconds that the run may take: it has some hundred tasks, most of them in the second plan.
const DEADLINE: u64 = 900;

#[test]
fn a_stage_whose_tasks_run_out_of_memory_is_planned_anew_with_more_partitions() {
    let setup = Setup { executors: vec![ExecutorHost::default()], memory: "64MiB", ..Setup::default() };
    let cluster = Cluster::with(setup);
    let job = job_file(cluster.folder(), &parquet_files(cluster.folder(), &long_ids(), 2));
    let expected = rows_alone(&job, &cluster.folder().join("alone"), &["engine.memory=1GiB"]);
    let output = cluster.folder().join("out");
    let ended = cluster.run(&job, &output.display().to_string(), &[]).end(DEADLINE);
    assert_eq!(ended.code, Some(0), "{}", ended.said);
    assert_rows(&output, &expected, "more partitions");

    let again = |line: &&str| line.contains("a task ran out of memory, so the stage is planned again");
    let warning = ended.said.lines().find(again).unwrap_or_else(|| panic!("{}", ended.said));
    let parts = ["stage=pairs before=8 partitions=32", "executor 127.0.0.1:", "Resources exhausted"];
    assert!(parts.iter().all(|part| warning.contains(part)), "{warning}");
    // Nothing was lost: no plan was submitted twice.
    assert!(!ended.said.contains("submitted again"), "{}", ended.said);
    let record: Value = serde_json::from_str(&ended.printed).unwrap();
    let failed = ended.said.lines().filter(again).count();
    assert_eq!(record["recoveries"], failed, "{record:#}");
}
