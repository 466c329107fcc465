//! Determines the format, the encoding and the dialect of a file from its name and its first bytes.

use std::borrow::Cow;

use datafusion::execution::context::SessionContext;

use crate::error::Result;
use crate::job::{self, Csv, Encoding, Format};
use crate::source::{SourceFile, first_records};

/// The delimiters that are tried, most usual first.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];
/// The escape characters that are tried.
const ESCAPES: [Option<u8>; 2] = [None, Some(b'\\')];
/// The number of records from which a dialect is determined.
const JUDGED: usize = 100;
/// The number of steps to which the shares of regular records are rounded. Because of the rounding, a single irregular record does not
/// decide between dialects.
const PARTS: usize = 20;
/// The number of bytes that are read to determine the format of a file.
pub(super) const JUDGED_BYTES: usize = 64 * 1024;
/// The first bytes of a Parquet file.
const PARQUET: &[u8] = b"PAR1";
/// The maximum number of bytes in an ending that can name a format.
const MAX_ENDING: usize = 8;

/// The format of a file, or a description of files that cannot be read in their current form.
pub(super) type FileKind = std::result::Result<Format, &'static str>;

/// The description of JSON arrays and of a single JSON document.
pub(super) const JSON: &str = "JSON documents that are not an object per line";
/// The description of files in other formats, of compressed Parquet files and of compressed texts.
const UNKNOWN: &str = "files of no known format, or compressed";

/// Returns the kind of a file. `alone` is true if there is no other file.
pub(super) async fn kind(
    ctx: &SessionContext,
    file: &SourceFile,
    given: Option<Encoding>,
    alone: bool,
) -> Result<FileKind> {
    let named = Format::from_path(file.path()).filter(|format| *format != Format::Text);
    if file.size() == 0 {
        return Ok(Ok(named.unwrap_or(Format::Text)));
    }
    let ending = ending(file.name()).to_ascii_lowercase();
    let may_be_document = ending == ".json" || ending.starts_with(".json.");
    let head = file.head(ctx, JUDGED_BYTES).await?;
    let encoding = match given {
        Some(given) => given,
        None => encoding(&head.bytes, head.whole)?,
    };
    let text = decode(&head.bytes, encoding);
    // Other SGML has other elements for its documents, so it is read as text.
    let named = named.filter(|format| *format != Format::Reuters || has_stories(&text));
    Ok(match named {
        _ if head.bytes.starts_with(PARQUET) && head.compressed => Err(UNKNOWN),
        _ if head.bytes.starts_with(PARQUET) => Ok(Format::Parquet),
        Some(Format::Parquet) => Ok(Format::Parquet),
        _ if is_json_array(&text) => Err(JSON),
        _ if is_json_lines(&text, head.whole) => Ok(Format::Jsonl),
        Some(Format::Jsonl) if may_be_document && alone => Err(JSON),
        Some(Format::Jsonl) if may_be_document => Ok(Format::Text),
        Some(format) => Ok(format),
        None if is_binary(&text) => Err(UNKNOWN),
        // A single file that could be a table is read as a table, because a single text could not be compared with another text.
        None if alone && dialect(&text, head.whole).is_table => Ok(Format::Csv),
        None if head.compressed => Err(UNKNOWN),
        None => Ok(Format::Text),
    })
}

/// Returns whether the text contains the beginning of a Reuters story.
fn has_stories(text: &str) -> bool {
    text.to_ascii_lowercase().contains("<reuters")
}

/// Returns whether the text is a PDF file, or more than 1 % of the characters are control characters that do not occur in texts.
fn is_binary(text: &str) -> bool {
    let is_control = |c: &char| matches!(c, '\0'..'\t' | '\u{e}'..'\u{1a}' | '\u{1c}'..' ');
    text.starts_with("%PDF") || text.chars().filter(is_control).count() * 100 > text.chars().count()
}

/// Returns the ending of a name, including the ending of a compression. Returns an empty string if the ending does not start with a letter
/// or is longer than [`MAX_ENDING`].
pub(super) fn ending(name: &str) -> &str {
    let last = name.rsplit('/').next().unwrap_or(name);
    let inner = job::without_compression(last).unwrap_or(last);
    let ending = inner.rsplit_once('.').map_or("", |(_, ending)| ending);
    if ending.len() <= MAX_ENDING && ending.starts_with(|c: char| c.is_ascii_alphabetic()) {
        &last[inner.len() - ending.len() - 1..]
    } else {
        ""
    }
}

