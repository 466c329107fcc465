//! Runs as a scheduler starts them: ids, logs, records, metrics and health checks for other programs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use predicates::prelude::*;
use serde_json::Value;
use tempfile::{TempDir, tempdir};

use crate::support::server::Server;
use crate::support::*;

/// Longer than anything here takes: a hang ends as a failure.
const DEADLINE: Duration = Duration::from_secs(120);

#[test]
fn a_runs_id_is_in_every_log_line_and_decides_nothing() {
    let scene = Scene::new(60);
    let first = scene.run(&["--run-id", "nightly-2026.11_20", "--log-format", "json", "-vv", "--json"]);
    assert_eq!(first.status.code(), Some(0));
    let lines = json_lines(&first.stderr);
    assert!(lines.len() > 10, "{}", text(&first.stderr));
    for line in &lines {
        assert_eq!(line["span"]["run_id"], "nightly-2026.11_20", "{line}");
    }
    let record: Value = serde_json::from_slice(&first.stdout).unwrap();
    assert_eq!(record["run_id"], "nightly-2026.11_20");
    assert_eq!(record["exit_code"], 0);

    let again = scene.run(&["--run-id", "another", "--json"]);
    let record: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!((&record["run_id"], &record["already_finished"]), (&"another".into(), &true.into()));

    // Without an id each run has one of its own.
    let ids = [scene.run(&["--json"]), scene.run(&["--json"])]
        .map(|run| serde_json::from_slice::<Value>(&run.stdout).unwrap()["run_id"].to_string());
    assert_eq!(ids[0].len(), 38);
    assert_ne!(ids[0], ids[1]);
}

#[test]
fn ids_that_no_label_takes_are_refused() {
    let scene = Scene::new(20);
    let long = "x".repeat(129);
    for wrong in ["", "a b", "scheduled__2026-11-20T00:00:00+00:00", "ä", "../x", &long] {
        let run = scene.run(&["--run-id", wrong]);
        assert_eq!(run.status.code(), Some(2), "{wrong}");
        assert!(text(&run.stderr).contains("--run-id") && text(&run.stderr).contains("A-Z"), "{wrong}");
    }
    assert_eq!(scene.run(&["--run-id", &long[1..]]).status.code(), Some(0));
}

/// The values that an empty Airflow template or shell variable leaves after `--set`.
#[test]
fn dates_and_equals_signs_are_plain_values() {
    let scene = Scene::new(20);
    for (n, name) in
        ["2026-11-20", "2026-11-20T06:30:00Z", "06:30:00", "a=b=c", "dt=2026-11-20"].iter().enumerate()
    {
        let folder = scene.path(name);
        std::fs::create_dir(&folder).unwrap();
        std::fs::copy(scene.path("in.jsonl"), folder.join("part.jsonl")).unwrap();
        // Paths as they are given, relative to the folder that the run starts in.
        let sets =
            [format!("source.url={name}"), format!("name={name}"), format!("output.url=out{n}/day={name}/")];
        let mut run = scene.command();
        run.current_dir(scene.folder.path()).args(sets.iter().flat_map(|set| ["--set", set])).arg("--json");
        let run = run.output().unwrap();
        assert_eq!(run.status.code(), Some(0), "{name}: {}", text(&run.stderr));
        let record: Value = serde_json::from_slice(&run.stdout).unwrap();
        assert_eq!(record["name"], *name);
        assert_eq!(record["manifest"]["inputs"].as_array().unwrap().len(), 1);
        assert!(scene.path(&format!("out{n}/day={name}/manifest.json")).exists(), "{name}");
    }
    // What a date cannot be is still refused by its key.
    let run = scene.run(&["--set", "score.threshold=2026-11-20"]);
    assert_eq!(run.status.code(), Some(2));
    assert!(text(&run.stderr).contains("score.threshold"), "{}", text(&run.stderr));
}

