//! `shingle.max_frequency`: shingles that too many documents have do not count. Random cases are in `brute_force`.

use crate::support::*;

/// Documents with a group, or without one: near-copies of each other, many with the header of their group, and some that are nothing
/// else.
struct Headed {
    documents: Vec<Document>,
    groups: Vec<Option<String>>,
}

const SITES: usize = 3;

impl Headed {
    fn new(seed: u64, count: usize) -> Self {
        let mut random = Random(seed);
        let mut words = |prefix: &str, count: usize| -> Vec<String> {
            (0..count).map(|_| format!("{prefix}{}", random.below(400))).collect()
        };
        let headers: Vec<Vec<String>> = (0..SITES).map(|site| words(&format!("h{site}x"), 40)).collect();
        let mut random = Random(seed + 1_000);
        let (mut texts, mut groups) = (Vec::<Vec<String>>::new(), Vec::new());
        for _ in 0..count {
            let mut text = match random.below(3) {
                0 if !texts.is_empty() => texts[random.below(texts.len())].clone(),
                _ => (0..12 + random.below(30)).map(|_| format!("w{}", random.below(300))).collect(),
            };
            for _ in 0..random.below(3) {
                let at = random.below(text.len());
                text[at] = format!("w{}", random.below(300));
            }
            texts.push(text);
            groups.push(Some(random.below(SITES)).filter(|_| random.below(8) > 0));
        }
        let documents = texts.into_iter().zip(&groups).enumerate().map(|(number, (text, group))| {
            let header = group.filter(|_| random.below(2) == 0).map(|site| headers[site].clone());
            let text = match (header, random.below(12)) {
                (Some(header), 0) => header,
                (Some(header), _) => [header, text].concat(),
                // Too short for a shingle.
                (None, 0) => text[..2].to_vec(),
                (None, _) => text,
            };
            (format!("d{number:04}"), text.join(" "))
        });
        let documents = documents.collect();
        Self { documents, groups: groups.iter().map(|group| group.map(|site| format!("s{site}"))).collect() }
    }

    fn write(&self, path: &Path) {
        self.write_part(path, 0..self.documents.len());
    }

    fn write_part(&self, path: &Path, part: Range<usize>) {
        let groups = self.groups[part.clone()].iter().map(Option::as_deref);
        let more: Vec<(&str, ArrayRef)> = vec![("site", Arc::new(StringArray::from_iter(groups)))];
        write_columns(path, &self.documents[part], more, 25);
    }
}

/// The bands find all pairs of these documents.
const BANDS: [&str; 2] = ["lsh.bands=128", "lsh.rows=1"];

/// A shingle is frequent in more than 10 documents, and in more than the share: not in just so many.
#[test]
fn shares_and_the_least_number_of_documents_are_exact() {
    let scene = Scene::new(&[]);
    for (times, count, share, frequent) in [
        (10, 40, 0.001, 0),
        (11, 40, 0.001, 1),
        (20, 40, 0.5, 0),
        (21, 40, 0.5, 1),
        (11, 11_000, 0.001, 0),
        (12, 11_000, 0.001, 1),
    ] {
        let text = |number: usize| match number < times {
            true => format!("the same three own{number} words{number} follow{number}"),
            false => format!("alone{number} own{number} words{number} follow{number}"),
        };
        let documents: Vec<Document> =
            (0..count).map(|number| (format!("d{number}"), text(number))).collect();
        let output = format!("{times} of {count} by {share}");
        write_parquet(&scene.path("in.parquet"), &documents, 4_000);
        scene.run("in.parquet", &output, &[&format!("shingle.max_frequency={share}")]);
        let samples = strings(&table(&scene.path(&output), "frequent_shingles"), "sample");
        assert_eq!(samples, vec!["the same three"; frequent], "{output}");
    }
}

#[test]
fn rows_are_the_same_in_little_memory_and_after_every_stop() {
    let scene = Scene::new(&["shingle.max_frequency=0.06", "source.group=site", "clusters.contained=0.9"]);
    Headed::new(7, 400).write(&scene.path("in.parquet"));
    scene.run("in.parquet", "whole", &["engine.memory=2GiB"]);
    let whole = tables(&scene.path("whole"));
    assert!(table(&scene.path("whole"), "frequent_shingles").num_rows() > 50);
    scene.run("in.parquet", "small", &["engine.memory=64MiB", "engine.threads=2"]);
    assert_eq!(tables(&scene.path("small")), whole);
    let names = ["documents", "pairs", "clusters", "frequent_shingles"];
    stopping::same_rows(|name| scene.job("in.parquet", name, &[]), 2, &names);
}

