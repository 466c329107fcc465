//! The table of buckets: its rows, compared with the signatures, and the neighbors that are found by it, compared with those that are
//! found by all signatures.

use arrow::datatypes::Int64Type;
use object_store::local::LocalFileSystem;
use resemblance::lookup::neighbors::{
    NeighborOrder, Neighbors, Query, document_sketch, neighbors, text_sketch,
};
use resemblance::lookup::{self, Finished, Id};

use crate::cli::neighbors::{ask, with_output};
use crate::support::counting::Counting;
use crate::support::*;

const TABLE: &str = "output.buckets=true";

struct Scene {
    folder: TempDir,
    documents: Vec<Document>,
}

impl Scene {
    fn new(documents: Vec<Document>) -> Self {
        let folder = tempdir().unwrap();
        std::fs::create_dir(folder.path().join("in")).unwrap();
        for (at, part) in documents.chunks(documents.len().div_ceil(3)).enumerate() {
            write_parquet(&folder.path().join(format!("in/{at}.parquet")), part, 400);
        }
        Self { folder, documents }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, name: &str, sets: &[&str]) -> PathBuf {
        let output = self.path(name);
        run(&job(&self.path("in"), &output, sets)).unwrap();
        output
    }
}

/// A corpus with a bucket of very many documents: copies, and documents that differ from them in one word.
fn with_hot_bucket(count: usize) -> Vec<Document> {
    let mut documents = corpus(5, count, 30);
    let shared: Vec<String> = (0..40).map(|word| format!("shared{word}")).collect();
    for at in 0..count / 2 {
        let mut words = shared.clone();
        if at % 3 == 0 {
            words[at % 40] = format!("own{at}");
        }
        documents.insert(2 * at, (format!("hot{at:05}"), words.join(" ")));
    }
    documents
}

/// The answers of an output about some of its documents, by their ids and as texts, and about a text that it does not have.
fn answers(output: &Path, documents: &[Document]) -> Vec<Neighbors> {
    with_output(output, async |finished| {
        let mut answers = Vec::new();
        for (at, (id, text)) in documents.iter().enumerate().step_by(documents.len() / 6) {
            let id = finished.id(id).unwrap();
            let stored = document_sketch(&finished, &id, None).await.unwrap().unwrap();
            let (by, top) =
                if at % 2 == 0 { (NeighborOrder::Estimate, 3) } else { (NeighborOrder::Jaccard, 100_000) };
            answers.push(ask(&finished, &stored, Some(&id), by, top).await);
            let changed = format!("{text} and some other words");
            let text = text_sketch(&finished, &changed).await.unwrap().unwrap();
            let (by, top) =
                if at % 2 == 0 { (NeighborOrder::Jaccard, 5) } else { (NeighborOrder::Estimate, 100_000) };
            answers.push(ask(&finished, &text, None, by, top).await);
        }
        let unknown =
            text_sketch(&finished, "no document has any of these words in it").await.unwrap().unwrap();
        answers.push(ask(&finished, &unknown, None, NeighborOrder::Estimate, 10).await);
        answers
    })
}

fn assert_same_answers(plain: &Path, by_table: &Path, documents: &[Document], what: &str) {
    assert!(!manifest(plain).tables.contains_key("buckets"));
    assert!(manifest(by_table).tables.contains_key("buckets"));
    let (expected, found) = (answers(plain, documents), answers(by_table, documents));
    assert_eq!(found, expected, "{what}");
    let candidates: u64 = expected.iter().map(|answer| answer.candidates).sum();
    assert!(candidates > 10, "{what}: {candidates} candidates");
}

#[test]
fn neighbors_equal_a_search_of_all_signatures() {
    let scene = Scene::new(corpus(21, 700, 30));
    let cases: [(&str, &[&str]); 9] = [
        ("defaults", &[]),
        ("kept shingles", &["output.keep=shingles"]),
        ("more bands than DataFusion compares with bounds", &["lsh.bands=40", "lsh.rows=3"]),
        ("one band", &["lsh.bands=1", "lsh.rows=4"]),
        ("one table of all bands", &["lsh.bucket_hash=crc32", "lsh.table_size=5000"]),
        ("bands in the order of numbers", &["lsh.bucket_hash=crc32", "lsh.bands=30", "lsh.rows=4"]),
        ("32 bits", &["minhash.bits=32"]),
        ("one-permutation", &["minhash.family=one-permutation"]),
        ("prefix", &["candidates.method=prefix"]),
    ];
    for (name, sets) in cases {
        let plain = scene.run(&format!("{name}, plain"), sets);
        let by_table = scene.run(name, &[sets, &[TABLE]].concat());
        assert_same_answers(&plain, &by_table, &scene.documents, name);
    }
}

