//! The main job in this process, compared with plain loops over the same documents.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use resemblance::error::Kind;
use tempfile::tempdir;

use crate::support::walk::least_reachable;
use crate::support::*;

#[test]
fn all_pairs_are_exactly_those_of_plain_loops() {
    let folder = tempdir().unwrap();
    let documents = corpus(1, 300, 40);
    write_parquet(&folder.path().join("in.parquet"), &documents, 64);
    let output = folder.path().join("out");
    run(&job(&folder.path().join("in.parquet"), &output, &["candidates.method=all"])).unwrap();
    assert_eq!(pairs(&output), exact_pairs(&documents, 3, 0.5));
}

#[test]
fn lsh_finds_a_subset_with_exact_scores_and_misses_what_its_curve_says() {
    let folder = tempdir().unwrap();
    let documents = corpus(2, 600, 40);
    write_parquet(&folder.path().join("in.parquet"), &documents, 64);
    let output = folder.path().join("out");
    run(&job(&folder.path().join("in.parquet"), &output, &[])).unwrap();
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
    let folder = tempdir().unwrap();
    let text =
        |pair: usize, from: usize| (from..from + 42).map(|i| format!("p{pair}w{i}")).collect::<Vec<_>>();
    let documents: Vec<Document> = (0..PAIRS)
        .flat_map(|pair| {
            [("a", 0), ("b", 13)].map(|(side, from)| (format!("{pair}{side}"), text(pair, from).join(" ")))
        })
        .collect();
    let source = folder.path().join("in.parquet");
    write_parquet(&source, &documents, 500);
    let output = folder.path().join("out");
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

    let again = folder.path().join("again");
    run_with(&job(&source, &again, &sets), |config| config.with_target_partitions(5).with_batch_size(77))
        .unwrap();
    assert_eq!(tables(&again), tables(&output));

    // The estimates of the pairs together are as near the truth as independent permutations would bring them.
    let all = folder.path().join("all");
    run(&job(&source, &all, &[&sets[..], &["candidates.method=all"]].concat())).unwrap();
    let estimates = floats(&table(&all, "pairs"), "estimate");
    assert_eq!(estimates.len(), PAIRS);
    let mean = estimates.iter().sum::<f64>() / PAIRS as f64;
    let sigma = (jaccard * (1.0 - jaccard) / (128 * PAIRS) as f64).sqrt();
    assert!((mean - jaccard).abs() <= 4.0 * sigma, "{mean} on average, and it is {jaccard}");
}

#[test]
fn every_column_of_a_pair_follows_from_the_two_sets() {
    let folder = tempdir().unwrap();
    let documents = corpus(3, 120, 30);
    write_parquet(&folder.path().join("in.parquet"), &documents, 1_000);
    let output = folder.path().join("out");
    run(&job(&folder.path().join("in.parquet"), &output, &[])).unwrap();
    let sets: BTreeMap<_, _> = documents.iter().map(|(id, text)| (id.clone(), shingles(text, 3))).collect();
    let table = table(&output, "pairs");
    let (ids_a, ids_b) = (strings(&table, "id_a"), strings(&table, "id_b"));
    assert!(!ids_a.is_empty());
    for row in 0..table.num_rows() {
        let (a, b) = (&sets[&ids_a[row]], &sets[&ids_b[row]]);
        let shared = a.intersection(b).count();
        assert_eq!(numbers(&table, "shared")[row], shared as u64);
        assert_eq!(numbers(&table, "shingles_a")[row], a.len() as u64);
        assert_eq!(numbers(&table, "shingles_b")[row], b.len() as u64);
        assert_eq!(floats(&table, "jaccard")[row], shared as f64 / (a.len() + b.len() - shared) as f64);
        assert_eq!(floats(&table, "containment_a")[row], shared as f64 / a.len() as f64);
        assert_eq!(floats(&table, "containment_b")[row], shared as f64 / b.len() as f64);
        assert!((floats(&table, "estimate")[row] - floats(&table, "jaccard")[row]).abs() < 0.25);
    }
}

