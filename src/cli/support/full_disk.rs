//! The error for a full disk: which folders are on it, how much is free there, and how much is needed.

use std::path::{Path, PathBuf};

use crate::address;
use crate::cli::support::print;
use crate::error::library_errors::is_full_disk;
use crate::error::{Error, chain};
use crate::{job, machine};

/// A folder that a command writes to.
#[derive(Debug, Clone)]
pub(in crate::cli) struct Place {
    /// The key or option that names it.
    pub setting: &'static str,
    pub folder: PathBuf,
}

impl Place {
    /// The local folder that `url` names; `None` for one in an object store.
    pub(in crate::cli) fn of_url(setting: &'static str, url: &str) -> Option<Self> {
        let folder = match address::scheme(url) {
            None => PathBuf::from(url),
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("file") => {
                address::url(url).ok()?.to_file_path().ok()?
            }
            Some(_) => return None,
        };
        Some(Self { setting, folder })
    }

    /// The folder for spills.
    pub(in crate::cli) fn of_spills(engine: &job::Engine) -> Self {
        let folder = engine.spill.as_ref().map_or_else(std::env::temp_dir, PathBuf::from);
        Self { setting: "engine.spill", folder }
    }
}

/// Whether an error comes from a full disk.
pub(in crate::cli) fn is_full(error: &Error) -> bool {
    chain(error).any(|cause| {
        let kind = cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        matches!(kind, Some(std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded))
            || is_full_disk(&cause.to_string())
    })
}

/// The error of a command that writes to `places`, and `needed` bytes in all if that is known. If a disk is full, it says so first.
pub(in crate::cli) fn explain(error: Error, places: &[Place], needed: Option<u64>) -> Error {
    if !is_full(&error) {
        return error;
    }
    let free: Vec<String> = places.iter().map(free).collect();
    let needed =
        needed.map(|bytes| format!("about {} are needed; ", print::bytes(bytes))).unwrap_or_default();
    let settings: Vec<&str> = places.iter().map(|place| place.setting).collect();
    let message = format!(
        "a disk is full: {}; {needed}free some space, or choose another folder ({}), and run the same command again",
        free.join(", "),
        settings.join(", ")
    );
    Error::new(error.kind(), message).because(error)
}

fn free(place: &Place) -> String {
    let Place { setting, folder } = place;
    let there = folder.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("."));
    let free = machine::free_bytes(there).map_or("an unknown amount".to_owned(), print::bytes);
    format!("{free} free in {} ({setting})", folder.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[test]
    fn a_full_disk_is_named_with_its_free_space() {
        let folder = tempfile::tempdir().unwrap();
        let url = folder.path().join("not/yet").display().to_string();
        let places = [Place::of_url("output.url", &url).unwrap()];
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        let said = explain(Error::from(full), &places, Some(3 << 30));
        assert_eq!(said.kind(), Kind::Input);
        let text = said.to_string();
        assert!(text.starts_with("a disk is full: ") && text.contains("not/yet (output.url)"), "{text}");
        assert!(text.contains("about 3.0 GiB are needed"), "{text}");
        let other = explain(Error::input("the file is gone"), &places, None);
        assert_eq!(other.to_string(), "the file is gone");
        assert!(Place::of_url("output.url", "s3://bucket/a").is_none());
        assert!(Place::of_url("output.url", "file:///tmp/a").is_some());
    }
}
