//! Reuters-21578: each story of an SGML file is a document. The files are sequences of `<REUTERS ...> ... </REUTERS>` elements (README of
//! the collection, David D. Lewis, 1997, section VI). This is not an SGML parser: it supports no DTDs and no nested stories, and `<` in
//! text must be written as `&lt;`.

use std::borrow::Cow;

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::execution::context::SessionContext;
use memchr::{memchr, memchr_iter};

use crate::error::{Error, Result};
use crate::job::{self, Encoding, References};
use crate::source::file::SourceFile;
use crate::source::format::{
    DocumentReader, ParsePlan, ParseRequest, ParsedFormat, Parser, Reading, Rewriting, SourceFormat,
    WantedValues,
};
use crate::source::reading::bytes::INVALID;
use crate::source::reading::documents::DocumentSink;
use crate::source::rows::columns::{NamedExpressions, column, missing, value_name};

pub(super) const REUTERS: SourceFormat = SourceFormat {
    title: "SGML",
    endings: job::Format::Reuters.rules().endings,
    reading: Reading::Parser(&Reuters),
    rewriting: Rewriting::AsParquet,
};

/// The columns of a story. `topics` and `places` contain the `<D>` items, joined by commas.
const COLUMNS: [&str; 7] = ["oldid", "newid", "date", "topics", "places", "title", "body"];

struct Reuters;

#[async_trait]
impl ParsedFormat for Reuters {
    async fn plan(&self, ParseRequest { source, columns, files, .. }: ParseRequest<'_>) -> Result<ParsePlan> {
        let value = |name: &str| match COLUMNS.iter().position(|column| *column == name) {
            Some(place) => Ok((name.to_owned(), column(value_name(place)))),
            None => Err(missing(source, name, "Reuters stories", COLUMNS.map(str::to_owned))),
        };
        let values = columns.iter().copied().map(value).collect::<Result<NamedExpressions>>()?;
        Ok(ParsePlan::new(WantedValues::All(COLUMNS.len()), values, files.to_vec()))
    }

    fn reader(&self, parser: &Parser, _: &SourceFile) -> Result<Box<dyn DocumentReader>> {
        let job::Source { encoding, references, .. } = parser.source;
        let defect = (encoding != Encoding::Utf8).then(|| encoding.defect());
        Ok(Box::new(StoryReader { defect, references, ..StoryReader::default() }))
    }

    async fn columns(&self, _: &SessionContext, _: &SourceFile) -> Result<Vec<String>> {
        Ok(COLUMNS.map(str::to_owned).to_vec())
    }

    fn may_be_compressed(&self) -> bool {
        false
    }
}

/// A story.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Story {
    /// The values of the columns in the order of `COLUMNS`. `None` means that the element does not occur.
    pub parts: [Option<String>; 7],
    /// Whether the file ended or the next story began before the end tag. The last part may then be incomplete.
    pub truncated: bool,
    /// The defect of a story with bytes that are invalid in the encoding of the job.
    defect: Option<&'static str>,
}

/// Cuts bytes into stories. Holds at most the longest story and one chunk in memory.
#[derive(Debug, Default)]
struct StoryReader {
    pending: Vec<u8>,
    /// The start of the current story in `pending`, or the end of the last story.
    start: usize,
    /// The number of bytes of `pending` that were searched for tags.
    searched: usize,
    /// Whether a story starts at `start`.
    inside: bool,
    /// The defect of stories that contain an [`INVALID`] byte, or `None` if such bytes are read as Latin-1.
    defect: Option<&'static str>,
    references: References,
}

/// The names in the tags of a story.
const OPEN: &[u8] = b"REUTERS";
const CLOSE: &[u8] = b"/REUTERS";

impl StoryReader {
    fn feed(&mut self, bytes: &[u8]) {
        self.searched -= self.start;
        self.pending.drain(..std::mem::take(&mut self.start));
        self.pending.extend_from_slice(bytes);
    }

