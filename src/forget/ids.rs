//! Reads the ids of the documents to forget.

use arrow::array::Array;
use arrow::datatypes::DataType;
use datafusion::common::cast::as_string_array;
use datafusion::prelude::{SessionContext, cast, ident};

use crate::address;
use crate::error::{Context, Error, Result};
use crate::job::ForgottenIds;
use crate::source::table_file;

/// The columns of a file of ids. `source` limits an id to a file, as the column `source` of the table `documents` names it.
const COLUMNS: [&str; 2] = ["id", "source"];

/// Reads a CSV or Parquet file with a column `id`, or a text file with an id in each line. Blank lines and null ids are skipped. Fails with
/// `Kind::Input` if the file cannot be read, lacks the column, or contains no id.
pub(super) async fn read(session: &SessionContext, file: &str) -> Result<ForgottenIds> {
    let mut ids = ForgottenIds::default();
    if file.ends_with(".csv") || file.ends_with(".parquet") {
        let table = table_file(session, file, ("--ids", "ids")).await?;
        let has = |name: &&str| table.schema().has_column_with_unqualified_name(name);
        if !has(&COLUMNS[0]) {
            return Err(Error::input(format!("{file} has no column id: name the column with the ids `id`")));
        }
        let names = COLUMNS.into_iter().filter(has);
        let columns = names.map(|name| cast(ident(name), DataType::Utf8)).collect::<Vec<_>>();
        for batch in table.select(columns)?.collect().await? {
            let of =
                |column: usize| batch.columns().get(column).map(|texts| as_string_array(texts)).transpose();
            let (Some(texts), sources) = (of(0)?, of(1)?) else { continue };
            for (row, id) in texts.iter().enumerate().filter_map(|(row, id)| Some((row, id?))) {
                let source =
                    sources.filter(|sources| sources.is_valid(row)).map(|sources| sources.value(row));
                ids.insert(id.to_owned(), source.filter(|source| !source.is_empty()).map(str::to_owned));
            }
        }
    } else {
        if let Some(missing) = address::missing(file) {
            return Err(Error::input(format!("{missing}: name a file of ids as --ids")));
        }
        let text =
            std::fs::read_to_string(file).context(|| format!("{file} cannot be read as lines of ids"))?;
        let lines = text.trim_start_matches('\u{feff}').lines().filter(|line| !line.trim().is_empty());
        lines.for_each(|line| ids.insert(line.to_owned(), None));
    }
    if ids.iter().next().is_none() {
        return Err(Error::input(format!("{file} contains no id: write one id in each line")));
    }
    Ok(ids)
}
