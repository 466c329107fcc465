//! A sample shows which shingles may be frequent; the rows are those of plain counting, whatever it shows.

use std::collections::BTreeMap;

use super::*;

/// Enough for a sample: one document in 16 is drawn.
const DOCUMENTS: usize = 1_600;
const SHARE: f64 = 0.3;
const SETS: [&str; 3] = ["shingle.max_frequency=0.3", "output.expand=all", "lsh.bands=128"];

/// Texts of words of their own, some near-copies of others, with the passages that `passages` gives to the document at each place.
fn texts(seed: u64, passages: impl Fn(usize) -> Vec<String>) -> Vec<Document> {
    let mut random = Random(seed);
    let mut texts: Vec<Vec<String>> = Vec::new();
    for number in 0..DOCUMENTS {
        let mut text = match random.below(4) {
            0 if number > 0 => texts[random.below(number)].clone(),
            _ => (0..14 + random.below(20)).map(|_| format!("w{}", random.below(4_000))).collect(),
        };
        let at = random.below(text.len());
        text[at] = format!("w{}", random.below(4_000));
        texts.push(text);
    }
    let numbered = texts.into_iter().enumerate();
    numbered.map(|(at, text)| (format!("d{at:04}"), [passages(at), text].concat().join(" "))).collect()
}

fn passage(name: &str, words: usize) -> Vec<String> {
    (0..words).map(|word| format!("{name}{word}")).collect()
}

/// Pairs with the same measure as [`pairs_of`], found by the shingles that documents share.
fn pairs_by_shingle(sets: &[(&str, BTreeSet<String>)]) -> Pairs {
    let mut holders: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, (_, set)) in sets.iter().enumerate() {
        set.iter().for_each(|shingle| holders.entry(shingle).or_default().push(at));
    }
    let mut pairs = BTreeMap::new();
    for (at, (id, set)) in sets.iter().enumerate() {
        let mut shared: BTreeMap<usize, usize> = BTreeMap::new();
        let others = set.iter().flat_map(|shingle| &holders[shingle.as_str()]);
        others.filter(|other| **other > at).for_each(|other| *shared.entry(*other).or_default() += 1);
        for (other, shared) in shared {
            let (other_id, other) = &sets[other];
            let jaccard = shared as f64 / (set.len() + other.len() - shared) as f64;
            if jaccard >= 0.5 {
                pairs.insert((id.to_string(), other_id.to_string()), (jaccard, shared as u64));
            }
        }
    }
    pairs
}

/// Checks the tables of an output against plain code.
fn assert_exact(documents: &[Document], output: &Path) {
    let all = Headed { documents: documents.to_vec(), groups: vec![None; documents.len()] };
    let frequent = all.frequent(false, SHARE);
    let written = table(output, "frequent_shingles");
    let counts = numbers(&written, "documents").into_iter().zip(floats(&written, "share"));
    assert_eq!(strings(&written, "sample").into_iter().zip(counts).collect::<BTreeMap<_, _>>(), frequent);
    let sets = all.sets(&frequent);
    let compared = table(output, "documents");
    let sizes: BTreeMap<String, u64> =
        strings(&compared, "id").into_iter().zip(numbers(&compared, "shingle_count")).collect();
    assert_eq!(sizes, sets.iter().map(|(id, set)| (id.to_string(), set.len() as u64)).collect());
    assert_eq!(compared.num_rows(), sizes.len());
    let rejects = table(output, "rejects");
    assert_eq!(rejects.num_rows() + sizes.len(), documents.len());
    assert!(strings(&rejects, "reason").iter().all(|reason| reason == "only_template"));
    assert_eq!(found(output), pairs_by_shingle(&sets));
    assert!(found(output).len() > 50);
}

/// Whether the sample was right, so that all shingles were not counted once more.
fn was_right(output: &Path) -> bool {
    let stages = manifest(output).stages;
    let rows = |name: &str| stages.iter().find(|stage| stage.name == name).map(|stage| stage.rows);
    assert!(rows("shingle_sample") > Some(0));
    assert_eq!(rows("first_sketches").is_some(), rows("suspects").is_none(), "{stages:?}");
    rows("suspects").is_none()
}

/// A header of most documents, which the sample shows, and passages of just as many documents as may have one, and one more.
fn headed(seed: u64) -> Vec<Document> {
    // All documents have a shingle.
    let limit = (SHARE * DOCUMENTS as f64) as usize;
    texts(seed, |at| {
        let turned = at * 7 % DOCUMENTS;
        let mut passages = Vec::new();
        if at % 4 > 0 {
            passages.extend(passage("header", 12));
        }
        if turned < limit {
            passages.extend(passage("rare", 3));
        }
        if (200..=200 + limit).contains(&turned) {
            passages.extend(passage("often", 3));
        }
        passages
    })
}

