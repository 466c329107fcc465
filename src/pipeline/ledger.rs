//! The decisions of people about pairs, from a file and from earlier outputs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray, UInt64Array};
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::logical_expr::ident;
use datafusion::prelude::{DataFrame, SessionContext};
use object_store::ObjectStoreExt;

use super::reference::chain::Chain;
use crate::clusters::Components;
use crate::error::visible::visible;
use crate::error::{Context, Error, Result};
use crate::frames::utf8;
use crate::job::{Clusters, InputFile, Job};
use crate::kernel::hash::document_key;
use crate::output::manifest::DecisionsFile;
use crate::source::table_file;

/// The verdicts.
pub(crate) const SAME: &str = "same";
pub(crate) const DIFFERENT: &str = "different";

/// The columns of a file of decisions.
const COLUMNS: [&str; 3] = ["id_a", "id_b", "verdict"];

/// The decisions of a run. The default contains no decision.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// The file in the job, if it names one.
    pub(crate) file: Option<DecisionsFile>,
    /// The verdict on each pair of ids, the smaller id first: whether both are the same.
    verdicts: BTreeMap<[String; 2], bool>,
    /// The unit of each document, by key. Documents that are the same form a unit, whose number is the smallest key in it.
    units: BTreeMap<u64, u64>,
}

impl Ledger {
    /// Reads the decisions of a job and of the `earlier` outputs that it names. Returns `None` if there are none and the job names no file.
    ///
    /// Fails with `Kind::Input` if the file cannot be read or has a wrong row, or if decisions contradict each other. The message names the
    /// ids.
    pub(crate) async fn read(
        session: &SessionContext,
        job: &Job,
        earlier: Option<&Chain>,
    ) -> Result<Option<Self>> {
        let named = job.clusters.decisions.as_deref();
        let mut ledger = Self::default();
        for decisions in earlier.map(Chain::decisions).transpose()?.unwrap_or_default() {
            let rows = decisions.select(["document_a", "document_b", "verdict"].map(utf8).to_vec())?;
            for [a, b, verdict] in texts(rows).await? {
                // A later output decides.
                ledger.verdicts.insert([a, b], verdict == SAME);
            }
        }
        if let Some(file) = named.filter(|file| *file != Clusters::EARLIER) {
            ledger.add_file(session, file).await?;
        } else if named.is_none() && ledger.verdicts.is_empty() {
            return Ok(None);
        }
        let forgotten = job.source.forgotten.iter().flat_map(|forgotten| forgotten.ids.iter());
        let forgotten: BTreeSet<&str> = forgotten.map(|(id, _)| id).collect();
        ledger.verdicts.retain(|ids, _| ids.iter().all(|id| !forgotten.contains(id.as_str())));
        ledger.connect()?;
        Ok(Some(ledger))
    }

    async fn add_file(&mut self, session: &SessionContext, file: &str) -> Result<()> {
        let table = table_file(session, file, ("clusters.decisions", "decisions")).await?;
        if let Some(missing) =
            COLUMNS.iter().find(|name| table.schema().as_arrow().column_with_name(name).is_none())
        {
            return Err(Error::input(format!(
                "{file} lacks the column {missing}: expected decisions with the columns id_a, id_b and verdict"
            )));
        }
        let table = table.select(COLUMNS.map(ident).to_vec())?.select(COLUMNS.map(utf8).to_vec())?;
        let mut own = BTreeMap::new();
        for [a, b, verdict] in texts(table).await? {
            let wrong = |fault: &str| Error::input(format!("{file}: {fault}"));
            let is_same = match verdict.trim().to_lowercase().as_str() {
                SAME => true,
                DIFFERENT => false,
                "" | "unsure" => continue,
                _ => {
                    let (a, b, verdict) = (visible(&a), visible(&b), visible(&verdict));
                    return Err(wrong(&format!(
                        "the verdict on `{a}` and `{b}` is \"{verdict}\": expected same, different or unsure, or nothing"
                    )));
                }
            };
            let [a, b] = [a, b].map(|id| without_quote(&id));
            if a.is_empty() || b.is_empty() || a == b {
                return Err(wrong(&format!(
                    "a row names `{}` and `{}`: expected the ids of two documents",
                    visible(&a),
                    visible(&b)
                )));
            }
            let ids = if a < b { [a, b] } else { [b, a] };
            if own.insert(ids.clone(), is_same).is_some_and(|before| before != is_same) {
                return Err(wrong(&format!(
                    "`{}` and `{}` are both the same and different: keep one of the rows",
                    ids[0], ids[1]
                )));
            }
        }
        let bytes = bytes(session, file)
            .await
            .context(|| format!("{file} cannot be read as a table of decisions"))?;
        self.file = Some(DecisionsFile {
            file: file.to_owned(),
            decisions: own.len() as u64,
            bytes: bytes.len() as u64,
            crc32: crc32fast::hash(&bytes),
        });
        self.verdicts.extend(own);
        Ok(())
    }

