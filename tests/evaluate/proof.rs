//! `apply --require` and `alarms.require`: documents are removed only if the figures are proven, compared with plain counting.

use super::*;

/// The shares of removed documents that lose text, and of documents that are removed.
fn lossy_and_removed(scene: &Missed) -> [f64; 2] {
    let clusters = table(&scene.output, "clusters");
    let rows = || strings(&clusters, "id").into_iter().zip(bools(&clusters, "representative"));
    let of = strings(&clusters, "cluster_id");
    let kept: BTreeMap<&String, String> =
        of.iter().zip(rows()).filter(|(_, (_, stays))| *stays).map(|(of, (id, _))| (of, id)).collect();
    let sets: BTreeMap<&str, BTreeSet<String>> =
        scene.documents.iter().map(|(id, text)| (id.as_str(), shingles(text, 3))).collect();
    let (mut removed, mut lossy) = (0, 0);
    for (cluster, (id, stays)) in of.iter().zip(rows()) {
        let (own, kept) = (&sets[id.as_str()], &sets[kept[cluster].as_str()]);
        removed += usize::from(!stays);
        lossy += usize::from(!stays && 50 * own.difference(kept).count() > own.len());
    }
    [share((lossy, removed)), share((removed, scene.documents.len()))]
}

impl Missed {
    fn apply(&self, more: &[&str]) -> Assert {
        self.command(&["apply", "out"]).args(more).assert()
    }
}

#[test]
fn documents_are_removed_only_if_the_figures_are_proven() {
    let required = "alarms.require=recall>=0.999";
    let scene = Missed::new(21, 5, &[&FEW_BANDS[..], &[required]].concat());
    let recall = share(truth(&scene.documents, &scene.output).pairs);
    let [lossy, removed] = lossy_and_removed(&scene);
    assert!(recall > 0.2 && recall < 0.9 && lossy > 0.0 && removed > 0.1, "{recall} {lossy} {removed}");
    let all = ["--to", "clean", "--sample", "100000"];
    let not_proven = "not proven, so nothing is removed: ";
    let found = format!("{not_proven}recall>=0.999, and it is {recall:.4}");
    scene.apply(&all).refused(6, &[&found]);
    let just_missed = format!("removed<={},lossy<={}", removed - 1e-6, lossy - 1e-6);
    let parts = [not_proven, &format!("and it is {removed:.4}"), &format!("and it is {lossy:.4}")];
    let said = scene.apply(&[&all[..], &["--require", &just_missed]].concat()).refused(6, &parts);
    assert!(!said.contains("recall"), "{said}");
    assert!(!scene.path("clean").exists());
    // Nothing is removed by these.
    let table = scene.apply(&["--dry-run", "--sample", "100000"]).shown(&["recall>=0.999", "not proven"]);
    assert!(table.contains(&format!("{recall:.4}")), "{table}");
    scene.apply(&["--to", "annotated", "--annotate"]).success();
    scene.apply(&["--to", "a", "--annotate", "--sample", "9"]).refused(2, &["--require"]);

    let just_met = format!("recall >= {recall}, precision >= 1, lossy <= {lossy}, removed <= {removed}");
    let whole = [&all[..], &["--require", &just_met]].concat();
    let applied = scene.apply(&[&whole[..], &["--json"]].concat()).json();
    assert_eq!(applied["already_finished"], false);
    let read = |name: &str| -> Value {
        serde_json::from_slice(&std::fs::read(scene.path("clean/_resemblance").join(name)).unwrap()).unwrap()
    };
    let (proof, manifest) = (read("proof.json"), read("manifest.json"));
    assert_eq!(applied["proof"], proof);
    let figure = |name: &str| {
        let mut figures = proof["figures"].as_array().unwrap().iter();
        figures.find(|figure| figure["figure"] == name && figure["proven"] == true).unwrap().clone()
    };
    for (name, value) in [("recall", recall), ("precision", 1.0), ("lossy", lossy), ("removed", removed)] {
        let ends = ["value", "low", "high"].map(|end| figure(name)[end].as_f64().unwrap());
        assert_eq!(ends, [value; 3], "{name}");
    }
    let output = std::fs::read(scene.path("out/manifest.json")).unwrap();
    assert_eq!(proof["output_crc32"], crc32fast::hash(&output));
    assert_eq!(proof["output_fingerprint"], manifest["output_fingerprint"]);
    assert_eq!(proof["sample"]["drawn"], proof["sample"]["shingle_sets"]);
    assert_eq!(manifest["settings"], Value::Null);
    assert_eq!(manifest["require"], proof["require"]);
    // The same requirements are the same result, and others are not.
    scene.apply(&whole).shown(&["finished already"]);
    scene.apply(&[&all[..], &["--require", "recall>=0.1"]].concat()).refused(2, &["other options"]);

    scene.command(&["verify", "clean"]).assert().success();
    let path = scene.path("clean/_resemblance/proof.json");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen("true", "TRUE", 1)).unwrap();
    scene.command(&["verify", "clean"]).assert().refused(3, &["proof.json"]);
}

