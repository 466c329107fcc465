//! `[passages]` with `[against]`: what new documents have of reference documents, against plain code.

use crate::pipeline::spans::{Searched, Span, check_passages, removals_last, spans};
use crate::pipeline::{spans as units, word_runs};
use crate::support::*;

/// New documents and reference documents, and the passages of a job.
struct Case {
    scene: Scene,
    new: Vec<Document>,
    known: Vec<Document>,
    unit: &'static str,
    /// The least words of a passage.
    words: usize,
    gap: usize,
    new_old: bool,
    sets: Vec<String>,
}

has_a_scene!(Case);

impl Case {
    /// Documents with many common passages. Half of the ids are in both sources.
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let unit = ["line", "sentence", "paragraph", "word", "word", "word"][seed as usize % 6];
        let (count, vocabulary) = (20 + random.below(30), [2, 30, 1_000][random.below(3)]);
        let documents = match unit {
            "word" => word_runs::texts(&mut random, count, vocabulary),
            _ => units::texts(&mut random, count),
        };
        let middle = 1 + random.below(count - 2);
        let (new, known) = documents.split_at(middle);
        let mut known = known.to_vec();
        known.iter_mut().step_by(2).zip(new).for_each(|(known, new)| known.0 = new.0.clone());
        known.push(("short".into(), "one".into()));
        let words = if unit == "word" { 2 + random.below(15) } else { 1 + random.below(3) };
        let gap = if unit == "word" { random.below(5) } else { 0 };
        let new_old = random.below(2) == 0;
        let mut sets = vec![
            format!("passages.unit={unit}"),
            format!("against.pairs={}", ["new-old+new-new", "new-old"][usize::from(new_old)]),
            format!("engine.threads={}", 1 + random.below(3)),
            "lsh.bands=1".to_owned(),
            "lsh.rows=4".to_owned(),
            "minhash.permutations=4".to_owned(),
        ];
        match unit {
            "word" => sets.extend([
                format!("passages.length={words}"),
                format!("passages.gap={gap}"),
                "shingle.words=word-characters".to_owned(),
            ]),
            _ => sets.push(format!("passages.min_words={words}")),
        }
        let scene = Scene::new(&[]);
        let case = Self { scene, new: new.to_vec(), known, unit, words, gap, new_old, sets };
        write_parquet(&case.path("new.parquet"), &case.new, 7);
        write_parquet(&case.path("known.parquet"), &case.known, 7);
        case
    }

    /// The job over `input` with the passages of this case.
    fn job(&self, input: &str, output: &str, sets: &[&str]) -> Job {
        let own = self.sets.iter().map(String::as_str);
        job(&self.path(input), &self.path(output), &own.chain(sets.iter().copied()).collect::<Vec<_>>())
    }

    /// The job over the new documents, with the reference documents as a second source.
    fn with_source(&self, output: &str, sets: &[&str]) -> Job {
        let source = second_source(self.path("known.parquet"), "");
        self.job("new.parquet", output, &[sets, &[&source]].concat())
    }

    fn expected(&self, documents: &Searched) -> Vec<Span> {
        match self.unit {
            "word" => word_runs::expected_against(documents, self.new_old, self.words, self.gap),
            unit => units::expected_against(documents, self.new_old, unit, self.words),
        }
    }
}

fn marked(documents: Vec<Document>, reference: bool) -> Searched {
    documents.into_iter().map(|document| (reference, document)).collect()
}

/// The ids of the documents of an output.
fn compared(output: &Path) -> BTreeSet<String> {
    strings(&table(output, "documents"), "id").into_iter().collect()
}

