//! `evaluate --audit` and `--labels`: the strata and weights of plain code, estimates that hold the truth, and a page that is filled with
//! the keyboard alone.

use arrow::array::Array;
use resemblance::evaluate::Estimate;
use resemblance::evaluate::audit::{AuditSettings, AuditedPair, Judged, Pack, audit, judge};

use crate::support::*;

type PairOfIds = (String, String);

/// A corpus of two languages with its output.
struct Audited {
    scene: Scene,
    documents: Vec<Document>,
    groups: BTreeMap<String, String>,
}

has_a_scene!(Audited);

impl Audited {
    /// Documents in chains, and thirty of one large cluster.
    fn new(seed: u64, count: usize, sets: &[&str]) -> Self {
        let mut documents = corpus(seed, count, 30);
        let words: Vec<String> = (0..30).map(|word| format!("large{word}")).collect();
        documents.extend((0..30).map(|n| (format!("large{n:02}"), format!("{} {n}", words.join(" ")))));
        Self::of(documents, sets)
    }

    fn of(documents: Vec<Document>, sets: &[&str]) -> Self {
        let scene = Scene::new(&[]);
        let group = |at: usize| if at.is_multiple_of(3) { "=de" } else { "en" };
        let groups = Arc::new(StringArray::from_iter_values((0..documents.len()).map(group)));
        write_columns(&scene.path("in.parquet"), &documents, vec![("lang", groups)], 100);
        scene.run("in.parquet", "out", sets);
        let of = |(at, document): (usize, &Document)| (document.0.clone(), group(at).to_owned());
        let groups = documents.iter().enumerate().map(of).collect();
        Self { scene, documents, groups }
    }

    fn draw(&self, pairs: usize, seed: u64, threads: usize) -> Pack {
        let settings = AuditSettings { pairs, seed, places: Vec::new() };
        block_on(audit(&on(threads), &self.text("out"), &settings)).unwrap()
    }

    fn judge<'a>(
        &self,
        rows: impl IntoIterator<Item = &'a AuditedPair>,
        label: impl Fn(&AuditedPair) -> bool,
    ) -> Judged {
        let word = |row: &AuditedPair| if label(row) { "yes" } else { "no" };
        let lines: String = rows.into_iter().map(|row| format!("{},{}\n", row.key, word(row))).collect();
        let file = self.path("labels.csv");
        std::fs::write(&file, format!("key,label\n{lines}")).unwrap();
        block_on(judge(&on(2), &self.text("out"), file.to_str().unwrap())).unwrap()
    }

    fn sets(&self) -> BTreeMap<&str, BTreeSet<String>> {
        self.documents.iter().map(|(id, text)| (id.as_str(), shingles(text, 3))).collect()
    }

    /// The stratum and the similarity of every pair, by plain code from the tables and the texts.
    fn strata(&self, grouped: bool) -> BTreeMap<PairOfIds, (String, f64)> {
        let sets = self.sets();
        let shared = |a: &str, b: &str| sets[a].intersection(&sets[b]).count() as f64;
        let jaccard = |a: &str, b: &str| {
            let shared = shared(a, b);
            shared / (sets[a].len() as f64 + sets[b].len() as f64 - shared)
        };
        let clusters = table(&self.path("out"), "clusters");
        let (ids, of) = (strings(&clusters, "id"), strings(&clusters, "cluster_id"));
        let stays = bools(&clusters, "representative");
        let direct = optional(&clusters, "jaccard_to_representative");
        let mut members: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        (0..ids.len()).for_each(|row| members.entry(of[row].as_str()).or_default().push(row));
        let mut strata = BTreeMap::new();
        let mut kept: BTreeMap<&str, &str> = BTreeMap::new();
        for rows in members.values() {
            let first = *rows.iter().find(|row| stays[**row]).unwrap();
            for &row in rows {
                kept.insert(&ids[row], &ids[first]);
                if row != first && direct[row].is_none() {
                    let (a, b) = (ids[row].as_str().min(&ids[first]), ids[row].as_str().max(&ids[first]));
                    strata.insert((a.to_owned(), b.to_owned()), ("chained".to_owned(), jaccard(a, b)));
                }
            }
        }
        let size: BTreeMap<&str, usize> = members
            .values()
            .flat_map(|rows| rows.iter().map(|row| (ids[*row].as_str(), rows.len())))
            .collect();
        for (a, b) in pairs(&self.path("out")).into_keys() {
            let jaccard = jaccard(&a, &b);
            // The share of the one that goes, if it goes because of the other.
            let lost = |goes: &str, stays: &str| {
                goes != stays && kept[goes] == stays && shared(goes, stays) / (sets[goes].len() as f64) < 0.98
            };
            let stratum = if jaccard < 0.55 {
                "near_threshold".to_owned()
            } else if lost(&a, &b) || lost(&b, &a) {
                "not_contained".to_owned()
            } else if size[a.as_str()] >= 20 || size[b.as_str()] >= 20 {
                "large_cluster".to_owned()
            } else if grouped && self.groups[&a] == self.groups[&b] {
                format!("group: {}", self.groups[&a])
            } else {
                "random".to_owned()
            };
            assert!(strata.insert((a, b), (stratum, jaccard)).is_none(), "a chained pair is paired");
        }
        strata
    }
}

