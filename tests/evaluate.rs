//! `evaluate`: what an output missed, measured on a sample, against a comparison of every two documents.

mod audit;
mod proof;

use resemblance::evaluate::{ByExactRule, Estimate, Evaluation, EvaluationSettings, evaluate};

use crate::support::*;

struct Missed {
    scene: Scene,
    output: PathBuf,
    documents: Vec<Document>,
}

has_a_scene!(Missed);

/// Bands that find about half of the pairs of similarity 0.6.
const FEW_BANDS: [&str; 3] = ["minhash.permutations=64", "lsh.bands=6", "lsh.rows=4"];

impl Missed {
    fn new(seed: u64, copies: usize, sets: &[&str]) -> Self {
        let mut documents = corpus(seed, 400, 30);
        let text = documents[0].1.clone();
        documents.extend((0..copies).map(|copy| (format!("copy{copy:05}"), text.clone())));
        let scene = Scene::new(&[]);
        scene.write("in.parquet", &documents);
        scene.run("in.parquet", "out", sets);
        Self { output: scene.path("out"), scene, documents }
    }

    fn evaluate(&self, sample: usize, seed: u64) -> Evaluation {
        evaluate_output(&self.output, sample, seed)
    }
}

fn evaluate_output(output: &Path, sample: usize, seed: u64) -> Evaluation {
    let session = session::session(&EngineSettings { threads: 2, ..EngineSettings::local(1 << 30) }).unwrap();
    let settings = EvaluationSettings { sample, seed, memory: 1 << 30, truth: None };
    block_on(evaluate(&session, &output.display().to_string(), &settings)).unwrap()
}

#[derive(Debug, Default, PartialEq)]
struct Truth {
    /// Pairs of different texts: found, and in all.
    pairs: (usize, usize),
    documents: (usize, usize),
    removals: (usize, usize),
}

fn truth(documents: &[Document], output: &Path) -> Truth {
    let mut by_text: BTreeMap<BTreeSet<String>, Vec<&String>> = BTreeMap::new();
    for (id, text) in documents {
        by_text.entry(shingles(text, 3)).or_default().push(id);
    }
    let texts: Vec<(BTreeSet<String>, Vec<&String>)> = by_text.into_iter().collect();
    let found = pairs(output);
    let has = |a: &[&String], b: &[&String]| {
        let any = |a: &String, b: &String| found.contains_key(&(a.min(b).clone(), a.max(b).clone()));
        a.iter().any(|a| b.iter().any(|b| any(a, b)))
    };
    let clusters = table(output, "clusters");
    let clustered: BTreeMap<String, bool> =
        strings(&clusters, "id").into_iter().zip(bools(&clusters, "representative")).collect();
    let stays = |id: &String| clustered.get(id).copied().unwrap_or(true);
    let mut truth = Truth::default();
    let removed = clustered.values().filter(|represents| !**represents).count();
    let (mut similar, mut missed) = (BTreeSet::new(), BTreeSet::new());
    for (at, (a, ids_a)) in texts.iter().enumerate() {
        if ids_a.len() > 1 {
            similar.extend(ids_a.iter().copied());
        }
        for (b, ids_b) in &texts[at + 1..] {
            let shared = a.intersection(b).count();
            if shared as f64 / (a.len() + b.len() - shared) as f64 >= 0.5 {
                truth.pairs.0 += usize::from(has(ids_a, ids_b));
                truth.pairs.1 += 1;
                similar.extend(ids_a.iter().chain(ids_b).copied());
                // If both stay, the later one counts: the shorter one, or the one with the greater id.
                let first = |ids: &[&String], len: usize| {
                    ids.iter().filter(|id| stays(id)).map(|id| (usize::MAX - len, (*id).clone())).min()
                };
                if let (Some(a), Some(b)) = (first(ids_a, a.len()), first(ids_b, b.len())) {
                    missed.insert(a.max(b).1);
                }
            }
        }
    }
    truth.documents = (clustered.len(), similar.len());
    truth.removals = (removed, removed + missed.len());
    truth
}

fn share((found, all): (usize, usize)) -> f64 {
    found as f64 / all as f64
}

