//! Folders of Delta tables among the files of a listing, which are not to be read file by file.

use crate::delta::FOLDER;
use crate::error::{Error, Result};
use crate::source::file::SourceFile;

/// The folders of Delta tables, by the `names` of what lies in them: each ends in `/`, and is empty where all names are relative to
/// it.
pub(super) fn folders<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let table = |name: &str| {
        let mut above = 0;
        for part in name.split('/') {
            if part == FOLDER {
                return Some(name[..above].to_owned());
            }
            above += part.len() + 1;
        }
        None
    };
    let mut folders: Vec<String> = names.filter_map(table).collect();
    folders.sort();
    folders.dedup();
    folders
}

/// Refuses to read `file` as a Parquet file of its own where it lies in one of `tables`: the table may have removed it.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) with the folder of the table.
pub(super) fn refuse_file(file: &SourceFile, tables: &[String]) -> Result<()> {
    let Some(table) = tables.iter().find(|table| file.name.starts_with(table.as_str())) else {
        return Ok(());
    };
    let above = file.path.len() - file.name.len() + table.len();
    let table = match file.path[..above].trim_end_matches('/') {
        "" => ".",
        table => table,
    };
    Err(Error::job(format!(
        "`{table}` is the folder of a Delta table, and as Parquet files those are read too that the table has removed: set [source] \
         format to \"delta\" and url to that folder"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_a_log_is_a_table() {
        let folders = |names: &[&str]| folders(names.iter().copied());
        assert_eq!(folders(&["_delta_log", "a.parquet"]), [""]);
        assert_eq!(
            folders(&["b/_delta_log/0.json", "b/_delta_log/1.json", "c/d/_delta_log"]),
            ["b/", "c/d/"]
        );
        assert!(folders(&["a.parquet", "not_delta_log/a", "b/_other"]).is_empty());
    }
}
