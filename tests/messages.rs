//! The language of everything that people read: messages, help, comments and documentation are held to the words of the field
//! and to plain turns. `-- --nocapture` prints all messages.

mod sources;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;
use sources::{Kind, Text, pages, texts, with_names};

use crate::support::repository;

/// Stiff or outdated turns, each with a plain one. Compared in lower case, at the borders of words.
const STIFF: &[(&str, &str)] = &[
    ("anew", "\"again\""),
    ("as yet", "\"yet\""),
    ("for ever", "\"forever\", \"without end\""),
    ("hang together", "\"are connected\""),
    ("hence", "\"so\""),
    ("in place of", "\"instead of\""),
    ("is no json", "\"is not JSON\""),
    ("is no path", "\"is not a path\""),
    ("is no url", "\"is not a URL\""),
    ("is no utf 8", "\"is not UTF-8\""),
    ("is none", "\"there is no ...\", \"is not ...\""),
    ("it be", "\"it is\""),
    ("lest", "\"so that ... not\""),
    ("none where", "\"nothing if\""),
    ("not to be had", "\"is missing\""),
    ("of which", "\"which\", \"whose\", or a new sentence"),
    ("of whom", "\"whose\", or a new sentence"),
    ("out of reach", "\"cannot be reached\""),
    ("passed over", "\"skipped\""),
    ("save for", "\"except for\""),
    ("shall", "\"must\", \"will\""),
    ("so many times", "\"N times\""),
    ("stands beside", "\"is set together with\""),
    ("stands without", "\"is set without\""),
    ("the least of", "\"the smallest of\", \"the shortest of\""),
    ("thereby", "\"so\""),
    ("therein", "\"in it\""),
    ("thereof", "\"of it\""),
    ("to be had", "\"available\""),
    ("to go on from", "\"to continue from\""),
    ("upon", "\"on\""),
    ("whence", "\"from which\""),
    ("wherein", "\"in which\""),
    ("whereof", "\"whose\""),
    ("where none is", "\"if there is no ...\""),
    ("who sees it", "\"if you see it\""),
    ("whoever wrote them", "leave it out"),
];

/// Turns that paraphrase a noun of the field or hide who does what. Checked except for the files in `LEFT`.
const PARAPHRASES: &[(&str, &str)] = &[
    ("are no pair", "\"are not a pair\""),
    ("are no pairs", "\"are not pairs\""),
    ("are none", "\"there are no ...\", \"are not ...\""),
    ("as it stands in", "\"as it is in\", \"as it is written in\""),
    ("asked for by", "who asks for it"),
    ("becomes of", "\"happens to\", or the result"),
    ("beside", "\"next to\", \"with\", \"besides\""),
    ("but for", "\"except for\""),
    ("can be had", "\"is available\""),
    ("foretell", "\"predict\", \"estimate\""),
    ("gives way", "\"withdraws\", \"is replaced by\""),
    ("go on from", "\"continue from\""),
    ("goes on", "\"continues\""),
    ("held against", "\"compared with\", \"checked against\""),
    ("in so many", "\"in this many\""),
    ("is no pair", "\"is not a pair\""),
    ("nobody", "\"no process\", \"no reader\", or who does not do it"),
    ("said", "\"reported\", \"written\", \"named\""),
    ("somebody", "\"another process\", \"a user\""),
    ("stand for", "\"represent\", \"mean\", \"replace\""),
    ("stands for", "\"represents\", \"means\", \"replaces\""),
    ("stood for", "\"represented\", \"meant\""),
    ("stand between", "\"are between\", or the noun: \"the separator\""),
    ("stands behind", "\"follows\""),
    ("stands between", "\"is between\", or the noun: \"the separator\""),
    ("taken for", "\"treated as\", \"confused with\""),
    ("tell apart", "\"distinguish\""),
    ("tell of", "\"report\", \"describe\""),
    ("tells of", "\"reports\", \"describes\""),
    ("told", "\"informed\", \"distinguished\", or who reports it"),
    ("wanted most", "\"preferred\", \"first\""),
    ("what stands", "the noun: \"the separator\", \"the text\""),
    ("whoever", "the noun: \"the caller\", \"the process that ...\""),
];

