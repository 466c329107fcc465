//! Runs as a scheduler starts them: ids, logs, records, metrics and health checks for other programs.

use axum::http::{Method, StatusCode};

use crate::support::*;

/// Longer than anything here takes: a hang ends as a failure.
const DEADLINE: Duration = Duration::from_secs(120);

#[test]
fn a_runs_id_is_in_every_log_line_and_decides_nothing() {
    let scene = scene(60);
    let first = run_job(&scene, &["--run-id", "nightly-2026.11_20", "--log-format", "json", "-vv", "--json"]);
    let lines = json_lines(&first);
    assert!(lines.len() > 10, "{first:?}");
    for line in &lines {
        assert_eq!(line["span"]["run_id"], "nightly-2026.11_20", "{line}");
    }
    let record = first.json();
    assert_eq!(record["run_id"], "nightly-2026.11_20");
    assert_eq!(record["exit_code"], 0);

    let record = run_job(&scene, &["--run-id", "another", "--json"]).json();
    assert_eq!((&record["run_id"], &record["already_finished"]), (&"another".into(), &true.into()));

    // Without an id each run has one of its own.
    let ids = [run_job(&scene, &["--json"]), run_job(&scene, &["--json"])]
        .map(|run| run.json()["run_id"].to_string());
    assert_eq!(ids[0].len(), 38);
    assert_ne!(ids[0], ids[1]);
}

#[test]
fn ids_that_no_label_takes_are_refused() {
    let scene = scene(20);
    let long = "x".repeat(129);
    for wrong in ["", "a b", "scheduled__2026-11-20T00:00:00+00:00", "ä", "../x", &long] {
        run_job(&scene, &["--run-id", wrong]).refused(2, &["--run-id", "A-Z"]);
    }
    run_job(&scene, &["--run-id", &long[1..]]).shown(&[]);
}

/// The values that an empty Airflow template or shell variable leaves after `--set`.
#[test]
fn dates_and_equals_signs_are_plain_values() {
    let scene = scene(20);
    let names = ["2026-11-20", "2026-11-20T06:30:00Z", "06:30:00", "a=b=c", "dt=2026-11-20"];
    for (n, name) in names.into_iter().enumerate() {
        let folder = scene.path(name);
        std::fs::create_dir(&folder).unwrap();
        std::fs::copy(scene.path("in.jsonl"), folder.join("part.jsonl")).unwrap();
        // Paths as they are given, relative to the folder that the run starts in.
        let sets =
            [format!("source.url={name}"), format!("name={name}"), format!("output.url=out{n}/day={name}/")];
        let mut run = scene.command(&["run", "job.toml", "--json"]);
        let run = run.args(sets.iter().flat_map(|set| ["--set", set])).output().unwrap();
        let record = run.json();
        assert_eq!(record["name"], name);
        assert_eq!(record["manifest"]["inputs"].as_array().unwrap().len(), 1);
        assert!(scene.path(&format!("out{n}/day={name}/manifest.json")).exists(), "{name}");
    }
    run_job(&scene, &["--set", "score.threshold=2026-11-20"]).refused(2, &["score.threshold"]);
}

#[test]
fn errors_are_json_lines_too_with_kind_and_exit_code() {
    let scene = scene(20);
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
        let mut run = scene.command(&["run", "job.toml", "--log-format", "json"]);
        let run = run.args(*arguments).env("RESEMBLANCE_LOG", "off").output().unwrap();
        run.refused(*code, &[]);
        assert!(run.stdout.is_empty());
        let lines = json_lines(&run);
        let last = lines.last().unwrap();
        assert_eq!(last["level"], "ERROR", "{last}");
        assert_eq!(last["fields"]["kind"], *kind, "{last}");
        assert_eq!(last["fields"]["exit_code"], *code, "{last}");
    }
    resemblance().args(["run", "--help", "--log-format", "json"]).assert().shown(&["--run-id"]);
}

#[test]
fn the_record_is_a_file_of_a_good_run() {
    let scene = scene(60);
    let file = scene.path("record.json");
    let arguments = ["--record", file.to_str().unwrap(), "--json"];
    // The record of a failed run, which the next one replaces.
    run_job(&scene, &[&arguments[..], &["--set", "source.url=no/such"]].concat()).refused(3, &[]);
    let run = run_job(&scene, &arguments);
    assert_eq!(std::fs::read(&file).unwrap(), run.stdout);
    let record = run.json();
    assert_eq!((&record["name"], &record["manifest"]["counts"]["documents"]), (&"job".into(), &60.into()));
    assert!(record["seconds"].as_f64().unwrap() > 0.0);
    let top = record["top_pairs"].as_array().unwrap();
    assert_eq!((top.len(), &top[0]["jaccard"]), (10, &1.0.into()));
    nothing_half_written(&scene);
}

