//! A Delta table at its newest version, read from its log.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use percent_encoding::percent_decode_str;

use super::action::{Action, MetaData, Protocol, actions};
use super::names::{Names, Unusable};
use super::{checkpoint, features};
use crate::address;
use crate::error::{Context, Error, Result};

/// The folder of a log in that of its table.
const FOLDER: &str = "_delta_log";

/// Files of the log that are read at the same time.
const CONCURRENT: usize = 16;

/// A table at its newest version.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    pub version: u64,
    /// Columns whose values are in the log and not in the files.
    pub partition_columns: Vec<String>,
    /// Sizes of the files, by their paths in the table's folder.
    pub files: BTreeMap<String, u64>,
}

/// Reads the log of the table in the folder `root` of a store, which the user calls `shown`.
///
/// All names in the log's folder are listed, so `_last_checkpoint`, which saves that, has nothing more to say.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) where there is no log, it is damaged, or it asks for what this program does not
/// know.
pub(super) async fn read(store: &Arc<dyn ObjectStore>, root: &Path, shown: &str) -> Result<Snapshot> {
    let shown = shown.trim_end_matches('/');
    let folder = root.clone().join(FOLDER);
    let listed: Vec<ObjectMeta> = store
        .list(Some(&folder))
        .try_collect()
        .await
        .context(|| format!("`{shown}/{FOLDER}` cannot be listed"))?;
    let mut names = Names::default();
    // What lies deeper is of other programs.
    let inside = listed.iter().filter(|meta| meta.location.parts_count() == folder.parts_count() + 1);
    inside.filter_map(|meta| meta.location.filename()).for_each(|name| names.add(name));
    let needed = names.needed().map_err(|why| unusable(shown, why))?;

    let get = async |name: String| -> Result<(String, Bytes)> {
        let failed = || format!("{shown}/{FOLDER}/{name} cannot be read");
        let bytes = store.get(&folder.clone().join(name.as_str())).await.context(failed)?.bytes().await;
        bytes.context(failed).map(|bytes| (format!("{shown}/{FOLDER}/{name}"), bytes))
    };
    let mut table = Table::default();
    for name in needed.checkpoint {
        let (name, bytes) = get(name).await?;
        table.apply(checkpoint::read(bytes, &name).await?, shown)?;
    }
    let mut commits = stream::iter(needed.commits).map(get).buffered(CONCURRENT);
    while let Some((name, bytes)) = commits.try_next().await? {
        let Some(actions) = actions(&bytes) else {
            return Err(Error::input(format!("{name} is not a commit of a Delta log: restore it")));
        };
        table.apply(actions, shown)?;
    }
    table.snapshot(needed.version, shown)
}

/// What the actions up to some version say.
#[derive(Default)]
struct Table {
    protocol: Option<Protocol>,
    meta_data: Option<MetaData>,
    /// Size, and whether some rows are deleted, by path.
    files: BTreeMap<String, (u64, bool)>,
}

impl Table {
    /// Takes up the actions of a commit or of a part of a checkpoint.
    fn apply(&mut self, actions: Vec<Action>, shown: &str) -> Result<()> {
        if actions.iter().any(|action| action.sidecar.is_some() || action.checkpoint_metadata.is_some()) {
            return Err(unusable(shown, Unusable::SecondCheckpoint));
        }
        // A path that is both removed and added is there: the order inside a commit means nothing.
        for remove in actions.iter().filter_map(|action| action.remove.as_ref()) {
            self.files.remove(&decoded(&remove.path, shown)?);
        }
        for action in actions {
            if let Some(add) = action.add {
                self.files.insert(decoded(&add.path, shown)?, (add.size, add.deletion_vector.is_some()));
            }
            self.protocol = action.protocol.or(self.protocol.take());
            self.meta_data = action.meta_data.or(self.meta_data.take());
        }
        Ok(())
    }

    fn snapshot(self, version: u64, shown: &str) -> Result<Snapshot> {
        let Self { protocol: Some(protocol), meta_data: Some(meta_data), files } = self else {
            return Err(Error::input(format!(
                "the log of the Delta table `{shown}` says neither `protocol` nor `metaData`: restore its first commit"
            )));
        };
        if let Some(why) = features::unknown(&protocol, &meta_data) {
            return Err(unreadable(shown, &why));
        }
        if let Some((path, _)) = files.iter().find(|(_, (_, rows_are_deleted))| *rows_are_deleted) {
            return Err(unreadable(shown, &features::deleted_rows(path)));
        }
        let files = files.into_iter().map(|(path, (size, _))| (path, size)).collect();
        Ok(Snapshot { version, partition_columns: meta_data.partition_columns, files })
    }
}

/// A path of an action: a URI inside the table's folder.
fn decoded(uri: &str, shown: &str) -> Result<String> {
    let outside = uri.starts_with('/') || uri.starts_with("file:") || address::scheme(uri).is_some();
    if outside {
        return Err(unreadable(
            shown,
            &format!(
                "its file {uri} is not in its folder, as those of a shallow clone: copy it into a table of its own"
            ),
        ));
    }
    match percent_decode_str(uri).decode_utf8() {
        Ok(path) if !path.chars().any(char::is_control) && Path::parse(&path).is_ok() => {
            Ok(path.into_owned())
        }
        _ => Err(unreadable(shown, &format!("its log names a file {uri:?}, which no file can be called"))),
    }
}

fn unreadable(shown: &str, why: &str) -> Error {
    Error::input(format!("the Delta table `{shown}` cannot be read: {why}"))
}

fn unusable(shown: &str, why: Unusable) -> Error {
    match why {
        Unusable::Nothing => Error::input(format!(
            "`{shown}` is no Delta table, because there is no log in `{shown}/{FOLDER}`: correct [source] url, or set [source] \
             format to that of the files"
        )),
        Unusable::Gone(commit) => {
            unreadable(shown, &format!("{FOLDER}/{commit} is gone, and no checkpoint is newer: restore it"))
        }
        Unusable::SecondCheckpoint => unreadable(shown, &features::second_checkpoint()),
    }
}
