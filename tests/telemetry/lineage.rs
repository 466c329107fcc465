//! The OpenLineage events of a run, as a collector on this machine receives them. The tests of the Python package hold them against the
//! published schema.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use axum::http::StatusCode;

use crate::support::*;

/// Longer than anything here takes: a hang ends as a failure.
const DEADLINE: Duration = Duration::from_secs(120);
const RUN: &str = "01234567-89ab-4cde-8f01-23456789abcd";
const PARENT: &str = "11111111-89ab-4cde-8f01-23456789abcd";

/// A job over four documents in two files; three are copies.
fn nightly() -> Scene {
    let copies = ["a", "b", "c"].map(|id| (id.to_owned(), "one two three four".to_owned()));
    let scene = Scene::new(&[]).with_job("in/a.jsonl", &copies);
    scene.write("in/b.jsonl", &[("d".into(), "nothing of the kind".into())]);
    let job = job_text_of("jsonl", scene.path("in/*.jsonl"), scene.path("out"));
    std::fs::write(scene.path("nightly.toml"), job.replace("size = 3", "size = 2")).unwrap();
    scene
}

/// The name of a file or folder in events.
fn dataset_name(scene: &Scene, name: &str) -> String {
    scene.path("").canonicalize().unwrap().join(name).to_string_lossy().into_owned()
}

fn version(dataset: &Value) -> &Value {
    &dataset["facets"]["version"]["datasetVersion"]
}

fn run_nightly(
    scene: &Scene,
    collector: SocketAddr,
    variables: &[(&str, &str)],
    arguments: &[&str],
) -> Output {
    let mut command = scene.command(&["run", "nightly.toml"]);
    command.env("OPENLINEAGE_URL", format!("http://somebody:hush@{collector}"));
    command.env_remove("HTTP_PROXY").env_remove("http_proxy").envs(variables.iter().copied());
    command.args(arguments).timeout(DEADLINE).output().unwrap()
}

fn events(collector: &Server) -> Vec<Value> {
    collector.asked().iter().map(|asked| serde_json::from_slice(&asked.bytes).unwrap()).collect()
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["eventType"].as_str().unwrap()).collect()
}

fn dataset<'e>(datasets: &'e Value, name: &str) -> &'e Value {
    let mut named = datasets.as_array().unwrap().iter().filter(|dataset| dataset["name"] == name);
    named.next().unwrap_or_else(|| panic!("{name} is not in {datasets}"))
}

#[test]
fn events_name_inputs_and_outputs() {
    let (nightly, collector) = (nightly(), Server::start(StatusCode::CREATED));
    let (url, parent) =
        (format!("http://{}", collector.address), format!("airflow/reviews.similar/{PARENT}"));
    let variables = [
        ("OPENLINEAGE_URL", url.as_str()),
        ("OPENLINEAGE_NAMESPACE", "nightly"),
        ("OPENLINEAGE_API_KEY", "key"),
        ("OPENLINEAGE_PARENT_ID", parent.as_str()),
    ];
    let run = run_nightly(&nightly, collector.address, &variables, &["--run-id", RUN]);
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));

    let asked = collector.asked();
    assert!(asked.iter().all(|asked| asked.uri.path() == "/api/v1/lineage"));
    assert!(asked.iter().all(|asked| asked.headers["content-type"] == "application/json"));
    assert!(asked.iter().all(|asked| asked.headers["authorization"] == "Bearer key"));
    let events = events(&collector);
    assert_eq!(kinds(&events), ["START", "COMPLETE"]);
    for event in &events {
        assert_eq!((&event["run"]["runId"], &event["job"]["namespace"]), (&json!(RUN), &json!("nightly")));
        assert_eq!(event["job"]["name"], "nightly");
        assert_eq!(event["run"]["facets"]["parent"]["run"]["runId"], PARENT);
        assert_eq!(event["run"]["facets"]["parent"]["job"]["name"], "reviews.similar");
        dataset(&event["inputs"], &dataset_name(&nightly, "in"));
    }
    assert!(events[0]["eventTime"].as_str() <= events[1]["eventTime"].as_str());

    let manifest = manifest(&nightly.path("out"));
    let input = dataset(&events[1]["inputs"], &dataset_name(&nightly, "in"));
    let bytes: u64 =
        ["in/a.jsonl", "in/b.jsonl"].map(|file| nightly.path(file).metadata().unwrap().len()).iter().sum();
    let sizes = &input["inputFacets"]["inputStatistics"];
    assert_eq!((&sizes["fileCount"], &sizes["size"]), (&json!(2), &json!(bytes)));
    assert_eq!(version(input).as_str().unwrap().len(), 32);
    assert_eq!(events[1]["outputs"].as_array().unwrap().len(), manifest.tables.len());
    for (name, rows) in &manifest.tables {
        let output = dataset(&events[1]["outputs"], &dataset_name(&nightly, &format!("out/{name}")));
        let written = &output["outputFacets"]["outputStatistics"];
        let size: u64 = rows.files.iter().map(|file| file.bytes).sum();
        assert_eq!((&written["rowCount"], &written["size"]), (&json!(rows.rows), &json!(size)), "{name}");
        assert_eq!(written["fileCount"], rows.files.len(), "{name}");
        assert_eq!(*version(output), manifest.fingerprint, "{name}");
        let fields = output["facets"]["schema"]["fields"].as_array().unwrap();
        let named = fields.iter().map(|field| field["name"].as_str().unwrap());
        let there = table(&nightly.path("out"), name).schema();
        assert!(named.eq(there.fields().iter().map(|field| field.name())), "{name}: {fields:?}");
    }
    // Without bounds there are no assertions.
    let clusters = dataset(&events[1]["outputs"], &dataset_name(&nightly, "out/clusters"));
    assert_eq!(clusters["facets"]["dataQualityAssertions"], Value::Null);
}

