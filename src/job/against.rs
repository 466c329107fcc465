//! `[against]`: the reference documents with which new documents are compared.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::format::{DocumentColumns, FormatName};
use super::source::{Source, SourceSection};
use super::values::{Checked, Names, Wrong, require, wrong};
use crate::address;
use crate::kernel::shingle::{Shingle, ShingleHash};

/// `[against]`: the reference documents. They come from finished outputs or from a second source.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgainstSection {
    /// Folder or URL prefix of the finished output with the reference documents, or a list of such outputs in the order of their creation.
    /// Their jobs must have the same `[shingle]` and `[minhash]`. Either this key or `source` is required.
    pub output: Option<Names>,
    /// `[against.source]`: a second dataset with the reference documents. It has the keys of `[source]` except `columns`. Both
    /// sources may have the same id.
    pub source: Option<SourceSection>,
    /// The documents that are paired: `new-old+new-new`, or `new-old` alone. Two reference documents are never paired.
    #[serde(default)]
    pub pairs: NewPairs,
    /// The treatment of a new document with the same id as a reference document. `error` ends the run, `replace` replaces the reference
    /// document, and `skip` puts the new document into `rejects`. Requires `output`. Default: `error`.
    pub same_id: Option<SameId>,
    /// Whether this is the first day if no output in `output` exists yet. The documents of the source are then only compared with each
    /// other. Requires `output`. Default: a missing output is an error.
    #[serde(default)]
    pub first_day: bool,
}

impl AgainstSection {
    const OUTPUT: &str = "against.output";

    /// Resolves the section. `reuses` is true if the job reuses the sketches of an output and reads no texts.
    pub(super) fn resolved(self, reuses: bool, shingle: &Shingle) -> Checked<Against> {
        const SAME_ID: &str = "against.same_id";
        let Self { output, source, pairs, same_id, first_day } = self;
        require(
            shingle.hash != ShingleHash::Dictionary,
            "shingle.hash",
            "is \"dictionary\", whose numbers are valid in one run only: expected another hash, since the documents of several \
             runs are compared",
        )?;
        require(
            source.is_none() || same_id.is_none(),
            SAME_ID,
            "is set, but with against.source both sources may have the same id: remove the key",
        )?;
        require(
            source.is_none() || !first_day,
            "against.first_day",
            "is true, which only works with against.output: against.source must exist on every day, so remove the key",
        )?;
        let same_id = same_id.unwrap_or_default();
        require(
            !reuses || same_id != SameId::Skip,
            SAME_ID,
            "is \"skip\", and the source is an output, whose documents are taken as they are: expected \"error\" or \
             \"replace\"",
        )?;
        let reference = match (output, source) {
            (Some(output), None) => Reference::Outputs { urls: urls(output)?, same_id },
            (None, Some(source)) => Reference::Source(Box::new(second_source(source)?)),
            (None, None) => {
                return wrong(Self::OUTPUT, "is required but missing, and so is `against.source`: set one");
            }
            (Some(_), Some(_)) => {
                return wrong(Self::OUTPUT, "is set, and so is `against.source`: expected one of them");
            }
        };
        Ok(Against { reference, pairs, first_day })
    }

    /// Refuses row and line numbers as default ids, because rows of two days often have the same numbers.
    pub(super) fn check_default_id(&self, source: &Source) -> Checked<()> {
        let is_numbered = match source.format.rules().columns {
            DocumentColumns::OfFile => true,
            DocumentColumns::Fixed { id, .. } => id.len() > 1,
            DocumentColumns::WholeFile => false,
        };
        require(
            self.output.is_none() || !is_numbered,
            "source.id",
            "is left out, so file names and row numbers are ids, and files of two days often have the same names: name the column that \
             identifies a document, here and in the jobs of against.output; without such a column, give the files of each day other names \
             and set source.id = \"row_number\"",
        )
    }
}

fn urls(output: Names) -> Checked<Vec<String>> {
    const KEY: &str = AgainstSection::OUTPUT;
    let outputs = output.filled(KEY, "folder or URL prefix of an output")?;
    for (at, url) in outputs.iter().enumerate() {
        address::check(url).or_else(|fault| wrong(KEY, fault))?;
        let is_new = !outputs.iter().take(at).any(|earlier| earlier == url);
        require(is_new, KEY, format!("names {url:?} twice: expected each output once"))?;
    }
    Ok(outputs)
}

fn second_source(source: SourceSection) -> Checked<Source> {
    const KEY: &str = "against.source";
    let is_output = source.format == Some(FormatName::Output);
    require(!is_output, KEY, "has the format \"output\": set `against.output` instead")?;
    require(
        source.columns.is_none(),
        KEY,
        "has the key `columns`, but the table documents has no document of this source: remove it",
    )?;
    source.resolved().map_err(|Wrong { key, fault }| Wrong { key: format!("against.{key}").into(), fault })
}

/// `[against]`: the reference documents with which new documents are compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Against {
    /// The location of the reference documents.
    #[serde(flatten)]
    pub reference: Reference,
    /// The kinds of documents that are paired.
    pub pairs: NewPairs,
    /// Whether the run has no reference documents while none of the outputs exists.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub first_day: bool,
}

impl Against {
    /// Returns the folders or URL prefixes of the reference outputs. Empty for a second source.
    pub(crate) fn outputs(&self) -> &[String] {
        match &self.reference {
            Reference::Outputs { urls, .. } => urls,
            Reference::Source(_) => &[],
        }
    }
}

/// The location of the reference documents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reference {
    /// The reference documents are in finished outputs.
    Outputs {
        /// The folders or URL prefixes of the outputs, in the order of their creation.
        urls: Vec<String>,
        /// The treatment of a new document with the same id as a reference document.
        same_id: SameId,
    },
    /// The reference documents are in a second source. Both sources may have the same id.
    Source(Box<Source>),
}

/// The kinds of documents that are paired. Two reference documents are never paired.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NewPairs {
    /// New documents are paired with reference documents and with each other.
    #[default]
    #[serde(rename = "new-old+new-new")]
    WithEachOther,
    /// New documents are paired only with reference documents.
    #[serde(rename = "new-old")]
    WithReference,
}

/// The treatment of a new document with the same id as a reference document.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SameId {
    /// The run ends with an error that names the id.
    #[default]
    Error,
    /// The new document replaces the reference document.
    Replace,
    /// The new document is put into `rejects` with the reason `reference_id`.
    Skip,
}
