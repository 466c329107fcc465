//! Results as CSV and workbooks: `sql`, `show` and `find` for programs and for Excel.

use super::kinds_of_files::{latin_1, marked_utf_16};
use crate::support::*;

/// Texts that a spreadsheet would take for formulas, and a text that is longer than a page.
fn output() -> (TempDir, PathBuf, Vec<Document>) {
    let folder = tempdir().unwrap();
    let long: String = (0..6_000).map(|at| format!("word{at} ")).collect();
    let documents: Vec<Document> = [
        ("a", "=one two three, four \"five\" six"),
        ("b", "=one two three, four \"five\" six"),
        ("c", long.trim_end()),
        ("d", long.trim_end()),
    ]
    .map(|(id, text)| (id.to_owned(), text.to_owned()))
    .to_vec();
    let (source, output) = (folder.path().join("in.parquet"), folder.path().join("out"));
    write_parquet(&source, &documents, 10);
    run(&job(&source, &output, &[])).unwrap();
    (folder, output, documents)
}

fn printed(arguments: &[&str], output: &Path) -> String {
    resemblance().arg(arguments[0]).arg(output).args(&arguments[1..]).assert().shown(&[])
}

#[test]
fn sql_prints_every_value_whole() {
    let (_folder, out, documents) = output();
    let query = "SELECT id_a, id_b, jaccard FROM pairs ORDER BY id_a";
    let rows = csv_records(&printed(&["sql", query, "--csv"], &out));
    assert_eq!(rows, [["id_a", "id_b", "jaccard"], ["a", "b", "1.0"], ["c", "d", "1.0"]]);
    let query = format!("SELECT '{}' AS text, -1 AS n, NULL AS nothing", documents[0].1.replace('\'', "''"));
    let rows = csv_records(&printed(&["sql", &query, "--csv"], &out));
    assert_eq!(rows, [["text", "n", "nothing"], [documents[0].1.as_str(), "-1", ""]]);
    let excel = printed(&["sql", &query, "--excel"], &out);
    let rows = csv_records(excel.strip_prefix('\u{feff}').unwrap());
    assert_eq!(rows[1], [format!("'{}", documents[0].1), "-1".into(), String::new()]);
    assert_eq!(printed(&["sql", "SELECT id_a FROM pairs WHERE false", "--csv"], &out), "id_a\n");
    resemblance().arg("sql").arg(&out).args(["SELECT 1", "--csv", "--json"]).assert().code(2);
}

#[test]
fn show_prints_pairs_and_clusters_with_their_texts() {
    let (_folder, out, documents) = output();
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
    let (_folder, out, _) = output();
    let cut = printed(&["show", "--id", "c"], &out);
    assert!(cut.contains("left out") && !cut.contains("word5999"), "{}", cut.len());
    let full = printed(&["show", "--id", "c", "--full"], &out);
    assert!(!full.contains("left out") && full.matches("word5999").count() == 2, "{}", full.len());
}

/// Names with letters that UTF-8 and windows-1252 encode differently; two rows are similar.
const GERMAN: &str = "Name;Text\nMüller;Straße und Brücke über den Fluß bei Köln\n\
                      Größe;Straße und Brücke über den Fluß bei Köln am Rhein\nanders;Nichts davon war je in diesem Haus zu sehen\n";

fn excel(folder: &Path, arguments: &[&str]) -> Vec<u8> {
    let ran = resemblance().current_dir(folder).args(arguments).arg("-q").assert().success();
    ran.get_output().stdout.clone()
}

#[test]
fn a_sheet_has_the_delimiter_and_encoding_of_the_input() {
    let folder = tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let find = |file: &str, format: &str| {
        excel(
            folder.path(),
            &["find", file, "--text", "Text", "--id", "Name", "-t", "0.5", "-k", "3", format],
        )
    };
    let header = "id_a;id_b;jaccard;containment_a;containment_b\r\n";
    let rows = "Größe;Müller;0,75;0,75;1,0\r\n";
    std::fs::write(path("ansi.csv"), latin_1(GERMAN)).unwrap();
    assert_eq!(find("ansi.csv", "--excel"), latin_1(&format!("{header}{rows}")));
    std::fs::write(path("utf8.csv"), GERMAN).unwrap();
    let found = String::from_utf8(find("utf8.csv", "--excel")).unwrap();
    assert_eq!(found, format!("\u{feff}{header}{rows}"));
    std::fs::write(path("wide.csv"), marked_utf_16(&GERMAN.replace(';', "\t"))).unwrap();
    let tabs = format!("{header}{}", rows.replace(',', ".")).replace(';', "\t");
    assert_eq!(find("wide.csv", "--excel"), marked_utf_16(&tabs));
    // Rows of JSON have neither; programs get the same as ever.
    let line = |line: &str| {
        let (name, text) = line.split_once(';').unwrap();
        format!("{}\n", json!({ "Name": name, "Text": text }))
    };
    std::fs::write(path("lines.jsonl"), GERMAN.lines().skip(1).map(line).collect::<String>()).unwrap();
    let commas = format!("{header}{}", rows.replace(',', ".")).replace(';', ",");
    let found = String::from_utf8(find("lines.jsonl", "--excel")).unwrap();
    assert_eq!(found, format!("\u{feff}{commas}"));
    let csv = String::from_utf8(find("ansi.csv", "--csv")).unwrap();
    assert_eq!(csv, commas.replace("\r\n", "\n"));
}

