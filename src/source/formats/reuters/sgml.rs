//! Reuters-21578's SGML: bytes -> stories, as they come.
//!
//! The collection's files are sequences of `<REUTERS ...> ... </REUTERS>` elements in the layout that the collection's README
//! (David D. Lewis, 1997, section VI) describes. This is a reader of that layout and not an SGML parser: there are no DTDs, no
//! nested stories, and `<` in text is written `&lt;`.

use std::borrow::Cow;

use crate::job::{Encoding, References};
use crate::source::decode::INVALID;

/// A story. Missing parts are `None`.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(in crate::source) struct Story {
    pub oldid: Option<String>,
    pub newid: Option<String>,
    pub date: Option<String>,
    /// The `<D>` items, joined by commas; empty if there are none.
    pub topics: Option<String>,
    /// The `<D>` items, joined by commas; empty if there are none.
    pub places: Option<String>,
    pub title: Option<String>,
    pub body: Option<String>,
    /// The file or the next story began before this one ended; its last part may be cut.
    pub truncated: bool,
    /// Why the story cannot be compared, where its bytes are not valid in the encoding of the job.
    pub defect: Option<&'static str>,
}

impl Story {
    /// The names of a story's parts, in the order of [`Story::parts`].
    pub(in crate::source) const COLUMNS: [&'static str; 7] =
        ["oldid", "newid", "date", "topics", "places", "title", "body"];

    /// The parts, in the order of [`Story::COLUMNS`].
    pub(in crate::source) fn parts(&self) -> [Option<&str>; 7] {
        [&self.oldid, &self.newid, &self.date, &self.topics, &self.places, &self.title, &self.body]
            .map(|part| part.as_deref())
    }
}

const OPEN: &[u8] = b"<REUTERS";
const CLOSE: &[u8] = b"</REUTERS";

/// Cuts bytes into stories. Holds no more than the longest story and one chunk.
#[derive(Debug, Default)]
pub(in crate::source) struct Stories {
    pending: Vec<u8>,
    /// Bytes of `pending` that belong to stories already returned.
    taken: usize,
    /// Bytes of `pending` that were searched for the end of the story.
    searched: usize,
    /// Whether `pending` starts with a story.
    inside: bool,
    /// The defect of stories with an [`INVALID`] byte; `None` if such bytes are Latin-1.
    defect: Option<&'static str>,
    references: References,
}

impl Stories {
    /// A reader of files whose bytes were decoded from this encoding.
    pub(in crate::source) fn of(encoding: Encoding, references: References) -> Self {
        let defect = (encoding != Encoding::Utf8).then(|| encoding.defect());
        Self { defect, references, ..Self::default() }
    }

    /// More bytes of the file.
    pub(in crate::source) fn feed(&mut self, bytes: &[u8]) {
        if self.taken > 0 {
            self.pending.drain(..self.taken);
            self.searched = self.searched.saturating_sub(self.taken);
            self.taken = 0;
        }
        self.pending.extend_from_slice(bytes);
    }

    /// The next complete story; `None` until more bytes are fed.
    pub(in crate::source) fn next(&mut self) -> Option<Story> {
        loop {
            let from = self.searched.max(self.taken);
            if !self.inside {
                match find_tag(&self.pending, from, OPEN) {
                    Some(at) => {
                        self.taken = at;
                        self.searched = at + OPEN.len();
                        self.inside = true;
                    }
                    None => {
                        // The end of the chunk may cut the tag; everything before it is between stories.
                        self.taken = self.pending.len().saturating_sub(OPEN.len()).max(self.taken);
                        return None;
                    }
                }
                continue;
            }
            let mut at = from;
            while let Some(found) = self.pending[at..].iter().position(|byte| *byte == b'<') {
                at += found;
                let rest = &self.pending[at..];
                if is_tag(rest, CLOSE) {
                    let story = self.story(at, false);
                    self.give(at + CLOSE.len());
                    return Some(story);
                }
                // Without this, a lost end tag would make two stories one.
                if is_tag(rest, OPEN) {
                    let story = self.story(at, true);
                    self.give(at);
                    return Some(story);
                }
                if rest.len() <= CLOSE.len() {
                    // The chunk's end may cut a tag here.
                    self.searched = at;
                    return None;
                }
                at += 1;
            }
            self.searched = self.pending.len();
            return None;
        }
    }

