//! The inputs of the fuzz targets, replayed: the seeds, and whatever broke a promise once.

#[path = "../fuzz/src/lib.rs"]
pub mod targets;

use targets::TARGETS;

use crate::support::*;

/// The inputs in a folder of `fuzz/`, for one target; none if there is no such folder.
fn inputs(folder: &str, target: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(repository("fuzz").join(folder).join(target)) else {
        return Vec::new();
    };
    let mut inputs: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    inputs.sort();
    inputs
}

#[test]
fn no_input_breaks_a_promise() {
    let mut broken = Vec::new();
    for (target, check) in TARGETS {
        let seeds = inputs("seeds", target);
        assert!(seeds.len() >= 3, "{target} has few seeds or none: {seeds:?}");
        for path in seeds.into_iter().chain(inputs("regressions", target)) {
            let bytes = std::fs::read(&path).unwrap();
            if std::panic::catch_unwind(|| check(&bytes)).is_err() {
                broken.push(path.display().to_string());
            }
        }
    }
    assert!(broken.is_empty(), "promises are broken (see above) on:\n{}", broken.join("\n"));
}

/// Each target is in the list and in the README, and no folder of inputs is without one.
#[test]
fn every_folder_of_inputs_belongs_to_a_target() {
    let names: BTreeSet<String> = TARGETS.iter().map(|(name, _)| name.to_string()).collect();
    let readme = std::fs::read_to_string(repository("fuzz/README.md")).unwrap();
    for name in &names {
        assert!(readme.contains(&format!("| `{name}` |")), "fuzz/README.md does not describe {name}");
    }
    for folder in ["seeds", "regressions"] {
        let Ok(entries) = std::fs::read_dir(repository("fuzz").join(folder)) else { continue };
        for entry in entries {
            let name = entry.unwrap().file_name().to_string_lossy().into_owned();
            assert!(names.contains(&name), "fuzz/{folder}/{name} belongs to no target");
        }
    }
}

/// The checks themselves bite: each of these inputs goes against what a target promises.
#[test]
fn a_broken_promise_is_noticed() {
    // A definition that is not the kernel's: with another rule for words, "can't" is two.
    let rule = targets::definitions::rule(0);
    let other = targets::definitions::rule(1);
    assert_ne!(targets::definitions::words("can't", rule), targets::definitions::words("can't", other));
    let lower = resemblance::job::Normalize::Lowercase;
    assert_eq!(targets::definitions::step("ΑΣ", &lower, rule), "ας");
}