#[test]
fn an_input_has_another_version_when_a_file_changes() {
    let (nightly, collector) = (nightly(), Server::start(StatusCode::OK));
    let version_of_run = |more: &[&str]| {
        run_nightly(&nightly, collector.address, &[], more).shown(&[]);
        let complete = events(&collector).pop().unwrap();
        version(dataset(&complete["inputs"], &dataset_name(&nightly, "in"))).clone()
    };
    let first = version_of_run(&[]);
    assert_eq!(version_of_run(&["--overwrite"]), first);
    nightly.write("in/b.jsonl", &[("d".into(), "nothing of the kind at all".into())]);
    assert_ne!(version_of_run(&["--overwrite"]), first);
}

#[test]
fn outputs_of_a_run_are_inputs_of_the_next_by_the_same_names_and_versions() {
    let (nightly, collector) = (nightly(), Server::start(StatusCode::OK));
    run_nightly(&nightly, collector.address, &[], &[]).shown(&[]);
    nightly.write("new.jsonl", &[("e".into(), "one two three four".into())]);
    let sets = [("source.url", "new.jsonl"), ("against.output", "out"), ("output.url", "next")];
    let sets = sets.map(|(key, name)| format!("{key}={}", nightly.text(name)));
    let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
    run_nightly(&nightly, collector.address, &[], &sets).shown(&[]);
    let events = events(&collector);
    assert_eq!(kinds(&events), ["START", "COMPLETE", "START", "COMPLETE"]);
    for name in ["documents", "pairs", "clusters"] {
        let name = dataset_name(&nightly, &format!("out/{name}"));
        let (written, read) = (dataset(&events[1]["outputs"], &name), dataset(&events[3]["inputs"], &name));
        assert_eq!(version(written), version(read), "{name}");
        assert_ne!(version(read), &Value::Null, "{name}");
    }
}

#[test]
fn check_names_the_datasets_as_the_events_do() {
    let (nightly, collector) = (nightly(), Server::start(StatusCode::OK));
    let sets = ["--set", "clusters.thresholds=[0.9]"];
    let mut check = program!["check", "--json", "--no-data", nightly.path("nightly.toml")];
    let checked = check.args(sets).timeout(DEADLINE).assert().json();
    assert_eq!(checked["manifest_version"], 1);
    run_nightly(&nightly, collector.address, &[], &sets).shown(&[]);
    let names = |datasets: &Value| {
        let datasets = datasets.as_array().unwrap().iter();
        datasets.map(|dataset| (dataset["namespace"].clone(), dataset["name"].clone())).collect::<Vec<_>>()
    };
    let complete = events(&collector).pop().unwrap();
    assert_eq!(names(&checked["inputs"]), names(&complete["inputs"]));
    assert_eq!(names(&checked["outputs"]), names(&complete["outputs"]));
    assert_eq!(names(&checked["outputs"]).len(), 5);
    let levels = &checked["outputs"].as_array().unwrap()[2];
    let url = nightly.text("out/cluster_levels");
    assert_eq!((&levels["table"], &levels["url"]), (&json!("cluster_levels"), &json!(url)));
}

