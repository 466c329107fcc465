//! Rows of a cluster without faults: of every source, every method and every option that has stages of its own.

use super::*;

/// Runs a job on the cluster and alone, and holds one against the other.
fn assert_same(cluster: &Cluster, job: &Path, name: &str, sets: &[&str]) {
    let (alone, output) = (cluster.folder().join(format!("{name}-alone")), cluster.folder().join(name));
    let driver = cluster.run(job, &output, sets);
    let expected = rows_alone(job, &alone, sets);
    driver.succeed(QUIET);
    assert_rows(&output, &expected, name);
}

/// Tables of more than a million rows: the pairs of copies of one text.
#[test]
fn large_tables_are_counted_on_the_executors() {
    const COPIES: u64 = 1_420;
    let environment = variables(&[("RESEMBLANCE_SMALL_STAGES", "64KiB")]);
    let cluster = Cluster::with(Setup { environment, ..Setup::default() });
    let folder = cluster.folder();
    let text = "one text that many documents have";
    let documents: Vec<_> = (0..COPIES).map(|copy| (format!("copy {copy}"), text.to_owned())).collect();
    let job = job_over(folder, &documents, 3);
    cluster.run(&job, folder.join("small"), &["source.limit=20"]).succeed(QUIET);
    let tasks = |stage| (0..2).map(|place| cluster.tasks(place, stage).len()).sum::<usize>();
    assert!(tasks("sketches") > 0);
    assert_eq!(tasks("copies") + tasks("totals"), 0, "the driver reads small tables");
    let output = folder.join("large");
    cluster.run(&job, &output, &["output.max_expand=0"]).succeed(QUIET);
    assert!(tasks("totals") > 0);
    let counts = manifest(&output).counts;
    let found =
        [counts.pairs, counts.clusters, counts.removed_documents, counts.shingle_sets, counts.pairs_left_out];
    assert_eq!(found, [COPIES * (COPIES - 1) / 2, 1, COPIES - 1, 1, 0]);
}

#[test]
fn jobs_of_the_repository_give_the_rows_of_one_process() {
    let environment = variables(&[("RESEMBLANCE_SMALL_STAGES", "")]);
    let cluster = Cluster::with(Setup { environment, ..Setup::default() });
    let source = format!("source.url={}/*.txt", repository("jobs/quickstart").display());
    let job = repository("jobs/quickstart.toml");
    assert_same(&cluster, &job, "quickstart", &[&source]);
    let count = |name: &str| manifest(&cluster.folder().join(name)).counts;
    assert_eq!(count("quickstart"), count("quickstart-alone"));
    // A finished output is not run again.
    let output = cluster.folder().join("quickstart");
    let record = cluster.run(&job, &output, &[&source]).succeed(QUIET);
    assert_eq!(record["already_finished"], true);

    // The second source has no rejected documents that are searched: its part of the union has no rows.
    let data = repository("jobs/decontaminate");
    let source = format!("source.url={}", data.join("training.jsonl").display());
    let against = format!("against.source.url={}", data.join("questions.jsonl").display());
    let job = repository("jobs/decontaminate.toml");
    assert_same(&cluster, &job, "decontaminate", &[&source, &against]);
    assert!(table(&cluster.folder().join("decontaminate"), "spans").num_rows() > 0);
}

#[test]
fn every_format_is_read_on_the_executors_as_in_one_process() {
    let cluster = Cluster::start();
    let folder = cluster.folder();
    let mut formats = formats(&corpus(51, 200, 40));
    for (name, bytes) in &mut formats[2].files {
        name.push_str(".zst");
        *bytes = zstd::encode_all(&bytes[..], 1).unwrap();
    }
    // Parquet is what every other test reads.
    for (number, format) in formats.iter().enumerate().skip(1) {
        let source = folder.join(format!("in-{number}"));
        format.write(&source);
        let job = folder.join(format!("{number}.toml"));
        let source = format.source(&format!("{}/", source.display()));
        let rest =
            format!("[shingle]\nsize = 3\n[score]\nthreshold = 0.5\n[output]\nurl = {SET_BY_THE_TEST:?}\n");
        std::fs::write(&job, format!("[source]\n{source}{rest}")).unwrap();
        let limit = matches!(number, 4 | 6).then_some("source.limit=150");
        assert_same(&cluster, &job, &format!("format-{number}"), limit.as_slice());
    }
}

