//! Settings that meet: an output that one of them makes, read by what another one adds.

use crate::pipeline::spans::{spans, without_spans};
use crate::support::*;

struct Numbered {
    scene: Scene,
    documents: Vec<Document>,
}

has_a_scene!(Numbered);

impl Numbered {
    /// Writes the documents, and all of them as `all.parquet`.
    fn new(documents: Vec<Document>) -> Self {
        let numbered = Self { scene: Scene::new(&[]), documents };
        numbered.write("all.parquet", |_| true);
        numbered
    }

    fn write(&self, name: &str, is_in: impl Fn(usize) -> bool) {
        let rows: Vec<usize> = (0..self.documents.len()).filter(|&row| is_in(row)).collect();
        let documents: Vec<Document> = rows.iter().map(|&row| self.documents[row].clone()).collect();
        let more: Vec<(&str, ArrayRef)> = vec![
            ("number", Arc::new(Int64Array::from_iter_values(rows.iter().map(|&row| row as i64)))),
            ("site", Arc::new(StringArray::from_iter_values(rows.iter().map(|row| format!("s{}", row % 3))))),
        ];
        write_columns(&self.path(name), &documents, more, 20);
    }
}

#[test]
fn every_kind_of_output_has_a_report_with_the_numbers_of_its_tables() {
    let scene = Numbered::new(corpus(81, 240, 25));
    scene.write("one.parquet", |row| row < 140);
    scene.write("two.parquet", |row| row >= 140);
    scene.run("one.parquet", "one", &["output.keep=shingles"]);
    let known = scene.against(&["one"]);
    let source = second_source(scene.path("one.parquet"), "");
    scene.run("all.parquet", "groups", &["source.group=site"]);
    scene.run("all.parquet", "where", &["source.where='number % 4 <> 1'"]);
    scene.run("all.parquet", "contained", &["clusters.contained=0.9"]);
    scene.run("two.parquet", "outputs", &[&known, "output.keep=shingles"]);
    scene.run("two.parquet", "source", &[&source]);
    scene.merge(&["one", "outputs"], "merged").unwrap();
    for name in ["groups", "where", "contained", "outputs", "source", "merged"] {
        let output = scene.path(name);
        let report = printed(&mut scene.command(&["report", name, "--to", "page.html"]));
        let clusters = table(&output, "clusters");
        let ids: BTreeSet<String> = strings(&clusters, "cluster_id").into_iter().collect();
        let of = |what: &str| report["numbers"][what].as_u64().unwrap() as usize;
        assert_eq!(of("documents"), table(&output, "documents").num_rows(), "{name}");
        assert_eq!(of("pairs"), table(&output, "pairs").num_rows(), "{name}");
        assert_eq!(of("clusters"), ids.len(), "{name}");
        assert!(of("pairs") > 20, "{name}: {}", of("pairs"));
        let html = std::fs::read_to_string(scene.path("page.html")).unwrap();
        assert!(html.contains("</html>") && html.len() < 3 << 20, "{name}");
    }
    // Spared documents are not counted as removed.
    let contained = scene.path("contained");
    let (goes, stays) = (removed(&contained).len(), table(&contained, "spared").num_rows());
    assert!(stays > 0);
    assert_eq!(printed(&mut scene.command(&["report", "contained"]))["numbers"]["removed"], goes - stays);
}

/// Documents with lines of a few words, and some lines repeat.
fn lines(seed: u64, count: usize) -> Vec<Document> {
    let mut random = Random(seed);
    let mut text = |number: usize| {
        let line = |_| match random.below(3) {
            0 => format!("A line that number {} has too", random.below(6)),
            _ => format!("Only here {number} {}", random.below(1 << 30)),
        };
        (0..5).map(line).collect::<Vec<_>>().join("\n")
    };
    (0..count).map(|number| (format!("d{number:03}"), text(number))).collect()
}

