//! `resemblance neighbors`: finds the documents of a finished output that are most similar to one document.

use std::fmt::Write;
use std::io::Read;

use datafusion::prelude::SessionContext;

use crate::address;
use crate::cli::arguments;
use crate::cli::process::on_session;
use crate::cli::screen::print;
use crate::cli::screen::side_by_side::{self, FIRST_LINES};
use crate::error::visible::visible;
use crate::error::{Context, Error, Result};
use crate::job::{Job, whole};
use crate::lookup::neighbors::{self, Neighbor, NeighborOrder, Query};
use crate::lookup::reread::{Need, Reread};
use crate::lookup::show::MemberTexts;
use crate::lookup::{Finished, not_found};

/// Find the documents of a finished output that are most similar to one document
#[derive(clap::Args)]
#[command(after_help = "  resemblance neighbors out/reviews/ --id 42 --top 3
  resemblance neighbors out/reviews/ --text letter.txt")]
pub(crate) struct NeighborsCommand {
    /// The finished output: the folder or URL that a job names as output.url
    output: String,
    #[command(flatten)]
    query: QueryArguments,
    /// Maximum number of neighbors to print
    #[arg(long, value_name = "N", default_value = "10", value_parser = whole(1..=arguments::MAX_TOP))]
    top: usize,
    /// Sort order of neighbors; ties are ordered by the other value, then by id
    #[arg(long, value_enum, default_value_t = NeighborOrder::Estimate)]
    by: NeighborOrder,
    /// Print one JSON object per neighbor
    #[arg(long, conflicts_with = "show")]
    json: bool,
    /// Print the texts of the first N neighbors next to the text of the document, with common passages marked; N defaults to 1
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "1", value_parser = whole(1..=arguments::MAX_TOP))]
    show: Option<usize>,
    /// The new location of a moved source; give as many locations as the source has URLs, in the same order
    #[arg(long, value_name = "URL")]
    source: Vec<String>,
    /// Memory to use, such as 4GiB, or a share of the machine's
    #[arg(long, value_name = "SIZE", default_value = "50%", value_parser = arguments::memory)]
    memory: u64,
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct QueryArguments {
    /// Id of a document in the output
    #[arg(long, allow_negative_numbers = true)]
    id: Option<String>,
    /// A text file, which need not be in the output; - means standard input
    #[arg(long, value_name = "FILE")]
    text: Option<String>,
}

/// The columns of the printed table, named as in the table `pairs`.
const COLUMNS: [&str; 9] = [
    "id",
    "estimate",
    "jaccard",
    "containment_a",
    "containment_b",
    "shared",
    "shingles_a",
    "shingles_b",
    "shared_bands",
];

impl NeighborsCommand {
    pub(crate) fn run(&self) -> Result<()> {
        let (found, shown) = on_session(self.memory, async |session, _| self.find(session).await)?;
        let sentence = self.sentence(&found);
        if self.json {
            if let Some(sentence) = sentence {
                tracing::warn!("{sentence}");
            }
            return print::result(&json_lines(&found.nearest)?);
        }
        let mut text = String::new();
        if !found.nearest.is_empty() {
            let rows: Vec<_> = found.nearest.iter().map(cells).collect();
            text.push_str(&print::table(&COLUMNS, &rows));
            let _ = writeln!(text, "a is {}, b the document of the row", visible(&self.query_name()));
        }
        if let Some(sentence) = sentence {
            let _ = writeln!(text, "{}", visible(&sentence));
        }
        print::result(&(text + &shown))
    }

    /// Finds the neighbors. With `--show`, also returns the formatted texts of the first neighbors.
    async fn find(&self, context: &SessionContext) -> Result<(neighbors::Neighbors, String)> {
        let finished = Finished::open(context, &self.output).await?.with_source_in(self.source.clone());
        let job = finished.job();
        let own = self.query.id.as_deref().and_then(|id| finished.id(id));
        let again = match (self.show, finished.keeps_shingles()) {
            (Some(_), _) => Some(Reread::open(&finished, Need::Texts).await?),
            (None, true) => None,
            (None, false) => self.readable_source(&finished).await?,
        };
        let mut asked = None;
        let sketch = match (&self.query.id, &self.query.text) {
            (Some(id), _) => {
                let stored = match &own {
                    Some(own) => neighbors::document_sketch(&finished, own, again.as_ref()).await?,
                    None => None,
                };
                match stored {
                    Some(sketch) => sketch,
                    None => return Err(not_found(&finished, id).await?),
                }
            }
            (None, Some(path)) => {
                let text = text(path, &self.output)?;
                let sketch = neighbors::text_sketch(&finished, &text).await?;
                asked = Some(text);
                sketch.ok_or_else(|| too_short(path, job))?
            }
            (None, None) => return Err(Error::job("expected --id or --text")),
        };
        let again = again.as_ref();
        let query = Query { sketch: &sketch, id: own.as_ref(), by: self.by, top: self.top };
        let found = neighbors::neighbors(&finished, again, query).await?;
        let shown = match (self.show, again) {
            (Some(most), Some(again)) => {
                let nearest = &found.nearest[..found.nearest.len().min(most)];
                let ids = nearest.iter().map(|neighbor| &neighbor.id).chain(&own);
                let texts = MemberTexts::read(&finished, again, ids).await?;
                let asked = match (&asked, &own) {
                    (Some(text), _) => text,
                    (None, Some(own)) => texts.text(&own.own())?,
                    (None, None) => return Err(Error::bug("neither a document nor a text was given")),
                };
                self.show_texts(asked, nearest, &texts, job)?
            }
            _ => String::new(),
        };
        Ok((found, shown))
    }

