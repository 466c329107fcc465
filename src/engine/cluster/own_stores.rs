//! The stores of a scheduler or an executor, which use the environment of its own process.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::object_store::ObjectStoreRegistry;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use object_store::ObjectStore;
use url::Url;

use super::failure;

/// Adds stores whose errors about the environment name the process `who`, since plans open stores wherever they are
/// decoded.
pub(super) fn of(who: String, builder: RuntimeEnvBuilder) -> RuntimeEnvBuilder {
    let stores = Arc::clone(&builder.object_store_registry);
    builder.with_object_store_registry(Arc::new(OwnStores { stores, who }))
}

#[derive(Debug)]
struct OwnStores {
    stores: Arc<dyn ObjectStoreRegistry>,
    who: String,
}

impl ObjectStoreRegistry for OwnStores {
    fn register_store(&self, url: &Url, store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        self.stores.register_store(url, store)
    }

    fn deregister_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        self.stores.deregister_store(url)
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        self.stores.get_store(url).map_err(|error| match failure::is_of_environment(&error) {
            true => failure::of_environment(&self.who, &error).into(),
            false => error,
        })
    }
}