#[test]
fn the_record_is_a_file_of_a_failed_run() {
    let scene = scene(20);
    let file = scene.path("record.json");
    let record = |arguments: &[&str]| -> (Output, Value) {
        let run =
            run_job(&scene, &[&["--record", file.to_str().unwrap(), "--run-id", "r1"], arguments].concat());
        let record = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        (run, record)
    };
    let (run, said) = record(&["--set", "source.url=no/such/file.jsonl"]);
    assert_eq!(run.status.code(), Some(3));
    let found = ["exit_code", "kind", "run_id", "stages"].map(|key| said[key].clone());
    assert_eq!(found, [json!(3), json!("input"), json!("r1"), json!([])]);
    assert!(said["error"].as_str().unwrap().contains("no/such/file.jsonl"), "{said}");

    let (run, said) = record(&["--set", "lsh.bands=0"]);
    assert_eq!(run.status.code(), Some(2));
    assert_eq!((&said["name"], &said["kind"]), (&"job".into(), &"job".into()));

    // Ids that come twice are found after the first stage.
    let lines = std::fs::read_to_string(scene.path("in.jsonl")).unwrap();
    std::fs::write(scene.path("in.jsonl"), format!("{lines}\n{lines}")).unwrap();
    let (_, said) = record(&[]);
    let first = &said["stages"][0];
    assert_eq!(json!([said["kind"], first["name"], first["rows"]]), json!(["input", "sketches", 40]));
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_leaves_its_record_and_metrics() {
    let scene = scene(6_000);
    let (file, metrics) = (scene.path("record.json"), scene.path("run.prom"));
    let mut run = Command::new(assert_cmd::cargo::cargo_bin("resemblance"));
    run.arg("run").arg(scene.path("job.toml")).arg("--record").arg(&file).arg("--metrics").arg(&metrics);
    let mut run = Process::start("run", &mut run, &scene.path(""));
    wait_for("the folder of the first stage", DEADLINE, || scene.path("out").exists().then_some(()));
    run.signal("TERM");
    assert_eq!(run.wait(DEADLINE).code(), Some(130), "{}", run.said());
    let record: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!((&record["kind"], &record["exit_code"]), (&"interrupted".into(), &130.into()));
    assert_eq!(series_of(&metrics)["resemblance_run_exit_code{name=\"job\"}"], 130.0);
}

#[test]
fn files_that_cannot_be_written_are_refused_before_the_run() {
    let scene = scene(20);
    for argument in ["--record", "--metrics"] {
        for wrong in ["no/such/folder/file", &scene.text(""), "", ".."] {
            run_job(&scene, &[argument, wrong]).refused(2, &[argument]);
        }
    }
    assert!(!scene.path("out").exists());
}

#[test]
fn metrics_are_written_to_a_file() {
    let scene = scene(60);
    let file = scene.path("resemblance.prom");
    let metrics = ["--metrics", file.to_str().unwrap(), "--run-id", "r1"];
    run_job(&scene, &[&metrics[..], &["--set", "source.url=no/such"]].concat()).refused(3, &[]);
    run_job(&scene, &metrics).shown(&[]);
    let written = series_of(&file);
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
    let found = written[&format!("resemblance_run_info{{name=\"job\",run_id=\"r1\",version=\"{version}\"}}")];
    assert_eq!(found, 1.0);
    for stage in &manifest.stages {
        let label = format!("{{name=\"job\",stage=\"{}\"}}", stage.name);
        assert_eq!(written[&format!("resemblance_stage_rows{label}")], stage.rows as f64);
        assert_eq!(written[&format!("resemblance_stage_seconds{label}")], stage.seconds);
    }
    nothing_half_written(&scene);
    // A collector is another user: the file is as readable as any new one.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&file), mode(&scene.path("in.jsonl")));
    }

    run_job(&scene, &[&metrics[..], &["--set", "score.threshold=0.9"]].concat()).refused(2, &[]);
    let written = series_of(&file);
    assert_eq!(written[&format!("resemblance_run_success{label}")], 0.0);
    assert_eq!(written[&format!("resemblance_run_exit_code{label}")], 2.0);
    assert!(!written.contains_key(&format!("resemblance_pairs{label}")));
}

