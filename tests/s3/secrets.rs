//! Credentials are in no log, no error and no file, wherever they were put.

use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::IntoResponse;

use super::*;
use crate::support::s3::SECRET_KEY;

const TOKEN: &str = "hush-session-token-0123456789";

fn assert_silent(what: &str, text: &str) {
    for secret in [SECRET_KEY, TOKEN, "hush"] {
        assert!(!text.contains(secret), "{what} holds a secret: {text}");
    }
}

#[test]
fn no_log_and_no_file_holds_a_secret() {
    let corpus = Corpus::new(80, 30);
    let s3 = &corpus.s3;
    let output = format!("output.url={:?}", s3.url("out"));
    let variables = changed(s3, &[("AWS_SESSION_TOKEN", TOKEN)]);
    for (level, faults) in [("", 0), ("trace", 0), ("debug", 2)] {
        s3.faults.add("GET /data/in/", faults, Fault::Unavailable);
        s3.faults.add("GET /data/in/", faults, Fault::Cut(10));
        let mut command = resemblance();
        command.env_clear().envs(environment(&variables)).timeout(DEADLINE);
        if !level.is_empty() {
            command.env("RESEMBLANCE_LOG", level);
        }
        let ended = command
            .args(["run", corpus.job.to_str().unwrap(), "--set", &output, "--json", "-vv", "--overwrite"])
            .output()
            .unwrap();
        assert_silent("the log", &ended.warned(&["WriteExec"]));
        assert_silent("the record", &stdout(&ended));
    }
    for key in s3.keys("out/").keys() {
        assert_silent(key, &String::from_utf8_lossy(&std::fs::read(s3.file(key)).unwrap()));
    }
}

/// Some servers repeat the request in their refusal, its token included.
#[test]
fn an_answer_that_repeats_the_request_is_not_passed_on() {
    let corpus = Corpus::new(20, 30);
    let answer = format!(
        "<Error><Code>SignatureDoesNotMatch</Code><Message>The signature does not match.</Message>\
         <CanonicalRequest>x-amz-security-token:{TOKEN}</CanonicalRequest></Error>"
    );
    for part in ["list-type=2", "GET /data/in/", "PUT /data/out/"] {
        corpus.s3.faults.add(part, usize::MAX, Fault::Answer(403, answer.clone()));
        let ended = run_to(&corpus.s3.env(), &corpus.job, &corpus.s3.url("out"), &["-vv"]);
        corpus.s3.faults.clear();
        let said = ended.refused(3, &["correct AWS_SECRET_ACCESS_KEY"]);
        assert_silent("the error", &said);
    }
}

/// The message of a refusal is shown, and the secrets in it are not.
#[test]
fn a_message_that_repeats_credentials_is_masked() {
    let corpus = Corpus::new(20, 30);
    let variables = changed(&corpus.s3, &[("AWS_SESSION_TOKEN", TOKEN)]);
    // The second one is longer than what is shown of a message.
    for padding in [0, 280] {
        let message = format!("{} denied for {TOKEN} and {SECRET_KEY}", ".".repeat(padding));
        let answer = format!("<Error><Code>AccessDenied</Code><Message>{message}</Message></Error>");
        corpus.s3.faults.add("list-type=2", usize::MAX, Fault::Answer(403, answer));
        let said = run_to(&variables, &corpus.job, &corpus.s3.url("out"), &["-vv"]).refused(3, &[]);
        corpus.s3.faults.clear();
        assert!(said.contains("denied for"), "{said}");
        assert_silent("the error", &said);
    }
}

#[test]
fn a_redirect_takes_no_token_to_another_host() {
    let corpus = Corpus::new(20, 30);
    let elsewhere = Server::start(StatusCode::OK);
    for status in [StatusCode::MOVED_PERMANENTLY, StatusCode::TEMPORARY_REDIRECT] {
        let to = format!("http://{}/", elsewhere.address);
        let redirecting = Server::answering(move |_| (status, [(LOCATION, to.clone())]).into_response());
        let endpoint = format!("http://{}", redirecting.address);
        let changes = [("AWS_ENDPOINT", endpoint.as_str()), ("AWS_SESSION_TOKEN", TOKEN)];
        let said =
            run_to(&changed(&corpus.s3, &changes), &corpus.job, &corpus.s3.url("out"), &[]).refused(3, &[]);
        assert!(said.contains("redirects") && !redirecting.asked().is_empty(), "{said}");
    }
    assert!(elsewhere.asked().is_empty());
}