#[test]
fn repeated_passages_and_those_of_a_second_source_are_found() {
    let (mut known, mut kept, mut both, mut alone_gone) = (0, 0, 0, 0);
    for seed in seeds(30) {
        let mut case = Case::new(seed);
        // Every other unit is searched without a second source.
        let has_source = seed / 6 % 2 == 0;
        if !has_source {
            case.known.clear();
            case.new_old = false;
        }
        let mut random = Random(seed ^ 0xff);
        let order = [&["id"][..], &["id desc"], &["length desc", "id"]][random.below(3)];
        let keep = format!("clusters.keep={order:?}");
        // The reference documents that can be compared, and their sizes, by a run over them alone.
        let alone: Vec<&str> = case.sets.iter().map(String::as_str).collect();
        let alone: Vec<&str> = alone.into_iter().filter(|set| !set.contains("against")).collect();
        run(&job(&case.path("known.parquet"), &case.path("alone"), &alone)).unwrap();
        let searched = match has_source {
            true => case.with_source("out", &[&keep]),
            false => job(&case.path("new.parquet"), &case.path("out"), &[&alone[..], &[&keep]].concat()),
        };
        run(&searched).unwrap();
        let sorted = |documents: &[Document], output: &str| {
            let rows = table(&case.path(output), "documents");
            let sizes: BTreeMap<String, u64> =
                strings(&rows, "id").into_iter().zip(numbers(&rows, "shingle_count")).collect();
            let mut documents: Vec<Document> =
                documents.iter().filter(|(id, _)| sizes.contains_key(id)).cloned().collect();
            documents.sort();
            match order[0] {
                "id desc" => documents.reverse(),
                "id" => {}
                _ => documents.sort_by_key(|(id, _)| std::cmp::Reverse(sizes[id])),
            }
            documents
        };
        let new = removals_last(&sorted(&case.new, "out"), &case.path("out"));
        let searched = [marked(sorted(&case.known, "alone"), true), marked(new, false)].concat();
        let found = spans(&case.path("out"));
        assert_eq!(found, case.expected(&searched), "seed {seed}");
        let texts: BTreeMap<String, String> = case.new.iter().cloned().collect();
        check_passages(&case.path("out"), &found, &texts, None);
        for span in &found {
            known += usize::from(span.kept_reference);
            kept += usize::from(span.kept);
            alone_gone += usize::from(!span.kept && !has_source);
            both += usize::from(span.kept_reference && case.new.iter().any(|(id, _)| *id == span.kept_at.0));
        }
    }
    assert!(
        seeds(30).count() < 30 || known > 100 && kept > 25 && both > 25 && alone_gone > 100,
        "{known} {kept} {both} {alone_gone}"
    );
}

