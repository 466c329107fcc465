//! `resemblance find`: finds similar files without a job file.

use std::num::NonZeroUsize;
use std::path::{Component, PathBuf};

use crate::address;
use crate::address::local_path;
use crate::cli::support::progress::Screen;
use crate::cli::support::run_job::run_job;
use crate::cli::support::side_by_side;
use crate::cli::support::work::Work;
use crate::cli::support::{arguments, print};
use crate::engine::spills::{self, SpillFolder};
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::job::file::{self, File, Format};
use crate::job::{self, Encoding, Job, MAX_SHINGLE_SIZE, Method};
use crate::lookup::show::{self, First, Pair, Texts};
use crate::lookup::{self, Finished, rows};
use crate::output::counts::Counts;
use crate::pipeline::OnExisting;

/// Examples of the command.
const EXAMPLES: &str = "\
Examples:
  resemblance find essays/ --show 3
  resemblance find essays/ reports/ --threshold 0.5 --json";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Find {
    /// Files to compare, and folders whose files to compare, with those of their subfolders
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<String>,
    /// The lowest similarity to print, over 0 and at most 1
    #[arg(short, long, default_value = "0.8", value_parser = arguments::similarity)]
    threshold: f64,
    /// Number of characters (or words) in a shingle
    #[arg(short = 'k', long, default_value = "9", value_parser = shingle_size)]
    size: NonZeroUsize,
    /// What shingles are made of
    #[arg(short, long, value_enum, default_value_t = Unit::Char)]
    unit: Unit,
    /// How the files are encoded: utf-8, utf-8-lossy, latin-1, or a label of the Encoding Standard [default: utf-8]
    #[arg(long, value_name = "NAME", value_parser = encoding)]
    encoding: Option<Encoding>,
    /// Compare every file with every other one: exact, but slow for many files
    #[arg(long)]
    all: bool,
    /// Print one JSON object per pair
    #[arg(long, conflicts_with = "show")]
    json: bool,
    /// Print the texts of the N most similar pairs side by side, with common passages marked; without N, 1 pair
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "1", value_parser = pairs_to_show)]
    show: Option<NonZeroUsize>,
}

fn shingle_size(text: &str) -> std::result::Result<NonZeroUsize, String> {
    arguments::one_to(MAX_SHINGLE_SIZE)(text).map_err(|expected| format!("{expected} after -k"))
}

fn encoding(name: &str) -> std::result::Result<Encoding, String> {
    name.parse().map_err(|e: Error| format!("is {e}"))
}

fn pairs_to_show(text: &str) -> std::result::Result<NonZeroUsize, String> {
    arguments::one_to(arguments::MAX_TOP)(text)
        .map_err(|expected| format!("{expected}, or nothing; paths come before --show"))
}

/// Folders for the tables while the command runs: the system's folder for temporary files, then others.
fn temporary_folders() -> Vec<PathBuf> {
    let mut folders = vec![std::env::temp_dir()];
    folders.extend(Environment::of_process().cache_folders());
    if cfg!(unix) {
        folders.extend(["/var/tmp", "/tmp", "/dev/shm"].map(PathBuf::from));
    }
    folders
}

/// A new folder in the first of `folders` that lies in none of `paths`, because files written below a searched folder would be
/// searched too.
fn apart(paths: &[String], folders: Vec<PathBuf>) -> Result<SpillFolder> {
    let searched = paths.iter().filter_map(|path| searched_folder(path)).collect::<Vec<_>>();
    let mut failed = None;
    for folder in folders {
        // A folder that is missing or cannot be read cannot be written to.
        let Ok(folder) = folder.canonicalize() else { continue };
        if searched.iter().any(|searched| folder.starts_with(searched)) {
            continue;
        }
        spills::sweep(&folder);
        match SpillFolder::create(&folder) {
            Ok(folder) => return Ok(folder),
            Err(e) => failed = failed.or(Some(e)),
        }
    }
    let error = Error::input(
        "every folder for temporary files lies inside the folders to search: set TMPDIR to a folder outside of them",
    );
    Err(match failed {
        Some(e) => error.because(e),
        None => error,
    })
}