/// Files and folders whose paraphrases are still to be mended; all others are free of them.
const LEFT: &[&str] = &["src/apply/", "src/cli/commands/", "src/cli/support/roles.rs"];

/// The largest number of words between two stops of a message.
const MAX_WORDS: usize = 36;

/// The files that people read.
fn all_files() -> Vec<PathBuf> {
    let mut found = vec![repository("README.md"), repository("CONTRIBUTING.md")];
    for folder in
        ["src", "tests", "benches", "docs", "examples", "fuzz/src", "jobs", "python", "schemas", ".ci"]
    {
        find(&repository(folder), &mut found);
    }
    found
}

fn find(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        match path.is_dir() {
            // Caches of tools are hidden.
            true if !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.')) => {
                find(&path, found);
            }
            true => {}
            false => found.push(path),
        }
    }
}

/// The path of a file in the repository.
fn named(path: &Path) -> String {
    path.strip_prefix(repository("")).unwrap().to_string_lossy().replace('\\', "/")
}

/// The texts of all sources, pages and scripts.
fn all_texts() -> Vec<Text> {
    let mut found = Vec::new();
    for path in all_files() {
        let file = named(&path);
        let of = |read: fn(&str, &str) -> Vec<Text>| read(&file, &std::fs::read_to_string(&path).unwrap());
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("rs") if file.starts_with("src/") => found.extend(of(texts)),
            // The messages of tests are for us alone.
            Some("rs") => found.extend(of(texts).into_iter().filter(|text| text.kind == Kind::Comment)),
            Some("md" | "py" | "toml") => found.extend(of(pages)),
            None if file.starts_with(".ci/") => found.extend(of(pages)),
            _ => {}
        }
    }
    found
}

/// The files in a text that `files` does not have: names that end in `.rs`, and paths from a folder of the repository on.
fn missing(text: &str, files: &[String]) -> Vec<String> {
    static NAMES: LazyLock<Regex> = LazyLock::new(|| {
        let from_a_folder =
            "(?:src|tests|benches|docs|examples|python|schemas)/[A-Za-z0-9_./-]+[A-Za-z0-9_]/?";
        let source = r"[A-Za-z0-9_./-]+\.rs(?:$|[^A-Za-z0-9_])";
        Regex::new(&format!("(?:^|[^A-Za-z0-9_./-])({from_a_folder}|{source})")).unwrap()
    });
    let exists = |name: &str| {
        let name = name.trim_start_matches("../");
        let (in_folder, folder) = (format!("/{name}"), format!("{}/", name.trim_end_matches('/')));
        files.iter().any(|file| file == name || file.starts_with(&folder) || file.ends_with(&in_folder))
    };
    let is_end = |c: char| !c.is_alphanumeric() && c != '_' && c != '/';
    let found = NAMES.captures_iter(text).map(|found| found[1].trim_end_matches(is_end).to_owned());
    found.filter(|name| !exists(name)).collect()
}

#[test]
fn files_that_texts_name_exist() {
    let files = all_files();
    let names: Vec<String> = files.iter().map(|path| named(path)).collect();
    let mut wrong = Vec::new();
    for (path, file) in files.iter().zip(&names) {
        if [".rs", ".md", ".py", ".toml"].iter().any(|ending| file.ends_with(ending)) {
            for (line, text) in with_names(file, &std::fs::read_to_string(path).unwrap()) {
                wrong.extend(missing(&text, &names).iter().map(|name| format!("{file}:{line}: {name}")));
            }
        }
    }
    assert!(wrong.is_empty(), "files that do not exist:\n{}", wrong.join("\n"));
    let missing = |text: &str| missing(text, &names);
    assert_eq!(missing("see `walk.rs`, tests/layers.rs, `pipeline/stage/mod.rs` and src/udf/"), [""; 0]);
    assert_eq!(
        missing("see `wlak.rs`, tests/layer.rs, `stages/mod.rs` and src/adf/"),
        ["wlak.rs", "tests/layer.rs", "stages/mod.rs", "src/adf/"]
    );
}