    /// The story that the end of the file cuts off, if there is one.
    pub(in crate::source) fn end(&mut self) -> Option<Story> {
        if !self.inside {
            return None;
        }
        let story = self.story(self.pending.len(), true);
        self.give(self.pending.len());
        Some(story)
    }

    /// The story that ends before `end`.
    fn story(&self, end: usize, truncated: bool) -> Story {
        let bytes = &self.pending[self.taken..end];
        let defect = self.defect.filter(|_| bytes.contains(&INVALID));
        Story { defect, ..parse(bytes, truncated, self.references) }
    }

    fn give(&mut self, end: usize) {
        self.taken = end;
        self.searched = end;
        self.inside = false;
    }
}

/// Whether `bytes` start with `tag` (ASCII, upper case), in any case.
fn starts_with(bytes: &[u8], tag: &[u8]) -> bool {
    bytes.len() >= tag.len() && bytes[..tag.len()].eq_ignore_ascii_case(tag)
}

/// Whether `bytes` start with the tag that `open` opens: what follows its name ends it or starts an attribute.
fn is_tag(bytes: &[u8], open: &[u8]) -> bool {
    starts_with(bytes, open)
        && bytes.get(open.len()).is_some_and(|byte| *byte == b'>' || byte.is_ascii_whitespace())
}

/// Where in `bytes`, from `from`, the tag that `open` opens starts.
fn find_tag(bytes: &[u8], from: usize, open: &[u8]) -> Option<usize> {
    let mut at = from;
    while let Some(found) = bytes.get(at..)?.iter().position(|byte| *byte == b'<') {
        at += found;
        if is_tag(&bytes[at..], open) {
            return Some(at);
        }
        at += 1;
    }
    None
}

/// The story in `bytes`, which start with its tag and end before its end tag.
fn parse(bytes: &[u8], truncated: bool, references: References) -> Story {
    let text = |bytes: &[u8]| text(bytes, references);
    let head = bytes.iter().position(|byte| *byte == b'>').unwrap_or(bytes.len());
    let (tag, rest) = bytes.split_at(head);
    Story {
        oldid: attribute(tag, b"OLDID").map(text),
        newid: attribute(tag, b"NEWID").map(text),
        date: element(rest, b"<DATE").map(text),
        topics: element(rest, b"<TOPICS").map(|list| items(list, text)),
        places: element(rest, b"<PLACES").map(|list| items(list, text)),
        title: element(rest, b"<TITLE").map(text),
        body: element(rest, b"<BODY").map(text),
        truncated,
        defect: None,
    }
}

/// The value of a tag's attribute, with or without quotes around it.
fn attribute<'a>(tag: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut at = 0;
    while at + name.len() < tag.len() {
        let starts = tag[at].is_ascii_whitespace() && starts_with(&tag[at + 1..], name);
        at += 1;
        if !starts {
            continue;
        }
        let rest = tag[at + name.len()..].trim_ascii_start();
        let Some(value) = rest.strip_prefix(b"=") else { continue };
        let value = value.trim_ascii_start();
        let value = match value.first() {
            // Without the second quote the value is cut.
            Some(quote @ (b'"' | b'\'')) => {
                value[1..].iter().position(|byte| byte == quote).map(|end| &value[1..1 + end])
            }
            _ => value.split(|byte| byte.is_ascii_whitespace()).next(),
        };
        return value;
    }
    None
}

