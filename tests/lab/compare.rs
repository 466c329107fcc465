//! `resemblance compare` against plain computation, and as a user calls it.

use resemblance::error::Result;
use resemblance::lab::compare::{ComparedMethod, Comparison, compare};

use crate::support::*;

fn compared(job: &Job, documents: &[usize], repeat: usize) -> Result<Comparison> {
    compared_under(job, documents, repeat, &RunControl::detached())
}

fn compared_under(job: &Job, documents: &[usize], repeat: usize, control: &RunControl) -> Result<Comparison> {
    block_on(async {
        let session = session::session(&job.engine)?;
        compare(&session, job, documents, repeat, control).await
    })
}

/// Job arguments of a small job over Parquet, with `name` as its name.
fn job_file(folder: &Path, documents: &[Document], name: &str) -> PathBuf {
    write_parquet(&folder.join("in.parquet"), documents, 64);
    let path = folder.join("job.toml");
    let text = format!("name = {name:?}\n{}", job_text(folder.join("in.parquet"), folder.join("out")));
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn every_way_finds_the_expected_pairs() {
    let path = paths();
    let documents = corpus(11, 150, 30);
    write_parquet(&path("in.parquet"), &documents, 64);
    for by in ["shingles", "signature"] {
        let job_of = |out: &str, sets: &[&str]| {
            let by = format!("score.by={by}");
            job(&path("in.parquet"), &path(out), &[&[by.as_str()], sets].concat())
        };
        let found = compared(&job_of("unused", &[]), &[150, 40], 2).unwrap();
        assert_eq!(found.samples.iter().map(|s| s.documents).collect::<Vec<_>>(), [40, 150]);
        for sample in &found.samples {
            let exact = exact_pairs(&documents[..sample.documents], 3, 0.5).len() as u64;
            assert!(exact > 10, "a corpus that shows something");
            let [first, second, third] = &sample.methods[..] else { panic!("{:?}", sample.methods) };
            assert_eq!((first.method, first.pairs), (ComparedMethod::Exact, exact));
            assert_eq!((first.recall, first.precision), (Some(1.0), Some(1.0)));
            assert_eq!(second.method, ComparedMethod::Signatures);
            assert_eq!(third.method, ComparedMethod::Lsh);
            assert!(third.candidates.unwrap() >= third.pairs);
            if by == "shingles" {
                assert_eq!(third.precision, Some(1.0), "what LSH finds is verified");
                assert_eq!(third.recall, Some(third.pairs as f64 / exact as f64));
            }
        }
        // The whole corpus, by the main job: other code finds the same pairs.
        let exact: BTreeSet<_> = exact_pairs(&documents, 3, 0.5).into_keys().collect();
        let whole = &found.samples[1];
        for (method, sets) in [(1, &["candidates.method=all", "score.by=signature"][..]), (2, &[])] {
            let out = format!("out-{by}-{method}");
            run(&job_of(&out, sets)).unwrap();
            let found: BTreeSet<_> = pairs(&path(&out)).into_keys().collect();
            let right = found.intersection(&exact).count() as f64;
            assert_eq!(whole.methods[method].pairs, found.len() as u64);
            assert_eq!(whole.methods[method].recall, Some(right / exact.len() as f64));
            assert_eq!(whole.methods[method].precision, Some(right / found.len() as f64));
        }
    }
}

const SHOPS: [&str; 3] = ["north", "south", "east"];

fn write_grouped(path: &Path, documents: &[Document]) {
    let shops = (0..documents.len()).map(|row| SHOPS[row % 3]);
    let shops = Arc::new(StringArray::from_iter_values(shops));
    write_columns(path, documents, vec![("shop", shops)], 30);
}

/// The number of pairs among the first `most` documents of each side, by comparing every two of them but two known ones.
fn counted(own: &[Document], known: &[Document], most: usize, compare: &str, with_new: bool) -> u64 {
    let of = |documents: &[Document], is_known: bool| -> Vec<_> {
        let first = documents.iter().take(most).enumerate();
        first.map(|(row, (_, text))| (shingles(text, 3), row % 3, is_known)).collect()
    };
    let all = [of(own, false), of(known, true)].concat();
    let mut count = 0;
    for (at, (a, of_a, a_known)) in all.iter().enumerate() {
        for (b, of_b, b_known) in &all[at + 1..] {
            let shared = a.intersection(b).count();
            let compared = match compare {
                "within" => of_a == of_b,
                "across" => of_a != of_b,
                _ => true,
            };
            let one_is_new = !(*a_known && *b_known) && (with_new || *a_known || *b_known);
            count += u64::from(compared && one_is_new && 2 * shared >= a.len() + b.len() - shared);
        }
    }
    count
}

#[test]
fn two_sets_and_groups_are_compared_as_a_run_compares_them() {
    let path = paths();
    let documents = corpus(19, 150, 25);
    let (own, known) = documents.split_at(90);
    // Linked sources have the same ids on both sides.
    let same_ids: Vec<Document> =
        known.iter().zip(own).map(|((_, text), (id, _))| (id.clone(), text.clone())).collect();
    write_grouped(&path("own.parquet"), own);
    write_grouped(&path("reference.parquet"), known);
    write_grouped(&path("same.parquet"), &same_ids);
    run(&job(&path("reference.parquet"), &path("reference"), &["source.group=shop", "minhash.bits=32"]))
        .unwrap();
    let second = second_source(path("same.parquet"), ", group = 'shop'");
    let output = format!("against.output={:?}", path("reference").display());
    let lsh = ["source.group=shop", "lsh.bands=128", "lsh.rows=1"];
    for (against, compare, pairs) in [
        (None, "within", "new-old+new-new"),
        (None, "across", "new-old+new-new"),
        (Some(&second), "all", "new-old+new-new"),
        (Some(&second), "within", "new-old"),
        (Some(&second), "across", "new-old+new-new"),
        (Some(&output), "all", "new-old"),
        (Some(&output), "across", "new-old+new-new"),
    ] {
        let (by_group, new) = (format!("candidates.compare={compare}"), format!("against.pairs={pairs}"));
        let mut sets = [&lsh[..], &[by_group.as_str()]].concat();
        if let Some(against) = against {
            sets.extend([against.as_str(), &new]);
        }
        let known = if against.is_some() { known } else { &[] };
        let of_job = job(&path("own.parquet"), &path("out"), &sets);
        let expected = |most| counted(own, known, most, compare, pairs != "new-old");
        let found = compared(&of_job, &[20, 100], 1).unwrap();
        for (sample, most) in found.samples.iter().zip([20, 90]) {
            let most = if against.is_some() && most > 20 { 100 } else { most };
            let [exact, signatures, lsh] = &sample.methods[..] else { panic!("{:?}", sample.methods) };
            assert_eq!(exact.pairs, expected(most), "{sets:?}");
            assert!(most == 20 || exact.pairs > 5, "{} {sets:?}", exact.pairs);
            assert_eq!((lsh.pairs, lsh.recall), (exact.pairs, exact.recall), "{sets:?}");
            assert!(signatures.pairs < 2 * exact.pairs.max(5), "{sets:?}");
        }
        assert_eq!(found.note.is_some_and(|note| note.contains("(60 at most)")), against.is_some());
        for method in ["candidates.method=all", "candidates.method=prefix", "candidates.method=lsh"] {
            let hot = "lsh.hot_bucket=3";
            let keep = if against == Some(&output) { "candidates.method=lsh" } else { method };
            let of_job = job(&path("own.parquet"), &path("out"), &[&sets[..], &[keep, hot]].concat());
            let found = crate::lab::sweep::swept(&of_job, &[0.5], &[3], &[20, 100]);
            for (run, most) in found.runs.iter().zip([20, 100]) {
                assert_eq!(run.found[0].pairs, expected(most), "{method} {sets:?}");
            }
        }
    }
}

#[test]
fn ids_that_are_known_are_an_error_or_left_out() {
    let path = paths();
    let documents = corpus(23, 80, 25);
    // The last ten of the known documents come again, with other texts.
    let (known, mut own) = (documents[..50].to_vec(), documents[50..].to_vec());
    own.extend((40..50).map(|row| (documents[row].0.clone(), documents[row - 30].1.clone())));
    write_parquet(&path("own.parquet"), &own, 30);
    write_parquet(&path("reference.parquet"), &known, 30);
    run(&job(&path("reference.parquet"), &path("reference"), &["minhash.bits=32"])).unwrap();
    let output = format!("against.output={:?}", path("reference").display());
    let found = |same_id: &str| {
        let same_id = format!("against.same_id={same_id}");
        let sets = [output.as_str(), &same_id, "lsh.bands=128", "lsh.rows=1"];
        let of_job = job(&path("own.parquet"), &path("out"), &sets);
        let found = compared(&of_job, &[100], 1);
        found.map(|found| (found.samples[0].methods[0].pairs, found.samples[0].methods[2].pairs))
    };
    fails(found("error"), Kind::Input, &["`d00040`", "same_id"]);
    for (same_id, own, known) in [("replace", &own[..], &known[..40]), ("skip", &own[..30], &known[..])] {
        let expected = counted(own, known, 100, "all", true);
        assert!(expected > 5);
        assert_eq!(found(same_id).unwrap(), (expected, expected), "{same_id}");
    }
}

#[test]
fn a_sample_is_the_first_documents_that_can_be_compared() {
    let folder = tempdir().unwrap();
    let documents = corpus(12, 60, 20);
    // Two files; every third row is empty or too short, and the file that is read last is named first.
    let lines = |documents: &[Document], prefix: &str| {
        let rows = documents.iter().enumerate().flat_map(|(i, (id, text))| {
            let poor = ["", "two words"][i % 2];
            let more = (i % 3 == 0).then(|| json!({"id": format!("{prefix}{i}"), "text": poor}));
            more.into_iter().chain([json!({"id": id, "text": text})])
        });
        rows.map(|row| row.to_string()).collect::<Vec<_>>().join("\n")
    };
    std::fs::write(folder.path().join("b.jsonl"), lines(&documents[30..], "y")).unwrap();
    std::fs::write(folder.path().join("a.jsonl"), lines(&documents[..30], "x")).unwrap();
    let urls =
        format!("source.url=[{:?}, {:?}]", folder.path().join("b.jsonl"), folder.path().join("a.jsonl"));
    let job = job(folder.path(), &folder.path().join("out"), &["source.format=jsonl", &urls]);
    let found = compared(&job, &[10, 45, 100], 1).unwrap();
    let pairs: Vec<_> = found.samples.iter().map(|s| (s.documents, s.methods[0].pairs)).collect();
    let exact = |n: usize| (n, exact_pairs(&documents[..n], 3, 0.5).len() as u64);
    assert_eq!(pairs, [exact(10), exact(45), exact(60)]);
    let note = found.note.unwrap();
    assert!(note.contains("60 documents") && note.contains("100"), "{note}");
}

#[test]
fn duplicate_ids_are_an_error_or_rejects() {
    let path = paths();
    let mut documents = corpus(13, 30, 20);
    documents[5].0 = documents[3].0.clone();
    write_parquet(&path("in.parquet"), &documents, 64);
    let job_of = |sets: &[&str]| job(&path("in.parquet"), &path("out"), sets);
    fails(compared(&job_of(&[]), &[10], 1), Kind::Input, &["d00003"]);
    let found = compared(&job_of(&["source.duplicate_ids=reject"]), &[10], 1).unwrap();
    documents.remove(5);
    assert_eq!(found.samples[0].methods[0].pairs, exact_pairs(&documents[..10], 3, 0.5).len() as u64);
}

#[test]
fn a_comparison_can_be_stopped() {
    let path = paths();
    write_parquet(&path("in.parquet"), &corpus(14, 30, 20), 64);
    let control = RunControl::detached();
    control.stop.cancel();
    let job = job(&path("in.parquet"), &path("out"), &[]);
    assert_eq!(compared_under(&job, &[10], 1, &control).unwrap_err().kind(), Kind::Interrupted);
}

#[test]
fn the_command_prints_a_table_and_writes_pages_that_stand_alone() {
    let folder = tempdir().unwrap();
    let job = job_file(folder.path(), &corpus(15, 60, 20), "<script>\"a\" & b</script>");
    let plots = folder.path().join("new/plots");
    let call =
        |more: &[&str]| program!["compare", &job, "--documents", "20,60"].args(more).assert().success();
    let plots_argument = plots.display().to_string();
    let text = call(&["--repeat", "2", "--plots", &plots_argument]);
    text.shown(&[
        "| exact Jaccard of all pairs |",
        "the fastest is",
        "compare.svg, compare-search.svg, compare.html",
        "From texts to pairs:\n",
        "The search alone:\n",
    ]);
    let record = call(&["--json"]).json();
    assert_eq!(record["samples"][1]["documents"], 60);
    let first = &record["samples"][0]["methods"][0];
    assert_eq!((&first["method"], &first["recall"]), (&json!("exact"), &json!(1.0)));
    assert_eq!(record["whole"]["fastest"][0]["documents"], 20);
    assert_eq!(record["search"]["fastest"][0]["documents"], 20);
    stand_alone(&plots, &["compare.html", "compare.svg", "compare-search.svg"]);
    let page = std::fs::read_to_string(plots.join("compare.html")).unwrap();
    assert!(page.contains("&#60;script&#62;&#34;a&#34; &#38; b&#60;/script&#62;"), "{page}");
    for section in page.split("<section>") {
        let said = sentences(section);
        let twice: Vec<_> =
            said.iter().filter(|one| said.iter().filter(|other| other == one).count() > 1).collect();
        assert!(twice.is_empty(), "{twice:?}");
    }
    assert!(sentences(&page).iter().any(|sentence| sentence.contains("the fastest is")), "{page}");
    assert!(!folder.path().join("out").exists(), "nothing is written to the job's output");
}

/// The visible sentences of a part of a page: its paragraphs and captions.
fn sentences(part: &str) -> Vec<String> {
    let inside = |tag: &str| {
        let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
        let texts = part.split(open.as_str()).skip(1).filter_map(|rest| rest.split(close.as_str()).next());
        texts.flat_map(|text| text.split_inclusive(". ").map(|one| one.trim().to_owned())).collect::<Vec<_>>()
    };
    ["p", "figcaption"].iter().flat_map(|tag| inside(tag)).collect()
}

/// Files that refer to nothing outside, in either colour scheme.
pub fn stand_alone(folder: &Path, names: &[&str]) {
    for name in names {
        let text = std::fs::read_to_string(folder.join(name)).unwrap();
        let rest = text.replace("http://www.w3.org/2000/svg", "");
        for outside in ["http:", "https:", "url(", "@import", "<script", "<link", "<img", "src="] {
            assert!(!rest.contains(outside), "{outside} in {name}");
        }
        assert!(text.contains("prefers-color-scheme:dark"), "{name}");
    }
}

#[test]
fn pages_need_a_folder_and_a_comparison_needs_documents() {
    let folder = tempdir().unwrap();
    let job = job_file(folder.path(), &corpus(16, 10, 20), "small");
    std::fs::write(folder.path().join("file"), "").unwrap();
    let inside = folder.path().join("file/plots");
    program!["compare", &job, "--plots", &inside].assert().refused(3, &["--plots"]);
    let ran = program!["compare", &job, "--set", "shingle.size=100"].assert();
    ran.refused(3, &["no document that can be compared"]);
}
