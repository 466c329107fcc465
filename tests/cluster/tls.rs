//! A cluster with TLS: the rows of one process, no port that answers without TLS, and errors that say what a process lacks.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use super::faults::Scene;
use super::*;
use crate::support::process::{free_ports, get};

const CA: &str = "RESEMBLANCE_CLUSTER_CA";
const CERTIFICATE: &str = "RESEMBLANCE_CLUSTER_CERTIFICATE";
const KEY: &str = "RESEMBLANCE_CLUSTER_KEY";
const TOKEN: &str = "RESEMBLANCE_CLUSTER_TOKEN";

/// The files of an authority and of a certificate for 127.0.0.1 that it signed, with its key.
struct Files {
    authority: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

impl Files {
    fn new(folder: &Path) -> Self {
        std::fs::create_dir_all(folder).unwrap();
        let mut of_authority = CertificateParams::default();
        of_authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(of_authority, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = certificate.signed_by(&key, &authority).unwrap();
        let write = |name: &str, text: String| {
            std::fs::write(folder.join(name), text).unwrap();
            folder.join(name)
        };
        Self {
            authority: write("ca.pem", authority.pem()),
            certificate: write("certificate.pem", certificate.pem()),
            key: write("key.pem", key.serialize_pem()),
        }
    }

    fn variables(&self) -> Vec<(String, String)> {
        let files = [(CA, &self.authority), (CERTIFICATE, &self.certificate), (KEY, &self.key)];
        files.map(|(name, path)| (name.to_owned(), path.display().to_string())).to_vec()
    }
}

#[track_caller]
fn refused(command: &mut assert_cmd::Command, code: i32, parts: &[&str]) {
    command.timeout(Duration::from_secs(60)).assert().refused(code, parts);
}

#[test]
fn a_cluster_with_tls_serves_nothing_without_it() {
    let path = paths();
    let (files, others) = (Files::new(&path("ours")), Files::new(&path("others")));
    let mut environment = files.variables();
    environment.push((TOKEN.to_owned(), "hush, hush".to_owned()));
    let cluster = Cluster::with(Setup { environment: environment.clone(), ..Setup::default() });
    let scheduler = &cluster.url()["df://".len()..];
    let port: u16 = scheduler.rsplit_once(':').unwrap().1.parse().unwrap();
    let flights = cluster.ports_of_executors();

    // Clients that connect and are silent keep no others waiting.
    let ports = [port].into_iter().chain(flights.iter().copied());
    let _silent: Vec<_> = ports.map(|port| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    // Executors fetch from each other and the driver from them, and all connections to the scheduler have the token.
    let job = job_over(cluster.folder(), &corpus(7, 400, 30), 2);
    let (there, here) = (cluster.folder().join("there"), cluster.folder().join("here"));
    cluster.run(&job, &there, &[]).succeed(QUIET);
    program!["run", &job, "--set", &format!("output.url={}", here.display())].assert().success();
    assert_rows(&there, &rows(&here), "a run with TLS");

    // Flight, health and the scheduler: nothing answers without TLS.
    for port in flights.iter().flat_map(|port| [*port, port + 2]).chain([port]) {
        let (status, said) = get("127.0.0.1", port, "/healthz").unwrap();
        assert_eq!((status, said.as_str()), (426, "this cluster asks for TLS\n"), "port {port}");
    }
    assert_eq!(cluster.get("/readyz").unwrap().0, 200);
    assert_eq!(cluster.get("/api/jobs").unwrap().0, 401, "the token is asked for behind TLS");
    let with = |variables: &[(String, String)]| {
        let mut command = resemblance();
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        command
    };
    with(&files.variables()).args(["health", scheduler]).assert().success();
    refused(resemblance().args(["health", scheduler]), 4, &["426"]);

    let drive = |variables: &[(String, String)], at: &str, parts: &[&str]| {
        let to = format!("output.url={}", cluster.folder().join("refused").display());
        let at = format!("engine.scheduler={at}");
        let mut driver = with(variables);
        driver.arg("run").arg(&job).args(["--set", "engine.mode=cluster", "--set", &at, "--set", &to]);
        refused(&mut driver, 2, parts);
    };
    drive(&[], scheduler, &["asks for TLS, and this process has none", CA]);
    let untrusted = ["the certificate of the scheduler", "cannot be trusted", CA];
    drive(&others.variables(), scheduler, &untrusted);
    // The certificate is for the address, and not for this name of it.
    drive(&files.variables(), &format!("localhost:{port}"), &untrusted);
    assert!(!cluster.folder().join("refused/manifest.json").exists());

    let work = cluster.folder().join("work");
    let execute = |variables: &[(String, String)], parts: &[&str]| {
        let mut executor = with(variables);
        executor.args(["executor", "--scheduler", scheduler, "--bind"]);
        executor.arg(format!("127.0.0.1:{}", free_ports(3))).arg("--work-dir").arg(&work);
        refused(&mut executor, 2, parts);
    };
    execute(&[], &["asks for TLS"]);
    execute(&others.variables(), &untrusted);
    execute(&files.variables()[..1], &["an executor serves", CERTIFICATE, KEY]);
}

#[test]
fn an_executor_with_tls_dies_and_is_replaced() {
    let folder = tempdir().unwrap();
    let environment = Files::new(folder.path()).variables();
    let cluster = Cluster::with(Setup { environment, ..Setup::default() });
    let mut scene = Scene::new(cluster, 2_500, &["lsh.hot_bucket=16"]);
    let mut driver = scene.run("replaced", &[]);
    let place = scene.cluster.kill_in_a_task("candidates", &mut driver);
    scene.cluster.spawn_executor(place);
    let record = scene.survives(driver, "replaced");
    assert!(record["recoveries"].as_u64() >= Some(1), "{record:#}");
}

#[test]
fn a_server_without_tls_is_not_trusted() {
    let folder = tempdir().unwrap();
    let files = Files::new(folder.path());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            // A server of HTTP that reads the beginning of a TLS connection.
            let _ = client.read(&mut [0; 64]);
            let _ = client.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let mut driver = program!["run", job_over(folder.path(), &corpus(7, 20, 2), 1)];
    driver.env(CA, &files.authority);
    driver.args(["--set", "engine.mode=cluster", "--set", &format!("engine.scheduler={address}")]);
    driver.args(["--set", &format!("output.url={}", folder.path().join("out").display())]);
    refused(&mut driver, 2, &["there is no TLS connection to the scheduler", CERTIFICATE, CA]);
}

#[test]
fn wrong_files_are_named() {
    let folder = tempdir().unwrap();
    let (files, others) =
        (Files::new(&folder.path().join("ours")), Files::new(&folder.path().join("others")));
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    let missing = folder.path().join("missing.pem");
    let (certificate, key) = (Some(&files.certificate), Some(&files.key));
    for (certificate, key, parts) in [
        (certificate, None, &["set both", CERTIFICATE, KEY][..]),
        (None, key, &["set both", CERTIFICATE, KEY]),
        (Some(&missing), key, &[CERTIFICATE, "missing.pem", "No such file"]),
        (Some(&empty), key, &[CERTIFICATE, "empty.pem", "as PEM"]),
        (certificate, certificate, &[KEY, "a private key as PEM"]),
        (certificate, Some(&others.key), &["cannot be used together"]),
    ] {
        let mut scheduler = program!["scheduler", "--bind", format!("127.0.0.1:{}", free_ports(1))];
        scheduler.envs(certificate.map(|path| (CERTIFICATE, path))).envs(key.map(|path| (KEY, path)));
        refused(&mut scheduler, 2, parts);
    }
    let mut health = program!["health", "127.0.0.1:1"];
    refused(health.env(CA, &empty), 2, &[CA, "empty.pem", "expected a file with certificates"]);
}
