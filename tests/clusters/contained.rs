//! `clusters.contained` in `apply` and over days; random cases are in `brute_force`.

use crate::support::oracle::answer::{Answer, Documents, add, answer};
use crate::support::oracle::corpus::{Corpus, sorted, write};
use crate::support::oracle::found::spared;
use crate::support::oracle::settings::Settings;
use crate::support::*;

/// A corpus of one source, and the outputs `safe` and `plain` of its job with `clusters.contained` and without.
struct ContainedScene {
    scene: Scene,
    settings: Settings,
    documents: Documents,
}

has_a_scene!(ContainedScene);

impl ContainedScene {
    fn new(seed: u64, representative: bool) -> Self {
        let settings = Settings {
            representative,
            keep: "[]",
            threshold: 0.4,
            method: "all",
            max_expand: 1000,
            star: false,
            compare: None,
            thresholds: Vec::new(),
            ..Settings::of_losses(6, &mut Random(seed))
        };
        let scene = Self { scene: Scene::new(&[]), settings, documents: Documents::new() };
        let path = scene.path("in.parquet");
        let files = vec![(path.display().to_string(), Corpus::new(seed, scene.settings.shape).documents(70))];
        write(&path, &files[0].1, 20);
        let mut documents = Documents::new();
        add(&mut documents, &sorted(&files, &scene.settings).unwrap(), &scene.settings, false, 0);
        for (output, contained) in [("safe", Some(0.9)), ("plain", None)] {
            let sets = Settings { contained, ..scene.settings.clone() }.sets();
            let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
            run(&job(&path, &scene.path(output), &sets)).unwrap();
        }
        Self { documents, ..scene }
    }

    fn expected(&self, contained: Option<f64>) -> Answer {
        answer(&self.documents, 0, &Settings { contained, ..self.settings.clone() })
    }
}

/// The old text of `r` has all shingles of the new documents, and its new text does not.
#[test]
fn a_replaced_text_does_not_decide_what_is_contained_or_lost() {
    let words = |of: &str, count: usize| (0..count).map(|n| format!("{of}{n}")).collect::<Vec<_>>().join(" ");
    let (base, [x, y]) = (words("b", 60), ["x", "y"].map(|of| words(of, 4)));
    let old = format!("{base} {x} {} {base} {y} {}", words("z", 30), words("v", 5));
    let day = |texts: &[(&str, String)]| -> Vec<Document> {
        texts.iter().map(|(id, text)| (id.to_string(), text.clone())).collect()
    };
    let first = day(&[("r", old), ("s", words("s", 70))]);
    let texts = [
        ("r", format!("{base} {}", words("q", 5))),
        ("n1", format!("{base} {x}")),
        ("n2", format!("{base} {y}")),
    ];
    let second = day(&texts);
    let of = |at: usize| shingles(&second[at].1, 3);
    let gone: BTreeSet<String> = of(1).union(&of(2)).cloned().collect();
    let gone = gone.difference(&of(0)).count() as u64;
    for more in [
        &["output.keep=signatures"][..],
        &["output.keep=shingles"],
        &["output.keep=shingles", "candidates.method=prefix"],
    ] {
        let path = paths();
        write_parquet(&path("1.parquet"), &first, 10);
        write_parquet(&path("2.parquet"), &second, 10);
        let sets = [&["score.threshold=0.7"][..], more].concat();
        run(&job(&path("1.parquet"), &path("one"), &sets)).unwrap();
        let against = format!("against.output={:?}", path("one"));
        let again = [&sets[..], &[against.as_str(), "against.same_id=replace"]].concat();
        run(&job(&path("2.parquet"), &path("two"), &again)).unwrap();
        let counts = manifest(&path("two")).counts;
        let found = (counts.removed_documents, counts.lossy_removals, counts.lost_shingles);
        assert_eq!(found, (2, Some(2), Some(gone)), "{more:?}");
        run(&job(&path("2.parquet"), &path("safe"), &[&again[..], &["clusters.contained=0.98"]].concat()))
            .unwrap();
        let ids: Vec<String> = spared(&path("safe")).into_keys().map(|(id, _)| id).collect();
        assert_eq!(ids, ["n1", "n2"], "{more:?}");
    }
}

/// The ids that an application removes, by its table.
fn removed(to: &Path) -> Vec<String> {
    let mut ids = strings(&parquet(&to.join("_resemblance/removed")), "id");
    ids.sort();
    ids
}

