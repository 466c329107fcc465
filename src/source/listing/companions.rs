//! Files that usually lie next to documents and hold no documents.

use crate::job::Format;

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
