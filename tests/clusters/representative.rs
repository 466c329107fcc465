//! `clusters.keep`: which document represents its cluster. Random cases are in `brute_force`.

use arrow::array::{Float64Array, Int32Array};

use crate::support::*;

/// Numbers and texts have no common order: a known output whose column is of the other kind is refused, and one of other numbers is
/// not. Whether a value is listed is asked of either.
#[test]
fn documents_are_ordered_by_columns_of_one_kind() {
    let path = paths();
    let write = |name: &str, ids: [&str; 2], years: ArrayRef| {
        let documents = ids.map(|id| (id.to_owned(), SAME.to_owned()));
        write_columns(&path(name), &documents, vec![("year", years)], 30);
    };
    write("texts.parquet", ["a", "b"], Arc::new(StringArray::from(vec!["9", "10"])));
    write("small.parquet", ["a", "b"], Arc::new(Int32Array::from(vec![9, 10])));
    write("own.parquet", ["c", "d"], Arc::new(Int64Array::from(vec![100, 8])));
    let of = |source: &str, keep: &str, more: &[&str]| {
        let keep = format!("clusters.keep=['{keep}', 'reference']");
        let output = path(&format!("{source}-{}-{}", more.len(), keep.len()));
        (job(&path(source), &output, &[&["source.columns=['year']", &keep], more].concat()), output)
    };
    let known = |source: &str| {
        let (job, output) = of(source, "id", &[]);
        run(&job).unwrap();
        format!("against.output={:?}", output.display().to_string())
    };
    let (texts, small) = (known("texts.parquet"), known("small.parquet"));
    let said = ["`year`", "Int64", "texts.parquet-0"];
    fails(run(&of("own.parquet", "year desc", &[&texts]).0), Kind::Job, &said);
    assert!(!of("own.parquet", "year desc", &[&texts]).1.exists());
    for (keep, known, expected) in
        [("year desc", &small, "c"), ("year", &small, "d"), ("year in (10, 8)", &texts, "b")]
    {
        let (job, output) = of("own.parquet", keep, &[known]);
        run(&job).unwrap();
        assert_eq!(kept(&output), [expected], "{keep}");
    }
}

/// A second source carries nothing, so of its documents what is known of all decides.
#[test]
fn the_first_wanted_document_of_a_second_source_represents_a_cluster() {
    let path = paths();
    let longer = format!("{SAME} eleven");
    let write = |name: &str, ids: [&str; 2], texts: [&str; 2], years: [i64; 2]| {
        let documents = [0, 1].map(|at| (ids[at].to_owned(), texts[at].to_owned()));
        let years = Arc::new(Int64Array::from(years.to_vec()));
        write_columns(&path(name), &documents, vec![("year", years)], 40);
    };
    write("own.parquet", ["a", "b"], [SAME, SAME], [2005, 1999]);
    write("reference.parquet", ["y", "x"], [SAME, &longer], [7, 8]);
    let source = second_source(path("reference.parquet"), "");
    for (keep, expected) in [
        ("['year']", "x"),
        ("['length desc']", "x"),
        ("['length']", "y"),
        ("['reference', 'year']", "x"),
        ("['year', 'reference']", "b"),
        ("['length', 'id', 'reference']", "a"),
    ] {
        let output = path(keep);
        let keep = format!("clusters.keep={keep}");
        run(&job(&path("own.parquet"), &output, &["source.columns=['year']", &keep, &source])).unwrap();
        assert_eq!(kept(&output), [expected], "{keep}");
    }
}

const SAME: &str = "one two three four five six seven eight nine ten";

fn kept(output: &Path) -> Vec<String> {
    let clusters = table(output, "clusters");
    let ids = strings(&clusters, "id").into_iter().zip(bools(&clusters, "representative"));
    ids.filter_map(|(id, is)| is.then_some(id)).collect()
}

/// Copies of one text with the ids a, b, and so on, and these values of the column `name`, as JSON writes them.
fn copies_in(format: &str, folder: &Path, name: &str, values: &[&str]) {
    let folder = folder.join("in");
    std::fs::create_dir_all(&folder).unwrap();
    let ids = ('a'..='z').zip(values);
    let plain = |value: &str| value.trim_matches('"').to_owned();
    match format {
        "jsonl" => {
            let line = |(id, value)| format!("{{\"id\":\"{id}\",\"text\":\"{SAME}\",\"{name}\":{value}}}\n");
            std::fs::write(folder.join("in.jsonl"), ids.map(line).collect::<String>()).unwrap();
        }
        "csv" => {
            let line = |(id, value): (char, &&str)| format!("{id},{SAME},{}\n", plain(value));
            let rows: String = ids.map(line).collect();
            std::fs::write(folder.join("in.csv"), format!("id,text,{name}\n{rows}")).unwrap();
        }
        _ => ids.for_each(|(id, value)| {
            let folder = folder.join(format!("{name}={}", plain(value)));
            std::fs::create_dir_all(&folder).unwrap();
            write_parquet(&folder.join(format!("{id}.parquet")), &[(id.to_string(), SAME.to_owned())], 9);
        }),
    }
}