#[test]
fn apply_spares_documents_by_job_or_option() {
    let mut differ = 0;
    for (seed, representative) in [(3, true), (5, false)] {
        let scene = ContainedScene::new(seed, representative);
        let applied = scene.apply("safe", "to", &[]);
        let safe = scene.expected(Some(0.9)).losses;
        assert_eq!(removed(&scene.path("to")), safe.removed);
        assert_eq!(applied["losses"]["spared"], safe.spared.len());
        assert_eq!(applied["losses"]["lossy_removals"], safe.lossy);
        assert_eq!(applied["losses"]["lost_shingles"], safe.gone);
        for share in [0.5, 0.9, 1.0] {
            let wanted = scene.expected(Some(share)).losses;
            let option = format!("--contained={share}");
            for output in ["safe", "plain"] {
                let dry = scene.apply(output, "dry", &["--dry-run", &option]);
                let known = output == "safe" && share == 0.9;
                // Without the key copies of a spared document stay with it.
                let copies = if known { 0 } else { wanted.copies.len() };
                assert_eq!(dry["removed"], wanted.removed.len() - copies, "{output} {share}");
                assert_eq!(dry["losses"]["lossy_removals"], wanted.lossy, "{output} {share}");
                let gone = known.then_some(wanted.gone);
                assert_eq!(dry["losses"]["lost_shingles"], json!(gone), "{output} {share}");
            }
            let to = format!("to {share}");
            scene.apply("plain", &to, &[&option]);
            let stays = |id: &String| wanted.copies.contains_key(&(id.clone(), false));
            let without: Vec<String> = wanted.removed.iter().filter(|id| !stays(id)).cloned().collect();
            assert_eq!(removed(&scene.path(&to)), without, "{share}");
            let all = scene.expected(None).losses.removed.len();
            differ += wanted.copies.len() + all - wanted.removed.len();
        }
    }
    assert!(differ > 30, "{differ}");
}

#[test]
fn annotated_documents_that_are_spared_represent_themselves() {
    let scene = ContainedScene::new(7, false);
    scene.apply("safe", "to", &["--annotate"]);
    let expected = scene.expected(Some(0.9)).losses;
    let rows = parquet(&scene.path("to"));
    let (mut own, mut others) = (0, 0);
    let (ids, kept) = (strings(&rows, "id"), strings(&rows, "kept_id"));
    for (row, stays) in strings(&rows, "representative").iter().enumerate().filter(|(_, of)| *of != "<null>")
    {
        let stays = stays == "true";
        assert_eq!(stays, !expected.removed.contains(&ids[row]), "{}", ids[row]);
        assert_eq!(stays, kept[row] == ids[row], "{}", ids[row]);
        own += usize::from(expected.spared.contains_key(&(ids[row].clone(), false)));
        others += usize::from(!stays);
    }
    assert!(own > 3 && others > 3 && others == expected.removed.len(), "{own} {others}");
}

#[test]
fn pairs_left_out_by_stars_are_an_error_of_the_option_only() {
    let path = paths();
    let words = |n: usize| (0..n).map(|n| format!("w{n}")).collect::<Vec<_>>().join(" ");
    let texts = [words(30), words(30), words(30), words(26), words(26), words(26)];
    let documents: Vec<Document> = (0..).map(|n| format!("d{n}")).zip(texts).collect();
    write_parquet(&path("in.parquet"), &documents, 10);
    let (input, output) = (path("in.parquet"), path("out"));
    run(&job(&input, &output, &["output.expand=star", "clusters.keep=['id desc']"])).unwrap();
    let ran = resemblance().arg("apply").arg(&output).args(["--dry-run", "--contained", "0.98"]).assert();
    ran.refused(2, &["clusters.contained = 0.98", "--contained"]);
    let safe = path("safe");
    let sets = ["output.expand=star", "clusters.keep=['id desc']", "clusters.contained=0.98"];
    run(&job(&input, &safe, &sets)).unwrap();
    // d5 represents the cluster: its 24 shingles are a smaller share of the 28 of the first three.
    let kept: Vec<_> = spared(&safe).into_keys().map(|(id, _)| id).collect();
    assert_eq!(kept, ["d2"]);
    let copies = table(&safe, "spared_copies");
    assert_eq!(strings(&copies, "id"), vec!["d0".to_owned(), "d1".to_owned()]);
    assert_eq!(strings(&copies, "kept_id"), vec!["d2".to_owned(); 2]);
}
