//! `apply` on a cluster writes the files of one process, also where an executor dies.

use super::*;

/// The files of a result by their paths, except for its manifest and for tables, whose names and cut follow from the engine.
fn written(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut written: BTreeMap<PathBuf, Vec<u8>> =
        files(folder).into_iter().map(|(path, bytes)| (inside(folder, &path), bytes)).collect();
    written.retain(|path, _| !path.starts_with("_resemblance") || path.starts_with("_resemblance/rejected"));
    written
}

fn inside(folder: &Path, path: &Path) -> PathBuf {
    path.strip_prefix(folder).unwrap().to_owned()
}

/// The part of a manifest about the files of the source.
fn told(folder: &Path) -> Value {
    let manifest = std::fs::read(folder.join("_resemblance/manifest.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    json!([manifest["counts"], manifest["passage_counts"], manifest["files"]])
}

/// Ids of the removed documents, each with the id of the document that is kept.
fn removed(folder: &Path) -> BTreeMap<String, String> {
    string_pairs(&parquet(&folder.join("_resemblance/removed")), ["id", "kept_id"])
}

/// Writes documents as files of a format, in partition folders.
fn source(folder: &Path, format: &str, documents: &[Document]) {
    for (number, part) in documents.chunks(90).enumerate() {
        let inside = folder.join(format!("day={number}"));
        std::fs::create_dir_all(&inside).unwrap();
        match format {
            "parquet" => write_parquet(&inside.join("a b%20.parquet"), part, 40),
            "jsonl" => {
                let line = |(id, text): &Document| format!("{{\"id\":\"{id}\",\"text\":\"{text}\"}}\n");
                std::fs::write(inside.join("a.jsonl"), part.iter().map(line).collect::<String>()).unwrap();
            }
            _ => {
                let lines: String = part.iter().map(|(id, text)| format!("{id},\"{text}\"\n")).collect();
                std::fs::write(inside.join("a.csv"), format!("id,text\n{lines}")).unwrap();
            }
        }
    }
}

fn alone(output: &Path, to: &Path, options: &[&str]) {
    resemblance().arg("apply").arg(output).arg("--to").arg(to).args(options).assert().success();
}

#[test]
fn a_cluster_applies_like_one_process() {
    let mut cluster = Cluster::start();
    let folder = cluster.folder().to_owned();
    let mut documents = corpus(61, 400, 30);
    // Too short to be compared.
    documents.extend((0..9).map(|i| (format!("short{i}"), "two words".to_owned())));
    for format in ["parquet", "csv", "jsonl"] {
        let (input, output) = (folder.join(format), folder.join(format!("out-{format}")));
        source(&input, format, &documents);
        let job = folder.join("job.toml");
        let passages = "[passages]\nunit = \"word\"\nlength = 5\n";
        std::fs::write(&job, job_text_of(format, input.join(""), &output) + passages).unwrap();
        resemblance().arg("run").arg(&job).assert().success();
        let drop = &["--passages", "drop", "--min-words", "20"][..];
        let budget = &["--keep-up-to", "2", "--identical", "--require", "recall>=0.9,removed<=0.9"][..];
        for (at, options) in
            [&["--rejects", "separate"][..], &["--annotate", "--columns", "cluster_size"], drop, budget]
                .into_iter()
                .enumerate()
        {
            let (expected, to) =
                (folder.join(format!("{format}{at}-alone")), folder.join(format!("{format}{at}")));
            alone(&output, &expected, options);
            cluster.apply(&output, &to, options).succeed(QUIET);
            assert!(written(&expected).len() >= 5);
            assert!(written(&to) == written(&expected), "{format} {options:?}");
            let proof = |folder: &Path| std::fs::read(folder.join("_resemblance/proof.json")).ok();
            assert_eq!(proof(&to), proof(&expected), "{format} {options:?}");
            assert_eq!(proof(&to).is_some(), options == budget);
            assert_eq!(told(&to), told(&expected), "{format} {options:?}");
            if at == 0 {
                assert!(removed(&to).len() > 20);
                assert_eq!(removed(&to), removed(&expected), "{format}");
            }
            // It is finished, wherever the command runs.
            let again = cluster.apply(&output, &to, options).succeed(QUIET);
            assert_eq!(again["already_finished"], true);
        }
    }
    an_executor_dies_while_it_writes(&mut cluster, &folder);
}

/// Text files in a number that lets an executor be stopped while it writes them.
fn an_executor_dies_while_it_writes(cluster: &mut Cluster, folder: &Path) {
    let (input, output) = (folder.join("texts"), folder.join("out-texts"));
    std::fs::create_dir(&input).unwrap();
    for (id, text) in corpus(62, 1_500, 8) {
        std::fs::write(input.join(format!("{id}.txt")), text).unwrap();
    }
    let job = folder.join("texts.toml");
    std::fs::write(&job, job_text_of("text", &input, &output).replace(COLUMNS, "")).unwrap();
    resemblance().arg("run").arg(&job).assert().success();
    let (expected, to) = (folder.join("texts-alone"), folder.join("texts-applied"));
    alone(&output, &expected, &[]);
    let mut driver = cluster.apply(&output, &to, &[]);
    let place = cluster.kill_in_a_task("rewrite", &mut driver);
    driver.succeed(QUIET);
    cluster.start_executor(place);
    assert!(written(&to) == written(&expected));
    assert_eq!(told(&to), told(&expected));
    assert_eq!(removed(&to), removed(&expected));
}

#[test]
fn from_bucket_to_bucket() {
    let s3 = S3::start();
    let cluster = Cluster::with(Setup { environment: s3.env(), ..Setup::default() });
    let input = cluster.folder().join("in");
    source(&input, "parquet", &corpus(63, 300, 20));
    for (path, bytes) in files(&input) {
        s3.put(inside(cluster.folder(), &path).to_str().unwrap(), bytes);
    }
    let job = cluster.folder().join("job.toml");
    std::fs::write(&job, job_text(s3.url("in/"), s3.url("out/"))).unwrap();
    resemblance().envs(s3.env()).arg("run").arg(&job).assert().success();
    let (from, expected) = (s3.url("out/"), s3.url("alone/"));
    let columns = &["--columns", "cluster_size"];
    resemblance().envs(s3.env()).args(["apply", &from, "--to", &expected]).args(columns).assert().success();
    cluster.apply(&from, s3.url("to/"), columns).succeed(QUIET);
    assert!(written(&s3.file("to")) == written(&s3.file("alone")));
    assert_eq!(told(&s3.file("to")), told(&s3.file("alone")));
    assert!(removed(&s3.file("to")).len() > 20);

    s3.put("ids.csv", "id\nd00001\nd00002\nd00003\n");
    let ids = cluster.folder().join("ids.csv");
    std::fs::copy(s3.file("ids.csv"), &ids).unwrap();
    let forget = |to: &str, more: &[&str]| {
        let mut command = resemblance();
        command.envs(s3.env()).args(["forget", &from, "--to", &s3.url(to), "--json", "--ids"]).arg(&ids);
        command.args(more).assert().json()
    };
    let (alone, spread) = (forget("less-alone/", &[]), forget("less/", &["--scheduler", &cluster.url()]));
    assert_eq!(spread["outputs"][0]["forgotten"], json!(["d00001", "d00002", "d00003"]));
    assert_eq!(spread["outputs"][0]["promoted"], alone["outputs"][0]["promoted"]);
    for name in ["documents", "pairs", "clusters"] {
        let rows = |folder: &str| table(&s3.file(folder).join("out"), name);
        assert_eq!(rows("less"), rows("less-alone"), "{name}");
        assert!(rows("less").num_rows() < table(&s3.file("out"), name).num_rows(), "{name}");
    }
}
