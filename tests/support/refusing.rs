//! A memory pool that has little room for the union-find and all room for others, so that components are found in rounds.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;

use super::*;

/// The name by which the pool knows the union-find.
const UNION_FIND: &str = "connected components";

#[derive(Debug)]
pub struct RefusingPool {
    pool: Arc<dyn MemoryPool>,
    room: usize,
    granted: AtomicUsize,
    refused: AtomicUsize,
}

impl RefusingPool {
    /// The number of the union-find's requests that were granted, and that were refused.
    pub fn granted_and_refused(&self) -> (usize, usize) {
        (self.granted.load(Ordering::Relaxed), self.refused.load(Ordering::Relaxed))
    }
}

impl fmt::Display for RefusingPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl MemoryPool for RefusingPool {
    fn name(&self) -> &str {
        "refusing"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.pool.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.pool.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.pool.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.pool.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> DfResult<()> {
        if reservation.consumer().name() == UNION_FIND {
            if reservation.size() + additional > self.room {
                self.refused.fetch_add(1, Ordering::Relaxed);
                return Err(DataFusionError::ResourcesExhausted("refused by the test".into()));
            }
            self.granted.fetch_add(1, Ordering::Relaxed);
        }
        self.pool.try_grow(reservation, additional)
    }

    fn reserved(&self) -> usize {
        self.pool.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.pool.memory_limit()
    }
}

/// Plans and runs in a session that has such a pool.
pub struct Refusing(SessionContext);

impl Refusing {
    /// `engine` with `room` bytes for the union-find, and the pool that counts.
    pub fn around(engine: Box<dyn Engine>, room: usize) -> (Around<Self>, Arc<RefusingPool>) {
        let runtime = engine.session().runtime_env();
        let pool = Arc::new(RefusingPool {
            pool: Arc::clone(&runtime.memory_pool),
            room,
            granted: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
        });
        let runtime = RuntimeEnvBuilder::from_runtime_env(&runtime)
            .with_memory_pool(Arc::clone(&pool) as Arc<dyn MemoryPool>)
            .build_arc()
            .unwrap();
        let state = SessionStateBuilder::new_from_existing(engine.session().state());
        let hook = Self(SessionContext::new_with_state(state.with_runtime_env(runtime).build()));
        (Around { engine, hook }, pool)
    }
}

impl Hook for Refusing {
    fn session<'a>(&'a self, _: &'a dyn Engine) -> &'a SessionContext {
        &self.0
    }
}
