//! Listings of objects that resume after a response that broke off.

use futures::stream::{self, BoxStream, Stream, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectMeta, Result};

use super::errors::broke_off;

/// The maximum number of resumptions without progress.
const TIMES: usize = 3;

/// The reason why a listing ends early.
#[derive(Debug)]
pub(super) enum ListingFault {
    /// An error of the store.
    Error(object_store::Error),
    /// The store listed this object twice.
    Repeated(Path),
}

/// A listing that continues after its last object if a response breaks off. The client repeats requests, but not every client repeats a
/// request whose response broke off.
pub(super) struct ResumedListing<L> {
    /// Lists the objects after an object, or all objects.
    list: L,
    /// The object that was listed last, if any.
    after: Option<Path>,
    listing: BoxStream<'static, Result<ObjectMeta>>,
    failures: usize,
    repeats: Repeats,
}

impl<L> ResumedListing<L>
where
    L: Fn(Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> + Send + 'static,
{
    /// Lists the objects after `offset`, or all objects.
    pub(super) fn new(list: L, offset: Option<Path>) -> Self {
        let listing = list(offset.as_ref());
        Self { list, after: offset, listing, failures: 0, repeats: Repeats::default() }
    }

    /// Returns the objects.
    pub(super) fn into_stream(self) -> impl Stream<Item = Result<ObjectMeta, ListingFault>> + Send + 'static {
        stream::try_unfold(self, |mut listing| async move {
            let meta = listing.next().await?;
            Ok(meta.map(|meta| (meta, listing)))
        })
    }

    async fn next(&mut self) -> Result<Option<ObjectMeta>, ListingFault> {
        loop {
            match self.listing.try_next().await {
                Ok(Some(meta)) if self.repeats.has_repeated(&meta.location) => {
                    return Err(ListingFault::Repeated(meta.location));
                }
                Ok(Some(meta)) => {
                    self.after = Some(meta.location.clone());
                    self.failures = 0;
                    return Ok(Some(meta));
                }
                Ok(None) => return Ok(None),
                Err(error) if broke_off(&error) && self.failures < TIMES => {
                    self.failures += 1;
                    self.listing = (self.list)(self.after.as_ref());
                }
                Err(error) => return Err(ListingFault::Error(error)),
            }
        }
    }
}

/// Detects a listing that repeats itself, in constant memory. One object is compared with all later objects. The compared object is
/// replaced after twice as many objects as the previous compared object (Brent, "An improved Monte Carlo factorization algorithm", 1980).
#[derive(Debug, Default)]
struct Repeats {
    compared: Option<Path>,
    /// The number of objects since the compared object.
    since: u64,
    /// The number of objects after which the compared object is replaced.
    term: u64,
}

impl Repeats {
    /// Whether `location` occurred before.
    fn has_repeated(&mut self, location: &Path) -> bool {
        if self.compared.as_ref() == Some(location) {
            return true;
        }
        self.since += 1;
        if self.since >= self.term {
            self.compared = Some(location.clone());
            self.term = (2 * self.since).max(1);
            self.since = 0;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::stream::StreamExt;
    use object_store::client::{HttpError, HttpErrorKind};

    use super::*;

    /// Lists ten objects. The first `faults` listings break off after two objects, or before the first object if `stuck`.
    fn list(
        begun: Arc<AtomicUsize>,
        faults: usize,
        stuck: bool,
    ) -> ResumedListing<impl Fn(Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>>> {
        let list = move |after: Option<&Path>| {
            let breaks = begun.fetch_add(1, Ordering::Relaxed) < faults;
            let next = after.map_or(0, |after| after.to_string().parse::<u64>().unwrap() + 1);
            let end = if breaks { next + 2 * u64::from(!stuck) } else { 10 };
            let metas = (next..end.min(10)).map(|number| {
                let location = Path::from(number.to_string());
                Ok(ObjectMeta {
                    location,
                    last_modified: Default::default(),
                    size: 1,
                    e_tag: None,
                    version: None,
                })
            });
            let error = HttpError::new(HttpErrorKind::Decode, std::io::Error::other("broken"));
            let fault =
                breaks.then(|| Err(object_store::Error::Generic { store: "test", source: error.into() }));
            stream::iter(metas.chain(fault).collect::<Vec<_>>()).boxed()
        };
        ResumedListing::new(list, None)
    }

    #[tokio::test]
    async fn a_listing_that_breaks_off_continues_after_its_last_object() {
        let begun = Arc::new(AtomicUsize::new(0));
        let metas: Vec<ObjectMeta> =
            list(Arc::clone(&begun), 4, false).into_stream().try_collect().await.unwrap();
        let names: Vec<String> = metas.iter().map(|meta| meta.location.to_string()).collect();
        assert_eq!(names, (0..10).map(|number| number.to_string()).collect::<Vec<_>>());
        assert_eq!(begun.load(Ordering::Relaxed), 5);
    }

    #[tokio::test]
    async fn a_listing_that_breaks_off_without_progress_ends() {
        let begun = Arc::new(AtomicUsize::new(0));
        let ended: Result<Vec<ObjectMeta>, _> =
            list(Arc::clone(&begun), usize::MAX, true).into_stream().try_collect().await;
        assert!(matches!(ended, Err(ListingFault::Error(error)) if error.to_string().contains("broken")));
        assert_eq!(begun.load(Ordering::Relaxed), 1 + TIMES);
    }

    #[test]
    fn repetitions_of_any_length_are_detected() {
        let path = |i: usize| Path::from(format!("{i}"));
        let mut line = Repeats::default();
        assert!(!(0..5_000).any(|i| line.has_repeated(&path(i))));
        for (before, circle) in [(0, 1), (0, 2), (3, 5), (1_000, 1_500), (10, 700)] {
            let mut repeats = Repeats::default();
            let keys = (0..before).chain((0..).map(|i| before + i % circle));
            let noticed = keys.take(10 * (before + circle)).position(|i| repeats.has_repeated(&path(i)));
            assert!(noticed.is_some_and(|at| at >= before + circle), "{before} {circle} {noticed:?}");
        }
    }
}
