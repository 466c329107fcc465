//! `forget`: new outputs have the rows of runs over sources that never had the documents, and nothing else changes.

use arrow::util::display::{ArrayFormatter, FormatOptions};

use crate::support::*;

/// The rows of each table of an output as texts, sorted, without the places of documents in files.
fn rows_without_places(output: &Path) -> BTreeMap<String, Vec<String>> {
    let rows = |name: &String| {
        let mut table = table(output, name);
        for column in ["source", "position", "origin_number"] {
            if let Ok(at) = table.schema().index_of(column) {
                table.remove_column(at);
            }
        }
        let options = FormatOptions::default().with_null("null");
        let columns = table.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap());
        let columns: Vec<_> = columns.collect();
        let row = |row| columns.iter().map(|column| format!("{}|", column.value(row))).collect::<String>();
        let mut rows: Vec<String> = (0..table.num_rows()).map(row).collect();
        rows.sort();
        (name.clone(), rows)
    };
    manifest(output).tables.keys().map(rows).collect()
}

/// Where each id of the table `documents` was read.
fn places(output: &Path) -> BTreeMap<String, (String, u64)> {
    let rows = table(output, "documents");
    let places = strings(&rows, "source").into_iter().zip(numbers(&rows, "position"));
    strings(&rows, "id").into_iter().zip(places).collect()
}

/// Days of documents in `in/`, and the same without the forgotten ones in `without/`.
struct Erasure {
    scene: Scene,
    days: Vec<Vec<Document>>,
    forgotten: BTreeSet<String>,
}

has_a_scene!(Erasure);

impl Erasure {
    /// About an eighth of the documents is forgotten, among them a reject and most of the first ones, which often represent others.
    fn new(seed: u64, days: usize, has_new_ids: bool, sets: &[&str]) -> Self {
        let scene = Scene::new(&[&["source.duplicate_ids=reject"], sets].concat());
        let mut random = Random(seed);
        let documents = corpus(seed, 40 * days, 25);
        let mut forgotten: BTreeSet<String> =
            documents.iter().filter(|_| random.below(8) == 0).map(|(id, _)| id.clone()).collect();
        forgotten.extend(documents[..5].iter().map(|(id, _)| id.clone()));
        let mut days: Vec<Vec<Document>> = documents.chunks(40).map(<[Document]>::to_vec).collect();
        for (at, day) in days.iter_mut().enumerate() {
            day.insert(7, (format!("short{at}"), "two words".into()));
            day.insert(9, (format!("brief{at}"), "two words".into()));
            day.extend_from_within(3..5);
            if at > 0 && !has_new_ids {
                let again = documents[10..20].iter().map(|(id, _)| id.clone());
                day.extend(again.zip(documents[at * 5..].iter().map(|(_, text)| text.clone())));
            }
        }
        forgotten.insert("short0".into());
        let erasure = Self { scene, days, forgotten };
        for (at, day) in erasure.days.iter().enumerate() {
            let rest: Vec<_> =
                day.iter().filter(|(id, _)| !erasure.forgotten.contains(id)).cloned().collect();
            assert!(rest.len() < day.len());
            for (folder, documents) in [("in", day), ("without", &rest)] {
                let file = |half: usize| format!("{folder}/day{at}/part-{half}.parquet");
                let (first, second) = documents.split_at(20);
                erasure.write(&file(0), first);
                erasure.write(&file(1), second);
            }
        }
        let ids = erasure.forgotten.iter().map(|id| format!("{id}\n")).collect::<String>();
        std::fs::write(erasure.path("ids.txt"), format!("{ids}\nno such id\n")).unwrap();
        erasure
    }

    /// Runs each day of `folder` against all days before it, and merges them.
    fn run_days(&self, folder: &str, sets: &[&str]) -> Vec<String> {
        let name = |day: usize| format!("{folder}-out/day{day}");
        let names: Vec<String> = (0..self.days.len()).map(name).collect();
        for (day, output) in names.iter().enumerate() {
            let sets = if day == 0 { &[] } else { sets };
            self.run_day(&format!("{folder}/day{day}"), output, &names[..day], sets);
        }
        names
    }

    fn run_day(&self, source: &str, output: &str, before: &[String], sets: &[&str]) {
        let before: Vec<&str> = before.iter().map(String::as_str).collect();
        run(&self.job_against(source, output, &before, sets)).unwrap();
    }