#[test]
fn metrics_are_pushed_to_a_gateway() {
    let scene = scene(60);
    let gateway = Server::start(StatusCode::OK);
    let url = format!("http://somebody:secret@{}/metrics/job/nightly?token=secret", gateway.address);
    run_job(&scene, &["--metrics", &url]).shown(&[]);
    let asked = gateway.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!((&asked[0].method, asked[0].uri.path()), (&Method::PUT, "/metrics/job/nightly"));
    assert!(asked[0].headers["content-type"].to_str().unwrap().starts_with("text/plain; version=0.0.4"));
    // `somebody:secret`
    assert_eq!(asked[0].headers["authorization"], "Basic c29tZWJvZHk6c2VjcmV0");
    let pairs = pairs(&scene.path("out")).len();
    assert_eq!(series(&asked[0].body)["resemblance_pairs{name=\"job\"}"], pairs as f64);

    run_job(&scene, &["--metrics", &url, "--set", "score.threshold=0.9"]).refused(2, &[]);
    assert_eq!(series(&gateway.asked()[1].body)["resemblance_run_success{name=\"job\"}"], 0.0);
}

#[test]
fn a_push_that_fails_is_a_warning() {
    let scene = scene(60);
    let unwilling = Server::start(StatusCode::INTERNAL_SERVER_ERROR);
    // Takes connections and says nothing on them.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for address in [unwilling.address, silent.local_addr().unwrap(), nobody] {
        let url = format!("http://somebody:secret@{address}/metrics/job/nightly?token=secret");
        let run = run_job(&scene, &["--metrics", &url, "--log-format", "json"]);
        let said = run.warned(&[]);
        let lines = json_lines(&run);
        let last = lines.last().unwrap();
        assert_eq!(last["level"], "WARN");
        let message = last["fields"]["message"].as_str().unwrap();
        assert!(message.contains("does not accept the metrics") && !said.contains("secret"), "{said}");
    }
    let run = run_job(&scene, &["--metrics", "ftp://somebody:secret@host/metrics"]);
    assert!(!run.refused(2, &["http://host:9091"]).contains("secret"));
}

#[test]
fn health_is_an_exit_code() {
    let (well, unwell) = (Server::start(StatusCode::OK), Server::start(StatusCode::SERVICE_UNAVAILABLE));
    let health = |arguments: &[&str]| resemblance().arg("health").args(arguments).timeout(DEADLINE).assert();
    let address = well.address.to_string();
    health(&[&address]).shown(&["healthz"]);
    health(&[&address, "--ready"]).success();
    let paths: Vec<_> =
        well.asked().into_iter().map(|asked| (asked.method, asked.uri.path().to_owned())).collect();
    assert_eq!(paths, [(Method::GET, "/healthz".to_owned()), (Method::GET, "/readyz".to_owned())]);

    health(&[&unwell.address.to_string()]).refused(4, &["503"]);
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    health(&[&nobody.to_string()]).refused(4, &["does not answer"]);
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    health(&[&address, "--timeout", "1"]).refused(4, &["timed out"]);
    for wrong in "|localhost|localhost:|localhost:0|localhost:99999|http://localhost:1|a@b:1|a:1/x".split('|')
    {
        health(&[wrong]).refused(2, &["HOST:PORT"]);
    }
}

/// A folder with a job over JSON lines, one of them too short to be compared.
fn scene(documents: usize) -> Scene {
    let mut documents = corpus(1, documents, 30);
    if documents.len() > 20 {
        documents.push(("short".into(), "two words".into()));
    }
    Scene::new(&[]).with_job("in.jsonl", &documents)
}

fn run_job(scene: &Scene, arguments: &[&str]) -> Output {
    scene.command(&["run", "job.toml"]).args(arguments).timeout(DEADLINE).output().unwrap()
}

fn nothing_half_written(scene: &Scene) {
    let names = std::fs::read_dir(scene.path("")).unwrap().map(|entry| entry.unwrap().file_name());
    let half: Vec<_> = names.filter(|name| name.to_string_lossy().ends_with(".tmp")).collect();
    assert!(half.is_empty(), "{half:?}");
}

fn json_lines(ended: &Output) -> Vec<Value> {
    let line = |line: &str| serde_json::from_str::<Value>(line).ok().filter(Value::is_object);
    let object = |text: &str| line(text).unwrap_or_else(|| panic!("no JSON object: {text}"));
    stderr(ended).lines().map(object).collect()
}

fn series_of(file: &Path) -> BTreeMap<String, f64> {
    series(&std::fs::read_to_string(file).unwrap())
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
