//! Modules import only from those above them in `src/lib.rs`.

use std::path::{Path, PathBuf};

use crate::support::repository;

fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => rust_files(&path, files),
            false if path.extension().is_some_and(|e| e == "rs") => files.push(path),
            false => {}
        }
    }
}

/// The rows of the table in `lib.rs`.
fn modules() -> Vec<String> {
    let lib = std::fs::read_to_string(repository("src/lib.rs")).unwrap();
    lib.lines()
        .filter_map(|line| line.strip_prefix("//! | [`"))
        .filter_map(|row| row.split_once('`').map(|(name, _)| name.to_owned()))
        .collect()
}

#[test]
fn modules_import_only_from_above() {
    let modules = modules();
    assert!(modules.len() > 10, "the table of modules in lib.rs was not found");
    let place = |name: &str| modules.iter().position(|m| m == name);
    let mut files = Vec::new();
    rust_files(&repository("src"), &mut files);
    let mut wrong = Vec::new();
    for path in files {
        let inside = path.strip_prefix(repository("src")).unwrap();
        let own = inside.iter().next().unwrap().to_string_lossy().replace(".rs", "");
        let Some(own_place) = place(&own) else { continue };
        for line in std::fs::read_to_string(&path).unwrap().lines() {
            let code = line.split("//").next().unwrap_or_default();
            for (at, _) in code.match_indices("crate::") {
                let name: String =
                    code[at + 7..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                if place(&name).is_some_and(|used| used > own_place) {
                    wrong.push(format!("{}: {}", inside.display(), line.trim()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "imports from below:\n{}", wrong.join("\n"));
}
