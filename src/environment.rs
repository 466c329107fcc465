//! The environment of the process, read once. `docs/environment.md` lists all variables.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::LazyLock;

use crate::address::secrets;
use crate::error::{Error, Result};

/// The shared secret of a cluster.
#[cfg(feature = "cluster")]
pub(crate) const CLUSTER_TOKEN: &str = "RESEMBLANCE_CLUSTER_TOKEN";
/// The file with the certificate authorities that a cluster's clients trust.
#[cfg(feature = "cluster")]
pub(crate) const CLUSTER_CA: &str = "RESEMBLANCE_CLUSTER_CA";
/// The file with the certificate of a cluster's servers.
#[cfg(feature = "cluster")]
pub(crate) const CLUSTER_CERTIFICATE: &str = "RESEMBLANCE_CLUSTER_CERTIFICATE";
/// The file with the private key of that certificate.
#[cfg(feature = "cluster")]
pub(crate) const CLUSTER_KEY: &str = "RESEMBLANCE_CLUSTER_KEY";

/// The number of bytes up to which the driver of a cluster reads the tables of a stage itself.
#[cfg(feature = "cluster")]
pub(crate) const SMALL_STAGES: &str = "RESEMBLANCE_SMALL_STAGES";

/// A variable with one of these texts in its name can contain secrets, as its value or inside URLs.
const WITH_SECRETS: [&str; 7] =
    [AWS, "AZURE_", "GOOGLE_", "OPENLINEAGE_", "OTEL_", "RESEMBLANCE_CLUSTER_TOKEN", "_PROXY"];
/// If the name of such a variable also contains one of these texts, its whole value is a secret.
const SECRETS: [&str; 7] = ["KEY", "SECRET", "TOKEN", "PASSWORD", "AUTH", "HEADERS", "SAS"];
/// If the name of a variable contains one of these texts, its value is not a secret, in spite of [`SECRETS`].
const NO_SECRETS: [&str; 6] = ["_FILE", "_PATH", "_URI", "_URL", "_TYPE", "_HOST"];

pub(crate) const AWS: &str = "AWS_";
pub(crate) const AZURE: &str = "AZURE_";
pub(crate) const GOOGLE: &str = "GOOGLE_";

/// A variable with a number of seconds.
pub(crate) struct Seconds {
    pub(crate) name: &'static str,
    pub(crate) default: u64,
    allowed: RangeInclusive<u64>,
}

/// Other machines consider a claim dead that its process has not renewed for this time.
pub(crate) const LEASE: Seconds =
    Seconds { name: "RESEMBLANCE_LEASE_SECONDS", default: 60, allowed: 2..=3_600 };
/// The maximum time for retries of a request after a 5xx status, a broken connection or a timeout.
pub(crate) const RETRY: Seconds =
    Seconds { name: "RESEMBLANCE_RETRY_SECONDS", default: 60, allowed: 0..=3_600 };
/// The time limit for a request with its body, such as an upload of 8 MiB. Longer downloads are resumed.
pub(crate) const REQUEST: Seconds =
    Seconds { name: "RESEMBLANCE_REQUEST_SECONDS", default: 60, allowed: 1..=3_600 };

impl Seconds {
    pub(crate) fn nearest(&self, seconds: u64) -> u64 {
        seconds.clamp(*self.allowed.start(), *self.allowed.end())
    }

    /// Parses a whole number in the allowed range. Fails with `Kind::Job`.
    pub(crate) fn parse(&self, text: &str) -> Result<u64> {
        let Self { name, allowed, .. } = self;
        text.trim().parse().ok().filter(|seconds| allowed.contains(seconds)).ok_or_else(|| {
            let (least, most) = (allowed.start(), allowed.end());
            Error::job(format!(
                "the variable {name} is {text:?}: expected whole seconds from {least} to {most}"
            ))
        })
    }
}

