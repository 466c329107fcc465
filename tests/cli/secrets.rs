//! Possible secrets are in no message, no log and no record, wherever a user put them by mistake.

use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::IntoResponse;

use crate::support::*;

/// Is part of every secret, and of nothing else.
const HUSH: &str = "hush4711";

const ADDRESSES: [&str; 14] = [
    "s3://hush4711@bucket/a",
    "s3://key:hush4711@bucket/a",
    "s3://key:hu/sh/hush4711@bucket/a@b",
    "s3://key:hush4711 with spaces@bucket/a",
    "s3://key:quote\"hush4711\"@bucket/a",
    "s3://key:quote'hush4711'@bucket/a",
    "s3://key:tick`hush4711`@bucket/a",
    "s3://hush4711 `\"' all@bucket/a",
    "s3://key:at@hush4711@bucket/a",
    "s3://key:colons://hush4711@bucket/a",
    "S3A://Key:hush4711@bucket/a",
    "s3://bucket/a?X-Amz-Signature=hush4711",
    "abfss://container:hush4711@account.dfs.core.windows.net/a",
    "file://user:hush4711@host/a",
];

fn scene() -> Scene {
    Scene::new(&[]).with_job("in.parquet", &corpus(1, 4, 20))
}

/// Runs the command; asserts its exit code, and that neither its messages nor its files hold a secret.
fn is_silent(scene: &Scene, arguments: &[&str], code: i32) {
    let ended = scene.command(arguments).output().unwrap();
    let all = format!("{}{}", stdout(&ended), stderr(&ended));
    assert_eq!(ended.status.code(), Some(code), "{arguments:?}: {all}");
    assert!(!all.is_empty(), "{arguments:?} says nothing");
    assert!(!all.contains(HUSH), "{arguments:?} says {all}");
    if let Ok(record) = std::fs::read_to_string(scene.path("record.json")) {
        assert!(!record.contains(HUSH), "{arguments:?} writes {record}");
        std::fs::remove_file(scene.path("record.json")).unwrap();
    }
}

#[test]
fn an_address_with_a_secret_is_not_repeated() {
    let (scene, job) = (scene(), "job.toml");
    let run = |set: &str| {
        is_silent(&scene, &["run", job, "--set", set, "--record", "record.json"], 2);
        is_silent(&scene, &["run", job, "--set", set, "--log-format", "json"], 2);
    };
    for address in ADDRESSES {
        run(&format!("source.url={address}"));
        run(&format!("source.url={}", serde_json::to_string(address).unwrap()));
        run(&format!("output.url={address}"));
        run(&format!("source.url={}", serde_json::to_string(&["s3://bucket/a", address]).unwrap()));
        is_silent(&scene, &["find", address], 2);
    }
}

#[test]
fn misplaced_secrets_are_not_printed() {
    let (scene, job) = (scene(), "job.toml");
    for address in [ADDRESSES[0], ADDRESSES[3], ADDRESSES[7], ADDRESSES[11]] {
        let keys = "shingle.size engine.memory source.format source.header minhash.modulus minhash.family \
             shingle.normalize lsh.choose nonsense source.delimiter";
        for key in keys.split(' ') {
            is_silent(&scene, &["check", job, "--set", &format!("{key}={address}")], 2);
        }
        is_silent(&scene, &["check", job, "--set", &format!("shingle.normalize={:?}", [address])], 2);
        is_silent(&scene, &["check", job, "--set", address], 2);
        is_silent(&scene, &["check", job, address], 2);
        is_silent(&scene, &["check", job, "--nonsense", address], 2);
        is_silent(&scene, &["check", address], 2);
        is_silent(&scene, &["run", job, "--record", address], 2);
        is_silent(&scene, &["run", job, "--top", address], 2);
        is_silent(&scene, &["run", job, "--top", address, "--log-format", "json"], 2);
        is_silent(&scene, &["sql", address, "SELECT 1"], 2);
        is_silent(&scene, &["neighbors", address, "--id", "1"], 2);
        is_silent(&scene, &["clean", address], 2);
    }
    for scheduler in ["df://user:hush4711@host:50050", "user:hush4711@host:50050", "df://hush4711 x@host:1"] {
        let set = format!("engine={{mode = \"cluster\", scheduler = {scheduler:?}}}");
        is_silent(&scene, &["run", job, "--set", &set, "--record", "record.json"], 2);
    }
    for gateway in ["ftp://user:hush4711@host/x", "http://user:hush4711@:bad/x", "http://user:hush4711 x@"] {
        is_silent(&scene, &["run", job, "--metrics", gateway], 2);
    }
    // No server listens on port 1: the run succeeds and reports that its metrics were not taken.
    let gateway = "http://user:hush4711@127.0.0.1:1/metrics/job/x?token=hush4711";
    is_silent(&scene, &["run", job, "--metrics", gateway, "--record", "record.json"], 0);
}

