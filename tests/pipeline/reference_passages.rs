//! `[passages]` of random documents, alone and with `[against]`: what is found, against plain code.

use crate::pipeline::spans::{Searched, Span, check_passages, removals_last, spans};
use crate::pipeline::{spans as units, word_runs};
use crate::support::*;

/// New documents and reference documents, and the passages of a job.
struct Case {
    scene: Scene,
    new: Vec<Document>,
    known: Vec<Document>,
    years: Vec<String>,
    sites: Vec<String>,
    unit: &'static str,
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
        let (new, known) = documents.split_at(1 + random.below(count - 2));
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
        ];
        sets.extend(["lsh.bands=1", "lsh.rows=4", "minhash.permutations=4"].map(str::to_owned));
        match unit {
            "word" => sets.extend([
                format!("passages.length={words}"),
                format!("passages.gap={gap}"),
                "shingle.words=word-characters".to_owned(),
            ]),
            _ => sets.push(format!("passages.min_words={words}")),
        }
        let years = new.iter().map(|_| (1990 + random.below(4)).to_string()).collect();
        let sites = new.iter().map(|_| format!("s{}", random.below(3))).collect();
        let (scene, new) = (Scene::new(&[]), new.to_vec());
        let case = Self { scene, new, known, years, sites, unit, words, gap, new_old, sets };
        units::write_with_years(&case.path("new.parquet"), &case.new, &case.years, &case.sites);
        write_parquet(&case.path("known.parquet"), &case.known, 7);
        case
    }

    fn sets_without(&self, is_out: &[&str]) -> Vec<&str> {
        let sets = self.sets.iter().map(String::as_str);
        sets.filter(|set| !is_out.iter().any(|out| set.contains(out))).collect()
    }

    fn job(&self, input: &str, output: &str, sets: &[&str]) -> Job {
        self.scene.job(input, output, &[&self.sets_without(&[]), sets].concat())
    }

    /// Documents of three days, and whether one of the last replaces an earlier one. Some are copies of earlier ones, and are removed.
    fn days(&self, random: &mut Random) -> ([Vec<Document>; 3], bool) {
        let (one, two) = self.known.split_at(self.known.len() / 2);
        let [mut one, mut two, mut new] =
            [(one, "a"), (two, "b"), (&self.new, "c")].map(|(documents, day)| {
                let named = documents.iter().map(|(id, text)| (format!("{day}-{id}"), text.clone()));
                named.collect::<Vec<Document>>()
            });
        two.push(("b-copy".into(), one[random.below(one.len())].1.clone()));
        new.push(("c-copy".into(), two[random.below(two.len())].1.clone()));
        let copied = one[random.below(one.len())].1.clone();
        one.push(("a-copy".into(), copied));
        let replaces = random.below(2) == 0;
        if replaces {
            new[0].0 = one[0].0.clone();
        }
        ([one, two, new], replaces)
    }

    fn expected(&self, documents: &Searched) -> Vec<Span> {
        match self.unit {
            "word" => word_runs::expected_against(documents, self.new_old, self.words, self.gap),
            unit => units::expected_against(documents, self.new_old, unit, self.words),
        }
    }

    /// Documents that an output compared, in the order of a preference.
    fn in_order(&self, documents: &[Document], output: &str, order: &str) -> Vec<Document> {
        let rows = table(&self.path(output), "documents");
        let sizes: BTreeMap<String, u64> =
            strings(&rows, "id").into_iter().zip(numbers(&rows, "shingle_count")).collect();
        let years: BTreeMap<&String, &String> = self.new.iter().map(|(id, _)| id).zip(&self.years).collect();
        let mut documents: Vec<Document> =
            documents.iter().filter(|(id, _)| sizes.contains_key(id)).cloned().collect();
        documents.sort();
        match order {
            "id desc" => documents.reverse(),
            "length desc" => documents.sort_by_key(|(id, _)| std::cmp::Reverse(sizes[id])),
            "year desc" => documents.sort_by_key(|(id, _)| std::cmp::Reverse(years[id])),
            _ => {}
        }
        documents
    }
}

fn marked(documents: Vec<Document>, reference: bool) -> Searched {
    documents.into_iter().map(|document| (reference, document)).collect()
}

fn compared(output: &Path) -> BTreeSet<String> {
    strings(&table(output, "documents"), "id").into_iter().collect()
}

