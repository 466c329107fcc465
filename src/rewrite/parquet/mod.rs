//! Rewrites Parquet files. Kept rows keep the values of every column, except for passages that are cut out of texts. Rows are copied as
//! physical values with their levels, by row group and by leaf column (`leaves`). The schema and the key-value metadata of the file are
//! kept. Values are not interpreted, so every type can be copied. Added columns are additional leaf columns (`added`).

mod added;
mod blocking;
mod leaves;

use std::ops::Range;
use std::sync::Arc;

use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::writer::SerializedFileWriter;
use tokio_util::sync::CancellationToken;

use self::added::Added;
use self::blocking::{UploadWriter, WINDOW, Waiter, WindowedFile};
use self::leaves::{FileNames, LeafCopy, TextLeaf};
use super::decisions::Decisions;
use super::work::{
    DocumentCounts, Rejects, RewriteSettings, RowDestination, WrittenFile, rejected_path, written,
};
use crate::error::guard::guarded;
use crate::error::{Context, Error, Result};
use crate::output::upload::Upload;
use crate::source::{FileBytes, ParquetFile, RowSet, SourceFile};

/// Writes the kept rows in a file, and the rejects if they are separate. Returns the counts and the written files.
pub(super) async fn write(
    work: &RewriteSettings,
    file: &SourceFile,
    path: &str,
    expected: DocumentCounts,
    bytes: FileBytes,
) -> Result<(DocumentCounts, Vec<WrittenFile>)> {
    let parquet = Arc::new(ParquetFile::open(&work.session, file).await?);
    let kept = CopiedRows::Kept(work.decisions.clone(), work.rejects);
    let (kept, ChosenRows { counts, rejected }) = copy(work, &parquet, path.to_owned(), kept, bytes).await?;
    let mut files = vec![kept];
    if work.rejects.are_separate(expected) {
        let (path, rejected) = (rejected_path(path), CopiedRows::Rejected(rejected));
        files.push(copy(work, &parquet, path, rejected, FileBytes::new(&work.read, 0)).await?.0);
    }
    parquet.check().await?;
    Ok((counts, files))
}

/// Writes the selected rows of a file. Only kept rows are changed by decisions.
async fn copy(
    work: &RewriteSettings,
    parquet: &Arc<ParquetFile>,
    inside: String,
    wanted: CopiedRows,
    bytes: FileBytes,
) -> Result<(WrittenFile, ChosenRows)> {
    let upload = work.target.upload(&inside).await?;
    // Dropping this future stops the thread.
    let stop = CancellationToken::new();
    let _stop_when_dropped = stop.clone().drop_guard();
    let waiter = Waiter::new(&stop);
    let target = format!("{}/{inside}", work.target.shown());
    let file = Arc::clone(parquet);
    let source = file.path().to_owned();
    let is_kept = matches!(wanted, CopiedRows::Kept(..));
    let added = (is_kept && !work.annotations.is_empty()).then(|| Added {
        annotations: Arc::clone(&work.annotations),
        id: work.id,
        decisions: work.decisions_of_columns.clone(),
    });
    let text = if is_kept && work.cuts {
        let own = file.metadata.file_metadata().schema_descr();
        Some(TextLeaf::find(own, &work.text, &source, work.decisions_of_texts.clone(), &waiter)?)
    } else {
        None
    };
    let copy = move || {
        // Turns a panic in the library into an error about the file.
        guarded(|| copied(&file, &wanted, (added, text), upload, (&waiter, bytes), target))
            .context(|| format!("reading {} failed", file.path()))
            .flatten()
    };
    let (upload, rows, chosen) = match tokio::task::spawn_blocking(copy).await {
        Ok(copied) => copied?,
        Err(error) => return Err(Error::bug(format!("the thread that copies {source} ended")).because(error)),
    };
    Ok((written(upload, rows).await?, chosen))
}

/// Writes the selected rows on this thread. Returns the upload, the number of rows, and the chosen rows.
fn copied(
    file: &Arc<ParquetFile>,
    wanted: &CopiedRows,
    (added, mut text): (Option<Added>, Option<TextLeaf>),
    upload: Upload,
    (waiter, mut bytes): (&Waiter, FileBytes),
    target: String,
) -> Result<(Upload, u64, ChosenRows)> {
    let names = FileNames { source: file.path(), target };
    let writing = || names.writing();
    let about = file.metadata.file_metadata();
    let own = about.schema_descr();
    let pairs = about.key_value_metadata().cloned();
    let (schema, pairs) = match &added {
        None => (own.root_schema_ptr(), pairs),
        Some(added) => {
            let pairs = pairs.map(|pairs| added.extended(pairs));
            (added.schema(own.root_schema())?, pairs)
        }
    };
    let properties = Arc::new(added::properties(&file.metadata, pairs, text.as_ref().map(|text| text.leaf)));
    let (input, output) =
        (WindowedFile::new(Arc::clone(file), waiter.clone()), UploadWriter::new(upload, waiter.clone()));
    let writers = added.as_ref().map(|added| added.writers(&properties)).transpose()?;
    let mut writer = SerializedFileWriter::new(output, schema, properties).context(writing)?;
    let (mut rows, mut chosen) = (0, ChosenRows::default());
    let choose = |rows: Range<u64>| wanted.runs(file.path(), rows, waiter, &mut chosen);
    for parts in groups(&file.metadata, choose) {
        let parts = parts?;
        let mut group = writer.next_row_group().context(writing)?;
        for leaf in 0..own.num_columns() {
            let Some(mut column) = group.next_column().context(writing)? else {
                return Err(Error::bug(format!("{} has fewer columns than its source", names.target)));
            };
            for part in &parts {
                let group = file.metadata.row_group(part.group);
                let copy = LeafCopy { group, first: part.first, runs: &part.runs, leaf, names: &names };
                leaves::copy(&copy, &input, text.as_mut(), column.untyped())?;
                bytes.add(group.column(leaf).compressed_size().max(0).cast_unsigned());
            }
            column.close().context(writing)?;
        }
        if let (Some(added), Some(writers)) = (&added, &writers) {
            let positions = parts.iter().flat_map(RowGroupPart::positions);
            for chunk in added.encoded(writers, file.path(), positions, waiter)? {
                chunk.append_to_row_group(&mut group).context(writing)?;
            }
        }
        rows += group.close().context(writing)?.num_rows().cast_unsigned();
    }
    let output = writer.into_inner().context(writing)?;
    Ok((output.end()?, rows, chosen))
}