#[test]
fn errors_are_json_lines_too_with_kind_and_exit_code() {
    let scene = Scene::new(20);
    let cases: &[(&[&str], i32, &str)] = &[
        (&["--set", "shingle.sise=3"], 2, "job"),
        (&["--set", "source.url=no/such/file.jsonl"], 3, "input"),
        (&["--set", "engine.memory=1kB"], 4, "engine"),
        (&["--no-such-option"], 2, "job"),
        (&["--run-id", ""], 2, "job"),
        // A filter never hides what ended the run.
        (&["-q", "--set", "source.text=body"], 2, "job"),
    ];
    for (arguments, code, kind) in cases {
        let mut run = scene.command();
        let run = run
            .args(*arguments)
            .args(["--log-format", "json"])
            .env("RESEMBLANCE_LOG", "off")
            .output()
            .unwrap();
        assert_eq!(run.status.code(), Some(*code), "{arguments:?}: {}", text(&run.stderr));
        assert!(run.stdout.is_empty());
        let lines = json_lines(&run.stderr);
        let last = lines.last().unwrap();
        assert_eq!(last["level"], "ERROR", "{last}");
        assert_eq!(
            (&last["fields"]["kind"], &last["fields"]["exit_code"]),
            (&(*kind).into(), &(*code).into()),
            "{last}"
        );
    }
    resemblance()
        .args(["run", "--help", "--log-format", "json"])
        .assert()
        .success()
        .stdout(predicate::str::contains("--run-id"));
}

#[test]
fn the_record_is_a_file_of_a_good_run() {
    let scene = Scene::new(60);
    let file = scene.path("record.json");
    let arguments = ["--record", file.to_str().unwrap(), "--json"];
    std::fs::write(&file, "notes of a user").unwrap();
    let refused = scene.run(&arguments);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("is not the record of a run"), "{}", text(&refused.stderr));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "notes of a user");
    std::fs::remove_file(&file).unwrap();
    // The record of a failed run, which the next one replaces.
    assert_eq!(
        scene.run(&[&arguments[..], &["--set", "source.url=no/such"]].concat()).status.code(),
        Some(3)
    );
    let run = scene.run(&arguments);
    assert_eq!(run.status.code(), Some(0));
    assert_eq!(std::fs::read(&file).unwrap(), run.stdout);
    let record: Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!((&record["name"], &record["manifest"]["counts"]["documents"]), (&"job".into(), &60.into()));
    assert!(record["seconds"].as_f64().unwrap() > 0.0);
    scene.nothing_half_written();
}

#[test]
fn the_record_is_a_file_of_a_failed_run() {
    let scene = Scene::new(20);
    let file = scene.path("record.json");
    let record = |arguments: &[&str]| -> (Output, Value) {
        let run = scene.run(&[&["--record", file.to_str().unwrap(), "--run-id", "r1"], arguments].concat());
        let record = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        (run, record)
    };
    let (run, said) = record(&["--set", "source.url=no/such/file.jsonl"]);
    assert_eq!(run.status.code(), Some(3));
    assert_eq!(
        (&said["exit_code"], &said["kind"], &said["run_id"]),
        (&3.into(), &"input".into(), &"r1".into())
    );
    assert!(said["error"].as_str().unwrap().contains("no/such/file.jsonl"), "{said}");
    assert_eq!(said["stages"], serde_json::json!([]));

    // A job that cannot be read is called by its file.
    let (run, said) = record(&["--set", "lsh.bands=0"]);
    assert_eq!(run.status.code(), Some(2));
    assert_eq!((&said["name"], &said["kind"]), (&"job".into(), &"job".into()));

    // Ids that come twice are found after the first stage.
    let lines = std::fs::read_to_string(scene.path("in.jsonl")).unwrap();
    std::fs::write(scene.path("in.jsonl"), format!("{lines}\n{lines}")).unwrap();
    let (_, said) = record(&[]);
    assert_eq!(said["kind"], "input");
    assert_eq!(said["stages"][0]["name"], "sketches");
    assert_eq!(said["stages"][0]["rows"], 40);
}