#[test]
fn bounds_of_the_job_are_assertions_about_its_clusters() {
    let nightly = nightly();
    for (fail, code, severity) in [("false", 0, "warn"), ("true", 6, "error")] {
        let collector = Server::start(StatusCode::OK);
        let fail = format!("alarms.fail={fail}");
        let sets = ["alarms.removed_share=0.25", "alarms.largest_cluster=3", &fail].map(|set| ["--set", set]);
        let arguments = [sets.as_flattened(), &["--json"]].concat();
        let run = run_nightly(&nightly, collector.address, &[], &arguments);
        assert_eq!(run.status.code(), Some(code), "{}", stderr(&run));
        // The output is complete in either case.
        let events = events(&collector);
        assert_eq!(kinds(&events), ["START", "COMPLETE"]);
        let clusters = dataset(&events[1]["outputs"], &dataset_name(&nightly, "out/clusters"));
        let assertions = clusters["facets"]["dataQualityAssertions"]["assertions"].clone();
        let expected = json!([
            {
                "assertion": "removed_share", "name": "alarms.removed_share", "success": false, "severity": severity,
                "expected": "0.25", "actual": "0.5",
            },
            {
                "assertion": "largest_cluster", "name": "alarms.largest_cluster", "success": true, "severity": severity,
                "expected": "3", "actual": "3",
            },
        ]);
        assert_eq!(assertions, expected);
        if code == 0 {
            let record: Value = serde_json::from_slice(&run.stdout).unwrap();
            assert_eq!(record["alarms"][0]["bound"], "removed_share");
            assert_eq!(record["alarms"][0]["found"], 0.5);
            assert_eq!(record["alarms"][1]["alarms"], json!([]));
        }
    }
}

#[test]
fn a_run_that_fails_says_why() {
    let nightly = nightly();
    for (set, code, part, has_inputs) in [
        ("source.text=body", 2, "body", true),
        ("source.url=no/such/file.jsonl", 3, "no/such/file.jsonl", true),
        ("lsh.bands=0", 2, "lsh.bands", false),
    ] {
        let collector = Server::start(StatusCode::OK);
        let run = run_nightly(&nightly, collector.address, &[], &["--set", set, "--run-id", "day-1"]);
        assert_eq!(run.status.code(), Some(code), "{}", stderr(&run));
        let events = events(&collector);
        assert_eq!(kinds(&events), ["START", "FAIL"], "{set}");
        let message = events[1]["run"]["facets"]["errorMessage"]["message"].as_str().unwrap();
        assert!(message.contains(part), "{message}");
        for event in &events {
            assert_eq!(event["job"]["name"], "nightly", "{set}");
            assert_eq!(!event["inputs"].as_array().unwrap().is_empty(), has_inputs, "{set}");
            assert_eq!(event["outputs"], json!([]), "{set}");
            // The id is no UUID: both events have a new one, and it as a tag.
            assert_eq!(event["run"]["runId"], events[0]["run"]["runId"], "{set}");
            assert_eq!(event["run"]["facets"]["tags"]["tags"][0]["value"], "day-1", "{set}");
        }
    }
}

#[test]
fn a_collector_that_dies_or_is_silent_fails_no_run() {
    let nightly = nightly();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    // Takes connections and says nothing on them.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let unwilling = Server::start(StatusCode::SERVICE_UNAVAILABLE);
    let (start, complete) =
        ("does not accept the OpenLineage event START", "does not accept the OpenLineage event COMPLETE");
    for (address, refused) in [
        (closed, &[start, complete][..]),
        (unwilling.address, &[start, complete]),
        (silent.local_addr().unwrap(), &[start]),
    ] {
        let said = run_nightly(&nightly, address, &[], &["--overwrite"]).warned(refused);
        assert!(!said.contains("hush"), "{said}");
    }

    // This one dies when it has taken the first event.
    let dying = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = dying.local_addr().unwrap();
    let first = std::thread::spawn(move || answer(&dying.accept().unwrap().0));
    let said = run_nightly(&nightly, address, &[], &["--overwrite"]).warned(&[complete]);
    assert_eq!(first.join().unwrap()["eventType"], "START");
    assert!(!said.contains("event START"), "{said}");
}

/// Reads a request with a body, and says that it was taken.
fn answer(mut stream: &TcpStream) -> Value {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
    serde_json::from_slice(&body).unwrap()
}

#[test]
fn the_environment_turns_events_off_and_a_wrong_one_is_a_warning() {
    let (nightly, collector) = (nightly(), Server::start(StatusCode::OK));
    for off in [("OPENLINEAGE_DISABLED", "true"), ("OPENLINEAGE__TRANSPORT__TYPE", "noop")] {
        let said = run_nightly(&nightly, collector.address, &[off], &["--overwrite"]).warned(&[]);
        assert!(!said.contains("OpenLineage"), "{said}");
    }
    for wrong in [("OPENLINEAGE__TRANSPORT__TYPE", "kafka"), ("OPENLINEAGE_PARENT_ID", "airflow")] {
        let warning = format!("no OpenLineage events are sent: the variable {}", wrong.0);
        run_nightly(&nightly, collector.address, &[wrong], &["--overwrite"]).warned(&[&warning]);
    }
    assert!(events(&collector).is_empty());
    let console = ("OPENLINEAGE__TRANSPORT__TYPE", "console");
    run_nightly(&nightly, collector.address, &[console], &["--overwrite", "--log-format", "json"])
        .warned(&["START", "COMPLETE"]);
    assert!(events(&collector).is_empty());
}
