//! `resemblance sweep` against plain computation, and as a user calls it.

use resemblance::lab::sweep::{Grid, Sweep, ThresholdMeasurement, sweep};

use crate::lab::compare::stand_alone;
use crate::support::*;

pub fn swept(job: &Job, thresholds: &[f64], sizes: &[usize], documents: &[usize]) -> Sweep {
    let grid = Grid {
        thresholds: thresholds.to_vec(),
        sizes: sizes.to_vec(),
        documents: documents.to_vec(),
        repeat: 2,
    };
    block_on(async {
        let session = session::session(&job.engine).unwrap();
        sweep(&session, job, &grid, &RunControl::detached()).await.unwrap()
    })
}

/// (size, documents, threshold) -> (documents with a match, pairs), by comparing all with all.
fn exact(documents: &[Document], size: usize, threshold: f64) -> (u64, u64) {
    let pairs = exact_pairs(documents, size, threshold);
    let matched: BTreeSet<&String> = pairs.keys().flat_map(|(a, b)| [a, b]).collect();
    (matched.len() as u64, pairs.len() as u64)
}

#[test]
fn every_setting_counts_like_a_comparison_of_all_pairs() {
    let path = paths();
    let source = path("in.parquet");
    let documents = corpus(21, 120, 30);
    write_parquet(&source, &documents, 64);
    let (thresholds, sizes, numbers) = ([0.3, 0.5, 0.7, 1.0], [1, 3, 5], [30, 120]);
    let all = job(&source, &path("out"), &["candidates.method=all"]);
    let found = swept(&all, &[0.7, 0.3, 1.0, 0.5, 0.3], &[5, 3, 1], &[120, 30]);
    let settings: Vec<_> = found.runs.iter().map(|run| (run.size, run.documents)).collect();
    let expected: Vec<_> = sizes.iter().flat_map(|size| numbers.map(|number| (*size, number))).collect();
    assert_eq!(settings, expected);
    for run in &found.runs {
        assert!(run.found.iter().all(|found| found.seconds.each.len() == 2));
        assert!(run.found.iter().map(|f| f.threshold).eq(thresholds));
        for found in &run.found {
            let expected = exact(&documents[..run.documents], run.size, found.threshold);
            let said = format!("{} {} {}", run.size, run.documents, found.threshold);
            assert_eq!((found.documents, found.pairs), expected, "{said}");
        }
    }

    // Other numbers for the same shingles, other signatures: the same pairs.
    let sets = [&["candidates.method=all"][..], &DICTIONARY[..3]].concat();
    let by_dictionary = swept(&job(&source, &path("out"), &sets), &thresholds, &sizes, &numbers);
    let counted = |found: &[ThresholdMeasurement]| {
        found.iter().map(|f| (f.threshold, f.documents, f.pairs)).collect::<Vec<_>>()
    };
    for (run, exact) in by_dictionary.runs.iter().zip(&found.runs) {
        assert_eq!(counted(&run.found), counted(&exact.found));
    }

    // By LSH some pairs are missed and none is added.
    let lsh = job(&source, &path("out"), &[]);
    let approximate = swept(&lsh, &thresholds, &sizes, &numbers);
    for (run, exact) in approximate.runs.iter().zip(&found.runs) {
        for (found, exact) in run.found.iter().zip(&exact.found) {
            assert!(found.pairs <= exact.pairs && found.documents <= exact.documents, "{found:?} {exact:?}");
            assert!(found.pairs as f64 >= exact.pairs as f64 * 0.9, "{found:?} {exact:?}");
        }
    }
}