#[test]
fn no_record_and_no_line_holds_a_password_of_a_url() {
    let scene = Scene::new(20);
    let file = scene.path("record.json");
    for url in ["s3://somebody:hush@bucket/in.jsonl", "nowhere://somebody:hush@host/in.jsonl?token=hush"] {
        let source = format!("source.url={url}");
        let run = scene.run(&["--record", file.to_str().unwrap(), "--log-format", "json", "--set", &source]);
        assert_ne!(run.status.code(), Some(0));
        json_lines(&run.stderr);
        let record = std::fs::read_to_string(&file).unwrap();
        assert!(record.contains("error") && !record.contains("hush"), "{record}");
        assert!(!text(&run.stderr).contains("hush"), "{}", text(&run.stderr));
    }
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_leaves_its_record_and_metrics() {
    let scene = Scene::new(6_000);
    let (file, metrics) = (scene.path("record.json"), scene.path("run.prom"));
    let child = std::process::Command::new(assert_cmd::cargo::cargo_bin("resemblance"))
        .arg("run")
        .arg(scene.path("job.toml"))
        .args(["--record", file.to_str().unwrap(), "--metrics", metrics.to_str().unwrap()])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // The first stage has begun when its folder is there.
    wait_until(|| scene.path("out").exists());
    let killed =
        std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130), "{}", text(&ended.stderr));
    let record: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!((&record["kind"], &record["exit_code"]), (&"interrupted".into(), &130.into()));
    let series = series(&std::fs::read_to_string(&metrics).unwrap());
    assert_eq!(series["resemblance_run_exit_code{name=\"job\"}"], 130.0);
}

#[test]
fn files_that_cannot_be_written_are_refused_before_the_run() {
    let scene = Scene::new(20);
    for argument in ["--record", "--metrics"] {
        for wrong in ["no/such/folder/file", scene.folder.path().to_str().unwrap(), "", ".."] {
            let run = scene.run(&[argument, wrong]);
            assert_eq!(run.status.code(), Some(2), "{argument} {wrong}");
            assert!(text(&run.stderr).contains(argument), "{}", text(&run.stderr));
        }
    }
    assert!(!scene.path("out").exists());
}

#[test]
fn metrics_are_a_file_that_says_what_the_run_did() {
    let scene = Scene::new(60);
    let file = scene.path("resemblance.prom");
    let metrics = ["--metrics", file.to_str().unwrap(), "--run-id", "r1"];
    std::fs::write(&file, "notes of a user").unwrap();
    let refused = scene.run(&metrics);
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "notes of a user");
    std::fs::remove_file(&file).unwrap();
    // The metrics of a failed run, which the next one replaces.
    assert_eq!(scene.run(&[&metrics[..], &["--set", "source.url=no/such"]].concat()).status.code(), Some(3));
    assert_eq!(scene.run(&metrics).status.code(), Some(0));
    let written = series(&std::fs::read_to_string(&file).unwrap());
    let manifest = manifest(&scene.path("out"));
    let label = "{name=\"job\"}";
    let counts = serde_json::to_value(&manifest.counts).unwrap();
    for (name, count) in counts.as_object().unwrap() {
        if name != "rejects" {
            assert_eq!(written[&format!("resemblance_{name}{label}")], count.as_f64().unwrap(), "{name}");
        }
    }
    assert_eq!(written[&format!("resemblance_run_success{label}")], 1.0);
    assert_eq!(written[&format!("resemblance_run_already_finished{label}")], 0.0);
    assert_eq!(written[&format!("resemblance_input_bytes{label}")], manifest.inputs[0].bytes as f64);
    assert_eq!(written["resemblance_rejects{name=\"job\",reason=\"too_short\"}"], 1.0);
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        written[&format!("resemblance_run_info{{name=\"job\",run_id=\"r1\",version=\"{version}\"}}")],
        1.0
    );
    for stage in &manifest.stages {
        let label = format!("{{name=\"job\",stage=\"{}\"}}", stage.name);
        assert_eq!(written[&format!("resemblance_stage_rows{label}")], stage.rows as f64);
        assert_eq!(written[&format!("resemblance_stage_seconds{label}")], stage.seconds);
    }
    scene.nothing_half_written();
    // A collector is another user: the file is as readable as any new one.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&file), mode(&scene.path("in.jsonl")));
    }

    let failed = scene.run(&[&metrics[..], &["--set", "score.threshold=0.9"]].concat());
    assert_eq!(failed.status.code(), Some(2));
    let written = series(&std::fs::read_to_string(&file).unwrap());
    assert_eq!(written[&format!("resemblance_run_success{label}")], 0.0);
    assert_eq!(written[&format!("resemblance_run_exit_code{label}")], 2.0);
    assert!(!written.contains_key(&format!("resemblance_pairs{label}")));
}