#[test]
fn every_method_and_option_gives_the_rows_of_one_process() {
    let cluster = Cluster::start();
    let folder = cluster.folder();
    let mut documents = corpus(52, 300, 40);
    let job = job_over(folder, &documents, 3);
    let tables =
        "minhash.family=one-permutation lsh.table_size=2000 lsh.bands=16 lsh.rows=4 lsh.bucket_hash=crc32";
    let tables: Vec<&str> = tables.split(' ').collect();
    let (a, b) = exact_pairs(&documents, 3, 0.5).into_keys().next().unwrap();
    let decisions = format!("id_a,id_b,verdict\n{a},{b},different\nd00100,d00200,same\n");
    std::fs::write(folder.join("decisions.csv"), decisions).unwrap();
    let decided = format!("clusters.decisions={}", folder.join("decisions.csv").display());
    for (name, sets) in [
        ("all", &["candidates.method=all"][..]),
        ("prefix", &["candidates.method=prefix"]),
        ("containment", &["candidates.method=prefix", "score.measure=containment"]),
        ("hot", &["lsh.hot_bucket=2", "shingle.hash=dictionary"]),
        ("dense", &["lsh.hot_bucket=3", "output.max_expand=3"]),
        ("kept", &["output.keep=shingles"]),
        ("chosen", &["source.where=character_length(text) % 5 > 0", "source.limit=150"]),
        ("contained", &["clusters.contained=0.9", "clusters.method=components"]),
        ("lines", &["passages.unit=line", "passages.min_words=1"]),
        ("words", &["passages.unit=word", "passages.length=6", "passages.gap=1"]),
        ("only lines", &["passages.unit=line", "passages.min_words=1", "candidates.method=none"]),
        ("frequent", &["shingle.max_frequency=0.04", "output.expand=all"]),
        ("signature", &["score.by=signature", "minhash.family=linear", "output.expand=star"]),
        ("tables", &tables[..]),
        ("decided", &[&decided]),
    ] {
        assert_same(&cluster, &job, name, sets);
    }
    let counts = manifest(&folder.join("chosen")).counts;
    assert!(counts.documents == 150 && counts.rows_left_out_by_where > Some(0), "{counts:?}");
    assert_eq!(manifest(&folder.join("decided")).tables["decisions"].rows, 2);
    assert!(manifest(&folder.join("contained")).tables["spared"].rows > 0);
    // Other settings over what the cluster wrote: shingles that are kept, and texts that are read again.
    for from in ["kept", "dense"] {
        let (job, name) = (folder.join("over.toml"), format!("over-{from}"));
        std::fs::write(&job, output_job_text(folder.join(from), SET_BY_THE_TEST, "")).unwrap();
        assert_same(&cluster, &job, &name, &["lsh.hot_bucket=4", "score.threshold=0.7"]);
    }
    documents.extend_from_within(100..130);
    std::fs::remove_dir_all(folder.join("in")).unwrap();
    let job = job_over(folder, &documents, 3);
    assert_same(&cluster, &job, "reject", &["source.duplicate_ids=reject"]);
    cluster.run(&job, folder.join("refused"), &[]).end(QUIET).refused(3, &["ids must be unique"]);
}