/// Two earlier days, where the second was run against the first; documents that come again replace others.
#[test]
fn texts_that_earlier_outputs_keep_stay_there() {
    let (mut known, mut kept, mut of_removed) = (0, 0, 0);
    for seed in seeds(12) {
        let case = Case::new(seed);
        let mut random = Random(seed ^ 0xff);
        let (one, two) = case.known.split_at(case.known.len() / 2);
        // Copies of documents of the days before, which are removed, and documents that replace others.
        let renamed = |documents: &[Document], day: &str| -> Vec<Document> {
            documents.iter().map(|(id, text)| (format!("{day}-{id}"), text.clone())).collect()
        };
        let (mut one, mut two) = (renamed(one, "a"), renamed(two, "b"));
        let mut new = renamed(&case.new, "c");
        two.push(("b-copy".into(), one[random.below(one.len())].1.clone()));
        new.push(("c-copy".into(), two[random.below(two.len())].1.clone()));
        let copied = one[random.below(one.len())].1.clone();
        one.push(("a-copy".into(), copied));
        let replaces = random.below(2) == 0;
        if replaces {
            new[0].0 = one[0].0.clone();
        }
        for (name, documents) in [("one", &one), ("two", &two), ("three", &new)] {
            write_parquet(&case.path(&format!("{name}.parquet")), documents, 7);
        }
        let keep = ["output.keep=shingles", "output.keep=signatures"][random.below(2)];
        let method = ["clusters.method=components", "clusters.method=representative"][random.below(2)];
        let all = ["clusters.keep=['id']", keep, method];
        // The earlier days find no passages.
        let plain: Vec<&str> = case.sets.iter().map(String::as_str).collect();
        let plain: Vec<&str> = plain
            .into_iter()
            .filter(|set| !set.contains("against") && !set.contains("passages"))
            .chain(all)
            .collect();
        let day = |name: &str, sets: &[&str]| {
            let input = case.path(&format!("{name}.parquet"));
            run(&job(&input, &case.path(name), &[&plain, sets].concat())).unwrap();
        };
        day("one", &[]);
        day("two", &[&case.against(&["one"])]);
        let both = ["against.same_id=replace", &case.against(&["one", "two"])];
        run(&case.job("three.parquet", "three", &[&all[..], &both].concat())).unwrap();
        // Documents that are too short come after the compared ones.
        let sorted = |documents: &[Document], day: &str, are_compared: bool| {
            let ids = compared(&case.path(day));
            let is_one = |(id, _): &&Document| ids.contains(id) == are_compared;
            let mut documents: Vec<Document> = documents.iter().filter(is_one).cloned().collect();
            documents.sort();
            documents
        };
        // Documents that a day removes come after all others.
        let removed: BTreeSet<String> =
            ["one", "two"].iter().flat_map(|day| removed(&case.path(day))).collect();
        let replaced =
            |id: &String| replaces && *id == new[0].0 && compared(&case.path("three")).contains(id);
        let mut earlier = [sorted(&one, "one", true), sorted(&two, "two", true)].concat();
        earlier.retain(|(id, _)| !replaced(id));
        let (mut gone, stay): (Vec<_>, Vec<_>) =
            earlier.into_iter().partition(|(id, _)| removed.contains(id));
        gone.sort();
        let mut short = [sorted(&one, "one", false), sorted(&two, "two", false)].concat();
        short.retain(|(id, _)| !replaced(id));
        short.sort();
        let of_new = [sorted(&new, "three", true), sorted(&new, "three", false)].concat();
        let of_new = removals_last(&of_new, &case.path("three"));
        let searched =
            [marked([stay, short].concat(), true), marked(of_new, false), marked(gone.clone(), true)]
                .concat();
        let found = spans(&case.path("three"));
        assert_eq!(found, case.expected(&searched), "seed {seed}");
        known += found.iter().filter(|span| span.kept_reference).count();
        kept += found.iter().filter(|span| span.kept).count();
        of_removed += usize::from(!gone.is_empty());
    }
    assert!(known > 100 && kept > 15 && of_removed > 7, "{known} {kept} {of_removed}");
}

#[test]
fn a_run_that_was_stopped_finds_the_same_passages_of_reference_documents() {
    let path = paths();
    let lines = ["passages.unit=sentence", "passages.min_words=1"];
    let words = ["passages.unit=word", "passages.length=6", "against.pairs=new-old"];
    for (documents, sets) in [
        (units::texts(&mut Random(5), 90), &lines[..]),
        (word_runs::texts(&mut Random(5), 90, 1_000), &words),
    ] {
        write_parquet(&path("new.parquet"), &documents[..40], 10);
        write_parquet(&path("known.parquet"), &documents[40..], 10);
        let source = second_source(path("known.parquet"), "");
        let sets = [sets, &[source.as_str()]].concat();
        let of = |name: &str| {
            let output = path(&format!("{}{name}", sets[0]));
            job(&path("new.parquet"), &output, &sets)
        };
        stopping::same_rows(of, 2, &["spans", "passages"]);
    }
}

#[test]
fn passages_of_reference_documents_are_the_same_for_any_threads_and_memory() {
    let path = paths();
    let documents = word_runs::texts(&mut Random(7), 6_000, 1_000);
    let (new, known) = documents.split_at(2_000);
    write_parquet(&path("new.parquet"), new, 500);
    write_parquet(&path("known.parquet"), known, 500);
    let source = second_source(path("known.parquet"), "");
    for passages in
        [&["passages.unit=word", "passages.length=8"][..], &["passages.unit=line", "passages.min_words=1"]]
    {
        let at = |name: &str, threads: &str, memory: &str| {
            let output = path(&format!("{}{name}", passages[0]));
            run(&job(&path("new.parquet"), &output, &[passages, &[threads, memory, &source]].concat()))
                .unwrap();
            ["spans", "passages"].map(|name| table(&output, name))
        };
        let first = at("one", "engine.threads=1", "engine.memory=1GiB");
        assert!(first.iter().all(|table| table.num_rows() > 1_000));
        assert_eq!(at("four", "engine.threads=4", "engine.memory=1GiB"), first);
        assert_eq!(at("small", "engine.threads=2", "engine.memory=24MiB"), first);
    }
}