/// The folder that is searched for `path`, with links resolved; `None` for a URL of another machine.
fn searched_folder(path: &str) -> Option<PathBuf> {
    let path = match address::scheme(path) {
        Some((scheme, _)) if scheme.eq_ignore_ascii_case("file") => {
            address::url(path).ok()?.to_file_path().ok()?
        }
        Some(_) => return None,
        None => PathBuf::from(path),
    };
    // Of a pattern, the folder before its first wildcard.
    let wild = |part: Component<'_>| part.as_os_str().to_string_lossy().contains(['*', '?', '[']);
    let plain: PathBuf = match path.exists() {
        true => path,
        false => path.components().take_while(|part| !wild(*part)).collect(),
    };
    local_path::absolute(plain).ok()
}

/// The `most` most similar pairs of the finished job with their texts.
fn shown(job: &Job, most: usize) -> Result<String> {
    Work::begin(&job.engine)?.run(async {
        let session = lookup::session(&job.engine)?;
        let finished = Finished::open(&session, &job.output.url).await?;
        let found = show::pairs(&finished, First::MostSimilar, None, most).await?;
        if found.first.is_empty() {
            return Ok(String::new());
        }
        let texts = Texts::open(&finished, found.first.iter().flat_map(Pair::documents)).await?;
        let sides = side_by_side::pairs(&found.first, &texts, &job.shingle)?;
        Ok(format!("{sides}{}", side_by_side::left_out(found.all, found.first.len(), "pair", "--show")))
    })
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Unit {
    Char,
    Word,
}

impl Find {
    pub(in crate::cli) fn run(&self, screen: &Screen) -> Result<()> {
        // The tables are temporary: they are removed when the command ends.
        let folder = apart(&self.paths, temporary_folders())?;
        let mut job = self.job(&folder.path().join("out").to_string_lossy())?;
        job.engine.spill = Some(folder.path().to_string_lossy().into_owned());
        let (outcome, pairs) = run_job(&job, screen.progress(), OnExisting::Fail, None)?;
        screen.clear();
        if self.json {
            return print::result(&rows::json_lines(&pairs)?);
        }
        let cells = rows::cells(&pairs)?;
        let Counts { pairs: found, documents, .. } = outcome.manifest.counts;
        let rejected: Vec<String> =
            outcome.manifest.rejects.iter().map(|(reason, n)| format!("{n} {reason}")).collect();
        let rejected = if rejected.is_empty() {
            String::new()
        } else {
            format!("; not compared: {}", rejected.join(", "))
        };
        let summary = format!(
            "{} of similarity {} or more among {}{rejected}\n",
            print::counted(found, "pair"),
            self.threshold,
            print::counted(documents, "file"),
        );
        let table = match cells.is_empty() {
            true => String::new(),
            false => {
                print::table(&["file", "similar to", "jaccard", "share of file", "share of other"], &cells)
            }
        };
        let shown = match self.show {
            Some(most) => shown(&job, most.get())?,
            None => String::new(),
        };
        print::result(&format!("{table}{summary}{shown}"))
    }

    /// The job that these arguments ask for, with its tables in `output`.
    fn job(&self, output: &str) -> Result<Job> {
        let mut file = File::new(Format::Text, self.paths.clone(), output);
        file.source.encoding = self.encoding.map(|encoding| encoding.to_string());
        file.shingle = Some(file::Shingle {
            unit: match self.unit {
                Unit::Char => job::Unit::Char,
                Unit::Word => job::Unit::Word,
            },
            size: Some(self.size.get()),
            ..file::Shingle::default()
        });
        file.candidates.method = if self.all { Method::All } else { Method::Lsh };
        file.score.threshold = self.threshold;
        job::resolve(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_kept_apart_from_what_is_searched() {
        let root = tempfile::tempdir().unwrap();
        let real = root.path().canonicalize().unwrap();
        for folder in ["searched/tmp", "searched/deeper", "elsewhere"] {
            std::fs::create_dir_all(real.join(folder)).unwrap();
        }
        let folders =
            || ["searched/tmp", "missing", "searched", "elsewhere"].map(|name| real.join(name)).to_vec();
        let path = |name: &str| real.join(name).to_string_lossy().into_owned();
        let chosen = |paths: &[String]| {
            apart(paths, folders())
                .map(|folder| folder.path().parent().unwrap().strip_prefix(&real).unwrap().to_owned())
        };
        assert_eq!(chosen(&[path("searched/deeper")]).unwrap(), PathBuf::from("searched/tmp"));
        for searched in
            ["searched", "searched/../searched/", "searched/*.txt", "searched/t*", "searched/[a]/b"]
        {
            assert_eq!(chosen(&[path(searched)]).unwrap(), PathBuf::from("elsewhere"), "{searched}");
        }
        let url = format!("file://{}", path("searched"));
        assert_eq!(chosen(&[url, "s3://bucket/a".into()]).unwrap(), PathBuf::from("elsewhere"));
        let error = chosen(&[path("elsewhere"), path("")]).unwrap_err();
        assert!(error.to_string().contains("TMPDIR"), "{error}");
    }
}