/// Detects the encoding of a file that begins with `bytes`. If `whole` is true, `bytes` is the whole file. A byte order mark determines the
/// encoding. Without such a mark, the encoding is UTF-8 if most lines with non-ASCII characters are valid UTF-8. Otherwise it is
/// windows-1252, in which all bytes except five are characters.
///
/// # Errors
/// Only if this program has a bug, because the parser accepts the names of these encodings.
pub(super) fn encoding(bytes: &[u8], whole: bool) -> Result<Encoding> {
    match encoding_rs::Encoding::for_bom(bytes) {
        Some((encoding, _)) if encoding == encoding_rs::UTF_8 => Ok(Encoding::Utf8),
        Some((encoding, _)) => encoding.name().parse(),
        None if is_utf_8(bytes, whole) => Ok(Encoding::Utf8),
        None => "windows-1252".parse(),
    }
}

/// Returns whether the bytes are UTF-8. A character at the end may be truncated. If there are other invalid bytes, most lines with
/// non-ASCII characters must be UTF-8.
fn is_utf_8(bytes: &[u8], whole: bool) -> bool {
    match std::str::from_utf8(bytes) {
        Ok(_) => return true,
        Err(error) if !whole && error.error_len().is_none() => return true,
        Err(_) => {}
    }
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_ascii());
    let (utf_8, others): (Vec<_>, Vec<_>) = lines.partition(|line| std::str::from_utf8(line).is_ok());
    utf_8.len() > others.len()
}

/// Decodes `bytes` without a byte order mark. Invalid parts become replacement characters.
pub(super) fn decode(bytes: &[u8], encoding: Encoding) -> Cow<'_, str> {
    match encoding {
        Encoding::Utf8 | Encoding::Utf8Lossy => encoding_rs::UTF_8.decode_with_bom_removal(bytes).0,
        Encoding::Latin1 => encoding_rs::mem::decode_latin1(bytes),
        Encoding::Standard(label) => label.decode(bytes).0,
    }
}

/// The dialect of delimited text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dialect {
    pub csv: Csv,
    /// Whether the text is almost certainly a table. Such a text has at least five records, and all of them have the same number of fields,
    /// at least two.
    pub is_table: bool,
}

/// Detects the dialect of a file that begins with `text`. If `whole` is true, `text` is the whole file.
///
/// Chooses the delimiter and the escape that give the most records as many fields as the first record. The first record must have at least
/// two fields. If there is a tie, the larger number of fields wins. The first record is a header if its fields are distinct and no field is
/// empty or a number.
pub(super) fn dialect(text: &str, whole: bool) -> Dialect {
    let syntaxes = ESCAPES.into_iter().flat_map(|escape| {
        DELIMITERS.into_iter().map(move |delimiter| Csv { escape, ..Csv::new(delimiter) })
    });
    let mut best = (Csv::new(b','), (0, 0), true, false);
    for (at, csv) in syntaxes.enumerate() {
        let records = first_records(text, whole, csv, JUDGED);
        let (all, fields) = (records.len(), records.first().map_or(0, Vec::len));
        let alike = records.iter().filter(|record| record.len() == fields).count();
        let rank = if fields < 2 { (0, 0) } else { (alike * PARTS / all, fields) };
        if at == 0 || rank > best.1 {
            let header = records.first().is_none_or(|first| is_header(first));
            best = (csv, rank, header, fields > 1 && alike == all && all >= 5);
        }
    }
    let (csv, _, header, is_table) = best;
    Dialect { csv: Csv { header, ..csv }, is_table }
}

fn is_header(record: &[String]) -> bool {
    let mut fields: Vec<&str> = record.iter().map(|field| field.trim()).collect();
    let named = fields.iter().all(|field| !field.is_empty() && !is_number(field));
    let all = fields.len();
    fields.sort_unstable();
    fields.dedup();
    named && fields.len() == all
}

/// Returns whether a value has the form of a number.
pub(super) fn is_number(value: &str) -> bool {
    value.trim().parse::<f64>().is_ok()
}

/// Returns whether the first non-blank line of `text` is a JSON object. The object is not parsed, because the line can be longer than
/// `text`, or contain values such as NaN.
pub(super) fn is_json_lines(text: &str, whole: bool) -> bool {
    let Some(line) = lines(text, true).next().map(str::trim) else { return false };
    let inside = line.strip_prefix('{').map(str::trim_start);
    let begins = inside.is_some_and(|inside| inside.starts_with(['"', '}']));
    begins && (line.ends_with('}') || !whole && text.trim_end().ends_with(line))
}

/// Returns whether `text` is the beginning of a JSON array of objects.
pub(super) fn is_json_array(text: &str) -> bool {
    text.trim_start().strip_prefix('[').is_some_and(|inside| inside.trim_start().starts_with('{'))
}

