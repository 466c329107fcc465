//! A cluster with a token: those who have it get the rows of one process, and everybody else is refused.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::*;

const TOKEN: &str = "RESEMBLANCE_CLUSTER_TOKEN";

#[test]
fn only_requests_with_the_token_are_served() {
    let environment = variables(&[(TOKEN, "hush, hush")]);
    let cluster = Cluster::with(Setup { environment, ..Setup::default() });
    let job = job_over(cluster.folder(), &corpus(7, 400, 30), 2);
    let (there, here) = (cluster.folder().join("there"), cluster.folder().join("here"));
    // Tasks fetch what others wrote, and the driver the last rows: with the token on every connection.
    cluster.run(&job, &there, &[]).succeed(QUIET);
    program!["run", &job, "--set", &format!("output.url={}", here.display())].assert().success();
    assert_rows(&there, &rows(&here), "a run with a token");

    for token in [None, Some("hush")] {
        let refused = |command: &mut assert_cmd::Command| {
            command.timeout(Duration::from_secs(60));
            match token {
                Some(token) => command.env(TOKEN, token),
                None => command.env_remove(TOKEN),
            };
            let has =
                if token.is_some() { "another one than this process has" } else { "this process has none" };
            command.assert().refused(2, &["asks for a token", has, TOKEN]);
        };
        let at = format!("engine.scheduler={}", cluster.url());
        let to = format!("output.url={}", cluster.folder().join("refused").display());
        let mut driver = program!["run", &job];
        refused(driver.args(["--set", "engine.mode=cluster", "--set", &at, "--set", &to]));
        let bind = format!("127.0.0.1:{}", crate::support::process::free_ports(3));
        let work = cluster.folder().join("work");
        let scheduler = &cluster.url()[5..];
        refused(&mut program!["executor", "--scheduler", scheduler, "--bind", bind, "--work-dir", work]);
        assert!(!cluster.folder().join("refused/manifest.json").exists());
    }
    // Health is for all; nothing else is.
    assert_eq!(cluster.get("/readyz").unwrap().0, 200);
    for path in
        ["/api/executors", "/api/jobs", "/api/version", "/ballista.protobuf.SchedulerGrpc/ExecuteQuery"]
    {
        assert_eq!(cluster.get(path).unwrap().0, 401, "{path}");
    }
    for port in cluster.ports_of_executors() {
        assert_eq!(status(*port, "/arrow.flight.protocol.FlightService/DoGet"), 401);
    }
}

fn status(port: u16, path: &str) -> u16 {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let request = "Content-Type: application/grpc\r\nContent-Length: 0\r\nConnection: close";
    write!(stream, "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{request}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}
