//! Data that commands without a job file recognise: ids, several columns of texts, and SGML.

use crate::support::*;

const TEXTS: [&str; 3] = [
    "the quick brown fox jumps over the lazy dog while the sun goes down",
    "the quick brown cat jumps over the lazy dog while the sun goes down",
    "nothing of the kind was ever seen in this house before the winter",
];

fn call(arguments: &[&str], path: &Path) -> assert_cmd::assert::Assert {
    resemblance().args(arguments).arg(path).assert()
}

#[test]
fn a_column_of_unique_values_is_proposed_for_ids_whatever_its_name() {
    let folder = tempdir().unwrap();
    let row = |(at, text): (usize, &&str)| format!("name {at},{at}.5,x,SKU-{at},{text}\n");
    let rows: String = TEXTS.iter().enumerate().map(row).collect();
    let path = write_file(&folder, "in.csv", format!("name,price,shop,article,text\n{rows}"));
    let proposal = "ids are row numbers (or --id article, whose inspected values are unique)";
    for command in [&["find"][..], &["dedup", "--dry-run", "-t", "0.3"], &["init", "-o", "-"]] {
        assert!(call(command, &path).warned(&[]).contains(proposal), "{command:?}");
    }
    call(&["init", "-o", "-"], &path).shown(&["\n# id = \"article\"\n"]);
    call(&["find", "--id", "article", "-t", "0.3", "--all"], &path).shown(&["SKU-0", "SKU-1"]);
    let said = call(&["find", "--id", "row_number"], &path).warned(&[]);
    assert!(said.trim_end().ends_with("ids are row numbers"), "{said}");
    // Without such a column, nothing is proposed; the text is no id.
    let path = write_file(&folder, "same.csv", format!("shop,text\nx,{}\nx,{}\n", TEXTS[0], TEXTS[1]));
    let said = call(&["find", "--text", "text"], &path).warned(&[]);
    assert!(said.trim_end().ends_with("ids are row numbers"), "{said}");
}

#[test]
fn text_can_be_given_several_times() {
    let folder = tempdir().unwrap();
    let row =
        |(at, text): (usize, &&str)| format!("{at},{},\"{text}\"\n", if at < 2 { TEXTS[0] } else { text });
    let rows: String = TEXTS.iter().enumerate().map(row).collect();
    let path = write_file(&folder, "in.csv", format!("id,title,body\n{rows}"));
    let shown =
        |options: &[&str]| call(&[&["find", "-t", "0.1", "--all"], options].concat(), &path).shown(&[]);
    let both = shown(&["--text", "title", "--text", "body"]);
    assert_eq!(both, shown(&["--text", "title,body"]));
    assert_ne!(both, shown(&["--text", "body"]));
    let job = call(&["init", "-o", "-", "--text", "title", "--text", "body"], &path).shown(&[]);
    assert!(job.contains("text = [\"title\", \"body\"]"), "{job}");
    let several = shown(&["--text", "body", "--id", "id", "--id", "title"]);
    assert!(several.contains("0:the quick"), "{several}");
    let path = write_file(&folder, "comma.csv", "\"a,b\"\none two three four five\n");
    call(&["init", "--text", "a,b", "-o", "-"], &path).shown(&["text = \"a,b\""]);
}

fn stories(first: usize) -> String {
    let story = |(at, text): (usize, &&str)| {
        format!(
            "<REUTERS OLDID=\"{0}\" NEWID=\"{0}\"><TEXT><TITLE>{at}</TITLE><BODY>{text}</BODY></TEXT></REUTERS>\n",
            first + at
        )
    };
    "<!DOCTYPE lewis SYSTEM \"lewis.dtd\">\n".to_owned()
        + &TEXTS.iter().enumerate().map(story).collect::<String>()
}

#[test]
fn a_folder_of_sgml_files_is_read_as_stories() {
    let folder = tempdir().unwrap();
    write_file(&folder, "in/reut2-000.sgm", stories(10));
    write_file(&folder, "in/reut2-001.SGM", stories(20));
    write_file(&folder, "in/README.txt", "about the collection");
    let data = folder.path().join("in");
    let found = call(&["find", "-t", "0.3", "--all"], &data);
    found.warned(&["as SGML: text column body, id column oldid"]);
    found.shown(&[" 10 |", " 21 |", "among 6 documents"]);
    let by_title = call(&["find", "--text", "title,body", "--id", "newid", "-t", "0.3", "--all"], &data);
    by_title.warned(&["text column title,body, id column newid"]);
    call(&["find", "--where", "title = '0'", "-t", "0.3"], &data).shown(&["1 pair", "among 2 documents"]);
    let job = call(&["init", "-o", "-"], &data).shown(&["format = \"reuters\"", "id = \"oldid\""]);
    let path = write_file(&folder, "my.toml", job);
    resemblance().current_dir(folder.path()).arg("check").arg(&path).assert().success();
    let clean = folder.path().join("clean");
    call(&["dedup", "-t", "0.9", "--to", clean.to_str().unwrap()], &data).shown(&["3 removed"]);
    write_file(&folder, "in/reut2-001.SGM", stories(10));
    call(&["find"], &data).warned(&["ids are row numbers"]);
    let packed = write_file(&folder, "packed/a.sgm.gz", gzipped(stories(10)));
    call(&["find"], &packed).refused(2, &["compressed SGML", "decompress it"]);
    write_file(&folder, "other/a.sgml", format!("<DOC><TEXT>{}</TEXT></DOC>", TEXTS[0]));
    write_file(&folder, "other/b.sgml", format!("<DOC><TEXT>{}</TEXT></DOC>", TEXTS[0]));
    call(&["find"], &folder.path().join("other")).shown(&["1 pair", "among 2 files"]);
}
