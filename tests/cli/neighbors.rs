//! The neighbors of a document, compared with a ranking by plain loops, and the command as a user calls it.

use resemblance::lookup::neighbors::{
    NeighborOrder, Neighbors, Query, Sketch, document_sketch, neighbors, text_sketch,
};
use resemblance::lookup::reread::{Need, Reread};
use resemblance::lookup::{self, Finished, Id};

use crate::support::oracle::answer::{Documents, Name, add, pair};
use crate::support::oracle::corpus::{Text, sorted};
use crate::support::oracle::settings::{Family, Hash, Settings};
use crate::support::*;

type Ranking = Vec<(String, f64, f64)>;

/// All documents that share a bucket with this one, most similar first.
fn ranking(documents: &Documents, of: &Name, settings: &Settings, by: NeighborOrder) -> Ranking {
    let document = &documents[of];
    let others =
        documents.iter().filter(|(name, other)| *name != of && !other.buckets.is_disjoint(&document.buckets));
    let mut found: Ranking = others
        .map(|(name, other)| {
            let pair = pair(document, other, settings);
            (name.1.clone(), pair.estimate, pair.jaccard)
        })
        .collect();
    found.sort_by(|a, b| {
        let (estimates, jaccards) = (b.1.total_cmp(&a.1), b.2.total_cmp(&a.2));
        let similar = match by {
            NeighborOrder::Estimate => estimates.then(jaccards),
            NeighborOrder::Jaccard => jaccards.then(estimates),
        };
        similar.then(a.0.cmp(&b.0))
    });
    found
}

pub fn with_output<T>(output: &Path, ask: impl AsyncFnOnce(Finished) -> T) -> T {
    let engine = EngineSettings { threads: 2, ..EngineSettings::local(1 << 30) };
    block_on(async {
        let session = lookup::session(&engine).unwrap();
        ask(Finished::open(&session, &output.to_string_lossy()).await.unwrap()).await
    })
}

fn text_id(id: &str) -> Id {
    Id::Text(id.to_owned())
}

/// The neighbors of a sketch, which may be of the document `id`.
pub async fn ask(
    finished: &Finished,
    sketch: &Sketch,
    id: Option<&Id>,
    by: NeighborOrder,
    top: usize,
) -> Neighbors {
    let again = again(finished).await;
    neighbors(finished, again.as_ref(), Query { sketch, id, by, top }).await.unwrap()
}

/// The source, where the output does not keep the shingles.
async fn again(finished: &Finished) -> Option<Reread<'_>> {
    match finished.keeps_shingles() {
        true => None,
        false => Some(Reread::open(finished, Need::Shingles).await.unwrap()),
    }
}

async fn stored(finished: &Finished, id: &str) -> Option<Sketch> {
    document_sketch(finished, &text_id(id), again(finished).await.as_ref()).await.unwrap()
}

/// Every tenth of the documents, compared with the ranking by plain loops, whole and cut short.
fn equals_plain_loops(output: &Path, documents: &Documents, settings: &Settings) {
    with_output(output, async |finished| {
        let mut candidates = 0;
        for name in documents.keys().step_by(documents.len() / 10) {
            let id = &name.1;
            let sketch = stored(&finished, id).await.unwrap();
            for by in [NeighborOrder::Estimate, NeighborOrder::Jaccard] {
                let expected = ranking(documents, name, settings, by);
                for top in [3, 100_000] {
                    let found = ask(&finished, &sketch, Some(&text_id(id)), by, top).await;
                    assert_eq!(found.candidates, expected.len() as u64, "{id}");
                    let nearest = found.nearest.into_iter();
                    let ranking: Ranking =
                        nearest.map(|n| (n.id.to_string(), n.estimate, n.jaccard.unwrap())).collect();
                    assert_eq!(ranking, expected[..expected.len().min(top)], "{id} {by:?} {top}");
                }
                candidates += expected.len();
            }
        }
        assert!(candidates > 0, "nothing was compared");
    });
}

