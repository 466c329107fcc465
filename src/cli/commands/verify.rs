//! `resemblance verify`: compares every byte of a finished output with its manifest.

use std::time::Instant;

use crate::apply::result::AppliedResult;
use crate::cli::support::print;
use crate::cli::support::progress::Screen;
use crate::cli::support::work::{MANIFEST_MEMORY, on_session};
use crate::engine::{InputProgress, InputUnit};
use crate::error::Result;
use crate::output::Layout;
use crate::output::check::{self, CheckDepth};

/// Examples of the command.
const EXAMPLES: &str = "\
Examples:
  resemblance verify out/reviews/
  resemblance verify clean/";

/// Read every file of a finished output, or of a result of apply, and compare its bytes with the manifest
///
/// If a file is missing, or has another size or another CRC-32, the command names it and ends with exit code 3. It
/// changes nothing.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Verify {
    /// The finished output: the folder or URL that a job names as output.url, or that apply or dedup wrote to
    output: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Verify {
    pub(in crate::cli) fn run(&self, screen: &Screen) -> Result<()> {
        let (progress, began) = (screen.progress(), Instant::now());
        progress.stage_begins("verify", 1, 1);
        let seen =
            |done, all| progress.stage_reaches("verify", InputProgress { done, all, unit: InputUnit::Bytes });
        let verified = on_session(MANIFEST_MEMORY, async |session, _| {
            let output = Layout::open(session, &self.output)?;
            if let Some(applied) = AppliedResult::find(session, &self.output).await? {
                return Ok((output, applied.files(), applied.damage(&seen).await?));
            }
            match check::result(&output, |_| Ok(CheckDepth::Bytes), &seen).await? {
                Some((manifest, damage)) => Ok((output, manifest.files().cloned().collect(), damage)),
                None => Err(output.unfinished().await?),
            }
        });
        screen.clear();
        let (output, compared, damage) = verified?;
        progress.stage_ends(
            "verify",
            compared.iter().map(|file| file.rows).sum(),
            began.elapsed().as_secs_f64(),
            false,
        );
        let files = compared.len() as u64;
        let bytes: u64 = compared.iter().map(|file| file.bytes).sum();
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