/// Returns the lines that are not blank. Omits the last line if it is truncated.
pub(super) fn lines(text: &str, whole: bool) -> impl Iterator<Item = &str> {
    let end = if whole { text.len() } else { text.rfind(['\n', '\r']).map_or(0, |at| at + 1) };
    // A concatenated file can contain byte order marks at the start of later lines.
    let lines = text[..end].split(['\n', '\r']).map(|line| line.trim_start_matches('\u{feff}'));
    lines.filter(|line| !line.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_and_long_endings_name_no_format() {
        for (name, expected) in [
            ("a/b.parquet", ".parquet"),
            ("a.JSON.gz", ".JSON.gz"),
            ("a.gz", ""),
            ("a.b/c", ""),
            ("1.001", ""),
            ("00001.a7c53336b37003a9286aba55d2945844c", ""),
        ] {
            assert_eq!(ending(name), expected, "{name}");
        }
    }

    #[test]
    fn texts_have_few_control_characters() {
        assert!(is_binary("\0\u{1}ab") && is_binary("%PDF-1.7\n"));
        assert!(
            !is_binary("") && !is_binary("a\tb\r\n\u{1b}[1m") && !is_binary(&format!("\0{}", "a".repeat(99)))
        );
    }

    #[test]
    fn encodings_are_known_by_their_bytes() {
        for (bytes, whole, expected, read) in [
            (&b"caf\xC3\xA9"[..], true, "utf-8", "café"),
            (b"\xEF\xBB\xBFa", true, "utf-8", "a"),
            (b"plain", true, "utf-8", "plain"),
            (b"caf\xC3", false, "utf-8", "caf\u{fffd}"),
            (b"caf\xC3", true, "windows-1252", "cafÃ"),
            (b"\xE9\n\xC3\xA9\n\xC3\xA9\n", true, "utf-8", "\u{fffd}\né\né\n"),
            (b"caf\xE9 \x93x\x94", true, "windows-1252", "café “x”"),
            (b"\xFF\xFEa\0", true, "utf-16le", "a"),
            (b"\xFE\xFF\0a", true, "utf-16be", "a"),
            (b"", true, "utf-8", ""),
        ] {
            let found = encoding(bytes, whole).unwrap();
            assert_eq!(found.to_string(), expected, "{bytes:?}");
            assert_eq!(decode(bytes, found), read, "{bytes:?}");
        }
    }

    #[test]
    fn delimiters_and_headers_are_found() {
        for (text, delimiter, header) in [
            ("id,text\n1,one two\n2,\"three, four\"\n", b',', true),
            ("id;text\n1;one, two, three\n2;four, five\n3;six\n", b';', true),
            ("id\ttext\n1\ta;b\n2\tc;d\n", b'\t', true),
            ("id|name|text\n1|x|a, b\n", b'|', true),
            ("1;one\n2;two\n", b';', false),
            ("a,a\n1,2\n", b',', false),
            ("id,\n1,2\n", b',', false),
            ("id,text\n1,\"a\nb;c;d\"\n2,\"e\nf\"\n", b',', true),
            ("id,text\n1,\"a \\\"b, c\\\"\"\n2,\"d\"\n", b',', true),
            ("just one line of words", b',', true),
            ("", b',', true),
        ] {
            let csv = dialect(text, true).csv;
            assert_eq!((csv.delimiter, csv.header), (delimiter, header), "{text:?}");
        }
    }

    #[test]
    fn a_table_has_records_that_are_alike() {
        let table = |text: &str| dialect(text, true).is_table;
        assert!(table(&"a\tb\n".repeat(5)));
        assert!(!table(&"a\tb\n".repeat(4)));
        assert!(!table(
            "Dear reader,\nthis is prose, with commas,\nand more, of them,\nin lines\nof its own,\nand so on\n"
        ));
    }

    #[test]
    fn an_object_on_a_line_is_a_row() {
        for row in ["\n {\"a\": 1}\n{", "{}", "{\"a\": NaN}\n"] {
            assert!(is_json_lines(row, true), "{row}");
        }
        for other in ["", "[]", "{\n\"a\": 1}", "words", "{\"a\": 1} words", "{words}"] {
            assert!(!is_json_lines(other, true), "{other}");
        }
        let long = "{\"a\": \"a line that is longer than";
        assert!(is_json_lines(long, false) && !is_json_lines(long, true));
        assert!(is_json_array(" [\n{\"a\"") && !is_json_array("[1]") && !is_json_array("[words]"));
    }

    proptest! {
        #[test]
        fn any_bytes_have_an_encoding(bytes in any::<Vec<u8>>(), whole: bool) {
            decode(&bytes, encoding(&bytes, whole).unwrap());
        }

        #[test]
        fn any_text_is_judged(text in "(?s)[{}\\[\\]\",:;\\t|\n\r a1é]{0,80}", whole: bool) {
            dialect(&text, whole);
            is_json_lines(&text, whole);
        }
    }
}
