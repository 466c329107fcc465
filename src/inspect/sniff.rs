//! Determines the format, the encoding and the dialect of a file from its name and its first bytes.

use std::borrow::Cow;

use datafusion::execution::context::SessionContext;

use crate::error::Result;
use crate::job::{self, Csv, Encoding, Format};
use crate::source::{
    COMPRESSED_PARQUET, COMPRESSED_SGML, OTHER_JSON, OtherFile, SourceFile, UNKNOWN, first_records,
    is_binary, other_data, other_file,
};

/// The delimiters that are tried, most usual first.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];
const ESCAPES: [Option<u8>; 2] = [None, Some(b'\\')];
/// A dialect is determined from this number of records.
const JUDGED: usize = 100;
/// Shares of regular records are rounded to this number of steps, so that a single irregular record does not decide between dialects.
const PARTS: usize = 20;
pub(super) const JUDGED_BYTES: usize = 64 * 1024;
/// The maximum number of bytes in an ending that can name a format.
const MAX_ENDING: usize = 8;

/// The format of a file, or the kind of a file that cannot be read as it is.
pub(super) type FileKind = std::result::Result<Format, &'static OtherFile>;

/// Returns the kind and the encoding of a file. `alone` is true if there is no other file.
pub(super) async fn kind(
    ctx: &SessionContext,
    file: &SourceFile,
    given: Option<Encoding>,
    alone: bool,
) -> Result<(FileKind, Encoding)> {
    let named = Format::from_path(file.path()).filter(|format| *format != Format::Text);
    if file.size() == 0 {
        return Ok((Ok(named.unwrap_or(Format::Text)), Encoding::Utf8));
    }
    let ending = ending(file.name()).to_ascii_lowercase();
    let may_be_document = ending == ".json" || ending.starts_with(".json.");
    let head = file.head(ctx, JUDGED_BYTES).await?;
    let encoding = given.unwrap_or_else(|| Encoding::detected(&head.bytes, head.whole));
    let text = decode(&head.bytes, encoding);
    // SGML without Reuters stories is read as text, because it has other elements.
    let named = named.filter(|format| *format != Format::Reuters || has_stories(&text));
    let other = if named == Some(Format::Csv) { other_data } else { other_file };
    let by_magic = Format::from_magic(&head.bytes);
    let kind = match (by_magic.or(named), other(&head.bytes)) {
        _ if by_magic == Some(Format::Parquet) && head.compressed => Err(&COMPRESSED_PARQUET),
        _ if is_compressed_sgml(file.path()) && has_stories(&text) => Err(&COMPRESSED_SGML),
        (Some(format), _) if by_magic.is_some() => Ok(format),
        (_, Some(other)) => Err(other),
        (Some(format), _) if !format.rules().magic.is_empty() => Ok(format),
        _ if is_json_array(&text) || is_json_lines(&text, head.whole) => Ok(Format::Jsonl),
        (Some(Format::Jsonl), _) if may_be_document && alone => Err(&OTHER_JSON),
        (Some(Format::Jsonl), _) if may_be_document => Ok(Format::Text),
        (Some(format), _) => Ok(format),
        _ if is_binary(text.as_bytes()) => Err(&UNKNOWN),
        // A single file that could be a table is read as one, because a single text could not be compared.
        _ if alone && dialect(&text, head.whole).is_table => Ok(Format::Csv),
        _ => Ok(Format::Text),
    };
    Ok((kind, encoding))
}

fn is_compressed_sgml(path: &str) -> bool {
    job::without_compression(path).and_then(Format::from_path) == Some(Format::Reuters)
}

fn has_stories(text: &str) -> bool {
    text.to_ascii_lowercase().contains("<reuters")
}

/// Returns the ending of a name, with the ending of a compression. Returns an empty text if the ending does not start with a letter or is
/// too long.
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

pub(super) fn decode(bytes: &[u8], encoding: Encoding) -> Cow<'_, str> {
    match encoding {
        Encoding::Utf8 | Encoding::Utf8Lossy | Encoding::Detect => {
            encoding_rs::UTF_8.decode_with_bom_removal(bytes).0
        }
        Encoding::Latin1 => encoding_rs::mem::decode_latin1(bytes),
        Encoding::Standard(label) => label.decode(bytes).0,
    }
}

/// The detected dialect of a file.
pub(super) struct Dialect {
    pub(super) csv: Csv,
    /// Whether the file is almost certainly a table: at least five records with the same number of fields, two or more.
    is_table: bool,
}

