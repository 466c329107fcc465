//! Results as CSV: `sql`, `show` and `find` for programs and for Excel.

use crate::support::*;

/// Texts that a spreadsheet would take for formulas, and a text that is longer than a page.
fn output(folder: &Path) -> (PathBuf, Vec<Document>) {
    let long: String = (0..6_000).map(|at| format!("word{at} ")).collect();
    let documents: Vec<Document> = [
        ("a", "=one two three, four \"five\" six"),
        ("b", "=one two three, four \"five\" six"),
        ("c", long.trim_end()),
        ("d", long.trim_end()),
    ]
    .map(|(id, text)| (id.to_owned(), text.to_owned()))
    .to_vec();
    let (source, output) = (folder.join("in.parquet"), folder.join("out"));
    write_parquet(&source, &documents, 10);
    run(&job(&source, &output, &[])).unwrap();
    (output, documents)
}

fn printed(arguments: &[&str], output: &Path) -> String {
    resemblance().arg(arguments[0]).arg(output).args(&arguments[1..]).assert().shown(&[])
}

#[test]
fn sql_prints_every_value_whole() {
    let folder = tempdir().unwrap();
    let (out, documents) = output(folder.path());
    let query = "SELECT id_a, id_b, jaccard, group_a FROM pairs ORDER BY id_a";
    let query = query.replace(", group_a", "");
    let rows = csv_records(&printed(&["sql", &query, "--csv"], &out));
    assert_eq!(rows, [["id_a", "id_b", "jaccard"], ["a", "b", "1.0"], ["c", "d", "1.0"]]);
    let literal = documents[0].1.replace('\'', "''");
    let query = format!("SELECT '{literal}' AS text, -1 AS n, NULL AS nothing");
    let rows = csv_records(&printed(&["sql", &query, "--csv"], &out));
    assert_eq!(rows, [["text", "n", "nothing"], [documents[0].1.as_str(), "-1", ""]]);
    let excel = printed(&["sql", &query, "--excel"], &out);
    let rows = csv_records(excel.strip_prefix('\u{feff}').unwrap());
    assert_eq!(rows[1], [format!("'{}", documents[0].1), "-1".into(), String::new()]);
    // An empty result has a header.
    assert_eq!(printed(&["sql", "SELECT id_a FROM pairs WHERE false", "--csv"], &out), "id_a\n");
    resemblance().arg("sql").arg(&out).args(["SELECT 1", "--csv", "--json"]).assert().code(2);
}

#[test]
fn show_prints_pairs_and_clusters_with_their_texts() {
    let folder = tempdir().unwrap();
    let (out, documents) = output(folder.path());
    let rows = csv_records(&printed(&["show", "--csv"], &out));
    let header = ["id_a", "id_b", "jaccard", "containment_a", "containment_b", "text_a", "text_b"];
    assert_eq!(rows[0], header);
    let expected = |a: usize, b: usize| {
        let numbers = ["1.0", "1.0", "1.0"].map(str::to_owned);
        let ids = [documents[a].0.clone(), documents[b].0.clone()];
        [&ids[..], &numbers, &[documents[a].1.clone(), documents[b].1.clone()]].concat()
    };
    assert_eq!(rows[1..], [expected(0, 1), expected(2, 3)]);
    let rows = csv_records(&printed(&["show", "--csv", "--cluster", "b"], &out));
    assert_eq!(rows[0], [&["cluster_id"], &header[..]].concat());
    assert_eq!(rows[1..], [[&["a".to_owned()], &expected(0, 1)[..]].concat()]);
    let excel = printed(&["show", "--excel"], &out);
    let rows = csv_records(excel.strip_prefix('\u{feff}').unwrap());
    assert_eq!(rows[1][5], format!("'{}", documents[0].1));
    assert!(rows[2][5].ends_with('…') && rows[2][5].chars().count() == 32_767);
}

#[test]
fn show_full_has_long_texts_whole() {
    let folder = tempdir().unwrap();
    let (out, _) = output(folder.path());
    let cut = printed(&["show", "--id", "c"], &out);
    assert!(cut.contains("left out") && !cut.contains("word5999"), "{}", cut.len());
    let full = printed(&["show", "--id", "c", "--full"], &out);
    assert!(!full.contains("left out") && full.matches("word5999").count() == 2, "{}", full.len());
}

#[test]
fn find_prints_its_pairs() {
    let folder = tempdir().unwrap();
    let (_, _) = output(folder.path());
    let rows = csv_records(&printed(&["find", "--csv", "-q"], &folder.path().join("in.parquet")));
    assert_eq!(rows[0], ["id_a", "id_b", "jaccard", "containment_a", "containment_b"]);
    assert_eq!(rows[1..].iter().map(|row| row[..2].join(" ")).collect::<Vec<_>>(), ["a b", "c d"]);
}
