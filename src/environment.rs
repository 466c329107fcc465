//! The environment of the process: every variable that this program reads, read once and typed. `docs/environment.md` has
//! the table of them.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::LazyLock;

use crate::address::secrets;
use crate::error::{Error, Result};

/// The filter of the log.
const LOG: &str = "RESEMBLANCE_LOG";
/// Set to any value, it turns colours off.
const NO_COLOR: &str = "NO_COLOR";
/// The path of a service account's file for Google Cloud Storage.
#[cfg(any(test, feature = "gcs"))]
const SERVICE_ACCOUNT: &str = "SERVICE_ACCOUNT";
/// The shared secret of a cluster.
#[cfg(any(test, feature = "cluster"))]
pub(crate) const CLUSTER_TOKEN: &str = "RESEMBLANCE_CLUSTER_TOKEN";
/// The files of the authorities, the certificate and the key for TLS in a cluster.
#[cfg(any(test, feature = "cluster"))]
pub(crate) const CLUSTER_CA: &str = "RESEMBLANCE_CLUSTER_CA";
#[cfg(any(test, feature = "cluster"))]
pub(crate) const CLUSTER_CERTIFICATE: &str = "RESEMBLANCE_CLUSTER_CERTIFICATE";
#[cfg(any(test, feature = "cluster"))]
pub(crate) const CLUSTER_KEY: &str = "RESEMBLANCE_CLUSTER_KEY";
/// The name of the machine, where the system has no other place for it.
const HOSTNAME: &str = "HOSTNAME";
/// Further folders for temporary files.
const XDG_CACHE_HOME: &str = "XDG_CACHE_HOME";
const HOME: &str = "HOME";

/// Variables of the OpenLineage standard.
pub(crate) const OPENLINEAGE_DISABLED: &str = "OPENLINEAGE_DISABLED";
pub(crate) const OPENLINEAGE_URL: &str = "OPENLINEAGE_URL";
pub(crate) const OPENLINEAGE_ENDPOINT: &str = "OPENLINEAGE_ENDPOINT";
pub(crate) const OPENLINEAGE_API_KEY: &str = "OPENLINEAGE_API_KEY";
pub(crate) const OPENLINEAGE_TYPE: &str = "OPENLINEAGE__TRANSPORT__TYPE";
pub(crate) const OPENLINEAGE_TRANSPORT_URL: &str = "OPENLINEAGE__TRANSPORT__URL";
pub(crate) const OPENLINEAGE_TRANSPORT_ENDPOINT: &str = "OPENLINEAGE__TRANSPORT__ENDPOINT";
pub(crate) const OPENLINEAGE_AUTH: &str = "OPENLINEAGE__TRANSPORT__AUTH";
pub(crate) const OPENLINEAGE_AUTH_TYPE: &str = "OPENLINEAGE__TRANSPORT__AUTH__TYPE";
pub(crate) const OPENLINEAGE_AUTH_KEY: &str = "OPENLINEAGE__TRANSPORT__AUTH__API_KEY";
pub(crate) const OPENLINEAGE_NAMESPACE: &str = "OPENLINEAGE_NAMESPACE";
pub(crate) const OPENLINEAGE_CONTEXT: &str = "OPENLINEAGE_CONTEXT";
pub(crate) const OPENLINEAGE_PARENT_ID: &str = "OPENLINEAGE_PARENT_ID";
pub(crate) const OPENLINEAGE_ROOT_PARENT_ID: &str = "OPENLINEAGE_ROOT_PARENT_ID";

