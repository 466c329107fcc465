//! `show --html` and `find --html`: pages of pairs.

use super::find::find;
use crate::support::*;

/// Two essays: the second has a paragraph of the first twice, and two more of its paragraphs in another order.
fn essays() -> TempDir {
    let folder = tempdir().unwrap();
    let paragraph = |name: &str| (0..12).map(|n| format!("{name}{n}")).collect::<Vec<_>>().join(" ");
    let [one, two, three, own] = ["one", "two", "three", "own"].map(paragraph);
    let texts = [
        ("essay-1.txt", format!("{one}.\n\n    {two};\n\t{three}\n")),
        ("essay-2.md", format!("{three}.\r\n\r\n{own}\r\n{one}, {two} {one}")),
        ("note.txt", paragraph("note")),
    ];
    for (name, text) in texts {
        write_file(&folder, name, text);
    }
    folder
}

#[test]
fn a_page_says_what_is_in_what_and_numbers_moved_and_copied_passages() {
    let folder = essays();
    let outside = tempdir().unwrap();
    let page = outside.path().join("pairs.html").display().to_string();
    find(folder.path(), &["--html", &page]).shown(&["1 pair", "written to "]);
    let html = std::fs::read_to_string(&page).unwrap();
    // A paragraph of 12 words has 8 shingles, and 4 more are at each border: 32 in essay 1, and 48 different ones in essay 2. They share the
    // shingles of three paragraphs and of one border, which are 28.
    for (a, b, percent) in [("essay-1.txt", "essay-2.md", "88 %"), ("essay-2.md", "essay-1.txt", "58 %")] {
        let sentence = format!("{percent} of <bdi>{a}</bdi> is in <bdi>{b}</bdi>.");
        assert!(html.contains(&sentence), "{sentence} in {html}");
    }
    let marks = |side: &str| -> Vec<(String, String)> {
        let marks = side.split("<mark ").skip(1);
        let mark = |mark: &str| {
            let (head, text) = mark.split_once('>').unwrap();
            let number = head.split("data-number=\"").nth(1).unwrap().trim_end_matches('"');
            (number.to_owned(), text.split("</mark>").next().unwrap()[..5].to_owned())
        };
        marks.map(mark).collect()
    };
    let sides: Vec<&str> = html.split("<section").skip(1).collect();
    let of = |rows: &[(&str, &str)]| -> Vec<(String, String)> {
        rows.iter().map(|(number, text)| (number.to_string(), text.to_string())).collect()
    };
    assert_eq!(marks(sides[0]), of(&[("1", "one0 "), ("2", "three")]));
    assert_eq!(marks(sides[1]), of(&[("2", "three"), ("1", "one0 "), ("1", "one0 ")]));
    assert!(sides[0].contains("one11.\n\n    two0"), "{}", sides[0]);
    assert!(sides[0].contains(";\n\t<mark"), "{}", sides[0]);
    assert!(sides[1].contains(".\n\nown0"), "{}", sides[1]);
}

#[test]
fn a_page_of_a_folder_has_its_name_and_the_measure_of_the_pairs() {
    let folder = essays();
    write_file(&folder, "part.txt", (0..12).map(|n| format!("one{n} ")).collect::<String>());
    write_file(&folder, "other.pdf", "%PDF-1.7");
    let outside = tempdir().unwrap();
    let page = outside.path().join("pairs.html");
    let html = page.display().to_string();
    program!["find", folder.path(), "--contains", "0.5", "--html", &html].assert().success();
    let html = std::fs::read_to_string(&page).unwrap();
    let name = folder.path().file_name().unwrap().to_string_lossy();
    assert!(html.contains(&format!("<h1>Similar documents in <bdi>{name}</bdi></h1>")), "{html}");
    assert!(html.contains("<span class=\"faint\">contained share 1.000</span></li>"), "{html}");
    // The source of this output is a list of files, because the folder also holds a PDF.
    let [out, clean] = ["out", "clean"].map(|name| outside.path().join(name));
    program!["dedup", "-q", folder.path(), "--output", &out, "--to", &clean].assert().success();
    program!["show", &out, "--html", &page].assert().success();
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.contains(&format!("<title>Similar documents in {name}</title>")), "{html}");
}

#[test]
fn show_writes_the_same_page_and_says_how_many_pairs_it_has() {
    let path = paths();
    let documents = corpus(17, 60, 40);
    write_parquet(&path("in.parquet"), &documents, 7);
    run(&job(&path("in.parquet"), &path("out"), &["score.threshold=0.3"])).unwrap();
    let page = path("pairs.html");
    let show = |arguments: &[&str]| {
        let shown = program!["show", path("out")].args(arguments).arg("--html").arg(&page).assert();
        (shown.shown(&["written to "]), std::fs::read_to_string(&page).unwrap())
    };
    let all = pairs(&path("out")).len();
    let (said, html) = show(&[]);
    assert!(said.contains(&format!("{} more pairs are not shown; --top {all}", all - 3)), "{said}");
    assert_eq!(html.matches("<article").count(), 3);
    assert!(html.contains(&format!("3 of {all} pairs.")), "{html}");
    // The page of the command is replaced by the next.
    let (_, html) = show(&["--top", "5"]);
    assert_eq!((html.matches("<article").count(), html.matches("<li>").count()), (5, 5));
    let (_, html) = show(&["--cluster", &pairs(&path("out")).keys().next().unwrap().0]);
    assert!(html.contains("represented by"), "{html}");
    let lonely = documents.iter().find(|(id, _)| pairs(&path("out")).keys().all(|(a, b)| a != id && b != id));
    let (_, html) = show(&["--id", &lonely.unwrap().0]);
    assert!(html.contains("0 of 0 pairs.") && !html.contains("<article"), "{html}");
    for other in [&["--json"][..], &["--csv"], &["--excel"], &["--passage", "0"]] {
        let both = program!["show", path("out"), "--html", "other.html"].args(other).assert();
        both.refused(2, &["cannot be used with"]);
    }
}