#[test]
fn higher_thresholds_are_as_if_run_by_themselves() {
    let path = paths();
    let source = path("in.parquet");
    write_parquet(&source, &corpus(22, 100, 30), 64);
    for (by, prefilter) in [("signature", "false"), ("shingles", "true")] {
        let (by_set, prefilter) = (format!("score.by={by}"), format!("score.prefilter={prefilter}"));
        let job_of = |out: &str, more: &[&str]| {
            let sets = [&[by_set.as_str(), &prefilter, "candidates.method=all"][..], more].concat();
            job(&source, &path(out), &sets)
        };
        let found = swept(&job_of("unused", &[]), &[0.4, 0.6, 0.8], &[3], &[100]);
        for found in &found.runs[0].found {
            let threshold = format!("score.threshold={}", found.threshold);
            let ran = run(&job_of(&format!("{by}-{}", found.threshold), &[&threshold])).unwrap();
            let counts = ran.manifest.counts;
            assert_eq!((found.pairs, found.documents), (counts.pairs, counts.clustered_documents));
        }
    }
}

/// Each threshold has the bands that a run at it has, and so its pairs; as many searches as there are bands.
#[test]
fn each_threshold_has_the_pairs_of_a_run_with_it() {
    let path = paths();
    let source = path("in.parquet");
    write_parquet(&source, &corpus(23, 150, 20), 64);
    // Few permutations, so that bands that suit another threshold miss pairs, or find more of them.
    let few = ["minhash.permutations=16", "lsh.bucket_hash=crc32"];
    let rules: [&[&str]; 5] = [
        &["lsh.choose=nearest"],
        &["lsh.choose=recall"],
        &["lsh.choose=balanced"],
        &["lsh.target_recall=0.5"],
        &["lsh.bands=4", "lsh.rows=4"],
    ];
    let mut otherwise = 0;
    for (number, rule) in rules.into_iter().enumerate() {
        let job_of = |out: &str, more: &[&str]| {
            job(&source, &path(&format!("{number}-{out}")), &[&few[..], rule, more].concat())
        };
        let thresholds = [0.4, 0.5, 0.8, 0.9];
        let found = swept(&job_of("unused", &["score.threshold=0.6"]), &thresholds, &[2, 3], &[150]);
        assert_eq!(found.job.lsh, job_of("unused", &["score.threshold=0.4"]).lsh, "{rule:?}");
        for run_of_size in &found.runs {
            for found in &run_of_size.found {
                let (threshold, size) = (found.threshold, run_of_size.size);
                let sets = [format!("score.threshold={threshold}"), format!("shingle.size={size}")];
                let sets = sets.each_ref().map(String::as_str);
                let at = job_of(&format!("{size}-{threshold}"), &sets);
                assert_eq!((found.bands, found.rows), (at.lsh.bands, at.lsh.rows), "{rule:?} {sets:?}");
                let counts = run(&at).unwrap().manifest.counts;
                assert_eq!(found.pairs, counts.pairs, "{rule:?} {sets:?}");
                assert_eq!(found.documents, counts.clustered_documents, "{rule:?} {sets:?}");
            }
            let searches: BTreeSet<_> = run_of_size.found.iter().map(|f| (f.bands, f.rows)).collect();
            assert_eq!(searches.len() == 1, number == 4, "{rule:?}");
            let [low, .., high] = run_of_size.found.as_slice() else { panic!() };
            otherwise += usize::from(low.search_seconds != high.search_seconds);
        }
    }
    assert!(otherwise > 0, "no search of its own");
}

#[test]
fn lines_of_other_programs_are_drawn_beside_ours() {
    let path = paths();
    let file = path("other.csv");
    std::fs::write(&file, "name,documents,seconds\nsome library,20,0.5\nsome library,60,1.5\n").unwrap();
    let file = file.to_str().unwrap();
    let plots = path("plots");
    let job = repository("jobs/quickstart.toml");
    for (command, more) in [("sweep", &["--sizes", "3"][..]), ("compare", &[])] {
        let call = |arguments: &[&str]| {
            let mut call = program![command, &job, "--documents", "3,5"];
            call.current_dir(repository("")).args(more).args(arguments).assert()
        };
        call(&["--plots", plots.to_str().unwrap(), "--add-series", file]).success();
        let chart = if command == "sweep" { "sweep-seconds.svg" } else { "compare.svg" };
        for name in [format!("{command}.html"), chart.to_owned()] {
            let drawn = std::fs::read_to_string(plots.join(name)).unwrap();
            assert!(drawn.contains("some library") && drawn.contains("not measured here"), "{drawn}");
        }
        call(&["--add-series", file]).refused(2, &["--plots"]);
        let wrong = path("wrong.csv");
        std::fs::write(&wrong, "name,documents,seconds\na,0,1\n").unwrap();
        call(&["--plots", plots.to_str().unwrap(), "--add-series", wrong.to_str().unwrap()])
            .refused(2, &["wrong.csv line 2", "--add-series"]);
    }
}

