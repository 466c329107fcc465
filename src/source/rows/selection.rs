//! Sets of documents to read from a source.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::cast::{as_string_array, as_uint64_array};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::prelude::{DataFrame, Expr, cast, col};
use futures::TryStreamExt;
use object_store::ObjectStoreExt;
use object_store::path::Path;
use serde::{Deserialize, Serialize};

use crate::error::counts::plural;
use crate::error::{Context, Error, Result};

/// A set of row numbers of a file, as bits in 64-bit words.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RowSet {
    /// The row of the lowest bit of the first word, a multiple of 64.
    first: u64,
    words: Arc<Vec<u64>>,
    /// The object that contains the words, if a plan with the words would be too large to be sent: see [`RowSet::load`].
    stored: Option<StoredWords>,
}

/// The range of an object that contains the words of a set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct StoredWords {
    store: String,
    path: String,
    bytes: Range<u64>,
}

const BITS: u64 = 64;

impl RowSet {
    /// Moves the words to `bytes` if there is more than one word. The caller writes `bytes` to the object at `path`.
    #[cfg(feature = "cluster")]
    pub(crate) fn store(&mut self, store: &ObjectStoreUrl, path: &Path, bytes: &mut Vec<u8>) {
        if self.words.len() > 1 {
            let start = bytes.len() as u64;
            bytes.extend(std::mem::take(&mut self.words).iter().flat_map(|word| word.to_le_bytes()));
            let (store, path) = (store.as_str().to_owned(), path.to_string());
            self.stored = Some(StoredWords { store, path, bytes: start..bytes.len() as u64 });
        }
    }

    pub(in crate::source) fn is_stored(&self) -> bool {
        self.stored.is_some()
    }

    pub(in crate::source) async fn load(&mut self, runtime: &RuntimeEnv) -> Result<()> {
        let Some(StoredWords { store, path, bytes }) = self.stored.take() else { return Ok(()) };
        let store = runtime.object_store(ObjectStoreUrl::parse(store)?)?;
        let read = store.get_range(&Path::parse(&path).map_err(object_store::Error::from)?, bytes).await;
        let read = read.context(|| format!("the rows to be read, in {path}, cannot be read"))?;
        let words = read.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
        self.words = Arc::new(words.collect());
        Ok(())
    }

    pub(crate) fn insert(&mut self, row: u64) {
        let word = (row / BITS) as usize;
        let words = Arc::make_mut(&mut self.words);
        if words.len() <= word {
            words.resize(word + 1, 0);
        }
        words[word] |= 1 << (row % BITS);
    }

    pub(crate) fn contains(&self, row: u64) -> bool {
        self.word(row / BITS) >> (row % BITS) & 1 == 1
    }

    pub(crate) fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Returns the first row that is at least `row`.
    pub(crate) fn next(&self, row: u64) -> Option<u64> {
        self.find(row, |word| word)
    }

    pub(crate) fn last(&self) -> Option<u64> {
        let word = self.words.iter().rposition(|word| *word != 0)?;
        let bit = BITS - 1 - u64::from(self.words[word].leading_zeros());
        Some(self.first + word as u64 * BITS + bit)
    }

    pub(crate) fn within(&self, rows: Range<u64>) -> RowSet {
        let words = rows.start / BITS..rows.end.div_ceil(BITS).max(rows.start / BITS);
        let first = words.start * BITS;
        let inside = |at: u64| {
            let (low, high) = (rows.start.max(at), rows.end.min(at + BITS));
            if low >= high { 0 } else { u64::MAX >> (BITS - (high - low)) << (low - at) }
        };
        let words = words.map(|word| self.word(word) & inside(word * BITS)).collect();
        RowSet { first, words: Arc::new(words), stored: None }
    }