/// A run against what the cluster wrote, with and without kept shingles, and both merged there.
#[test]
fn new_documents_meet_reference_outputs() {
    let cluster = Cluster::start();
    let folder = cluster.folder();
    let documents = corpus(52, 300, 40);
    let renamed = corpus(53, 60, 40).into_iter().map(|(id, text)| (format!("new {id}"), text));
    let more = documents[..60].iter().map(|(id, text)| (format!("again {id}"), format!("{text} w1 w2")));
    let renamed: Vec<Document> = renamed.chain(more).collect();
    let job = job_over(folder, &documents, 3);
    let second = folder.join("second.parquet");
    write_parquet(&second, &renamed, 40);
    let source = format!("source.url={}", second.display());
    let own = ["output.keep=shingles", "candidates.method=prefix"];
    for (name, sets) in [("reference", &[][..]), ("known-kept", &own)] {
        assert_same(&cluster, &job, name, sets);
        let against = format!("against.output={}", folder.join(name).display());
        let sets = [sets, &[&source, &against]].concat();
        let output = format!("{name}-and-new");
        assert_same(&cluster, &job, &output, &sets);
        assert!(manifest(&folder.join(&output)).counts.pairs > 50);
        let merged = |to: &str, options: &[&str]| {
            let to = folder.join(format!("{name}-{to}"));
            let mut merge = program!["merge", folder.join(name), folder.join(&output), "--to", &to];
            merge.args(options).assert().success();
            to
        };
        // The command says where it runs, whatever ran the jobs.
        let there = merged("merged", &["--scheduler", &cluster.url()]);
        let alone = merged("merged-alone", &[]);
        assert_rows(&there, &crate::support::rows::rows(&alone), "a merge");
        let engine = |output: &Path| manifest(output).job["engine"]["mode"] == "cluster";
        assert!(engine(&there) && !engine(&alone));
    }
}

/// A second source, with the passages of pairs and of documents, and documents compared across groups; and an earlier output.
#[test]
fn documents_of_two_sources_give_the_rows_of_one_process() {
    let cluster = Cluster::start();
    let folder = cluster.folder();
    let documents = corpus(52, 300, 40);
    let second = folder.join("linked.parquet");
    write_parquet(&second, &documents[..80], 40);
    let linked = second_source(second, "");
    let job = job_over(folder, &documents, 3);
    let lines = "passages={ unit = 'line', min_words = 2 }";
    let words = "passages={ unit = 'word', length = 6 }";
    for (name, method, sets) in [
        ("linked-lsh", "lsh", ["source.group=text", "candidates.compare=across", lines]),
        ("linked-prefix", "prefix", ["against.pairs=new-old", "score.measure=containment", words]),
    ] {
        let method = format!("candidates.method={method}");
        let more = ["output.pair_passages=true", &method, &linked];
        assert_same(&cluster, &job, name, &[&sets[..], &more].concat());
        let counts = manifest(&folder.join(name)).counts;
        assert!(counts.pairs > 50 && counts.spans > Some(20), "{counts:?}");
    }
    assert_same(&cluster, &job, "earlier", &[]);
    let new: Vec<Document> =
        documents[..80].iter().map(|(id, text)| (format!("new-{id}"), format!("{text} more"))).collect();
    write_parquet(&folder.join("new.parquet"), &new, 40);
    let url = format!("source.url={}", folder.join("new.parquet").display());
    let earlier = format!("against.output={}", folder.join("earlier").display());
    assert_same(&cluster, &job, "later", &[&url, &earlier, "passages={ unit = 'word', length = 6 }"]);
    assert!(manifest(&folder.join("later")).counts.spans > Some(70));
}

/// The hundred thousand documents of the soak take a minute in a debug build.
#[test]
fn generated_documents_go_through_executors_of_256_mebibytes() {
    generated(3_000);
}

/// Runs that many generated documents through two executors of 256 MiB, and says how much those held at most.
pub(crate) fn generated(documents: usize) {
    let mut cluster = Cluster::with(Setup { memory: "256MiB", ..Setup::default() });
    let source = cluster.folder().join("in");
    program!["generate", &source, "--files", "4", "--documents", &documents.to_string()].assert().success();
    let job = job_file(cluster.folder(), &source);
    assert_same(&cluster, &job, "generated", &["shingle.size=5", "score.threshold=0.8"]);
    for place in 0..2 {
        if let Some(bytes) = cluster.executor(place).peak_memory() {
            eprintln!("executor {place} of 256 MiB held {} MiB for {documents} documents", bytes >> 20);
        }
    }
}

#[test]
fn reuters_is_the_same() {
    let Some(data) = real_data("reuters21578") else { return };
    let cluster = Cluster::start();
    // All of them are another test's, on one machine.
    let source = format!("source.url={}/reut2-00[0-5].sgm", data.display());
    assert_same(&cluster, &repository("jobs/recipes/reuters.toml"), "reuters", &[&source]);
}