fn on(threads: usize) -> SessionContext {
    session::session(&EngineSettings { threads, ..EngineSettings::local(1 << 30) }).unwrap()
}

fn ends(row: &AuditedPair) -> PairOfIds {
    (row.id_a.to_string(), row.id_b.to_string())
}

fn sizes(strata: &BTreeMap<PairOfIds, (String, f64)>) -> BTreeMap<&str, usize> {
    strata.values().fold(BTreeMap::new(), |mut sizes, (stratum, _)| {
        *sizes.entry(stratum.as_str()).or_default() += 1;
        sizes
    })
}

#[test]
fn strata_and_weights_equal_plain_code() {
    for (seed, sets) in [(1, &["source.group=lang"][..]), (2, &[])] {
        let scene = Audited::new(seed, 400, sets);
        let strata = scene.strata(!sets.is_empty());
        let sizes = sizes(&strata);
        let expected = if sets.is_empty() { 5 } else { 7 };
        assert_eq!(sizes.len(), expected, "a stratum has no pairs: {sizes:?}");
        let pack = scene.draw(120, 1, 2);
        let found: BTreeMap<&str, usize> =
            pack.strata.iter().map(|stratum| (stratum.name.as_str(), stratum.pairs as usize)).collect();
        assert_eq!(found, sizes);
        let mut drawn: BTreeMap<&str, usize> = BTreeMap::new();
        pack.rows.iter().for_each(|row| *drawn.entry(row.stratum.as_str()).or_default() += 1);
        for (stratum, size) in &sizes {
            // A half of the pairs is shared out evenly.
            let least = (120 / 2 / sizes.len()).min(*size);
            assert!((least..=*size).contains(&drawn[stratum]), "{stratum}: {} of {size}", drawn[stratum]);
        }
        let different: BTreeSet<PairOfIds> = pack.rows.iter().map(ends).collect();
        assert_eq!((pack.rows.len(), different.len()), (120, 120));
        let texts: BTreeMap<&str, &str> =
            scene.documents.iter().map(|(id, text)| (id.as_str(), text.as_str())).collect();
        let source = scene.path("in.parquet").display().to_string();
        for (row, number) in pack.rows.iter().zip(1..) {
            let (a, b) = ends(row);
            assert_eq!((&row.text_a[..], &row.text_b[..]), (texts[a.as_str()], texts[b.as_str()]));
            let shown = row.source_a.as_deref().zip(row.source_b.as_deref());
            assert_eq!(shown, Some((&source[..], &source[..])));
            let (stratum, jaccard) = &strata[&(a, b)];
            assert_eq!((&row.stratum, row.jaccard, row.pair), (stratum, *jaccard, number));
            assert_eq!(row.weight, sizes[stratum.as_str()] as f64 / drawn[stratum.as_str()] as f64);
        }
        let weights: f64 = pack.rows.iter().map(|row| row.weight).sum();
        assert!((weights - strata.len() as f64).abs() < 1e-6, "{weights} of {}", strata.len());
    }
}