/// Documents of a second source whose id an earlier one has have no passages, and short ones do; groups come from the new documents.
#[test]
fn reference_documents_are_searched_if_they_have_an_id_of_their_own() {
    let path = paths();
    let of = |documents: &[(&str, &str)]| -> Vec<Document> {
        documents.iter().map(|(id, text)| (id.to_string(), text.to_string())).collect()
    };
    let new = of(&[
        ("a", "All have\nand Words of its own"),
        ("b", "Some more Words here\nand Others of b\nOnly b"),
    ]);
    let known = of(&[
        ("a", "All have"),
        ("k", "All have\nbut Words of k too"),
        ("k", "Only b\nbut more Words of k"),
        ("b", "and others of B\nand a few more words"),
    ]);
    write_parquet(&path("new.parquet"), &new, 10);
    let none = vec![String::new(); known.len()];
    units::write_with_years(&path("known.parquet"), &known, &none, &none);
    let source = second_source(path("known.parquet"), ", duplicate_ids = 'reject', group = 'site'");
    let sets = ["passages.unit=line", "passages.min_words=2", "against.pairs=new-old", &source];
    run(&job(&path("new.parquet"), &path("out"), &sets)).unwrap();
    let found: Vec<(String, usize, usize, String, bool)> = spans(&path("out"))
        .into_iter()
        .map(|s| (s.id, s.occurrences, s.reference_documents, s.kept_at.0, s.kept_reference))
        .collect();
    let span = |id: &str, times, kept: &str| (id.to_owned(), times, times - 1, kept.to_owned(), true);
    // The short text is behind the one that is compared.
    assert_eq!(found, [span("a", 3, "k"), span("b", 2, "b")]);
    assert_eq!(strings(&table(&path("out"), "passages"), "groups"), ["1", "1"]);
}