fn over_copies(format: &str, folder: &Path, sets: &[&str]) -> Job {
    let text = job_text_of(format, folder.join("in"), folder.join("out"));
    std::fs::write(folder.join("job.toml"), &text).unwrap();
    resolve(&text, sets).unwrap()
}

/// Runs a job over copies with these values of the column `n`, which the documents carry.
fn run_over(format: &str, values: &[&str], keep: &str) -> (TempDir, resemblance::error::Result<Outcome>) {
    let folder = tempdir().unwrap();
    copies_in(format, folder.path(), "n", values);
    let keep = format!("clusters.keep=['{keep}']");
    let ran = run(&over_copies(format, folder.path(), &["source.columns=['n']", &keep]));
    (folder, ran)
}

#[test]
fn numbers_are_ordered_as_numbers_in_every_format() {
    for format in ["jsonl", "csv", "parquet"] {
        for (values, keep, expected) in [
            (&["9", "10", "100"][..], "n desc", "c"),
            (&["9", "10", "100"], "n", "a"),
            (&["1e-05", "0.95", "-3"], "n desc", "b"),
            (&["9007199254740993", "9007199254740992"], "n", "b"),
            (&["2", "1.0", "3"], "n in (1, 2)", "b"),
            (&["\"v9\"", "\"v10\""], "n", "b"),
            (&["null", "5"], "n", "b"),
        ] {
            if format != "jsonl" && values.contains(&"null") {
                continue;
            }
            let (folder, ran) = run_over(format, values, keep);
            ran.unwrap();
            assert_eq!(kept(&folder.path().join("out")), [expected], "{format} {values:?} {keep}");
        }
    }
}

#[test]
fn numbers_and_texts_have_no_common_order() {
    for (format, values) in [("jsonl", ["9", "\"n/a\""]), ("csv", ["9", "n/a"]), ("parquet", ["9", "none"])] {
        let text = format!("{:?}", values[1].trim_matches('"'));
        fails(run_over(format, &values, "n desc").1, Kind::Input, &["`n`", "9 and", &text]);
        assert!(run_over(format, &values, "n in (n/a)").1.is_ok(), "{format}");
    }
}

#[test]
fn dates_and_numbers_whose_order_as_texts_is_wrong_are_refused() {
    for (values, is_refused) in [
        (["17.04.2026", "02.05.2026"], true),
        (["", "4/17/2026 9:30"], true),
        (["17 Apr 2026", "2 Mai 2026"], true),
        (["2026-4-17", "2026-10-01"], true),
        (["1.234,50", "n/a"], true),
        (["$9.50", "$10"], true),
        (["2026-04-17", "2026-04-17T09:30:00Z"], false),
        (["1.2.3", "may 5 people"], false),
    ] {
        let quoted = values.map(|value| format!("{value:?}"));
        let (_folder, ran) = run_over("jsonl", &quoted.each_ref().map(String::as_str), "n desc");
        let said = ran.err().map(|error| error.to_string()).unwrap_or_default();
        assert_eq!(said.contains("`n`") && said.contains("2026-04-17"), is_refused, "{values:?}: {said}");
    }
}

/// A day whose numbers are texts does not go with a day of numbers, whatever each day has alone.
#[test]
fn numbers_of_one_day_and_texts_of_another_have_no_common_order() {
    let path = paths();
    for (day, value) in [("1", "9"), ("2", "\"n/a\"")] {
        copies_in("jsonl", &path(day), "n", &[value, value]);
    }
    let line = format!("{{\"id\":\"z\",\"text\":\"{SAME}\",\"n\":\"n/a\"}}\n");
    std::fs::write(path("2/in/in.jsonl"), line).unwrap();
    let of = |day: &str, more: &[&str]| {
        let sets = [&["source.columns=['n']", "clusters.keep=['n desc']"], more].concat();
        over_copies("jsonl", &path(day), &sets)
    };
    run(&of("1", &[])).unwrap();
    let against = format!("against.output={:?}", path("1/out"));
    let error = run(&of("2", &[&against])).unwrap_err();
    assert!(error.to_string().contains("numbers and texts, such as 9 and \"n/a\""), "{error}");
}