#[test]
fn a_sample_of_everything_is_the_truth_to_the_digit() {
    for (seed, copies, sets) in [
        (1, 0, &FEW_BANDS[..]),
        (2, 300, &[FEW_BANDS[0], FEW_BANDS[1], FEW_BANDS[2], "output.keep=shingles", "output.max_expand=20"]),
        (3, 5, &["candidates.method=all"]),
    ] {
        let scene = Missed::new(seed, copies, sets);
        let truth = truth(&scene.documents, &scene.output);
        let Evaluation { recall, wrong_pairs, missed_pairs, sample, shingle_sets, .. } =
            scene.evaluate(10_000, 1);
        assert_eq!(sample, shingle_sets);
        let exact = |found: (usize, usize)| {
            Some(Estimate { value: share(found), low: share(found), high: share(found) })
        };
        assert_eq!(recall.pairs, exact(truth.pairs), "{seed} {truth:?}");
        assert_eq!(recall.documents, exact(truth.documents), "{seed} {truth:?}");
        assert_eq!(recall.removals, exact(truth.removals), "{seed} {truth:?}");
        assert_eq!(missed_pairs.value, (truth.pairs.1 - truth.pairs.0) as f64);
        assert_eq!(wrong_pairs, 0);
        let misses = sets.contains(&"lsh.bands=6");
        assert_eq!(misses, truth.pairs.0 + 20 < truth.pairs.1, "{truth:?}");
        assert_eq!(misses, truth.removals.0 < truth.removals.1, "{truth:?}");
    }
}

/// Copies in two groups are pairs of documents, and not pairs of different shingle sets.
#[test]
fn copies_across_groups_are_no_pairs_of_different_sets() {
    let path = paths();
    let documents = corpus(4, 300, 30);
    let mut random = Random(4);
    let mut rows: Vec<(String, String, Option<&str>)> = Vec::new();
    for (at, (id, text)) in documents.iter().enumerate() {
        let copied =
            if random.below(3) == 0 { documents[random.below(at + 1)].1.clone() } else { text.clone() };
        rows.push((id.clone(), copied, [Some("n"), Some("s"), None][random.below(3)]));
    }
    let copied: Vec<Document> = rows.iter().map(|(id, text, _)| (id.clone(), text.clone())).collect();
    let shops = Arc::new(rows.iter().map(|row| row.2).collect::<StringArray>());
    write_columns(&path("in.parquet"), &copied, vec![("shop", shops)], 50);
    let sets = [&FEW_BANDS[..], &["source.group=shop", "candidates.compare=across"]].concat();
    run(&job(&path("in.parquet"), &path("out"), &sets)).unwrap();
    let mut texts: BTreeMap<(BTreeSet<String>, Option<&str>), Vec<&String>> = BTreeMap::new();
    for (id, text, group) in &rows {
        texts.entry((shingles(text, 3), *group)).or_default().push(id);
    }
    let texts: Vec<_> = texts.into_iter().collect();
    let written = pairs(&path("out"));
    let (mut found, mut all, mut copies) = (0, 0, 0);
    for (at, ((a, of_a), ids_a)) in texts.iter().enumerate() {
        for ((b, of_b), ids_b) in &texts[at + 1..] {
            let shared = a.intersection(b).count();
            if of_a == of_b || shared as f64 / ((a.len() + b.len() - shared) as f64) < 0.5 {
                continue;
            }
            copies += usize::from(a == b);
            let (first, second) = (ids_a[0].min(ids_b[0]), ids_a[0].max(ids_b[0]));
            let is_found = a != b && written.contains_key(&(first.clone(), second.clone()));
            (found, all) = (found + usize::from(is_found), all + usize::from(a != b));
        }
    }
    let evaluation = evaluate_output(&path("out"), 10_000, 1);
    let Evaluation { recall, found_pairs, missed_pairs, wrong_pairs, .. } = evaluation;
    assert_eq!((found_pairs, missed_pairs.value, wrong_pairs), (found as u64, (all - found) as f64, 0));
    assert_eq!(recall.pairs.unwrap().value, share((found, all)));
    assert!(found > 0 && all > found && copies > 0, "{found} {all} {copies}");
}