/// Variables of the OpenTelemetry standard, and of W3C Trace Context.
pub(crate) const OTEL_SDK_DISABLED: &str = "OTEL_SDK_DISABLED";
pub(crate) const OTEL_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
pub(crate) const OTEL_TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
pub(crate) const OTEL_METRICS_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT";
/// Those that only the feature reads.
#[cfg(any(test, feature = "otlp"))]
mod otel {
    pub(crate) const OTEL_HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
    pub(crate) const OTEL_TRACES_HEADERS: &str = "OTEL_EXPORTER_OTLP_TRACES_HEADERS";
    pub(crate) const OTEL_METRICS_HEADERS: &str = "OTEL_EXPORTER_OTLP_METRICS_HEADERS";
    pub(crate) const OTEL_PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
    pub(crate) const OTEL_TRACES_PROTOCOL: &str = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL";
    pub(crate) const OTEL_METRICS_PROTOCOL: &str = "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL";
    pub(crate) const OTEL_TRACES_EXPORTER: &str = "OTEL_TRACES_EXPORTER";
    pub(crate) const OTEL_METRICS_EXPORTER: &str = "OTEL_METRICS_EXPORTER";
    pub(crate) const OTEL_SERVICE_NAME: &str = "OTEL_SERVICE_NAME";
    pub(crate) const OTEL_RESOURCE_ATTRIBUTES: &str = "OTEL_RESOURCE_ATTRIBUTES";
    pub(crate) const TRACEPARENT: &str = "TRACEPARENT";
    pub(crate) const TRACESTATE: &str = "TRACESTATE";
}
#[cfg(any(test, feature = "otlp"))]
pub(crate) use otel::*;

/// Words in the names of the variables that may hold secrets, of the secrets among them, and of the names and addresses among those.
const WITH_SECRETS: [&str; 7] =
    [AWS, "AZURE_", "GOOGLE_", "OPENLINEAGE_", "OTEL_", "RESEMBLANCE_CLUSTER_TOKEN", "_PROXY"];
const SECRETS: [&str; 7] = ["KEY", "SECRET", "TOKEN", "PASSWORD", "AUTH", "HEADERS", "SAS"];
const NO_SECRETS: [&str; 6] = ["_FILE", "_PATH", "_URI", "_URL", "_TYPE", "_HOST"];

/// Prefixes of the variables that stores read.
pub(crate) const AWS: &str = "AWS_";
#[cfg(any(test, feature = "azure", feature = "cluster"))]
pub(crate) const AZURE: &str = "AZURE_";
#[cfg(any(test, feature = "gcs", feature = "cluster"))]
pub(crate) const GOOGLE: &str = "GOOGLE_";

/// A variable that holds a number of seconds.
pub(crate) struct Seconds {
    pub(crate) name: &'static str,
    pub(crate) default: u64,
    allowed: RangeInclusive<u64>,
}

/// Silence after which a claim of this process is dead to other machines.
pub(crate) const LEASE: Seconds =
    Seconds { name: "RESEMBLANCE_LEASE_SECONDS", default: 60, allowed: 2..=3_600 };
/// The time for which a request is sent again after a 5xx, a broken connection or silence.
pub(crate) const RETRY: Seconds =
    Seconds { name: "RESEMBLANCE_RETRY_SECONDS", default: 60, allowed: 0..=3_600 };
/// The time that one request may take, its body included: a part of 8 MiB goes up in it, and a longer download is resumed.
pub(crate) const REQUEST: Seconds =
    Seconds { name: "RESEMBLANCE_REQUEST_SECONDS", default: 60, allowed: 1..=3_600 };

impl Seconds {
    /// The allowed number of seconds that is nearest to `seconds`.
    pub(crate) fn nearest(&self, seconds: u64) -> u64 {
        seconds.clamp(*self.allowed.start(), *self.allowed.end())
    }

    /// The seconds that a text says.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) for anything but a whole number in the allowed range.
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

/// Environment variables. An empty one counts as unset, as where a compose file passes on what is not set, and the white
/// space around a value is not a part of it: a secret that is mounted as a file ends in a line break.
#[derive(Clone)]
pub(crate) struct Environment(BTreeMap<String, String>);

impl Environment {
    /// The environment that this process was started with.
    pub(crate) fn of_process() -> &'static Self {
        static OF_PROCESS: LazyLock<Environment> = LazyLock::new(|| Environment(variables()));
        &OF_PROCESS
    }

    /// An environment of these variables alone.
    pub(crate) fn of(variables: BTreeMap<String, String>) -> Self {
        Self(variables)
    }

    /// The value of a variable; `None` if it is unset.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    /// The variables whose names start with `prefix`, and their values.
    pub(crate) fn starting(&self, prefix: &'static str) -> impl Iterator<Item = (&str, &str)> {
        let named = self.0.iter().filter(move |(name, _)| name.starts_with(prefix));
        named.map(|(name, value)| (name.as_str(), value.trim())).filter(|(_, value)| !value.is_empty())
    }

