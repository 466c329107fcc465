//! `shingle.max_frequency`: shingles that too many documents have do not count. Random cases are in `brute_force`.

use crate::support::*;

/// Documents with a group, or without one: near-copies of each other, many with the header of their group, and some that are nothing
/// else.
#[derive(Clone)]
pub struct Headed {
    pub documents: Vec<Document>,
    groups: Vec<Option<String>>,
}

const SITES: usize = 3;

impl Headed {
    pub fn new(seed: u64, count: usize) -> Self {
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

    /// Writes the documents `from..to` of them.
    pub fn write(&self, path: &Path) {
        let groups = Arc::new(StringArray::from_iter(self.groups.iter().map(Option::as_deref)));
        write_columns(path, &self.documents, vec![("site", groups)], 25);
    }
}

/// The bands find all pairs of these documents.
const BANDS: [&str; 2] = ["lsh.bands=128", "lsh.rows=1"];

/// A shingle is frequent in more than 10 documents, and in more than the share: not in just so many.
#[test]
fn shares_and_the_least_number_of_documents_are_exact() {
    let path = paths();
    let documents = |times: usize, count: usize| -> Vec<Document> {
        let text = |number: usize| match number < times {
            true => format!("the same three own{number} words{number} follow{number}"),
            false => format!("alone{number} own{number} words{number} follow{number}"),
        };
        (0..count).map(|number| (format!("d{number}"), text(number))).collect()
    };
    for (times, count, share, frequent) in [
        (10, 40, 0.001, 0),
        (11, 40, 0.001, 1),
        (20, 40, 0.5, 0),
        (21, 40, 0.5, 1),
        (11, 11_000, 0.001, 0),
        (12, 11_000, 0.001, 1),
    ] {
        let output = path(&format!("{times} of {count} by {share}"));
        write_parquet(&path("in.parquet"), &documents(times, count), 4_000);
        run(&job(&path("in.parquet"), &output, &[&format!("shingle.max_frequency={share}")])).unwrap();
        let written = table(&output, "frequent_shingles");
        assert_eq!(strings(&written, "sample").len(), frequent, "{times} of {count} by {share}");
        assert!(strings(&written, "sample").iter().all(|sample| sample == "the same three"));
    }
}

#[test]
fn rows_are_the_same_in_little_memory_and_after_every_stop() {
    let path = paths();
    Headed::new(7, 400).write(&path("in.parquet"));
    let sets = ["shingle.max_frequency=0.06", "source.group=site", "clusters.contained=0.9"];
    let with = |name: &str, more: &[&str]| job(&path("in.parquet"), &path(name), &[&sets[..], more].concat());
    run(&with("whole", &["engine.memory=2GiB"])).unwrap();
    let whole = tables(&path("whole"));
    assert!(table(&path("whole"), "frequent_shingles").num_rows() > 50);
    run(&with("small", &["engine.memory=64MiB", "engine.threads=2"])).unwrap();
    assert_eq!(tables(&path("small")), whole);
    stopping::same_rows(|name| with(name, &[]), 2, &["documents", "pairs", "clusters", "frequent_shingles"]);
}

/// An output is used again with the shingles that did not count in it; a second source is compared without the frequent shingles of the source;
/// `neighbors` and `evaluate` leave them out too.
#[test]
fn later_runs_leave_the_same_frequent_shingles_out() {
    let path = paths();
    let shown = |name: &str| path(name).display().to_string();
    let headed = Headed::new(11, 260);
    headed.write(&path("in.parquet"));
    let sets = [&["shingle.max_frequency=0.06", "output.expand=all"], &BANDS[..]].concat();
    run(&job(&path("in.parquet"), &path("signed"), &sets)).unwrap();
    let kept = [&["output.keep=shingles"], &sets[..]].concat();
    run(&job(&path("in.parquet"), &path("kept"), &kept)).unwrap();
    for from in ["signed", "kept"] {
        let more = "lsh = { bands = 128, rows = 1 }\noutput.expand = \"all\"";
        let text = output_job_text(path(from), path(&format!("over {from}")), more);
        std::fs::write(path("job.toml"), text).unwrap();
        resemblance().args(["run", &shown("job.toml")]).assert().success();
        for name in ["pairs", "frequent_shingles", "documents", "rejects"] {
            let [over, first] = [format!("over {from}"), "signed".into()].map(|output| {
                let table = table(&path(&output), name);
                (strings(&table, table.schema().field(0).name()), table.num_rows())
            });
            assert_eq!(over, first, "{name} over {from}");
        }
        let evaluated = program!["evaluate", &shown(&format!("over {from}")), "--sample", "1000", "--json"]
            .assert()
            .json();
        assert_eq!(evaluated["recall"]["pairs"]["value"], 1.0, "{evaluated}");
    }
    // A text that is nothing but a header, and one with its own words behind it.
    let (_, header) =
        headed.documents.iter().find(|(_, text)| text.starts_with("h0") && !text.contains(" w")).unwrap();
    let ask = |text: &str| {
        std::fs::write(path("asked.txt"), text).unwrap();
        program!["neighbors", &shown("signed"), "--text", &shown("asked.txt"), "--json"].output().unwrap()
    };
    let refused = ask(header);
    assert!(!refused.status.success());
    assert!(stderr(&refused).contains("frequent_shingles"), "{refused:?}");
    let (id, text) =
        headed.documents.iter().find(|(_, text)| text.starts_with("h0") && text.contains(" w")).unwrap();
    let own = text.split(' ').filter(|word| word.starts_with('w')).collect::<Vec<_>>().join(" ");
    let found = String::from_utf8(ask(&own).stdout).unwrap();
    assert!(found.contains(id), "{found}");

    let source = second_source(shown("in.parquet"), "");
    run(&job(
        &path("in.parquet"),
        &path("against"),
        &[&[source.as_str(), "against.pairs=new-old"], &sets[..]].concat(),
    ))
    .unwrap();
    let rejected = |output: &str, table_name: &str| {
        let rejects = table(&path(output), table_name);
        strings(&rejects, "id").into_iter().zip(strings(&rejects, "reason")).collect::<BTreeMap<_, _>>()
    };
    assert_eq!(rejected("against", "reference_rejects"), rejected("signed", "rejects"));
    let both: BTreeSet<(String, String)> = pairs(&path("against")).into_keys().collect();
    let mut wanted = BTreeSet::new();
    for (a, b) in pairs(&path("signed")).into_keys() {
        wanted.extend([(b.clone(), a.clone()), (a, b)]);
    }
    wanted.extend(strings(&table(&path("signed"), "documents"), "id").into_iter().map(|id| (id.clone(), id)));
    assert_eq!(both, wanted);
}

#[test]
fn incompatible_settings_are_refused() {
    let path = paths();
    Headed::new(3, 60).write(&path("in.parquet"));
    for value in ["0", "1", "-0.5", "2", "nan", "inf"] {
        let error = refusal(&[&format!("shingle.max_frequency={value}")]);
        assert!(error.contains("expected a number over 0 and under 1"), "{error}");
    }
    let key = "shingle.max_frequency=0.01";
    assert!(refusal(&[key, "shingle.hash=dictionary"]).contains("expected another hash"));
    assert!(refusal(&[key, "shingle.short=empty", "score.by=signature"]).contains("keeps all documents"));
    std::fs::write(path("job.toml"), job_text(path("in.parquet"), path("swept"))).unwrap();
    let swept = program!["sweep", &path("job.toml").display().to_string(), "--set", key].output().unwrap();
    assert!(stderr(&swept).contains("leave the key out"), "{swept:?}");

    for name in ["one", "two"] {
        run(&job(&path("in.parquet"), &path(name), &[key])).unwrap();
    }
    let merged = program!["merge", path("one"), path("two"), "--to", path("merged")].output().unwrap();
    assert!(!merged.status.success(), "{merged:?}");
    // An output without frequent shingles is compared with one that has them.
    let against = format!("against.output={:?}", path("one").display().to_string());
    let error = run(&job(&path("in.parquet"), &path("other"), &[&against])).unwrap_err().to_string();
    assert!(error.contains("shingle.max_frequency"), "{error}");
}

struct Days {
    scene: Scene,
    headed: Headed,
}

has_a_scene!(Days);

const DAYS: [(&str, std::ops::Range<usize>); 3] = [("one", 0..150), ("two", 150..230), ("three", 230..300)];

impl Days {
    fn new(seed: u64, sets: &[&str]) -> Self {
        let sets = [sets, &BANDS, &["output.expand=all", AS_ONE_RUN]].concat();
        let days = Self { scene: Scene::new(&sets), headed: Headed::new(seed, 300) };
        for (name, range) in DAYS {
            days.of(range).write(&days.path(&format!("{name}.parquet")));
        }
        days
    }

