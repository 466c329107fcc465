//! The tags of buckets: their bytes, compared with the signatures, and the bytes that are read by them.

use arrow::array::{BinaryArray, UInt64Array};
use datafusion::prelude::col;
use object_store::local::LocalFileSystem;
use resemblance::kernel::bucket_tags::tag_set;
use resemblance::kernel::lsh_bands::{Buckets, lsh_bands};
use resemblance::kernel::signature::{Bits, SignatureValues};
use resemblance::lookup::neighbors::{
    NeighborOrder, Neighbors, Query, document_sketch, neighbors, text_sketch,
};
use resemblance::lookup::{self, Finished, Id};
use resemblance::udf::expr_fn::has_tag;

use crate::support::counting::Counting;
use crate::support::*;

/// The tags of each document, by its id.
fn tags(output: &Path) -> BTreeMap<String, Vec<u8>> {
    let documents = table(output, "documents");
    let tags: &BinaryArray = documents.column_by_name("bucket_tags").unwrap().as_binary();
    strings(&documents, "id").into_iter().zip(tags.iter().map(|tags| tags.unwrap().to_vec())).collect()
}

#[test]
fn tags_are_the_lower_halves_of_buckets() {
    let path = paths();
    let source = path("in.parquet");
    write_parquet(&source, &corpus(21, 200, 30), 50);
    let cases: [(&str, &[&str]); 5] = [
        ("defaults", &[]),
        ("one band", &["lsh.bands=1", "lsh.rows=4"]),
        ("32 bits", &["minhash.bits=32", "lsh.bands=25", "lsh.rows=5"]),
        ("crc32", &["lsh.bucket_hash=crc32", "lsh.bands=30", "lsh.rows=4"]),
        ("prefix", &["candidates.method=prefix"]),
    ];
    for (name, sets) in cases {
        let job = job(&source, &path(name), sets);
        run(&job).unwrap();
        let documents = table(&path(name), "documents");
        let found = tags(&path(name));
        let signatures = signature_values(documents.column_by_name("signature").unwrap());
        let lsh = &job.lsh;
        let by = Buckets { bands: lsh.bands, rows: lsh.rows, hash: lsh.bucket_hash, table_size: None };
        for (id, values) in strings(&documents, "id").iter().zip(signatures) {
            let short = || values.iter().map(|value| (*value as u16).to_le_bytes()).collect();
            let signature = match job.minhash.bits {
                Bits::Of16 => SignatureValues::Of16(short()),
                Bits::Of32 => SignatureValues::Of32(values.clone()),
            };
            let mut buckets = Vec::new();
            lsh_bands(signature.signature(), by, &mut buckets).unwrap();
            let expected: Vec<u8> =
                buckets.iter().flat_map(|bucket| bucket.to_le_bytes()[..4].to_vec()).collect();
            assert_eq!((found[id].len(), &found[id]), (4 * lsh.bands, &expected), "{name} {id}");
        }
    }
    let without: [(&str, &[&str]); 3] = [
        ("nothing kept", &["output.keep=none"]),
        ("one table", &["lsh.bucket_hash=crc32", "lsh.table_size=5000"]),
        ("not compared", &["candidates.method=none", "passages.unit=line"]),
    ];
    for (name, sets) in without {
        run(&job(&source, &path(name), sets)).unwrap();
        assert!(table(&path(name), "documents").column_by_name("bucket_tags").is_none(), "{name}");
    }
}

/// A key is the bucket of a single band. Half of the keys are in the set.
#[test]
fn keys_are_found_in_their_set() {
    let keys: Vec<u64> = (1..=1_000_u64).map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let column: ArrayRef = Arc::new(UInt64Array::from(keys.clone()));
    let rows = RecordBatch::try_from_iter([("key", column)]).unwrap();
    let is_in = has_tag(col("key"), tag_set(&keys[..500], 1));
    let found = SessionContext::new().read_batch(rows.clone()).unwrap().filter(is_in).unwrap();
    assert_eq!(block_on(found.collect()).unwrap(), [rows.slice(0, 500)]);
}

/// The sketches of an output with other bands, and outputs that are merged.
#[test]
fn tags_fit_the_bands_of_the_last_job() {
    let path = paths();
    let documents = corpus(25, 600, 30);
    write_parquet(&path("all.parquet"), &documents, 100);
    let bands = ["lsh.bands=20", "lsh.rows=4", AS_ONE_RUN];
    run(&job(&path("all.parquet"), &path("all"), &bands)).unwrap();
    run(&job(&path("all.parquet"), &path("other"), &["lsh.bands=9", "lsh.rows=5"])).unwrap();
    let expected = tags(&path("all"));
    assert!(tags(&path("other")) != expected);
    let file = path("again.toml");
    std::fs::write(&file, output_job_text(path("other"), path("again"), "lsh.bands = 20\nlsh.rows = 4"))
        .unwrap();
    resemblance().arg("run").arg(&file).assert().success();
    assert!(tags(&path("again")) == expected);

    for (part, documents) in ["first", "second"].into_iter().zip(documents.chunks(300)) {
        let source = path(&format!("{part}.parquet"));
        write_parquet(&source, documents, 100);
        let against = format!("against.output={:?}", path("first"));
        let sets = [&bands[..], &[against.as_str()]].concat();
        run(&job(&source, &path(part), &sets[..if part == "first" { 3 } else { 4 }])).unwrap();
    }
    program!["merge", path("first"), path("second"), "--to", path("merged")].assert().success();
    assert!(tags(&path("merged")) == expected);
}

