//! The log of a folder of Parquet files that is written once, such as that of `apply`: a single commit.

use std::collections::BTreeMap;

use arrow::datatypes::Schema;

use super::commit::table_id;
use crate::delta::{
    Add, CommitInfo, FOLDER, MetaData, Protocol, TableCommit, actions, commit_name, schema_string,
};
use crate::error::{Error, Result};
use crate::output::Layout;

/// A file of such a table.
pub(crate) struct WholeFile {
    /// Its path inside the table's folder.
    pub path: String,
    pub rows: u64,
    pub bytes: u64,
}

/// Puts the log of the table in `folder` of an output, or in the output itself if that is empty, whose files exist. Replaces the
/// commit of an earlier attempt, unless the log has more commits. `key` distinguishes this table from all others.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) where Delta cannot hold a column, another program wrote to the log, or the store
/// refuses.
pub(crate) async fn put_whole(
    output: &Layout,
    folder: &str,
    schema: &Schema,
    files: &[WholeFile],
    key: &str,
) -> Result<()> {
    let schema_string = schema_string(schema).map_err(|why| {
        Error::input(format!("{} cannot be a Delta table: {why}", output.within(folder).shown()))
    })?;
    let modified = last_modified(output, folder).await?;
    let at = |file: &WholeFile| modified.get(&below(folder, &file.path)).copied().unwrap_or_default();
    // Commits use no other clock than that of the files.
    let newest = files.iter().map(at).max().unwrap_or_default();
    let id = table_id(&format!("{key} {folder}"));
    let commit = TableCommit {
        info: CommitInfo::new(newest, None),
        protocol: Protocol::of(schema, None),
        meta_data: MetaData {
            id: id.clone(),
            schema_string,
            created_time: Some(newest),
            ..MetaData::default()
        },
        removes: Vec::new(),
        adds: files.iter().map(|file| Add::new(&file.path, file.rows, file.bytes, at(file))).collect(),
    };
    let bytes = commit.into_bytes()?;
    let log = below(folder, FOLDER);
    let commit = format!("{log}/{}", commit_name(0));
    let log = output.entries(&log).await?;
    if let Some(other) = log.iter().find(|entry| entry.inside != commit) {
        return Err(foreign(output, &other.inside));
    }
    let put = match output.read_bytes(&commit).await? {
        None => output.create_whole(&commit, bytes).await?,
        // An earlier attempt put it, and was killed before its manifest: its files are gone.
        Some((found, version)) if is_of(&found, &id) => {
            output.replace_bytes(&commit, bytes, &found, &version).await?
        }
        Some(_) => return Err(foreign(output, &commit)),
    };
    match put {
        true => Ok(()),
        false => Err(Error::input(format!(
            "another process wrote {commit} to {}: let only one process at a time write there",
            output.shown()
        ))),
    }
}

/// A path below a folder, which is empty for the output itself.
fn below(folder: &str, path: &str) -> String {
    if folder.is_empty() { path.to_owned() } else { format!("{folder}/{path}") }
}

/// When each file in a folder of an output was written, in milliseconds since 1970, by its path inside the output.
pub(super) async fn last_modified(output: &Layout, folder: &str) -> Result<BTreeMap<String, i64>> {
    let listed = output.list(folder).await?;
    let modified = listed.iter().filter_map(|meta| {
        output.inside(&meta.location).map(|inside| (inside, meta.last_modified.timestamp_millis()))
    });
    Ok(modified.collect())
}

fn foreign(output: &Layout, inside: &str) -> Error {
    let shown = output.shown().trim_end_matches('/');
    Error::input(format!(
        "{shown}/{inside} was not written by this program, so its folder gets no Delta log: move it away, or choose another \
         folder"
    ))
}

/// Whether a commit is one of this program for the table of this id.
fn is_of(commit: &[u8], id: &str) -> bool {
    let Some(actions) = actions(commit) else { return false };
    let ours = actions.iter().any(|action| action.commit_info.as_ref().is_some_and(CommitInfo::is_ours));
    ours && actions.iter().any(|action| action.meta_data.as_ref().is_some_and(|data| data.id == id))
}
