//! Executors that come while a run is under way, and those whose scheduler goes.

use super::*;

/// The partitions that the plan of a stage had first, as the driver's log says.
fn partitions(said: &str, stage: &str) -> Option<usize> {
    let line = said.lines().find(|line| line.contains(&format!("planned stage={stage} partitions=")))?;
    line.split_once("partitions=")?.1.split_whitespace().next()?.parse().ok()
}

#[test]
fn an_executor_that_joins_a_run_is_planned_with_from_the_next_stage_on() {
    let mut cluster = Cluster::with(Setup {
        executors: vec![ExecutorHost::default()],
        // The first one stands still while the second one starts.
        timeout: 120,
        environment: variables(&[("RESEMBLANCE_LOG", "warn,resemblance=debug")]),
        ..Setup::default()
    });
    let job = job_over(cluster.folder(), &corpus(62, 2_000, 40), 4);
    let expected = rows_alone(&job, &cluster.folder().join("alone"), &[]);
    let output = cluster.folder().join("out");
    let mut driver = cluster.run(&job, &output, &[]);
    let first = cluster.stop_in_a_task("sketches", &mut driver, |_| true).unwrap();
    let second = cluster.add_executor(ExecutorHost::default());
    cluster.executor(first).signal("CONT");
    let said = driver.end(QUIET).warned(&[]);
    assert_rows(&output, &expected, "one more executor");

    // Executors of one core, whose tasks have memory enough.
    let planned = |stage| partitions(&said, stage);
    assert_eq!(planned("sketches"), Some(1), "{said}");
    let stages = ["copies", "candidates", "scores", "members", "pairs", "clusters"];
    assert_eq!(stages.map(planned), [Some(2); 6], "{said}");
    let tasks: usize = stages.iter().map(|stage| cluster.tasks(second, stage).len()).sum();
    assert!(tasks > 0, "the second executor had no tasks");
}

#[test]
fn an_executor_without_a_scheduler_says_so_once() {
    let mut cluster = Cluster::with(Setup { executors: vec![ExecutorHost::default()], ..Setup::default() });
    let said = |cluster: &mut Cluster, what: &str| cluster.executor(0).said().matches(what).count();
    let until = |cluster: &mut Cluster, what: &str| {
        wait_for(what, Duration::from_secs(60), || (said(cluster, what) > 0).then_some(()));
    };
    cluster.scheduler().kill();
    until(&mut cluster, "does not answer; waiting for it");
    // Until then, twenty requests a second get no answer.
    cluster.start_scheduler();
    until(&mut cluster, "answers again");
    assert_eq!(said(&mut cluster, "does not answer"), 1, "{}", cluster.executor(0).said());
    assert_eq!(said(&mut cluster, "poll work loop failed"), 0, "{}", cluster.executor(0).said());
}
