//! `dedup`: which of similar documents stays, where empty texts go, and what is printed before anything is removed.

use crate::support::*;

const TEXT: &str = "the quick brown fox jumps over the lazy dog near the river bank every single morning in spring, and \
    then it rests under a tall oak until the sun goes down behind the hills of the north";

/// Nine documents by themselves, and three similar ones: a text, a copy of it, and the text in HTML.
fn rows() -> Vec<Value> {
    let alone = |n: u64| json!({"n": n, "a,b": 1, "stars": 1, "meta": {"day": n}, "lang": "en", "body": format!("{n} {n}{n} a{n} b{n} c{n} d{n} e{n}")});
    let mut rows: Vec<Value> = (0..9).map(alone).collect();
    for (stars, day, body) in [(3, 21, TEXT), (5, 22, TEXT), (4, 20, &format!("<div><p>{TEXT}</p></div>"))] {
        rows.push(json!({"n": rows.len(), "a,b": 5 - stars, "stars": stars, "meta": {"day": day}, "lang": "en", "body": body}));
    }
    rows
}

fn written(name: &str, rows: &[Value]) -> TempDir {
    let folder = tempdir().unwrap();
    let lines: String = rows.iter().map(|row| format!("{row}\n")).collect();
    std::fs::write(folder.path().join(name), lines).unwrap();
    folder
}

fn call(folder: &Path, arguments: &[&str]) -> Assert {
    resemblance().current_dir(folder).args(arguments).assert()
}

fn numbers(file: &Path) -> BTreeSet<u64> {
    let text = std::fs::read_to_string(file).unwrap();
    text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["n"].as_u64().unwrap()).collect()
}

#[test]
fn the_rules_of_keep_decide_in_their_order_which_document_stays() {
    let folder = written("in.jsonl", &rows());
    for (rules, stays, words) in [
        ("longest", 11, "longest, if equal first"),
        ("first", 9, "first"),
        ("last", 11, "last"),
        ("stars desc", 10, "stars desc, if equal first"),
        ("meta.day", 11, "meta.day, if equal first"),
        ("meta.day desc", 10, "meta.day desc, if equal first"),
        ("stars in (2, 4), first", 11, "stars in (2, 4), if equal first"),
        ("lang,length", 9, "lang, if equal length, if equal first"),
        ("lang, length, last", 10, "lang, if equal length, if equal last"),
        ("\"a,b\" desc", 9, "\"a,b\" desc, if equal first"),
    ] {
        let options = ["dedup", "in.jsonl", "--text", "body", "-k", "5", "--unit", "word"];
        let shown = format!("10 kept; of similar ones: {words}\n");
        call(folder.path(), &[&options[..], &["--to", rules, "--keep", rules]].concat()).shown(&[&shown]);
        let expected: BTreeSet<u64> = (0..9).chain([stays]).collect();
        assert_eq!(numbers(&folder.path().join(rules).join("in.jsonl")), expected, "{rules}");
    }
    for (rules, fault) in
        [("stars,,first", "is empty"), ("newest day", "write \"day desc\""), ("star desc", "`star`")]
    {
        let arguments = ["dedup", "in.jsonl", "--text", "body", "--dry-run", "--keep", rules];
        call(folder.path(), &arguments).refused(2, &[fault]);
    }
}

#[test]
fn empty_texts_stay_or_go_where_rejects_says() {
    let mut all = rows();
    all.push(json!({"n": 12, "body": ""}));
    let folder = written("in.jsonl", &all);
    let kept: BTreeSet<u64> = (0..9).chain([11]).collect();
    for (rejects, words, stays) in [
        ("keep", "which stay", true),
        ("drop", "which are left out", false),
        ("separate", "which are in _resemblance/rejected/", false),
    ] {
        let to = folder.path().join(rejects);
        let arguments = ["dedup", "in.jsonl", "--text", "body", "--rejects", rejects, "--to", rejects];
        let shown = format!("1 not compared (1 empty_text), {words}\n");
        call(folder.path(), &arguments).shown(&[&shown]);
        let expected: BTreeSet<u64> = kept.iter().copied().chain(stays.then_some(12)).collect();
        assert_eq!(numbers(&to.join("in.jsonl")), expected, "{rejects}");
        let is_rejected = files(&to).keys().any(|file| file.to_string_lossy().contains("rejected/"));
        assert_eq!(is_rejected, rejects == "separate");
    }
}

#[test]
fn a_dry_run_shows_the_beginnings_of_texts_that_go_and_stay() {
    let long = format!("\u{1b}[31mred {TEXT} {TEXT} the end");
    let rows = [json!({"n": 0, "body": long}), json!({"n": 1, "body": format!("{long} of all")})];
    let folder = written("in.jsonl", &rows);
    let parts = "would be removed: in.jsonl:0|stays: in.jsonl:1|quick brown fox| ...|nothing was written";
    let printed = call(folder.path(), &["dedup", "in.jsonl", "--text", "body", "--dry-run"])
        .shown(&parts.split('|').collect::<Vec<_>>());
    assert!(!printed.contains('\u{1b}') && !printed.contains("of all"), "{printed}");
    let (_, texts) = printed.split_once("jaccard 0.9").unwrap();
    assert!(texts.lines().all(|line| line.chars().count() <= 100), "{printed}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// The end of the second text is not in the first, which stays because it is longer.
#[test]
fn summaries_say_that_text_is_lost_and_explain_a_shingle_before_they_count_them() {
    let rows = [
        json!({"n": 0, "body": format!("a b c d {TEXT}")}),
        json!({"n": 1, "body": format!("{TEXT} x y z")}),
    ];
    let folder = written("in.jsonl", &rows);
    let call = |arguments: &[&str]| call(folder.path(), arguments).shown(&[]);
    let lost = "1 of the 1 removed has text that is lost: more than 2 % of its shingles (5 words in a row)";
    let options = ["in.jsonl", "--text", "body", "--unit", "word", "-k", "5"];
    let dedup = call(&[&["dedup"][..], &options, &["--to", "clean", "--output", "out"]].concat());
    let apply = call(&["apply", "out", "--dry-run"]);
    for printed in [dedup, apply] {
        assert!(printed.find(lost).unwrap() < printed.find("3 shingles lost in all").unwrap(), "{printed}");
    }
    let job = "source = { format = 'jsonl', url = 'in.jsonl', text = 'body' }\noutput.url = 'o'\n";
    std::fs::write(folder.path().join("job.toml"), job).unwrap();
    let run = call(&["run", "job.toml", "--set", "shingle.unit=word", "--set", "shingle.size=5"]);
    let at = |part: &str| run.find(part).unwrap_or_else(|| panic!("{part}: {run}"));
    assert!(at("a shingle is 5 words in a row") < at("candidate: two documents that may be similar"));
    assert!(at("groups of similar ones") < at("1 of them has text that would be lost"));
    assert!(at("has text that would be lost") < at("3 shingles that would be lost"));
}