#[test]
fn a_secret_in_the_job_file_is_not_repeated() {
    let scene = scene();
    let job = scene.path("job.toml");
    let text = std::fs::read_to_string(&job).unwrap();
    let (before, after) = text.split_once("url = ").unwrap();
    let (_, after) = after.split_once('\n').unwrap();
    for address in ADDRESSES {
        let quoted = serde_json::to_string(address).unwrap();
        let escaped: String = address.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect();
        for line in [
            format!("url = {quoted}"),
            format!("url = {}", &quoted[..quoted.len() - 1]),
            format!("url = {address}"),
            format!("nonsense = {quoted}"),
            format!("url = \"{escaped}\""),
        ] {
            std::fs::write(&job, format!("{before}{line}\n{after}")).unwrap();
            is_silent(&scene, &["run", job.to_str().unwrap(), "--record", "record.json"], 2);
        }
    }
}

/// A name, the environment and the arguments of a command.
type Sender = (&'static str, Vec<(&'static str, String)>, Vec<String>);

/// Commands that send something to other programs, with the secrets that they have for them.
fn senders(address: &str) -> [Sender; 3] {
    let gateway = format!("http://user:{HUSH}@{address}/metrics/job/x");
    let collector = |name| (name, format!("http://{address}"));
    [
        ("OpenLineage", vec![collector("OPENLINEAGE_URL"), ("OPENLINEAGE_API_KEY", HUSH.into())], vec![]),
        (
            "OpenTelemetry",
            vec![
                collector("OTEL_EXPORTER_OTLP_ENDPOINT"),
                ("OTEL_EXPORTER_OTLP_HEADERS", format!("authorization=Bearer%20{HUSH}")),
            ],
            vec![],
        ),
        ("a Pushgateway", vec![], vec!["--metrics".into(), gateway]),
    ]
}

#[test]
fn a_server_that_repeats_a_request_or_redirects_it_makes_no_secret_known() {
    let scene = scene();
    let elsewhere = Server::start(StatusCode::OK);
    let to = format!("http://{}/", elsewhere.address);
    let redirecting = Server::answering(move |_| {
        (StatusCode::TEMPORARY_REDIRECT, [(LOCATION, to.clone())], "not here").into_response()
    });
    // The second answer would show only a part of the secret.
    let repeating = [0, 150].map(|padding| {
        Server::answering(move |headers| {
            (StatusCode::FORBIDDEN, format!("{}{headers:?}", ".".repeat(padding))).into_response()
        })
    });
    for server in repeating.iter().chain([&redirecting]) {
        for (what, variables, arguments) in senders(&server.address.to_string()) {
            let before = server.asked().len();
            let mut run = resemblance();
            run.env_remove("HTTP_PROXY").env_remove("http_proxy").envs(variables);
            let said = run.arg("run").arg(scene.path("job.toml")).args(arguments).assert().warned(&[]);
            let is_built = what != "OpenTelemetry" || cfg!(feature = "otlp");
            assert!(!is_built || server.asked().len() > before, "{what} was not sent");
            // The latter is the beginning of "user:hush4711" in base64.
            for secret in ["hush", "dXNlcjpodX"] {
                assert!(!said.contains(secret), "{what}: {said}");
            }
        }
    }
    assert!(elsewhere.asked().is_empty(), "a secret went to another host");
}
