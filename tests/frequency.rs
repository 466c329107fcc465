//! `shingle.max_frequency`: shingles that too many documents have do not count, against plain code.

mod daily;
mod sampled;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use resemblance::job::Job;
use resemblance::pipeline::OnExisting;
use tempfile::tempdir;

use crate::support::stopping;
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
        let of = |of: fn(&Document) -> &str| -> ArrayRef {
            Arc::new(StringArray::from_iter_values(self.documents.iter().map(of)))
        };
        let groups: ArrayRef = Arc::new(StringArray::from_iter(self.groups.iter().map(Option::as_deref)));
        let columns =
            [("id", of(|document| &document.0)), ("text", of(|document| &document.1)), ("site", groups)];
        write_batch(path, &RecordBatch::try_from_iter(columns).unwrap(), 25);
    }

    /// The frequent shingles, each with its documents and its share of those of the group in which that is the largest.
    fn frequent(&self, by_group: bool, max_frequency: f64) -> BTreeMap<String, (u64, f64)> {
        let mut counts: BTreeMap<(Option<&str>, String), u64> = BTreeMap::new();
        let mut sizes: BTreeMap<Option<&str>, u64> = BTreeMap::new();
        for ((_, text), group) in self.documents.iter().zip(&self.groups) {
            let group = group.as_deref().filter(|_| by_group);
            let set = shingles(text, 3);
            *sizes.entry(group).or_default() += u64::from(!set.is_empty());
            set.into_iter().for_each(|shingle| *counts.entry((group, shingle)).or_default() += 1);
        }
        let mut frequent: BTreeMap<String, (u64, f64)> = BTreeMap::new();
        for ((group, shingle), documents) in counts {
            let share = documents as f64 / sizes[&group] as f64;
            if documents > 10 && documents as f64 > max_frequency * sizes[&group] as f64 {
                let largest = frequent.entry(shingle).or_insert((documents, share));
                if (share, documents) > (largest.1, largest.0) {
                    *largest = (documents, share);
                }
            }
        }
        frequent
    }

    /// The sets of the documents without frequent shingles, except for empty ones.
    fn sets(&self, frequent: &BTreeMap<String, (u64, f64)>) -> Vec<(&str, BTreeSet<String>)> {
        let sets = self.documents.iter().map(|(id, text)| {
            let set = shingles(text, 3).into_iter().filter(|shingle| !frequent.contains_key(shingle));
            (id.as_str(), set.collect::<BTreeSet<_>>())
        });
        sets.filter(|(_, set)| !set.is_empty()).collect()
    }
}

type Pairs = BTreeMap<(String, String), (f64, u64)>;

/// The pairs of sets that reach 0.5 by the measure, with their Jaccard similarity and what they share.
fn pairs_of(sets: &[(&str, BTreeSet<String>)], measure: &str) -> Pairs {
    let mut pairs = BTreeMap::new();
    for (at, (id_a, a)) in sets.iter().enumerate() {
        for (id_b, b) in &sets[at + 1..] {
            let shared = a.intersection(b).count();
            let jaccard = shared as f64 / (a.len() + b.len() - shared) as f64;
            let similarity = match measure {
                "jaccard" => jaccard,
                _ => shared as f64 / a.len().min(b.len()) as f64,
            };
            if similarity >= 0.5 {
                pairs.insert((id_a.to_string(), id_b.to_string()), (jaccard, shared as u64));
            }
        }
    }
    pairs
}

fn found(output: &Path) -> Pairs {
    let batch = table(output, "pairs");
    let ids = strings(&batch, "id_a").into_iter().zip(strings(&batch, "id_b"));
    ids.zip(floats(&batch, "jaccard").into_iter().zip(numbers(&batch, "shared"))).collect()
}

/// The bands find all pairs of these documents.
const BANDS: [&str; 2] = ["lsh.bands=128", "lsh.rows=1"];

/// Checks all tables of an output; returns how many shingles are frequent.
fn check(headed: &Headed, output: &Path, by_group: bool, share: f64, measure: &str) -> usize {
    let frequent = headed.frequent(by_group, share);
    let written = table(output, "frequent_shingles");
    let counts = numbers(&written, "documents").into_iter().zip(floats(&written, "share"));
    let listed: BTreeMap<String, (u64, f64)> = strings(&written, "sample").into_iter().zip(counts).collect();
    assert_eq!(listed, frequent);
    assert_eq!(written.num_rows(), frequent.len());
    assert_eq!(manifest(output).counts.frequent_shingles, Some(frequent.len() as u64));
    assert_eq!(written.column_by_name("group").is_some(), by_group);

    let sets = headed.sets(&frequent);
    let documents = table(output, "documents");
    let sizes: BTreeMap<String, u64> =
        strings(&documents, "id").into_iter().zip(numbers(&documents, "shingle_count")).collect();
    assert_eq!(sizes, sets.iter().map(|(id, set)| (id.to_string(), set.len() as u64)).collect());
    let rejects = table(output, "rejects");
    let rejected: BTreeMap<String, String> =
        strings(&rejects, "id").into_iter().zip(strings(&rejects, "reason")).collect();
    let gone = headed.documents.iter().filter(|(id, _)| !sizes.contains_key(id));
    let reason = |text: &str| if shingles(text, 3).is_empty() { "too_short" } else { "only_template" };
    assert_eq!(rejected, gone.map(|(id, text)| (id.clone(), reason(text).to_owned())).collect());
    assert!(rejected.values().any(|reason| reason == "only_template"));
    assert_eq!(found(output), pairs_of(&sets, measure));
    frequent.len()
}