#[test]
fn metrics_are_pushed_to_a_gateway() {
    let scene = Scene::new(60);
    let gateway = Server::start(StatusCode::OK);
    let url = format!("http://somebody:secret@{}/metrics/job/nightly?token=secret", gateway.address);
    let run = scene.run(&["--metrics", &url]);
    assert_eq!(run.status.code(), Some(0));
    let asked = gateway.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!((&asked[0].method, asked[0].uri.path()), (&Method::PUT, "/metrics/job/nightly"));
    assert!(asked[0].headers["content-type"].to_str().unwrap().starts_with("text/plain; version=0.0.4"));
    // `somebody:secret`
    assert_eq!(asked[0].headers["authorization"], "Basic c29tZWJvZHk6c2VjcmV0");
    let pairs = pairs(&scene.path("out")).len();
    assert_eq!(series(&asked[0].body)["resemblance_pairs{name=\"job\"}"], pairs as f64);

    let failed = scene.run(&["--metrics", &url, "--set", "score.threshold=0.9"]);
    assert_eq!(failed.status.code(), Some(2));
    assert_eq!(series(&gateway.asked()[1].body)["resemblance_run_success{name=\"job\"}"], 0.0);
}

#[test]
fn a_push_that_fails_is_a_warning() {
    let scene = Scene::new(60);
    let unwilling = Server::start(StatusCode::INTERNAL_SERVER_ERROR);
    // Takes connections and says nothing on them.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for address in [unwilling.address, silent.local_addr().unwrap(), nobody] {
        let url = format!("http://somebody:secret@{address}/metrics/job/nightly?token=secret");
        let run = scene.run(&["--metrics", &url, "--log-format", "json"]);
        assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
        let lines = json_lines(&run.stderr);
        let last = lines.last().unwrap();
        assert_eq!(last["level"], "WARN");
        assert!(
            last["fields"]["message"].as_str().unwrap().contains("does not accept the metrics"),
            "{last}"
        );
        assert!(!text(&run.stderr).contains("secret"), "{last}");
    }
    let run = scene.run(&["--metrics", "ftp://somebody:secret@host/metrics"]);
    assert_eq!(run.status.code(), Some(2));
    assert!(text(&run.stderr).contains("http://host:9091") && !text(&run.stderr).contains("secret"));
}