    /// The value of a variable of seconds, or its default.
    ///
    /// # Errors
    /// As [`Seconds::parse`].
    pub(crate) fn seconds(&self, variable: &Seconds) -> Result<u64> {
        self.get(variable.name).map_or(Ok(variable.default), |given| variable.parse(given))
    }

    /// Remembers the values of variables for secrets, and the secrets in the URLs of other variables.
    pub(crate) fn remember_secrets(&self) {
        let has = |name: &str, words: &[&str]| words.iter().any(|word| name.contains(word));
        for (name, value) in self.0.iter().filter(|(name, _)| has(name, &WITH_SECRETS)) {
            secrets::remember(value);
            // The id of a key may be a plain word, such as the name of a bucket.
            let is_word = name.ends_with("_ID") && value.bytes().all(|b| b.is_ascii_lowercase());
            if has(name, &SECRETS) && !has(name, &NO_SECRETS) && !is_word {
                secrets::remember_value(value.trim());
            }
        }
    }

    /// The filter of the log.
    pub(crate) fn log(&self) -> Option<&str> {
        self.get(LOG)
    }

    /// Whether terminals may be written to in colour.
    pub(crate) fn allows_colour(&self) -> bool {
        !self.0.contains_key(NO_COLOR)
    }

    /// The name of the machine.
    pub(crate) fn host_name(&self) -> Option<&str> {
        self.get(HOSTNAME)
    }

    /// The shared secret of a cluster.
    #[cfg(feature = "cluster")]
    pub(crate) fn cluster_token(&self) -> Option<&str> {
        self.get(CLUSTER_TOKEN)
    }

    /// The path of the certificates of the authorities that a cluster's clients trust.
    #[cfg(feature = "cluster")]
    pub(crate) fn cluster_ca(&self) -> Option<&str> {
        self.get(CLUSTER_CA)
    }

    /// The path of the certificate that a cluster's servers show.
    #[cfg(feature = "cluster")]
    pub(crate) fn cluster_certificate(&self) -> Option<&str> {
        self.get(CLUSTER_CERTIFICATE)
    }

    /// The path of the key of that certificate.
    #[cfg(feature = "cluster")]
    pub(crate) fn cluster_key(&self) -> Option<&str> {
        self.get(CLUSTER_KEY)
    }

    /// The path of a service account's file for Google Cloud Storage.
    #[cfg(feature = "gcs")]
    pub(crate) fn service_account(&self) -> Option<&str> {
        self.get(SERVICE_ACCOUNT)
    }

    /// The user's folders for files that can be made again.
    pub(crate) fn cache_folders(&self) -> impl Iterator<Item = PathBuf> {
        let cache = self.get(XDG_CACHE_HOME).map(PathBuf::from);
        cache.into_iter().chain(self.get(HOME).map(|home| PathBuf::from(home).join(".cache")))
    }
}

fn variables() -> BTreeMap<String, String> {
    // A value that is not UTF-8 becomes one that its reader refuses by name.
    std::env::vars_os()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
        .collect()
}

/// Whether a text names a variable that stores read, as messages about the environment do: as a word of its own, unlike a
/// path.
#[cfg(feature = "cluster")]
pub(crate) fn names_variable(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let is_name = |word: &str| {
        let starts = [AWS, AZURE, GOOGLE, "RESEMBLANCE_"].iter().any(|start| word.starts_with(start));
        starts && word.chars().all(is_part)
    };
    text.split_whitespace().map(|word| word.trim_matches([',', ':', ';', '.', '(', ')'])).any(is_name)
}