    /// Returns the maximal runs of consecutive rows, in order.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let end = self.first + self.words.len() as u64 * BITS;
        let mut from = self.first;
        std::iter::from_fn(move || {
            let start = self.next(from)?;
            from = self.find(start, |word| !word).unwrap_or(end);
            Some(start..from)
        })
    }

    /// Returns the first run that starts at `row` or later. Gaps of fewer than `gap` rows do not end a run.
    pub(crate) fn near_run(&self, row: u64, gap: u64) -> Option<Range<u64>> {
        let start = self.next(row)?;
        let mut end = start + 1;
        while let Some(next) = self.next(end).filter(|next| next - end < gap) {
            end = next + 1;
        }
        Some(start..end)
    }

    /// Returns the first row, at least `row`, whose bit is set after `map` was applied to its word.
    fn find(&self, row: u64, map: impl Fn(u64) -> u64) -> Option<u64> {
        let row = row.max(self.first);
        let (mut word, mut hidden) = ((row - self.first) / BITS, u64::MAX << (row % BITS));
        while let Some(bits) = self.words.get(word as usize) {
            let bits = map(*bits) & hidden;
            if bits != 0 {
                return Some(self.first + word * BITS + u64::from(bits.trailing_zeros()));
            }
            (word, hidden) = (word + 1, u64::MAX);
        }
        None
    }

    /// Returns the bits of the 64 rows that start at `64 * number`.
    fn word(&self, number: u64) -> u64 {
        let at = number.checked_sub(self.first / BITS);
        at.and_then(|at| self.words.get(at as usize)).copied().unwrap_or(0)
    }
}

/// Returns the error for a file with wanted documents that is not listed.
pub(in crate::source) fn missing(file: &str) -> Error {
    Error::input(format!(
        "{file} is missing, but one of its documents must be read again: bring the file back, or run the job again"
    ))
}

/// The wanted documents of a source: the rows of each file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection(BTreeMap<String, RowSet>);

impl Selection {
    /// Adds the document at `position` of the file `source`.
    pub fn insert(&mut self, source: &str, position: u64) {
        match self.0.get_mut(source) {
            Some(rows) => rows.insert(position),
            None => self.0.entry(source.to_owned()).or_default().insert(position),
        }
    }

    pub(in crate::source) fn sources(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub(crate) fn rows(&self, source: &str) -> Option<&RowSet> {
        self.0.get(source)
    }
}

/// Wanted documents of several sources, by origin. The origin is the number of the source. Two sources may read different columns of one
/// file, so a file and a row do not identify a document.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DocumentPlaces(BTreeMap<u64, Selection>);

impl DocumentPlaces {
    /// Returns the documents in `frame` (source, position: UInt64, ..). `origin` is the expression for the origin of each document.
    pub(crate) async fn from_frame(frame: DataFrame, origin: Expr) -> Result<Self> {
        let columns = vec![
            cast(origin, DataType::UInt64),
            cast(col("source"), DataType::Utf8),
            cast(col("position"), DataType::UInt64),
        ];
        let mut rows = frame.select(columns)?.execute_stream().await?;
        let mut places = DocumentPlaces::default();
        while let Some(batch) = rows.try_next().await? {
            let (origins, sources) = (as_uint64_array(batch.column(0))?, as_string_array(batch.column(1))?);
            let places_of_rows = origins.values().iter().zip(sources.iter().flatten());
            for ((origin, source), position) in places_of_rows.zip(as_uint64_array(batch.column(2))?.values())
            {
                places.insert(*origin, source, *position);
            }
        }
        Ok(places)
    }

    pub(crate) fn insert(&mut self, origin: u64, source: &str, position: u64) {
        self.0.entry(origin).or_default().insert(source, position);
    }

    /// Returns the documents. If there are none, adds an empty selection for the source `origin`.
    pub(crate) fn or_none_in(mut self, origin: u64) -> Self {
        if self.0.is_empty() {
            self.0.insert(origin, Selection::default());
        }
        self
    }

    pub(in crate::source) fn take(&mut self, origin: u64) -> Option<Selection> {
        self.0.remove(&origin)
    }

