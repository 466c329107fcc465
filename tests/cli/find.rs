//! `find --show`: the texts of similar files side by side.

use crate::support::*;

const TEXT: &str = "The quick brown fox jumps over the lazy dog while the sun goes down behind the hills.";

/// Three files that are all similar, the first two most.
fn files() -> TempDir {
    let folder = tempdir().unwrap();
    write_file(&folder, "one.txt", TEXT);
    write_file(&folder, "two.txt", TEXT.replace("fox", "cat"));
    write_file(&folder, "three.txt", TEXT.replace("fox", "cat").replace("lazy", "industrious"));
    folder
}

pub(super) fn find(folder: &Path, arguments: &[&str]) -> Assert {
    resemblance().arg("find").arg(folder).args(["-t", "0.2", "--all"]).args(arguments).assert()
}

#[test]
fn common_passages_stand_in_brackets_where_there_is_no_terminal() {
    let folder = files();
    let shown = find(folder.path(), &["--show"]).shown(&[]);
    let (_, shown) = shown.split_once("\njaccard ").unwrap();
    let names = shown.lines().nth(1).unwrap();
    let (a, b) = names.split_once(" | ").unwrap();
    assert_eq!((a.trim_end(), b), ("one.txt", "two.txt"), "{shown}");
    // Two columns of 48 and the separator between them.
    assert!(shown.lines().all(|line| line.chars().count() <= 99), "{shown}");
    let text = |side: usize| {
        let lines = shown
            .lines()
            .skip(3)
            .take_while(|line| !line.is_empty())
            .filter_map(|line| line.split(" | ").nth(side));
        lines.map(str::trim).collect::<Vec<_>>().join(" ")
    };
    // Before `fox` are fewer words than a shingle has.
    let expected = TEXT.replace("jumps", "[1: jumps").replace("hills.", "hills].");
    assert_eq!(text(0).trim(), expected);
    assert_eq!(text(1).trim(), expected.replace("fox", "cat"));
    assert!(!shown.contains('\u{1b}'));
    assert!(shown.ends_with("2 more pairs are not shown; --show 3 shows all\n"), "{shown}");
}

#[test]
fn short_texts_are_counted_and_results_of_dedup_are_read_without_a_warning() {
    let folder = tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    write_file(&folder, "in.csv", "id,text\n1,red\n2,red\n3,a longer text than a shingle is\n");
    let call = |arguments: &[&str]| resemblance().args(arguments).assert().success();
    let whole = "2 texts have 5 words or fewer: texts of fewer match only equal ones";
    call(&["find", &at("in.csv"), "--text", "text"]).shown(&[whole]);
    call(&["dedup", &at("in.csv"), "--text", "text", "--to", &at("clean")]).shown(&[whole]);
    let left = call(&["find", &at("clean"), "--text", "text"]);
    left.shown(&["0 pairs"]);
    assert!(!left.warned(&[]).contains("_resemblance"));
}

#[test]
fn show_limits_the_number_of_pairs() {
    let folder = files();
    let times = |shown: &str| shown.matches("\njaccard ").count();
    let three = find(folder.path(), &["--show", "3"]).shown(&[]);
    assert!(times(&three) == 3 && !three.contains("not shown"), "{three}");
    assert_eq!(times(&find(folder.path(), &["--show=2"]).shown(&["1 more pair is"])), 2);
    assert_eq!(times(&find(folder.path(), &[]).shown(&[])), 0);
    let none = resemblance().arg("find").arg(folder.path()).args(["-t", "1", "--all", "--show"]).assert();
    assert!(none.shown(&[]).starts_with("0 pairs"));
}

#[test]
fn long_texts_are_cut() {
    let folder = tempdir().unwrap();
    let long: Vec<String> = (0..3_000).map(|i| format!("word{i}")).collect();
    write_file(&folder, "one.txt", long.join(" "));
    write_file(&folder, "two.txt", long.join("\n"));
    let text = find(folder.path(), &["--show"]).shown(&[]);
    let found = text.lines().filter(|line| line.contains(" | word") || line.contains(" | [1: word")).count();
    assert_eq!(found, 198);
    assert!(text.contains(" more lines are left out)"), "{text}");
}

#[test]
fn the_size_of_a_shingle_follows_its_unit() {
    let folder = files();
    let shown = |options: &[&str]| {
        let options = [options, &["--json"]].concat();
        find(folder.path(), &options).shown(&[])
    };
    assert_eq!(shown(&[]), shown(&["-u", "word", "-k", "5"]));
    assert_ne!(shown(&[]), shown(&["-k", "9"]));
    assert_eq!(shown(&["-u", "char"]), shown(&["-u", "char", "-k", "9"]));
}

#[test]
fn wrong_arguments_say_what_is_allowed() {
    let folder = files();
    let cases: [(&[&str], &str, &str); 5] = [
        (&["-k", "0"], "-k", "from 1 to 1000000"),
        (&["--show", "0"], "--show", "from 1 to 1000000"),
        (&["--show", "one.txt"], "--show", "paths come before"),
        (&["--show", "--json"], "--json", "cannot be used with"),
        (&["--json", "--show", "2"], "--show", "cannot be used with"),
    ];
    for (arguments, named, allowed) in cases {
        find(folder.path(), arguments).stdout("").refused(2, &[named, allowed]);
    }
    for bad in ["0", "1.5", "nan", "x"] {
        let wrong = resemblance().arg("find").arg(folder.path()).args(["--threshold", bad]).assert();
        wrong.refused(2, &["--threshold", "over 0 and at most 1"]);
    }
}

#[test]
fn files_of_the_same_name_are_told_apart_by_the_ends_of_their_paths() {
    let folder = tempdir().unwrap();
    let long = format!("{0}/{0}", "a long name of a folder".repeat(3));
    let paths = ["one", "two"].map(|name| {
        let file = write_file(&folder, &format!("{long}/{name}/text.txt"), TEXT);
        file.parent().unwrap().to_owned()
    });
    let shown = resemblance().arg("find").args(&paths).assert().shown(&["1 pair"]);
    assert!(shown.contains("| one/text.txt | two/text.txt |"), "{shown}");
}

/// The command's own tables must not lie beneath what it searches.
#[test]
fn a_folder_that_holds_the_temporary_folder_can_be_searched() {
    let folder = files();
    let temporary = folder.path().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let pattern = format!("{}/*", folder.path().display());
    for searched in [folder.path().to_str().unwrap(), ".", "tmp/..", &pattern] {
        let mut command = resemblance();
        command.current_dir(folder.path()).env("TMPDIR", &temporary).arg("find").arg(searched);
        command.args(["-t", "0.3", "--all"]).assert().shown(&["one.txt"]);
        assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0, "{searched}");
    }
    // There is no folder next to the root.
    resemblance().args(["find", "/"]).assert().refused(3, &["TMPDIR"]);
}