#[test]
fn the_message_names_a_sample_that_suffices() {
    let scene = Missed::new(22, 0, &["minhash.permutations=128", "lsh.bands=32", "lsh.rows=4"]);
    let recall = share(truth(&scene.documents, &scene.output).pairs);
    let require = format!("recall>={}", recall - 0.06);
    let apply = |sample: &str| scene.apply(&["--to", "clean", "--require", &require, "--sample", sample]);
    let said = apply("60").refused(6, &["shingle sets: --sample "]);
    let mut sample = said.split("--sample ").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    assert!(sample.parse::<usize>().unwrap() > 60);
    for _ in 0..3 {
        let ended = apply(&sample);
        if ended.ended().status.success() {
            return;
        }
        let said = ended.refused(6, &["--sample "]);
        sample = said.split("--sample ").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    }
    panic!("{sample} does not suffice");
}

/// Precision by labels, an output that cannot be measured, and outputs without pairs.
#[test]
fn labels_prove_precision_and_reference_outputs_prove_no_recall() {
    let scene = Missed::new(23, 0, &[]);
    scene.command(&["evaluate", "out", "--audit", "100000", "--to", "audit"]).assert().success();
    let drawn = csv_records(&std::fs::read_to_string(scene.path("audit/audit.csv")).unwrap());
    let key = drawn[0].iter().position(|name| name == "key").unwrap();
    let labelled = |name: &str, label: &dyn Fn(usize) -> &'static str| {
        let rows: String =
            drawn[1..].iter().enumerate().map(|(at, row)| format!("{},{}\n", row[key], label(at))).collect();
        std::fs::write(scene.path(name), format!("key,label\n{rows}")).unwrap();
    };
    labelled("tenth.csv", &|at| if at % 10 == 0 { "no" } else { "yes" });
    let all = drawn.len() - 1;
    let precision = share((all - all.div_ceil(10), all));
    let apply = |bound: f64, to: &str| {
        let require = format!("precision>={bound}");
        scene.apply(&["--to", to, "--require", &require, "--labels", "tenth.csv"])
    };
    apply(precision + 1e-6, "clean").refused(6, &[&format!("and it is {precision:.4}")]);
    apply(precision - 1e-6, "clean").success();
    let proof: Value =
        serde_json::from_slice(&std::fs::read(scene.path("clean/_resemblance/proof.json")).unwrap()).unwrap();
    assert_eq!((&proof["labels"]["judged"], &proof["sample"]), (&json!(all), &Value::Null));

    let later: Vec<Document> =
        scene.documents[..50].iter().map(|(id, text)| (format!("later-{id}"), text.clone())).collect();
    scene.write("next.parquet", &later);
    scene.run("next.parquet", "next", &[&scene.against(&["out"])]);
    let next = |require: &str| scene.command(&["apply", "next", "--dry-run", "--require", require]).assert();
    next("recall>=0.5").refused(2, &["merge it"]);
    next("removed<=1,lossy<=1").success();

    let documents: Vec<Document> = (0..9).map(|n| (format!("d{n}"), own_words(n, 9))).collect();
    scene.write("apart.parquet", &documents);
    scene.run("apart.parquet", "apart", &[]);
    let apart = |sample: &str| {
        let require = ["--require", "recall>=0.9,precision>=0.9,lossy<=0,removed<=0", "--sample", sample];
        scene.command(&["apply", "apart", "--to", "apart-clean"]).args(require).assert()
    };
    apart("5").refused(6, &["recall>=0.9, and it is 1.0000 (0.0000 to 1.0000) by 5 of 9"]);
    apart("9").success();
}