    fn of(&self, range: std::ops::Range<usize>) -> Headed {
        let Headed { documents, groups } = &self.headed;
        Headed { documents: documents[range.clone()].to_vec(), groups: groups[range].to_vec() }
    }

    /// The job of a day against `before`.
    fn job(&self, day: &str, output: &str, before: &[&str], more: &[&str]) -> Job {
        let against = self.against(before);
        let more = if before.is_empty() { more.to_vec() } else { [more, &[&against]].concat() };
        self.scene.job(&format!("{day}.parquet"), output, &more)
    }
}

#[test]
fn a_day_that_was_stopped_has_the_same_rows() {
    let days = Days::new(24, &["shingle.max_frequency=0.06"]);
    run(&days.job("one", "one", &[], &[])).unwrap();
    stopping::same_rows(|name| days.job("two", name, &["one"], &[]), 2, &["pairs", "documents"]);
}

#[test]
fn outputs_with_other_lists_are_refused() {
    let days = Days::new(25, &["shingle.max_frequency=0.06"]);
    run(&days.job("one", "one", &[], &[])).unwrap();
    run(&days.job("two", "two", &["one"], &[])).unwrap();
    // These days did not know the first.
    run(&days.job("two", "alone", &[], &[])).unwrap();
    let error = run(&days.job("three", "three", &["one", "alone"], &[])).unwrap_err().to_string();
    assert!(error.contains("the tables `frequent_shingles`") && error.contains("alone"), "{error}");
    let error = days.merge(&["one", "alone"], "merged").unwrap_err().to_string();
    assert!(error.contains("frequent_shingles"), "{error}");
    let error = run(&days.job("three", "three", &["one", "two"], &["source.group=site"])).unwrap_err();
    assert!(error.to_string().contains("source.group"), "{error}");
    let error = run(&days.job("three", "three", &["one"], &["shingle.max_frequency=0.05"])).unwrap_err();
    assert!(error.to_string().contains("shingle.max_frequency"), "{error}");

    // An output that is used again keeps its list, so that has to be the same one.
    let over = |from: &str| {
        let more = format!(
            "lsh = {{ bands = 128, rows = 1 }}\nagainst.output = [{:?}]\noutput.expand = \"all\"\n{CONNECTED}",
            days.path("one")
        );
        let text = output_job_text(days.path(from), days.path(&format!("over {from}")), &more);
        std::fs::write(days.path("job.toml"), text).unwrap();
        resemblance().arg("run").arg(days.path("job.toml")).output().unwrap()
    };
    let refused = over("alone");
    assert!(stderr(&refused).contains("frequent_shingles"), "{refused:?}");
    let taken = over("two");
    assert!(taken.status.success(), "{}", stderr(&taken));
    assert_eq!(pairs(&days.path("over two")), pairs(&days.path("two")));
}

const SAMPLE: usize = 100_000;
const SHARE: f64 = 0.01;

/// Documents of five words. The second word is one of 90 headers, and the share of some headers is near the limit.
fn documents() -> Vec<Document> {
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

fn listed(output: &Path) -> BTreeMap<String, (u64, f64)> {
    let written = table(output, "frequent_shingles");
    let counts = numbers(&written, "documents").into_iter().zip(floats(&written, "share"));
    strings(&written, "sample").into_iter().zip(counts).collect()
}

#[test]
fn more_documents_than_a_sample_has_are_counted_by_a_sample() {
    let path = paths();
    let documents = documents();
    write_parquet(&path("in.parquet"), &documents, 20_000);
    let cheap = ["minhash.permutations=4", "lsh.bands=1", "lsh.rows=4", "score.threshold=0.99"];
    let run_with = |name: &str, sets: &[&str]| {
        run(&job(&path("in.parquet"), &path(name), &[&cheap[..], sets].concat())).unwrap();
    };
    run_with("drawn", &["source.limit=100000"]);
    let drawn: BTreeSet<String> = strings(&table(&path("drawn"), "documents"), "id").into_iter().collect();
    assert_eq!(drawn.len(), SAMPLE);
    let sample = documents.iter().filter(|(id, _)| drawn.contains(id)).map(|(_, text)| text.as_str());
    let counts = counted(sample);
    assert!((40..90).contains(&counts.len()), "{}", counts.len());
    assert_ne!(counts, counted(documents.iter().map(|(_, text)| text.as_str())));
    let key = format!("shingle.max_frequency={SHARE}");
    run_with("counted", &[&key]);
    assert_eq!(listed(&path("counted")), counts);
}