enum CopiedRows {
    Kept(Decisions, Rejects),
    /// The rejects, which are written to a separate file.
    Rejected(RowSet),
}

/// The result of the decisions about the rows of a file.
#[derive(Default)]
struct ChosenRows {
    pub counts: DocumentCounts,
    /// The rows for the file of separate rejects.
    pub rejected: RowSet,
}

impl CopiedRows {
    /// Returns the selected rows among `rows` in the file `path`, as ranges relative to the first row of `rows`.
    fn runs(
        &self,
        path: &str,
        rows: Range<u64>,
        waiter: &Waiter,
        chosen: &mut ChosenRows,
    ) -> Result<Vec<Range<u64>>> {
        let (decisions, rejects) = match self {
            Self::Kept(decisions, rejects) => (decisions, rejects),
            Self::Rejected(set) => {
                let inside = set.within(rows.clone());
                return Ok(inside.runs().map(|run| run.start - rows.start..run.end - rows.start).collect());
            }
        };
        waiter.wait(async {
            let mut runs: Vec<Range<u64>> = Vec::new();
            for row in rows.clone() {
                let action = decisions.at(path, row).await?.action;
                chosen.counts.count(action);
                let at = row - rows.start;
                match (rejects.destination(action), runs.last_mut()) {
                    (RowDestination::Kept, Some(run)) if run.end == at => run.end += 1,
                    (RowDestination::Kept, _) => runs.push(at..at + 1),
                    (RowDestination::Rejected, _) => chosen.rejected.insert(row),
                    (RowDestination::Nowhere, _) => {}
                }
            }
            Ok(runs)
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct RowGroupPart {
    pub group: usize,
    /// The position in the file of the row group's first row.
    pub first: u64,
    /// The selected rows, as ranges relative to the start of the row group.
    pub runs: Vec<Range<u64>>,
}

impl RowGroupPart {
    fn rows(&self) -> u64 {
        self.runs.iter().map(|run| run.end - run.start).sum()
    }

    /// Returns the positions in the file of the selected rows.
    fn positions(&self) -> impl Iterator<Item = u64> + '_ {
        self.runs.iter().flat_map(|run| self.first + run.start..self.first + run.end)
    }
}

/// Returns the row groups to write, each with its parts. The selected rows of a row group in the file become a row group. Small consecutive
/// row groups are merged, up to the number of rows in the largest row group in the file. No row group is empty. `runs` selects rows in a
/// range of positions, and returns ranges relative to the first position.
fn groups<'a>(
    metadata: &'a ParquetMetaData,
    mut runs: impl FnMut(Range<u64>) -> Result<Vec<Range<u64>>> + 'a,
) -> impl Iterator<Item = Result<Vec<RowGroupPart>>> + 'a {
    let groups = metadata.row_groups();
    let largest = groups.iter().map(rows).max().unwrap_or(0);
    // Sorted row groups are not merged, because the merged rows would not be sorted.
    let sorted =
        groups.iter().any(|group| group.sorting_columns().is_some_and(|columns| !columns.is_empty()));
    let firsts = groups.iter().scan(0, |next, group| {
        let first = *next;
        *next += rows(group);
        Some(first)
    });
    let mut parts = groups
        .iter()
        .zip(firsts)
        .enumerate()
        .map(move |(at, (group, first))| {
            Ok::<_, Error>(RowGroupPart { group: at, first, runs: runs(first..first + rows(group))? })
        })
        .filter(|part| part.as_ref().map_or(true, |part: &RowGroupPart| !part.runs.is_empty()))
        .peekable();
    std::iter::from_fn(move || {
        let first = match parts.next()? {
            Ok(first) => first,
            Err(error) => return Some(Err(error)),
        };
        let (mut rows, mut bytes) = (first.rows(), bytes(&groups[first.group]));
        let mut together = vec![first];
        // Merged row groups must fit into the window through which the file is read.
        let fits = |next: &RowGroupPart, rows: u64, bytes: u64| {
            !sorted && rows + next.rows() <= largest && bytes + self::bytes(&groups[next.group]) <= WINDOW
        };
        while let Some(Ok(next)) =
            parts.next_if(|next| next.as_ref().is_ok_and(|next| fits(next, rows, bytes)))
        {
            rows += next.rows();
            bytes += self::bytes(&groups[next.group]);
            together.push(next);
        }
        Some(Ok(together))
    })
}

fn rows(group: &RowGroupMetaData) -> u64 {
    group.num_rows().max(0).cast_unsigned()
}

fn bytes(group: &RowGroupMetaData) -> u64 {
    group.compressed_size().max(0).cast_unsigned()
}