#[test]
fn a_bucket_may_have_most_documents() {
    let scene = Scene::new(with_hot_bucket(1_600));
    for hot in ["lsh.hot_bucket=20", "lsh.hot_bucket=1000000"] {
        let sets = [hot, "output.expand=star"];
        let plain = scene.run(&format!("{hot}, plain"), &sets);
        let by_table = scene.run(hot, &[&sets[..], &[TABLE]].concat());
        assert_same_answers(&plain, &by_table, &scene.documents, hot);
        let most = answers(&by_table, &scene.documents).iter().map(|answer| answer.candidates).max();
        assert!(most > Some(700), "{most:?}");
    }
}

/// Each document is a file of its own, so that only the paths tell them apart.
#[test]
fn documents_are_found_by_their_files() {
    let path = paths();
    let documents = corpus(23, 1_200, 20);
    let long =
        "a folder whose name is longer than the bounds that writers of Parquet keep of a text by default";
    let source = path("in").join(long);
    std::fs::create_dir_all(&source).unwrap();
    for (id, text) in &documents {
        std::fs::write(source.join(id), text).unwrap();
    }
    let run_to = |name: &str, set: &str| {
        let output = path(name);
        let text = job_text_of("text", &source, &output);
        run(&resolve(&text, &["source.id=path", set]).unwrap()).unwrap();
        output
    };
    let (plain, by_table) = (run_to("plain", "output.buckets=false"), run_to("table", TABLE));
    assert_same_answers(&plain, &by_table, &documents, "files");
}

fn signed(batch: &RecordBatch, name: &str) -> Vec<i64> {
    batch[name].as_primitive::<Int64Type>().values().to_vec()
}

/// The rows of the table in the order of its one file: (bucket, doc, source, position).
fn in_order(output: &Path) -> Vec<(i64, i64, String, i64)> {
    let table = &manifest(output).tables["buckets"];
    let [file] = &table.files[..] else { panic!("one file: {:?}", table.files) };
    let batch = parquet(&output.join(&file.path));
    let [buckets, docs, positions] = ["bucket", "doc", "position"].map(|name| signed(&batch, name));
    let sources = strings(&batch, "source").into_iter().enumerate();
    let rows: Vec<_> =
        sources.map(|(row, source)| (buckets[row], docs[row], source, positions[row])).collect();
    assert_eq!(rows.len() as u64, table.rows);
    rows
}

/// Two documents share a bucket of a band exactly if all rows of the band are equal.
#[test]
fn every_document_has_a_row_for_each_band() {
    let scene = Scene::new(corpus(24, 300, 30));
    let output = scene.run("out", &[TABLE, "minhash.bits=32", "lsh.bands=25", "lsh.rows=5"]);
    let rows = in_order(&output);
    assert!(rows.is_sorted_by_key(|(bucket, doc, ..)| (*bucket, doc.cast_unsigned())), "not in order");
    let documents = table(&output, "documents");
    let docs = signed(&documents, "doc");
    let places = strings(&documents, "source").into_iter().zip(numbers(&documents, "position"));
    let places: BTreeMap<i64, (String, u64)> = docs.iter().copied().zip(places).collect();
    let mut own: BTreeMap<i64, BTreeSet<i64>> = BTreeMap::new();
    for (bucket, doc, source, position) in &rows {
        assert_eq!(places[doc], (source.clone(), *position as u64));
        assert!(own.entry(*doc).or_default().insert(*bucket), "a row occurs twice");
    }
    let signatures = signature_values(documents.column_by_name("signature").unwrap());
    let mut shared = 0;
    for (a, first) in docs.iter().zip(&signatures) {
        assert_eq!(own[a].len(), 25);
        for (b, second) in docs.iter().zip(&signatures) {
            let equal = first.chunks(5).zip(second.chunks(5)).take(25).filter(|(a, b)| a == b).count();
            assert_eq!(own[a].intersection(&own[b]).count(), equal);
            shared += equal;
        }
    }
    assert!(shared > 2 * 25 * 300, "{shared}");
}