    /// Returns the next story, or `None` if more bytes are needed.
    fn next(&mut self) -> Option<Story> {
        while let Some(found) = memchr(b'<', &self.pending[self.searched..]) {
            let at = self.searched + found;
            let tag = &self.pending[at + 1..];
            let (is_open, is_close) = (is_tag(tag, OPEN), is_tag(tag, CLOSE));
            if !is_open && !is_close && tag.len() <= CLOSE.len() {
                // The chunk may end inside a tag.
                self.searched = at;
                self.skip();
                return None;
            }
            self.searched = at + 1;
            if !is_open && !is_close {
                continue;
            }
            // A start tag also ends the previous story, so that a missing end tag does not join two stories.
            let story = self.inside.then(|| self.story(at, is_open));
            (self.start, self.inside) = (at, is_open);
            if story.is_some() {
                return story;
            }
        }
        self.searched = self.pending.len();
        self.skip();
        None
    }

    fn skip(&mut self) {
        if !self.inside {
            self.start = self.searched;
        }
    }

    /// Returns the last story if the end of the file truncates it.
    fn last(&mut self) -> Option<Story> {
        let story = self.inside.then(|| self.story(self.pending.len(), true));
        self.inside = false;
        story
    }

    fn story(&self, end: usize, truncated: bool) -> Story {
        let bytes = &self.pending[self.start..end];
        let (tag, rest) = bytes.split_at(memchr(b'>', bytes).unwrap_or(bytes.len()));
        let text = |bytes: &[u8]| text(bytes, self.references);
        let list = |bytes: &[u8]| items(bytes).into_iter().map(text).collect::<Vec<_>>().join(",");
        let parts = [
            attribute(tag, b"OLDID").map(text),
            attribute(tag, b"NEWID").map(text),
            element(rest, b"DATE").map(text),
            element(rest, b"TOPICS").map(list),
            element(rest, b"PLACES").map(list),
            element(rest, b"TITLE").map(text),
            element(rest, b"BODY").map(text),
        ];
        Story { parts, truncated, defect: self.defect.filter(|_| bytes.contains(&INVALID)) }
    }
}

impl DocumentReader for StoryReader {
    fn read(&mut self, chunk: &mut Bytes, documents: &mut DocumentSink<'_>) -> Result<()> {
        self.feed(&std::mem::take(chunk));
        while !documents.is_full()
            && let Some(story) = self.next()
        {
            push(&story, documents)?;
        }
        Ok(())
    }

    fn end(&mut self, documents: &mut DocumentSink<'_>) -> Result<()> {
        if let Some(story) = self.last() {
            push(&story, documents)?;
        }
        match documents.count() {
            0 => Err(Error::input(format!(
                "{} holds no <REUTERS> story: remove it from [source] url, or correct [source] format",
                documents.path()
            ))),
            _ => Ok(()),
        }
    }
}

fn push(story: &Story, documents: &mut DocumentSink<'_>) -> Result<()> {
    let defect = if story.truncated { Some("truncated") } else { story.defect };
    documents.push(&story.parts.each_ref().map(Option::as_deref), defect)
}

/// Returns the stories of a file. The fuzzer calls this function.
pub fn stories<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> Vec<Story> {
    let mut reader = StoryReader::default();
    let mut found = Vec::new();
    for chunk in chunks {
        reader.feed(chunk);
        found.extend(std::iter::from_fn(|| reader.next()));
    }
    found.extend(reader.last());
    found
}

fn ends_name(byte: &u8) -> bool {
    *byte == b'>' || byte.is_ascii_whitespace()
}

/// Whether `bytes` start with the tag name `name`, in upper or lower case. The bytes follow a `<`.
fn is_tag(bytes: &[u8], name: &[u8]) -> bool {
    let parts = bytes.split_at_checked(name.len());
    parts.is_some_and(|(found, rest)| found.eq_ignore_ascii_case(name) && rest.first().is_some_and(ends_name))
}

fn tags(bytes: &[u8], name: &[u8]) -> impl Iterator<Item = usize> {
    memchr_iter(b'<', bytes).filter(move |at| is_tag(&bytes[at + 1..], name))
}

/// Returns the value of an attribute of a tag, without quotes.
fn attribute<'a>(tag: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut values = (0..tag.len()).filter(|at| tag[*at].is_ascii_whitespace()).filter_map(|at| {
        let (found, rest) = tag[at + 1..].split_at_checked(name.len())?;
        let value = rest.trim_ascii_start().strip_prefix(b"=")?;
        found.eq_ignore_ascii_case(name).then(|| value.trim_ascii_start())
    });
    let value = values.next()?;
    match value.split_first() {
        // Without the second quote, the value is incomplete and not used.
        Some((quote @ (b'"' | b'\''), inside)) => memchr(*quote, inside).map(|end| &inside[..end]),
        _ => value.split(u8::is_ascii_whitespace).next(),
    }
}