#[test]
fn rows_that_are_left_out_have_no_part_in_passages() {
    let scene = Numbered::new(lines(82, 90));
    scene.write("part.parquet", |row| row % 3 != 1);
    for unit in [&["passages.unit=line"][..], &["passages.unit=word", "passages.length=6"]] {
        scene.run("all.parquet", "all", unit);
        scene.run("all.parquet", "where", &[unit, &["source.where='number % 3 <> 1'"]].concat());
        scene.run("part.parquet", "part", unit);
        let found = spans(&scene.path("where"));
        assert_eq!(found, spans(&scene.path("part")), "{unit:?}");
        assert!(found.len() > 20, "{unit:?}: {}", found.len());
        assert!(found.len() < spans(&scene.path("all")).len(), "{unit:?}: {}", found.len());

        // A sample: the passages of the documents that are drawn.
        scene.run("all.parquet", "limit", &[unit, &["source.limit=40"]].concat());
        let drawn: BTreeSet<String> =
            strings(&table(&scene.path("limit"), "documents"), "id").into_iter().collect();
        assert_eq!(drawn.len(), 40);
        scene.write("drawn.parquet", |row| drawn.contains(&scene.documents[row].0));
        scene.run("drawn.parquet", "drawn", unit);
        assert_eq!(spans(&scene.path("limit")), spans(&scene.path("drawn")), "{unit:?}");
        for output in ["all", "where", "part", "limit", "drawn"] {
            std::fs::remove_dir_all(scene.path(output)).unwrap();
        }
    }
}

#[test]
fn the_rows_that_are_left_out_are_not_evaluated() {
    let scene = Numbered::new(corpus(84, 260, 25));
    scene.write("part.parquet", |row| row % 4 != 2);
    scene.run("all.parquet", "where", &["source.where='number % 4 <> 2'"]);
    scene.run("part.parquet", "part", &[]);
    let of = |output: &str| printed(&mut scene.command(&["evaluate", output, "--sample", "1000"]));
    let (found, expected) = (of("where"), of("part"));
    assert!(found["recall"]["pairs"]["value"].as_f64().unwrap() > 0.9, "{found}");
    assert_eq!(found["recall"], expected["recall"]);
    assert_eq!(found["wrong_pairs"], expected["wrong_pairs"]);
}

/// The header does not count for pairs, and is cut out of the texts. Passages cover all words.
#[test]
fn passages_are_cut_where_templates_do_not_count() {
    let header = "This page of the shop has a header of some words";
    let mut documents = corpus(87, 200, 25);
    for (number, (_, text)) in documents.iter_mut().enumerate() {
        if number % 5 > 0 {
            *text = format!("{header}\n{text}");
        }
    }
    documents[7].1 = header.to_owned();
    let scene = Numbered::new(documents);
    let with = ["passages.unit=line", "passages.min_words=3", "clusters.contained=0.9"];
    scene.run("all.parquet", "out", &[&["shingle.max_frequency=0.3"], &with[..]].concat());
    let output = scene.path("out");
    assert_eq!(strings(&table(&output, "rejects"), "reason"), ["only_template"]);
    let found = spans(&output);
    assert!(found.iter().filter(|span| span.bytes == (0, header.len() + 1)).count() > 100);

    scene.apply("out", "clean", &["--passages", "cut"]);
    let spared: BTreeSet<String> = strings(&table(&output, "spared"), "id").into_iter().collect();
    let gone: BTreeSet<String> = removed(&output).difference(&spared).cloned().collect();
    let stay = scene.documents.iter().filter(|(id, _)| !gone.contains(id)).cloned();
    let expected: BTreeMap<String, String> = stay.map(|document| without_spans(document, &found)).collect();
    let texts: BTreeMap<String, String> =
        string_pairs(&parquet(&scene.path("clean/all.parquet")), ["id", "text"]);
    assert_eq!(texts, expected);
    // The document that is nothing else is rejected, and its text is cut all the same.
    let headed: Vec<&String> =
        texts.iter().filter(|(_, text)| text.starts_with(header)).map(|(id, _)| id).collect();
    assert_eq!((headed.len(), texts["d00007"].as_str()), (1, ""));
    assert!(!gone.is_empty() && texts.len() > 60, "{}", texts.len());
}

#[test]
fn a_report_of_an_object_store_is_that_of_the_disk() {
    let server = S3::start();
    let scene = Numbered::new(corpus(88, 160, 25));
    let keep = "output.keep=shingles";
    scene.run("all.parquet", "out", &[keep]);
    server.put("in.parquet", std::fs::read(scene.path("all.parquet")).unwrap());
    let job = job_text(server.url("in.parquet"), server.url("out"));
    std::fs::write(scene.path("job.toml"), job).unwrap();
    scene.command(&["run", "job.toml", "--set", keep]).envs(server.env()).assert().success();
    let mut report = scene.command(&["report", &server.url("out"), "--json", "--to", "page.html"]);
    let of_store = report.envs(server.env()).assert().json();
    let of_disk = printed(&mut scene.command(&["report", "out", "--to", "disk.html"]));
    assert_eq!(of_store["numbers"], of_disk["numbers"]);
    assert!(of_store["numbers"]["pairs"].as_u64().unwrap() > 20);
    assert!(std::fs::read_to_string(scene.path("page.html")).unwrap().contains("</html>"));
}