#[test]
fn clusters_are_the_components_of_the_pairs() {
    let folder = tempdir().unwrap();
    let documents = corpus(4, 250, 30);
    write_parquet(&folder.path().join("in.parquet"), &documents, 1_000);
    let output = folder.path().join("out");
    run(&job(&folder.path().join("in.parquet"), &output, &[])).unwrap();

    let label = least_reachable(pairs(&output).into_keys());
    let table = table(&output, "clusters");
    let ids = strings(&table, "id");
    let clusters: BTreeMap<String, String> = ids.iter().cloned().zip(strings(&table, "cluster_id")).collect();
    assert_eq!(clusters, label);
    let sizes = numbers(&table, "size");
    let representative = table.column_by_name("representative").unwrap();
    let representative = representative.as_any().downcast_ref::<arrow::array::BooleanArray>().unwrap();
    let count_of = |cluster: &str| label.values().filter(|l| *l == cluster).count() as u64;
    let texts: BTreeMap<_, _> = documents.iter().cloned().collect();
    for cluster in label.values().collect::<BTreeSet<_>>() {
        let members: Vec<usize> = (0..ids.len()).filter(|&i| &label[&ids[i]] == cluster).collect();
        assert!(members.iter().all(|&i| sizes[i] == count_of(cluster)));
        let chosen: Vec<_> = members.iter().filter(|&&i| representative.value(i)).map(|&i| &ids[i]).collect();
        let longest = members
            .iter()
            .map(|&i| &ids[i])
            .min_by_key(|id| (std::cmp::Reverse(shingles(&texts[*id], 3).len()), (*id).clone()));
        assert_eq!(chosen, [longest.unwrap()]);
    }
}

#[test]
fn the_same_rows_for_any_partitions_batches_order_and_budget() {
    assert_same_rows(&[]);
}

#[test]
fn the_same_rows_and_numbers_with_a_dictionary() {
    assert_same_rows(&[
        "shingle.hash=dictionary",
        "minhash.family=linear",
        "minhash.modulus=next-prime",
        "lsh.bucket_hash=crc32",
        "lsh.table_size=5000",
    ]);
}

#[test]
fn the_same_rows_by_prefixes() {
    assert_same_rows(&["candidates.method=prefix"]);
    assert_same_rows(&["candidates.method=prefix", "score.by=signature"]);
    assert_same_rows(&["lsh.hot_bucket=3"]);
}

/// Whatever the partitions, batches, files, order and budget.
fn assert_same_rows(sets: &[&str]) {
    let folder = tempdir().unwrap();
    let documents = corpus(5, 400, 30);
    let source = folder.path().join("in.parquet");
    write_parquet(&source, &documents, 50);
    let undisturbed = folder.path().join("undisturbed");
    run(&job(&source, &undisturbed, sets)).unwrap();
    let expected = tables(&undisturbed);

    for (i, (partitions, batch)) in [(1, 8192), (2, 7), (7, 64), (3, 1)].into_iter().enumerate() {
        let output = folder.path().join(format!("out{i}"));
        run_with(&job(&source, &output, sets), |config| {
            config.with_target_partitions(partitions).with_batch_size(batch)
        })
        .unwrap();
        assert_eq!(tables(&output), expected, "{partitions} partitions, batches of {batch}");
    }

    let reversed: Vec<_> = documents.iter().rev().cloned().collect();
    let (left, right) = reversed.split_at(170);
    let sources = folder.path().join("parts");
    std::fs::create_dir(&sources).unwrap();
    write_parquet(&sources.join("b.parquet"), left, 30);
    write_parquet(&sources.join("a.parquet"), right, 1_000);
    let output = folder.path().join("reversed");
    run(&job(&sources, &output, &[&["engine.memory=64MiB"], sets].concat())).unwrap();
    let expected = tables_of_any_source(&undisturbed);
    let what = "another order, in two files, with a small budget";
    assert_eq!(tables_of_any_source(&output), expected, "{what}");
}

#[test]
fn a_small_budget_cuts_scoring_into_blocks_of_the_same_pairs() {
    let folder = tempdir().unwrap();
    // Few documents of many shingles: their sketches are far larger than the budget's share for scoring.
    let documents = corpus(6, 150, 20_000);
    let source = folder.path().join("in.parquet");
    write_parquet(&source, &documents, 20);
    let mut found = Vec::new();
    for (name, sets) in [
        ("wide", vec![]),
        ("narrow", vec!["engine.memory=48MiB", "engine.threads=1"]),
        ("all", vec!["candidates.method=all", "engine.memory=48MiB", "engine.threads=1"]),
    ] {
        let output = folder.path().join(name);
        run(&job(&source, &output, &sets)).unwrap();
        found.push(pairs(&output));
    }
    assert_eq!(found[0], found[1]);
    assert_eq!(found[2], exact_pairs(&documents, 3, 0.5));
}

/// Copies of one document, and one near copy of it.
fn copies(count: usize) -> Vec<Document> {
    let text: Vec<String> = (0..40).map(|i| format!("w{i}")).collect();
    let mut documents: Vec<_> = (0..count).map(|i| (format!("c{i:03}"), text.join(" "))).collect();
    let mut near = text.clone();
    near[39] = "other".into();
    documents.push(("near".into(), near.join(" ")));
    documents
}