#[test]
fn intervals_hold_the_truth_for_most_seeds() {
    let scene = Missed::new(5, 200, &[&FEW_BANDS[..], &["output.max_expand=20"]].concat());
    let truth = truth(&scene.documents, &scene.output);
    let mut held = [0; 3];
    let mut wide = 0.0_f64;
    for seed in seeds(100) {
        let Evaluation { recall, sample, shingle_sets, .. } = scene.evaluate(90, seed);
        assert!(2 * sample < shingle_sets, "{sample} of {shingle_sets}");
        let truths = [truth.pairs, truth.documents, truth.removals];
        let estimates = [recall.pairs, recall.documents, recall.removals];
        for ((held, estimate), truth) in held.iter_mut().zip(estimates).zip(truths) {
            let Estimate { low, high, value } = estimate.unwrap();
            assert!(low <= value && value <= high);
            *held += u32::from((low..=high).contains(&share(truth)));
            wide = wide.max(high - low);
        }
    }
    let cases = seeds(100).count() as u32;
    assert!(held.iter().all(|&held| 100 * held >= 93 * cases), "{held:?} of {cases}");
    // An interval that holds everything would say nothing.
    assert!(wide < 0.5, "{wide}");
}

#[test]
fn the_command_prints_missed_pairs() {
    let scene = Missed::new(7, 3, &FEW_BANDS);
    let ran = |more: &[&str]| scene.command(&["evaluate", "out"]).args(more).assert();
    let json = ran(&["--json", "--sample", "100000"]).json();
    let truth = truth(&scene.documents, &scene.output);
    assert_eq!(json["recall"]["pairs"]["value"], share(truth.pairs));
    assert_eq!(json["recall"]["removals"]["low"], share(truth.removals));
    assert_eq!(json["wrong_pairs"], 0);
    assert!(json["estimate"]["bias"].is_number() && json["expected"].is_number(), "{json}");
    let bins = json["by_similarity"].as_array().unwrap();
    let pairs: u64 = bins.iter().map(|bin| bin["pairs"].as_u64().unwrap()).sum();
    // Each pair is seen from both of its sets.
    assert_eq!(pairs, 2 * truth.pairs.1 as u64);
    let parts = ["recall of", "95 % interval", " % with 95 % certainty; --sample 267 narrows it"];
    let text = ran(&["--sample", "50", "--seed", "3"]).shown(&parts);
    let again = ran(&["--sample", "50", "--seed", "3"]).shown(&[]);
    assert_eq!(text, again, "the seed does not decide");
}