#[test]
fn repeated_passages_and_those_of_a_second_source_are_found() {
    let (mut known, mut kept, mut both, mut alone_gone) = (0, 0, 0, 0);
    for seed in seeds(48) {
        let mut case = Case::new(seed);
        let mut random = Random(seed ^ 0xff);
        // Every other unit is searched without a second source, which has no years.
        let has_source = seed / 6 % 2 == 0;
        let orders = ["id", "id desc", "length desc", "year desc"];
        let order = orders[random.below(if has_source { 3 } else { 4 })];
        let keep = format!("clusters.keep=['{order}']");
        let by_group = !has_source && random.below(2) == 0;
        case.new_old &= has_source;
        let alone = case.sets_without(&["against"]);
        let mut searched = Searched::new();
        if has_source {
            // The reference documents that can be compared, and their sizes, by a run over them alone.
            case.run("known.parquet", "alone", &alone);
            searched = marked(case.in_order(&case.known, "alone", order), true);
            let source = second_source(case.path("known.parquet"), "");
            run(&case.job("new.parquet", "out", &[&keep, &source])).unwrap();
        } else {
            let group = if by_group { &["source.group=site"][..] } else { &[] };
            let sets = [&alone[..], &[&keep, "source.columns=['year']"], group].concat();
            case.run("new.parquet", "out", &sets);
        }
        let new = case.in_order(&case.new, "out", order);
        searched.extend(marked(removals_last(&new, &case.path("out")), false));
        let found = spans(&case.path("out"));
        assert_eq!(found, case.expected(&searched), "seed {seed}");
        let texts: BTreeMap<String, String> = case.new.iter().cloned().collect();
        let sites: BTreeMap<String, String> =
            case.new.iter().map(|(id, _)| id.clone()).zip(case.sites.clone()).collect();
        check_passages(&case.path("out"), &found, &texts, by_group.then_some(&sites));
        for span in &found {
            known += usize::from(span.kept_reference);
            kept += usize::from(span.kept);
            alone_gone += usize::from(!span.kept && !has_source);
            both += usize::from(span.kept_reference && texts.contains_key(&span.kept_at.0));
        }
    }
    assert!(
        seeds(48).count() < 48 || known > 100 && kept > 25 && both > 25 && alone_gone > 100,
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
        let ([one, two, new], replaces) = case.days(&mut random);
        case.write("one.parquet", &one);
        case.write("two.parquet", &two);
        case.write("three.parquet", &new);
        let keep = ["output.keep=shingles", "output.keep=signatures"][random.below(2)];
        let method = ["clusters.method=components", "clusters.method=representative"][random.below(2)];
        let all = ["clusters.keep=['id']", keep, method];
        // The earlier days find no passages.
        let plain = [case.sets_without(&["against", "passages"]), all.to_vec()].concat();
        case.run("one.parquet", "one", &plain);
        case.run("two.parquet", "two", &[&plain[..], &[&case.against(&["one"])]].concat());
        let both = ["against.same_id=replace", &case.against(&["one", "two"])];
        run(&case.job("three.parquet", "three", &[&all[..], &both].concat())).unwrap();
        // Documents that are too short come after the compared ones, and those that a day removes after all others.
        let sorted = |documents: &[Document], day: &str, are_compared: bool| {
            let (ids, mut documents) = (compared(&case.path(day)), documents.to_vec());
            documents.retain(|(id, _)| ids.contains(id) == are_compared);
            documents.sort();
            documents
        };
        let removed: BTreeSet<String> =
            ["one", "two"].iter().flat_map(|day| removed(&case.path(day))).collect();
        let is_replaced = replaces && compared(&case.path("three")).contains(&new[0].0);
        let of_days = |are_compared: bool| {
            let mut both = [sorted(&one, "one", are_compared), sorted(&two, "two", are_compared)].concat();
            both.retain(|(id, _)| !is_replaced || *id != new[0].0);
            both
        };
        let (mut gone, stay): (Vec<_>, Vec<_>) =
            of_days(true).into_iter().partition(|(id, _)| removed.contains(id));
        gone.sort();
        let mut short = of_days(false);
        short.sort();
        let of_new = [sorted(&new, "three", true), sorted(&new, "three", false)].concat();
        let of_new = removals_last(&of_new, &case.path("three"));
        let known_documents = marked([stay, short].concat(), true);
        let searched = [known_documents, marked(of_new, false), marked(gone.clone(), true)].concat();
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
    let lines = ["passages.unit=sentence", "passages.min_words=1"];
    let words = ["passages.unit=word", "passages.length=6", "against.pairs=new-old"];
    for (documents, sets) in [
        (units::texts(&mut Random(5), 90), &lines[..]),
        (word_runs::texts(&mut Random(5), 90, 1_000), &words),
    ] {
        let scene = Scene::new(sets);
        scene.write("new.parquet", &documents[..40]);
        scene.write("known.parquet", &documents[40..]);
        let source = second_source(scene.path("known.parquet"), "");
        stopping::same_rows(|name| scene.job("new.parquet", name, &[&source]), 2, &["spans", "passages"]);
    }
}

#[test]
fn passages_of_reference_documents_are_the_same_for_any_threads_and_memory() {
    let documents = word_runs::texts(&mut Random(7), 6_000, 1_000);
    for passages in
        [["passages.unit=word", "passages.length=8"], ["passages.unit=line", "passages.min_words=1"]]
    {
        let scene = Scene::new(&passages);
        scene.write("new.parquet", &documents[..2_000]);
        scene.write("known.parquet", &documents[2_000..]);
        let source = second_source(scene.path("known.parquet"), "");
        let at = |name: &str, threads: &str, memory: &str| {
            scene.run("new.parquet", name, &[threads, memory, &source]);
            ["spans", "passages"].map(|table_name| table(&scene.path(name), table_name))
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
    let new = documents(&[
        ("a", "All have\nand Words of its own"),
        ("b", "Some more Words here\nand Others of b\nOnly b"),
    ]);
    let known = documents(&[
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

const HEADER: &str = "home of the shop and all of its pages";

/// Pages with a header; some are nothing else, and some are too short.
fn pages(name: &str) -> Vec<Document> {
    let text = |n: usize| match n % 4 {
        0 => HEADER.to_owned(),
        1 => format!("short {}", n % 3),
        _ => format!("{HEADER}\nshort {}\n{}", n % 3, own_words(format!("{name}{n}"), 9)),
    };
    (0..40).map(|n| (format!("{name}{n:02}"), text(n))).collect()
}

/// Documents that are too short, or have only shingles of templates, are searched on each side after the compared documents.
#[test]
fn documents_that_are_not_compared_are_searched() {
    let is_compared = |document: &Document| document.1.contains("x0");
    let (new, known) = (pages("b"), pages("a"));
    let in_turn = |documents: &[Document]| -> Vec<Document> {
        let (compared, others): (Vec<Document>, Vec<Document>) =
            documents.iter().cloned().partition(is_compared);
        [compared, others].concat()
    };
    for unit in [["passages.unit=line", "passages.min_words=2"], ["passages.unit=word", "passages.length=4"]]
    {
        let scene =
            Scene::new(&["shingle.max_frequency=0.3", "shingle.short=reject", "clusters.keep=['id']"]);
        for (name, of) in
            [("new", &new[..]), ("known", &known), ("first", &known[..24]), ("second", &known[24..])]
        {
            scene.write(&format!("{name}.parquet"), of);
        }
        scene.run("known.parquet", "one", &[]);
        scene.apply("one", "kept", &[]);
        scene.apply("one", "dropped", &["--rejects", "drop"]);
        scene.run("first.parquet", "first", &[]);
        scene.run("second.parquet", "second", &[&scene.against(&["first"])]);
        scene.command(&["merge", "first", "second", "--to", "merged"]).assert().success();
        let source = second_source(scene.path("known.parquet"), "");
        for (name, against) in [
            ("alone", None),
            ("source", Some(source)),
            ("output", Some(scene.against(&["one"]))),
            ("of merged", Some(scene.against(&["merged"]))),
            ("of kept", Some(scene.against(&["kept"]))),
            ("of dropped", Some(scene.against(&["dropped"]))),
        ] {
            let sets: Vec<&str> = unit.into_iter().chain(against.as_deref()).collect();
            scene.run("new.parquet", name, &sets);
            let output = scene.path(name);
            let reasons: BTreeSet<String> =
                strings(&table(&output, "rejects"), "reason").into_iter().collect();
            assert_eq!(reasons, ["only_template", "too_short"].map(str::to_owned).into());
            assert_eq!(table(&output, "clusters").num_rows(), 0);
            let mut of_known = if against.is_some() { in_turn(&known) } else { Vec::new() };
            of_known.retain(|document| name != "of dropped" || is_compared(document));
            let searched = [marked(of_known, true), marked(in_turn(&new), false)].concat();
            let expected = match unit[0] {
                "passages.unit=word" => word_runs::expected_against(&searched, false, 4, 0),
                _ => units::expected_against(&searched, false, "line", 2),
            };
            assert_eq!(spans(&output), expected, "{unit:?} {name}");
            let clean = format!("clean {name}");
            scene.apply(name, &clean, &["--passages", "cut"]);
            let texts = strings(&parquet(&scene.path(&clean).join("new.parquet")), "text");
            let headed = texts.iter().filter(|text| text.contains(HEADER)).count();
            assert_eq!((texts.len(), headed), (40, usize::from(against.is_none())), "{unit:?} {name}");
        }
    }
}

/// Passages of yesterday's documents are cut out of today's, and nothing else.
#[test]
fn known_passages_are_cut_out_of_a_new_day() {
    let scene = Scene::new(&["passages.unit=line", "passages.min_words=3", "clusters.keep=['id']"]);
    let own = |id: &str| own_words(id, 12);
    let first = format!("{}\nSold by the new baker\n", own("t"));
    let second = format!("{}\nSold by the new baker\n", own("u"));
    scene.write(
        "monday.parquet",
        &documents(&[
            ("m", format!("{}\nPrinted in the old town\nRead it once more\n", own("m"))),
            ("n", own("n") + "\n"),
        ]),
    );
    let printed = first.replace("\nSold", "\nPRINTED in the old town!\nSold");
    scene.write("tuesday.parquet", &documents(&[("t", &printed), ("u", &second)]));
    scene.run("monday.parquet", "monday", &[]);
    scene.apply("monday", "monday-clean", &[]);
    let against = scene.against(&["monday-clean"]);
    for (pairs, second) in [("new-old+new-new", &second[..own("u").len() + 1]), ("new-old", &second)] {
        let (out, to) = (format!("{pairs}-out"), format!("{pairs}-clean"));
        scene.run("tuesday.parquet", &out, &[&against, &format!("against.pairs={pairs}")]);
        scene.apply(&out, &to, &["--passages", "cut"]);
        let batch = parquet(&scene.path(&to).join("tuesday.parquet"));
        assert_eq!(strings(&batch, "text"), [&*first, second], "{pairs}");
        let query = "SELECT id, kept_id, kept_reference FROM removed_spans WHERE kept_reference";
        let rows = scene.command(&["sql", &to, query, "--json"]).assert().shown(&[]);
        assert_eq!(rows.trim(), "{\"id\":\"t\",\"kept_id\":\"m\",\"kept_reference\":true}");
    }
    // The texts of earlier days have to be there.
    std::fs::rename(scene.path("monday.parquet"), scene.path("moved.parquet")).unwrap();
    let error = run(&scene.job("tuesday.parquet", "no", &[&against])).unwrap_err();
    assert!(error.one_line().contains("monday.parquet"), "{error}");
}

/// Places in reference documents are found again in their texts: in those of a second source and of outputs, without documents that a
/// later one replaces.
#[test]
fn places_in_reference_documents_are_shown() {
    let scene = Scene::new(&["clusters.keep=['id']", "shingle.min_words=6"]);
    let (same, known_same) = ("One line that all have", "one LINE that all have.");
    let old = documents(&[
        ("k", format!("Words of k at first\n{known_same}\nand more of k")),
        ("m", format!("{known_same}\nand only words of m here\n{known_same}")),
        ("short", known_same.to_owned()),
    ]);
    scene.write("old.parquet", &old);
    let later = [("k", "Words of k as they are now and not as they were before")];
    scene.write("later.parquet", &documents(&later));
    let new = [("a", format!("Words of a alone\n{same}")), ("b", format!("{same}\nyet Words of b"))];
    scene.write("new.parquet", &documents(&new));
    let (keep, replace) = ("output.keep=shingles", "against.same_id=replace");
    scene.run("old.parquet", "old", &[keep]);
    scene.run("later.parquet", "later", &[keep, replace, &scene.against(&["old"])]);
    let source = second_source(scene.path("old.parquet"), "");
    let outputs = scene.against(&["old", "later"]);
    for unit in [&["passages.unit=line"][..], &["passages.unit=word", "passages.length=5"]] {
        for (out, against, wanted) in [
            ("of source", &[source.as_str()][..], &[("k", 20), ("m", 0), ("m", 49), ("short", 0)][..]),
            ("of outputs", &[outputs.as_str(), replace], &[("m", 0), ("m", 49), ("short", 0)]),
        ] {
            let out = format!("{out} {}", unit[0]);
            scene.run("new.parquet", &out, &[unit, against].concat());
            let id = &spans(&scene.path(&out))[0].passage;
            let show = |more: &[&str]| {
                scene.command(&["show", &out, "--passage", id]).args(more).assert().shown(&[])
            };
            let lines = show(&["--json", "--top", "9"]);
            let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            let (known, own): (Vec<_>, Vec<_>) = lines.iter().partition(|line| line["reference"] == true);
            let place = |line: &&Value| {
                (line["id"].as_str().unwrap().to_owned(), line["char_start"].as_u64().unwrap())
            };
            let wanted: Vec<_> = wanted.iter().map(|(id, start)| (id.to_string(), *start)).collect();
            assert_eq!(known.iter().map(place).collect::<Vec<_>>(), wanted, "{out}");
            assert_eq!(own.iter().map(place).collect::<Vec<_>>(), [("a".into(), 17), ("b".into(), 0)]);
            // It stays in the first reference document.
            let kept: Vec<_> = lines.iter().filter(|line| line["kept"] == true).collect();
            assert_eq!(kept, [known[0]], "{out}");
            let text = show(&["--top", "1"]);
            let times = format!("in reference documents it occurs {} times", known.len());
            assert!(text.contains(&times) && text.contains("more place"), "{text}");
            let csv = show(&["--csv", "--top", "9"]);
            assert!(csv.starts_with("id,source,char_start,char_end,kept,reference"), "{csv}");
            assert_eq!(csv.lines().count(), 1 + lines.len());
        }
    }
    std::fs::remove_file(scene.path("old.parquet")).unwrap();
    let out = "of source passages.unit=line";
    let id = &spans(&scene.path(out))[0].passage;
    scene.command(&["show", out, "--passage", id]).assert().code(3);
}

/// Each span names the group of the document that keeps its passage, wherever that document is.
#[test]
fn a_span_names_the_group_of_the_document_that_keeps_it() {
    for (unit, length, documents) in [
        ("passages.unit=line", "passages.min_words=1", units::texts(&mut Random(61), 70)),
        ("passages.unit=word", "passages.length=5", word_runs::texts(&mut Random(61), 70, 30)),
    ] {
        let scene = Scene::new(&["source.group=site", "source.columns=['site']", "shingle.size=1"]);
        let mut groups: BTreeMap<String, String> = BTreeMap::new();
        let mut write = |name: &str, documents: &[Document]| {
            let site = |at: usize| (!at.is_multiple_of(4)).then(|| format!("{name}{}", at % 4));
            let sites: Vec<Option<String>> = (0..documents.len()).map(site).collect();
            for ((id, _), site) in documents.iter().zip(&sites) {
                groups.insert(id.clone(), site.clone().unwrap_or_else(|| "<null>".into()));
            }
            let sites = Arc::new(StringArray::from_iter(sites));
            write_columns(&scene.path(&format!("{name}.parquet")), documents, vec![("site", sites)], 9);
        };
        // Every two of the new documents have a line that no other one has.
        let mut new = documents[..35].to_vec();
        for (at, (_, text)) in new.iter_mut().enumerate() {
            *text += &format!("\nonly two of the new ones have the line number {}\n", at / 2);
        }
        write("new", &new);
        write("old", &documents[35..]);
        scene.run("old.parquet", "old", &[]);
        let source = second_source(scene.path("old.parquet"), ", group = 'site'");
        for (name, against) in [("output", scene.against(&["old"])), ("source", source)] {
            scene.run("new.parquet", name, &[unit, length, &against]);
            let spans = table(&scene.path(name), "spans");
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