#[test]
fn not_a_number_comes_last_in_both_directions() {
    for (values, least, most) in [
        (vec![f64::NAN, -f64::NAN, 1.0, 2.0], "c", "d"),
        // Footers do not count NaN, so that 1 is the least and the greatest value there.
        (vec![f64::NAN, 1.0], "b", "b"),
        (vec![-f64::NAN, 1.0], "b", "b"),
    ] {
        let path = paths();
        let input = path("in.parquet");
        let documents = ["a", "b", "c", "d"].map(|id| (id.to_owned(), SAME.to_owned()));
        let count = values.len();
        let values = Arc::new(Float64Array::from(values));
        write_columns(&input, &documents[..count], vec![("n", values)], 9);
        for (keep, expected) in [("n", least), ("n desc", most)] {
            let output = path(keep);
            let keep = format!("clusters.keep=['{keep}']");
            run(&job(&input, &output, &["source.columns=['n']", &keep])).unwrap();
            assert_eq!(kept(&output), [expected], "{keep}");
        }
    }
}

/// Names that the program gives to values of all documents, too: a column of the data has its name for itself.
#[test]
fn a_column_of_the_data_may_have_any_name() {
    for name in ["source", "length", "group", "position", "doc", "shingles", "signature", "id_", "reference"]
    {
        let folder = tempdir().unwrap();
        copies_in("jsonl", folder.path(), name, &["5", "50", "7"]);
        let columns = format!("source.columns=['{name}']");
        let keep = format!("clusters.keep=['{name} desc']");
        run(&over_copies("jsonl", folder.path(), &[&columns, &keep])).unwrap();
        assert_eq!(kept(&folder.path().join("out")), ["b"], "{name}");
        let keep = format!("clusters.keep=['{name} in (7)']");
        let (group, across) = (format!("source.group='{name}'"), "candidates.compare=across");
        std::fs::remove_dir_all(folder.path().join("out")).unwrap();
        run(&over_copies("jsonl", folder.path(), &[&group, across, &keep])).unwrap();
        assert_eq!(kept(&folder.path().join("out")), ["c"], "{name}");
        let groups: BTreeSet<String> =
            strings(&table(&folder.path().join("out"), "pairs"), "group_a").into_iter().collect();
        assert!(groups.contains("50"), "{name}: {groups:?}");
    }
    let error = refusal(&["source.columns=['source', 'source_']"]);
    assert!(error.contains("which are both `source_` in the table documents"), "{error}");
}

#[test]
fn a_name_without_brackets_is_the_column_of_that_name_if_there_is_one() {
    for (name, values) in [("source", ["\"web\"", "\"books\""]), ("length", ["5", "50"])] {
        let list = if name == "source" { "books" } else { "50" };
        for (keep, has, expected) in [
            (format!("{name} in ({list})"), true, "b"),
            (format!("{name}() in ({list})"), true, "a"),
            (format!("{name}()"), true, "a"),
            (format!("{name} desc"), false, "a"),
        ] {
            let folder = tempdir().unwrap();
            copies_in("jsonl", folder.path(), if has { name } else { "other" }, &values);
            let keep = format!("clusters.keep=['{keep}']");
            run(&over_copies("jsonl", folder.path(), &[&keep])).unwrap();
            assert_eq!(kept(&folder.path().join("out")), [expected], "{keep} {has}");
        }
    }
}

#[test]
fn an_order_that_decides_nothing_is_reported() {
    let folder = tempdir().unwrap();
    copies_in("csv", folder.path(), "n", &["7", "7", "nan"]);
    over_copies("csv", folder.path(), &[]);
    for (keep, expected) in [
        (
            "n desc",
            &["`n` is NaN in 1 of the documents", "all documents with a `n` have the same one, 7"][..],
        ),
        ("n in (7, 8)", &["no document has the value `8` of `n`"]),
        ("length desc", &[]),
    ] {
        let keep = format!("clusters.keep=['{keep}']");
        let mut run = program!["run", "job.toml", "--overwrite", "--set", "source.columns=['n']"];
        let said = run.args(["--set", &keep]).current_dir(folder.path()).assert().warned(expected);
        assert_eq!(said.matches("clusters.keep:").count(), expected.len(), "{said}");
    }
}

#[test]
fn check_says_how_columns_are_read() {
    for (values, expected) in [
        (["9", "10"], "column n is read as numbers"),
        (["\"v9\"", "\"v10\""], "column n is read as texts"),
        (["9", "\"n/a\""], "column n is read as numbers and texts, which have no common order"),
    ] {
        let folder = tempdir().unwrap();
        copies_in("jsonl", folder.path(), "n", &values);
        over_copies("jsonl", folder.path(), &[]);
        let mut command = program!["check", "job.toml", "--set", "source.columns=['n']"];
        let said = command.current_dir(folder.path()).assert().shown(&[]);
        assert!(said.lines().any(|line| line == expected), "{said}");
    }
}