    fn forget(&self, outputs: &[String], to: &str) -> Value {
        let outputs: Vec<&str> = outputs.iter().map(String::as_str).collect();
        let end = ["--ids", "ids.txt", "--to", to, "--json"];
        self.command(&[&["forget"], &outputs[..], &end].concat()).assert().json()
    }

    /// The ids in the files that `apply` writes, including rejects.
    fn kept(&self, output: &str) -> Vec<String> {
        let to = format!("applied/{output}");
        self.apply(output, &to, &[]);
        let written = files(&self.path(&to)).into_keys();
        let written =
            written.filter(|path| !path.components().any(|part| part.as_os_str() == "_resemblance"));
        let mut ids: Vec<String> = written.flat_map(|path| cells(&path, &["id"]).concat()).collect();
        ids.sort();
        assert!(ids.iter().all(|id| !self.forgotten.contains(id)), "{output}");
        ids
    }

    /// Checks that the new output has the rows of `expected`, and the places of `old`.
    fn check(&self, new: &str, expected: &str, old: &str, what: &str) {
        let (found, wanted) =
            (rows_without_places(&self.path(new)), rows_without_places(&self.path(expected)));
        assert_eq!(found.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>(), "{what}");
        for (name, wanted) in &wanted {
            assert_eq!(&found[name], wanted, "{name} of {new}: {what}");
        }
        let old = places(&self.path(old));
        let new_places = places(&self.path(new));
        assert!(new_places.iter().all(|(id, place)| old[id] == *place), "{what}");
        let (new, expected) = (manifest(&self.path(new)), manifest(&self.path(expected)));
        assert_eq!(new.rejects, expected.rejects, "{what}");
        let mut counts = new.counts.clone();
        // Only a reused merged output counts replaced documents.
        (counts.forgotten_documents, counts.replaced_in_sources) = (None, None);
        assert_eq!(counts, expected.counts, "{what}");
    }
}

const SETTINGS: [&[&str]; 10] = [
    &[],
    &["output.keep=shingles", "clusters.method=representative"],
    &["clusters.method=representative", "clusters.contained=0.98", "output.expand=star"],
    &["candidates.method=prefix", "output.keep=shingles"],
    &["candidates.method=all"],
    &["candidates.method=all", "output.keep=shingles", "clusters.method=representative"],
    &["lsh.hot_bucket=3", "output.max_expand=4", "clusters.thresholds=[0.6, 0.9]"],
    &["score.by=signature", "output.keep=none"],
    &["shingle.max_frequency=0.05"],
    &["passages.unit=word", "passages.length=12"],
];

#[test]
fn an_output_has_the_rows_of_a_run_without_the_documents() {
    let mut promoted = 0;
    for seed in seeds(1) {
        for sets in SETTINGS {
            let what = format!("seed {seed}, {sets:?}");
            let erasure = Erasure::new(seed, 1, true, sets);
            erasure.run("in/day0", "in-out", &[]);
            erasure.run("without/day0", "without-out", &[]);
            let before = files(&erasure.path("in-out"));
            let receipt = erasure.forget(&["in-out".into()], "erased");
            assert_eq!(files(&erasure.path("in-out")), before, "{what}");
            erasure.check("erased/in-out", "without-out", "in-out", &what);
            erasure.command(&["verify", "erased/in-out"]).assert().success();
            assert_eq!(receipt["unknown_ids"], json!(["no such id"]), "{what}");
            let output = &receipt["outputs"][0];
            let ids = output["forgotten"].as_array().unwrap();
            let ids: BTreeSet<String> = ids.iter().map(|id| id.as_str().unwrap().to_owned()).collect();
            assert_eq!(ids, erasure.forgotten, "{what}");
            promoted += output["promoted"].as_array().unwrap().len();
            // A later erasure does not bring documents back.
            std::fs::write(erasure.path("ids.txt"), "d00030").unwrap();
            erasure.forget(&["erased/in-out".into()], "again");
            let rest: Vec<Document> = [0, 1]
                .iter()
                .flat_map(|half| {
                    cells(&erasure.path(&format!("without/day0/part-{half}.parquet")), &["id", "text"])
                })
                .map(|row| (row[0].clone(), row[1].clone()))
                .filter(|(id, _)| id != "d00030")
                .collect();
            erasure.write("rest/a.parquet", &rest);
            erasure.run("rest", "rest-out", &[]);
            erasure.check("again/in-out", "rest-out", "in-out", &what);
        }
    }
    assert!(promoted > 10, "{promoted}");
}