/// Documents that are too short, or have only shingles of templates, are searched on each side after the compared documents.
#[test]
fn documents_that_are_not_compared_are_searched() {
    let header = "home of the shop and all of its pages";
    let side = |name: &str| -> Vec<Document> {
        let own = |n: usize| (0..9).map(|at| format!("{name}{n}x{at}")).collect::<Vec<_>>().join(" ");
        let text = |n: usize| match n % 4 {
            0 => header.to_owned(),
            1 => format!("short {}", n % 3),
            _ => format!("{header}\nshort {}\n{}", n % 3, own(n)),
        };
        (0..40).map(|n| (format!("{name}{n:02}"), text(n))).collect()
    };
    let (new, known) = (side("b"), side("a"));
    for unit in
        [&["passages.unit=line", "passages.min_words=2"][..], &["passages.unit=word", "passages.length=4"]]
    {
        let folder = tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        write_parquet(&path("new.parquet"), &new, 10);
        write_parquet(&path("known.parquet"), &known, 10);
        let templates = ["shingle.max_frequency=0.3", "shingle.short=reject", "clusters.keep=['id']"];
        let sets = [&templates[..], unit].concat();
        let source = second_source(path("known.parquet"), "");
        let output = |name: &str| format!("against.output={:?}", path(name));
        let command = |arguments: &[&str]| {
            resemblance().current_dir(folder.path()).args(arguments).assert().success();
        };
        run(&job(&path("known.parquet"), &path("one"), &templates)).unwrap();
        command(&["apply", "one", "--to", "kept"]);
        command(&["apply", "one", "--to", "dropped", "--rejects", "drop"]);
        for (day, of, against) in
            [("first", &known[..24], None), ("second", &known[24..], Some(output("first")))]
        {
            write_parquet(&path(day).with_extension("parquet"), of, 10);
            let against: Vec<&str> = templates.into_iter().chain(against.as_deref()).collect();
            run(&job(&path(day).with_extension("parquet"), &path(day), &against)).unwrap();
        }
        command(&["merge", "first", "second", "--to", "merged"]);
        for (name, against) in [
            ("alone", &[][..]),
            ("source", &[source.as_str()]),
            ("output", &[output("one").as_str()]),
            ("of merged", &[output("merged").as_str()]),
            ("of kept", &[output("kept").as_str()]),
            ("of dropped", &[output("dropped").as_str()]),
        ] {
            run(&job(&path("new.parquet"), &path(name), &[&sets[..], against].concat())).unwrap();
            let reasons: BTreeSet<String> =
                strings(&table(&path(name), "rejects"), "reason").into_iter().collect();
            assert_eq!(reasons, ["only_template", "too_short"].map(str::to_owned).into());
            assert_eq!(table(&path(name), "clusters").num_rows(), 0);
            let in_turn = |documents: &[Document]| -> Vec<Document> {
                let (compared, others): (Vec<Document>, Vec<Document>) =
                    documents.iter().cloned().partition(|(_, text)| text.contains("x0"));
                [compared, others].concat()
            };
            let mut known = if against.is_empty() { Vec::new() } else { marked(in_turn(&known), true) };
            known.retain(|(_, (_, text))| name != "of dropped" || text.contains("x0"));
            let searched = [known, marked(in_turn(&new), false)].concat();
            let expected = match unit[0] {
                "passages.unit=word" => word_runs::expected_against(&searched, false, 4, 0),
                _ => units::expected_against(&searched, false, "line", 2),
            };
            assert_eq!(spans(&path(name)), expected, "{unit:?} {name}");
            let clean = path(&format!("clean {name}"));
            program!["apply", path(name), "--passages", "cut", "--to", &clean].assert().success();
            let texts = strings(&parquet(&clean.join("new.parquet")), "text");
            let headed = texts.iter().filter(|text| text.contains(header)).count();
            assert_eq!((texts.len(), headed), (40, usize::from(against.is_empty())), "{unit:?} {name}");
        }
    }
}

/// Passages of yesterday's documents are cut out of today's, and nothing else.
#[test]
fn known_passages_are_cut_out_of_a_new_day() {
    let path = paths();
    let own = |id: &str| (0..12).map(|word| format!("{id}{word}")).collect::<Vec<_>>().join(" ");
    let of = |id: &str, lines: &[&str]| {
        let all: Vec<String> =
            std::iter::once(own(id)).chain(lines.iter().map(|line| line.to_string())).collect();
        (id.to_owned(), all.join("\n") + "\n")
    };
    let monday = [of("m", &["Printed in the old town", "Read it once more"]), of("n", &[])];
    let tuesday = [
        of("t", &["PRINTED in the old town!", "Sold by the new baker"]),
        of("u", &["Sold by the new baker"]),
    ];
    write_parquet(&path("monday.parquet"), &monday, 10);
    write_parquet(&path("tuesday.parquet"), &tuesday, 10);
    let sets = ["passages.unit=line", "passages.min_words=3", "clusters.keep=['id']"];
    run(&job(&path("monday.parquet"), &path("monday"), &sets)).unwrap();
    resemblance().arg("apply").arg(path("monday")).arg("--to").arg(path("monday-clean")).assert().success();
    let against = format!("against.output={:?}", path("monday-clean").display().to_string());
    for (pairs, second) in
        [("new-old+new-new", &tuesday[1].1[..own("u").len() + 1]), ("new-old", &tuesday[1].1)]
    {
        let (out, to) = (path(&format!("{pairs}-out")), path(&format!("{pairs}-clean")));
        let pairs = format!("against.pairs={pairs}");
        run(&job(&path("tuesday.parquet"), &out, &[&sets[..], &[&against, &pairs]].concat())).unwrap();
        let (out, to_text) = (out.display().to_string(), to.display().to_string());
        program!["apply", &out, "--to", &to_text, "--passages", "cut"].output().unwrap().shown(&[]);
        let batch = parquet(&to.join("tuesday.parquet"));
        let first = format!("{}\nSold by the new baker\n", own("t"));
        assert_eq!(strings(&batch, "text"), [first, second.to_owned()], "{pairs}");
        let query = "SELECT id, kept_id, kept_reference FROM removed_spans WHERE kept_reference";
        let rows = resemblance().args(["sql", &to_text, query, "--json"]).output().unwrap();
        assert_eq!(stdout(&rows).trim(), "{\"id\":\"t\",\"kept_id\":\"m\",\"kept_reference\":true}");
    }
    // The texts of earlier days have to be there.
    std::fs::rename(path("monday.parquet"), path("moved.parquet")).unwrap();
    let error =
        run(&job(&path("tuesday.parquet"), &path("no"), &[&sets[..], &[&against]].concat())).unwrap_err();
    assert!(error.one_line().contains("monday.parquet"), "{error}");
}

