//! What a user reads: errors, log lines, help and the sentences of reports, collected from the sources and held to the
//! rules of plain messages. `cargo test messages -- --nocapture` prints them all, to be read in one go.

use std::collections::BTreeMap;
use std::path::Path;

use crate::support::repository;
use crate::support::tokens::{Placed, Token, tokens};

/// Turns that nobody says any more or that need a second reading, each with what is said instead. Compared in lower case, at
/// the borders of words.
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

/// Words at most between two stops of a message.
const MAX_WORDS: usize = 36;

/// The calls whose arguments are messages of errors, by their last name.
const ERRORS: [&str; 8] = ["job", "input", "engine", "bug", "context", "because", "interrupted", "new"];

/// What a literal is to a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// The beginning of an error's message.
    Error,
    /// A line of the log.
    Log,
    /// A text of `--help`.
    Help,
    /// Any other literal that reads like a sentence: parts of messages, of reports and of answers.
    Text,
}

#[derive(Debug)]
struct Message {
    kind: Kind,
    file: String,
    line: usize,
    text: String,
}

/// The messages of all sources, in the order of files and lines.
fn messages() -> Vec<Message> {
    let mut files = BTreeMap::new();
    read(&repository("src"), &mut files);
    assert!(files.len() > 100, "the sources were not found");
    files.iter().flat_map(|(file, text)| messages_of(file, text)).collect()
}

fn read(folder: &Path, files: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read(&path, files);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let inside = path.strip_prefix(repository("")).unwrap().to_string_lossy().replace('\\', "/");
            files.insert(inside, std::fs::read_to_string(&path).unwrap());
        }
    }
}

fn messages_of(file: &str, text: &str) -> Vec<Message> {
    let all = tokens(text);
    let tokens = &all[..unit_tests(&all)];
    let mut found = literals(file, tokens);
    if file.starts_with("src/cli/") {
        found.extend(help(file, tokens));
    }
    found.sort_by_key(|message| message.line);
    found
}

/// Where the unit tests of a file begin, which stand at its end.
fn unit_tests(tokens: &[Placed]) -> usize {
    let is = |at: usize, name: &str| matches!(tokens.get(at), Some((Token::Name(n), _)) if n == name);
    let begins = |&at: &usize| {
        is(at, "cfg") && (at..at + 10).any(|at| is(at, "test")) && (at..at + 20).any(|at| is(at, "mod"))
    };
    (0..tokens.len()).find(begins).unwrap_or(tokens.len())
}

/// The literals of a file that read like words for people. Each knows the calls around it.
fn literals(file: &str, tokens: &[Placed]) -> Vec<Message> {
    // For each open bracket, what the brackets around a literal are to it.
    let mut open: Vec<Option<Kind>> = Vec::new();
    let mut found = Vec::new();
    for (at, (token, line)) in tokens.iter().enumerate() {
        match token {
            Token::Sign('(') => open.push(kind_of_call(tokens, at)),
            Token::Sign('[' | '{') => open.push(None),
            Token::Sign(')' | ']' | '}') => {
                open.pop();
            }
            Token::Text(text) => {
                // Only the first literal of an error's message begins it.
                let kind = match open.iter().rev().flatten().next() {
                    Some(Kind::Error) if !begins_message(tokens, at) => Kind::Text,
                    Some(&kind) => kind,
                    None => Kind::Text,
                };
                if reads_like_words(text) {
                    found.push(Message { kind, file: file.to_owned(), line: *line, text: text.clone() });
                }
            }
            _ => {}
        }
    }
    found
}

/// What the arguments of the call are whose bracket is at `at`.
fn kind_of_call(tokens: &[Placed], at: usize) -> Option<Kind> {
    let token = |back: usize| at.checked_sub(back).map(|at| &tokens[at].0);
    let (mut name, mut before) = (token(1)?, token(2));
    let is_macro = *name == Token::Sign('!');
    if is_macro {
        (name, before) = (token(2)?, token(3));
    }
    let Token::Name(name) = name else { return None };
    match name.as_str() {
        "debug" | "info" | "warn" | "error" if is_macro => Some(Kind::Log),
        "plan_err" | "exec_err" | "internal_err" | "plan_datafusion_err" | "exec_datafusion_err"
            if is_macro =>
        {
            Some(Kind::Error)
        }
        name if ERRORS.contains(&name) => {
            let of_error = before == Some(&Token::Path)
                && matches!(token(if is_macro { 4 } else { 3 }), Some(Token::Name(owner)) if owner == "Error");
            (of_error || matches!(name, "context" | "because")).then_some(Kind::Error)
        }
        _ => None,
    }
}

