//! The joins of sketches and candidates: the rows are the same with each, and a run says which one it took.

use crate::support::sketch_joins::{Machine, run_on, stage_of};
use crate::support::*;

/// All pairs of 0.5 or more are candidates, and few others.
const FEW: [&str; 4] = ["minhash.permutations=128", "lsh.bands=64", "lsh.rows=2", "engine.threads=2"];

/// The same, and many others that share a bucket by chance.
const MANY: [&str; 5] =
    ["minhash.permutations=100", "lsh.bands=100", "lsh.rows=1", "engine.threads=2", "lsh.table_size=20000"];

/// The machine for ten times as many documents.
const MANY_IN_ALL: [&str; 4] =
    ["minhash.permutations=100", "lsh.bands=100", "lsh.rows=1", "lsh.table_size=300000"];

const ROOMY: Machine = Machine { task_bytes: usize::MAX, one_process: true, partitions: 5 };
const NARROW: Machine = Machine { task_bytes: 2_000, ..ROOMY };
const SPREAD: Machine = Machine { one_process: false, ..NARROW };
/// With so many partitions, reading all sketches in each costs more than sending some of them.
const DIVIDED: Machine = Machine { partitions: 40, ..NARROW };

fn documents_of(words: usize) -> (Scene, Vec<Document>) {
    let (scene, documents) = (Scene::new(&[]), corpus(71, 300, words));
    scene.write("in.parquet", &documents);
    (scene, documents)
}

/// Runs a job on a machine: its output.
fn output_on(machine: Machine, scene: &Scene, name: &str, sets: &[&str]) -> PathBuf {
    run_on(&scene.job("in.parquet", name, sets), machine).unwrap();
    scene.path(name)
}

#[test]
fn every_join_finds_all_pairs() {
    let (scene, documents) = documents_of(40);
    let exact = exact_pairs(&documents, 3, 0.5);
    assert!(exact.len() > 100, "{} pairs", exact.len());
    let mut first = None;
    for (name, machine, sets, expected) in [
        ("held", ROOMY, &MANY[..], "held"),
        ("segments", NARROW, &MANY, "segments"),
        ("blocks", SPREAD, &MANY, "blocks"),
        ("held-by-few", ROOMY, &FEW, "held"),
        ("blocks-of-few", DIVIDED, &FEW, "blocks"),
        ("blocks-of-few-spread", Machine { one_process: false, ..DIVIDED }, &FEW, "blocks"),
    ] {
        let output = output_on(machine, &scene, name, sets);
        assert_eq!(stage_of(&output, "scores").join.as_deref(), Some(expected), "{name}");
        let candidates = stage_of(&output, "candidates").rows;
        assert_eq!(candidates > 20 * 300, sets == MANY, "{name}: {candidates} candidates");
        assert_eq!(pairs(&output), exact, "{name}");
        if sets == MANY {
            let first = first.get_or_insert_with(|| rows(&output));
            assert_rows(&output, first, name);
        }
    }
}

