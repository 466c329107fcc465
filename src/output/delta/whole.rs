//! A Delta table that is written once and whole: the one commit of a folder of Parquet files that no run replaces.

use std::collections::BTreeMap;

use arrow::datatypes::Schema;
use uuid::Builder;
use xxhash_rust::xxh3::xxh3_128;

use super::action::{Action, Add, CommitInfo, Format, MetaData, Protocol, encoded};
use super::commit::lines;
use super::log::{FOLDER, actions};
use super::schema::schema_string;
use crate::error::{Error, Result};
use crate::output::Layout;

/// A file of such a table.
pub(crate) struct WholeFile {
    /// Its path inside the table's folder.
    pub path: String,
    pub rows: u64,
    pub bytes: u64,
}

/// Puts the log of the table in `folder` of an output, whose files are there. The commit of an earlier attempt is replaced, unless
/// something follows it. `key` tells this table from all others.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) where Delta cannot hold a column, somebody else wrote to the log, or the store refuses.
pub(crate) async fn put_whole(
    output: &Layout,
    folder: &str,
    schema: &Schema,
    files: &[WholeFile],
    key: &str,
) -> Result<()> {
    let schema_string = schema_string(schema)
        .map_err(|why| Error::input(format!("{folder} cannot be a Delta table: {why}")))?;
    let mut modified = BTreeMap::new();
    for meta in output.list(folder).await? {
        let at = meta.last_modified.timestamp_millis();
        modified.extend(output.inside(&meta.location).map(|inside| (inside, at)));
    }
    let at = |file: &WholeFile| modified.get(&format!("{folder}/{}", file.path)).copied().unwrap_or_default();
    // There is no other clock than that of the files.
    let newest = files.iter().map(at).max().unwrap_or_default();
    let id = Builder::from_random_bytes(xxh3_128(format!("{key} {folder}").as_bytes()).to_be_bytes());
    let id = id.into_uuid().to_string();
    let meta_data = MetaData {
        id: id.clone(),
        name: None,
        description: None,
        format: Format { provider: "parquet".into(), options: BTreeMap::new() },
        schema_string,
        partition_columns: Vec::new(),
        configuration: BTreeMap::new(),
        created_time: Some(newest),
    };
    let info = CommitInfo { resemblance_manifest: None, ..CommitInfo::new(newest, key) };
    let mut actions = vec![
        Action { commit_info: Some(info), ..Action::default() },
        Action { protocol: Some(Protocol::of(schema, None)), ..Action::default() },
        Action { meta_data: Some(meta_data), ..Action::default() },
    ];
    actions.extend(files.iter().map(|file| {
        let add = Add {
            path: encoded(&file.path),
            partition_values: BTreeMap::new(),
            size: file.bytes,
            modification_time: at(file),
            data_change: true,
            stats: Some(serde_json::json!({"numRecords": file.rows}).to_string()),
        };
        Action { add: Some(add), ..Action::default() }
    }));
    let commit = format!("{folder}/{FOLDER}/{:020}.json", 0);
    let bytes = lines(&actions)?;
    let log = output.entries(&format!("{folder}/{FOLDER}")).await?;
    if let Some(other) = log.iter().find(|entry| entry.inside != commit && !entry.is_begun()) {
        return Err(cannot_put(output, folder, &other.inside));
    }
    let put = match output.read_bytes(&commit).await? {
        None => output.create_whole(&commit, bytes).await?,
        // An earlier attempt put it, and was killed before its manifest: it names files that are gone.
        Some((found, version)) if is_of(&found, &id) => {
            output.replace_bytes(&commit, bytes, &found, &version).await?
        }
        Some(_) => return Err(cannot_put(output, folder, &commit)),
    };
    match put {
        true => Ok(()),
        false => Err(Error::input(format!(
            "another process wrote {commit} to {}: let only one process at a time write there",
            output.shown()
        ))),
    }
}

fn cannot_put(output: &Layout, folder: &str, inside: &str) -> Error {
    let shown = output.shown().trim_end_matches('/');
    Error::input(format!(
        "{shown}/{inside} was not written by this program, so no log of {folder}/ is put beside it: move it away, or choose another \
         folder"
    ))
}

/// Whether a commit is one of ours for the table of this id.
fn is_of(commit: &[u8], id: &str) -> bool {
    let Some(actions) = actions(commit) else { return false };
    let ours = actions.iter().any(|action| action.commit_info.as_ref().is_some_and(CommitInfo::is_ours));
    ours && actions.iter().any(|action| action.meta_data.as_ref().is_some_and(|data| data.id == id))
}

/// Why a table of these columns cannot be a Delta table; `None` if it can.
pub(crate) fn unfit(schema: &Schema) -> Option<String> {
    let mut names: Vec<String> = schema.fields().iter().map(|field| field.name().to_lowercase()).collect();
    names.sort();
    if let Some([name, _]) = names.array_windows::<2>().find(|[a, b]| a == b) {
        return Some(format!(
            "it would have the column `{name}` twice, in letters of other cases: rename one"
        ));
    }
    schema_string(schema).err()
}

/// Whether values of two columns are of one type in a Delta table.
pub(crate) fn same_type(a: &arrow::datatypes::DataType, b: &arrow::datatypes::DataType) -> bool {
    super::schema::kind_of(a) == super::schema::kind_of(b)
}