/// If a day has tags of other bands, all signatures of the earlier days are read.
#[test]
fn a_third_day_finds_the_same_pairs_by_tags_and_by_signatures() {
    let path = paths();
    let documents = corpus(29, 900, 30);
    let days = ["first", "second", "third"];
    for (day, documents) in days.iter().zip(documents.chunks(300)) {
        write_parquet(&path(&format!("{day}.parquet")), documents, 100);
    }
    let [bands, others] = [["lsh.bands=20", "lsh.rows=4"], ["lsh.bands=9", "lsh.rows=5"]];
    let is_third = |id: &String| documents[600..].iter().any(|(third, _)| third == id);
    for more in
        ["minhash.bits=16", "minhash.bits=32", "minhash.family=one-permutation", "lsh.bucket_hash=crc32"]
    {
        let found = [[bands, bands], [others, bands], [bands, others]].map(|earlier| {
            let name = |day: &str| format!("{day} {more} {earlier:?}");
            let mut outputs: Vec<PathBuf> = Vec::new();
            for (day, bands) in days.iter().zip([earlier[0], earlier[1], bands]) {
                let against = format!("against.output={outputs:?}");
                let sets = [&bands[..], &[more, against.as_str()]].concat();
                let sets = if outputs.is_empty() { &sets[..3] } else { &sets };
                outputs.push(path(&name(day)));
                run(&job(&path(&format!("{day}.parquet")), &path(&name(day)), sets)).unwrap();
            }
            pairs(&path(&name("third")))
        });
        assert!(found.iter().all(|pairs| *pairs == found[0]), "{more}");
        assert!(found[0].keys().filter(|(a, b)| is_third(a) && !is_third(b)).count() > 5, "{more}");
    }
}

/// The requests for files of the tables, the bytes of the answers, and the result of a query.
fn read_for<T>(folder: &Path, query: impl AsyncFnOnce(&Finished) -> T) -> (usize, u64, T) {
    block_on(async {
        let store = Counting::over(LocalFileSystem::new_with_prefix(folder).unwrap(), 0);
        let session =
            lookup::session(&EngineSettings { threads: 2, ..EngineSettings::local(1 << 30) }).unwrap();
        let url = url::Url::parse("s3://counted").unwrap();
        session.register_object_store(&url, Arc::clone(&store) as _);
        let finished = Finished::open(&session, "s3://counted/out").await.unwrap();
        let before = store.answered("/part-");
        let found = query(&finished).await;
        let after = store.answered("/part-");
        (after.0 - before.0, after.1 - before.1, found)
    })
}

/// The neighbors of a text, by estimates alone.
async fn of_this_text(finished: &Finished, text: &str) -> Neighbors {
    let sketch = text_sketch(finished, text).await.unwrap().unwrap();
    let query = Query { sketch: &sketch, id: None, by: NeighborOrder::Estimate, top: 10 };
    neighbors(finished, None, query).await.unwrap()
}

#[test]
fn few_bytes_are_read_for_one_document() {
    // Each document has one that is like it.
    let mut documents = Vec::new();
    for at in 0..15_000 {
        let words: Vec<String> = (0..12).map(|word| format!("w{}", at * 12 + word)).collect();
        documents.push((format!("{at:05}, one"), words.join(" ")));
        documents.push((format!("{at:05}, the other"), format!("{} more", words.join(" "))));
    }
    let path = paths();
    write_parquet(&path("in.parquet"), &documents, 10_000);
    run(&job(&path("in.parquet"), &path("out"), &["lsh.bands=8", "lsh.rows=8"])).unwrap();
    let folder = path("out").parent().unwrap().to_owned();
    let (id, text) = &documents[17_000];
    let (requests, bytes, found) = read_for(&folder, async |finished| of_this_text(finished, text).await);
    assert_eq!(found.candidates, 2);
    assert_eq!((&found.nearest[0].id, found.nearest[0].estimate), (&Id::Text(id.clone()), 1.0));
    // 36 of 340 bytes are tags, and 8 are the key. The ends of files contain the offsets of pages.
    eprintln!("{requests} requests of {bytes} bytes");
    assert!(bytes < 30_000 * 100, "{bytes}");
    assert!(requests < 100, "{requests}");
    // Ids in the order of the source are found in few pages, too.
    let id = Id::Text(id.clone());
    let (_, bytes, stored) =
        read_for(&folder, async |finished| document_sketch(finished, &id, None).await.unwrap());
    assert!(stored.is_some() && bytes < 30_000 * 100, "{bytes}");
}