/// The faults of a text. Comments are held to the words alone.
fn faults(text: &Text) -> Vec<String> {
    let is_clean = !LEFT.iter().any(|left| text.file.starts_with(left));
    match text.kind {
        Kind::Comment if is_clean => {
            // As in "if there is none".
            let text = text.text.replace("there is none", "…").replace("there are none", "…");
            [STIFF, PARAPHRASES].into_iter().flat_map(|turns| words(&text, turns)).collect()
        }
        Kind::Comment => Vec::new(),
        kind => {
            let message = without_placeholders(&text.text);
            let mut faults = words(&message, STIFF);
            if is_clean {
                faults.extend(words(&message, PARAPHRASES));
            }
            if kind == Kind::Error {
                faults.extend(no_fragment(&message));
            }
            faults.extend(too_long(&message));
            faults
        }
    }
}

/// The turns of a list that a text has.
fn words(text: &str, turns: &[(&str, &str)]) -> Vec<String> {
    let lower = text.to_lowercase();
    // What was left out is a word.
    let words = lower.split(|c: char| !c.is_alphanumeric() && !['\'', '…'].contains(&c));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let line = format!(" {} ", words.join(" "));
    let found = turns.iter().filter(|(turn, _)| line.contains(turn) && line.contains(&format!(" {turn} ")));
    found.map(|(turn, instead)| format!("\"{turn}\": use {instead}")).collect()
}

/// The faults of an error's message that is not a fragment, to which a cause can be added.
fn no_fragment(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let mut chars = text.chars();
    let first_is_capital = chars.next().is_some_and(char::is_uppercase);
    // An acronym or a name may stand first.
    let is_word = chars.next().is_some_and(char::is_lowercase);
    if first_is_capital && is_word && !NAMES.iter().any(|name| text.starts_with(name)) {
        faults.push("an error is a fragment: it begins with a small letter".into());
    }
    if text.trim_end().ends_with('.') && !text.trim_end().ends_with("..") {
        faults.push("an error is a fragment: it has no full stop".into());
    }
    faults
}

fn too_long(text: &str) -> Option<String> {
    let parts = text.split([';', ':', '\n', '(', ')']).flat_map(|part| part.split(". "));
    let longest = parts.map(|part| part.split_whitespace().count()).max()?;
    (longest > MAX_WORDS).then(|| format!("{longest} words without a stop"))
}

/// A message without the names of what is put into `{}`.
fn without_placeholders(text: &str) -> String {
    let mut parts = text.split('{');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |kept, part| kept + "…" + part.split_once('}').map_or(part, |(_, rest)| rest))
}

/// Names that an error may begin with.
const NAMES: [&str; 4] = ["Ballista", "Parquet", "Reuters", "Unicode"];

#[test]
fn language_is_plain() {
    let texts = all_texts();
    for Text { kind, file, line, text } in texts.iter().filter(|text| text.kind != Kind::Comment) {
        eprintln!("{file}:{line}: {}{}", format!("{kind:?}: ").to_lowercase(), text.replace('\n', "\\n"));
    }
    let kinds = [Kind::Error, Kind::Log, Kind::Help, Kind::Literal, Kind::Comment];
    let counts = kinds.map(|kind| texts.iter().filter(|text| text.kind == kind).count());
    assert!(counts.iter().zip([250, 40, 80, 300, 3_000]).all(|(found, least)| *found >= least), "{counts:?}");
    let wrong: Vec<String> = texts
        .iter()
        .flat_map(|text| faults(text).into_iter().map(move |fault| (text, fault)))
        .map(|(Text { file, line, text, .. }, fault)| format!("{file}:{line}: {fault}\n    {text}"))
        .collect();
    assert!(wrong.is_empty(), "{} texts:\n{}", wrong.len(), wrong.join("\n"));
}