#[test]
fn the_seed_decides_for_any_threads() {
    let scene = Audited::new(3, 300, &[]);
    let rows = scene.draw(60, 7, 1).rows;
    for threads in [2, 5] {
        assert_eq!(scene.draw(60, 7, threads).rows, rows);
    }
    assert_ne!(scene.draw(60, 8, 1).rows, rows);
    // Labels of the first half are of all strata, since rows are in a random order.
    let strata = |rows: &[AuditedPair]| rows.iter().map(|row| row.stratum.clone()).collect::<BTreeSet<_>>();
    assert_eq!(strata(&rows[..30]), strata(&rows));
}

/// The labeller of the tests: two texts are duplicates if they are very similar, and by their ids.
fn is_duplicate((a, b): &PairOfIds, jaccard: f64) -> bool {
    let number = |id: &str| id.bytes().map(usize::from).sum::<usize>();
    jaccard >= 0.8 || (number(a) + number(b)).is_multiple_of(3)
}

/// The share of true duplicates among these pairs.
fn truth<'a>(pairs: impl Iterator<Item = (&'a PairOfIds, &'a (String, f64))>) -> f64 {
    let labels: Vec<bool> = pairs.map(|(pair, (_, jaccard))| is_duplicate(pair, *jaccard)).collect();
    labels.iter().filter(|label| **label).count() as f64 / labels.len() as f64
}

#[test]
fn labels_of_all_pairs_are_the_truth() {
    let scene = Audited::new(4, 200, &["source.group=lang"]);
    let strata = scene.strata(true);
    let pack = scene.draw(100_000, 1, 2);
    assert_eq!(pack.rows.len(), strata.len());
    assert!(pack.rows.iter().all(|row| row.weight == 1.0));
    let judged = scene.judge(&pack.rows, |row| is_duplicate(&ends(row), row.jaccard));
    let close = |found: Option<Estimate>, expected: f64| {
        let Estimate { value, low, high } = found.unwrap();
        assert!((value - expected).abs() < 1e-12 && low == value && high == value, "{found:?} {expected}");
    };
    close(judged.all, truth(strata.iter()));
    close(judged.pairs, truth(strata.iter().filter(|(_, (stratum, _))| stratum != "chained")));
    for of in &judged.strata {
        close(of.share, truth(strata.iter().filter(|(_, (stratum, _))| *stratum == of.name)));
    }
    assert_eq!(judged.curve.len(), 11);
    for at in &judged.curve {
        let reach = || {
            strata.iter().filter(|(_, (stratum, jaccard))| stratum != "chained" && *jaccard >= at.threshold)
        };
        assert_eq!((at.pairs as usize, at.judged), (reach().count(), at.pairs));
        close(at.share, truth(reach()));
    }
}

#[test]
fn intervals_hold_the_truth_for_most_seeds() {
    let scene = Audited::new(5, 300, &["source.group=lang"]);
    let strata = scene.strata(true);
    let found = || strata.iter().filter(|(_, (stratum, _))| stratum != "chained");
    let reach = |least: f64| found().filter(move |(_, (_, jaccard))| *jaccard >= least);
    let (mut held, mut wide) = ([0; 4], 0.0_f64);
    let truths = [truth(strata.iter()), truth(found()), truth(reach(0.6)), truth(reach(0.9))];
    for seed in seeds(100) {
        let pack = scene.draw(100, seed, 2);
        assert!(2 * pack.rows.len() < strata.len(), "{} of {}", pack.rows.len(), strata.len());
        let judged = scene.judge(&pack.rows, |row| is_duplicate(&ends(row), row.jaccard));
        let at =
            |least: f64| judged.curve.iter().find(|at| (at.threshold - least).abs() < 1e-9).unwrap().share;
        let estimates = [judged.all, judged.pairs, at(0.6), at(0.9)];
        for ((held, truth), estimate) in held.iter_mut().zip(truths).zip(estimates) {
            let Estimate { value, low, high } = estimate.unwrap();
            assert!(low <= value && value <= high);
            *held += u32::from((low..=high).contains(&truth));
        }
        let all = judged.all.unwrap();
        wide = wide.max(all.high - all.low);
    }
    let cases = seeds(100).count() as u32;
    assert!(held.iter().all(|&held| 100 * held >= 93 * cases), "{held:?} of {cases}");
    // An interval that holds everything would say nothing.
    assert!(wide < 0.35, "{wide}");
}