#[test]
fn a_large_group_of_copies_becomes_a_star_and_says_what_that_leaves_out() {
    let folder = tempdir().unwrap();
    let source = folder.path().join("in.parquet");
    write_parquet(&source, &copies(20), 1_000);
    for (name, sets, pairs_written, left_out) in [
        ("all", vec![], 190 + 20, 0),
        ("star", vec!["output.expand=star"], 19 + 1, 171 + 19),
        ("limit", vec!["output.max_expand=19"], 19 + 1, 171 + 19),
        ("under", vec!["output.max_expand=20"], 190 + 20, 0),
    ] {
        let output = folder.path().join(name);
        run(&job(&source, &output, &sets)).unwrap();
        let found = pairs(&output);
        assert_eq!(found.len(), pairs_written, "{name}");
        assert_eq!(manifest(&output).counts.pairs_left_out, left_out, "{name}");
        assert_eq!(manifest(&output).counts.clusters, 1, "{name}");
        assert_eq!(manifest(&output).counts.clustered_documents, 21, "{name}");
        if pairs_written == 20 {
            assert!(found.keys().all(|(a, _)| a == "c000"), "{name}");
        }
    }
}

#[test]
fn ids_that_come_twice_are_named() {
    let folder = tempdir().unwrap();
    let source = folder.path().join("in.parquet");
    let mut documents = corpus(7, 50, 30);
    documents[40].0 = documents[3].0.clone();
    write_parquet(&source, &documents, 1_000);
    let error = run(&job(&source, &folder.path().join("error"), &[])).unwrap_err();
    assert_eq!(error.kind(), Kind::Input);
    assert!(error.to_string().contains("`d00003`"), "{error}");
    assert!(error.to_string().contains("duplicate_ids"), "{error}");

    let output = folder.path().join("reject");
    run(&job(&source, &output, &["source.duplicate_ids=reject"])).unwrap();
    let rejects = table(&output, "rejects");
    assert_eq!(strings(&rejects, "id"), ["d00003"]);
    assert_eq!(strings(&rejects, "reason"), ["duplicate_id"]);
    assert_eq!(numbers(&rejects, "position"), [40]);
    assert_eq!(table(&output, "documents").num_rows(), 49);
}

#[test]
fn what_cannot_be_compared_is_rejected_with_its_reason() {
    let folder = tempdir().unwrap();
    let source = folder.path().join("in.jsonl");
    let lines = [
        r#"{"id": "a", "text": "one two three four"}"#,
        r#"{"id": "b", "text": null}"#,
        r#"{"id": "c", "text": "  \n"}"#,
        r#"{"id": "d", "text": "one two"}"#,
        r#"{"id": null, "text": "one two three four"}"#,
        r#"{"id": "f", "text": "one two three four"}"#,
    ];
    std::fs::write(&source, lines.join("\n")).unwrap();
    let output = folder.path().join("out");
    run(&job(&source, &output, &["source.format=jsonl"])).unwrap();
    let rejects = table(&output, "rejects");
    let reasons: BTreeMap<u64, String> =
        numbers(&rejects, "position").into_iter().zip(strings(&rejects, "reason")).collect();
    let expected = [(1, "missing_text"), (2, "empty_text"), (3, "too_short"), (4, "missing_id")];
    assert_eq!(reasons, expected.map(|(row, reason)| (row, reason.to_owned())).into());
    assert_eq!(pairs(&output), [(("a".into(), "f".into()), 1.0)].into());
    assert_eq!(manifest(&output).rejects["too_short"], 1);
}

#[test]
fn an_empty_source_gives_empty_tables() {
    let folder = tempdir().unwrap();
    let source = folder.path().join("in.parquet");
    write_parquet(&source, &[], 10);
    let output = folder.path().join("out");
    run(&job(&source, &output, &[])).unwrap();
    for batch in tables(&output) {
        assert_eq!(batch.num_rows(), 0);
        assert!(batch.num_columns() > 3);
    }
}

