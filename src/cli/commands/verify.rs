//! `resemblance verify`: every byte of a finished output against its manifest.

use crate::cli::support::print;
use crate::cli::support::work::Work;
use crate::engine::session;
use crate::error::{Error, Result};
use crate::job;
use crate::output::manifest::Run as Manifest;
use crate::output::{Layout, check};

/// Bytes for operators, of which none runs.
const MEMORY: u64 = 64 << 20;

/// Read every file of a finished output and compare its bytes with the manifest
///
/// If a file is missing, or has another size or another CRC-32, the command names it and ends with exit code 3. It
/// changes nothing.
#[derive(clap::Args)]
pub(in crate::cli) struct Verify {
    /// The finished output: the folder or URL that a job names as output.url
    output: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Verify {
    pub(in crate::cli) fn run(&self) -> Result<()> {
        let engine = job::Engine::local(MEMORY);
        let session = session::session(&engine)?;
        let output = Layout::open(&session, &self.output)?;
        let (manifest, damage) = Work::begin(&engine)?.run(verified(&output))?;
        let files = manifest.files().count() as u64;
        let bytes: u64 = manifest.files().map(|file| file.bytes).sum();
        if self.json {
            let damaged: Vec<String> = damage.iter().map(ToString::to_string).collect();
            let record = serde_json::json!({ "files": files, "bytes": bytes, "damaged": damaged });
            print::result(&format!("{record}\n"))?;
        } else {
            let mut text: String = damage.iter().map(|damage| format!("{damage}\n")).collect();
            if damage.is_empty() {
                text = format!(
                    "{}, {}, all as in the manifest\n",
                    print::counted(files, "file"),
                    print::counted(bytes, "byte")
                );
            }
            print::result(&text)?;
        }
        match damage.is_empty() {
            true => Ok(()),
            false => Err(check::damaged(&output, &damage)),
        }
    }
}

async fn verified(output: &Layout) -> Result<(Manifest, Vec<check::Damage>)> {
    loop {
        let Some(manifest) = output.manifest().await? else {
            return Err(Error::input(format!(
                "{} holds no finished output (no manifest.json): name what a job has as output.url, and run that job to \
                 its end",
                output.shown()
            )));
        };
        let damage = check::bytes(output, &manifest.files().collect::<Vec<_>>()).await?;
        if damage.is_empty() || check::is_current(output, &manifest).await? {
            return Ok((manifest, damage));
        }
    }
}
