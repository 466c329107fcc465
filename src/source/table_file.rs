//! Tables in files that the user names.

use datafusion::prelude::{CsvReadOptions, DataFrame, ParquetReadOptions, SessionContext};

use crate::address;
use crate::error::{Context, Error, Result};

/// Reads a CSV or Parquet file as a table of `what`. All columns of a CSV file are texts, so that 007 and 7 are different ids. `option` names
/// the file in messages. Fails with `Kind::Input` if the file cannot be read, and with `Kind::Job` if it has another ending.
pub(crate) async fn table_file(
    session: &SessionContext,
    file: &str,
    (option, what): (&str, &str),
) -> Result<DataFrame> {
    if let Some(missing) = address::missing(file) {
        return Err(Error::input(format!("{missing}: name a file of {what} as {option}")));
    }
    let why = || format!("{file} cannot be read as a table of {what}");
    match file.rsplit_once('.').map(|(_, ending)| ending) {
        Some("csv") => {
            session.read_csv(file, CsvReadOptions::new().schema_infer_max_records(0)).await.context(why)
        }
        Some("parquet") => session.read_parquet(file, ParquetReadOptions::new()).await.context(why),
        _ => Err(Error::job(format!(
            "{option}: expected a file that ends in .csv or .parquet, and got {file}"
        ))),
    }
}