/// The texts of a made-up file, each with its kind.
fn found(file: &str, source: &str) -> Vec<(Kind, String)> {
    texts(file, source).into_iter().map(|text| (text.kind, text.text)).collect()
}

#[test]
fn texts_are_found_in_every_form() {
    let source = r##"
        /// Documentation of two lines, which
        /// are one text.
        fn f() -> Result<()> {
            let or = "or do it again"; // This // is one.
            g().context(|| format!("cannot read {path}"))?;
            tracing::warn!(id, "this run waits for {other}");
            tracing::warn!(%id, "this run waits // again");
            Err(Error::job(format!("the key {key} is \
                 unknown{or}")).because(e))
            .map_err(|e| Error::bug("it was not seen").because(e))
        }
        #[cfg(test)]
        mod tests { fn g() { Error::job("what is not seen here") } }
    "##;
    let expected = [
        (Kind::Comment, "Documentation of two lines, which are one text."),
        (Kind::Literal, "or do it again"),
        (Kind::Comment, "This // is one."),
        (Kind::Error, "cannot read {path}"),
        (Kind::Log, "this run waits for {other}"),
        (Kind::Log, "this run waits // again"),
        (Kind::Error, "the key {key} is unknown{or}"),
        (Kind::Error, "it was not seen"),
    ];
    assert_eq!(found("src/a.rs", source), expected.map(|(kind, text)| (kind, text.to_owned())));
    let source = "
        /// Lists what is there
        ///
        /// And more of it.
        #[derive(clap::Args)]
        pub struct List {
            /// The folder to list
            #[arg(long, value_name = \"FOLDER\")]
            folder: PathBuf,
        }
        impl List {
            /// Not an argument.
            fn f() {}
        }";
    let help = found("src/cli/a.rs", source).into_iter().filter(|(kind, _)| *kind == Kind::Help);
    let help: Vec<_> = help.map(|(_, text)| text).collect();
    assert_eq!(help, ["Lists what is there\n\nAnd more of it.", "The folder to list"]);
}

#[test]
fn texts_of_pages_are_paragraphs_without_code() {
    let found = |file: &str, page: &str| -> Vec<_> {
        pages(file, page).into_iter().map(|text| (text.line, text.text)).collect()
    };
    let page = "# Title\n\nOne `name`\nand more.\n\n```sh\ncode\n```\nLast.\n";
    let expected = [(1, "# Title"), (3, "One \u{2026} and more."), (9, "Last.")];
    assert_eq!(found("a.md", page), expected.map(|(line, text)| (line, text.to_owned())));
    let page = "\"\"\"Module.\n\nMore.\n\"\"\"\nx = 1  # Why.\ny = \"#\"\n#: And\n# this.\n";
    let expected = [(1, "\"\"\"Module."), (3, "More. \"\"\""), (5, "Why."), (7, "And this.")];
    assert_eq!(found("a.py", page), expected.map(|(line, text)| (line, text.to_owned())));
}

#[test]
fn what_is_not_plain_is_found() {
    let faults_in = |file: &str, kind, text: &str| {
        faults(&Text { kind, file: file.to_owned(), line: 1, text: text.to_owned() }).len()
    };
    let faults_of = |kind, text: &str| faults_in("", kind, text);
    assert_eq!(faults_of(Kind::Error, "cannot read {path}: it is not a Parquet file"), 0);
    assert_eq!(faults_of(Kind::Error, "URLs cannot hold this"), 0);
    assert_eq!(faults_of(Kind::Error, "Cannot read it."), 2);
    assert_eq!(faults_of(Kind::Log, "Files of which there is none"), 2);
    assert_eq!(faults_of(Kind::Literal, &"word ".repeat(MAX_WORDS + 1)), 1);
    assert_eq!(faults_of(Kind::Literal, "where nothing is found there"), 0);
    let paraphrase = "What nobody is told of, whoever it stands for.";
    assert_eq!(faults_of(Kind::Comment, paraphrase), 4);
    if let Some(left) = LEFT.first() {
        assert_eq!(faults_in(left, Kind::Comment, paraphrase), 0);
    }
}
