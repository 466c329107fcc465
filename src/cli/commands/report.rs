//! `resemblance report`: writes a page about a finished output.

use crate::apply::result::AppliedResult;
use crate::cli::process::files::{FileMark, OwnFile};
use crate::cli::process::on_session;
use crate::cli::screen::print;
use crate::error::{Error, Result};
use crate::report::{self, ReportSettings, html};

/// The first characters of every page that this command writes.
const MARK: &str = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
                    <meta name=\"generator\" content=\"resemblance report\">";

/// Write one page about a finished output: what was found, what would be removed and lost, and what may be missing
///
/// The page is a single HTML file that needs no other file and no network. It contains the answer in five numbers, the alarms, the removals
/// by reason and group, the similarities of pairs, and the sizes of clusters. It also contains three clusters with their texts side by
/// side, the expected recall, and the cost of the run. Without --to, only the answer is printed. The texts come from the job's source,
/// which must not have changed since the run. Without the source, the page has no texts and states the reason.
#[derive(clap::Args)]
#[command(after_help = "  resemblance report out/reviews/ --to report.html
  resemblance report out/day=2026-11-21/ --before out/day=2026-11-20/ --to report.html
  resemblance report out/reviews/ --evaluate 1000 --json")]
pub(crate) struct ReportCommand {
    /// The finished output: the folder or URL that a job names as output.url
    output: String,
    /// The HTML file to write; an earlier report at this path is replaced
    #[arg(long, value_name = "FILE")]
    to: Option<String>,
    #[command(flatten)]
    settings: ReportSettings,
    /// Print the contents of the page as one JSON object
    #[arg(long)]
    json: bool,
}

impl ReportCommand {
    pub(crate) fn run(&self) -> Result<()> {
        let mark = FileMark { beginning: MARK, noun: "a page of `resemblance report`" };
        let to = self.to.as_ref().map(|file| OwnFile::at("--to", file, mark)).transpose()?;
        let report = on_session(self.settings.memory, async |session, _| {
            if AppliedResult::find(session, &self.output).await?.is_some() {
                return Err(Error::job(format!(
                    "{} is a result of apply: name the output that was applied; dedup keeps it with --output",
                    self.output
                )));
            }
            report::report(session, &self.output, &self.settings).await
        })?;
        if let Some(to) = &to {
            to.write(&html(&report)?)?;
        }
        if self.json {
            return print::result(&print::json_line(&report)?);
        }
        let mut text = format!("{}\n", report.sentence);
        for alarm in &report.alarms.exceeded {
            text.push_str(&format!("alarm: {alarm}\n"));
        }
        if let Some(before) = &report.before {
            let rows = before.compared.iter().map(|compared| {
                let changed = compared.changed.map_or("-".to_owned(), print::count);
                vec![compared.what.clone(), print::count(compared.new), print::count(compared.gone), changed]
            });
            text.push_str(&print::table(&["since the earlier output", "new", "gone", "changed"], rows));
        }
        match &self.to {
            Some(to) => text.push_str(&format!("written to {to}\n")),
            None => text.push_str("--to report.html writes the page\n"),
        }
        print::result(&text)
    }
}
