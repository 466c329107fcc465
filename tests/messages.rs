//! Messages are short, messages of errors are fragments, and every file that a text names exists. `-- --nocapture`
//! prints all messages.

use std::sync::LazyLock;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use regex::Regex;

use crate::layers::sources;
use crate::support::*;

/// The largest number of words between two stops of a message.
const MAX_WORDS: usize = 36;

/// The files that people read, by their paths in the repository.
pub(crate) fn all_files() -> BTreeMap<String, PathBuf> {
    let mut found = vec![repository("README.md"), repository("CONTRIBUTING.md")];
    for folder in [
        "src", "crates", "tests", "benches", "docs", "examples", "fuzz/src", "jobs", "python", "schemas",
        ".ci",
    ] {
        find(&repository(folder), &mut found);
    }
    let name = |path: &Path| path.strip_prefix(repository("")).unwrap().to_string_lossy().replace('\\', "/");
    found.into_iter().map(|path| (name(&path), path)).collect()
}

fn find(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        // Caches of tools are hidden.
        match path.is_dir() {
            true if path.file_name().unwrap().to_string_lossy().starts_with('.') => {}
            true => find(&path, found),
            false => found.push(path),
        }
    }
}

/// The files in a text that `files` does not have: names that end in `.rs`, and paths from a folder of the repository on.
fn missing<'t>(text: &'t str, files: &BTreeMap<String, PathBuf>) -> Vec<&'t str> {
    static NAMES: LazyLock<Regex> = LazyLock::new(|| {
        let from_a_folder =
            "(?:src|tests|benches|docs|examples|python|schemas)/[A-Za-z0-9_./-]+[A-Za-z0-9_]/?";
        let source = r"[A-Za-z0-9_./-]+\.rs(?:$|[^A-Za-z0-9_])";
        Regex::new(&format!("(?:^|[^A-Za-z0-9_./-])({from_a_folder}|{source})")).unwrap()
    });
    let exists = |name: &str| {
        let name = name.trim_start_matches("../");
        let (in_folder, folder) = (format!("/{name}"), format!("{}/", name.trim_end_matches('/')));
        files.keys().any(|file| file == name || file.starts_with(&folder) || file.ends_with(&in_folder))
    };
    let is_end = |c: char| !c.is_alphanumeric() && c != '_' && c != '/';
    let found =
        NAMES.captures_iter(text).map(|found| found.get(1).unwrap().as_str().trim_end_matches(is_end));
    found.filter(|name| !exists(name)).collect()
}

#[test]
fn files_that_texts_name_exist() {
    let files = all_files();
    let mut wrong = Vec::new();
    for (file, path) in &files {
        let comment = match file.rsplit('.').next() {
            Some("md") => "",
            Some("rs") => "//",
            Some("py" | "toml") => "#",
            _ => continue,
        };
        for (number, line) in (1..).zip(std::fs::read_to_string(path).unwrap().lines()) {
            let text = line.split_once(comment).map_or("", |(_, text)| text);
            wrong.extend(missing(text, &files).iter().map(|name| format!("{file}:{number}: {name}")));
        }
    }
    assert!(wrong.is_empty(), "files that do not exist:\n{}", wrong.join("\n"));
    let found = missing("see `walk.rs`, tests/layers.rs, `pipeline/stage/mod.rs` and src/plan/", &files);
    assert_eq!(found, [""; 0]);
    let found = missing("see `wlak.rs`, tests/layer.rs, `stages/mod.rs` and src/adf/", &files);
    assert_eq!(found, ["wlak.rs", "tests/layer.rs", "stages/mod.rs", "src/adf/"]);
}

/// The literals of a source that read like sentences, with their lines; none of its unit tests.
fn literals(tokens: TokenStream, found: &mut Vec<(usize, String)>) {
    let mut tokens = tokens.into_iter();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Group(group) if group.to_string().replace(' ', "") == "[cfg(test)]" => {
                // An item ends with its body or a semicolon.
                tokens.find(|token| match token {
                    TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
                    TokenTree::Punct(sign) => sign.as_char() == ';',
                    _ => false,
                });
            }
            TokenTree::Group(group) if group.to_string().starts_with("[doc") => {}
            TokenTree::Group(group) => literals(group.stream(), found),
            TokenTree::Literal(literal) => {
                let line = literal.span().start().line;
                let text = syn::parse2::<syn::LitStr>(TokenTree::from(literal).into());
                found.extend(
                    text.map(|text| (line, text.value())).ok().filter(|(_, text)| reads_like_words(text)),
                );
            }
            _ => {}
        }
    }
}

/// Whether a literal has two words that a person reads: names of columns, keys, paths and SQL do not.
fn reads_like_words(text: &str) -> bool {
    let is_word = |word: &&str| {
        let word = word.trim_matches(|c: char| ",.;:()`\"?!".contains(c));
        word.len() > 1 && word.chars().all(|c| c.is_ascii_lowercase() || c == '-' || c == '\'')
    };
    !text.contains('<') && text.split_whitespace().filter(is_word).count() >= 2
}

/// The most words of a message between two stops.
fn longest_part(text: &str) -> usize {
    let parts = text.split([';', ':', '\n', '(', ')']).flat_map(|part| part.split(". "));
    parts.map(|part| part.split_whitespace().count()).max().unwrap_or(0)
}

#[test]
fn messages_are_short() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for (file, text) in sources("src") {
        let mut found = Vec::new();
        literals(text.parse().unwrap(), &mut found);
        count += found.len();
        for (line, text) in found {
            eprintln!("{file}:{line}: {}", text.replace('\n', "\\n"));
            if longest_part(&text) > MAX_WORDS {
                wrong.push(format!("{file}:{line}: more than {MAX_WORDS} words without a stop: {text}"));
            }
        }
    }
    assert!(count > 1_000, "{count} messages");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(longest_part("one two: three (four five six) seven; eight"), 3);
}

/// Errors are fragments, to which a cause can be added: they begin with a small letter or a name.
#[test]
fn errors_begin_with_a_small_letter() {
    let capital = r#"(?:Error::(?:job|input|engine|bug|interrupted|new)|\.(?:context|because))\(\s*(?:\|\w*\|\s*)?(?:&?format!\(\s*)?"([A-Z][a-z]\w*)"#;
    let capital = Regex::new(capital).unwrap();
    for (file, text) in sources("src") {
        for found in capital.captures_iter(&text) {
            let is_name = ["Ballista", "Parquet", "Reuters", "Unicode"].contains(&&found[1]);
            assert!(is_name, "{file}: {}", &found[0]);
        }
    }
}
