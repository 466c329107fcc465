//! The progress of a run on a cluster: what is done of each stage, and the time that is left.

use super::*;

/// The number behind a name in a line of the log.
fn number(line: &str, name: &str) -> Option<f64> {
    line.split_whitespace().find_map(|field| field.strip_prefix(name)?.parse().ok())
}

#[test]
fn a_run_on_a_cluster_reports_progress_and_time_left() {
    let log = "warn,resemblance=info,resemblance::progress=debug";
    let environment = variables(&[("RESEMBLANCE_LOG", log)]);
    let cluster = Cluster::with(Setup { environment, ..Setup::default() });
    let job = job_over(cluster.folder(), &corpus(63, 2_000, 40), 4);
    let output = cluster.folder().join("out");
    let said = cluster.run(&job, &output, &[]).end(QUIET).warned(&[]);
    let stages: Vec<String> = manifest(&output).stages.iter().map(|stage| stage.name.clone()).collect();
    let of = |stage: &str, word: &str| -> Vec<&str> {
        let stage = format!("stage=\"{stage}\"");
        let is_of = |line: &&str| line.contains(&stage) && line.contains(&format!(" {word} "));
        said.lines().filter(is_of).collect()
    };
    // Small stages may run in the driver.
    for stage in ["sketches", "candidates", "scores"] {
        let reached = of(stage, "reached");
        assert!(!reached.is_empty(), "{stage}: {said}");
        for line in reached {
            let (done, all) = (number(line, "done=").unwrap(), number(line, "all=").unwrap());
            assert!(line.contains("unit=\"partitions\"") && done <= all && all >= 2.0, "{line}");
        }
    }
    let done: Vec<&str> = stages.iter().flat_map(|stage| of(stage, "done")).collect();
    assert_eq!(done.len(), stages.len(), "{said}");
    for (at, line) in done.iter().enumerate() {
        let left = number(line, "left_seconds=").unwrap_or_else(|| panic!("{line}"));
        // Two stages may end in another order than they began.
        assert!(left >= 0.0 && number(line, "number=").is_some(), "{at}: {line}");
    }
    let last = said.lines().rfind(|line| line.contains("left_seconds=")).unwrap();
    assert_eq!(number(last, "left_seconds="), Some(0.0), "{last}");
}
