//! One stage per file, in the order of the flow. Each is a function from frames to a frame: lazy, without I/O and
//! without a session; its parameters are its section of the job. [`crate::pipeline`] runs them and keeps what they
//! make.

pub(crate) mod bands;
pub(crate) mod by_group;
pub mod candidates;
pub mod clusters;
pub mod components;
pub mod copies;
pub(crate) mod dictionary;
pub mod documents;
pub mod duplicates;
mod empty_text;
pub(crate) mod keep;
pub(crate) mod known;
pub mod leaders;
pub(crate) mod mark;
pub(crate) mod members;
pub(crate) mod merged;
pub(crate) mod pairs;
pub(crate) mod passages;
pub mod prefix;
pub mod ranks;
pub mod represented;
pub(crate) mod reused;
pub(crate) mod scores;
pub(crate) mod shingles;
pub(crate) mod signatures;
pub mod sketches;

use datafusion::common::JoinType;
use datafusion::functions::expr_fn::coalesce;
use datafusion::logical_expr::ident;
use datafusion::prelude::{DataFrame, Expr, col, when};

use crate::error::Result;
use crate::job::Shingle;
use crate::source::CUT;
use crate::udf::expr_fn::shingles;

/// The columns of the source that a frame carries, in their order: see [`crate::schema::carried`].
pub(crate) fn carried(frame: &DataFrame) -> Vec<Expr> {
    let has = |name: &String| frame.schema().as_arrow().column_with_name(name).is_some();
    (0..).map(crate::schema::carried).take_while(has).map(|name| col(name.as_str())).collect()
}

/// The text of a frame, and beside it the shingles of texts that were cut while they were read, where there may be such.
pub(crate) fn text_and_cut(frame: &DataFrame) -> Vec<Expr> {
    let cut = frame.schema().as_arrow().column_with_name(CUT).map(|_| col(CUT));
    std::iter::once(col("text")).chain(cut).collect()
}

/// The shingles of the texts of a frame; null for a text that is null.
pub(crate) fn shingles_of_text(frame: &DataFrame, text: Expr, shingle: &Shingle) -> Result<Expr> {
    Ok(match frame.schema().as_arrow().column_with_name(CUT) {
        None => shingles(text, shingle),
        // Of a text that was cut already there is only a piece.
        Some(_) => {
            let uncut = when(col(CUT).is_null(), text.clone()).end()?;
            let cut = when(text.is_not_null(), col(CUT)).end()?;
            coalesce(vec![cut, shingles(uncut, shingle)])
        }
    })
}

/// (doc, ..) with the other columns that `of_docs` (doc, ..) has for each document.
pub(crate) fn with_columns(frame: DataFrame, of_docs: DataFrame) -> Result<DataFrame> {
    let mut columns: Vec<Expr> = frame.schema().columns().into_iter().map(Expr::Column).collect();
    let names = of_docs.schema().columns().into_iter().map(|column| column.name);
    let others: Vec<Expr> = names.filter(|name| name != "doc").map(ident).collect();
    columns.extend(others.iter().cloned());
    let of_docs = of_docs.select([vec![col("doc").alias("of_doc")], others].concat())?;
    Ok(of_docs.join(frame, JoinType::Right, &["of_doc"], &["doc"], None)?.select(columns)?)
}

/// The rows of all frames, which have the same columns; `None` if there is no frame.
pub(crate) fn union(frames: impl IntoIterator<Item = Result<DataFrame>>) -> Result<Option<DataFrame>> {
    let mut all: Option<DataFrame> = None;
    for frame in frames {
        let frame = frame?;
        all = Some(match all {
            Some(all) => all.union(frame)?,
            None => frame,
        });
    }
    Ok(all)
}