    /// Finds the units. Fails if two documents of a unit are different.
    fn connect(&mut self) -> Result<()> {
        let mut components = Components::default();
        for (ids, is_same) in &self.verdicts {
            let [a, b] = ids.each_ref().map(|id| document_key(id));
            // Joins a document with itself to give it a unit of its own.
            components.join(a, if *is_same { b } else { a });
            components.join(b, b);
        }
        let (docs, units) = components.roots(0..usize::MAX);
        self.units = docs.into_iter().zip(units).collect();
        let unit = |id: &str| self.units.get(&document_key(id));
        match self.verdicts.iter().find(|(ids, is_same)| !**is_same && unit(&ids[0]) == unit(&ids[1])) {
            None => Ok(()),
            Some((ids, _)) => Err(self.contradiction(ids)),
        }
    }

    /// The error for two documents of a unit that are different. It names the shortest chain of decisions between them.
    fn contradiction(&self, [from, to]: &[String; 2]) -> Error {
        let mut next: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for ([a, b], _) in self.verdicts.iter().filter(|(_, is_same)| **is_same) {
            next.entry(a).or_default().push(b);
            next.entry(b).or_default().push(a);
        }
        let (mut before, mut ahead) =
            (BTreeMap::from([(to.as_str(), to.as_str())]), VecDeque::from([to.as_str()]));
        while let Some(id) = ahead.pop_front() {
            for &other in next.get(id).into_iter().flatten() {
                if !before.contains_key(other) {
                    before.insert(other, id);
                    ahead.push_back(other);
                }
            }
        }
        let (mut id, mut same) = (from.as_str(), Vec::new());
        while let Some(&other) = before.get(id).filter(|other| **other != id) {
            same.push(format!("`{}` is the same as `{}`", visible(id), visible(other)));
            id = other;
        }
        Error::input(format!(
            "decisions contradict each other: {}, but `{}` and `{}` are different: change one of these decisions",
            same.join(", "),
            visible(from),
            visible(to)
        ))
    }

    /// Returns the job with the decisions of earlier outputs, if only these apply. Fails with `Kind::Job` if the job cannot have decisions.
    pub(super) fn settled(&self, job: &Job) -> Result<Job> {
        let mut job = job.clone();
        job.clusters.decisions.get_or_insert_with(|| Clusters::EARLIER.to_owned());
        job.check().context(|| "earlier outputs contain decisions, which this job cannot apply".into())?;
        Ok(job)
    }

    /// The file as an input of the fingerprint.
    pub(super) fn input(&self) -> Option<InputFile> {
        self.file.as_ref().map(DecisionsFile::input)
    }

