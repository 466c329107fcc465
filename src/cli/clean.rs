//! `resemblance clean`: removes what dead runs left in an output.

use super::print;
use super::work::Work;
use crate::engine::session;
use crate::error::Result;
use crate::job;
use crate::sink::Layout;
use crate::sink::leftovers::leftovers;

/// Bytes for operators, of which none runs.
const MEMORY: u64 = 64 << 20;

/// Remove from an output what no manifest names
///
/// Of a finished output that is everything between its steps, of an unfinished one what attempts that died wrote: the
/// finished steps stay, and the next run goes on from them. Files that this program does not write stay. No run may
/// write to the output meanwhile, on this machine or another: what it has under way is named by no manifest yet.
#[derive(clap::Args)]
pub(super) struct Clean {
    /// The output: what a job names as output.url
    output: String,
    /// Print what would be removed, and remove nothing
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Clean {
    pub(super) fn run(&self) -> Result<()> {
        let engine = job::Engine::local(MEMORY);
        let (files, bytes) = Work::begin(&engine)?.run(self.clean(&engine))?;
        if self.json {
            let record = serde_json::json!({ "files": files, "bytes": bytes, "dry_run": self.dry_run });
            return print::result(&format!("{record}\n"));
        }
        let verb = if self.dry_run { "would be removed" } else { "removed" };
        print::result(&format!(
            "{}, {}, {verb} from {}\n",
            print::counted(files, "file"),
            print::counted(bytes, "byte"),
            self.output
        ))
    }

    /// Files and bytes that were, or would be, removed.
    async fn clean(&self, engine: &job::Engine) -> Result<(u64, u64)> {
        let session = session::session(engine)?;
        let output = Layout::open(&session, &self.output)?;
        let found = leftovers(&output).await?;
        if !self.dry_run {
            output.remove_leftovers(&found).await?;
        }
        Ok((found.len() as u64, found.iter().map(|file| file.bytes).sum()))
    }
}