#[test]
fn a_finished_output_is_left_alone_and_another_job_is_refused() {
    let folder = tempdir().unwrap();
    let source = folder.path().join("in.parquet");
    write_parquet(&source, &corpus(8, 30, 20), 10);
    let output = folder.path().join("out");
    let first = run(&job(&source, &output, &[])).unwrap();
    assert!(!first.already_finished);
    let again = run(&job(&source, &output, &["engine.threads=1", "name=other"])).unwrap();
    assert!(again.already_finished, "neither threads nor the name change a row");
    assert_eq!(again.manifest, first.manifest);
    let other = run(&job(&source, &output, &["score.threshold=0.6"])).unwrap_err();
    assert_eq!(other.kind(), Kind::Job);
    assert!(other.to_string().contains("--overwrite"), "{other}");
    write_parquet(&source, &corpus(9, 31, 20), 10);
    assert_eq!(run(&job(&source, &output, &[])).unwrap_err().kind(), Kind::Job, "the input changed");
}

/// Values of 16 bits agree wherever those of 32 do, so they lose no candidate, and they add very few.
#[test]
fn half_of_the_bits_find_the_same_pairs() {
    let folder = tempdir().unwrap();
    let source = folder.path().join("in.parquet");
    write_parquet(&source, &corpus(11, 1_000, 30), 200);
    let mut candidates = [0, 0];
    for sets in [
        ["candidates.method=lsh", "minhash.seed=1"],
        ["candidates.method=lsh", "minhash.seed=2"],
        ["candidates.method=lsh", "minhash.family=one-permutation"],
        ["candidates.method=prefix", "minhash.seed=1"],
        ["candidates.method=all", "minhash.seed=1"],
    ] {
        let [short, whole] = [16, 32].map(|bits| {
            let output = folder.path().join(format!("{}{}{bits}", sets[0], sets[1]));
            run(&job(&source, &output, &[&sets[..], &[&format!("minhash.bits={bits}")]].concat())).unwrap();
            output
        });
        for (sum, output) in candidates.iter_mut().zip([&short, &whole]) {
            *sum += manifest(output).counts.candidates.unwrap_or_default();
        }
        assert!(pairs(&short).len() > 100);
        assert_eq!(pairs(&short), pairs(&whole), "{sets:?}");
        let chance = 0.5_f64.powi(16);
        let (corrected, plain) = (table(&short, "pairs"), table(&whole, "pairs"));
        for (corrected, plain) in floats(&corrected, "estimate").into_iter().zip(floats(&plain, "estimate")) {
            // One more value in 128 may be equal by chance.
            let by_chance = (plain - chance) / (1.0 - chance);
            assert!((0.0..0.009).contains(&(corrected - by_chance.max(0.0))), "{corrected} {plain}");
        }
    }
    let [short, whole] = candidates;
    assert!(whole > 500 && short >= whole && short - whole <= whole / 1_000, "{short} {whole}");
}

#[test]
fn scoring_by_signature_keeps_what_the_signatures_say() {
    let folder = tempdir().unwrap();
    let source = folder.path().join("in.parquet");
    let documents = corpus(10, 200, 30);
    write_parquet(&source, &documents, 100);
    let output = folder.path().join("out");
    run(&job(&source, &output, &["score.by=signature", "candidates.method=all"])).unwrap();
    let batch = table(&output, "pairs");
    assert!(floats(&batch, "estimate").iter().all(|&e| e >= 0.5));
    let exact = exact_pairs(&documents, 3, 0.0);
    for (pair, jaccard) in pairs(&output) {
        assert_eq!(exact[&pair], jaccard);
    }
    let prefiltered = folder.path().join("prefiltered");
    run(&job(&source, &prefiltered, &["score.prefilter=true", "candidates.method=all"])).unwrap();
    let both: BTreeSet<_> = pairs(&output).into_iter().filter(|(_, j)| *j >= 0.5).map(|(p, _)| p).collect();
    assert_eq!(pairs(&prefiltered).into_keys().collect::<BTreeSet<_>>(), both);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// Whatever the documents, bands and partitions are: with one row to a band and many bands nothing is missed.
    #[test]
    fn any_corpus_gives_its_exact_pairs(
        texts in prop::collection::vec(prop::collection::vec(0_u8..6, 3..12), 1..25),
        partitions in 1_usize..5,
        batch in 1_usize..40,
    ) {
        let documents: Vec<Document> = texts
            .iter()
            .enumerate()
            .map(|(i, words)| (format!("{i}"), words.iter().map(|w| format!("w{w} ")).collect::<String>()))
            .collect();
        let folder = tempdir().unwrap();
        let source = folder.path().join("in.parquet");
        write_parquet(&source, &documents, 5);
        let output = folder.path().join("out");
        let sets = ["lsh.bands=128", "lsh.rows=1"];
        run_with(&job(&source, &output, &sets), |config| {
            config.with_target_partitions(partitions).with_batch_size(batch)
        }).unwrap();
        prop_assert_eq!(pairs(&output), exact_pairs(&documents, 3, 0.5));
    }
}
