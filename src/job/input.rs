//! The input of a run: texts, the sketches of a finished output, or several finished outputs.

use serde::{Deserialize, Serialize};

/// The input of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Input {
    /// The texts of the source.
    #[default]
    Read,
    /// The sketches of a finished output, whose job read the source, and cut and hashed it as this one does.
    Reuse(Reuse),
    /// Finished outputs that become one, in the order in which they were made. Nothing is compared.
    Merge(Vec<String>),
}

/// A finished output whose sketches are reused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reuse {
    /// Its folder or URL prefix.
    pub output: String,
    /// Whether it keeps shingles, so that no text is read again.
    pub keeps_shingles: bool,
}