#[test]
fn threads_memory_and_earlier_outputs_change_no_row() {
    let scene = Scene::new(corpus(25, 3_000, 30));
    let expected = in_order(&scene.run("out", &[TABLE]));
    assert_eq!(expected.len() % 3_000, 0);
    for (name, sets) in [
        ("one thread", &["engine.threads=1"][..]),
        ("four threads", &["engine.threads=4"]),
        ("little memory", &["engine.memory=16MiB", "engine.threads=4"]),
    ] {
        assert_eq!(in_order(&scene.run(name, &[&[TABLE], sets].concat())), expected, "{name}");
    }
    let first = scene.run("first", &[]);
    let file = scene.path("again.toml");
    let to = scene.path("again");
    std::fs::write(&file, output_job_text(&first, &to, "output.buckets = true")).unwrap();
    resemblance().arg("run").arg(&file).assert().success();
    assert_eq!(in_order(&to), expected);
    assert_same_answers(&first, &to, &scene.documents, "sketches of an output");
}

#[test]
fn merged_outputs_have_the_table_too() {
    let folder = tempdir().unwrap();
    let documents = corpus(26, 900, 30);
    let path = |name: &str| folder.path().join(name);
    let (mut plain, mut by_table) = (Vec::new(), Vec::new());
    for (at, part) in documents.chunks(300).enumerate() {
        let source = path(&format!("in{at}.parquet"));
        write_parquet(&source, part, 100);
        for (name, set, earlier) in
            [("plain", "output.buckets=false", &mut plain), ("table", TABLE, &mut by_table)]
        {
            let output = path(&format!("{name}{at}"));
            let against = format!("against.output={earlier:?}");
            let sets = [set, AS_ONE_RUN, against.as_str()];
            run(&job(&source, &output, &sets[..if at == 0 { 2 } else { 3 }])).unwrap();
            earlier.push(output);
        }
        // The documents of earlier outputs are not neighbors, with the table or without it.
        assert_same_answers(&plain[at], &by_table[at], part, "against earlier outputs");
    }
    let merge = |outputs: &[PathBuf], to: &str| {
        resemblance().arg("merge").args(outputs).arg("--to").arg(path(to)).assert().success();
    };
    merge(&by_table, "merged");
    let parts: BTreeSet<_> = by_table.iter().flat_map(|output| in_order(output)).collect();
    assert_eq!(BTreeSet::from_iter(in_order(&path("merged"))), parts);
    merge(&plain, "plain");
    assert_same_answers(&path("plain"), &path("merged"), &documents, "merged");
}

#[test]
fn replaced_documents_are_in_no_bucket_of_a_merged_output() {
    let path = paths();
    let documents = corpus(28, 400, 30);
    let (first, others) = documents.split_at(250);
    // Every third document of the first day comes again, with a text of the second.
    let replaced = first.iter().step_by(3).zip(others.iter().rev());
    let replaced: Vec<Document> = replaced.map(|((id, _), (_, text))| (id.clone(), text.clone())).collect();
    let second: Vec<Document> = replaced.iter().chain(others).cloned().collect();
    write_parquet(&path("first.parquet"), first, 60);
    write_parquet(&path("second.parquet"), &second, 60);
    let sets = [TABLE, AS_ONE_RUN];
    run(&job(&path("first.parquet"), &path("first"), &sets)).unwrap();
    let against = format!("against.output={:?}", path("first"));
    let sets = [&sets[..], &["against.same_id=replace", &against]].concat();
    run(&job(&path("second.parquet"), &path("second"), &sets)).unwrap();
    assert_eq!(manifest(&path("second")).counts.replaced_documents, Some(replaced.len() as u64));
    program!["merge", path("first"), path("second"), "--to", path("merged")].assert().success();

    let ids: BTreeSet<&String> = second.iter().map(|(id, _)| id).collect();
    let stay = first.iter().filter(|(id, _)| !ids.contains(id));
    let all: Vec<Document> = stay.chain(&second).cloned().collect();
    write_parquet(&path("all.parquet"), &all, 60);
    run(&job(&path("all.parquet"), &path("all"), &[TABLE])).unwrap();
    let places = |output: &str| -> BTreeSet<(i64, i64)> {
        let rows = table(&path(output), "buckets");
        signed(&rows, "bucket").into_iter().zip(signed(&rows, "doc")).collect()
    };
    assert_eq!(places("merged"), places("all"));
    run(&job(&path("all.parquet"), &path("plain"), &[])).unwrap();
    assert_same_answers(&path("plain"), &path("merged"), &all, "replaced");
}