/// Whether nothing but the opening of `format!` and the like stands between a literal and the bracket of the call.
fn begins_message(tokens: &[Placed], at: usize) -> bool {
    let mut back = at;
    while back > 0 {
        back -= 1;
        match &tokens[back].0 {
            Token::Sign('(') if kind_of_call(tokens, back) == Some(Kind::Error) => return true,
            Token::Sign('(' | '!' | '|' | '{') => {}
            Token::Name(name) if ["format", "move", "concat"].contains(&name.as_str()) => {}
            _ => return false,
        }
    }
    false
}

/// The documentation of everything that clap makes arguments of.
fn help(file: &str, tokens: &[Placed]) -> Vec<Message> {
    let mut found = Vec::new();
    // Lines of a comment that belong together, and the depth at which an item that is clap's began.
    let (mut doc, mut depth, mut inside): (Option<(usize, String)>, usize, Option<usize>) = (None, 0, None);
    let mut of_clap = false;
    for (at, (token, line)) in tokens.iter().enumerate() {
        match token {
            Token::Doc(text) => {
                let (_, doc) = doc.get_or_insert_with(|| (*line, String::new()));
                doc.push_str(if text.is_empty() { "\n" } else { text });
                doc.push(' ');
                continue;
            }
            Token::Sign('#') => continue,
            Token::Name(name) if CLAP.contains(&name.as_str()) && is_derived(tokens, at) => of_clap = true,
            Token::Sign('{' | '(' | '[') => depth += 1,
            Token::Sign('}' | ')' | ']') => depth = depth.saturating_sub(1),
            _ => {}
        }
        if let Token::Name(name) = token
            && ["struct", "enum"].contains(&name.as_str())
            && of_clap
        {
            inside = Some(depth);
            of_clap = false;
        }
        let of_attribute = depth > inside.map_or(0, |depth| depth + 1);
        if inside.is_some()
            && !of_attribute
            && let Some((line, text)) = doc.take_if(|_| matches!(token, Token::Name(_)))
        {
            found.push(Message {
                kind: Kind::Help,
                file: file.to_owned(),
                line,
                text: text.trim().to_owned(),
            });
        }
        if *token == Token::Sign('}') && inside == Some(depth) {
            inside = None;
        }
        if inside.is_none() && matches!(token, Token::Sign(';' | '}')) || *token == Token::Name("fn".into()) {
            doc = None;
        }
    }
    found
}

/// What makes arguments of a type.
const CLAP: [&str; 4] = ["Args", "Parser", "Subcommand", "ValueEnum"];

/// Whether a name stands in the list of a `derive`.
fn is_derived(tokens: &[Placed], at: usize) -> bool {
    let before = tokens[..at].iter().rev().map(|(token, _)| token);
    let mut inside = before.take_while(|token| **token != Token::Sign('#'));
    inside.any(|token| *token == Token::Name("derive".to_owned()))
}

/// Whether a literal holds two words that a person reads: names of columns, keys, paths and SQL do not.
fn reads_like_words(text: &str) -> bool {
    let is_word = |word: &&str| {
        let word = word.trim_matches(|c: char| ",.;:()`\"?!".contains(c));
        word.len() > 1 && word.chars().all(|c| c.is_ascii_lowercase() || c == '-' || c == '\'')
    };
    !text.contains('<') && text.split_whitespace().filter(is_word).count() >= 2
}

