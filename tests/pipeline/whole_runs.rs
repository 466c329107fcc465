//! The main job in this process, compared with plain loops over the same documents.

use crate::support::*;

#[test]
fn lsh_finds_the_expected_share_of_pairs_with_exact_scores() {
    let (scene, documents) = (Scene::new(&[]), corpus(2, 600, 40));
    scene.write("in.parquet", &documents);
    scene.run("in.parquet", "out", &[]);
    let (found, exact) = (pairs(&scene.path("out")), exact_pairs(&documents, 3, 0.5));
    for (pair, jaccard) in &found {
        assert_eq!(exact.get(pair), Some(jaccard), "{pair:?}");
    }
    assert!(exact.len() > 300);
    // Recall is at least 0.99 at the threshold, and higher for every pair over it.
    assert!(found.len() as f64 >= 0.985 * exact.len() as f64, "{} of {}", found.len(), exact.len());
}

/// A thousand pairs of documents, each pair with words of its own: 40 shingles each, 27 of them shared.
#[test]
fn one_permutation_finds_as_many_pairs_as_its_curve_says() {
    const PAIRS: usize = 1_000;
    let scene = Scene::new(&["minhash.family=one-permutation", "lsh.bands=16", "lsh.rows=4"]);
    let text = |pair: usize, from: usize| {
        (from..from + 42).map(|i| format!("p{pair}w{i}")).collect::<Vec<_>>().join(" ")
    };
    let two =
        |pair: usize| [("a", 0), ("b", 13)].map(|(side, from)| (format!("{pair}{side}"), text(pair, from)));
    let documents: Vec<Document> = (0..PAIRS).flat_map(two).collect();
    scene.write("in.parquet", &documents);
    scene.run("in.parquet", "out", &[]);

    let (jaccard, found) = (27.0 / 53.0, pairs(&scene.path("out")));
    for ((a, b), score) in &found {
        assert_eq!((a.trim_end_matches('a'), *score), (b.trim_end_matches('b'), jaccard));
    }
    let curve = 1.0 - (1.0 - jaccard.powi(4)).powi(16);
    let share = found.len() as f64 / PAIRS as f64;
    let sigma = (curve * (1.0 - curve) / PAIRS as f64).sqrt();
    assert!((share - curve).abs() <= 3.0 * sigma, "{share} of the pairs, and the curve has {curve}");

    // The estimates of the pairs together are as near the truth as independent permutations would bring them.
    scene.run("in.parquet", "all", &["candidates.method=all"]);
    let estimates = floats(&table(&scene.path("all"), "pairs"), "estimate");
    assert_eq!(estimates.len(), PAIRS);
    let mean = estimates.iter().sum::<f64>() / PAIRS as f64;
    let sigma = (jaccard * (1.0 - jaccard) / (128 * PAIRS) as f64).sqrt();
    assert!((mean - jaccard).abs() <= 4.0 * sigma, "{mean} on average, and it is {jaccard}");
}

#[test]
fn the_same_rows_for_any_partitions_batches_order_and_budget() {
    assert_same_rows(&[]);
    assert_same_rows(&["minhash.family=one-permutation"]);
}

#[test]
fn the_same_rows_and_numbers_with_a_dictionary() {
    assert_same_rows(&[&DICTIONARY[..], &["lsh.table_size=5000"]].concat());
}

#[test]
fn the_same_rows_by_prefixes() {
    assert_same_rows(&["candidates.method=prefix"]);
    assert_same_rows(&["candidates.method=prefix", "score.by=signature"]);
    assert_same_rows(&["lsh.hot_bucket=3"]);
}

/// Whatever the partitions, batches, files, order and budget.
fn assert_same_rows(sets: &[&str]) {
    let (scene, mut documents) = (Scene::new(sets), corpus(5, 400, 30));
    scene.write("in.parquet", &documents);
    scene.run("in.parquet", "undisturbed", &[]);
    let undisturbed = scene.path("undisturbed");
    for (partitions, batch) in [(1, 8192), (2, 7), (7, 64), (3, 1)] {
        let output = format!("{partitions} partitions, batches of {batch}");
        let change = |config: SessionConfig| config.with_target_partitions(partitions).with_batch_size(batch);
        run_with(&scene.job("in.parquet", &output, &[]), change).unwrap();
        assert_eq!(tables(&scene.path(&output)), tables(&undisturbed), "{output}");
    }
    documents.reverse();
    scene.write("parts/b.parquet", &documents[..170]);
    write_parquet(&scene.path("parts/a.parquet"), &documents[170..], 1_000);
    scene.run("parts", "reversed", &["engine.memory=64MiB"]);
    let [found, expected] =
        ["reversed", "undisturbed"].map(|output| tables_of_any_source(&scene.path(output)));
    assert_eq!(found, expected, "another order, in two files, with a small budget");
}

#[test]
fn an_empty_source_gives_empty_tables() {
    let scene = Scene::new(&[]);
    scene.write("in.parquet", &[]);
    scene.run("in.parquet", "out", &[]);
    for batch in tables(&scene.path("out")) {
        assert_eq!(batch.num_rows(), 0);
        assert!(batch.num_columns() > 3);
    }
}