fn printed(output: &Path, arguments: &[&str]) -> Value {
    program!["evaluate", output].args(arguments).arg("--json").assert().json()
}

#[test]
fn the_files_of_a_pack_are_filled_and_read_back() {
    let scene = Audited::new(6, 200, &[]);
    let output = scene.path("out");
    let folder = scene.path("pack").display().to_string();
    let drawn = printed(&output, &["--audit", "50", "--to", &folder, "--seed", "3"]);
    let rows = scene.draw(50, 3, 2).rows;
    assert_eq!((&drawn["drawn"], drawn["files"].as_array().unwrap().len()), (&50.into(), 3));
    let batch = parquet(&scene.path("pack/audit.parquet"));
    let keys: Vec<String> = rows.iter().map(|row| row.key.clone()).collect();
    assert_eq!((strings(&batch, "key"), batch.num_rows()), (keys.clone(), 50));
    assert_eq!(strings(&batch, "text_b"), rows.iter().map(|row| row.text_b.clone()).collect::<Vec<_>>());
    assert_eq!(floats(&batch, "weight"), rows.iter().map(|row| row.weight).collect::<Vec<_>>());
    assert_eq!(batch.column_by_name("label").unwrap().null_count(), 50);
    let csv = csv_records(&std::fs::read_to_string(scene.path("pack/audit.csv")).unwrap());
    assert_eq!(csv[1..].iter().map(|row| row[1].clone()).collect::<Vec<_>>(), keys);
    // A person fills every second row in a spreadsheet that writes semicolons.
    let label = csv[0].iter().position(|name| name == "label").unwrap();
    let mut writer = csv::WriterBuilder::new().delimiter(b';').from_path(scene.path("filled.csv")).unwrap();
    for (at, mut row) in csv.into_iter().enumerate() {
        if at > 0 {
            row[label] = ["Y", "", "n", "", "?", ""][at % 6].to_owned();
        }
        writer.write_record(row).unwrap();
    }
    writer.flush().unwrap();
    let judged = printed(&output, &["--labels", &scene.text("filled.csv")]);
    let counts = ["rows", "judged", "yes", "unsure", "missing"].map(|name| judged[name].as_u64().unwrap());
    assert_eq!(counts, [50, 17, 8, 8, 25]);
    assert!(judged["all"]["low"].as_f64().unwrap() < judged["all"]["high"].as_f64().unwrap());
    let labels = (0..50).map(|row| (row % 5 > 0).then_some(row % 2 == 0));
    let labels: ArrayRef = Arc::new(labels.collect::<arrow::array::BooleanArray>());
    let columns = ["id_b", "id_a"].map(|name| (name, batch.column_by_name(name).unwrap().clone()));
    let columns = columns.into_iter().chain([("label", labels)]);
    let labelled = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, of)| (name, of, true)));
    write_batch(&scene.path("labels.parquet"), &labelled.unwrap(), 20);
    let file = scene.text("labels.parquet");
    let judged = printed(&output, &["--labels", &file]);
    assert_eq!((&judged["judged"], &judged["missing"], &judged["yes"]), (&40.into(), &10.into(), &20.into()));
    let text = program!["evaluate", &output, "--labels", &file].assert();
    text.shown(&["near_threshold", "10 without a label"]);
    let page = scene.path("report.html");
    program!["report", &output, "--labels", &file, "--to", &page].assert().success();
    let page = std::fs::read_to_string(page).unwrap();
    for part in ["What was judged", "True duplicates among the pairs at a threshold"] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn wrong_labels_are_named_with_their_rows() {
    let scene = Audited::new(7, 100, &[]);
    let output = scene.path("out");
    let key = &scene.draw(20, 1, 2).rows[0].key;
    let refused = |labels: &str, code: i32, hint: &str| {
        let file = scene.path("wrong.csv");
        std::fs::write(&file, labels).unwrap();
        program!["evaluate", &output, "--labels", &file].assert().refused(code, &[hint, "wrong.csv"]);
    };
    refused(&format!("key,label\n{key},perhaps\n"), 3, "row 1: the label is \"perhaps\"");
    refused(&format!("key,label\n{key},y\nk0123456789abcdef,y\n"), 3, "row 2");
    refused("id_a,id_b,label\nd00000,nowhere,y\n", 3, "has no such pair");
    refused("a,b\n", 3, "lacks the column label");
    // Nothing is written over a pack, which may have labels.
    let folder = scene.path("pack");
    let draw = || program!["evaluate", &output, "--audit", "20", "--to", &folder].assert();
    draw().success();
    std::fs::write(folder.join("audit.csv"), "mine").unwrap();
    std::fs::remove_file(folder.join("audit.html")).unwrap();
    draw().refused(2, &["may hold labels"]);
    assert_eq!(std::fs::read_to_string(folder.join("audit.csv")).unwrap(), "mine");
    assert!(!folder.join("audit.html").exists());
    let few = program!["evaluate", &output, "--audit", "1", "--to", "few"].assert();
    few.refused(2, &["a pair of each stratum is drawn"]);
}

