//! `resemblance clean`: removes the files that interrupted runs left in an output.

use tokio_util::sync::CancellationToken;

use crate::cli::support::print;
use crate::cli::support::work::{MANIFEST_MEMORY, on_session};
use crate::error::{Error, Result};
use crate::job;
use crate::output::claim;
use crate::output::garbage::{self, Garbage};
use crate::output::names::Attempt;
use crate::output::{Layout, delta};

/// Examples of the command.
const EXAMPLES: &str = "\
Examples:
  resemblance clean out/reviews/ --dry-run
  resemblance clean out/reviews/";

/// Remove files that interrupted runs left in an output
///
/// In a finished output, these are all files that only its stages needed. In an unfinished one, they are what the
/// interrupted attempts wrote: finished stages stay, and the next run continues from them. Only files that this program
/// provably wrote are removed; all others stay and are counted. While a run writes to the output, the command waits for
/// its end.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
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
        let (output, found) = on_session(MANIFEST_MEMORY, async |session, stop| {
            let output = Layout::open(session, &self.output)?;
            let found = self.clean(&output, stop).await?;
            Ok((output, found))
        })?;
        let (files, foreign) = (found.dead.len() as u64, found.foreign.len());
        let bytes: u64 = found.dead.iter().map(|file| file.bytes).sum();
        if self.json {
            let record = serde_json::json!({
                "files": files, "bytes": bytes, "foreign": foreign, "dry_run": self.dry_run,
            });
            return print::result(&format!("{record}\n"));
        }
        let verb = if self.dry_run { "would be removed" } else { "removed" };
        let (files, bytes) = (print::counted(files, "file"), print::counted(bytes, "byte"));
        let mut text = format!("{files}, {bytes}, {verb} from {}\n", self.output);
        for sentence in found.sentences(&output) {
            text.push_str(&sentence);
            text.push('\n');
        }
        print::result(&text)
    }

    /// Removes the garbage, or only finds it in a dry run.
    async fn clean(&self, output: &Layout, stop: &CancellationToken) -> Result<Garbage> {
        if !output.exists().await? {
            let shown = output.shown();
            return Err(match output.is_applied().await? {
                true => Error::input(format!(
                    "{shown} holds a result of apply, which removes its own records when it ends: if it was interrupted, run the same \
                     command again"
                )),
                false => output.unfinished().await?,
            });
        }
        if self.dry_run {
            return garbage::survey(output, &Attempt::random()).await;
        }
        // Another program's manifest is refused before a claim is put next to it.
        output.manifest().await?;
        let claim = claim::take(output, "clean", stop).await?;
        let cleaned = async {
            // A run that died after it put its manifest may have left logs that name the files of the previous result.
            // These files are removed now, so the logs are brought up first. Tables without a log get one by the next run
            // whose job asks for it.
            delta::publish(output, job::TableFormat::Parquet).await?;
            let found = garbage::survey(output, claim.attempt()).await?;
            claim.verify().await?;
            garbage::remove(output, &found).await?;
            Ok::<_, Error>(found)
        };
        let cleaned = cleaned.await;
        claim.release().await?;
        cleaned
    }
}