#[test]
fn pairs_are_those_of_the_sets_without_frequent_shingles() {
    let folder = tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for seed in seeds(1) {
        let headed = Headed::new(seed, 260);
        headed.write(&path("in.parquet"));
        for (name, measure, sets) in [
            ("lsh", "jaccard", BANDS.to_vec()),
            ("kept", "jaccard", [&["output.keep=shingles"], &BANDS[..]].concat()),
            ("hot", "jaccard", [&["lsh.hot_bucket=2"], &BANDS[..]].concat()),
            ("crc32", "jaccard", [&["shingle.hash=crc32"], &BANDS[..]].concat()),
            ("all", "jaccard", vec!["candidates.method=all"]),
            ("prefix", "jaccard", vec!["candidates.method=prefix"]),
            ("contained", "containment", vec!["candidates.method=prefix", "score.measure=containment"]),
            ("contained all", "containment", vec!["candidates.method=all", "score.measure=containment"]),
        ] {
            for (by_group, share, threads) in [(false, 0.06, 1), (true, 0.2, 4)] {
                let output = path(&format!("{name} {by_group} {seed}"));
                let (share_set, threads) =
                    (format!("shingle.max_frequency={share}"), format!("engine.threads={threads}"));
                let mut sets = [&[share_set.as_str(), &threads, "output.expand=all"], &sets[..]].concat();
                if by_group {
                    sets.push("source.group=site");
                }
                run(&job(&path("in.parquet"), &output, &sets)).unwrap();
                let frequent = check(&headed, &output, by_group, share, measure);
                assert!(frequent >= 3 * 36, "{name}: {frequent}");
            }
        }
    }
}

#[test]
fn without_the_key_headers_make_pairs() {
    let folder = tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let headed = Headed::new(1, 260);
    headed.write(&path("in.parquet"));
    let plain = job(&path("in.parquet"), &path("out"), &["candidates.method=all", "output.expand=all"]);
    run(&plain).unwrap();
    let (all, counted) = (BTreeMap::new(), headed.frequent(false, 0.06));
    assert_eq!(found(&path("out")), pairs_of(&headed.sets(&all), "jaccard"));
    assert!(found(&path("out")).len() > 2 * pairs_of(&headed.sets(&counted), "jaccard").len());
    assert!(!manifest(&path("out")).tables.contains_key("frequent_shingles"));
}

/// A shingle is frequent in more than 10 documents, and in more than the share: not in just so many.
#[test]
fn shares_and_the_least_number_of_documents_are_exact() {
    let folder = tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
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
    let folder = tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    Headed::new(7, 400).write(&path("in.parquet"));
    let sets = ["shingle.max_frequency=0.06", "source.group=site", "clusters.contained=0.9"];
    let with = |name: &str, more: &[&str]| job(&path("in.parquet"), &path(name), &[&sets[..], more].concat());
    run(&with("whole", &["engine.memory=2GiB"])).unwrap();
    let whole = tables(&path("whole"));
    assert!(table(&path("whole"), "frequent_shingles").num_rows() > 50);
    run(&with("small", &["engine.memory=64MiB", "engine.threads=2"])).unwrap();
    assert_eq!(tables(&path("small")), whole);
    let mut stops = 0;
    for at in 0.. {
        let name = format!("stopped{at}");
        if !stopping::run_until(&with(&name, &[]), OnExisting::Fail, at).1 {
            break;
        }
        stops += 1;
        // The counters of the first attempt are taken over by a run with another memory.
        let resumed = run(&with(&name, &["engine.memory=96MiB"])).unwrap();
        assert!(resumed.stages_reused >= at.min(3), "stopped at plan {at}");
        assert_eq!(tables(&path(&name)), whole, "stopped at plan {at}");
    }
    assert!(stops > 12, "{stops}");
}