#[test]
fn a_line_that_is_too_long_is_copied_or_left_out_whole() {
    let scene = Numbered::new(corpus(94, 40, 20));
    let line = |id: &str, text: &str| format!("{}\n", json!({"id": id, "text": text}));
    let mut all: Vec<(&str, String)> =
        scene.documents.iter().map(|(id, text)| (id.as_str(), line(id, text))).collect();
    all.insert(7, ("long", line("long", &"word ".repeat(400))));
    let text: String = all.iter().map(|(_, line)| line.as_str()).collect();
    std::fs::write(scene.path("in.jsonl"), text).unwrap();
    scene.run("in.jsonl", "out", &["source.format=jsonl", "source.max_text=1KiB"]);
    let output = scene.path("out");
    assert_eq!(strings(&table(&output, "rejects"), "reason"), ["too_long"]);
    let mut gone = removed(&output);
    assert!(gone.len() > 3);
    for rejects in ["keep", "drop"] {
        scene.apply("out", rejects, &["--rejects", rejects]);
        let kept = std::fs::read_to_string(scene.path(rejects).join("in.jsonl")).unwrap();
        let expected = all.iter().filter(|(id, _)| !gone.contains(*id)).map(|(_, line)| line.as_str());
        assert_eq!(kept, expected.collect::<String>(), "{rejects}");
        gone.insert("long".to_owned());
    }
    let neighbors = |id: &str| scene.command(&["neighbors", "out", "--id", id]).assert();
    neighbors(&scene.documents[8].0).success();
    neighbors("long").failure();
}

/// The texts that `apply` wrote are the same reference documents, also where groups count.
#[test]
fn a_run_against_a_result_of_apply_resumes_and_finds_its_passages() {
    let scene = Numbered::new(lines(95, 100));
    scene.write("first.parquet", |row| row % 2 == 0);
    scene.write("second.parquet", |row| row % 2 == 1);
    let sets = "source.columns=['site'] source.group=site candidates.method=none clusters.keep=['id'] \
                shingle.size=1 passages.unit=line passages.min_words=3";
    let sets: Vec<&str> = sets.split(' ').collect();
    scene.run("first.parquet", "first", &sets);
    scene.apply("first", "clean", &["--passages", "cut"]);
    let against = scene.against(&["clean"]);
    let of_second = |name: &str, against: &str| {
        job(&scene.path("second.parquet"), &scene.path(name), &[&sets[..], &[against]].concat())
    };
    stopping::same_rows(|name| of_second(name, &against), 2, &["documents", "spans"]);
    let source = second_source(scene.path("clean/first.parquet"), ", group = 'site'");
    run(&of_second("source", &source)).unwrap();
    let of = |name: &str| {
        let kept_groups = strings(&table(&scene.path(name), "spans"), "kept_group");
        (spans(&scene.path(name)), kept_groups)
    };
    assert_eq!(of("undisturbed"), of("source"));
    let shown = |output: &str, passage: &str| -> Vec<Value> {
        let show = ["show", output, "--json", "--top", "100", "--passage", passage];
        let printed = scene.command(&show).assert().shown(&[]);
        let places = printed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let names = ["id", "char_start", "char_end", "kept", "reference"];
        places.map(|place| json!(names.map(|name| &place[name]))).collect()
    };
    let passages = table(&scene.path("source"), "passages");
    let found = strings(&passages, "passage_id").into_iter().zip(numbers(&passages, "reference_documents"));
    let known: Vec<String> = found.filter(|(_, documents)| *documents > 0).map(|(id, _)| id).collect();
    assert!(known.len() > 3, "{known:?}");
    for passage in known.iter().take(4) {
        assert_eq!(shown("undisturbed", passage), shown("source", passage));
    }
}

#[test]
fn methods_that_miss_contained_pairs_are_refused() {
    let scene = Scene::new(&[]).with_job("in.parquet", &corpus(1, 10, 20));
    let prefix = "candidates.method=prefix";
    for (command, sets, said) in [
        ("run", &[][..], "`candidates.method` is \"lsh\""),
        ("run", &[prefix, "score.by=signature"], "`score.by`"),
        ("run", &[prefix, "score.prefilter=true"], "`score.prefilter`"),
        ("compare", &[prefix], "`score.measure`"),
    ] {
        let mut asked = scene.command(&[command, "job.toml", "--set", "score.measure=containment"]);
        asked.args(sets.iter().flat_map(|set| ["--set", set])).assert().refused(2, &[said]);
    }
    assert!(!scene.path("out").exists());
}