/// An output is used again with the shingles that did not count in it; a second source is compared without the frequent shingles of the
/// source; `neighbors` and `evaluate` leave them out too.
#[test]
fn later_runs_leave_the_same_frequent_shingles_out() {
    let scene = Scene::new(&[&["shingle.max_frequency=0.06", "output.expand=all"], &BANDS[..]].concat());
    let headed = Headed::new(11, 260);
    headed.write(&scene.path("in.parquet"));
    scene.run("in.parquet", "signed", &[]);
    scene.run("in.parquet", "kept", &["output.keep=shingles"]);
    for from in ["signed", "kept"] {
        let over = format!("over {from}");
        let more = "lsh = { bands = 128, rows = 1 }\noutput.expand = \"all\"";
        let text = output_job_text(scene.path(from), scene.path(&over), more);
        scene.run_text(&text).success();
        for name in ["pairs", "frequent_shingles", "documents", "rejects"] {
            let [over, first] = [over.as_str(), "signed"].map(|output| {
                let table = table(&scene.path(output), name);
                (strings(&table, table.schema().field(0).name()), table.num_rows())
            });
            assert_eq!(over, first, "{name} over {from}");
        }
        let evaluated = printed(&mut scene.command(&["evaluate", &over, "--sample", "1000"]));
        assert_eq!(evaluated["recall"]["pairs"]["value"], 1.0, "{evaluated}");
    }
    neighbors_leave_headers_out(&scene, &headed);

    let source = second_source(scene.path("in.parquet"), "");
    scene.run("in.parquet", "against", &[&source, "against.pairs=new-old"]);
    let rejected = |output: &str, name: &str| -> BTreeMap<String, String> {
        string_pairs(&table(&scene.path(output), name), ["id", "reason"])
    };
    assert_eq!(rejected("against", "reference_rejects"), rejected("signed", "rejects"));
    let both: BTreeSet<(String, String)> = pairs(&scene.path("against")).into_keys().collect();
    let mut wanted = BTreeSet::new();
    for (a, b) in pairs(&scene.path("signed")).into_keys() {
        wanted.extend([(b.clone(), a.clone()), (a, b)]);
    }
    wanted.extend(string_pairs::<Vec<_>>(&table(&scene.path("signed"), "documents"), ["id", "id"]));
    assert_eq!(both, wanted);
}

/// A text that is nothing but a header is refused, and one of own words finds the document that has a header before them.
fn neighbors_leave_headers_out(scene: &Scene, headed: &Headed) {
    let begins = |with_own: bool| {
        let is_one = |(_, text): &&Document| text.starts_with("h0") && text.contains(" w") == with_own;
        headed.documents.iter().find(is_one).unwrap()
    };
    let ask = |text: &str| {
        std::fs::write(scene.path("asked.txt"), text).unwrap();
        scene.command(&["neighbors", "signed", "--text", "asked.txt", "--json"]).assert()
    };
    let refused = ask(&begins(false).1).failure();
    assert!(stderr(refused.get_output()).contains("frequent_shingles"), "{refused:?}");
    let (id, text) = begins(true);
    let own: Vec<&str> = text.split(' ').filter(|word| word.starts_with('w')).collect();
    ask(&own.join(" ")).shown(&[id]);
}

#[test]
fn incompatible_settings_are_refused() {
    for value in ["0", "1", "-0.5", "2", "nan", "inf"] {
        let error = refusal(&[&format!("shingle.max_frequency={value}")]);
        assert!(error.contains("expected a number over 0 and under 1"), "{error}");
    }
    let key = "shingle.max_frequency=0.01";
    assert!(refusal(&[key, "shingle.hash=dictionary"]).contains("expected another hash"));
    assert!(refusal(&[key, "shingle.short=empty", "score.by=signature"]).contains("keeps all documents"));
    let scene = Scene::new(&[]).with_job("in.parquet", &Headed::new(3, 60).documents);
    let swept = scene.command(&["sweep", "job.toml", "--set", key]).output().unwrap();
    assert!(stderr(&swept).contains("leave the key out"), "{swept:?}");

    for name in ["one", "two"] {
        scene.run("in.parquet", name, &[key]);
    }
    scene.command(&["merge", "one", "two", "--to", "merged"]).assert().failure();
    // An output without frequent shingles is compared with one that has them.
    let error = run(&scene.job("in.parquet", "other", &[&scene.against(&["one"])])).unwrap_err().to_string();
    assert!(error.contains("shingle.max_frequency"), "{error}");
}

fn three_days(seed: u64) -> Scene {
    let sets = [&["shingle.max_frequency=0.06", "output.expand=all", AS_ONE_RUN], &BANDS[..]].concat();
    let (scene, headed) = (Scene::new(&sets), Headed::new(seed, 300));
    for (name, part) in [("one", 0..150), ("two", 150..230), ("three", 230..300)] {
        headed.write_part(&scene.path(&format!("{name}.parquet")), part);
    }
    scene
}

