//! Answers whose bodies are not as long as they should be, and refusals that say why.

use super::*;

#[test]
fn a_body_that_always_ends_early_or_late_ends_the_run() {
    let corpus = Corpus::new(60, 30);
    for (by, says) in [(-7, "ended 7 bytes early"), (-1_000_000, "bytes early"), (5, "more bytes came")] {
        corpus.s3.faults.add("GET /data/in/", usize::MAX, Fault::Resize(by));
        let impatient = changed(&corpus.s3, &[("RESEMBLANCE_RETRY_SECONDS", "1")]);
        let ended = run_to(&impatient, &corpus.job, &corpus.s3.url("out"), &[]);
        corpus.s3.faults.clear();
        let said = ended.refused(3, &["s3://data/in/in.parquet", says]);
        assert!(!said.contains("panicked"), "{said}");
    }
}

/// A file of another length than was listed is not the one that was listed, and a bit that changed on the way is found where the store
/// says what the bytes were: of files that are read whole.
#[test]
fn a_whole_object_of_another_length_or_with_another_bit_ends_the_run() {
    let s3 = S3::start();
    let folder = tempdir().unwrap();
    let impatient = changed(&s3, &[("RESEMBLANCE_RETRY_SECONDS", "1")]);
    for (i, format) in formats(&corpus(3, 60, 30)).iter().enumerate().filter(|(_, f)| f.name != "parquet") {
        let job = format.put_with_job(&s3, &format!("in{i}"), folder.path());
        let objects = format!("GET /data/in{i}/");
        for fault in [Fault::Resize(-7), Fault::Resize(5), Fault::Flip(60)] {
            s3.faults.add(&objects, usize::MAX, fault.clone());
            let ended = run_to(&impatient, &job, &s3.url(&format!("out{i}")), &[]);
            s3.faults.clear();
            let said = ended.refused(3, &[&s3.url(&format!("in{i}/"))]);
            // A stream that is compressed may be refused before its end.
            let is_whole = matches!(fault, Fault::Flip(_)) && !format.files[0].0.ends_with(".gz");
            assert!(!is_whole || said.contains("do not have the checksum"), "{}: {said}", format.files[0].0);
        }
        assert!(!s3.faults.requests(&objects).is_empty());
    }
}

#[test]
fn denied_access_to_a_parquet_file_is_reported() {
    let corpus = Corpus::new(60, 30);
    let object = "GET /data/in/";
    for (status, code, says) in [
        (403, "AccessDenied", "403 AccessDenied"),
        (404, "NoSuchKey", "404 NoSuchKey"),
        (501, "NotImplemented", "501 NotImplemented"),
    ] {
        let before = corpus.s3.faults.requests(object).len();
        let answer = format!("<Error><Code>{code}</Code></Error>");
        corpus.s3.faults.add(object, usize::MAX, Fault::Answer(status, answer));
        let said = corpus.run("out").refused(3, &["s3://data/in/in.parquet", says]);
        corpus.s3.faults.clear();
        assert!(!said.contains("no readable Parquet footer"), "{said}");
        // Another request gets the same answer.
        assert_eq!(corpus.s3.faults.requests(object).len(), before + 1, "{said}");
    }
}

#[test]
fn a_server_without_conditional_puts_is_asked_once() {
    let corpus = Corpus::new(60, 30);
    let put = "PUT /data/out/_work/copies.";
    let answer = "<Error><Code>NotImplemented</Code><Message>A header implies more.</Message></Error>";
    corpus.s3.faults.add(put, usize::MAX, Fault::Answer(501, answer.to_owned()));
    corpus.run("out").refused(3, &["501 NotImplemented", "use another one"]);
    assert_eq!(corpus.s3.faults.requests(put).len(), 1);
}
