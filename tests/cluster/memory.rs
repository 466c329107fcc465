//! Executors whose tasks have too little memory for a stage as it was planned first.

use super::*;

/// Seconds that the run may take: it has some hundred tasks, most of them in the second plan.
const DEADLINE: u64 = 900;

#[test]
fn a_stage_whose_tasks_run_out_of_memory_is_planned_anew_with_more_partitions() {
    let setup = Setup { executors: vec![ExecutorHost::default()], memory: "64MiB", ..Setup::default() };
    let cluster = Cluster::with(setup);
    let job = job_over(cluster.folder(), &long_ids(), 2);
    let expected = rows_alone(&job, &cluster.folder().join("alone"), &["engine.memory=1GiB"]);
    let output = cluster.folder().join("out");
    let ended = cluster.run(&job, &output, &[]).end(DEADLINE);
    let said = ended.warned(&[]);
    assert_rows(&output, &expected, "more partitions");

    let again = |line: &&str| line.contains("a task ran out of memory, so the stage is planned again");
    let warning = said.lines().find(again).unwrap_or_else(|| panic!("{said}"));
    let parts = ["stage=pairs before=8 partitions=32", "executor 127.0.0.1:", "Resources exhausted"];
    assert!(parts.iter().all(|part| warning.contains(part)), "{warning}");
    // Nothing was lost: no plan was submitted twice.
    assert!(!said.contains("submitted again"), "{said}");
    assert_eq!(ended.json()["recoveries"], said.lines().filter(again).count(), "{said}");
}
