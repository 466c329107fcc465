//! `resemblance init`: writes a job file for data.

use std::path::{Path, PathBuf};

use crate::cli::support::from_data::{encoding, look, refuse_columns};
use crate::cli::support::progress::Screen;
use crate::cli::support::{own_file, print};
use crate::error::{Error, Result};
use crate::inspect::{self, InspectedPaths};
use crate::job::{self, Encoding, Format};

/// Examples of the command.
const EXAMPLES: &str = "\
Examples:
  resemblance init reviews.csv --output my.toml";

/// Write a job file with comments for data
///
/// The file has the columns of the data with a value of each, and the settings of `resemblance dedup`. `resemblance check` and
/// `resemblance run` take it as it is.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Init {
    /// Files, folders, patterns and URLs: data whose rows are documents (Parquet, CSV, JSON lines, or the folder of a Delta table),
    /// or text files
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<String>,
    /// The job file to write, which must not exist; - writes to standard output [default: the name of the data with .toml]
    #[arg(short, long, value_name = "JOB.toml")]
    output: Option<PathBuf>,
    /// The column that holds the texts, or several with commas
    #[arg(long, value_name = "COL")]
    text: Option<String>,
    /// The column that identifies a document
    #[arg(long, value_name = "COL")]
    id: Option<String>,
    /// How the files are encoded, instead of what their bytes say
    #[arg(long, value_name = "NAME", value_parser = encoding)]
    encoding: Option<Encoding>,
}

impl Init {
    pub(in crate::cli) fn run(&self, screen: &Screen) -> Result<()> {
        let path = self.output.clone().unwrap_or_else(|| PathBuf::from(format!("{}.toml", self.stem())));
        let is_printed = path == Path::new("-");
        if !is_printed && path.symlink_metadata().is_ok() {
            return Err(Error::job(format!(
                "{} is there already: name another file by -o, or remove it",
                path.display()
            )));
        }
        let shown = match is_printed {
            true => format!("{}.toml", self.stem()),
            false => path.display().to_string(),
        };
        let text = match look(screen, "init", &self.paths, self.encoding)? {
            InspectedPaths { dataset: None, urls, .. } => {
                refuse_columns(&[("--text", self.text.as_deref()), ("--id", self.id.as_deref())])?;
                inspect::of_texts(&urls, &shown, self.encoding)?
            }
            InspectedPaths { dataset: Some(dataset), .. } => {
                let id = dataset.id_column(self.id.as_deref());
                let (text, is_guess) = dataset.guessed_text(self.text.as_deref(), id.as_deref())?;
                screen.say(&dataset.sentence(&text, id.as_deref()));
                inspect::of_dataset(&dataset, &shown, (&text, is_guess), id.as_deref())?
            }
        };
        if is_printed {
            return print::result(&text);
        }
        own_file::write(&path, text.as_bytes(), false)?;
        print::result(&format!("wrote {shown}; next: resemblance check {shown}\n"))
    }

    /// The name of the data without its ending.
    fn stem(&self) -> String {
        let path = self.paths.first().map_or("job", String::as_str).trim_end_matches('/');
        let mut name =
            path.rsplit('/').find(|part| !part.is_empty() && !part.contains(['*', '?', '['])).unwrap_or("");
        name = job::without_compression(name).unwrap_or(name);
        while Format::of_ending(name).is_some() {
            name = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
        }
        match name.trim_matches('.') {
            "" => "job".to_owned(),
            name => name.to_owned(),
        }
    }
}