#[test]
fn a_chain_has_the_rows_of_runs_without_the_documents() {
    for seed in seeds(1) {
        for sets in &SETTINGS[..4] {
            chain(seed, sets, &[]);
        }
        chain(seed, SETTINGS[6], &[]);
        chain(seed, SETTINGS[1], &["against.same_id=skip"]);
        chain(seed, SETTINGS[0], &["against.same_id=replace"]);
    }
}

/// Forgets documents in three days and in what is merged of them. With a setting for repeated ids, later days have ids of the first day.
fn chain(seed: u64, sets: &[&str], same_id: &[&str]) {
    let what = format!("seed {seed}, {sets:?}, {same_id:?}");
    let erasure = Erasure::new(seed, 3, same_id.is_empty(), &[sets, &[AS_ONE_RUN]].concat());
    let names = erasure.run_days("in", same_id);
    let expected = erasure.run_days("without", same_id);
    let can_merge = !sets.iter().any(|set| set.starts_with("clusters.contained"));
    let mut all = names.clone();
    let merge = |outputs: &[String], to: &str| {
        erasure.merge(&outputs.iter().map(String::as_str).collect::<Vec<_>>(), to).unwrap();
    };
    if can_merge {
        merge(&names, "in-out/merged");
        all.push("in-out/merged".into());
    }
    erasure.forget(&all, "erased");
    let new: Vec<String> = (0..3).map(|day| format!("erased/day{day}")).collect();
    for ((old, new), expected) in names.iter().zip(&new).zip(&expected) {
        erasure.check(new, expected, old, &what);
    }
    // A later day compares with the new outputs.
    erasure.write("in/next/a.parquet", &corpus(seed, 150, 25)[120..]);
    erasure.run_day("in/next", "next", &new, &[]);
    erasure.run_day("in/next", "expected-next", &expected, &[]);
    erasure.check("next", "expected-next", "next", &what);
    std::fs::remove_dir_all(erasure.path("in/next")).unwrap();
    assert_eq!(erasure.kept("erased/day1"), erasure.kept("without-out/day1"), "{what}");
    if !can_merge {
        return;
    }
    merge(&expected, "without-merged");
    erasure.check("erased/merged", "without-merged", "in-out/merged", &what);
    merge(&new, "merged-again");
    erasure.check("merged-again", "without-merged", "in-out/merged", &what);
    if same_id.is_empty() {
        assert_eq!(erasure.kept("erased/merged"), erasure.kept("without-merged"), "{what}");
        // Alone, a merged output becomes that of one run over all files.
        erasure.forget(&["in-out/merged".into()], "alone");
        erasure.run("without", "without-one", &[]);
        erasure.check("alone/merged", "without-one", "in-out/merged", &what);
    }
}

/// A representative, two documents that it represents, and another document, as JSON lines, with the output `out/day1`.
fn representative() -> Scene {
    let scene = Scene::new(&[]);
    let text = own_words("a", 30);
    let last = |words: usize| format!("{text} {}", own_words("end", words));
    let documents =
        [("secret", last(4)), ("next", last(2)), ("third", last(1)), ("other", own_words("o", 30))];
    std::fs::create_dir(scene.path("in")).unwrap();
    scene.write("in/a.jsonl", &documents.map(|(id, text)| (id.to_owned(), text)));
    let job = job_text_of("jsonl", scene.path("in/a.jsonl"), scene.path("out/day1"));
    scene.run_text(&job).success();
    scene
}