/// What is between the element's tags; to the end, where its end tag is missing.
fn element<'a>(bytes: &'a [u8], open: &[u8]) -> Option<&'a [u8]> {
    let at = find_tag(bytes, 0, open)?;
    let start = at + bytes[at..].iter().position(|byte| *byte == b'>')? + 1;
    let content = &bytes[start..];
    Some(&content[..end_tag(content, &open[1..]).unwrap_or(content.len())])
}

/// Where in `bytes` the end tag of the element `name` starts.
fn end_tag(bytes: &[u8], name: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some(found) = bytes[at..].iter().position(|byte| *byte == b'<') {
        at += found;
        let rest = &bytes[at + 1..];
        if rest.first() == Some(&b'/')
            && starts_with(&rest[1..], name)
            && rest.get(1 + name.len()).is_none_or(|byte| *byte == b'>' || byte.is_ascii_whitespace())
        {
            return Some(at);
        }
        at += 1;
    }
    None
}

/// `<D>a</D><D>b</D>` -> `a,b`. An item whose end tag is missing ends where the next one starts: each byte is in one item
/// at most.
fn items(bytes: &[u8], text: impl Fn(&[u8]) -> String) -> String {
    let mut joined = String::new();
    let mut first = true;
    let mut next = find_tag(bytes, 0, b"<D");
    while let Some(at) = next {
        next = find_tag(bytes, at + 2, b"<D");
        let item = &bytes[at..next.unwrap_or(bytes.len())];
        let Some(item) = element(item, b"<D") else { break };
        if !first {
            joined.push(',');
        }
        first = false;
        joined.push_str(&text(item));
    }
    joined
}

/// `bytes` as text, character references as the job has them.
///
/// A part of a story that is not UTF-8 is read as Latin-1: the collection is ASCII except for a handful of stray bytes, and Latin-1
/// loses none.
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

/// `AT&amp;T &#38; &unknown;` -> `AT&T & &unknown;`: text that is not a reference stays as it is.
fn decode(text: &str) -> String {
    let mut decoded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        decoded.push_str(&rest[..at]);
        rest = &rest[at..];
        match reference(rest) {
            Some((character, length)) => {
                decoded.push(character);
                rest = &rest[length..];
            }
            None => {
                decoded.push('&');
                rest = &rest[1..];
            }
        }
    }
    decoded.push_str(rest);
    decoded
}

