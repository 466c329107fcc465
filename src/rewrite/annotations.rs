//! The columns that documents get.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::job;
use crate::schema::IdType;
use crate::source::RowFormat;

/// The columns that say something about a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Annotation {
    /// Its cluster.
    #[value(skip)]
    Clusters,
    /// The number of documents that a document represents: itself, and those that are removed because of it
    ClusterSize,
    /// The same number for each group, as a JSON object; the job needs source.group
    GroupSizes,
    /// The spans that repeat in it and do not stay.
    #[value(skip)]
    Spans,
}

impl Annotation {
    const ALL: [Self; 4] = [Self::Clusters, Self::ClusterSize, Self::GroupSizes, Self::Spans];

    /// The names and types of the columns, for ids of the type `id`.
    pub(super) fn columns(self, id: IdType) -> Vec<(&'static str, DataType)> {
        match self {
            Self::Clusters => vec![
                ("cluster_id", id.arrow()),
                ("representative", DataType::Boolean),
                ("kept_id", id.arrow()),
            ],
            Self::ClusterSize => vec![("cluster_size", DataType::Int64)],
            Self::GroupSizes => vec![("group_sizes", DataType::Utf8)],
            Self::Spans => vec![("repeated_spans", DataType::Utf8)],
        }
    }

    /// The option of the command.
    fn option(self) -> &'static str {
        match self {
            Self::Clusters => "--annotate",
            Self::ClusterSize | Self::GroupSizes => "--columns",
            Self::Spans => "--passages mark",
        }
    }
}

/// The names and types of the columns of some annotations, in their order.
pub(super) fn columns(annotations: &[Annotation], id: IdType) -> Vec<(&'static str, DataType)> {
    annotations.iter().flat_map(|annotation| annotation.columns(id)).collect()
}

/// The names of the columns of some annotations.
pub(crate) fn names(annotations: &[Annotation]) -> Vec<&'static str> {
    columns(annotations, IdType::Utf8).into_iter().map(|(name, _)| name).collect()
}

/// Appends the names of the columns of `annotations` to the header of the file `path`.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) if it already has one of the names.
pub(crate) fn append_names(
    format: &dyn RowFormat,
    source: &job::Source,
    annotations: &[Annotation],
    (header, path): (&[u8], &str),
    to: &mut Vec<u8>,
) -> Result<()> {
    format.append_names(source, header, &names(annotations), to).map_err(|name| column_exists(name, path))
}

/// The error for a file that already has a column of this name.
pub(crate) fn column_exists(name: &str, path: &str) -> Error {
    name_exists(name, &format!("{path} has a column `{name}`"))
}

/// The error for a name that an annotation would add; `what` has it.
pub(super) fn name_exists(name: &str, what: &str) -> Error {
    let adds = |annotation: &Annotation| names(&[*annotation]).contains(&name);
    let option = Annotation::ALL.into_iter().find(adds).map_or("this", Annotation::option);
    Error::input(format!(
        "{what} already, which {option} would add: rename it and run the job again, or apply without {option}"
    ))
}

/// A schema with the columns of `annotations` after its own.
pub(crate) fn annotated(schema: &Schema, annotations: &[Annotation], id: IdType) -> Schema {
    let added = columns(annotations, id).into_iter();
    let added = added.map(|(name, data_type)| Arc::new(Field::new(name, data_type, true)) as FieldRef);
    let all: Vec<FieldRef> = schema.fields().iter().cloned().chain(added).collect();
    Schema::new_with_metadata(all, schema.metadata().clone())
}
