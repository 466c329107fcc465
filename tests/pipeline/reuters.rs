//! The main job on Reuters-21578, compared with an exact all-pairs join made elsewhere. Needs `../shared/data`.

use crate::support::*;

/// Runs the job: its output, in a folder that goes with the scene.
fn reuters(scene: &Scene, output: &str, sets: &[&str]) -> Option<PathBuf> {
    let data = real_data("reuters21578")?.join("");
    run(&job_of("jobs/recipes/reuters.toml", &data, &scene.path(output), sets)).unwrap();
    Some(scene.path(output))
}

#[test]
fn finds_the_known_pairs() {
    let scene = Scene::new(&[]);
    let Some(output) = reuters(&scene, "out", &["engine.memory=256MiB"]) else { return };
    let found = pairs(&output);
    assert!(found.values().all(|&j| j >= 0.8));
    assert!(found.len() <= 2_929 && found.len() as f64 >= 0.99 * 2_929.0, "{} of 2,929", found.len());
    assert_eq!(found.values().filter(|&&j| j == 1.0).count(), 2_617);
    let rows = |name: &str| manifest(&output).tables[name].rows;
    assert_eq!(rows("documents"), 19_018);
    assert_eq!(rows("documents") + rows("rejects"), 21_578);
}

#[test]
fn the_prefix_join_gives_the_known_counts_to_the_digit() {
    let scene = Scene::new(&[]);
    for (size, counts) in
        [(3, [22_327, 10_506, 5_490, 3_572, 2_764, 2_622]), (5, [10_123, 5_235, 3_724, 2_929, 2_672, 2_617])]
    {
        let size = format!("shingle.size={size}");
        let sets = ["candidates.method=prefix", "score.threshold=0.5", &size];
        let Some(output) = reuters(&scene, &size, &sets) else { return };
        let found = pairs(&output);
        let at = |threshold: f64| found.values().filter(|&&j| j >= threshold).count();
        assert_eq!([0.5, 0.6, 0.7, 0.8, 0.9, 1.0].map(at), counts, "{size}");
    }
}

/// The cleaning read literally: newlines and what is no letter leave without a space in their place, and references stay as
/// they are written. Counted by plain Python over the same files.
#[test]
fn the_cleaning_read_literally_gives_its_own_known_counts() {
    let scene = Scene::new(&[]);
    let steps = "shingle.normalize=[\"remove-newlines\", \"lowercase\", \"remove-non-letters\", \"collapse-whitespace\"]";
    // Cleaned as in the job, 19,018 stories have 3,572 such pairs.
    let sets = ["candidates.method=prefix", "shingle.size=3", "source.references=keep", steps];
    let Some(output) = reuters(&scene, "out", &sets) else { return };
    assert_eq!((manifest(&output).tables["documents"].rows, pairs(&output).len()), (19_014, 3_401));
}