    fn show_texts(&self, text: &str, nearest: &[Neighbor], texts: &MemberTexts, job: &Job) -> Result<String> {
        let mut shown = String::new();
        for neighbor in nearest {
            let names = [self.query_name(), neighbor.id.to_string()];
            let missing = || Error::bug("a neighbor without its similarities was shown");
            let jaccard = neighbor.jaccard.ok_or_else(missing)?;
            let texts = [text, texts.text(&neighbor.id.own())?];
            shown += &side_by_side::two(jaccard, names, texts, &job.shingle, FIRST_LINES)?;
        }
        Ok(shown)
    }

    /// Opens the source of an output without shingles. Returns `None` if the source cannot be read and estimates are sufficient.
    async fn readable_source<'a>(&self, finished: &'a Finished) -> Result<Option<Reread<'a>>> {
        match (Reread::open(finished, Need::Shingles).await, self.by) {
            (Ok(again), _) => Ok(Some(again)),
            (Err(error), NeighborOrder::Jaccard) => Err(error),
            (Err(error), NeighborOrder::Estimate) => {
                tracing::warn!("{}; only estimates are shown", error.one_line());
                Ok(None)
            }
        }
    }

    /// Returns the name of the queried document for messages.
    fn query_name(&self) -> String {
        match (&self.query.id, &self.query.text) {
            (Some(id), _) => id.clone(),
            (None, Some(path)) => named(path).to_owned(),
            (None, None) => String::new(),
        }
    }

    /// Returns a note if fewer neighbors exist than `--top` asks for.
    fn sentence(&self, found: &neighbors::Neighbors) -> Option<String> {
        let (asked, top) = (self.query_name(), self.top);
        let other = if self.query.id.is_some() { "other " } else { "" };
        match found.candidates {
            0 => Some(format!("no {other}document shares a bucket with {asked}: it has no neighbors")),
            n if n < top as u64 => {
                let (documents, share) = (print::plural(n, "document"), print::either(n, "shares", "share"));
                let n = print::count(n);
                Some(format!("{n} {other}{documents} {share} a bucket with {asked}; {top} were asked for"))
            }
            _ => None,
        }
    }
}

/// Reads a text from a file or from standard input, like the source format `text`. Removes a byte order mark.
fn text(path: &str, output: &str) -> Result<String> {
    let mut bytes = Vec::new();
    let read = match path {
        "-" => std::io::stdin().lock().read_to_end(&mut bytes),
        path => std::fs::File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)),
    };
    if let (Err(_), Some(missing)) = (&read, address::missing(path)) {
        return Err(Error::input(format!(
            "{missing}, and --text takes the path of a file: to ask about a text, pipe it, as in `echo TEXT | resemblance \
             neighbors {output} --text -`"
        )));
    }
    read.context(|| format!("cannot read {}", named(path)))?;
    let text = String::from_utf8(bytes)
        .map_err(|e| Error::input(format!("{} is not valid UTF-8", named(path))).because(e))?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

fn named(path: &str) -> &str {
    if path == "-" { "standard input" } else { path }
}

fn too_short(path: &str, job: &Job) -> Error {
    let unit = job.shingle.unit.plural();
    let at_least = match job.shingle.min_words {
        0 => String::new(),
        words => format!(", and texts of fewer than {words} words are not compared"),
    };
    Error::input(format!(
        "{} is too short: after normalisation it has no shingle of {} {unit}{at_least}",
        named(path),
        job.shingle.size
    ))
}

fn cells(neighbor: &Neighbor) -> Vec<String> {
    const UNKNOWN: &str = "-";
    let share = |share: f64| format!("{share:.6}");
    let known = |known: Option<f64>| known.map_or_else(|| UNKNOWN.to_owned(), share);
    vec![
        neighbor.id.to_string(),
        share(neighbor.estimate),
        known(neighbor.jaccard),
        known(neighbor.containment_a),
        known(neighbor.containment_b),
        neighbor.shared.map_or_else(|| UNKNOWN.to_owned(), |shared| shared.to_string()),
        neighbor.shingles_a.to_string(),
        neighbor.shingles_b.to_string(),
        neighbor.shared_bands.to_string(),
    ]
}

fn json_lines(neighbors: &[Neighbor]) -> Result<String> {
    neighbors.iter().map(print::json_line).collect()
}
