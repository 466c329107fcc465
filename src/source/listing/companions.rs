//! Files that usually lie next to documents and hold no documents.

use crate::job::Format;
use crate::source::format::SourceFormat;

/// Files of operating systems.
const SYSTEM: [&str; 2] = ["thumbs.db", "desktop.ini"];
/// Descriptions of datasets.
const DESCRIPTIONS: [&str; 5] =
    ["dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json", "croissant.json"];
/// The first word in the names of texts about a dataset.
const TEXTS: [&str; 8] =
    ["readme", "license", "licence", "copying", "notice", "changelog", "citation", "contributing"];

/// Whether the file called `name` belongs to an operating system.
pub(super) fn is_of_system(name: &str) -> bool {
    SYSTEM.contains(&last(name).as_str())
}

/// Whether the file called `name` describes a dataset, or belongs to an operating system.
pub(crate) fn is_companion(name: &str) -> bool {
    let last = last(name);
    let first_word = last.split(['.', '-', '_']).next().unwrap_or_default();
    let is_text = !matches!(Format::of_ending(&last), Some(format) if format != Format::Text);
    is_of_system(name) || DESCRIPTIONS.contains(&last.as_str()) || is_text && TEXTS.contains(&first_word)
}

fn last(name: &str) -> String {
    name.rsplit('/').next().unwrap_or_default().to_ascii_lowercase()
}

/// Names in a warning.
const NAMED: usize = 5;

/// The number of skipped files of one kind, and the first of their names.
#[derive(Debug, Default)]
pub(super) struct SkippedNames {
    count: usize,
    first: Vec<String>,
}

impl SkippedNames {
    pub(super) fn add(&mut self, name: String) {
        self.count += 1;
        if self.first.len() < NAMED {
            self.first.push(name);
        }
    }

    pub(super) fn warn(&self, url: &str, why: &str) {
        if self.count > 0 {
            let more = if self.count > self.first.len() { ", ..." } else { "" };
            tracing::warn!(url, count = self.count, "{why}: {}{more}", self.first.join(", "));
        }
    }
}

/// The files of a listing that are not read.
#[derive(Debug, Default)]
pub(super) struct Skipped {
    pub hidden: SkippedNames,
    pub companions: SkippedNames,
    pub special: SkippedNames,
    pub dangling: SkippedNames,
    pub looping: SkippedNames,
    pub other_endings: usize,
}

impl Skipped {
    /// Warns of them in the log.
    pub(super) fn warn(&self, url: &str, format: &SourceFormat) {
        self.hidden.warn(url, "files and folders whose names start with . or _ are skipped");
        self.companions.warn(url, "files that describe data, or belong to the system, are skipped");
        self.special.warn(url, "named pipes, sockets and devices are skipped");
        self.dangling.warn(url, "broken symbolic links are skipped");
        self.looping.warn(url, "symbolic links to a folder that they are in are skipped");
        if self.other_endings > 0 {
            let (ignored, extensions) = (self.other_endings, format.endings.join(", "));
            tracing::warn!(url, ignored, "files that do not end in {extensions} are skipped");
        }
    }

    /// The number of files that no setting of the job would read.
    pub(super) fn not_readable(&self) -> usize {
        let names = [&self.hidden, &self.companions, &self.special, &self.dangling, &self.looping];
        names.into_iter().map(|names| names.count).sum()
    }

    /// The first files and folders that are hidden, or companions of data.
    pub(super) fn companions(&self) -> Vec<String> {
        [&self.hidden, &self.companions].into_iter().flat_map(|names| names.first.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn companions_have_no_documents() {
        for name in
            ["README", "data/Readme.md", "LICENSE-MIT", "readme_en.txt", "Thumbs.db", "dataset_info.json"]
        {
            assert!(is_companion(name), "{name}");
        }
        for name in
            ["readme.parquet", "license.csv.gz", "readmes/a.txt", "a/README/b", "info.json", "notices.txt"]
        {
            assert!(!is_companion(name), "{name}");
        }
    }
}