/// The character that `text`, which starts with `&`, refers to, and the reference's length in bytes.
fn reference(text: &str) -> Option<(char, usize)> {
    // `&#x10FFFF;` is the longest.
    let end = text.bytes().take(12).position(|byte| byte == b';')?;
    let name = text.get(1..end)?;
    let character = match name {
        "lt" => '<',
        "gt" => '>',
        "amp" => '&',
        "quot" => '"',
        "apos" => '\'',
        _ => {
            let number = name.strip_prefix('#')?;
            let (digits, radix) = match number.strip_prefix(['x', 'X']) {
                Some(digits) => (digits, 16),
                None => (number, 10),
            };
            // `from_str_radix` would take a sign.
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

    fn expected() -> Vec<Story> {
        let some = |text: &str| Some(text.to_owned());
        vec![
            Story {
                oldid: some("5544"),
                newid: some("1"),
                date: some("26-FEB-1987 15:01:01.79"),
                topics: some("cocoa,gold"),
                places: some(""),
                title: some("COCOA & GOLD"),
                body: some("Prices < 5 & &bogus; A\nReuter\n\u{3}"),
                truncated: false,
                defect: None,
            },
            Story { oldid: some("5545"), newid: some("2"), ..Story::default() },
        ]
    }

    fn stories(chunks: impl Iterator<Item = Vec<u8>>) -> Vec<Story> {
        let mut stories = Stories::default();
        let mut found = Vec::new();
        for chunk in chunks {
            stories.feed(&chunk);
            found.extend(std::iter::from_fn(|| stories.next()));
        }
        found.extend(stories.end());
        found
    }

    #[test]
    fn stories_come_out_whole_however_the_bytes_come_in() {
        for size in [1, 2, 3, 7, 8, 9, 10, 11, 64, 10_000] {
            assert_eq!(
                stories(TWO.as_bytes().chunks(size).map(<[u8]>::to_vec)),
                expected(),
                "chunks of {size}"
            );
        }
    }

    #[test]
    fn a_file_cut_anywhere_gives_the_same_stories_then_a_truncated_one() {
        let whole = TWO.as_bytes();
        let first_end = TWO.find("</REUTERS>").unwrap() + "</REUTERS>".len();
        let first_start = TWO.find("<REUTERS").unwrap();
        for cut in first_start + "<REUTERS ".len()..first_end {
            let found = stories(std::iter::once(whole[..cut].to_vec()));
            assert_eq!(found.len(), 1, "cut at {cut}");
            assert!(found[0].truncated, "cut at {cut}");
        }
        let in_body = TWO.find(" &bogus;").unwrap();
        let found = stories(std::iter::once(whole[..in_body].to_vec()));
        assert_eq!(found[0].body.as_deref(), Some("Prices < 5 &"));
        assert_eq!(found[0].oldid.as_deref(), Some("5544"));
    }

    #[test]
    fn a_lost_end_tag_costs_no_story() {
        let text = "<REUTERS OLDID=\"1\"><BODY>one</BODY><REUTERS OLDID=\"2\"><BODY>two</BODY></REUTERS>";
        let found = stories(std::iter::once(text.as_bytes().to_vec()));
        assert_eq!(found.len(), 2);
        assert!(found[0].truncated && !found[1].truncated);
        assert_eq!(found[1].body.as_deref(), Some("two"));
    }

    #[test]
    fn items_that_are_not_closed_do_not_hold_one_another() {
        let story = |items: &str| format!("<REUTERS><TOPICS>{items}</TOPICS></REUTERS>");
        let topics = |text: String| stories(std::iter::once(text.into_bytes())).remove(0).topics.unwrap();
        assert_eq!(topics(story("<D>a<D>b</D><D>c")), "a,b,c");
        let unclosed = "<D>x".repeat(30_000);
        assert_eq!(topics(story(&unclosed)).len(), 2 * 30_000 - 1);
        let cut = format!("<REUTERS><TOPICS>{unclosed}");
        assert_eq!(topics(cut).len(), 2 * 30_000 - 1);
    }

    #[test]
    fn bytes_that_are_no_utf8_are_latin_1() {
        let found = stories(std::iter::once(b"<REUTERS OLDID=\"1\"><BODY>caf\xE9</BODY></REUTERS>".to_vec()));
        assert_eq!(found[0].body.as_deref(), Some("caf\u{e9}"));
        let found =
            stories(std::iter::once("<REUTERS OLDID=\"1\"><BODY>café</BODY></REUTERS>".as_bytes().to_vec()));
        assert_eq!(found[0].body.as_deref(), Some("café"));
    }

    #[test]
    fn references_are_decoded_and_others_stay() {
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
        /// No bytes, however cut, make it panic, and the cut changes nothing.
        #[test]
        fn the_cut_changes_nothing(
            parts in prop::collection::vec(prop::sample::select(vec![
                "<REUTERS", " OLDID=\"7\"", ">", "</REUTERS>", "<BODY>", "</BODY>", "text", "<", "</", "&#5;", "&", "<D>", "<TOPICS>", "<reuters>",
            ]), 0..24),
            size in 1usize..40,
        ) {
            let bytes = parts.concat().into_bytes();
            let cut = stories(bytes.chunks(size).map(<[u8]>::to_vec));
            let whole = stories(std::iter::once(bytes.clone()));
            prop_assert_eq!(cut, whole);
        }
    }
}