/// Detects the dialect of a file that begins with `text`, or consists of `text` if `whole` is true.
///
/// Chooses the delimiter and the escape with which the most records have as many fields as the first record, at least two. In a tie, more
/// fields win. The first record is a header if its fields are distinct and no field is empty or a number.
pub(super) fn dialect(text: &str, whole: bool) -> Dialect {
    let syntaxes = ESCAPES.into_iter().flat_map(|escape| {
        DELIMITERS.into_iter().map(move |delimiter| Csv { escape, ..Csv::new(delimiter) })
    });
    let mut best = Dialect { csv: Csv::new(b','), is_table: false };
    let mut best_rank = (0, 0);
    for (at, csv) in syntaxes.enumerate() {
        let records = first_records(text, whole, csv, JUDGED);
        let (all, fields) = (records.len(), records.first().map_or(0, Vec::len));
        let alike = records.iter().filter(|record| record.len() == fields).count();
        let rank = if fields < 2 { (0, 0) } else { (alike * PARTS / all, fields) };
        if at == 0 || rank > best_rank {
            let header = records.first().is_none_or(|first| is_header(first));
            let is_table = fields > 1 && alike == all && all >= 5;
            (best, best_rank) = (Dialect { csv: Csv { header, ..csv }, is_table }, rank);
        }
    }
    best
}

fn is_header(record: &[String]) -> bool {
    let mut fields: Vec<&str> = record.iter().map(|field| field.trim()).collect();
    let named = fields.iter().all(|field| !field.is_empty() && !is_number(field));
    let all = fields.len();
    fields.sort_unstable();
    fields.dedup();
    named && fields.len() == all
}

pub(super) fn is_number(value: &str) -> bool {
    value.trim().parse::<f64>().is_ok()
}

/// Returns whether the first non-blank line of `text` is a JSON object, without parsing it. The line can be longer than `text`, or
/// contain values such as NaN.
pub(super) fn is_json_lines(text: &str, whole: bool) -> bool {
    let Some(line) = lines(text, true).next().map(str::trim) else { return false };
    let inside = line.strip_prefix('{').map(str::trim_start);
    let begins = inside.is_some_and(|inside| inside.starts_with(['"', '}']));
    begins && (line.ends_with('}') || !whole && text.trim_end().ends_with(line))
}

/// Returns whether `text` is the beginning of a JSON array of objects, which may be empty.
pub(super) fn is_json_array(text: &str) -> bool {
    text.trim_start().strip_prefix('[').is_some_and(|inside| inside.trim_start().starts_with(['{', ']']))
}

/// Returns the lines that are not blank. Omits a truncated last line.
pub(super) fn lines(text: &str, whole: bool) -> impl Iterator<Item = &str> {
    let end = if whole { text.len() } else { text.rfind(['\n', '\r']).map_or(0, |at| at + 1) };
    // A concatenated file can have byte order marks in later lines.
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
    fn texts_have_no_byte_order_mark() {
        for (bytes, read) in [
            (&b"\xEF\xBB\xBFa"[..], "a"),
            (b"caf\xE9 \x93x\x94", "café “x”"),
            (b"\xE9\n\xC3\xA9\n\xC3\xA9\n", "\u{fffd}\né\né\n"),
            (b"\xFF\xFEa\0", "a"),
        ] {
            assert_eq!(decode(bytes, Encoding::detected(bytes, true)), read, "{bytes:?}");
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
        let table = |text: &str| dialect(text, true).is_table;
        assert!(table(&"a\tb\n".repeat(5)));
        assert!(!table(&"a\tb\n".repeat(4)));
        let prose = "Dear reader,\nthis is prose, with commas,\nand more, of them,\nin lines\nof its own,\nand so on\n";
        assert!(!table(prose));
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
        assert!(is_json_array(" [\n{\"a\"") && is_json_array("[]"));
        assert!(!is_json_array("[1]") && !is_json_array("[words]"));
    }

    proptest! {
        #[test]
        fn any_bytes_have_an_encoding(bytes in any::<Vec<u8>>(), whole: bool) {
            decode(&bytes, Encoding::detected(&bytes, whole));
        }

        #[test]
        fn any_text_is_judged(text in "(?s)[{}\\[\\]\",:;\\t|\n\r a1é]{0,80}", whole: bool) {
            dialect(&text, whole);
            is_json_lines(&text, whole);
        }
    }
}
