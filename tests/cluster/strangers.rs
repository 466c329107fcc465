//! Strangers at a cluster: connections that ask for nothing, and web pages.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::*;

/// More than are let in at once.
const STRANGERS: usize = 260;

fn connected(port: u16, beginning: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    // A connection that was closed at once cannot be written to.
    let _ = stream.write_all(beginning.as_bytes());
    stream
}

#[test]
fn requests_that_never_end_are_ended_and_keep_nobody_out() {
    let environment = variables(&[("RESEMBLANCE_CLUSTER_TOKEN", "hush, hush")]);
    let cluster = Cluster::with(Setup { environment, ..Setup::default() });
    let job = job_over(cluster.folder(), &corpus(7, 60, 30), 2);
    let expected = rows_alone(&job, &cluster.folder().join("alone"), &[]);
    let mut half = Vec::new();
    for port in [cluster.port(), cluster.ports_of_executors()[0]] {
        let begin = || connected(port, "GET /api/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: ");
        half.extend(std::iter::repeat_with(begin).take(STRANGERS));
    }
    let output = cluster.folder().join("out");
    cluster.run(&job, &output, &[]).succeed(QUIET);
    assert_rows(&output, &expected, "a run among strangers");
    for mut stream in half {
        let mut answer = Vec::new();
        if let Err(error) = stream.read_to_end(&mut answer) {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "the connection is still open");
        }
    }
}

#[test]
fn a_cluster_answers_no_web_page() {
    let cluster = Cluster::with(Setup { executors: vec![ExecutorHost::default()], ..Setup::default() });
    let answer = |port: u16, begin: &str, headers: &str| {
        let mut stream = connected(port, &format!("{begin} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n"));
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.to_ascii_lowercase()
    };
    let (scheduler, executor) = (cluster.port(), cluster.ports_of_executors()[0]);
    let local = format!("Host: localhost:{scheduler}\r\n");
    for (begin, headers) in [
        ("GET /api/jobs", format!("{local}Origin: http://localhost:8080\r\n")),
        ("GET /api/jobs", format!("{local}Origin: https://nightlies.apache.org\r\n")),
        (
            "OPTIONS /api/job/x",
            format!("{local}Origin: http://localhost:8080\r\nAccess-Control-Request-Method: PATCH\r\n"),
        ),
        ("PATCH /api/job/x", format!("{local}Origin: null\r\n")),
        ("GET /api/jobs", format!("Host: evil.example:{scheduler}\r\n")),
        ("GET /api/jobs", "Host: 127.0.0.1.evil.example\r\n".to_owned()),
    ] {
        for port in [scheduler, executor, executor + 2] {
            let answer = answer(port, begin, &headers);
            assert!(answer.starts_with("http/1.1 403"), "{begin} {headers}: {answer}");
            assert!(!answer.contains("access-control"), "{answer}");
        }
    }
    for (path, status) in [("/api/jobs", "200"), ("/", "404")] {
        let answered = answer(scheduler, &format!("GET {path}"), &local);
        assert!(answered.starts_with(&format!("http/1.1 {status}")), "{answered}");
    }
}
