//! Checks a job file and converts it to a [`Job`].

use std::path::Path;

use super::against::Reference;
use super::band_choice::choose_bands;
use super::file::{self, JobDocument, JobFile};
use super::format::FormatName;
use super::shingle::{check_shingle, check_short};
use super::source::Source;
use super::values::{Checked, Wrong, require, wrong};
use super::{Compare, Format, Input, Job, Reuse, SameId, ScoreBy};
use crate::address;
use crate::error::{Error, Result};

impl Job {
    /// Checks a job from a manifest by the rules for job files, because the manifest could have been edited. The source and the output of
    /// the job are not checked.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) if the job breaks a rule. The message contains the key and the allowed values.
    pub fn check(&self) -> Result<()> {
        checked(self).map_err(|Wrong { key, fault }| Error::job(format!("`{key}` {fault}")))
    }
}

fn checked(job: &Job) -> Checked<()> {
    check_shingle(&job.shingle, job.max_frequency)?;
    job.minhash.check(job.shingle.hash)?;
    job.score.check(job.candidates.method)?;
    check_short(&job.shingle, &job.score)?;
    check_decisions(job)?;
    job.lsh.check(job.minhash.permutations)
}

/// Checks that decisions can be applied to the pairs of a job.
fn check_decisions(job: &Job) -> Checked<()> {
    if job.clusters.decisions.is_none() {
        return Ok(());
    }
    for (is_wrong, fault) in [
        (!job.candidates.method.compares(), "candidates.method = \"none\", which finds no pairs"),
        (job.candidates.compare == Compare::Across, "candidates.compare = \"across\""),
        (job.score.by == ScoreBy::Signature, "score.by = \"signature\": expected exact similarities"),
        (!job.clusters.thresholds.is_empty(), "clusters.thresholds"),
        (job.second_source().is_some(), "against.source: name an output as against.output"),
        (job.same_id() == Some(SameId::Replace), "against.same_id = \"replace\""),
    ] {
        require(!is_wrong, "clusters.decisions", format!("cannot be combined with {fault}"))?;
    }
    Ok(())
}

/// Resolves a job file: fills in defaults, checks every rule, and chooses bands and rows.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) if the job breaks a rule. The message contains the key and the allowed values.
pub fn resolve(file: JobFile) -> Result<Job> {
    job(file, None).map_err(|Wrong { key, fault }| Error::job(format!("`{key}` {fault}")))
}

pub(super) fn job(file: JobFile, made: Option<&Job>) -> Checked<Job> {
    let reused = reuse(&file)?;
    let JobFile { name, source, shingle, minhash, lsh, candidates, against, score, .. } = file;
    let method = candidates.method;
    let max_frequency = shingle.as_ref().and_then(|shingle| shingle.max_frequency);
    let has_bits = reused.is_some() || minhash.as_ref().is_some_and(|minhash| minhash.bits.is_some());
    let (source, shingle, max_frequency, mut minhash) = match (&reused, made) {
        (None, _) => {
            let shingle = shingle.unwrap_or_default().resolved()?;
            let minhash = minhash.unwrap_or_default().resolved(shingle.hash)?;
            let is_default_id = source.id.is_none();
            let source = source.resolved()?;
            if let Some(against) = against.as_ref().filter(|_| is_default_id) {
                against.check_default_id(&source)?;
            }
            (source, shingle, max_frequency, minhash)
        }
        (Some(_), Some(made)) => {
            let source = reused_source(made, source.group)?;
            (source, made.shingle.clone(), made.max_frequency, made.minhash.clone())
        }
        (Some(_), None) => {
            return wrong(
                "source.format",
                "is \"output\", which only `resemblance run` and `check` can read: expected the format of the files that hold \
                 the texts",
            );
        }
    };
    score.check(method)?;
    let against = against.map(|against| against.resolved(reused.is_some(), &shingle)).transpose()?;
    let second_has_groups = against.as_ref().is_some_and(|against| match &against.reference {
        Reference::Outputs { .. } => false,
        Reference::Source(second) => second.group.is_some(),
    });
    candidates.check(source.group.is_some() || second_has_groups, file.passages.is_some())?;
    let choice = lsh.choice()?;
    let chosen = choose_bands(choice, minhash.permutations, score.least_jaccard(), method)
        .or_else(|e| wrong("lsh.target_recall", format!("cannot be reached: {e}")))?;
    let lsh = lsh.with_bands(choice, chosen.map(|found| (found.bands, found.rows)));
    if !has_bits {
        minhash.bits = minhash.least_bits(method.uses_buckets().then_some(&lsh));
    }
    let clusters = file.clusters.checked(&source, &score)?;
    let passages = file.passages.map(|passages| passages.checked()).transpose()?;
    file.alarms.check(&source)?;
    file.output.check(&source)?;
    let keeps_shingles = made.is_some_and(|made| made.output.keep.shingles());
    let job = Job {
        name: name.unwrap_or_else(|| "unnamed".into()),
        source,
        input: reused.map_or(Input::Read, |output| Input::Reuse(Reuse { output, keeps_shingles })),
        shingle,
        max_frequency,
        minhash,
        lsh,
        candidates,
        against,
        first_day: None,
        score,
        clusters,
        passages,
        alarms: file.alarms,
        output: file.output,
        engine: file.engine.checked()?,
    };
    checked(&job)?;
    Ok(job)
}