    /// Returns one row for each document (doc, unit), each pair of different units (one, other) in both orders, and each pair of documents
    /// that are the same (a, b). The other columns are null.
    pub(super) fn rows(&self, session: &SessionContext) -> Result<DataFrame> {
        let mut pairs: [BTreeSet<(u64, u64)>; 2] = Default::default();
        for (ids, is_same) in &self.verdicts {
            let [a, b] = ids.each_ref().map(|id| document_key(id));
            if *is_same {
                pairs[0].insert((a.min(b), a.max(b)));
            } else {
                let [one, other] = [a, b].map(|doc| self.units.get(&doc).copied().unwrap_or(doc));
                pairs[1].extend([(one, other), (other, one)]);
            }
        }
        let [same, different] = pairs.map(|pairs| pairs.into_iter().collect::<Vec<_>>());
        let units: Vec<_> = self.units.iter().map(|(doc, unit)| (*doc, *unit)).collect();
        let all = [units, different, same];
        let column = |kind: usize, value: fn(&(u64, u64)) -> u64| {
            let rows = all.iter().enumerate();
            let values =
                rows.flat_map(|(at, rows)| rows.iter().map(move |row| (at == kind).then(|| value(row))));
            Arc::new(values.collect::<UInt64Array>()) as ArrayRef
        };
        let names = [["doc", "unit"], ["one", "other"], ["a", "b"]];
        let columns = names.into_iter().enumerate().flat_map(|(kind, [first, second])| {
            [(first, column(kind, |row| row.0), true), (second, column(kind, |row| row.1), true)]
        });
        Ok(session.read_batch(RecordBatch::try_from_iter_with_nullable(columns)?)?)
    }

    /// Returns the decisions (document_a, document_b, verdict, low, high), with the keys of both documents in ascending order.
    pub(super) fn table(&self, session: &SessionContext) -> Result<DataFrame> {
        let text = |at: usize| {
            Arc::new(StringArray::from_iter_values(self.verdicts.keys().map(|ids| &ids[at]))) as ArrayRef
        };
        let verdicts = self.verdicts.values().map(|is_same| if *is_same { SAME } else { DIFFERENT });
        let key = |choose: fn(u64, u64) -> u64| {
            let keys = self.verdicts.keys().map(|ids| choose(document_key(&ids[0]), document_key(&ids[1])));
            Arc::new(UInt64Array::from_iter_values(keys)) as ArrayRef
        };
        let columns: [(&str, ArrayRef); 5] = [
            ("document_a", text(0)),
            ("document_b", text(1)),
            ("verdict", Arc::new(StringArray::from_iter_values(verdicts))),
            ("low", key(u64::min)),
            ("high", key(u64::max)),
        ];
        Ok(session.read_batch(RecordBatch::try_from_iter(columns)?)?)
    }

    /// Returns the ids in the decisions with these keys, sorted.
    pub(super) fn ids(&self, keys: &[u64]) -> Vec<&str> {
        let ids: BTreeSet<&str> = self.verdicts.keys().flatten().map(String::as_str).collect();
        ids.into_iter().filter(|id| keys.contains(&document_key(id))).collect()
    }
}

/// Removes the quote that the file of an audit writes before an id that a spreadsheet would read as a formula.
pub(crate) fn without_quote(id: &str) -> String {
    let formula = id.strip_prefix('\'').filter(|rest| rest.starts_with(['=', '+', '-', '@', '\t', '\r']));
    formula.unwrap_or(id).to_owned()
}

/// Returns the rows of three columns of texts. A null is an empty text.
async fn texts(rows: DataFrame) -> Result<Vec<[String; 3]>> {
    let mut texts = Vec::new();
    for batch in rows.collect().await? {
        let columns = [0, 1, 2].map(|at| batch.column(at).as_string::<i32>());
        texts.extend((0..batch.num_rows()).map(|row| columns.map(|column| column.value(row).to_owned())));
    }
    Ok(texts)
}

async fn bytes(session: &SessionContext, file: &str) -> Result<Vec<u8>> {
    let url = ListingTableUrl::parse(file)?;
    let store = session.runtime_env().object_store(&url)?;
    Ok(store.get(url.prefix()).await?.bytes().await?.to_vec())
}