/// Returns the content of an element. If the end tag is missing, the content extends to the end of the bytes.
fn element<'a>(bytes: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let tag = &bytes[tags(bytes, name).next()?..];
    let content = &tag[memchr(b'>', tag)? + 1..];
    let is_end = |at: &usize| {
        let parts = content[at + 1..].strip_prefix(b"/").and_then(|rest| rest.split_at_checked(name.len()));
        parts.is_some_and(|(found, rest)| {
            found.eq_ignore_ascii_case(name) && rest.first().is_none_or(ends_name)
        })
    };
    Some(&content[..memchr_iter(b'<', content).find(is_end).unwrap_or(content.len())])
}

/// Returns the items of a list `<D>a</D><D>b</D>`. An item without an end tag ends at the next item.
fn items(bytes: &[u8]) -> Vec<&[u8]> {
    let starts: Vec<usize> = tags(bytes, b"D").collect();
    let ends = starts.iter().skip(1).copied().chain([bytes.len()]);
    starts.iter().zip(ends).map_while(|(start, end)| element(&bytes[*start..end], b"D")).collect()
}

/// Converts a part of a story to text. A part that is not UTF-8 is read as Latin-1, which loses no byte.
fn text(bytes: &[u8], references: References) -> String {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(bytes.iter().map(|byte| char::from(*byte)).collect()),
    };
    match references {
        References::Decode => decode(&text),
        References::Keep => text.into_owned(),
    }
}

/// Decodes character references: `AT&amp;T &#38; &unknown;` becomes `AT&T & &unknown;`.
fn decode(text: &str) -> String {
    let mut decoded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        decoded.push_str(&rest[..at]);
        rest = &rest[at..];
        let (character, length) = reference(rest).unwrap_or(('&', 1));
        decoded.push(character);
        rest = &rest[length..];
    }
    decoded.push_str(rest);
    decoded
}