#[test]
fn the_other_tables_stay() {
    let scene = Scene::new(corpus(27, 400, 30));
    let plain = rows(&scene.run("plain", &[]));
    let output = scene.run("table", &[TABLE, "output.tables=delta"]);
    let mut expected = plain;
    expected.insert("buckets".into(), table(&output, "buckets"));
    assert!(output.join("buckets/_delta_log").is_dir());
    std::fs::remove_dir_all(output.join("buckets/_delta_log")).unwrap();
    assert_eq!(rows(&output), expected);
    let finished = scene.path("table").display().to_string();
    let count = "SELECT count(DISTINCT doc) AS documents FROM buckets";
    resemblance().args(["sql", &finished, count, "--json"]).assert().shown(&["400"]);
    let empty =
        Scene::new(vec![("a".into(), "short".into()), ("b".into(), String::new()), ("c".into(), "x".into())]);
    let output = empty.run("out", &[TABLE]);
    assert_rows(&output, &rows(&output), "no documents");
    assert!(in_order(&output).is_empty());
}

/// What a query reads of an output: the requests for files of the tables, the bytes of the answers, and what it gives.
fn read_for<T>(folder: &Path, output: &str, query: impl AsyncFnOnce(&Finished) -> T) -> (usize, u64, T) {
    block_on(async {
        let store = Counting::over(LocalFileSystem::new_with_prefix(folder).unwrap(), 0);
        let session =
            lookup::session(&EngineSettings { threads: 2, ..EngineSettings::local(1 << 30) }).unwrap();
        let url = url::Url::parse("s3://counted").unwrap();
        session.register_object_store(&url, Arc::clone(&store) as _);
        let finished = Finished::open(&session, &format!("s3://counted/{output}")).await.unwrap();
        let before = store.answered("/part-");
        let found = query(&finished).await;
        let after = store.answered("/part-");
        (after.0 - before.0, after.1 - before.1, found)
    })
}

async fn of_this_text(finished: &Finished, text: &str) -> Neighbors {
    let sketch = text_sketch(finished, text).await.unwrap().unwrap();
    let query = Query { sketch: &sketch, id: None, by: NeighborOrder::Estimate, top: 10 };
    neighbors(finished, None, query).await.unwrap()
}

#[test]
fn few_pages_are_read_for_one_document() {
    let mut documents = Vec::new();
    for at in 0..15_000 {
        let words: Vec<String> = (0..12).map(|word| format!("w{}", at * 12 + word)).collect();
        documents.push((format!("{at:05}, one"), words.join(" ")));
        documents.push((format!("{at:05}, the other"), format!("{} more", words.join(" "))));
    }
    let scene = Scene::new(documents);
    let sets = ["lsh.bands=8", "lsh.rows=8"];
    scene.run("plain", &sets);
    scene.run("table", &[&sets[..], &[TABLE]].concat());
    let (id, text) = &scene.documents[17_000];
    let (_, plain_bytes, expected) =
        read_for(scene.folder.path(), "plain", async |finished| of_this_text(finished, text).await);
    let (requests, bytes, found) =
        read_for(scene.folder.path(), "table", async |finished| of_this_text(finished, text).await);
    assert_eq!(found, expected);
    assert_eq!(found.candidates, 2);
    let of = |output: &str, table: &str| {
        let table = &manifest(&scene.path(output)).tables[table];
        table.files.iter().map(|file| file.bytes).sum::<u64>()
    };
    assert!(plain_bytes > of("plain", "documents") / 2, "{plain_bytes}");
    assert!(2 * bytes < plain_bytes, "{bytes} of {plain_bytes}");
    assert!(requests < 100, "{requests}");
    // Ids in the order of the source are found in few pages, too.
    let id = Id::Text(id.clone());
    let of_id = async |finished: &Finished| document_sketch(finished, &id, None).await.unwrap();
    let (_, bytes, stored) = read_for(scene.folder.path(), "table", of_id);
    assert!(stored.is_some() && 5 * bytes < of("table", "documents"), "{bytes}");
}
