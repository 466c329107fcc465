//! `resemblance schema`: prints the JSON Schema of a job file.

use crate::cli::screen::print;
use crate::error::Result;
use crate::job::file::JobFile;

/// Print the JSON Schema of a job file
///
/// Editors with TOML support use it to complete and check the keys of a job. `schemas/job.json` is the same schema. The first line of a job
/// file can refer to it, as in `#:schema ../schemas/job.json`.
#[derive(clap::Args)]
#[command(after_help = "  resemblance schema > job.schema.json")]
pub(crate) struct Schema {}

impl Schema {
    pub(crate) fn run(&self) -> Result<()> {
        print::result(&print::json(&schemars::schema_for!(JobFile))?)
    }
}
