//! Parses the messages of the TOML parser about a job file, and replaces Rust terms in them.
//!
//! The tests make the parser produce each message, so they fail if an upgrade changes a message.

/// Replaces Rust terms in a message of the TOML parser.
pub(super) fn plain_toml(message: &str) -> String {
    const WORDS: [(&str, &str); 5] = [
        ("expected usize", "expected a whole number, 0 or more"),
        ("expected u64", "expected a whole number, 0 or more"),
        ("expected f64", "expected a number"),
        ("expected a sequence", "expected a list of strings"),
        ("expected a boolean", "expected true or false"),
    ];
    let plain = message.replace("unknown field", "unknown key").replace("unknown variant", "unknown value");
    let plain = plain.replace("wanted string or table", "expected a string");
    if let Some((head, _)) = plain.split_once("expected struct ") {
        return format!("{head}expected a section of keys");
    }
    WORDS
        .iter()
        .find_map(|(rust, word)| plain.strip_suffix(rust).map(|head| format!("{head}{word}")))
        .unwrap_or(plain)
}

/// Returns whether a message of the TOML parser reports a missing field.
pub(super) fn is_missing_field(message: &str) -> bool {
    message.starts_with("missing field")
}

/// Returns whether a message of the TOML parser reports an unknown key or value. Such a message lists the allowed keys or values in
/// backticks.
pub(super) fn is_unknown_word(message: &str) -> bool {
    message.starts_with("unknown")
}

/// Returns whether a message from [`plain_toml`] concerns a key that does not exist.
pub(super) fn is_unknown_key(message: &str) -> bool {
    message.starts_with("unknown key")
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its errors are of interest")]
    struct Sample {
        count: usize,
        big: Option<u64>,
        share: Option<f64>,
        names: Option<Vec<String>>,
        flag: Option<bool>,
        word: Option<Word>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Word {
        One,
        Two,
    }

    #[test]
    fn job_files_that_are_wrong() {
        let message = |text: &str| toml::from_str::<Sample>(text).unwrap_err().message().to_owned();
        assert!(is_missing_field(&message("big = 1")));
        for (text, plain) in [
            ("count = \"a\"", "expected a whole number, 0 or more"),
            ("count = 1\nbig = \"a\"", "expected a whole number, 0 or more"),
            ("count = 1\nshare = \"a\"", "expected a number"),
            ("count = 1\nnames = 1", "expected a list of strings"),
            ("count = 1\nflag = 1", "expected true or false"),
            ("count = 1\nword = 1", "expected a string"),
        ] {
            let message = message(text);
            assert_ne!(plain_toml(&message), message);
            assert!(plain_toml(&message).ends_with(plain), "{message}");
        }
        let (key, value) = (message("count = 1\nsise = 1"), message("count = 1\nword = \"three\""));
        assert!(is_unknown_word(&key) && is_unknown_word(&value), "{key} {value}");
        assert!(plain_toml(&key).starts_with("unknown key `sise`"), "{key}");
        assert!(plain_toml(&value).starts_with("unknown value `three`"), "{value}");
        assert!(value.contains("`two`"), "{value}");
    }
}