/// The folder of these sources. Cargo says it when it runs tests: a folder for builds may be shared by more than one checkout.
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

    /// Variables that libraries read by themselves.
    const OF_LIBRARIES: [&str; 7] =
        ["TMPDIR", "HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"];

    /// Variables of OpenLineage.
    const OF_LINEAGE: [&str; 14] = [
        OPENLINEAGE_DISABLED,
        OPENLINEAGE_URL,
        OPENLINEAGE_ENDPOINT,
        OPENLINEAGE_API_KEY,
        OPENLINEAGE_TYPE,
        OPENLINEAGE_TRANSPORT_URL,
        OPENLINEAGE_TRANSPORT_ENDPOINT,
        OPENLINEAGE_AUTH,
        OPENLINEAGE_AUTH_TYPE,
        OPENLINEAGE_AUTH_KEY,
        OPENLINEAGE_NAMESPACE,
        OPENLINEAGE_CONTEXT,
        OPENLINEAGE_PARENT_ID,
        OPENLINEAGE_ROOT_PARENT_ID,
    ];

    /// Variables of OpenTelemetry.
    const OF_TELEMETRY: [&str; 16] = [
        OTEL_SDK_DISABLED,
        OTEL_ENDPOINT,
        OTEL_TRACES_ENDPOINT,
        OTEL_METRICS_ENDPOINT,
        OTEL_HEADERS,
        OTEL_TRACES_HEADERS,
        OTEL_METRICS_HEADERS,
        OTEL_PROTOCOL,
        OTEL_TRACES_PROTOCOL,
        OTEL_METRICS_PROTOCOL,
        OTEL_TRACES_EXPORTER,
        OTEL_METRICS_EXPORTER,
        OTEL_SERVICE_NAME,
        OTEL_RESOURCE_ATTRIBUTES,
        TRACEPARENT,
        TRACESTATE,
    ];

    fn read(file: impl AsRef<Path>) -> String {
        std::fs::read_to_string(sources().join(file)).unwrap()
    }

    #[test]
    fn the_page_has_every_variable_and_no_other() {
        let page = read("docs/environment.md");
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
        let documented: BTreeSet<String> =
            rows.map(|row| row.split_once('`').unwrap().0.to_owned()).collect();
        let seconds = [LEASE, RETRY, REQUEST].map(|variable| {
            let row = page.lines().find(|line| line.starts_with(&format!("| `{}`", variable.name))).unwrap();
            assert!(row.contains(&format!("| {} |", variable.default)), "{row}");
            variable.name.to_owned()
        });
        let prefixes = [AWS, AZURE, GOOGLE].map(|prefix| format!("{prefix}*"));
        let cluster = [CLUSTER_TOKEN, CLUSTER_CA, CLUSTER_CERTIFICATE, CLUSTER_KEY];
        let own = [LOG, NO_COLOR, SERVICE_ACCOUNT, HOSTNAME, XDG_CACHE_HOME, HOME];
        let names = own
            .iter()
            .chain(&cluster)
            .chain(&OF_LIBRARIES)
            .chain(&OF_LINEAGE)
            .chain(&OF_TELEMETRY)
            .map(|name| name.to_string());
        assert_eq!(documented, names.chain(seconds).chain(prefixes).collect());
    }

    #[test]
    fn no_other_file_reads_a_variable() {
        let mut files = 0;
        for entry in walkdir::WalkDir::new(sources().join("src")) {
            let path = entry.unwrap().into_path();
            if path.extension().is_some_and(|ending| ending == "rs") && !path.ends_with("src/environment.rs")
            {
                let text = read(&path);
                let code = text.split("#[cfg(test)]").next().unwrap();
                let found = ["env::var", "env::vars"].iter().any(|call| code.contains(call));
                assert!(!found || path.ends_with("allocator.rs"), "{} reads a variable", path.display());
                files += 1;
            }
        }
        assert!(files > 100, "{files} files were read");
    }

    #[test]
    fn empty_is_unset_and_seconds_are_bounded() {
        let variables =
            [("AWS_REGION", " a \n"), ("AWS_PROFILE", " "), (RETRY.name, "0"), (REQUEST.name, "0")];
        let environment =
            Environment::of(variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
        assert_eq!(environment.starting(AWS).collect::<Vec<_>>(), [("AWS_REGION", "a")]);
        assert_eq!(environment.seconds(&RETRY).unwrap(), 0);
        assert_eq!(environment.seconds(&LEASE).unwrap(), LEASE.default);
        let error = environment.seconds(&REQUEST).unwrap_err().to_string();
        assert!(
            error.contains("RESEMBLANCE_REQUEST_SECONDS is \"0\": expected whole seconds from 1"),
            "{error}"
        );
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