/// Places in reference documents are found again in their texts: in those of a second source and of outputs, without documents that a
/// later one replaces.
#[test]
fn places_in_reference_documents_are_shown() {
    let path = paths();
    let of = |rows: &[(&str, &str)]| -> Vec<Document> {
        rows.iter().map(|(id, text)| (id.to_string(), text.to_string())).collect()
    };
    let (same, known_same) = ("One line that all have", "one LINE that all have.");
    let old = of(&[
        ("k", &format!("Words of k at first\n{known_same}\nand more of k")),
        ("m", &format!("{known_same}\nand only words of m here\n{known_same}")),
        ("short", known_same),
    ]);
    let later = of(&[("k", "Words of k as they are now and not as they were before")]);
    let new = of(&[("a", &format!("Words of a alone\n{same}")), ("b", &format!("{same}\nyet Words of b"))]);
    for (name, documents) in [("old", &old), ("later", &later), ("new", &new)] {
        write_parquet(&path(&format!("{name}.parquet")), documents, 10);
    }
    let against =
        |days: &[&str]| format!("against.output={:?}", days.iter().map(|day| path(day)).collect::<Vec<_>>());
    let keep = ["output.keep=shingles", "clusters.keep=['id']", "shingle.min_words=6"];
    run(&job(&path("old.parquet"), &path("old"), &keep)).unwrap();
    let old = against(&["old"]);
    let replace = [&keep[..], &[&old, "against.same_id=replace"]].concat();
    run(&job(&path("later.parquet"), &path("later"), &replace)).unwrap();
    for unit in [&["passages.unit=line"][..], &["passages.unit=word", "passages.length=5"]] {
        for (number, (against, wanted)) in [
            (second_source(path("old.parquet"), ""), &[("k", 20), ("m", 0), ("m", 49), ("short", 0)][..]),
            (against(&["old", "later"]), &[("m", 0), ("m", 49), ("short", 0)]),
        ]
        .into_iter()
        .enumerate()
        {
            let out = path(&format!("{number}{}", unit[0]));
            let sets = [unit, &keep[1..], &["against.same_id=replace", &against]].concat();
            let sets: Vec<&str> =
                sets.into_iter().filter(|set| number > 0 || !set.contains("same_id")).collect();
            run(&job(&path("new.parquet"), &out, &sets)).unwrap();
            let id = &spans(&out)[0].passage;
            let show = |more: &[&str]| {
                let shown = resemblance().arg("show").arg(&out).args(["--passage", id]).args(more).assert();
                shown.shown(&[])
            };
            let lines: Vec<Value> = show(&["--json", "--top", "9"])
                .lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect();
            let (known, own): (Vec<_>, Vec<_>) = lines.iter().partition(|line| line["reference"] == true);
            let place = |line: &&Value| {
                (line["id"].as_str().unwrap().to_owned(), line["char_start"].as_u64().unwrap())
            };
            let wanted: Vec<_> = wanted.iter().map(|(id, start)| (id.to_string(), *start)).collect();
            assert_eq!(known.iter().map(place).collect::<Vec<_>>(), wanted, "{unit:?} {against}");
            assert_eq!(own.iter().map(place).collect::<Vec<_>>(), [("a".into(), 17), ("b".into(), 0)]);
            // It stays in the first reference document.
            let kept: Vec<_> = lines.iter().filter(|line| line["kept"] == true).collect();
            assert_eq!(kept, [known[0]], "{unit:?}");
            let text = show(&["--top", "1"]);
            let times = format!("in reference documents it occurs {} times", known.len());
            assert!(text.contains(&times) && text.contains("more place"), "{text}");
            let csv = show(&["--csv", "--top", "9"]);
            assert!(csv.starts_with("id,source,char_start,char_end,kept,reference"), "{csv}");
            assert_eq!(csv.lines().count(), 1 + lines.len());
        }
    }
    std::fs::remove_file(path("old.parquet")).unwrap();
    let out = path("0passages.unit=line");
    let id = &spans(&out)[0].passage;
    resemblance().arg("show").arg(&out).args(["--passage", id]).assert().code(3);
}