fn with(path: &Path, documents: &mut [Document], of: &str) {
    // A document that is nothing else.
    let at = documents.iter().position(|(_, text)| text.starts_with("header")).unwrap();
    documents[at].1 = passage(of, 12).join(" ");
    write_parquet(path, documents, 100);
}

#[test]
fn a_sample_that_is_right_gives_the_rows_of_plain_counting() {
    let folder = tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for seed in seeds(1) {
        let mut documents = headed(seed);
        with(&path("in.parquet"), &mut documents, "header");
        for (name, more) in [
            ("plain", &["lsh.rows=1", "engine.threads=3"][..]),
            ("hot", &["lsh.rows=1", "lsh.hot_bucket=3"]),
            ("kept", &["lsh.rows=1", "output.keep=shingles"]),
            ("prefix", &["lsh.rows=1", "candidates.method=prefix"]),
            ("first", &["lsh.rows=1", "source.duplicate_ids=reject"]),
        ] {
            let output = path(&format!("{name} {seed}"));
            run(&job(&path("in.parquet"), &output, &[&SETS, more].concat())).unwrap();
            assert_exact(&documents, &output);
            assert!(was_right(&output), "{name}");
            let samples = strings(&table(&output, "frequent_shingles"), "sample");
            assert!(samples.contains(&"often0 often1 often2".to_owned()), "{samples:?}");
            assert!(!samples.contains(&"rare0 rare1 rare2".to_owned()), "{samples:?}");
        }
    }
}

/// The documents that the sample does not have decide, and those that it has do not.
#[test]
fn a_sample_that_is_wrong_changes_no_row() {
    let folder = tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let documents = headed(3);
    write_parquet(&path("in.parquet"), &documents, 100);
    // The sample is that of `source.limit`.
    run(&job(&path("in.parquet"), &path("drawn"), &["source.limit=6.25%"])).unwrap();
    let drawn = table(&path("drawn"), "documents");
    let drawn: BTreeSet<String> = strings(&drawn, "id").into_iter().collect();
    assert!((60..150).contains(&drawn.len()), "{}", drawn.len());
    let with = |is_in: &dyn Fn(usize, bool) -> bool| -> Vec<Document> {
        let numbered = documents.iter().enumerate();
        let texts = numbered.map(|(at, (id, text))| {
            let own = if is_in(at, drawn.contains(id)) { passage("misleading", 8) } else { Vec::new() };
            (id.clone(), [own, vec![text.clone()]].concat().join(" "))
        });
        let mut texts: Vec<Document> = texts.collect();
        texts[1_599].1 = passage("header", 12).join(" ");
        texts
    };
    let missed = with(&|at, drawn| !drawn && at % 2 == 0);
    let only = with(&|_, drawn| drawn);
    for (name, documents, is_frequent) in [("missed", missed, true), ("only", only, false)] {
        // The same name, so that the same documents are drawn.
        std::fs::create_dir(path(name)).unwrap();
        let source = path(name).join("in.parquet");
        write_parquet(&source, &documents, 100);
        let output = path(&format!("{name} out"));
        run(&job(&source, &output, &[&SETS[..], &["lsh.rows=1"]].concat())).unwrap();
        assert_exact(&documents, &output);
        let samples = strings(&table(&output, "frequent_shingles"), "sample");
        let is_listed = samples.iter().any(|sample| sample.starts_with("misleading"));
        assert_eq!(is_listed, is_frequent, "{name}");
        assert!(!was_right(&output), "{name}");
    }
}

#[test]
fn rows_are_the_same_after_every_stop() {
    let folder = tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut documents = headed(5);
    with(&path("in.parquet"), &mut documents, "header");
    let of = |name: &str| {
        job(&path("in.parquet"), &path(name), &[&SETS[..], &["lsh.rows=1", "lsh.hot_bucket=1000"]].concat())
    };
    run(&of("whole")).unwrap();
    assert!(was_right(&path("whole")));
    let whole = tables(&path("whole"));
    // The stages that differ from those of other jobs are the first ones.
    for at in 0..7 {
        let name = format!("stopped{at}");
        assert!(stopping::run_until(&of(&name), OnExisting::Fail, at).1);
        let resumed = run(&of(&name)).unwrap();
        assert!(resumed.stages_reused >= at, "stopped at plan {at}");
        assert_eq!(tables(&path(&name)), whole, "stopped at plan {at}");
    }
}