/// `show` and `sql` know the source of their output; a character that its encoding lacks makes the sheet UTF-8.
#[test]
fn sheets_of_an_output_follow_its_source() {
    let folder = tempdir().unwrap();
    std::fs::write(folder.path().join("ansi.csv"), latin_1(GERMAN)).unwrap();
    let text = "source = { format = 'csv', url = 'ansi.csv', id = 'Name', text = 'Text', delimiter = ';', encoding = \
                'windows-1252' }\nshingle.size = 3\nscore.threshold = 0.5\noutput.url = 'out'";
    std::fs::write(folder.path().join("job.toml"), text).unwrap();
    excel(folder.path(), &["run", "job.toml"]);
    excel(folder.path(), &["apply", "out", "--to", "clean"]);
    for output in ["out", "clean"] {
        let shown = excel(folder.path(), &["show", output, "--excel"]);
        let has = |part: &str| shown.windows(part.chars().count()).any(|bytes| bytes == latin_1(part));
        assert!(has("Größe;Müller;0,7"), "{output}: {}", String::from_utf8_lossy(&shown));
        assert!(has(";Straße und"), "{output}: {}", String::from_utf8_lossy(&shown));
        let asked = excel(folder.path(), &["sql", output, "SELECT 'Ü' AS a, 1.5 AS b", "--excel"]);
        assert_eq!(asked, latin_1("a;b\r\nÜ;1,5\r\n"), "{output}");
        let asked = excel(folder.path(), &["sql", output, "SELECT 'Ü→' AS a, 2 AS b", "--excel"]);
        assert_eq!(String::from_utf8(asked).unwrap(), "\u{feff}a;b\r\nÜ→;2\r\n", "{output}");
    }
}

#[test]
fn a_sheet_is_a_new_file() {
    let (folder, out, _) = output();
    let sheet = folder.path().join("rows.csv");
    let written = printed(&["sql", "SELECT 1 AS n", &format!("--excel={}", sheet.display())], &out);
    assert!(written.starts_with("1 row in ") && written.contains("rows.csv"), "{written}");
    assert_eq!(std::fs::read(&sheet).unwrap(), b"\xef\xbb\xbfn\r\n1\r\n");
    // An existing file, another ending, and a missing folder are refused, and nothing is changed.
    for name in ["rows.csv", "rows.xls", "missing/rows.csv"] {
        let path = format!("--excel={}", folder.path().join(name).display());
        resemblance().arg("sql").arg(&out).args(["SELECT 2 AS n", &path]).assert().code(2);
    }
    assert_eq!(std::fs::read(&sheet).unwrap(), b"\xef\xbb\xbfn\r\n1\r\n");
}

#[cfg(feature = "xlsx")]
fn part_of_workbook(path: &Path, part: &str) -> String {
    let script =
        "import sys, zipfile; sys.stdout.write(zipfile.ZipFile(sys.argv[1]).read(sys.argv[2]).decode())";
    Command::new("python3").args(["-c", script]).arg(path).arg(part).output().unwrap().shown(&[])
}

#[cfg(feature = "xlsx")]
#[test]
fn a_workbook_has_texts_and_numbers() {
    let (folder, out, _) = output();
    let file = folder.path().join("rows.XLSX");
    let query = "SELECT '=1+1' AS text, 0.5 AS share, 7 AS n, 12345678901234567 AS id, NULL AS nothing, \
                 repeat('é', 40000) AS long UNION ALL SELECT '007', -1, 0, 1, NULL, ''";
    let written = printed(&["sql", query, &format!("--excel={}", file.display())], &out);
    assert!(written.starts_with("2 rows in ") && written.contains("rows.XLSX"), "{written}");
    let [sheet, strings] =
        ["xl/worksheets/sheet1.xml", "xl/sharedStrings.xml"].map(|part| part_of_workbook(&file, part));
    let texts: Vec<&str> =
        strings.split("<t>").skip(1).map(|rest| rest.split("</t>").next().unwrap()).collect();
    assert!(!sheet.contains("<f>") && texts.contains(&"=1+1") && texts.contains(&"007"), "{sheet} {strings}");
    assert!(texts.contains(&"12345678901234567"), "{strings}");
    assert!(sheet.contains("<v>0.5</v>") && sheet.contains("<v>-1</v>"), "{sheet}");
    let long = texts.iter().find(|text| text.starts_with('é')).unwrap();
    assert!(long.ends_with('…') && long.chars().count() == 32_767);
    let path = format!("--excel={}", file.display());
    resemblance().arg("sql").arg(&out).args(["SELECT 1", &path]).assert().code(2);
}
