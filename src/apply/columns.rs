//! The columns that documents which stay can get.

use serde::{Deserialize, Serialize};

use crate::rewrite::{Annotation, names};

/// A column of the documents that stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Column {
    /// The number of documents that a document represents: itself, and those that are removed because of it
    ClusterSize,
    /// The same number for each group, as a JSON object; the job needs source.group
    GroupSizes,
}

impl Column {
    /// All of them, in the order in which they are written.
    pub const ALL: [Self; 2] = [Self::ClusterSize, Self::GroupSizes];

    /// Its name.
    pub fn name(self) -> &'static str {
        names(&[self.annotation()]).first().copied().unwrap_or_default()
    }

    /// The annotation that it is.
    pub(super) fn annotation(self) -> Annotation {
        match self {
            Self::ClusterSize => Annotation::ClusterSize,
            Self::GroupSizes => Annotation::GroupSizes,
        }
    }
}

/// Some of the columns, in the order of [`Column::ALL`], which is that in which they are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Column>", into = "Vec<Column>")]
pub struct Columns([bool; Column::ALL.len()]);

impl Columns {
    /// The columns.
    pub fn iter(self) -> impl Iterator<Item = Column> {
        Column::ALL.into_iter().filter(move |column| self.0.get(*column as usize) == Some(&true))
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }
}

impl FromIterator<Column> for Columns {
    fn from_iter<I: IntoIterator<Item = Column>>(columns: I) -> Self {
        let columns: Vec<Column> = columns.into_iter().collect();
        Self(Column::ALL.map(|column| columns.contains(&column)))
    }
}

impl From<Vec<Column>> for Columns {
    fn from(columns: Vec<Column>) -> Self {
        columns.into_iter().collect()
    }
}

impl From<Columns> for Vec<Column> {
    fn from(columns: Columns) -> Self {
        columns.iter().collect()
    }
}
