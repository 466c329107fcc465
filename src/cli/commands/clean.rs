//! `resemblance clean`: removes the leftovers of interrupted runs from an output.

use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::cli::process::{MANIFEST_MEMORY, on_session};
use crate::cli::screen::print;
use crate::error::{Error, Result};
use crate::job;
use crate::output::attempt::Attempt;
use crate::output::claim;
use crate::output::ownership::{self, Garbage};
use crate::output::{Layout, delta};

/// Remove files that interrupted runs left in an output
///
/// In a finished output, the command removes all files that only stages needed. In an unfinished output, it removes the files of
/// interrupted attempts and keeps finished stages, from which the next run continues. Only files that this program certainly wrote are
/// removed; other files are counted. If a run is writing to the output, the command waits until the run ends.
#[derive(clap::Args)]
#[command(after_help = "  resemblance clean out/reviews/ --dry-run
  resemblance clean out/reviews/")]
pub(crate) struct Clean {
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
    pub(crate) fn run(&self) -> Result<()> {
        let (output, found) = on_session(MANIFEST_MEMORY, async |session, stop| {
            let output = Layout::open(session, &self.output)?;
            let found = self.clean(&output, stop).await?;
            Ok((output, found))
        })?;
        let (files, foreign) = (found.dead.len() as u64, found.foreign.len());
        let bytes: u64 = found.dead.iter().map(|file| file.bytes).sum();
        let record = json!({ "files": files, "bytes": bytes, "foreign": foreign, "dry_run": self.dry_run });
        let verb = if self.dry_run { "would be removed" } else { "removed" };
        let (files, bytes) = (print::counted(files, "file"), print::counted(bytes, "byte"));
        print::json_line_or(self.json, &record, || {
            let sentences = found.sentences(&output).into_iter().map(|sentence| format!("{sentence}\n"));
            let total = format!("{files}, {bytes}, {verb} from {}\n", self.output);
            std::iter::once(total).chain(sentences).collect()
        })
    }

    /// Removes the files that interrupted runs left. A dry run only lists them.
    async fn clean(&self, output: &Layout, stop: &CancellationToken) -> Result<Garbage> {
        if !output.exists().await? {
            let shown = output.shown();
            if output.is_applied().await? {
                return Err(Error::input(format!(
                    "{shown} holds a result of apply, which removes its own records when it ends: if it was interrupted, run the same \
                     command again"
                )));
            }
            return Err(output.unfinished().await?);
        }
        if self.dry_run {
            return ownership::survey(output, &Attempt::random()).await;
        }
        // Fails before a claim is written if another program wrote the manifest.
        output.manifest().await?;
        let claim = claim::take(output, "clean", stop).await?;
        let cleaned = async {
            // A run that ended right after it wrote its manifest can leave logs that list files of the previous result. These files are
            // removed below, so the logs are updated first. Tables without a log get one from the next run that needs it.
            delta::publish(output, job::TableFormat::Parquet).await?;
            let found = ownership::survey(output, &claim.attempt).await?;
            claim.verify().await?;
            ownership::remove(output, &found).await?;
            Ok::<_, Error>(found)
        };
        let cleaned = cleaned.await;
        claim.release().await?;
        cleaned
    }
}