#[test]
fn the_next_in_order_represents_and_the_receipt_says_what_still_holds_the_document() {
    let scene = representative();
    scene.apply("out/day1", "clean/day1", &[]);
    let source = scene.text("in/a.jsonl");
    std::fs::write(scene.path("ids.csv"), format!("id,source\nsecret,{source}\nnext,elsewhere\n")).unwrap();
    let before = [files(&scene.path("out")), files(&scene.path("in")), files(&scene.path("clean"))];
    let forget = ["forget", "out/day1/", "--ids", "ids.csv", "--to", "erased"];
    let printed =
        scene.command(&forget).assert().shown(&["1 document forgotten", "No document has 1 id: `next`"]);
    assert!(printed.contains("clean/day1 (result of apply)"), "{printed}");
    assert_eq!([files(&scene.path("out")), files(&scene.path("in")), files(&scene.path("clean"))], before);
    let receipt: Value =
        serde_json::from_slice(&std::fs::read(scene.path("erased/receipt.json")).unwrap()).unwrap();
    let output = &receipt["outputs"][0];
    assert_eq!(output["promoted"], json!([{"id": "next", "instead_of": "secret"}]));
    let rows = |when: &str| output[when]["documents"]["rows"].as_u64().unwrap();
    assert_eq!((rows("tables_before"), rows("tables_after")), (4, 3));
    let held = receipt["still_held"].as_array().unwrap();
    let held: BTreeSet<&str> = held.iter().map(|place| place["url"].as_str().unwrap()).collect();
    let expected = [source, scene.text("out/day1"), scene.text("clean/day1")];
    assert_eq!(held, expected.iter().map(String::as_str).collect());

    let clusters = table(&scene.path("erased/day1"), "clusters");
    let kept = strings(&clusters, "id").into_iter().zip(bools(&clusters, "representative"));
    assert_eq!(kept.collect::<BTreeMap<_, _>>(), [("next".into(), true), ("third".into(), false)].into());
    assert!(!std::fs::read_to_string(scene.path("erased/day1/manifest.json")).unwrap().contains("secret"));
    // The row is still in the source.
    let applied = scene.apply("erased/day1", "clean-again", &[]);
    assert_eq!((&applied["read"], &applied["kept"], &applied["removed"]), (&3.into(), &2.into(), &1.into()));
    let clean = files(&scene.path("clean-again"));
    let secret = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).contains("secret");
    assert!(clean.len() > 1 && !clean.values().any(secret));
    scene.command(&forget).assert().refused(2, &["holds other files (receipt.json)"]);
}

#[test]
fn what_cannot_be_forgotten_is_refused_and_nothing_is_written() {
    let scene = representative();
    let refused = |outputs: &[&str], code: i32, parts: &[&str]| {
        let forget = [&["forget"], outputs, &["--ids", "ids.txt", "--to", "erased"]].concat();
        scene.command(&forget).assert().refused(code, parts);
        assert!(!scene.path("erased").exists(), "{outputs:?}");
    };
    std::fs::write(scene.path("ids.txt"), "nobody\n").unwrap();
    refused(&["out/day1"], 3, &["no document of out/day1 has an id of ids.txt"]);
    std::fs::write(scene.path("ids.txt"), "\n").unwrap();
    refused(&["out/day1"], 3, &["ids.txt contains no id"]);
    std::fs::write(scene.path("ids.txt"), "secret\n").unwrap();
    scene.write("in/b.jsonl", &documents(&[("new", own_words("o", 30))]));
    let job = job_text_of("jsonl", scene.path("in/b.jsonl"), scene.path("out/day2"));
    scene.run_text(&format!("{job}[against]\noutput = {:?}\n", scene.path("out/day1"))).success();
    refused(&["out/day2", "out/day1"], 2, &["day2 was made against", "name it before out/day2"]);
    refused(&["out/day1", "./out/day1"], 2, &["expected each output once"]);
    // The output keeps no shingles, so the texts of candidates are read again.
    std::fs::rename(scene.path("in/a.jsonl"), scene.path("in/gone.jsonl")).unwrap();
    refused(&["out/day1"], 3, &["keeps no shingles", "its source cannot be read again"]);
    std::fs::rename(scene.path("in/gone.jsonl"), scene.path("in/a.jsonl")).unwrap();
    std::fs::create_dir(scene.path("erased")).unwrap();
    std::fs::write(scene.path("erased/mine"), "").unwrap();
    let forget = ["forget", "out/day1", "--ids", "ids.txt", "--to", "erased"];
    scene.command(&forget).assert().refused(2, &["holds other files (mine)"]);
}

/// Every table that a run needs is in an output with shingles, so its source may be gone.
#[test]
fn a_source_is_not_needed_where_shingles_are_kept() {
    let erasure = Erasure::new(5, 1, true, &["output.keep=shingles"]);
    erasure.run("in/day0", "in-out", &[]);
    erasure.run("without/day0", "without-out", &[]);
    std::fs::remove_dir_all(erasure.path("in")).unwrap();
    erasure.forget(&["in-out".into()], "erased");
    erasure.check("erased/in-out", "without-out", "in-out", "no source");
}
