//! Checks that an output does not overlap with an input, before anything is written.

use std::collections::BTreeMap;
use std::path::PathBuf;

use object_store::local::LocalFileSystem;
use object_store::path::Path;

use crate::error::{Error, Result};
use crate::job;
use crate::output::Layout;
use crate::source::{Listed, Reach, same_store};

/// Refuses an output that contains the source or is inside the source. Otherwise a run could read the files that it writes, or remove
/// documents. `setting` is the job key or option that sets the output's URL. Fails with `Kind::Job`, with both URLs.
pub(crate) fn refuse_urls(output: &Layout, source: &job::Source, setting: &str) -> Result<()> {
    let (store, root) = (output.store_url(), output.root());
    let shown = output.shown();
    for url in &source.urls {
        let reach = Reach::new(url)?;
        if reach.lies_in(store, root) {
            return Err(Error::job(format!(
                "the source `{url}` lies in the output `{shown}`: choose another {setting}, which holds no documents"
            )));
        }
        if reach.takes_in(store, root) {
            return Err(Error::job(format!(
                "the output `{shown}` lies in the source `{url}`, which would read the output's own files as documents: choose \
                 another {setting}, outside of it"
            )));
        }
    }
    Ok(())
}

/// Refuses an output that equals, contains, or is inside the output `read`. Fails with `Kind::Job`, with both URLs.
pub(crate) fn refuse_output(output: &Layout, read: &Layout, setting: &str) -> Result<()> {
    let (written, read_from) = (output.root(), read.root());
    let overlap = written.prefix_matches(read_from) || read_from.prefix_matches(written);
    if same_store(output.store_url(), read.store_url()) && overlap {
        return Err(Error::job(format!(
            "the output `{}` overlaps with the output `{}`, which is read: choose another {setting}, outside of it",
            output.shown(),
            read.shown()
        )));
    }
    Ok(())
}

/// Refuses an output that contains a file of the source, directly or through a link. Fails with `Kind::Job`, with the file and the
/// output.
pub(crate) fn refuse_files(output: &Layout, listed: &Listed, setting: &str) -> Result<()> {
    let (store, root, shown) = (output.store_url(), output.root(), output.shown());
    let mut links = ResolvedFolders::default();
    for (of, location, path) in listed.places() {
        if same_store(of, store) && (location.prefix_matches(root) || links.lead_into(output, location)) {
            return Err(Error::job(format!(
                "the source's file {path} lies in the output `{shown}`: choose another {setting}, which holds no documents"
            )));
        }
    }
    Ok(())
}

/// The folders of local files, each resolved once.
#[derive(Default)]
struct ResolvedFolders(BTreeMap<PathBuf, PathBuf>);

impl ResolvedFolders {
    /// Whether a link leads from a local file into the output.
    fn lead_into(&mut self, output: &Layout, location: &Path) -> bool {
        let Some(root) = output.folder() else { return false };
        let Ok(file) = LocalFileSystem::new().path_to_filesystem(location) else { return false };
        if std::fs::symlink_metadata(&file).is_ok_and(|meta| meta.is_symlink()) {
            return std::fs::canonicalize(&file).is_ok_and(|file| file.starts_with(root));
        }
        let Some(folder) = file.parent() else { return false };
        let real = self.0.entry(folder.to_owned());
        real.or_insert_with(|| std::fs::canonicalize(folder).unwrap_or_default()).starts_with(root)
    }
}
