//! The main job in this process, compared with plain loops over the same documents.

use crate::support::*;

#[test]
fn lsh_finds_the_expected_share_of_pairs_with_exact_scores() {
    let path = paths();
    let documents = corpus(2, 600, 40);
    write_parquet(&path("in.parquet"), &documents, 64);
    let output = path("out");
    run(&job(&path("in.parquet"), &output, &[])).unwrap();
    let (found, exact) = (pairs(&output), exact_pairs(&documents, 3, 0.5));
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
    let path = paths();
    let text =
        |pair: usize, from: usize| (from..from + 42).map(|i| format!("p{pair}w{i}")).collect::<Vec<_>>();
    let documents: Vec<Document> = (0..PAIRS)
        .flat_map(|pair| {
            [("a", 0), ("b", 13)].map(|(side, from)| (format!("{pair}{side}"), text(pair, from).join(" ")))
        })
        .collect();
    let source = path("in.parquet");
    write_parquet(&source, &documents, 500);
    let output = path("out");
    let sets = ["minhash.family=one-permutation", "lsh.bands=16", "lsh.rows=4"];
    run(&job(&source, &output, &sets)).unwrap();

    let (jaccard, found) = (27.0 / 53.0, pairs(&output));
    for ((a, b), score) in &found {
        assert_eq!((a.trim_end_matches('a'), *score), (b.trim_end_matches('b'), jaccard));
    }
    let curve = 1.0 - (1.0 - jaccard.powi(4)).powi(16);
    let share = found.len() as f64 / PAIRS as f64;
    let sigma = (curve * (1.0 - curve) / PAIRS as f64).sqrt();
    assert!((share - curve).abs() <= 3.0 * sigma, "{share} of the pairs, and the curve has {curve}");

    let again = path("again");
    run_with(&job(&source, &again, &sets), |config| config.with_target_partitions(5).with_batch_size(77))
        .unwrap();
    assert_eq!(tables(&again), tables(&output));

    // The estimates of the pairs together are as near the truth as independent permutations would bring them.
    let all = path("all");
    run(&job(&source, &all, &[&sets[..], &["candidates.method=all"]].concat())).unwrap();
    let estimates = floats(&table(&all, "pairs"), "estimate");
    assert_eq!(estimates.len(), PAIRS);
    let mean = estimates.iter().sum::<f64>() / PAIRS as f64;
    let sigma = (jaccard * (1.0 - jaccard) / (128 * PAIRS) as f64).sqrt();
    assert!((mean - jaccard).abs() <= 4.0 * sigma, "{mean} on average, and it is {jaccard}");
}

#[test]
fn the_same_rows_for_any_partitions_batches_order_and_budget() {
    assert_same_rows(&[]);
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
    let path = paths();
    let documents = corpus(5, 400, 30);
    let source = path("in.parquet");
    write_parquet(&source, &documents, 50);
    let undisturbed = path("undisturbed");
    run(&job(&source, &undisturbed, sets)).unwrap();
    let expected = tables(&undisturbed);

    for (i, (partitions, batch)) in [(1, 8192), (2, 7), (7, 64), (3, 1)].into_iter().enumerate() {
        let output = path(&format!("out{i}"));
        run_with(&job(&source, &output, sets), |config| {
            config.with_target_partitions(partitions).with_batch_size(batch)
        })
        .unwrap();
        assert_eq!(tables(&output), expected, "{partitions} partitions, batches of {batch}");
    }

    let reversed: Vec<_> = documents.iter().rev().cloned().collect();
    let (left, right) = reversed.split_at(170);
    let sources = path("parts");
    std::fs::create_dir(&sources).unwrap();
    write_parquet(&sources.join("b.parquet"), left, 30);
    write_parquet(&sources.join("a.parquet"), right, 1_000);
    let output = path("reversed");
    run(&job(&sources, &output, &[&["engine.memory=64MiB"], sets].concat())).unwrap();
    let expected = tables_of_any_source(&undisturbed);
    let what = "another order, in two files, with a small budget";
    assert_eq!(tables_of_any_source(&output), expected, "{what}");
}

#[test]
fn an_empty_source_gives_empty_tables() {
    let path = paths();
    let source = path("in.parquet");
    write_parquet(&source, &[], 10);
    let output = path("out");
    run(&job(&source, &output, &[])).unwrap();
    for batch in tables(&output) {
        assert_eq!(batch.num_rows(), 0);
        assert!(batch.num_columns() > 3);
    }
}