#[test]
fn a_day_that_was_stopped_has_the_same_rows() {
    let days = three_days(24);
    days.run("one.parquet", "one", &[]);
    let day = |name: &str| days.job_against("two.parquet", name, &["one"], &[]);
    stopping::same_rows(day, 2, &["pairs", "documents"]);
}

#[test]
fn outputs_with_other_lists_are_refused() {
    let days = three_days(25);
    days.run("one.parquet", "one", &[]);
    days.run("two.parquet", "two", &[&days.against(&["one"])]);
    // These days did not know the first.
    days.run("two.parquet", "alone", &[]);
    let error = days.merge(&["one", "alone"], "merged").unwrap_err().to_string();
    assert!(error.contains("frequent_shingles"), "{error}");
    for (before, sets, said) in [
        (["one", "alone"], &[][..], &["the tables `frequent_shingles`", "alone"][..]),
        (["one", "two"], &["source.group=site"], &["source.group"]),
        (["one", "two"], &["shingle.max_frequency=0.05"], &["shingle.max_frequency"]),
    ] {
        let error = run(&days.job_against("three.parquet", "three", &before, sets)).unwrap_err().to_string();
        assert!(said.iter().all(|part| error.contains(part)), "{said:?}: {error}");
    }

    // An output that is used again keeps its list, so that has to be the same one.
    let over = |from: &str| {
        let more = format!(
            "lsh = {{ bands = 128, rows = 1 }}\nagainst.output = [{:?}]\noutput.expand = \"all\"\n{CONNECTED}",
            days.path("one")
        );
        days.run_text(&output_job_text(days.path(from), days.path(&format!("over {from}")), &more))
    };
    let refused = over("alone");
    assert!(stderr(refused.get_output()).contains("frequent_shingles"), "{refused:?}");
    over("two").success();
    assert_eq!(pairs(&days.path("over two")), pairs(&days.path("two")));
}

const SAMPLE: usize = 100_000;
const SHARE: f64 = 0.01;

/// Documents of five words. The second word is one of 90 headers, and the share of some headers is near the limit.
fn five_words() -> Vec<Document> {
    let mut random = Random(17);
    let text = |number: usize| {
        // Header `n` is in about n / 4,095 of the documents.
        let at = random.below(90 * 91 / 2);
        let header = (1..=90).find(|n| n * (n + 1) / 2 > at).unwrap();
        format!("a header{header} here w{} own{number}", random.below(3_000))
    };
    (0..SAMPLE + 4_000).map(text).enumerate().map(|(at, text)| (format!("d{at}"), text)).collect()
}

/// The shingles that are in more than the share of these documents, with their counts and shares.
fn counted<'a>(texts: impl Iterator<Item = &'a str>) -> BTreeMap<String, (u64, f64)> {
    let (mut counts, mut all) = (BTreeMap::<String, u64>::new(), 0_u64);
    for text in texts {
        all += 1;
        shingles(text, 3).into_iter().for_each(|shingle| *counts.entry(shingle).or_default() += 1);
    }
    let shares = counts.into_iter().map(|(shingle, count)| (shingle, (count, count as f64 / all as f64)));
    shares.filter(|(_, (count, share))| *count > 10 && *share > SHARE).collect()
}

#[test]
fn more_documents_than_a_sample_has_are_counted_by_a_sample() {
    let cheap = ["minhash.permutations=4", "lsh.bands=1", "lsh.rows=4", "score.threshold=0.99"];
    let (scene, documents) = (Scene::new(&cheap), five_words());
    write_parquet(&scene.path("in.parquet"), &documents, 20_000);
    scene.run("in.parquet", "drawn", &["source.limit=100000"]);
    let drawn: BTreeSet<String> =
        strings(&table(&scene.path("drawn"), "documents"), "id").into_iter().collect();
    assert_eq!(drawn.len(), SAMPLE);
    let sample = documents.iter().filter(|(id, _)| drawn.contains(id)).map(|(_, text)| text.as_str());
    let counts = counted(sample);
    assert!((40..90).contains(&counts.len()), "{}", counts.len());
    assert_ne!(counts, counted(documents.iter().map(|(_, text)| text.as_str())));
    scene.run("in.parquet", "counted", &[&format!("shingle.max_frequency={SHARE}")]);
    let written = table(&scene.path("counted"), "frequent_shingles");
    let listed = numbers(&written, "documents").into_iter().zip(floats(&written, "share"));
    let listed: BTreeMap<_, _> = strings(&written, "sample").into_iter().zip(listed).collect();
    assert_eq!(listed, counts);
}