#[test]
fn every_size_sees_the_same_documents() {
    let path = paths();
    let source = path("in.parquet");
    let mut documents = corpus(24, 40, 20);
    // Long enough for shingles of 3 words, and too short for shingles of 7 words.
    for (_, text) in documents.iter_mut().step_by(2) {
        *text = text.split_whitespace().take(5).collect::<Vec<_>>().join(" ");
    }
    write_parquet(&source, &documents, 64);
    let long: Vec<Document> = documents.iter().skip(1).step_by(2).cloned().collect();
    let job = job(&source, &path("out"), &["candidates.method=all"]);
    let found = swept(&job, &[0.3], &[3, 7], &[15, 30]);
    assert!(found.note.as_ref().unwrap().contains("20 documents"), "{:?}", found.note);
    for run in &found.runs {
        let counted = (run.found[0].documents, run.found[0].pairs);
        assert_eq!(counted, exact(&long[..run.documents], run.size, 0.3));
    }
}

#[test]
fn the_command_prints_a_table_and_writes_pages_that_stand_alone() {
    let path = paths();
    let input = path("a <b> & \"c\"");
    std::fs::create_dir(&input).unwrap();
    write_parquet(&input.join("in.parquet"), &corpus(25, 60, 20), 64);
    let job = path("job.toml");
    let text = format!(
        "[source]\nformat = \"parquet\"\nurl = {:?}\n{COLUMNS}[output]\nurl = {:?}\n",
        input.join("in.parquet"),
        path("out"),
    );
    std::fs::write(&job, text).unwrap();
    let plots = path("plots").display().to_string();
    let call = |more: &[&str]| {
        program!["sweep", &job, "--documents", "20,60", "--sizes", "2,3"].args(more).assert().success()
    };
    call(&["--plots", &plots]).shown(&["with a match", "Thresholds with the same bands"]);
    let record = call(&["--json", "--repeat", "1", "--thresholds", "0.5"]).json();
    assert_eq!(record["runs"].as_array().unwrap().len(), 4);
    let last = &record["runs"][3]["found"][0];
    assert_eq!((&last["threshold"], last["seconds"]["each"].as_array().unwrap().len()), (&json!(0.5), 1));
    let names = ["sweep.html", "sweep-seconds.svg", "sweep-documents.svg", "sweep-pairs.svg"];
    stand_alone(&path("plots"), &names);
    let page = std::fs::read_to_string(path("plots/sweep.html")).unwrap();
    assert!(page.contains("a &#60;b&#62; &#38; &#34;c&#34;") && !page.contains("<b>"), "{page}");
}

#[test]
fn wrong_arguments_say_what_is_allowed() {
    let job = repository("jobs/quickstart.toml");
    let number = "expected a whole number from 1 to";
    let share = "expected a number over 0 and at most 1";
    let cases = [
        ("sweep", "--thresholds", "0.5,1.01", share),
        ("sweep", "--thresholds", "nan", share),
        ("sweep", "--sizes", "3,x", number),
        ("sweep", "--documents", "0", number),
        ("sweep", "--repeat", "0", number),
        ("compare", "--documents", "10,0", number),
        ("compare", "--documents", "-5", number),
        ("compare", "--repeat", "0", number),
    ];
    for (command, flag, value, allowed) in cases {
        program![command, &job, format!("{flag}={value}")].assert().refused(2, &[flag, allowed]);
    }
}