#[test]
fn known_pairs_and_clusters_are_counted_as_plain_code_counts_them() {
    let scene = Missed::new(11, 0, &[&FEW_BANDS[..], &["output.max_expand=0"]].concat());
    let known = exact_pairs(&scene.documents, 3, 0.5);
    let found = pairs(&scene.output);
    let both = known.keys().filter(|pair| found.contains_key(pair)).count();
    assert!(both < known.len() && both == found.len(), "{both} {} {}", known.len(), found.len());
    let evaluated = |name: &str, text: String| {
        std::fs::write(scene.path(name), text).unwrap();
        printed(&mut scene.command(&["evaluate", "out", "--truth", name]))["truth"].clone()
    };
    // One that is not found, and is not there at all.
    let rows: String = known.keys().map(|(a, b)| format!("{b},{a}\n")).collect();
    let truth = evaluated("pairs.csv", format!("id_a,id_b\n{rows}d00000,nowhere\n"));
    assert_eq!(truth["unknown_ids"], json!(["nowhere"]));
    let share = |all: usize| both as f64 / all as f64;
    assert_eq!(truth["precision"], share(found.len()));
    assert_eq!(truth["recall"], share(known.len() + 1));
    // Clusters of every second document by its place, which are as good as random.
    let clusters = table(&scene.output, "clusters");
    let of: BTreeMap<String, String> =
        strings(&clusters, "id").into_iter().zip(strings(&clusters, "cluster_id")).collect();
    let named: BTreeMap<&str, usize> =
        scene.documents.iter().enumerate().step_by(2).map(|(at, (id, _))| (id.as_str(), at % 7)).collect();
    let rows: String = named.iter().map(|(id, cluster)| format!("{id},{cluster}\n")).collect();
    let truth = evaluated("clusters.csv", format!("id,cluster_id\n{rows}"));
    let (mut in_known, mut in_found, mut in_both, mut all) = (0.0, 0.0, 0.0, 0.0);
    for (at, (a, _)) in scene.documents.iter().enumerate() {
        for (b, _) in &scene.documents[at + 1..] {
            let known = named.get(a.as_str()).is_some_and(|of| named.get(b.as_str()) == Some(of));
            let found = of.get(a).is_some_and(|cluster| of.get(b) == Some(cluster));
            in_known += f64::from(u8::from(known));
            in_found += f64::from(u8::from(found));
            in_both += f64::from(u8::from(known && found));
            all += 1.0;
        }
    }
    let close = |name: &str, expected: f64| {
        let found = truth[name].as_f64().unwrap();
        assert!((found - expected).abs() < 1e-12, "{name}: {found}, not {expected}");
    };
    close("precision", in_both / in_found);
    close("recall", in_both / in_known);
    close("f1", 2.0 * in_both / (in_found + in_known));
    let by_chance = in_known * in_found / all;
    close("adjusted_rand", (in_both - by_chance) / ((in_known + in_found) / 2.0 - by_chance));
}

/// Every two different texts, by their exact similarities and by the stored signatures.
#[test]
fn outputs_whose_estimates_decide_are_judged_by_both_rules() {
    for (key, by_signature) in [("score.prefilter=true", false), ("score.by=signature", true)] {
        let sets = [FEW_BANDS[0], "lsh.bands=16", FEW_BANDS[2], "minhash.bits=32", key];
        let scene = Missed::new(11, 20, &sets);
        let stored = table(&scene.output, "documents");
        let values = signature_values(stored.column_by_name("signature").unwrap());
        let signatures: BTreeMap<String, Vec<u32>> = strings(&stored, "id").into_iter().zip(values).collect();
        let by_text: BTreeMap<BTreeSet<String>, &String> =
            scene.documents.iter().map(|(id, text)| (shingles(text, 3), id)).collect();
        let texts: Vec<_> = by_text.into_iter().collect();
        let written = pairs(&scene.output);
        let text_of: BTreeMap<&String, BTreeSet<String>> =
            scene.documents.iter().map(|(id, text)| (id, shingles(text, 3))).collect();
        let found: BTreeSet<_> = written.keys().map(|(a, b)| [&text_of[a], &text_of[b]]).collect();
        let is_found = |a, b| found.contains(&[a, b]) || found.contains(&[b, a]);
        // Found and all: by the exact rule, by the estimate, and by both.
        let (mut exact, mut estimated, mut both) = ((0, 0), (0, 0), 0);
        for (at, (a, id_a)) in texts.iter().enumerate() {
            for (b, id_b) in &texts[at + 1..] {
                let shared = a.intersection(b).count();
                let reaches = 2 * shared >= a.len() + b.len() - shared;
                let equal = signatures[*id_a].iter().zip(&signatures[*id_b]).filter(|(a, b)| a == b).count();
                let agrees = 2 * equal >= signatures[*id_a].len();
                let is_found = usize::from(is_found(a, b));
                exact = (exact.0 + is_found * usize::from(reaches), exact.1 + usize::from(reaches));
                estimated = (estimated.0 + is_found, estimated.1 + usize::from(agrees));
                both += usize::from(reaches && agrees);
            }
        }
        let evaluation = scene.evaluate(10_000, 1);
        let value = |estimate: Option<Estimate>| estimate.unwrap().value;
        let of_rule = if by_signature { estimated } else { exact };
        assert_eq!(value(evaluation.recall.pairs), share(of_rule), "{key} {exact:?} {estimated:?}");
        assert_eq!(evaluation.missed_pairs.value, (of_rule.1 - of_rule.0) as f64, "{key}");
        assert!(both < exact.1, "estimates drop no pair");
        assert_eq!(evaluation.wrong_pairs, 0, "{key}");
        assert_eq!(evaluation.estimate, None, "{key}");
        let expected = evaluation.expected.unwrap();
        assert!((expected - share(exact)).abs() < 0.12, "{expected} {exact:?}");
        assert_eq!(evaluation.by_exact_rule.is_some(), by_signature);
        if let Some(ByExactRule { recall, precision }) = evaluation.by_exact_rule {
            assert_eq!(value(recall), share(exact));
            assert_eq!(value(precision), share((exact.0, estimated.0)));
            assert!(value(precision) < 1.0, "all pairs by estimate are similar");
        }
        let text = scene.command(&["evaluate", "out"]).assert().shown(&[]);
        assert_eq!(text.contains("precision of pairs"), by_signature, "{text}");
    }
}

