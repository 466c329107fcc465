//! The spans and metrics of commands, as a collector of OpenTelemetry on this machine receives them. The tests of the Python package
//! read them with the messages that the OpenTelemetry project publishes.

mod lineage;

use axum::http::StatusCode;

use crate::support::*;

/// Longer than anything here takes: a hang ends as a failure.
const DEADLINE: Duration = Duration::from_secs(120);

/// A job over four documents; three are copies.
fn nightly() -> Scene {
    let texts = ["one two three four", "one two three four", "one two three four", "nothing of the kind"];
    let documents = ["a", "b", "c", "d"].into_iter().zip(texts).map(|(id, text)| (id.into(), text.into()));
    let scene = Scene::new(&[]).with_job("in.jsonl", &documents.collect::<Vec<_>>());
    std::fs::rename(scene.path("job.toml"), scene.path("nightly.toml")).unwrap();
    scene
}

/// Runs a command that sends JSON to a collector.
fn run_command(scene: &Scene, url: &str, variables: &[(&str, &str)], arguments: &[&str]) -> Output {
    let mut command = scene.command(arguments);
    for name in ["HTTP_PROXY", "http_proxy", "TRACEPARENT", "TRACESTATE"] {
        command.env_remove(name);
    }
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", url).env("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json");
    command.envs(variables.iter().copied()).timeout(DEADLINE).output().unwrap()
}

fn run_nightly(scene: &Scene, url: &str, variables: &[(&str, &str)], arguments: &[&str]) -> Output {
    run_command(scene, url, variables, &[&["run", "nightly.toml"], arguments].concat())
}

fn warnings(run: &Output) -> Vec<String> {
    let said = run.warned(&[]);
    let about =
        |line: &&str| ["OpenTelemetry", "spans", "TRACEPARENT"].iter().any(|word| line.contains(word));
    said.lines().filter(about).map(str::to_owned).collect()
}

#[cfg(not(feature = "otlp"))]
#[test]
fn without_the_feature_a_variable_that_asks_for_it_is_a_warning() {
    let (nightly, collector) = (nightly(), Server::start(StatusCode::OK));
    let url = format!("http://{}", collector.address);
    let run = run_nightly(&nightly, &url, &[], &[]);
    let warnings = warnings(&run);
    assert_eq!(warnings.len(), 1, "{}", stderr(&run));
    assert!(warnings[0].contains("OTEL_EXPORTER_OTLP_ENDPOINT is set, but"), "{warnings:?}");
    assert!(collector.asked().is_empty());
}

#[cfg(feature = "otlp")]
mod sent {
    use std::net::TcpListener;

    use resemblance::pipeline::OnExisting;

    use super::*;
    use crate::support::stopping::run_until;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    fn collector() -> (Server, String) {
        let collector = Server::start(StatusCode::OK);
        let url = format!("http://{}", collector.address);
        (collector, url)
    }

    /// Runs the job with these variables, and sends its spans to a new collector.
    fn collected(nightly: &Scene, variables: &[(&str, &str)], more: &[&str]) -> (Server, Output) {
        let (collector, url) = collector();
        let run = run_nightly(nightly, &url, variables, more);
        (collector, run)
    }

    fn array(value: &Value) -> &[Value] {
        value.as_array().map(Vec::as_slice).unwrap_or_default()
    }

    /// All that was sent to a path, as JSON.
    fn bodies(collector: &Server, path: &str) -> Vec<Value> {
        let asked = collector.asked();
        let sent = asked.iter().filter(|asked| asked.uri.path() == path);
        sent.map(|sent| {
            assert_eq!(sent.method, "POST");
            assert_eq!(sent.headers["content-type"], "application/json");
            serde_json::from_str(&sent.body).unwrap()
        })
        .collect()
    }

    fn spans(collector: &Server) -> Vec<Value> {
        let bodies = bodies(collector, "/v1/traces");
        let of = |body: &Value| array(&body["resourceSpans"][0]["scopeSpans"][0]["spans"]).to_vec();
        bodies.iter().flat_map(of).collect()
    }