#[test]
fn health_is_an_exit_code() {
    let (well, unwell) = (Server::start(StatusCode::OK), Server::start(StatusCode::SERVICE_UNAVAILABLE));
    let health = |arguments: &[&str]| {
        let mut command = resemblance();
        command.arg("health").args(arguments).timeout(DEADLINE).assert()
    };
    let address = well.address.to_string();
    health(&[&address]).success().stdout(predicate::str::contains("healthz"));
    health(&[&address, "--ready"]).success();
    let paths: Vec<_> =
        well.asked().into_iter().map(|asked| (asked.method, asked.uri.path().to_owned())).collect();
    assert_eq!(paths, [(Method::GET, "/healthz".to_owned()), (Method::GET, "/readyz".to_owned())]);

    health(&[&unwell.address.to_string()]).code(4).stderr(predicate::str::contains("503"));
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    health(&[&nobody.to_string()]).code(4).stderr(predicate::str::contains("does not answer"));
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    health(&[&address, "--timeout", "1"]).code(4).stderr(predicate::str::contains("timed out"));
    for wrong in [
        "",
        "localhost",
        "localhost:",
        "localhost:0",
        "localhost:99999",
        "http://localhost:1",
        "a@b:1",
        "a:1/x",
    ] {
        health(&[wrong]).code(2).stderr(predicate::str::contains("HOST:PORT"));
    }
}

/// A folder with a job over JSON lines, one of them too short to be compared.
struct Scene {
    folder: TempDir,
}

impl Scene {
    fn new(documents: usize) -> Scene {
        let folder = tempdir().unwrap();
        let mut documents = corpus(1, documents, 30);
        if documents.len() > 20 {
            documents.push(("short".into(), "two words".into()));
        }
        let lines: Vec<String> = documents
            .iter()
            .map(|(id, text)| serde_json::json!({"id": id, "text": text}).to_string())
            .collect();
        std::fs::write(folder.path().join("in.jsonl"), lines.join("\n")).unwrap();
        let job = format!(
            "[source]\nformat = \"jsonl\"\nurl = {:?}\nid = \"id\"\ntext = \"text\"\n\
             [shingle]\nsize = 3\nshort = \"reject\"\n[score]\nthreshold = 0.5\n[output]\nurl = {:?}\n",
            folder.path().join("in.jsonl"),
            folder.path().join("out"),
        );
        std::fs::write(folder.path().join("job.toml"), job).unwrap();
        Scene { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self) -> assert_cmd::Command {
        let mut command = resemblance();
        command.arg("run").arg(self.path("job.toml")).timeout(DEADLINE);
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command().args(arguments).output().unwrap()
    }

    fn nothing_half_written(&self) {
        let names = std::fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let half: Vec<_> = names.filter(|name| name.to_string_lossy().ends_with(".tmp")).collect();
        assert!(half.is_empty(), "{half:?}");
    }
}

fn text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// Every line as the one JSON object that it must be.
fn json_lines(bytes: &[u8]) -> Vec<Value> {
    let line = |line: &str| serde_json::from_str::<Value>(line).ok().filter(Value::is_object);
    text(bytes).lines().map(|text| line(text).unwrap_or_else(|| panic!("no JSON object: {text}"))).collect()
}

/// Prometheus' text format as series -> value; each metric must appear once, with its help and its type first.
fn series(text: &str) -> BTreeMap<String, f64> {
    let mut series = BTreeMap::new();
    let (mut helped, mut typed) = (Vec::new(), Vec::new());
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            helped.push(help.split(' ').next().unwrap());
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let name = kind.strip_suffix(" gauge").unwrap();
            assert!(!typed.contains(&name), "{name} comes twice");
            typed.push(name);
        } else {
            let (of, value) = line.rsplit_once(' ').unwrap();
            let name = of.split('{').next().unwrap();
            assert_eq!((helped.last(), typed.last()), (Some(&name), Some(&name)), "{line}");
            assert!(series.insert(of.to_owned(), value.parse().unwrap()).is_none(), "{line}");
        }
    }
    series
}

#[cfg(unix)]
#[allow(clippy::disallowed_methods, reason = "waits for a file of another process, which nothing announces")]
fn wait_until(there: impl Fn() -> bool) {
    let began = std::time::Instant::now();
    while !there() {
        assert!(began.elapsed() < DEADLINE, "what is waited for does not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}