#[test]
fn outputs_that_cannot_be_evaluated_are_refused() {
    let path = paths();
    let input = path("in.parquet");
    write_parquet(&input, &corpus(9, 40, 30), 20);
    let output = |name: &str, sets: &[&str]| {
        run(&job(&input, &path(name), sets)).unwrap();
        path(name)
    };
    let refused = |output: &Path, code: i32, hint: &str| {
        resemblance().arg("evaluate").arg(output).assert().refused(code, &[hint]);
    };
    refused(&output("bare", &["output.keep=none"]), 2, "output.keep");
    refused(&output("passages", &["candidates.method=none", "passages.unit=line"]), 2, "candidates.method");
    let whole = output("whole", &[]);
    write_parquet(&input, &corpus(10, 41, 30), 20);
    refused(&whole, 3, "has changed");
}

/// Two documents that share too few shingles are not a pair that can be missed, whatever the measure and the method.
#[test]
fn pairs_of_too_few_shared_shingles_are_not_missed() {
    let path = paths();
    let input = path("in.parquet");
    let mut documents = corpus(13, 300, 30);
    let shared = ["a b c d", "e f g h i j"];
    documents.extend((0..60).map(|at| (format!("short{at}"), format!("{} v{at} w{at}", shared[at % 2]))));
    write_parquet(&input, &documents, 50);
    for (measure, method) in [("jaccard", "lsh"), ("jaccard", "prefix"), ("containment", "prefix")] {
        for min_shared in [0_usize, 4, 12] {
            let output = path(&format!("{measure}-{method}-{min_shared}"));
            let own = [
                format!("score.measure={measure}"),
                format!("candidates.method={method}"),
                format!("score.min_shared={min_shared}"),
            ];
            let own = own.each_ref().map(String::as_str);
            let sets = [&own[..], &FEW_BANDS, &["output.max_expand=0"]].concat();
            run(&job(&input, &output, &sets)).unwrap();
            let found = pairs(&output);
            let by_text: BTreeMap<BTreeSet<String>, &String> =
                documents.iter().map(|(id, text)| (shingles(text, 3), id)).collect();
            let sets: Vec<_> = by_text.into_iter().collect();
            let (mut all, mut both) = (0, 0);
            for (at, (a, of_a)) in sets.iter().enumerate() {
                for (b, of_b) in &sets[at + 1..] {
                    let (shared, smaller) = (a.intersection(b).count(), a.len().min(b.len()));
                    let over = if measure == "jaccard" { a.len() + b.len() - shared } else { smaller };
                    if 2 * shared >= over && shared >= smaller.min(min_shared) {
                        all += 1;
                        let pair = ((*of_a).min(of_b).clone(), (*of_a).max(of_b).clone());
                        both += usize::from(found.contains_key(&pair));
                    }
                }
            }
            let Evaluation { recall, wrong_pairs, .. } = evaluate_output(&output, 10_000, 1);
            assert_eq!(recall.pairs.unwrap().value, share((both, all)), "{measure} {method} {min_shared}");
            assert_eq!(wrong_pairs, 0, "{measure} {method} {min_shared}");
            assert!(both > 0 && (method == "prefix") == (both == all), "{method}: {both} of {all}");
        }
    }
}