/// If signatures decide, they are compared first, and the shingles of dropped candidates are not read.
#[test]
fn signatures_drop_candidates_before_shingles_travel() {
    let (scene, _) = documents_of(300);
    for (how, by) in [("prefilter", "score.prefilter=true"), ("signature", "score.by=signature")] {
        let sets = [&MANY[..], &[by]].concat();
        // Where no signatures are stored, all candidates go to the scores.
        let without = [&sets[..], &["output.keep=none"]].concat();
        let at_once = output_on(ROOMY, &scene, &format!("{how}-at-once"), &without);
        assert!(manifest(&at_once).stages.iter().all(|stage| stage.name != "agreeing"), "{how}");
        let expected = pairs(&at_once);
        assert!(expected.len() > 100, "{how}: {} pairs", expected.len());
        for (name, machine) in [("held", ROOMY), ("segments", NARROW), ("blocks", SPREAD)] {
            let output = output_on(machine, &scene, &format!("{how}-{name}"), &sets);
            assert_eq!(stage_of(&output, "agreeing").join.as_deref(), Some(name), "{how}");
            let (before, after) = (stage_of(&output, "candidates").rows, stage_of(&output, "agreeing").rows);
            assert!(before > 20 * 300, "{how}, {name}: {before} and {after} candidates");
            assert!(after < before / 10, "{how}, {name}: {before} and {after} candidates");
            assert_eq!(pairs(&output), expected, "{how}, {name}");
        }
        // Most of a few candidates may be pairs.
        let rare = ["minhash.permutations=100", "lsh.bands=2", "lsh.rows=50", "engine.threads=2", by];
        let few = output_on(ROOMY, &scene, &format!("{how}-few"), &rare);
        assert!(stage_of(&few, "candidates").rows < 300, "{how}");
        assert!(manifest(&few).stages.iter().all(|stage| stage.name != "agreeing"), "{how}");
    }
}

/// A random corpus by a random method in little memory: the rows are those of a count, and the program holds no more than half
/// as much again as its budget, or what it needs by itself. The joins that stages took.
fn trial(seed: u64) -> Vec<String> {
    const LEAST: u64 = 320 << 20;
    let mut random = Random(seed);
    let (count, words) = (500 + random.below(3_500), 30 + random.below(400));
    let documents = corpus(seed, count, words);
    let scene = Scene::new(&[]).with_job("in.parquet", &documents);
    let output = scene.path("out");
    let memory = [24, 32, 48, 64, 128, 512][random.below(6)];
    let threads = 1 + random.below(6);
    let method: &[&str] = match random.below(5) {
        0 => &FEW[..3],
        1 | 2 => &MANY_IN_ALL,
        3 => &["candidates.method=prefix"],
        _ => &["candidates.method=all"],
    };
    let mut sets = vec![format!("engine.memory={memory}MiB"), format!("engine.threads={threads}")];
    sets.extend(method.iter().map(|set| (*set).to_owned()));
    // Copies and dense groups are written whole, so that a count finds the same.
    sets.push("output.max_expand=0".to_owned());
    sets.push(format!("output.keep={}", ["none", "signatures", "shingles"][random.below(3)]));
    let what = format!("seed {seed}: {count} documents of {words} words, {sets:?}");
    let mut command = Command::new(resemblance().get_program());
    command.arg("run").arg(scene.path("job.toml")).args(sets.iter().flat_map(|set| ["--set", set]));
    let peak = Process::start("run", &mut command, &scene.path("")).peak_until_success();
    let (found, expected) = (pairs(&output), exact_pairs(&documents, 3, 0.5));
    let different = expected.iter().filter(|(pair, jaccard)| found.get(*pair) != Some(*jaccard)).count();
    assert_eq!((found.len(), different), (expected.len(), 0), "{what}");
    let most = (memory << 20) * 3 / 2;
    assert!(peak <= most.max(LEAST), "{} MiB under {memory} MiB: {what}", peak >> 20);
    manifest(&output).stages.into_iter().filter_map(|stage| stage.join).collect()
}

#[test]
fn random_corpora_in_little_memory() {
    for seed in 1..=2 {
        trial(seed);
    }
}

/// By hand: `RESEMBLANCE_CASES=100 cargo test --locked --test tests -- --ignored --nocapture sketch_joins::soak`
#[test]
#[ignore = "takes minutes"]
fn soak_random_corpora_in_little_memory() {
    let mut taken = BTreeMap::new();
    for seed in seeds(100).map(|seed| seed + 1_000) {
        for join in trial(seed) {
            *taken.entry(join).or_insert(0) += 1;
        }
    }
    eprintln!("joins: {taken:?}");
    // Few cases may all be such that their sketches are held.
    assert!(seeds(100).count() < 100 || taken.contains_key("segments"), "{taken:?}");
}