    /// Fails with `Kind::Bug` unless [`Self::take`] has removed all documents. The origin of a remaining document belongs to no source.
    pub(in crate::source) fn all_taken(&self) -> Result<()> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(origin) => Err(Error::bug(format!("no source has the number {origin}"))),
        }
    }
}

/// Returns the error for a file that has only `rows` documents, although document number `last` is needed.
pub(in crate::source) fn too_few(source: &str, rows: u64, last: u64) -> Error {
    Error::input(format!(
        "{source} has {rows} {}, but number {last}, counted from 0, must be read again: the file was changed, \
         so run the job again",
        plural(rows, "document")
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_set_of_rows(
            rows in prop::collection::btree_set(0u64..400, 0..120),
            start in 0u64..450,
            length in 0u64..450,
        ) {
            let mut set = RowSet::default();
            rows.iter().for_each(|row| set.insert(*row));
            for (set, rows) in [
                (set.clone(), rows.clone()),
                (set.within(start..start + length), rows.range(start..start + length).copied().collect()),
            ] {
                prop_assert_eq!(set.runs().flatten().collect::<BTreeSet<_>>(), rows.clone());
                // Two rows are near if fewer than three other rows are between them.
                let mut near: BTreeSet<u64> = rows.clone();
                for (one, next) in rows.iter().zip(rows.iter().skip(1)) {
                    near.extend((*one..*next).filter(|_| next - one <= 3));
                }
                let mut from = 0;
                let near_runs = std::iter::from_fn(|| set.near_run(from, 3).inspect(|run| from = run.end));
                prop_assert_eq!(near_runs.flatten().collect::<BTreeSet<_>>(), near);
                prop_assert!(set.runs().zip(set.runs().skip(1)).all(|(a, b)| a.end < b.start), "runs are longest");
                prop_assert_eq!((set.count(), set.last()), (rows.len() as u64, rows.last().copied()));
                for row in 0..500 {
                    prop_assert_eq!(set.contains(row), rows.contains(&row));
                    prop_assert_eq!(set.next(row), rows.range(row..).next().copied());
                }
            }
        }
    }

    /// Sets with several words go into one object. Other sets do not change.
    #[cfg(feature = "cluster")]
    #[tokio::test]
    async fn sets_in_an_object_are_loaded() {
        let set = |rows: &[u64]| {
            let mut set = RowSet::default();
            rows.iter().for_each(|row| set.insert(*row));
            set
        };
        let whole = [set(&[3, 64, 700]), set(&[5]), set(&[1, 900]).within(64..1_000), RowSet::default()];
        let (store, path) = (ObjectStoreUrl::parse("memory://rows").unwrap(), Path::from("a b/%/rows"));
        let (mut sets, mut bytes) = (whole.clone(), Vec::new());
        sets.iter_mut().for_each(|set| set.store(&store, &path, &mut bytes));
        assert_eq!(sets.each_ref().map(RowSet::is_stored), [true, false, true, false]);
        let (runtime, objects) = (RuntimeEnv::default(), Arc::new(object_store::memory::InMemory::new()));
        runtime.register_object_store(store.as_ref(), objects.clone());
        objects.put(&path, bytes.into()).await.unwrap();
        for (set, whole) in sets.iter_mut().zip(&whole) {
            set.load(&runtime).await.unwrap();
            assert_eq!(set, whole);
        }
    }

    #[test]
    fn each_file_has_its_own_rows() {
        let mut wanted = Selection::default();
        for (source, position) in [("a", 7), ("b", 0), ("a", 9)] {
            wanted.insert(source, position);
        }
        assert_eq!(wanted.rows("a").unwrap().runs().collect::<Vec<_>>(), [7..8, 9..10]);
        assert_eq!(wanted.rows("b").map(RowSet::count), Some(1));
        assert_eq!(wanted.rows("c"), None);
    }
}
