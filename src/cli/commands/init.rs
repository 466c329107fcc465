//! `resemblance init`: writes a commented job file for data.

use std::path::{Path, PathBuf};

use crate::cli::arguments::data::{DataArguments, look};
use crate::cli::process::files;
use crate::cli::screen::{Screen, print};
use crate::error::{Error, Result};
use crate::inspect::{self, InspectedPaths};
use crate::job::{self, Format};

/// Write a commented job file for data
///
/// The file lists the columns of the data with an example value for each, and contains the settings of `resemblance dedup`. It is ready for
/// `resemblance check` and `resemblance run`.
#[derive(clap::Args)]
#[command(after_help = "  resemblance init reviews.csv --output my.toml")]
pub(crate) struct Init {
    #[command(flatten)]
    data: DataArguments,
    /// The job file to write, which must not exist; - writes to standard output [default: the name of the data with .toml]
    #[arg(short, long, value_name = "JOB.toml")]
    output: Option<PathBuf>,
}

impl Init {
    pub(crate) fn run(&self, screen: &Screen) -> Result<()> {
        let path = self.output.clone().unwrap_or_else(|| PathBuf::from(format!("{}.toml", self.stem())));
        let is_printed = path == Path::new("-");
        if !is_printed && path.symlink_metadata().is_ok() {
            return Err(Error::job(format!(
                "{} exists: name another file with -o, or remove it",
                path.display()
            )));
        }
        let shown = if is_printed { format!("{}.toml", self.stem()) } else { path.display().to_string() };
        let text = match look(screen, "init", &self.data)? {
            InspectedPaths { dataset: None, files } => {
                self.data.refuse_columns()?;
                inspect::texts_job(&files.urls, &shown, files.encoding, self.data.html_as)?
            }
            InspectedPaths { dataset: Some(dataset), .. } => {
                let [text, asked] = self.data.columns();
                let id = dataset.id_column(asked.as_deref());
                let (text, is_guess) = dataset.guessed_text(text.as_deref(), id.as_deref())?;
                screen.say(&dataset.sentence(&text, id.as_deref(), asked.as_deref()));
                inspect::dataset_job(&dataset, &shown, (&text, is_guess), id.as_deref())?
            }
        };
        if is_printed {
            return print::result(&text);
        }
        files::write(&path, text.as_bytes(), false)?;
        print::result(&format!("wrote {shown}; next: resemblance check {shown}\n"))
    }

    /// Returns the name of the data's file or folder, without the ending.
    fn stem(&self) -> String {
        let path = self.data.paths.first().map_or("job", String::as_str).trim_end_matches('/');
        let mut name =
            path.rsplit('/').find(|part| !part.is_empty() && !part.contains(['*', '?', '['])).unwrap_or("");
        name = job::without_compression(name).unwrap_or(name);
        while Format::from_path(name).is_some() {
            name = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
        }
        match name.trim_matches('.') {
            "" => "job".to_owned(),
            name => name.to_owned(),
        }
    }
}
