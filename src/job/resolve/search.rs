//! `[score]` and `[lsh]`: which pairs are kept, and by which bands they are found.

use super::super::file::{self, Choose};
use super::super::recipes::choose;
use super::super::{
    Against, Candidates, Choice, Compare, Lsh, Measure, Method, Reference, Score, ScoreBy, Source,
};
use super::wrong::{Checked, wrong};

pub(super) fn check_candidates(
    candidates: &Candidates,
    source: &Source,
    against: Option<&Against>,
    has_passages: bool,
) -> Checked<()> {
    let second_has_groups = |against: &Against| match &against.reference {
        Reference::Outputs { .. } => false,
        Reference::Source(second) => second.group.is_some(),
    };
    let has_groups = source.group.is_some() || against.is_some_and(second_has_groups);
    if candidates.method == Method::None && !has_passages {
        return wrong(
            "candidates.method",
            "set to \"none\" compares no documents and only finds passages: add the section [passages], or expected another method",
        );
    }
    if candidates.compare != Compare::All && !has_groups {
        return wrong(
            "candidates.compare",
            "is set, and no document has a group: set `source.group` to the column of groups",
        );
    }
    Ok(())
}

pub(super) fn check_score(score: &Score, method: Method) -> Checked<()> {
    let threshold = score.threshold;
    // Written so that NaN fails too.
    if !(threshold > 0.0 && threshold <= 1.0) {
        return wrong("score.threshold", format!("is {threshold}: expected a number over 0 and at most 1"));
    }
    if score.measure != Measure::Jaccard {
        let measure = score.measure;
        let by_signature = format!(
            "and signatures estimate the Jaccard similarity of two sets, not their {}",
            measure.noun()
        );
        if score.by == ScoreBy::Signature {
            return wrong(
                "score.by",
                format!(
                    "is \"signature\" with score.measure = \"{measure}\", {by_signature}: expected \"shingles\""
                ),
            );
        }
        if score.prefilter {
            return wrong(
                "score.prefilter",
                format!("is true with score.measure = \"{measure}\", {by_signature}: leave the key out"),
            );
        }
        if method == Method::Lsh && measure.takes_any_size() {
            return wrong(
                "candidates.method",
                format!(
                    "is \"lsh\" with score.measure = \"{measure}\", and bands find sets of a high Jaccard similarity, which a \
                     short document and a long one that contains it do not have: expected \"prefix\", or \"all\""
                ),
            );
        }
    }
    Ok(())
}

pub(super) fn lsh_of(lsh: &file::Lsh, permutations: usize, threshold: f64, method: Method) -> Checked<Lsh> {
    const EITHER: &str = "expected bands and rows, or choose, or target_recall, or none of them";
    let choice = match (lsh.bands, lsh.rows, lsh.choose, lsh.target_recall) {
        (Some(_), Some(_), None, None) => Choice::Given,
        (Some(_), None, _, _) => return wrong("lsh.bands", format!("is set without `lsh.rows`: {EITHER}")),
        (None, Some(_), _, _) => return wrong("lsh.rows", format!("is set without `lsh.bands`: {EITHER}")),
        (Some(_), Some(_), Some(_), _) => {
            return wrong("lsh.choose", format!("is set together with `lsh.bands` and `lsh.rows`: {EITHER}"));
        }
        (Some(_), Some(_), None, Some(_)) => {
            return wrong(
                "lsh.target_recall",
                format!("is set together with `lsh.bands` and `lsh.rows`: {EITHER}"),
            );
        }
        (None, None, Some(_), Some(_)) => {
            return wrong("lsh.target_recall", format!("is set together with `lsh.choose`: {EITHER}"));
        }
        (None, None, Some(Choose::Nearest), None) => Choice::Nearest,
        (None, None, Some(Choose::Balanced), None) => Choice::Balanced,
        (None, None, Some(Choose::Recall), None) => Choice::Recall,
        (None, None, Some(Choose::Precision), None) => Choice::Precision,
        (None, None, None, target) => {
            let target = target.unwrap_or(file::DEFAULT_TARGET_RECALL);
            if !(target > 0.0 && target < 1.0) {
                return wrong(
                    "lsh.target_recall",
                    format!("is {target}: expected a number over 0 and under 1"),
                );
            }
            Choice::TargetRecall(target)
        }
    };
    let (bands, rows) = match choose::by(choice, permutations, threshold, method) {
        Ok(Some(found)) => (found.bands, found.rows),
        Ok(None) => (lsh.bands.unwrap_or(0), lsh.rows.unwrap_or(0)),
        Err(e) => return wrong("lsh.target_recall", format!("cannot be reached: {e}")),
    };
    let hot_bucket = lsh.hot_bucket.unwrap_or(file::Lsh::HOT_BUCKET);
    let (bucket_hash, table_size) = (lsh.bucket_hash, lsh.table_size);
    let lsh = Lsh { bands, rows, choice, bucket_hash, table_size, hot_bucket };
    check_lsh(&lsh, permutations)?;
    Ok(lsh)
}

pub(super) fn check_lsh(lsh: &Lsh, permutations: usize) -> Checked<()> {
    let Lsh { bands, rows, table_size, hot_bucket, .. } = *lsh;
    if bands == 0 {
        return wrong("lsh.bands", "is 0: expected 1 or more");
    }
    if rows == 0 {
        return wrong("lsh.rows", "is 0: expected 1 or more");
    }
    if bands.checked_mul(rows).is_none_or(|used| used > permutations) {
        return wrong(
            "lsh.bands",
            format!(
                "times `lsh.rows` is {bands} * {rows}: expected at most {permutations}, the number of \
                 `minhash.permutations`"
            ),
        );
    }
    if table_size == Some(0) {
        return wrong(
            "lsh.table_size",
            "is 0: expected 1 or more, or no key for an unlimited number of buckets",
        );
    }
    if hot_bucket < 2 {
        return wrong(
            "lsh.hot_bucket",
            format!(
                "is {hot_bucket}: expected 2 or more: in larger buckets, not every two documents are compared"
            ),
        );
    }
    Ok(())
}
