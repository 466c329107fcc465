//! Files that a listing skips, and the warnings about them.

use crate::source::format::SourceFormat;

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
