//! The tokens of Rust sources, for the tests that read our own.

/// A token and the line that it begins on.
pub type Placed = (Token, usize);

#[derive(Debug, Clone, PartialEq)]
pub enum Token {
    Name(String),
    /// `::`
    Path,
    Sign(char),
    /// A literal's text: escapes are resolved as far as they stand for blanks, quotes and line ends.
    Text(String),
    /// A line of a doc comment of an item (`///`) or of a module (`//!`).
    Doc(String),
}

/// The tokens of a source, without comments that are no documentation and without characters and lifetimes.
pub fn tokens(text: &str) -> Vec<Placed> {
    let chars: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let (mut at, mut line, mut counted) = (0, 1, 0);
    let is_word = |c: &char| c.is_alphanumeric() || *c == '_';
    while let Some(&c) = chars.get(at) {
        line += chars[counted..at].iter().filter(|c| **c == '\n').count();
        counted = at;
        let next = chars.get(at + 1).copied();
        match (c, next) {
            ('/', Some('/')) => {
                let end = position(&chars, at, |c| c == '\n');
                let comment: String = chars[at..end].iter().collect();
                let doc = comment.strip_prefix("///").or_else(|| comment.strip_prefix("//!"));
                if let Some(doc) = doc.filter(|doc| !doc.starts_with('/')) {
                    tokens.push((Token::Doc(doc.trim().to_owned()), line));
                }
                at = end;
            }
            ('/', Some('*')) => at = after_comment(&chars, at),
            ('"', _) => {
                let end = after_string(&chars, at);
                tokens.push((Token::Text(unescaped(&chars[at + 1..end - 1])), line));
                at = end;
            }
            // A lifetime has no quote behind its first letter; a character has, or starts with a backslash.
            ('\'', Some('\\')) => at = position(&chars, at + 3, |c| c == '\'') + 1,
            ('\'', Some(_)) if chars.get(at + 2) == Some(&'\'') => at += 3,
            ('\'', _) => at += 1,
            (':', Some(':')) => {
                tokens.push((Token::Path, line));
                at += 2;
            }
            (c, _) if is_word(&c) => {
                let end = position(&chars, at, |c| !is_word(&c));
                let word: String = chars[at..end].iter().collect();
                let raw = ["r", "br", "cr"].contains(&word.as_str());
                match chars.get(end) {
                    Some('"') if raw => {
                        at = after_raw_string(&chars, end);
                        tokens.push((Token::Text(chars[end + 1..at - 1].iter().collect()), line));
                    }
                    Some('#') if raw && matches!(chars.get(end + 1), Some('"' | '#')) => {
                        let hashes = position(&chars, end, |c| c != '#') - end;
                        at = after_raw_string(&chars, end);
                        let text = chars[end + hashes + 1..at - hashes - 1].iter().collect();
                        tokens.push((Token::Text(text), line));
                    }
                    Some('\'') if word == "b" => at = end,
                    // `r#name`, which is never a path's root.
                    Some('#') if word == "r" => {
                        let end_of_name = position(&chars, end + 1, |c| !is_word(&c));
                        tokens.push((Token::Name(chars[at..end_of_name].iter().collect()), line));
                        at = end_of_name;
                    }
                    _ => {
                        tokens.push((Token::Name(word), line));
                        at = end;
                    }
                }
            }
            (c, _) => {
                if !c.is_whitespace() {
                    tokens.push((Token::Sign(c), line));
                }
                at += 1;
            }
        }
    }
    tokens
}

fn position(chars: &[char], from: usize, wanted: impl Fn(char) -> bool) -> usize {
    (from..chars.len()).find(|&at| wanted(chars[at])).unwrap_or(chars.len())
}

fn after_comment(chars: &[char], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while at < chars.len() {
        match (chars[at], chars.get(at + 1)) {
            ('/', Some('*')) => {
                depth += 1;
                at += 2;
            }
            ('*', Some('/')) => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    at
}

fn after_string(chars: &[char], mut at: usize) -> usize {
    at += 1;
    while at < chars.len() && chars[at] != '"' {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

/// `at` is behind the letters.
fn after_raw_string(chars: &[char], at: usize) -> usize {
    let quote = position(chars, at, |c| c != '#');
    let hashes = quote - at;
    let closes = |end: usize| {
        chars[end] == '"' && chars[end + 1..].iter().take_while(|c| **c == '#').count() >= hashes
    };
    (quote + 1..chars.len()).find(|&end| closes(end)).map_or(chars.len(), |end| end + 1 + hashes)
}

/// What a literal without an `r` in front stands for.
fn unescaped(literal: &[char]) -> String {
    let mut text = String::new();
    let mut at = 0;
    while let Some(&c) = literal.get(at) {
        at += 1;
        if c != '\\' {
            text.push(c);
            continue;
        }
        match literal.get(at) {
            Some('n') => text.push('\n'),
            // The line's end and the blanks that the next one begins with are not part of it.
            Some('\n') => at = position(literal, at, |c| !c.is_whitespace()) - 1,
            Some(&other) => text.push(other),
            None => {}
        }
        at += 1;
    }
    text
}