const HOSTILE: &str = "<script>document.title = 'owned'</script>\u{202e}\" onload=\"x\u{0}";

fn hostile() -> Audited {
    let text = (0..30).map(|word| format!("w{word}")).collect::<Vec<_>>().join(" ");
    let documents: Vec<Document> = vec![
        (format!("a{HOSTILE}"), format!("{HOSTILE} {text}")),
        (format!("b{HOSTILE}"), format!("{text} {HOSTILE} <img src=http://x.test/ onerror=alert(1)>")),
        ("=HYPERLINK(\"http://x.test/\")".into(), format!("=cmd|' /C calc'!A0 {text}")),
        ("long".into(), format!("{text} {}", "y".repeat(1 << 20))),
        ("i".repeat(5_000), text),
    ];
    Audited::of(documents, &["source.group=lang"])
}

#[test]
fn hostile_ids_and_texts_are_text() {
    let scene = hostile();
    let folder = scene.path("pack").display().to_string();
    printed(&scene.path("out"), &["--audit", "50", "--to", &folder]);
    let html = std::fs::read_to_string(scene.path("pack/audit.html")).unwrap();
    assert_eq!(html.matches("<script").count(), 1, "only the page's own script");
    for raw in ["<img", "\u{202e}", "\u{0}", "\" onload=\""] {
        assert!(!html.contains(raw), "{raw:?}");
    }
    assert!(html.len() < 1 << 18, "long texts are cut: {} bytes", html.len());
    let csv = csv_records(&std::fs::read_to_string(scene.path("pack/audit.csv")).unwrap());
    assert!(csv.len() > 5);
    let dangerous = |field: &&String| field.starts_with(['=', '+', '-', '@', '\t', '\r']);
    assert_eq!(csv.iter().flatten().find(dangerous), None);
    assert!(csv.iter().flatten().any(|field| field.starts_with("'=HYPERLINK")));
    // The ids of the file, with the mark of spreadsheets, name their pairs.
    let place = |name: &str| csv[0].iter().position(|column| column == name).unwrap();
    let mut writer = csv::Writer::from_path(scene.path("labels.csv")).unwrap();
    writer.write_record(["id_a", "id_b", "label"]).unwrap();
    for row in &csv[1..] {
        writer.write_record([&row[place("id_a")], &row[place("id_b")], "yes"]).unwrap();
    }
    writer.flush().unwrap();
    let labels = scene.path("labels.csv").display().to_string();
    assert_eq!(printed(&scene.path("out"), &["--labels", &labels])["yes"], csv.len() - 1);
}

