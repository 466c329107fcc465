//! Components that the driver cannot hold: found by the executors, in rounds.

use resemblance::engine;

use super::*;

#[test]
fn components_beyond_the_drivers_memory_equal_those_of_one_process() {
    let cluster = Cluster::start();
    let source = parquet_files(cluster.folder(), &corpus(57, 250, 40), 3);
    let alone = cluster.folder().join("alone");
    run(&job(&source, &alone, &[])).unwrap();
    let output = cluster.folder().join("rounds");
    let job = job(&source, &output, &["engine.mode=cluster", &format!("engine.scheduler={}", cluster.url())]);
    block_on(async {
        let control = RunControl::detached();
        let engine = engine::open(&job.engine, &control).await.unwrap();
        let (engine, pool) = Refusing::around(engine, 0);
        pipeline::run(&job, &engine, &control, OnExisting::Fail).await.unwrap();
        assert!(pool.granted_and_refused().1 > 0);
    });
    let rounds = manifest(&output).stages.iter().filter(|stage| stage.name.contains("_star_")).count();
    assert!(rounds >= 4, "{rounds} stages of rounds");
    assert_rows(&output, &rows(&alone), "components in rounds");
}
