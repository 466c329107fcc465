//! `resemblance verify`: compares every byte of a finished output with its manifest.

use crate::cli::support::print;
use crate::cli::support::work::{MANIFEST_MEMORY, on_session};
use crate::error::Result;
use crate::output::Layout;
use crate::output::check::{self, Depth};

/// Examples of the command.
const EXAMPLES: &str = "\
Examples:
  resemblance verify out/reviews/";

/// Read every file of a finished output and compare its bytes with the manifest
///
/// If a file is missing, or has another size or another CRC-32, the command names it and ends with exit code 3. It
/// changes nothing.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Verify {
    /// The finished output: the folder or URL that a job names as output.url
    output: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Verify {
    pub(in crate::cli) fn run(&self) -> Result<()> {
        let (output, (manifest, damage)) = on_session(MANIFEST_MEMORY, async |session, _| {
            let output = Layout::open(session, &self.output)?;
            let verified =
                check::result(&output, |_| Ok(Depth::Bytes)).await?.ok_or_else(|| output.unfinished())?;
            Ok((output, verified))
        })?;
        let files = manifest.files().count() as u64;
        let bytes: u64 = manifest.files().map(|file| file.bytes).sum();
        let damaged: Vec<String> = damage.iter().map(ToString::to_string).collect();
        print::result(&if self.json {
            format!("{}\n", serde_json::json!({ "files": files, "bytes": bytes, "damaged": damaged }))
        } else if damaged.is_empty() {
            let (files, bytes) = (print::counted(files, "file"), print::counted(bytes, "byte"));
            format!("{files}, {bytes}, all as in the manifest\n")
        } else {
            format!("{}\n", damaged.join("\n"))
        })?;
        match damage.is_empty() {
            true => Ok(()),
            false => Err(check::damaged(&output, &damage)),
        }
    }
}