    fn command_and_stages(collector: &Server, command: &str) -> (Value, Vec<Value>) {
        let (root, stages): (Vec<_>, Vec<_>) =
            spans(collector).into_iter().partition(|span| span["name"] == format!("resemblance {command}"));
        assert_eq!(root.len(), 1, "{root:?}");
        (root[0].clone(), stages)
    }

    /// Attributes by their key; numbers are texts, as in the JSON of protobuf.
    fn attributes(of: &Value) -> BTreeMap<String, Value> {
        let values = array(&of["attributes"]).iter().map(|pair| {
            let value = pair["value"].as_object().unwrap();
            assert_eq!(value.len(), 1, "{pair}");
            (pair["key"].as_str().unwrap().to_owned(), value.values().next().unwrap().clone())
        });
        values.collect()
    }

    fn names(spans: &[Value]) -> BTreeSet<&str> {
        spans.iter().map(|span| span["name"].as_str().unwrap()).collect()
    }

    fn nanoseconds(span: &Value, field: &str) -> u64 {
        span[field].as_str().unwrap().parse().unwrap()
    }

    /// The values of gauges, named as in Prometheus' text format.
    fn gauges(body: &Value) -> BTreeMap<String, f64> {
        let metrics = array(&body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]);
        let mut values = BTreeMap::new();
        for metric in metrics {
            for point in array(&metric["gauge"]["dataPoints"]) {
                let labels = attributes(point).into_iter().map(|(key, value)| format!("{key}={value}"));
                let labels = labels.collect::<Vec<_>>().join(",");
                let name = format!("{}{{{labels}}}", metric["name"].as_str().unwrap());
                assert!(values.insert(name, point["asDouble"].as_f64().unwrap()).is_none(), "{point}");
            }
        }
        values
    }

    #[test]
    fn a_run_is_a_span_with_one_for_each_stage() {
        let (nightly, (collector, url)) = (nightly(), collector());
        let resource = ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test");
        let run = run_nightly(&nightly, &url, &[resource], &["--run-id", "day-1"]);
        assert_eq!(warnings(&run), [""; 0]);
        let manifest = manifest(&nightly.path("out"));

        let sent = bodies(&collector, "/v1/traces");
        assert_eq!(sent.len(), 1);
        let resource = attributes(&sent[0]["resourceSpans"][0]["resource"]);
        assert_eq!(resource["service.name"], "resemblance");
        assert_eq!(resource["deployment.environment.name"], "test");

        let (command, stages) = command_and_stages(&collector, "run");
        assert_eq!((&command["parentSpanId"], &command["status"]), (&json!(""), &Value::Null));
        let bytes: u64 = manifest.tables.values().flat_map(|table| &table.files).map(|file| file.bytes).sum();
        let known = attributes(&command);
        let input = nightly.path("in.jsonl").metadata().unwrap().len();
        for (key, value) in [
            ("process.exit.code", json!("0")),
            ("resemblance.run.id", json!("day-1")),
            ("resemblance.job.name", json!("nightly")),
            ("resemblance.engine.mode", json!("local")),
            ("resemblance.output.url", json!(nightly.text("out"))),
            ("resemblance.input.urls", json!({ "values": [{ "stringValue": nightly.text("in.jsonl") }] })),
            ("resemblance.input.files", json!("1")),
            ("resemblance.input.bytes", json!(input.to_string())),
            ("resemblance.output.bytes", json!(bytes.to_string())),
            ("resemblance.documents", json!("4")),
            ("resemblance.pairs", json!("3")),
            ("resemblance.removed_documents", json!("2")),
            ("resemblance.stages.reused", json!("0")),
            ("resemblance.already_finished", json!(false)),
        ] {
            assert_eq!(known[key], value, "{key}");
        }

        let recorded: BTreeSet<&str> = manifest.stages.iter().map(|stage| stage.name.as_str()).collect();
        assert_eq!((names(&stages), stages.len()), (recorded, manifest.stages.len()));
        let ids: BTreeSet<&str> = stages.iter().map(|stage| stage["spanId"].as_str().unwrap()).collect();
        assert_eq!(ids.len(), stages.len());
        let times =
            |span: &Value| ["startTimeUnixNano", "endTimeUnixNano"].map(|field| nanoseconds(span, field));
        let [start, end] = times(&command);
        for stage in &stages {
            assert_eq!(stage["traceId"], command["traceId"]);
            assert_eq!(stage["parentSpanId"], command["spanId"]);
            let recorded = manifest.stages.iter().find(|recorded| stage["name"] == recorded.name).unwrap();
            let known = attributes(stage);
            assert_eq!(known["resemblance.stage.rows"], recorded.rows.to_string(), "{stage}");
            assert_eq!(known["resemblance.stage.reused"], false, "{stage}");
            let [begins, ends] = times(stage);
            assert!(start <= begins && begins < ends && ends <= end, "{stage}");
        }

        // The second run finds the output finished, so it has no stages.
        run_nightly(&nightly, &url, &[], &[]).shown(&[]);
        let second: Value = bodies(&collector, "/v1/traces").pop().unwrap();
        let second = array(&second["resourceSpans"][0]["scopeSpans"][0]["spans"]);
        assert_eq!(second.len(), 1);
        assert_eq!(attributes(&second[0])["resemblance.already_finished"], true);
        assert_ne!(second[0]["traceId"], command["traceId"]);
    }

    #[test]
    fn sent_metrics_equal_the_file_also_if_the_run_fails() {
        let (nightly, (collector, url)) = (nightly(), collector());
        let file = nightly.text("run.prom");
        for (set, code) in [("score.threshold=0.5", 0), ("source.text=body", 2)] {
            let arguments = ["--metrics", &file, "--set", set, "--overwrite"];
            run_nightly(&nightly, &url, &[("OTEL_TRACES_EXPORTER", "none")], &arguments).refused(code, &[]);
            let text = std::fs::read_to_string(&file).unwrap();
            let lines = text.lines().filter(|line| !line.starts_with('#'));
            let written: BTreeMap<String, f64> = lines
                .map(|line| line.rsplit_once(' ').unwrap())
                .map(|(name, value)| (name.to_owned(), value.parse().unwrap()))
                .collect();
            let sent = bodies(&collector, "/v1/metrics").pop().unwrap();
            // The parser of JSON may miss the last bit of a number.
            let gauges = gauges(&sent);
            assert!(gauges.keys().eq(written.keys()), "{set}: {gauges:?}");
            let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-15 * b.abs();
            assert!(gauges.values().zip(written.values()).all(close), "{set}: {gauges:?} {written:?}");
            assert_eq!(written["resemblance_run_exit_code{name=\"nightly\"}"], f64::from(code));
            assert_eq!(written.contains_key("resemblance_pairs{name=\"nightly\"}"), code == 0, "{set}");
            let metrics = array(&sent["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]);
            let seconds = metrics.iter().find(|metric| metric["name"] == "resemblance_run_seconds").unwrap();
            assert_eq!(seconds["unit"], "s");
        }
        assert!(spans(&collector).is_empty());
    }

    #[test]
    fn a_run_that_fails_says_why_and_where() {
        let nightly = nightly();
        // So many lines that the first look at the file does not reach the last one.
        let line = |id: usize| format!("{{\"id\": \"{id}\", \"text\": \"one two three four\"}}\n");
        let lines: String = (0..20_000).map(line).collect();
        std::fs::write(nightly.path("broken.jsonl"), lines + "{").unwrap();
        let broken = format!("source.url={}", nightly.text("broken.jsonl"));
        for (set, code, kind, part, fails_in_a_stage) in [
            ("source.text=body", 2, "job", "body", false),
            ("lsh.bands=0", 2, "job", "lsh.bands", false),
            (broken.as_str(), 3, "input", "broken.jsonl", true),
        ] {
            let (collector, url) = collector();
            let run = run_nightly(&nightly, &url, &[], &["--set", set]);
            assert_eq!(run.status.code(), Some(code), "{}", stderr(&run));
            let (command, stages) = command_and_stages(&collector, "run");
            assert_eq!(command["status"]["code"], 2, "{set}");
            let message = command["status"]["message"].as_str().unwrap();
            assert!(message.contains(part), "{message}");
            let known = attributes(&command);
            assert_eq!(known["error.type"], json!(kind));
            assert_eq!(known["process.exit.code"], json!(code.to_string()));
            let failed: Vec<_> = stages.iter().filter(|stage| stage["status"]["code"] == 2).collect();
            assert_eq!(failed.len(), usize::from(fails_in_a_stage), "{stages:?}");
            assert!(failed.iter().all(|stage| attributes(stage)["error.type"] == kind), "{failed:?}");
        }
    }

    #[test]
    fn a_run_that_is_resumed_marks_the_stages_of_the_earlier_one() {
        let (nightly, (collector, url)) = (nightly(), collector());
        let input = nightly.path("in.parquet");
        write_parquet(&input, &corpus(11, 60, 30), 20);
        std::fs::write(nightly.path("nightly.toml"), job_text(&input, nightly.path("out"))).unwrap();
        let (_, failed) = run_until(&job(&input, &nightly.path("out"), &[]), OnExisting::Fail, 4);
        assert!(failed);
        let run = run_nightly(&nightly, &url, &[], &["--json"]);
        let record = run.json();
        let (command, stages) = command_and_stages(&collector, "run");
        let reused = stages.iter().filter(|stage| attributes(stage)["resemblance.stage.reused"] == true);
        let reused = reused.count();
        assert!(reused > 0 && reused < stages.len(), "{stages:?}");
        assert_eq!(record["stages_reused"], reused);
        assert_eq!(attributes(&command)["resemblance.stages.reused"], reused.to_string());
    }

    #[test]
    fn a_trace_parent_of_the_environment_is_the_parent() {
        let nightly = nightly();
        let parent = format!("00-{TRACE}-{SPAN}-01");
        let (collector, run) =
            collected(&nightly, &[("TRACEPARENT", parent.as_str()), ("TRACESTATE", "vendor=1")], &[]);
        run.shown(&[]);
        let (command, stages) = command_and_stages(&collector, "run");
        assert_eq!((&command["traceId"], &command["parentSpanId"]), (&json!(TRACE), &json!(SPAN)));
        for span in stages.iter().chain([&command]) {
            assert_eq!((&span["traceId"], &span["traceState"]), (&json!(TRACE), &json!("vendor=1")));
        }

        // A parent that is not recorded has no recorded children, and metrics do not depend on it.
        let parent = format!("00-{TRACE}-{SPAN}-00");
        let (collector, run) = collected(&nightly, &[("TRACEPARENT", parent.as_str())], &["--overwrite"]);
        assert_eq!(warnings(&run), [""; 0]);
        assert!(spans(&collector).is_empty());
        assert_eq!(bodies(&collector, "/v1/metrics").len(), 1);

        let (collector, run) = collected(&nightly, &[("TRACEPARENT", "airflow")], &["--overwrite"]);
        assert_eq!((run.status.code(), warnings(&run).len()), (Some(0), 1), "{}", stderr(&run));
        let (command, _) = command_and_stages(&collector, "run");
        assert_eq!((&command["parentSpanId"], command["traceId"].as_str().unwrap().len()), (&json!(""), 32));
    }

    #[test]
    fn commands_without_a_job_file_and_apply_are_spans_too() {
        let nightly = nightly();
        let (input, out) = (nightly.text("in.jsonl"), nightly.text("out"));
        assert_eq!(run_nightly(&nightly, "", &[], &[]).status.code(), Some(0));
        let (clean, marked) = (nightly.text("clean"), nightly.text("marked"));
        let data = ["--text", "text"];
        for (arguments, has_run) in [
            ([&["find", &input][..], &data].concat(), true),
            ([&["dedup", &input, "--to", &clean][..], &data].concat(), true),
            (vec!["apply", &out, "--to", &marked], false),
        ] {
            let (collector, url) = collector();
            let run = run_command(&nightly, &url, &[], &arguments);
            assert_eq!(warnings(&run), [""; 0]);
            let (command, stages) = command_and_stages(&collector, arguments[0]);
            let known = attributes(&command);
            assert_eq!(known["resemblance.command"], arguments[0]);
            assert_eq!(names(&stages).contains("clusters"), has_run, "{arguments:?}");
            assert_eq!(known.get("resemblance.documents"), has_run.then_some(&json!("4")), "{known:?}");
            let applied = arguments[0] != "find";
            let removed = known.get("resemblance.apply.documents.removed");
            assert_eq!(removed, applied.then_some(&json!("2")), "{known:?}");
            assert!(!stages.is_empty() && stages.iter().all(|stage| stage["status"] == Value::Null));
        }
    }

    #[test]
    fn a_collector_that_refuses_or_is_silent_fails_no_run() {
        let nightly = nightly();
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        // Takes connections and says nothing on them.
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let unwilling = Server::start(StatusCode::SERVICE_UNAVAILABLE);
        for address in [closed, silent.local_addr().unwrap(), unwilling.address] {
            let url = format!("http://somebody:hush@{address}");
            let run = run_nightly(&nightly, &url, &[], &["--overwrite"]);
            let warnings = warnings(&run);
            assert_eq!(warnings.len(), 1, "{}", stderr(&run));
            assert!(warnings[0].contains(&address.to_string()), "{warnings:?}");
            assert!(!stderr(&run).contains("hush"), "{}", stderr(&run));
        }
        assert_eq!(unwilling.asked().len(), 2);
    }

    #[test]
    fn the_environment_disables_telemetry_and_wrong_values_are_warnings() {
        let (nightly, (collector, url)) = (nightly(), collector());
        let run = run_nightly(&nightly, &url, &[("OTEL_SDK_DISABLED", "true")], &[]);
        assert_eq!(warnings(&run), [""; 0]);
        for (name, value) in
            [("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"), ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "collector")]
        {
            let run = run_nightly(&nightly, &url, &[(name, value)], &["--overwrite"]);
            let warnings = warnings(&run);
            let warning = format!("no spans and no metrics are sent: the variable {name}");
            assert!(warnings.len() == 1 && warnings[0].contains(&warning), "{warnings:?}");
        }
        // A command that runs no stages has no span.
        run_command(&nightly, &url, &[], &["verify", &nightly.text("out")]).shown(&[]);
        assert!(collector.asked().is_empty());
    }

    /// The tests of the Python package decode the messages.
    #[test]
    fn protobuf_is_the_default() {
        let (nightly, (collector, url)) = (nightly(), collector());
        let variables = [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", ""),
            ("OTEL_EXPORTER_OTLP_HEADERS", "x-scope=nightly,authorization=Bearer%20key"),
        ];
        let run = run_nightly(&nightly, &url, &variables, &[]);
        assert_eq!(warnings(&run), [""; 0]);
        let asked = collector.asked();
        let paths: BTreeSet<&str> = asked.iter().map(|asked| asked.uri.path()).collect();
        assert_eq!(paths, ["/v1/metrics", "/v1/traces"].into());
        for sent in &asked {
            assert_eq!(sent.headers["content-type"], "application/x-protobuf");
            assert_eq!(sent.headers["x-scope"], "nightly");
            assert_eq!(sent.headers["authorization"], "Bearer key");
            assert!(!sent.bytes.is_empty());
        }
    }
}