/// Returns the finished output that is the source of `file`, if its format is `output`.
pub(super) fn reuse(file: &JobFile) -> Checked<Option<String>> {
    let source = &file.source;
    if source.format != Some(FormatName::Output) {
        return Ok(None);
    }
    for (key, is_set) in [
        ("shingle", file.shingle.is_some()),
        ("minhash", file.minhash.is_some()),
        ("source.id", source.id.is_some()),
        ("source.text", source.text.is_some()),
        ("source.columns", source.columns.is_some()),
        ("source.encoding", source.encoding.is_some()),
        ("source.references", source.references.is_some()),
        ("source.html", source.html.is_some()),
        ("source.where", source.condition.is_some()),
        ("source.limit", source.limit.is_some()),
    ] {
        require(!is_set, key, "is set, and the source is an output, which decides it: remove the key")?;
    }
    let urls = source.url.clone().filled("source.url", "folder or URL prefix of an output")?;
    match <[String; 1]>::try_from(urls) {
        Ok([url]) => {
            address::check(&url).or_else(|fault| wrong("source.url", fault))?;
            Ok(Some(url))
        }
        Err(urls) => wrong("source.url", format!("names {} outputs: expected one", urls.len())),
    }
}

/// Returns the source of the job `made`, with the group column `group` if it is given.
fn reused_source(made: &Job, group: Option<String>) -> Checked<Source> {
    // The reused output lacks these documents, so this run leaves none out.
    let source = Source { forgotten: None, ..made.source.clone() };
    let Some(group) = group else { return Ok(source) };
    if !made.source.columns.contains(&group) {
        return wrong(
            "source.group",
            format!(
                "names `{group}`, which the output does not carry: expected one of its source.columns, or make it again with that \
                 column"
            ),
        );
    }
    Ok(Source { group: Some(group), ..source })
}

impl Job {
    /// Reads the job file at `path`, applies `sets` (each `KEY=VALUE`) and resolves the job. Reads no data except small settings files,
    /// such as a list of stop words. Refuses a job over a finished output, because such a job needs a [`Draft`].
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) if the job breaks a rule. The message contains the file, the line or override, the key, and
    /// the allowed values.
    pub fn load(path: impl AsRef<Path>, sets: &[String]) -> Result<Job> {
        Draft::read(path, sets)?.resolve(None)
    }
}

/// A job file with its overrides, which was read but not yet resolved. If the source is a finished output, the job takes settings from the
/// job of this output.
#[derive(Debug)]
pub struct Draft {
    shown: String,
    text: String,
    sets: Vec<String>,
    file: JobFile,
}

impl Draft {
    /// Reads the job file at `path` and applies `sets` (each `KEY=VALUE`). The name of the file is the default name of the job.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) if the file cannot be read or is not a job file. The message contains the line or override,
    /// the key, and the allowed values.
    pub fn read(path: impl AsRef<Path>, sets: &[String]) -> Result<Self> {
        let path = path.as_ref();
        let shown = path.display().to_string();
        let is_data = Format::from_path(&shown).is_some_and(|format| format != Format::Text);
        if is_data || path.is_dir() {
            return Err(Error::job(format!(
                "{shown} is not a job file, which is TOML: `resemblance find {shown}` compares data without one, and `resemblance init \
                 {shown}` writes one for them"
            )));
        }
        if let Some(missing) = address::missing(&shown) {
            return Err(Error::job(format!("{missing}: name a job file")));
        }
        let text = std::fs::read_to_string(path)
            .map_err(|e| Error::job(format!("cannot read the job file {shown}")).because(e))?;
        let mut file = file::read(&text, &shown, sets)?;
        if file.name.is_none() {
            file.name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        }
        Ok(Self { shown, text, sets: sets.to_vec(), file })
    }

    /// Returns the finished output whose sketches the job reuses, or `None` if the job reads texts.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) if the job sets a key that the output determines.
    pub fn reuse(&self) -> Result<Option<String>> {
        reuse(&self.file).map_err(|wrong| self.error(wrong))
    }

    /// Resolves the job. If the source is a finished output, `made` is the job of this output.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) if the job breaks a rule. The message contains the file, the line or override, the key, and
    /// the allowed values.
    pub fn resolve(&self, made: Option<&Job>) -> Result<Job> {
        job(self.file.clone(), made).map_err(|wrong| self.error(wrong))
    }

    fn error(&self, Wrong { key, fault }: Wrong) -> Error {
        match JobDocument::parse(&self.text, &self.shown, &self.sets) {
            Ok(document) => document.error(&key, &fault),
            Err(error) => error,
        }
    }
}
