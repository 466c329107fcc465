//! `resemblance verify`: compares every byte of a finished output with its manifest.

use std::time::Instant;

use serde_json::json;

use crate::apply::result::AppliedResult;
use crate::cli::process::{MANIFEST_MEMORY, on_session};
use crate::cli::screen::{Screen, print};
use crate::engine::{InputProgress, InputUnit};
use crate::error::Result;
use crate::output::Layout;
use crate::output::check::{self, CheckDepth};

/// Read every file of a finished output, or of a result of apply, and compare its bytes with the manifest
///
/// The command lists every file that is missing or has a different size or CRC-32, and then ends with exit code 3. It changes nothing.
#[derive(clap::Args)]
#[command(after_help = "  resemblance verify out/reviews/
  resemblance verify clean/")]
pub(crate) struct Verify {
    /// The finished output: the folder or URL that a job names as output.url, or that apply or dedup wrote to
    output: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Verify {
    pub(crate) fn run(&self, screen: &Screen) -> Result<()> {
        let (progress, began) = (screen.progress(), Instant::now());
        progress.stage_begins("verify", 1, 1);
        let read =
            |done, all| progress.stage_reaches("verify", InputProgress { done, all, unit: InputUnit::Bytes });
        let (output, compared, damage) = on_session(MANIFEST_MEMORY, async |session, _| {
            let output = Layout::open(session, &self.output)?;
            if let Some(applied) = AppliedResult::find(session, &self.output).await? {
                return Ok((output, applied.files(), applied.damage(&read).await?));
            }
            match check::result(&output, |_| Ok(CheckDepth::Bytes), &read).await? {
                Some((manifest, damage)) => Ok((output, manifest.files().cloned().collect(), damage)),
                None => Err(output.unfinished().await?),
            }
        })?;
        screen.clear();
        progress.stage_ends(
            "verify",
            compared.iter().map(|file| file.rows).sum(),
            began.elapsed().as_secs_f64(),
            false,
        );
        let files = compared.len() as u64;
        let bytes: u64 = compared.iter().map(|file| file.bytes).sum();
        let damaged: Vec<String> = damage.iter().map(ToString::to_string).collect();
        let record = json!({ "files": files, "bytes": bytes, "damaged": damaged });
        print::json_line_or(self.json, &record, || match damaged.as_slice() {
            [] => {
                let (files, bytes) = (print::counted(files, "file"), print::counted(bytes, "byte"));
                format!("{files}, {bytes}, all as in the manifest\n")
            }
            damaged => format!("{}\n", damaged.join("\n")),
        })?;
        if damage.is_empty() { Ok(()) } else { Err(check::damaged(&output, &damage)) }
    }
}