#[test]
fn a_page_is_filled_with_the_keyboard_alone() {
    let scene = hostile();
    let output = scene.path("out");
    let folder = scene.path("pack").display().to_string();
    let drawn = printed(&output, &["--audit", "50", "--to", &folder]);
    let pairs = drawn["drawn"].as_u64().unwrap();
    assert!(pairs >= 6, "{drawn}");
    let Some(mut browser) = Browser::open(&scene.path("pack/audit.html")) else { return };
    let said = |browser: &mut Browser| {
        browser.value("document.getElementById('status').textContent").as_str().unwrap().to_owned()
    };
    // Yes, no, unsure; then back to the second, which becomes a yes; and the third loses its label.
    for key in ["y", "n", "?", "ArrowLeft", "ArrowLeft", "y", "Delete"] {
        browser.press(key);
    }
    assert!(said(&mut browser).contains("Pair 3 of"), "{}", said(&mut browser));
    browser.press("n");
    browser.press("ArrowRight");
    browser.press("Y");
    // The labels survive a visit, and g goes to the first pair without one.
    browser.reload();
    assert!(said(&mut browser).starts_with("Labels of an earlier visit"), "{}", said(&mut browser));
    browser.press("g");
    assert!(said(&mut browser).contains("no label yet"), "{}", said(&mut browser));
    let shown = "Array.from(document.querySelectorAll('article')).filter(a => !a.hidden).length";
    assert_eq!(browser.value(shown), 1);
    browser.press("d");
    let found = browser.value("getComputedStyle(document.querySelector('article:not([hidden]) dl')).display");
    assert_eq!(found, "grid");
    browser.press("s");
    let file = browser.saved();
    let labels = csv_records(&std::fs::read_to_string(&file).unwrap());
    let words: Vec<&str> = labels.iter().map(|row| row[2].as_str()).collect();
    assert_eq!(words[..6], ["label", "yes", "yes", "no", "", "yes"]);
    assert!(words[6..].iter().all(|word| word.is_empty()) && words.len() as u64 == pairs + 1);
    // The same labels as decisions, with the ids of the documents.
    browser.press("w");
    let decisions = csv_records(&std::fs::read_to_string(browser.saved()).unwrap());
    let verdicts: Vec<&str> = decisions.iter().map(|row| row[2].as_str()).collect();
    assert_eq!(verdicts, ["verdict", "same", "same", "different", "same"]);
    let pack = csv_records(&std::fs::read_to_string(scene.path("pack/audit.csv")).unwrap());
    let id_a = pack[0].iter().position(|name| name == "id_a").unwrap();
    let unquoted = |id: &str| id.strip_prefix('\'').unwrap_or(id).to_owned();
    assert_eq!(unquoted(&decisions[1][0]), unquoted(&pack[1][id_a]));
    // Nothing acted, and nothing was asked for besides the page.
    assert!(browser.value("document.title").as_str().unwrap().starts_with("Pairs to judge"));
    let page = format!("file://{}", scene.path("pack/audit.html").display());
    assert!(browser.requests().iter().all(|url| *url == page), "{:?}", browser.requests());
    assert_eq!(browser.value("document.querySelectorAll('article img, article script').length"), 0);
    let judged = printed(&output, &["--labels", file.to_str().unwrap()]);
    let counts = ["rows", "judged", "yes", "missing"].map(|name| judged[name].as_u64().unwrap());
    assert_eq!(counts, [pairs, 4, 3, pairs - 4]);
}
