//! `resemblance clean`: removes what dead runs left in an output.

use tokio_util::sync::CancellationToken;

use crate::cli::support::print;
use crate::cli::support::work::Work;
use crate::engine::session;
use crate::error::{Error, Result};
use crate::job;
use crate::output::claim;
use crate::output::garbage::{self, Garbage};
use crate::output::names::Attempt;
use crate::output::{Layout, delta};

/// Bytes for operators, of which none runs.
const MEMORY: u64 = 64 << 20;

/// Remove files that interrupted runs left in an output
///
/// In a finished output, these are all files that only its steps needed. In an unfinished one, they are what the
/// interrupted attempts wrote: finished steps stay, and the next run continues from them. Only files that this program
/// provably wrote are removed; all others stay and are counted. While a run writes to the output, the command waits for
/// its end.
#[derive(clap::Args)]
pub(in crate::cli) struct Clean {
    /// The output: the folder or URL that a job names as output.url
    output: String,
    /// Print what would be removed without removing it
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Clean {
    pub(in crate::cli) fn run(&self) -> Result<()> {
        let engine = job::Engine::local(MEMORY);
        let work = Work::begin(&engine)?;
        let (output, found) = work.run(self.clean(&engine, &work.stop))?;
        let (files, foreign) = (found.dead.len() as u64, found.foreign.len());
        let bytes: u64 = found.dead.iter().map(|file| file.bytes).sum();
        if self.json {
            let record = serde_json::json!({
                "files": files, "bytes": bytes, "foreign": foreign, "dry_run": self.dry_run,
            });
            return print::result(&format!("{record}\n"));
        }
        let verb = if self.dry_run { "would be removed" } else { "removed" };
        let mut text = format!(
            "{}, {}, {verb} from {}\n",
            print::counted(files, "file"),
            print::counted(bytes, "byte"),
            self.output
        );
        for sentence in found.sentences(&output) {
            text.push_str(&sentence);
            text.push('\n');
        }
        print::result(&text)
    }

    /// What was, or would be, removed.
    async fn clean(&self, engine: &job::Engine, stop: &CancellationToken) -> Result<(Layout, Garbage)> {
        let session = session::session(engine)?;
        let output = Layout::open(&session, &self.output)?;
        if self.dry_run {
            let found = garbage::survey(&output, &Attempt::random()).await?;
            return Ok((output, found));
        }
        if !output.exists().await? {
            return Ok((output, Garbage::default()));
        }
        // Somebody else's manifest is told of before anything is put beside it.
        output.manifest().await?;
        let claim = claim::take(&output, "clean", stop).await?;
        let cleaned = async {
            // A run that died after its manifest may have left logs that name the files of the result before: these are
            // removed now, so the logs come first. Tables without a log get one by the next run that asks for it.
            delta::publish(&output, job::Tables::Parquet).await?;
            let found = garbage::survey(&output, claim.attempt()).await?;
            claim.verify().await?;
            garbage::remove(&output, &found).await?;
            Ok::<_, Error>(found)
        };
        let cleaned = cleaned.await;
        claim.release().await?;
        Ok((output, cleaned?))
    }
}
