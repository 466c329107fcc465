//! Files that contain no text, and programs that make text or data of them.

use std::borrow::Borrow;

use memchr::memmem;

/// A kind of files that this program does not read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OtherFile {
    /// The name of the kind, for messages.
    pub title: &'static str,
    /// The advice for users. `FILE` stands for the path of a file.
    pub remedy: &'static str,
    /// The bytes by which files are recognised. One of them is sufficient.
    magic: Magic,
    /// Bytes that must follow within the first [`SEARCHED`] bytes. The bytes can be empty.
    inside: &'static [u8],
}

/// The number of bytes in which [`OtherFile::inside`] is searched.
const SEARCHED: usize = 64 * 1024;
/// The maximum number of files that a sentence names.
const NAMED: usize = 20;

/// Pairs of an offset and the bytes at this offset. One pair that matches is sufficient.
type Magic = &'static [(usize, &'static [u8])];

const ZIP: Magic = &[(0, b"PK\x03\x04")];
const PICTURES: Magic = &[
    (0, b"\x89PNG\r\n"),
    (0, b"\xFF\xD8\xFF"),
    (0, b"GIF87a"),
    (0, b"GIF89a"),
    (0, b"II*\0"),
    (0, b"MM\0*"),
    (8, b"WEBPVP8"),
];
/// A command that makes text of office documents.
const PANDOC: &str = "`pandoc -t plain -o FILE.txt FILE` makes text of it";

/// The kinds that are recognised by their first bytes.
const KINDS: [OtherFile; 12] = [
    kind("PDF", &[(0, b"%PDF-")], b"", "`pdftotext FILE` makes text of it"),
    kind("Word", ZIP, b"word/", PANDOC),
    kind("Excel", ZIP, b"xl/", "save each sheet as CSV"),
    kind("PowerPoint", ZIP, b"ppt/", "save it as PDF, of which pdftotext makes text"),
    kind("OpenDocument or EPUB", &[(30, b"mimetypeapplication/")], b"", PANDOC),
    kind("Office 97", &[(0, b"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1")], b"", "save it as text or CSV"),
    kind("picture", PICTURES, b"", "`tesseract FILE FILE` makes text of it"),
    kind("ZIP archive", ZIP, b"", "`unzip FILE` unpacks it"),
    kind("tar archive", &[(257, b"ustar")], b"", "`tar xf FILE` unpacks it"),
    kind("archive", &[(0, b"7z\xBC\xAF\x27\x1C"), (0, b"Rar!\x1A\x07")], b"", "`7z x FILE` unpacks it"),
    kind(
        "SQLite",
        &[(0, b"SQLite format 3\0")],
        b"",
        "write a table as CSV: `sqlite3 -csv FILE 'SELECT ...'`",
    ),
    kind("Arrow or Avro", &[(0, b"ARROW1\0\0"), (0, b"Obj\x01")], b"", "convert it to Parquet"),
];

const fn kind(title: &'static str, magic: Magic, inside: &'static [u8], remedy: &'static str) -> OtherFile {
    OtherFile { title, remedy, magic, inside }
}

/// JSON in another form than lines or an array of objects.
pub(crate) const OTHER_JSON: OtherFile =
    kind("other JSON", &[], b"", "`jq -c '.KEY[]' FILE > FILE.jsonl` makes JSON lines of the list KEY");
/// Files with the magic number of Parquet that are compressed as a whole.
pub(crate) const COMPRESSED_PARQUET: OtherFile = kind("compressed Parquet", &[], b"", "decompress it");
/// Compressed stories, whose format is only read uncompressed.
pub(crate) const COMPRESSED_SGML: OtherFile = kind("compressed SGML", &[], b"", "decompress it");
/// CSV whose first line tells Excel the delimiter.
const EXCEL_CSV: OtherFile =
    kind("CSV whose first line is `sep=`", &[], b"", "`tail -n +2 FILE > NEW.csv` removes this line");
/// Files in a format that is not known.
pub(crate) const UNKNOWN: OtherFile =
    kind("no known format", &[], b"", "convert it to text, CSV, JSON lines or Parquet");

/// Returns the kind of a file that begins with `bytes`, or `None` if it may contain text or data.
pub(crate) fn other_file(bytes: &[u8]) -> Option<&'static OtherFile> {
    let searched = bytes.get(..SEARCHED).unwrap_or(bytes);
    let begins = |(at, magic): &(usize, &[u8])| bytes.get(*at..).is_some_and(|rest| rest.starts_with(magic));
    KINDS.iter().find(|kind| kind.magic.iter().any(begins) && memmem::find(searched, kind.inside).is_some())
}

/// Like [`other_file`], for a file that should contain rows. Also recognises CSV that begins with the delimiter for Excel.
pub(crate) fn other_data(bytes: &[u8]) -> Option<&'static OtherFile> {
    let text = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let is_excel = text.get(..4).is_some_and(|start| start.eq_ignore_ascii_case(b"sep="));
    if is_excel { Some(&EXCEL_CSV) } else { other_file(bytes) }
}

impl OtherFile {
    /// Returns a sentence about files of this kind, which names the first files and the remedy.
    pub(crate) fn sentence(&self, paths: &[&str]) -> String {
        let first = paths.first().copied().unwrap_or_default();
        format!("{} ({}): {}", first_names(paths), self.title, self.remedy_for(first))
    }

    /// Returns the remedy for the file at `path`.
    pub(crate) fn remedy_for(&self, path: &str) -> String {
        self.remedy.replace("FILE", &quoted(path))
    }
}

/// Returns the first of `names` in one line, and the number of the others.
pub(crate) fn first_names(names: &[impl Borrow<str>]) -> String {
    let more = match names.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}", names.get(..NAMED).unwrap_or(names).join(", "))
}

/// Quotes an argument for a shell, if necessary.
pub(crate) fn quoted(argument: &str) -> String {
    if argument.chars().all(|c| c.is_alphanumeric() || "/._-:=".contains(c)) {
        return argument.to_owned();
    }
    format!("'{}'", argument.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_known_by_their_first_bytes() {
        let zip = |inside: &str| format!("PK\x03\x04\x14\0\0\0\0\0{}{inside}", "\0".repeat(20)).into_bytes();
        for (bytes, title) in [
            (b"%PDF-1.7\n".to_vec(), Some("PDF")),
            (zip("[Content_Types].xml word/document.xml"), Some("Word")),
            (zip("[Content_Types].xml xl/workbook.xml"), Some("Excel")),
            (zip("mimetypeapplication/epub+zip"), Some("OpenDocument or EPUB")),
            (zip("a.txt"), Some("ZIP archive")),
            (b"\x89PNG\r\n\x1a\n".to_vec(), Some("picture")),
            (b"RIFF\x10\0\0\0WEBPVP8 ".to_vec(), Some("picture")),
            (format!("{}ustar", "\0".repeat(257)).into_bytes(), Some("tar archive")),
            (b"a text about %PDF- and GIF89a".to_vec(), None),
            (Vec::new(), None),
        ] {
            assert_eq!(other_file(&bytes).map(|kind| kind.title), title);
        }
    }

    #[test]
    fn a_sentence_names_files_and_the_remedy() {
        let names: Vec<String> = (0..22).map(|at| format!("{at}.pdf")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let said = KINDS[0].sentence(&names);
        assert!(said.ends_with("19.pdf and 2 more (PDF): `pdftotext 0.pdf` makes text of it"), "{said}");
    }
}