/// Returns the character of the reference at the start of `text`, and the length of the reference in bytes.
fn reference(text: &str) -> Option<(char, usize)> {
    // The longest reference is `&#x10FFFF;`.
    let end = text.bytes().take(12).position(|byte| byte == b';')?;
    let character = match text.get(1..end)? {
        "lt" => '<',
        "gt" => '>',
        "amp" => '&',
        "quot" => '"',
        "apos" => '\'',
        name => {
            let number = name.strip_prefix('#')?;
            let (digits, radix) = match number.strip_prefix(['x', 'X']) {
                Some(digits) => (digits, 16),
                None => (number, 10),
            };
            // `from_str_radix` would also accept a sign.
            if !digits.chars().all(|digit| digit.is_digit(radix)) {
                return None;
            }
            char::from_u32(u32::from_str_radix(digits, radix).ok()?)?
        }
    };
    Some((character, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TWO: &str = "<!DOCTYPE lewis SYSTEM \"lewis.dtd\">\n\
        <REUTERS TOPICS=\"YES\" OLDID=\"5544\" NEWID=\"1\">\n<DATE>26-FEB-1987 15:01:01.79</DATE>\n\
        <TOPICS><D>cocoa</D><D>gold</D></TOPICS>\n<PLACES></PLACES>\n\
        <TEXT>&#2;\n<TITLE>COCOA &amp; GOLD</TITLE>\n<DATELINE>SALVADOR</DATELINE><BODY>Prices &lt; 5 & &bogus; &#x41;\nReuter\n&#3;</BODY></TEXT>\n</REUTERS>\n\
        <reuters oldid='5545' newid=2><text>no body</text></reuters>\n";

    fn story(parts: [Option<&str>; 7]) -> Story {
        Story { parts: parts.map(|part| part.map(str::to_owned)), ..Story::default() }
    }

    fn expected() -> Vec<Story> {
        let body = Some("Prices < 5 & &bogus; A\nReuter\n\u{3}");
        let date = Some("26-FEB-1987 15:01:01.79");
        let (topics, title) = (Some("cocoa,gold"), Some("COCOA & GOLD"));
        vec![
            story([Some("5544"), Some("1"), date, topics, Some(""), title, body]),
            story([Some("5545"), Some("2"), None, None, None, None, None]),
        ]
    }

    fn part(story: &Story, column: &str) -> Option<String> {
        story.parts[COLUMNS.iter().position(|name| *name == column).unwrap()].clone()
    }

    #[test]
    fn stories_have_their_parts() {
        for size in [1, 2, 3, 7, 8, 9, 10, 11, 64, 10_000] {
            assert_eq!(stories(TWO.as_bytes().chunks(size)), expected(), "chunks of {size}");
        }
    }

    #[test]
    fn the_end_of_the_file_truncates_a_story() {
        let whole = TWO.as_bytes();
        let start = TWO.find("<REUTERS ").unwrap() + "<REUTERS ".len();
        for cut in start..TWO.find("</REUTERS>").unwrap() + "</REUTERS>".len() {
            let found = stories([&whole[..cut]].into_iter());
            assert_eq!(found.len(), 1, "cut at {cut}");
            assert!(found[0].truncated, "cut at {cut}");
        }
        let in_body = TWO.find(" &bogus;").unwrap();
        let found = stories([&whole[..in_body]].into_iter());
        assert_eq!(part(&found[0], "body").as_deref(), Some("Prices < 5 &"));
        assert_eq!(part(&found[0], "oldid").as_deref(), Some("5544"));
    }

    #[test]
    fn a_lost_end_tag_costs_no_story_and_no_item() {
        let text = "<REUTERS OLDID=\"1\"><BODY>one</BODY><REUTERS OLDID=\"2\"><BODY>two</BODY></REUTERS>";
        let found = stories([text.as_bytes()].into_iter());
        assert_eq!(found.len(), 2);
        assert!(found[0].truncated && !found[1].truncated);
        assert_eq!(part(&found[1], "body").as_deref(), Some("two"));
        let story = |items: &str| format!("<REUTERS><TOPICS>{items}</TOPICS></REUTERS>");
        let topics = |text: String| part(&stories([text.as_bytes()].into_iter())[0], "topics").unwrap();
        assert_eq!(topics(story("<D>a<D>b</D><D>c")), "a,b,c");
        let unclosed = "<D>x".repeat(30_000);
        assert_eq!(topics(story(&unclosed)).len(), 2 * 30_000 - 1);
        let cut = format!("<REUTERS><TOPICS>{unclosed}");
        assert_eq!(topics(cut).len(), 2 * 30_000 - 1);
    }

    #[test]
    fn bytes_that_are_not_utf_8_are_latin_1() {
        for text in [
            &b"<REUTERS OLDID=\"1\"><BODY>caf\xE9</BODY></REUTERS>"[..],
            "<REUTERS><BODY>café</BODY></REUTERS>".as_bytes(),
        ] {
            assert_eq!(part(&stories([text].into_iter())[0], "body").as_deref(), Some("caf\u{e9}"));
        }
    }

    #[test]
    fn unknown_references_are_kept() {
        for (text, expected) in [
            ("&lt;&gt;&amp;&quot;&apos;", "<>&\"'"),
            ("&#65;&#x42;&#X43;", "ABC"),
            ("&amp;lt;", "&lt;"),
            ("AT&T; R&D", "AT&T; R&D"),
            ("&#xD800; &#99999999; &#; &#+5;", "&#xD800; &#99999999; &#; &#+5;"),
            ("&é;", "&é;"),
            ("ends in &", "ends in &"),
        ] {
            assert_eq!(decode(text), expected);
        }
    }

    proptest! {
        #[test]
        fn chunks_do_not_change_the_stories(
            parts in prop::collection::vec(prop::sample::select(vec![
                "<REUTERS", " OLDID=\"7\"", ">", "</REUTERS>", "<BODY>", "</BODY>", "text", "<", "</", "&#5;", "&", "<D>", "<TOPICS>", "<reuters>",
            ]), 0..24),
            size in 1usize..40,
        ) {
            let bytes = parts.concat().into_bytes();
            let cut = stories(bytes.chunks(size));
            let whole = stories([&bytes[..]].into_iter());
            prop_assert_eq!(cut, whole);
        }
    }
}