#[test]
fn neighbors_equal_plain_loops() {
    let path = paths();
    let documents = corpus(11, 240, 40);
    let source = path("in.parquet");
    write_parquet(&source, &documents, 50);
    let plain = Settings { keep_tables: "", ..Settings::of_losses(0, &mut Random(1)) };
    let dictionary =
        Settings { hash: Hash::Dictionary, family: Family::Linear(None), crc_buckets: true, ..plain.clone() };
    let cases: [(&str, &[&str], Settings); 4] = [
        ("defaults", &[], plain.clone()),
        (
            "one-permutation",
            &["minhash.family=one-permutation"],
            Settings { family: Family::OnePermutation, ..plain.clone() },
        ),
        ("dictionary", &DICTIONARY, dictionary),
        (
            "table",
            &["lsh.bucket_hash=crc32", "lsh.table_size=5000"],
            Settings { crc_buckets: true, table_size: Some(5_000), ..plain },
        ),
    ];
    let kept = cases.iter().map(|case| (case, "shingles"));
    let cut_again = cases.iter().step_by(2).map(|case| (case, "signatures"));
    let text = |(id, text): &Document| Text {
        id: Some(id.clone()),
        text: Some(text.clone()),
        group: None,
        year: None,
    };
    let files = vec![("in".to_owned(), documents.iter().map(text).collect())];
    for ((name, sets, settings), keep) in kept.chain(cut_again) {
        let output = path(name).join(keep);
        let keep = format!("output.keep={keep}");
        let job = job(&source, &output, &[sets, &[keep.as_str()][..]].concat());
        run(&job).unwrap();
        let (bands, rows) = (job.lsh.bands, job.lsh.rows);
        let settings = Settings { method: "lsh", bands, rows, bits: None, ..settings.clone() };
        let mut plain = Documents::new();
        add(&mut plain, &sorted(&files, &settings).unwrap(), &settings, false, 0);
        equals_plain_loops(&output, &plain, &settings);

        // A text is sketched as the run sketched it, and finds itself.
        with_output(&output, async |finished| {
            for (id, text) in documents.iter().step_by(60) {
                let sketch = text_sketch(&finished, text).await.unwrap().unwrap();
                assert_eq!(Some(&sketch), stored(&finished, id).await.as_ref(), "{name} {keep} {id}");
                let found = ask(&finished, &sketch, None, NeighborOrder::Estimate, 1_000).await;
                assert_eq!((found.nearest[0].estimate, found.nearest[0].jaccard), (1.0, Some(1.0)));
                let own = found.nearest.iter().find(|neighbor| neighbor.id == text_id(id)).unwrap();
                assert_eq!((own.jaccard, own.shared_bands), (Some(1.0), job.lsh.bands));
            }
        });
    }
}

/// Shingles that no document has are part of the text, and agree with nothing.
#[test]
fn a_text_with_shingles_that_are_not_in_the_dictionary_is_measured_whole() {
    let path = paths();
    let documents = corpus(12, 40, 40);
    let (source, output) = (path("in.parquet"), path("out"));
    write_parquet(&source, &documents, 50);
    let job = job(&source, &output, &DICTIONARY);
    run(&job).unwrap();
    let (id, stored) = &documents[0];
    let longer = format!("{stored} {stored} now comes what nobody wrote before");
    let (a, b) = (shingles(&longer, 3), shingles(stored, 3));
    let jaccard = a.intersection(&b).count() as f64 / a.union(&b).count() as f64;
    // More shingles than the dictionary has: modulo the prime above it they are numbers of others.
    let strange: Vec<String> = (0..3_000).map(|i| format!("s{i}")).collect();
    with_output(&output, async |finished| {
        let sketch = text_sketch(&finished, &longer).await.unwrap().unwrap();
        assert_eq!(sketch.shingles.as_ref().map(Vec::len), Some(a.len()));
        let found = ask(&finished, &sketch, None, NeighborOrder::Jaccard, 1_000).await;
        let own = found.nearest.iter().find(|neighbor| neighbor.id == text_id(id)).unwrap();
        assert_eq!((own.jaccard, own.containment_b), (Some(jaccard), Some(1.0)));
        assert!((own.estimate - jaccard).abs() < 0.15, "{} for {jaccard}", own.estimate);

        let sketch = text_sketch(&finished, &strange.join(" ")).await.unwrap().unwrap();
        assert_eq!(ask(&finished, &sketch, None, NeighborOrder::Estimate, 10).await.candidates, 0);
        assert_eq!(text_sketch(&finished, "two words").await.unwrap(), None);
    });
}

/// A corpus with a document that is like no other and one that is too short; the output.
fn small_output() -> (TempDir, PathBuf) {
    let folder = tempdir().unwrap();
    let mut documents = corpus(13, 30, 40);
    documents[29].1 = documents[28].1.clone();
    let lonely: Vec<String> = (0..30).map(|i| format!("l{i}")).collect();
    documents.push(("lonely".into(), lonely.join(" ")));
    documents.push(("short".into(), "two words".into()));
    let (source, output) = (folder.path().join("in.parquet"), folder.path().join("out"));
    write_parquet(&source, &documents, 50);
    run(&job(&source, &output, &[])).unwrap();
    (folder, output)
}

#[test]
fn the_command_prints_a_table_or_json() {
    let (folder, out) = small_output();
    let ask = |arguments: &[&str]| program!["neighbors", &out].args(arguments).assert();
    ask(&["--id", "d00029", "--top", "1"]).shown(&["| estimate", "1.000000", "a is d00029"]);
    let json = ask(&["--id", "d00029", "--top", "1000", "--by", "jaccard", "--json"]).success();
    let lines: Vec<Value> =
        stdout(json.get_output()).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["jaccard"], &lines[0]["estimate"]), (&1.0.into(), &1.0.into()));
    assert!(lines.iter().all(|line| line["id"] != "d00029"));
    json.warned(&["1000 were asked for"]);

    let text = &corpus(13, 30, 40)[3].1;
    let file = write_file(&folder, "text.txt", text);
    let by_file = ask(&["--text", file.to_str().unwrap(), "--json", "--top", "40"]).success();
    let piped = ["--text", "-", "--json", "--top", "40"];
    let by_pipe = program!["neighbors", &out].args(piped).write_stdin(text.as_str()).assert().success();
    assert_eq!(by_file.get_output().stdout, by_pipe.get_output().stdout);
    let first = stdout(by_file.get_output()).lines().next().unwrap().to_owned();
    assert_eq!(serde_json::from_str::<Value>(&first).unwrap()["jaccard"], 1.0);
}