/// Each span names the group of the document that keeps its passage, wherever that document is.
#[test]
fn a_span_names_the_group_of_the_document_that_keeps_it() {
    let path = paths();
    let mut groups: BTreeMap<String, String> = BTreeMap::new();
    let write = |groups: &mut BTreeMap<String, String>, name: &str, documents: &[Document]| {
        let site = |at: usize| (!at.is_multiple_of(4)).then(|| format!("{name}{}", at % 4));
        let sites: Vec<Option<String>> = (0..documents.len()).map(site).collect();
        for ((id, _), site) in documents.iter().zip(&sites) {
            groups.insert(id.clone(), site.clone().unwrap_or_else(|| "<null>".into()));
        }
        let sites = Arc::new(StringArray::from_iter(sites));
        write_columns(&path(&format!("{name}.parquet")), documents, vec![("site", sites)], 9);
    };
    for (unit, documents) in [
        ("passages.unit=line", units::texts(&mut Random(61), 70)),
        ("passages.unit=word", word_runs::texts(&mut Random(61), 70, 30)),
    ] {
        // Every two of the new documents have a line that no other one has.
        let mut new = documents[..35].to_vec();
        for (at, (_, text)) in new.iter_mut().enumerate() {
            *text += &format!("\nonly two of the new ones have the line number {}\n", at / 2);
        }
        write(&mut groups, "new", &new);
        write(&mut groups, "old", &documents[35..]);
        let length = if unit.ends_with("word") { "passages.length=5" } else { "passages.min_words=1" };
        let sets = [unit, length, "source.group=site", "source.columns=['site']", "shingle.size=1"];
        run(&job(&path("old.parquet"), &path(&format!("{unit}-old")), &sets[2..])).unwrap();
        let output = format!("against.output={:?}", path(&format!("{unit}-old")).display().to_string());
        let source = second_source(path("old.parquet"), ", group = 'site'");
        for (name, against) in [("output", &output), ("source", &source)] {
            let out = path(&format!("{unit}-{name}"));
            run(&job(&path("new.parquet"), &out, &[&sets[..], &[against]].concat())).unwrap();
            let spans = table(&out, "spans");
            let found = strings(&spans, "kept_group");
            let wanted: Vec<String> =
                strings(&spans, "kept_id").iter().map(|id| groups[id].clone()).collect();
            assert_eq!(found, wanted, "{unit} {name}");
            let of = |prefix: &str| found.iter().filter(|group| group.starts_with(prefix)).count();
            let all = ["old", "new", "<null>"].map(of);
            assert!(all.iter().all(|&of| of > 5), "{unit} {name}: {all:?}");
        }
    }
}
