//! Writes pages with pairs of texts.

use super::files::{FileMark, OwnFile};
use crate::cli::screen::print;
use crate::error::Result;
use crate::job::Job;
use crate::lookup::show::{MemberTexts, PairRow};
use crate::page::{PAIRS_MARK, PairOnPairsPage, PairsPage, html, sides};
use crate::report::dataset;

/// The maximum number of characters of a text on a page.
const MAX_CHARACTERS: usize = 100_000;

pub(crate) fn page_file(path: Option<&str>) -> Result<Option<OwnFile>> {
    let mark = FileMark { beginning: PAIRS_MARK, noun: "a page of pairs that this program wrote" };
    path.map(|path| OwnFile::at("--html", path, mark)).transpose()
}

/// Writes a page with these pairs and their texts. `urls` name the data in the title, and `intro` are paragraphs under it. With
/// `is_whole`, long texts are not cut off.
///
/// # Errors
/// If a text is missing, or if the file cannot be written.
pub(crate) fn write_page(
    file: &OwnFile,
    (job, urls): (&Job, &[String]),
    intro: Vec<String>,
    (pairs, texts): (&[PairRow], &MemberTexts),
    is_whole: bool,
) -> Result<()> {
    let most = if is_whole { usize::MAX } else { MAX_CHARACTERS };
    let on_page = |pair: &PairRow| {
        let [a, b] = pair.documents();
        let both = [texts.text(&a)?, texts.text(&b)?];
        let (measure, containment) = (job.score.measure, [pair.containment_a, pair.containment_b]);
        let similarity = measure.similarity_from_shares(pair.jaccard, containment);
        Ok(PairOnPairsPage {
            listed: format!("{} {similarity:.3}", measure.title()),
            jaccard: pair.jaccard,
            containment,
            sides: sides([a.id.to_string(), b.id.to_string()], both, most, &job.shingle)?,
        })
    };
    let shingle = format!(
        "The percentages count sequences of {}. A passage of at least this length that both texts have is marked, and has the same \
         number in both.",
        print::counted(job.shingle.size as u64, job.shingle.unit.noun())
    );
    let page = PairsPage {
        dataset: dataset(urls).unwrap_or_else(|| "the source".into()),
        intro: intro.into_iter().chain([shingle]).collect(),
        pairs: pairs.iter().map(on_page).collect::<Result<_>>()?,
    };
    file.write(&html(&page)?)
}
