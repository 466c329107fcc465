//! Object stores, made from URLs when they are first needed: the same for drivers, schedulers and executors.
//!
//! | URL | store | feature |
//! |---|---|---|
//! | `file://` | this machine | |
//! | `s3://bucket/`, `s3a://bucket/` | S3 and compatible stores | |
//! | `gs://bucket/` | Google Cloud Storage | `gcs` |
//! | `az://container/`, `abfss://container@account.dfs.core.windows.net/` | Azure Blob Storage | `azure` |
//!
//! Credentials come from the environment of the process alone: plans and settings carry none.

mod clients;
mod connector;
mod explain;
mod page;
mod remote;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::execution::object_store::ObjectStoreRegistry;
use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use url::Url;

#[cfg(feature = "cluster")]
pub(super) use explain::TRANSIENT;
use parking_lot::Mutex;

use crate::address;
use crate::environment::Environment;
use crate::error::{Error, Result};
use clients::RetryPolicy;
use explain::BucketUrl;
use remote::Remote;
pub(crate) use remote::uploads_ended;

/// The stores that URLs name, each made once, with credentials from the environment of this process.
pub(crate) fn registry() -> Arc<dyn ObjectStoreRegistry> {
    Arc::new(Registry { environment: Environment::process().clone(), stores: Mutex::default() })
}

/// As `registry`, with `variables` as the environment.
pub fn registry_of(variables: BTreeMap<String, String>) -> Arc<dyn ObjectStoreRegistry> {
    Arc::new(Registry { environment: Environment::new(variables), stores: Mutex::default() })
}

struct Registry {
    environment: Environment,
    /// Keyed by scheme and authority.
    stores: Mutex<BTreeMap<String, Arc<dyn ObjectStore>>>,
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The environment holds secrets.
        f.debug_struct("Registry").finish_non_exhaustive()
    }
}

fn key(url: &Url) -> String {
    url[..url::Position::BeforePath].to_owned()
}

impl ObjectStoreRegistry for Registry {
    fn register_store(&self, url: &Url, store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        self.stores.lock().insert(key(url), store)
    }

    fn deregister_store(&self, url: &Url) -> DfResult<Arc<dyn ObjectStore>> {
        let removed = self.stores.lock().remove(&key(url));
        removed.ok_or_else(|| Error::bug(format!("no store was registered for {}", url.scheme())).into())
    }

    fn get_store(&self, url: &Url) -> DfResult<Arc<dyn ObjectStore>> {
        let mut stores = self.stores.lock();
        if let Some(store) = stores.get(&key(url)) {
            return Ok(Arc::clone(store));
        }
        let store = open(url, &self.environment).map_err(DataFusionError::from)?;
        stores.insert(key(url), Arc::clone(&store));
        Ok(store)
    }
}

/// A client for the store that `url` is in.
fn open(url: &Url, environment: &Environment) -> Result<Arc<dyn ObjectStore>> {
    address::check(url.as_str()).map_err(|why| Error::job(format!("a URL {why}")))?;
    if url.scheme() == "file" {
        return Ok(Arc::new(LocalFileSystem::new()));
    }
    let policy = RetryPolicy::of(environment)?;
    let bucket_url = Arc::new(BucketUrl::of(url)?);
    let inner: Arc<dyn ObjectStore> = match url.scheme() {
        "s3" | "s3a" => {
            let [inner, reads] = clients::s3(&bucket_url, environment, &policy)?;
            return Ok(Arc::new(Remote::new(Arc::new(inner), Arc::new(reads), bucket_url)));
        }
        "gs" => clients::google(&bucket_url, environment, &policy)?,
        "az" | "abfs" | "abfss" => clients::azure(url, &bucket_url, environment, &policy)?,
        other => {
            return Err(Error::job(format!(
                "`{other}://` is not a known storage: expected a path, or a URL that starts with s3://, gs://, az:// \
                 or abfss://"
            )));
        }
    };
    Ok(Arc::new(Remote::new(Arc::clone(&inner), inner, bucket_url)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    fn get(url: &str, variables: &[(&str, &str)]) -> Result<Arc<dyn ObjectStore>> {
        let variables = variables.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        Ok(registry_of(variables).get_store(&Url::parse(url).unwrap())?)
    }

    const KEYS: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", "hush")];

    #[test]
    fn a_bucket_has_one_client() {
        let registry = registry_of(KEYS.map(|(k, v)| (k.to_owned(), v.to_owned())).into());
        let get = |url: &str| registry.get_store(&Url::parse(url).unwrap()).unwrap();
        assert!(Arc::ptr_eq(&get("s3://a/x"), &get("s3://a/y/z")));
        assert!(!Arc::ptr_eq(&get("s3://a/x"), &get("s3://b/x")));
        let shown = format!("{registry:?} {:?} {}", get("s3://a"), get("s3://a"));
        assert!(!shown.contains("hush"), "{shown}");
    }

    #[test]
    fn errors_of_opening_have_advice() {
        let refusal = |url: &str, variables: &[(&str, &str)]| {
            let error = get(url, variables).err().unwrap();
            (error.kind(), error.to_string())
        };
        let (kind, text) = refusal("ftp://host/a", &[]);
        assert!(kind == Kind::Job && text.contains("s3://"), "{text}");
        let (kind, text) = refusal("s3://a/b", &[KEYS[0]]);
        assert!(kind == Kind::Job && text.contains("AWS_SECRET_ACCESS_KEY"), "{text}");
        let (kind, text) = refusal("s3://a/b", &[("AWS_PROFILE", "me")]);
        assert!(kind == Kind::Job && text.contains("export-credentials"), "{text}");
        let plain = [KEYS[0], KEYS[1], ("AWS_ENDPOINT_URL", "http://127.0.0.1:1")];
        let (kind, text) = refusal("s3://a/b", &plain);
        assert!(kind == Kind::Job && text.contains("AWS_ALLOW_HTTP"), "{text}");
        let (kind, text) = refusal("s3://a/b", &[("RESEMBLANCE_RETRY_SECONDS", "soon")]);
        assert!(kind == Kind::Job && text.contains("RESEMBLANCE_RETRY_SECONDS"), "{text}");
        let (_, text) = refusal("s3://id:hush@a/b", &KEYS);
        assert!(!text.contains("hush"), "{text}");
    }

    #[cfg(not(feature = "gcs"))]
    #[test]
    fn a_store_that_is_not_built_in_names_its_feature() {
        let text = get("gs://a/b", &[]).err().unwrap().to_string();
        assert!(text.contains("--features gcs"), "{text}");
    }

    #[cfg(not(feature = "azure"))]
    #[test]
    fn another_names_its_own() {
        let text = get("abfss://c@a.dfs.core.windows.net/b", &[]).err().unwrap().to_string();
        assert!(text.contains("--features azure"), "{text}");
    }
}
