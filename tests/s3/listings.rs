//! Listings that are not what they seem, and keys that are no paths.

use resemblance::error::Error;
use resemblance::source;

use super::*;

/// A page of objects, and what the page says about the objects after it.
fn page(keys: &[&str], truncated: bool, next: &str) -> String {
    let objects: String = keys
        .iter()
        .map(|key| {
            let size = if key.ends_with('/') { 0 } else { 1 };
            format!(
                "<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>\
                 <Size>{size}</Size></Contents>"
            )
        })
        .collect();
    let next = if next.is_empty() {
        String::new()
    } else {
        format!("<NextContinuationToken>{next}</NextContinuationToken>")
    };
    format!("<ListBucketResult><IsTruncated>{truncated}</IsTruncated>{objects}{next}</ListBucketResult>")
}

/// The names of what is listed under `s3://data/in`.
async fn listed(s3: &S3) -> Result<Vec<String>, Error> {
    let job = resolved("format = \"text\"\nurl = \"s3://data/in\"");
    let listed = source::list(&session_of(&s3.env()), &job.source).await?;
    Ok(listed.inputs().into_iter().map(|file| file.path).collect())
}

async fn refused(s3: &S3) -> String {
    let error = listed(s3).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Input);
    let text = with_causes(&error);
    assert!(text.contains("s3://data/in"), "{text}");
    text
}

fn with_causes(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

#[tokio::test]
async fn a_listing_that_cannot_be_whole_is_an_error() {
    let s3 = S3::start();
    let html = "<!DOCTYPE html><html><body>Please sign in</body></html>";
    for (second, says) in [
        (page(&["in/c"], true, ""), "more objects follow"),
        (html.to_owned(), "an HTML page"),
        (page(&["in/c"], true, "here"), "never end"),
        (page(&["in/c"], false, "")[..90].to_owned(), "cut off"),
        (String::new(), "something else"),
    ] {
        s3.faults.add("list-type=2", 1, Fault::Answer(200, page(&["in/a", "in/b"], true, "here")));
        s3.faults.add("continuation-token=here", usize::MAX, Fault::Answer(200, second.clone()));
        let before = s3.faults.requests("continuation-token").len();
        let text = refused(&s3).await;
        assert!(text.contains(says), "{text}");
        assert_eq!(s3.faults.requests("continuation-token").len(), before + 1, "{text}");
        s3.faults.clear();
    }
}

/// The pages say each other's tokens.
#[tokio::test]
async fn a_listing_that_goes_round_in_a_circle_is_an_error() {
    let s3 = S3::start();
    let asked = "continuation-token=one";
    s3.faults.add(asked, usize::MAX, Fault::Answer(200, page(&["in/c", "in/d"], true, "two")));
    s3.faults.add("list-type=2", usize::MAX, Fault::Answer(200, page(&["in/a", "in/b"], true, "one")));
    let text = refused(&s3).await;
    assert!(text.contains("never end"), "{text}");
    assert!(s3.faults.requests("continuation-token=two").len() < 10);
}

/// Such keys are left out with a warning, but a run that compares nothing does not end well.
#[tokio::test]
async fn a_listing_of_nothing_but_keys_that_no_path_can_name_is_an_error() {
    let s3 = S3::start();
    let keys = page(&["in/a&#7;", "in/b//c"], false, "");
    s3.faults.add("list-type=2", usize::MAX, Fault::Answer(200, keys));
    refused(&s3).await;
}

#[tokio::test]
async fn folder_markers_are_no_documents_and_odd_keys_are_passed_over() {
    let s3 = S3::start();
    let keys = "in/ in/sub/ in//a in/./b in/../c in/d&#x1; in/good in/sub/fine /in/e in/f\u{7f}";
    let keys: Vec<&str> = keys.split(' ').collect();
    s3.faults.add("list-type=2", 1, Fault::Answer(200, page(&keys, false, "")));
    assert_eq!(listed(&s3).await.unwrap(), ["s3://data/in/good", "s3://data/in/sub/fine"]);
    assert_eq!(s3.faults.left(), 0);
}

#[test]
fn keys_that_are_passed_over_are_named_and_block_neither_a_run_nor_clean() {
    let corpus = Corpus::new(60, 30);
    let s3 = &corpus.s3;
    let size = std::fs::metadata(s3.file("in/in.parquet")).unwrap().len();
    let odd = page(&["in//twice", "in/../up"], false, "");
    let input = format!(
        "<Contents><Key>in/in.parquet</Key><LastModified>2026-01-01T00:00:00Z</LastModified><Size>{size}</Size>\
         <ETag>{}</ETag></Contents></ListBucketResult>",
        s3.e_tag("in/in.parquet")
    );
    s3.faults.add("prefix=in", 1, Fault::Answer(200, odd.replace("</ListBucketResult>", &input)));
    corpus.run("out").warned(&["2 keys of s3://data", "in//twice"]);
    corpus.check("out");
    assert_eq!(s3.faults.left(), 0);
    s3.faults.add(
        "list-type=2",
        usize::MAX,
        Fault::Answer(200, page(&["out//odd", "out/pairs/../up"], false, "")),
    );
    command(&s3.env(), &["clean", "s3://data/out"]).shown(&[]);
    assert!(!s3.faults.requests("list-type=2").is_empty());
}

#[test]
fn earlier_days_in_a_bucket_are_found() {
    let corpus = Corpus::new(60, 30);
    corpus.run("similar/day=1").shown(&[]);
    // The name of the folder is mistyped.
    let until = format!("against.output={:?}", corpus.s3.url("similar/untill=1"));
    let sets = ["--set", &until, "--set", "against.first_day=true"];
    let refused = run_to(&corpus.s3.env(), &corpus.job, &corpus.s3.url("similar/day=2"), &sets);
    refused.refused(2, &["similar/day=1", "untill=1", "not the first day"]);
}