/// An output is used again with the shingles that did not count in it; a second source is compared without those of the source;
/// `neighbors` and `evaluate` leave them out too.
#[test]
fn what_builds_on_an_output_leaves_the_same_shingles_out() {
    let folder = tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let shown = |name: &str| path(name).display().to_string();
    let headed = Headed::new(11, 260);
    headed.write(&path("in.parquet"));
    let sets = [&["shingle.max_frequency=0.06", "output.expand=all"], &BANDS[..]].concat();
    run(&job(&path("in.parquet"), &path("signed"), &sets)).unwrap();
    let kept = [&["output.keep=shingles"], &sets[..]].concat();
    run(&job(&path("in.parquet"), &path("kept"), &kept)).unwrap();
    for from in ["signed", "kept"] {
        let text = format!(
            "source = {{ format = \"output\", url = {:?} }}\nscore.threshold = 0.5\nlsh = {{ bands = 128, rows = 1 }}\n\
             output = {{ url = {:?}, expand = \"all\" }}\n",
            shown(from),
            shown(&format!("over {from}"))
        );
        std::fs::write(path("job.toml"), text).unwrap();
        resemblance().args(["run", &shown("job.toml")]).assert().success();
        for name in ["pairs", "frequent_shingles", "documents", "rejects"] {
            let [over, first] = [format!("over {from}"), "signed".into()].map(|output| {
                let table = table(&path(&output), name);
                (strings(&table, table.schema().field(0).name()), table.num_rows())
            });
            assert_eq!(over, first, "{name} over {from}");
        }
        let evaluated = resemblance()
            .args(["evaluate", &shown(&format!("over {from}")), "--sample", "1000", "--json"])
            .assert()
            .success();
        let evaluated: serde_json::Value = serde_json::from_slice(&evaluated.get_output().stdout).unwrap();
        assert_eq!(evaluated["recall"]["pairs"]["value"], 1.0, "{evaluated}");
    }
    // A text that is nothing but a header, and one with its own words behind it.
    let (_, header) =
        headed.documents.iter().find(|(_, text)| text.starts_with("h0") && !text.contains(" w")).unwrap();
    let ask = |text: &str| {
        std::fs::write(path("asked.txt"), text).unwrap();
        resemblance()
            .args(["neighbors", &shown("signed"), "--text", &shown("asked.txt"), "--json"])
            .output()
            .unwrap()
    };
    let refused = ask(header);
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("frequent_shingles"), "{refused:?}");
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
    let both: BTreeSet<(String, String)> = found_pairs(&path("against"));
    let mut wanted = BTreeSet::new();
    for (a, b) in found_pairs(&path("signed")) {
        wanted.extend([(b.clone(), a.clone()), (a, b)]);
    }
    wanted.extend(strings(&table(&path("signed"), "documents"), "id").into_iter().map(|id| (id.clone(), id)));
    assert_eq!(both, wanted);
}

fn found_pairs(output: &Path) -> BTreeSet<(String, String)> {
    found(output).into_keys().collect()
}

#[test]
fn what_does_not_work_with_it_says_so() {
    let folder = tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    Headed::new(3, 60).write(&path("in.parquet"));
    let refused = |sets: &[&str]| {
        let text = job_text(path("in.parquet"), path("out"));
        let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
        let file = resemblance::job::file::read(&text, "test.toml", &sets).unwrap();
        resemblance::job::resolve(file).unwrap_err().to_string()
    };
    for value in ["0", "1", "-0.5", "2", "nan", "inf"] {
        let error = refused(&[&format!("shingle.max_frequency={value}")]);
        assert!(error.contains("expected a number over 0 and under 1"), "{error}");
    }
    let key = "shingle.max_frequency=0.01";
    assert!(refused(&[key, "shingle.hash=dictionary"]).contains("expected another hash"));
    assert!(refused(&[key, "shingle.short=empty", "score.by=signature"]).contains("keeps all documents"));
    std::fs::write(path("job.toml"), job_text(path("in.parquet"), path("swept"))).unwrap();
    let swept = resemblance()
        .args(["sweep", &path("job.toml").display().to_string(), "--set", key])
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&swept.stderr).contains("leave the key out"), "{swept:?}");

    for name in ["one", "two"] {
        run(&job(&path("in.parquet"), &path(name), &[key])).unwrap();
    }
    let merged = resemblance()
        .arg("merge")
        .args([path("one"), path("two")])
        .arg("--to")
        .arg(path("merged"))
        .output()
        .unwrap();
    assert!(!merged.status.success(), "{merged:?}");
    // An output without frequent shingles is compared with one that has them.
    let against = format!("against.output={:?}", path("one").display().to_string());
    let error = run(&job(&path("in.parquet"), &path("other"), &[&against])).unwrap_err().to_string();
    assert!(error.contains("shingle.max_frequency"), "{error}");
}