#[test]
fn missing_documents_and_texts_are_reported() {
    let (folder, out) = small_output();
    let ask = |arguments: &[&str]| program!["neighbors", &out].args(arguments).assert();
    ask(&["--id", "lonely"]).shown(&["no other document shares a bucket with lonely"]);
    ask(&["--id", "lonely", "--json"]).stdout("").warned(&["no other document"]);
    ask(&["--id", "d00029", "--top", "500"]).shown(&["500 were asked for"]);

    ask(&["--id", "d0029"]).refused(2, &["no document has the id `d0029`", "`d00029`"]);
    ask(&["--id", "nothing like it"]).refused(2, &["the column `id`"]);
    ask(&["--id", "short"]).refused(2, &["rejected", "too_short"]);
    for bad in ["0", "-1", "x"] {
        ask(&["--id", "lonely", &format!("--top={bad}")]).refused(2, &["--top", "from 1 to 1000000"]);
    }
    ask(&[]).refused(2, &["--id"]);
    ask(&["--id", "lonely", "--text", "-"]).refused(2, &["cannot be used with"]);

    let file = folder.path().join("text.txt");
    let path = file.to_str().unwrap();
    ask(&["--text", path]).refused(3, &["text.txt"]);
    std::fs::write(&file, b"caf\xe9 noir et blanc").unwrap();
    ask(&["--text", path]).refused(3, &["text.txt is not valid UTF-8"]);
    std::fs::write(&file, "two words").unwrap();
    ask(&["--text", path]).refused(3, &["too short", "3 words"]);
    std::fs::write(&file, "nobody wrote these words before").unwrap();
    ask(&["--text", path]).shown(&["no document shares a bucket with"]);
    program!["neighbors", "no-such-output", "--id", "x"].assert().refused(3, &["no-such-output"]);
}

#[test]
fn outputs_of_another_version_or_without_signatures_are_to_be_made_again() {
    let (folder, out) = small_output();
    let path = out.join("manifest.json");
    let mut record: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    record["job"]["shingle"].as_object_mut().unwrap().remove("words");
    std::fs::write(&path, record.to_string()).unwrap();
    program!["neighbors", &out, "--id", "lonely"].assert().refused(3, &["run the job again"]);
    // Nor are there neighbors where the signatures were not kept.
    let (source, bare) = (folder.path().join("in.parquet"), folder.path().join("bare"));
    run(&job(&source, &bare, &["output.keep=none"])).unwrap();
    program!["neighbors", &bare, "--id", "d00029"].assert().refused(3, &["output.keep = \"signatures\""]);
}

/// Shingles that the output does not keep come from the source, while it is what it was.
#[test]
fn without_the_source_there_are_estimates_alone() {
    let (folder, out) = small_output();
    let ask = |arguments: &[&str]| program!["neighbors", &out].args(arguments).assert();
    let columns = |json: String| -> Vec<(Value, Value)> {
        let lines = json.lines().map(serde_json::from_str);
        let lines: Vec<Value> = lines.map(Result::unwrap).collect();
        lines.iter().map(|line| (line["estimate"].clone(), line["jaccard"].clone())).collect()
    };
    const CHANGED: &str = "has changed since";
    let before = ask(&["--id", "d00029", "--json"]);
    assert!(!before.warned(&[]).contains(CHANGED));
    let before = columns(before.shown(&[]));
    assert!(before.iter().all(|(_, jaccard)| jaccard.is_f64()) && !before.is_empty(), "{before:?}");

    let source = folder.path().join("in.parquet");
    let mut documents = corpus(13, 30, 40);
    documents[3].1.push_str(" and more");
    write_parquet(&source, &documents, 50);
    let after = ask(&["--id", "d00029", "--json"]);
    after.warned(&[CHANGED]);
    let after = columns(after.shown(&[]));
    assert_eq!(after.len(), before.len());
    assert!(after.iter().all(|(_, jaccard)| jaccard.is_null()), "{after:?}");
    let estimates = |found: &[(Value, _)]| found.iter().map(|found| found.0.clone()).collect::<Vec<_>>();
    assert_eq!(estimates(&after), estimates(&before));
    ask(&["--id", "d00029", "--by", "jaccard"]).refused(3, &[CHANGED]);
    std::fs::remove_file(&source).unwrap();
    ask(&["--id", "d00029", "--by", "jaccard"]).refused(3, &["cannot be read again"]);
    ask(&["--id", "d00029"]).shown(&["|       - |"]);
}
