//! Files that are not documents.
//!
//! - Files of another kind, such as PDF, are recognised by their first bytes. Messages name a program that makes text or data of them.
//! - Files that describe a dataset or belong to an operating system are recognised by their names, and are skipped in folders.

use std::borrow::Borrow;

use memchr::memmem;

use crate::job::Format;

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
pub(crate) const SEARCHED: usize = 64 * 1024;
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
    kind("not text, and no known format", &[], b"", "convert it to text, CSV, JSON lines or Parquet");

/// Returns the kind of a file that begins with `bytes`, or `None` if it may contain text or data.
pub(crate) fn other_file(bytes: &[u8]) -> Option<&'static OtherFile> {
    let searched = bytes.get(..SEARCHED).unwrap_or(bytes);
    let begins = |(at, magic): &(usize, &[u8])| bytes.get(*at..).is_some_and(|rest| rest.starts_with(magic));
    KINDS.iter().find(|kind| kind.magic.iter().any(begins) && memmem::find(searched, kind.inside).is_some())
}

/// Like [`other_file`], for text in UTF-8. Also recognises bytes that are not text, by their control characters.
pub(crate) fn other_text(bytes: &[u8]) -> Option<&'static OtherFile> {
    other_file(bytes).or_else(|| is_binary(bytes).then_some(&UNKNOWN))
}

/// Returns whether more than 1 % of the first characters are control characters that do not occur in texts. Texts in UTF-16 with a byte
/// order mark are not binary.
pub(crate) fn is_binary(bytes: &[u8]) -> bool {
    let searched = bytes.get(..SEARCHED).unwrap_or(bytes);
    let is_control = |byte: &&u8| matches!(byte, 0..b'\t' | 0x0e..0x1a | 0x1c..b' ');
    // The bytes 0x80 to 0xBF continue a character.
    let begins = |byte: &&u8| !matches!(byte, 0x80..0xc0);
    let controls = searched.iter().filter(is_control).count();
    let is_utf_16 = bytes.starts_with(b"\xFF\xFE") || bytes.starts_with(b"\xFE\xFF");
    !is_utf_16 && controls * 100 > searched.iter().filter(begins).count()
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

/// Files of operating systems.
const SYSTEM: [&str; 2] = ["thumbs.db", "desktop.ini"];
/// Descriptions of datasets.
const DESCRIPTIONS: [&str; 5] =
    ["dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json", "croissant.json"];
/// The first words in the names of texts that describe a dataset.
const TEXTS: [&str; 8] =
    ["readme", "license", "licence", "copying", "notice", "changelog", "citation", "contributing"];

pub(super) fn is_system_file(name: &str) -> bool {
    SYSTEM.contains(&lower_file_name(name).as_str())
}

/// Whether a file with this name describes a dataset or belongs to an operating system.
pub(crate) fn is_companion(name: &str) -> bool {
    let last = lower_file_name(name);
    let first_word = last.split(['.', '-', '_']).next().unwrap_or_default();
    let is_text = !matches!(Format::from_path(&last), Some(format) if format != Format::Text);
    is_system_file(name) || DESCRIPTIONS.contains(&last.as_str()) || is_text && TEXTS.contains(&first_word)
}

fn lower_file_name(name: &str) -> String {
    name.rsplit('/').next().unwrap_or_default().to_ascii_lowercase()
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
    fn texts_have_few_control_characters() {
        for text in ["", "a\tb\r\n\u{1b}[1m", &format!("\0{}", "é".repeat(99))] {
            assert_eq!(other_text(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(other_text(b"\xFF\xFEw\0i\0d\0e\0"), None);
        for bytes in [&b"\0\x01ab"[..], &[0x93, 0, 0xb2, 0xff, 7, 0x81], b"w\0i\0d\0e\0"] {
            assert_eq!(other_text(bytes), Some(&UNKNOWN), "{bytes:?}");
        }
    }

    #[test]
    fn a_sentence_names_files_and_the_remedy() {
        let names: Vec<String> = (0..22).map(|at| format!("{at}.pdf")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let said = KINDS[0].sentence(&names);
        assert!(said.ends_with("19.pdf and 2 more (PDF): `pdftotext 0.pdf` makes text of it"), "{said}");
    }

    #[test]
    fn companions_have_no_documents() {
        for name in
            ["README", "data/Readme.md", "LICENSE-MIT", "readme_en.txt", "Thumbs.db", "dataset_info.json"]
        {
            assert!(is_companion(name), "{name}");
        }
        for name in
            ["readme.parquet", "license.csv.gz", "readmes/a.txt", "a/README/b", "info.json", "notices.txt"]
        {
            assert!(!is_companion(name), "{name}");
        }
    }
}