/// What is wrong with a message; nothing where it is as we want it.
fn faults(message: &Message) -> Vec<String> {
    let text = &without_placeholders(&message.text);
    let mut faults = Vec::new();
    let words: Vec<String> = text
        .to_lowercase()
        .split(|c: char| !c.is_alphanumeric() && c != '\'')
        .filter(|w| !w.is_empty())
        .map(str::to_owned)
        .collect();
    let lower = format!(" {} ", words.join(" "));
    for (stiff, instead) in STIFF {
        if lower.contains(&format!(" {stiff} ")) {
            faults.push(format!("\"{stiff}\": say {instead}"));
        }
    }
    if message.kind == Kind::Error {
        let mut chars = text.chars();
        let (first, second) = (chars.next(), chars.next());
        // An acronym or a name may stand first.
        let is_word = second.is_some_and(char::is_lowercase);
        if first.is_some_and(char::is_uppercase)
            && is_word
            && !NAMES.iter().any(|name| text.starts_with(name))
        {
            faults.push("an error is a fragment: it begins with a small letter".into());
        }
        if text.trim_end().ends_with('.') && !text.trim_end().ends_with("..") {
            faults.push("an error is a fragment: it has no full stop".into());
        }
    }
    let longest = text
        .split([';', ':', '\n', '(', ')'])
        .flat_map(|part| part.split(". "))
        .map(|part| part.split_whitespace().count())
        .max();
    if longest.is_some_and(|words| words > MAX_WORDS) {
        faults.push(format!("{} words without a stop", longest.unwrap_or_default()));
    }
    faults
}

/// What is put into `{}` is not part of the sentence.
fn without_placeholders(text: &str) -> String {
    let mut parts = text.split('{');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |kept, part| kept + "…" + part.split_once('}').map_or(part, |(_, rest)| rest))
}

/// Names that an error may begin with.
const NAMES: [&str; 4] = ["Ballista", "Parquet", "Reuters", "Unicode"];

#[test]
fn messages_are_plain() {
    let messages = messages();
    for Message { kind, file, line, text } in &messages {
        eprintln!("{file}:{line}: {}{}", format!("{kind:?}: ").to_lowercase(), text.replace('\n', "\\n"));
    }
    let count = |kind: Kind| messages.iter().filter(|message| message.kind == kind).count();
    let counts = [Kind::Error, Kind::Log, Kind::Help, Kind::Text].map(count);
    assert!(counts.iter().zip([250, 40, 80, 300]).all(|(found, least)| *found >= least), "{counts:?}");
    let wrong: Vec<String> = messages
        .iter()
        .flat_map(|message| {
            faults(message)
                .into_iter()
                .map(move |fault| format!("{}:{}: {fault}\n    {}", message.file, message.line, message.text))
        })
        .collect();
    assert!(wrong.is_empty(), "{} messages:\n{}", wrong.len(), wrong.join("\n"));
}

/// The messages of a made-up file, each with what it is.
fn found(file: &str, text: &str) -> Vec<(Kind, String)> {
    messages_of(file, text).into_iter().map(|message| (message.kind, message.text)).collect()
}

#[test]
fn messages_are_found_in_every_form() {
    let text = r##"
        /// Not seen by users.
        fn f() -> Result<()> {
            let or = "or do it again";
            g().context(|| format!("cannot read {path}"))?;
            tracing::warn!(id, "this run waits for {other}");
            Err(Error::job(format!("the key {key} is \
                 unknown{or}")).because(e))
            .map_err(|e| Error::bug("it was not seen").because(e))
        }
        #[cfg(test)]
        mod tests { fn g() { Error::job("what is not seen here") } }
    "##;
    let expected = [
        (Kind::Text, "or do it again"),
        (Kind::Error, "cannot read {path}"),
        (Kind::Log, "this run waits for {other}"),
        (Kind::Error, "the key {key} is unknown{or}"),
        (Kind::Error, "it was not seen"),
    ];
    assert_eq!(found("src/a.rs", text), expected.map(|(kind, text)| (kind, text.to_owned())));
    let text = "
        /// Says what is there
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
    let expected =
        [(Kind::Help, "Says what is there \n And more of it."), (Kind::Help, "The folder to list")];
    assert_eq!(found("src/cli/a.rs", text), expected.map(|(kind, text)| (kind, text.to_owned())));
}

#[test]
fn what_is_not_plain_is_found() {
    let faults_of = |kind, text: &str| {
        faults(&Message { kind, file: String::new(), line: 1, text: text.to_owned() }).len()
    };
    assert_eq!(faults_of(Kind::Error, "cannot read {path}: it is not a Parquet file"), 0);
    assert_eq!(faults_of(Kind::Error, "URLs cannot hold this"), 0);
    assert_eq!(faults_of(Kind::Error, "Cannot read it."), 2);
    assert_eq!(faults_of(Kind::Log, "Files of which there is none"), 2);
    assert_eq!(faults_of(Kind::Text, &"word ".repeat(MAX_WORDS + 1)), 1);
    assert_eq!(faults_of(Kind::Text, "where nothing is found there"), 0);
}