/// Environment variables. An empty variable counts as unset, because compose files pass on unset variables as empty. White space around a
/// value is removed, because a secret from a mounted file ends in a line break.
#[derive(Clone)]
pub(crate) struct Environment(BTreeMap<String, String>);

impl Environment {
    pub(crate) fn process() -> &'static Self {
        static PROCESS: LazyLock<Environment> = LazyLock::new(|| Environment(variables()));
        &PROCESS
    }

    pub(crate) fn new(variables: BTreeMap<String, String>) -> Self {
        Self(variables)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    /// Returns whether the value of a variable is `true`, in upper or lower case.
    pub(crate) fn is_true(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    /// Returns the first of these variables that is set, with its value.
    pub(crate) fn first<const N: usize>(&self, names: [&'static str; N]) -> Option<(&'static str, &str)> {
        names.into_iter().find_map(|name| Some((name, self.get(name)?)))
    }

    /// Returns the names and values of the variables that start with `prefix`.
    pub(crate) fn starting(&self, prefix: &'static str) -> impl Iterator<Item = (&str, &str)> {
        let named = self.0.iter().filter(move |(name, _)| name.starts_with(prefix));
        named.map(|(name, value)| (name.as_str(), value.trim())).filter(|(_, value)| !value.is_empty())
    }

    /// Returns the value of a variable in seconds, or its default.
    pub(crate) fn seconds(&self, variable: &Seconds) -> Result<u64> {
        self.get(variable.name).map_or(Ok(variable.default), |given| variable.parse(given))
    }

    /// Remembers the values of secret variables, and the secrets in the URLs of others.
    pub(crate) fn remember_secrets(&self) {
        let has = |name: &str, words: &[&str]| words.iter().any(|word| name.contains(word));
        for (name, value) in self.0.iter().filter(|(name, _)| has(name, &WITH_SECRETS)) {
            secrets::remember(value);
            // The id of a key can be an ordinary word, such as the name of a bucket, so it is not remembered.
            let is_word = name.ends_with("_ID") && value.bytes().all(|b| b.is_ascii_lowercase());
            if has(name, &SECRETS) && !has(name, &NO_SECRETS) && !is_word {
                secrets::remember_value(value.trim());
            }
        }
    }

    /// Returns whether terminals may get colours. `NO_COLOR` with any value, even an empty one, disables them.
    pub(crate) fn allows_colour(&self) -> bool {
        !self.0.contains_key("NO_COLOR")
    }

    /// Returns the cache folders of the user.
    pub(crate) fn cache_folders(&self) -> impl Iterator<Item = PathBuf> {
        let cache = self.get("XDG_CACHE_HOME").map(PathBuf::from);
        cache.into_iter().chain(self.get("HOME").map(|home| PathBuf::from(home).join(".cache")))
    }
}

fn variables() -> BTreeMap<String, String> {
    // Invalid values are converted lossily. Their parser rejects them and names the variable.
    std::env::vars_os()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
        .collect()
}

/// Returns whether a message names a variable for stores or for this program, as a separate word and not in a path.
pub(crate) fn names_variable(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let is_name = |word: &str| {
        let starts = [AWS, AZURE, GOOGLE, "RESEMBLANCE_"].iter().any(|start| word.starts_with(start));
        starts && word.chars().all(is_part)
    };
    text.split_whitespace().map(|word| word.trim_matches([',', ':', ';', '.', '(', ')'])).any(is_name)
}

/// Returns the root of this checkout, from a variable that Cargo sets when it runs tests. The value at compile time could belong to
/// another checkout with the same target folder.
#[cfg(test)]
pub(crate) fn sources() -> PathBuf {
    let compiled = || env!("CARGO_MANIFEST_DIR").into();
    std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(compiled, PathBuf::from)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    /// Variables that libraries read themselves.
    const OF_LIBRARIES: [&str; 7] =
        ["TMPDIR", "HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"];

    fn read(file: impl AsRef<Path>) -> String {
        std::fs::read_to_string(sources().join(file)).unwrap()
    }

    fn code() -> BTreeMap<PathBuf, String> {
        let files = walkdir::WalkDir::new(sources().join("src")).into_iter();
        let files = files.map(|file| file.unwrap().into_path());
        let rust = files.filter(|path| path.extension().is_some_and(|ending| ending == "rs"));
        let code = |path: &PathBuf| read(path).split("#[cfg(test)]").next().unwrap().to_owned();
        rust.map(|path| (path.clone(), code(&path))).collect()
    }

    #[test]
    fn the_page_lists_exactly_the_variables_of_the_sources() {
        let page = read("docs/environment.md");
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
        let documented: BTreeSet<&str> = rows.map(|row| row.split_once('`').unwrap().0).collect();
        for variable in [LEASE, RETRY, REQUEST] {
            let row = page.lines().find(|line| line.starts_with(&format!("| `{}`", variable.name))).unwrap();
            assert!(row.contains(&format!("| {} |", variable.default)), "{row}");
        }
        let prefixes = ["RESEMBLANCE_", "OPENLINEAGE_", "OTEL_EXPORTER_", "OTEL_SDK_", "OTEL_SERVICE_"];
        let others = documented.iter().copied().filter(|name| !prefixes.iter().any(|p| name.starts_with(p)));
        let patterns: Vec<String> = prefixes.iter().map(|prefix| format!("{prefix}[A-Z_]+")).collect();
        let others: Vec<&str> = others.filter(|name| !name.ends_with('*')).collect();
        let literal = format!("\"({}|{})\"", patterns.join("|"), others.join("|"));
        let literal = regex::Regex::new(&literal).unwrap();
        let code = code().into_values().collect::<String>();
        let read: BTreeSet<&str> =
            literal.captures_iter(&code).map(|found| found.get(1).unwrap().as_str()).collect();
        let prefixes: Vec<String> = [AWS, AZURE, GOOGLE].map(|prefix| format!("{prefix}*")).into();
        let expected = read.iter().chain(&OF_LIBRARIES).copied().chain(prefixes.iter().map(String::as_str));
        assert_eq!(documented, expected.collect());
    }

    #[test]
    fn no_other_file_reads_a_variable() {
        let code = code();
        assert!(code.len() > 100, "{} files were read", code.len());
        for (path, code) in code {
            let is_here = path.ends_with("src/environment.rs");
            assert!(is_here || !code.contains("env::var"), "{} reads a variable", path.display());
        }
    }

    #[test]
    fn empty_is_unset_and_seconds_are_bounded() {
        let variables =
            [("AWS_REGION", " a \n"), ("AWS_PROFILE", " "), (RETRY.name, "0"), (REQUEST.name, "0")];
        let environment =
            Environment::new(variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
        assert_eq!(environment.starting(AWS).collect::<Vec<_>>(), [("AWS_REGION", "a")]);
        assert_eq!(environment.seconds(&RETRY).unwrap(), 0);
        assert_eq!(environment.seconds(&LEASE).unwrap(), LEASE.default);
        let error = environment.seconds(&REQUEST).unwrap_err().to_string();
        let expected = "RESEMBLANCE_REQUEST_SECONDS is \"0\": expected whole seconds from 1";
        assert!(error.contains(expected), "{error}");
    }

    #[cfg(feature = "cluster")]
    #[test]
    fn a_variable_is_a_word_and_not_a_part_of_a_path() {
        for text in [
            "the variable AWS_REGION cannot be used",
            "set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, since",
            "correct the variables that start with GOOGLE_",
            "there is no bucket `b` at this endpoint: correct the URL, AWS_ENDPOINT or AWS_REGION",
        ] {
            assert!(names_variable(text), "{text}");
        }
        for text in
            ["s3://bucket/AWS_REGION/a.csv is damaged", "`AWS_X` is not a column", "AWS_region", "away"]
        {
            assert!(!names_variable(text), "{text}");
        }
    }
}
