//! Which columns of a dataset are the text and the id, where the user names none.

use super::column::Column;
use super::dataset::Dataset;
use crate::error::{Error, Result};

/// Names that columns of texts have, the more usual ones first.
const TEXTS: [&str; 10] = [
    "text",
    "body",
    "content",
    "description",
    "article",
    "document",
    "message",
    "review",
    "abstract",
    "comment",
];
/// Columns that a message lists.
const SHOWN: usize = 20;
/// Names that columns of ids have, the more usual ones first.
const IDS: [&str; 9] = ["id", "_id", "uuid", "guid", "key", "doc_id", "document_id", "url", "uri"];

impl Dataset {
    /// The column of texts: the one that is `asked` for, or else the only column of strings besides the `id`, or the one that has
    /// the name of a text.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job), with the columns of strings and a value of each, where none of them is chosen.
    pub(crate) fn text_column(&self, asked: Option<&str>, id: Option<&str>) -> Result<String> {
        if let Some(asked) = asked {
            return Ok(asked.to_owned());
        }
        let texts = self.texts(id);
        match texts.as_slice() {
            [only] => return Ok(only.name.clone()),
            [] => return Err(self.no_text()),
            _ => {}
        }
        if let Some(named) = named(&texts, &TEXTS) {
            return Ok(named.name.clone());
        }
        // Control characters are escaped in it already.
        let example = |column: &Column| column.example.as_deref().unwrap_or_default().replace('"', "\\\"");
        let shown = texts.iter().map(|column| format!("`{}` (\"{}\")", column.name, example(column)));
        Err(Error::job(format!(
            "{} has several columns of strings: name the one of the texts by --text COL; there are {}",
            self.shown(),
            listed(shown)
        )))
    }

    /// The column of texts as [`Self::text_column`] has it, or else the one with the longest values, which is only a guess.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) where no column holds strings.
    pub(crate) fn guessed_text(&self, asked: Option<&str>, id: Option<&str>) -> Result<(String, bool)> {
        if let Ok(column) = self.text_column(asked, id) {
            return Ok((column, false));
        }
        let longest = |a: &&&Column, b: &&&Column| a.mean_characters.total_cmp(&b.mean_characters);
        match self.texts(id).iter().max_by(longest) {
            Some(column) => Ok((column.name.clone(), true)),
            None => Err(self.no_text()),
        }
    }

    /// The column of ids: the one that is `asked` for, or else one that is named `id` and has another value in
    /// every row that was looked at.
    pub(crate) fn id_column(&self, asked: Option<&str>) -> Option<String> {
        let own = || self.columns.iter().find(|column| column.name == "id" && column.is_unique);
        asked.map(str::to_owned).or_else(|| own().map(|column| column.name.clone()))
    }

    /// A column to propose for ids: one with the name of an id and another value in every row that was looked at.
    pub(super) fn proposed_id(&self) -> Option<&str> {
        let unique: Vec<&Column> = self.columns.iter().filter(|column| column.is_unique).collect();
        named(&unique, &IDS).map(|column| column.name.as_str())
    }

    /// The columns that may hold the text.
    fn texts(&self, id: Option<&str>) -> Vec<&Column> {
        self.columns.iter().filter(|column| column.is_text && Some(column.name.as_str()) != id).collect()
    }

    fn no_text(&self) -> Error {
        let there = self.columns.iter().map(|column| format!("`{}` ({})", column.name, column.kind));
        Error::job(format!(
            "no column of {} holds texts: name other files, or the column by --text COL; there are {}",
            self.shown(),
            if self.columns.is_empty() { "no columns".to_owned() } else { listed(there) }
        ))
    }
}

/// The first columns of a list, and how many more there are.
fn listed(columns: impl ExactSizeIterator<Item = String>) -> String {
    let left = columns.len().saturating_sub(SHOWN);
    let mut shown = columns.take(SHOWN).collect::<Vec<_>>().join(", ");
    if left > 0 {
        shown.push_str(&format!(" and {left} more"));
    }
    shown
}

/// The first of `columns` that has one of `names`, in upper or lower case, also as a field of a struct or an object.
fn named<'a>(columns: &[&'a Column], names: &[&str]) -> Option<&'a Column> {
    names.iter().find_map(|name| {
        columns.iter().find(|column| last_part(&column.name).eq_ignore_ascii_case(name)).copied()
    })
}

fn last_part(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(_, last)| last)
}

#[cfg(test)]
mod tests {
    use super::super::dataset::CSV;
    use super::*;
    use crate::job::{Encoding, Format};

    /// A dataset of these columns: (name, text, unique, characters).
    fn dataset(columns: &[(&str, bool, bool, f64)]) -> Dataset {
        let column = |(name, is_text, is_unique, mean_characters): &(&str, bool, bool, f64)| Column {
            name: (*name).to_owned(),
            kind: "text".to_owned(),
            is_text: *is_text,
            is_unique: *is_unique,
            example: Some(format!("a {name}")),
            mean_characters: *mean_characters,
        };
        Dataset {
            urls: vec!["a.csv".to_owned()],
            format: Format::Csv,
            encoding: Encoding::Utf8,
            csv: CSV,
            columns: columns.iter().map(column).collect(),
        }
    }

    #[test]
    fn texts_are_chosen_by_being_alone_or_by_name() {
        let two = dataset(&[("id", true, true, 5.0), ("words", true, false, 50.0)]);
        assert_eq!(two.text_column(None, Some("id")).unwrap(), "words");
        assert_eq!(two.text_column(Some("other"), None).unwrap(), "other");
        let named = dataset(&[("title", true, false, 9.0), ("Body", true, false, 5.0)]);
        assert_eq!(named.text_column(None, None).unwrap(), "Body");
        let open =
            dataset(&[("title", true, false, 9.0), ("notes", true, false, 50.0), ("n", false, true, 1.0)]);
        let said = open.text_column(None, None).unwrap_err().to_string();
        assert!(said.contains("--text COL") && said.contains("`title` (\"a title\")"), "{said}");
        assert!(!said.contains("`n`"), "{said}");
        assert_eq!(open.guessed_text(None, None).unwrap(), ("notes".to_owned(), true));
        let none = dataset(&[("n", false, true, 1.0)]);
        assert!(none.text_column(None, None).unwrap_err().to_string().contains("`n` (text)"));
        assert!(none.guessed_text(None, None).is_err());
    }

    #[test]
    fn ids_are_unique() {
        let some = dataset(&[("url", true, true, 9.0), ("key", true, true, 9.0), ("id", true, false, 9.0)]);
        assert_eq!(some.id_column(None), None);
        assert_eq!(some.id_column(Some("id")).as_deref(), Some("id"));
        assert_eq!(some.proposed_id(), Some("key"));
        assert_eq!(dataset(&[("id", false, true, 1.0)]).id_column(None).as_deref(), Some("id"));
    }
}