#[test]
fn long_texts_are_cut_on_a_page_unless_they_are_asked_for() {
    let path = paths();
    let long = (0..20_000).map(|n| format!("w{n}")).collect::<Vec<_>>().join(" ");
    let documents = [("a".to_owned(), format!("{long} end")), ("b".to_owned(), format!("{long} last"))];
    write_parquet(&path("in.parquet"), &documents, 7);
    run(&job(&path("in.parquet"), &path("out"), &[])).unwrap();
    let html = |arguments: &[&str]| {
        let page = path("pairs.html");
        program!["show", path("out")].args(arguments).arg("--html").arg(&page).assert().success();
        std::fs::read_to_string(page).unwrap()
    };
    let length = long.len() + 4;
    let characters = format!("{},{:03}", length / 1_000, length % 1_000);
    let cut = html(&[]);
    assert!(cut.contains(&format!("Cut here: 100,000 of {characters} characters are shown.")));
    let whole = html(&["--full"]);
    assert!(!whole.contains("Cut here") && whole.contains("</mark> end</div>"));
}

#[test]
fn a_file_of_somebody_else_is_never_replaced() {
    let folder = essays();
    let outside = tempdir().unwrap();
    let other = write_file(&outside, "mine.html", "<!DOCTYPE html><p>mine");
    let html = other.display().to_string();
    find(folder.path(), &["--html", &html]).refused(2, &["--html", "is not a page of pairs"]);
    assert_eq!(std::fs::read_to_string(&other).unwrap(), "<!DOCTYPE html><p>mine");
    let nowhere = outside.path().join("no/pairs.html").display().to_string();
    find(folder.path(), &["--html", &nowhere]).refused(2, &["there is no folder"]);
    // An earlier page is replaced, and with --json only the pairs are printed.
    let page = outside.path().join("pairs.html").display().to_string();
    find(folder.path(), &["--html", &page]).success();
    let printed = find(folder.path(), &["--json", "--html", &page]).shown(&[]);
    assert_eq!(printed.lines().count(), 1, "{printed}");
    let none = program!["find", folder.path(), "-t", "1", "--all", "--html", &page].assert();
    none.shown(&["0 pairs"]);
    assert!(std::fs::read_to_string(&page).unwrap().contains("0 of 0 pairs of similarity 1 or more"));
}

#[test]
fn hostile_texts_do_nothing_on_a_page() {
    const HOSTILE: &str = "<script>document.title = 'owned'</script>\u{202e}\" onload=\"x\u{0}";
    let path = paths();
    let text = (0..30).map(|word| format!("w{word}")).collect::<Vec<_>>().join(" ");
    let documents: Vec<Document> = vec![
        (format!("a{HOSTILE}"), format!("{HOSTILE} {text}\u{1b}[2J")),
        (format!("b{HOSTILE}"), format!("{text}\n{HOSTILE} <img src=http://x.test/ onerror=alert(1)>")),
    ];
    write_parquet(&path("in.parquet"), &documents, 7);
    run(&job(&path("in.parquet"), &path("out"), &["score.threshold=0.1"])).unwrap();
    let page = path("pairs.html");
    program!["show", path("out"), "--html", &page].assert().success();
    let html = std::fs::read_to_string(&page).unwrap();
    for raw in ["<script", "<img", "\u{202e}", "\u{0}", "\u{1b}", "\" onload=\""] {
        assert!(!html.contains(raw), "{raw:?}");
    }
    assert!(!html.contains("url(") && !html.contains("@import") && !html.contains("<link"));
    let Some(mut browser) = Browser::open(&page) else { return };
    assert!(browser.value("document.title").as_str().unwrap().starts_with("Similar documents in"));
    let own = format!("file://{}", page.display());
    assert!(browser.requests().iter().all(|url| *url == own), "{:?}", browser.requests());
    assert_eq!(browser.value("document.querySelectorAll('article img, article script').length"), 0);
    assert_eq!(browser.value("document.querySelectorAll('mark').length >= 2"), true);
    let size = json!({"width": 420, "height": 900, "deviceScaleFactor": 1, "mobile": true});
    browser.call("Emulation.setDeviceMetricsOverride", size);
    assert_eq!(browser.value("document.documentElement.scrollWidth"), 420);
}
