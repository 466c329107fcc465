//! One page of an S3 listing, as the storage sent it.
//!
//! The client library treats a page that announces more without a token as the last one, and fails the whole listing
//! for one key that it cannot read. So each page is read here first.

use std::borrow::Cow;

use object_store::path::Path;
use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesRef, Event};

/// A page for the client library.
#[derive(Debug, PartialEq)]
pub(super) struct ListingPage<'a> {
    /// The page without unreadable keys.
    pub body: Cow<'a, [u8]>,
    /// Keys that no path can name.
    pub unreadable: Vec<String>,
}

/// Reads the page that came for `token`, the end of the page before it.
///
/// Folder markers (empty objects whose key ends with `/`) are left out, and so are keys that no path can name: those with an
/// empty segment, `.`, `..` or a control character.
///
/// # Errors
/// A sentence, if the page is not a listing, is cut off, or has no token for the next page.
pub(super) fn read<'a>(body: &'a [u8], token: Option<&str>) -> Result<ListingPage<'a>, String> {
    let mut scan = PageScan { body, kept: Vec::new(), copied: 0, unreadable: Vec::new() };
    let mut reader = Reader::from_reader(body);
    let mut open: Vec<String> = Vec::new();
    let mut entry = ListingEntry::default();
    let mut text = String::new();
    let (mut root, mut truncated, mut next) = (false, false, String::new());
    loop {
        let start = position(&reader);
        let event = reader.read_event().map_err(|_| not_a_listing(body))?;
        match event {
            Event::Start(tag) => {
                let name = String::from_utf8_lossy(tag.local_name().as_ref()).into_owned();
                if open.is_empty() {
                    if name != "ListBucketResult" {
                        return Err(not_a_listing(body));
                    }
                    root = true;
                }
                if open.len() == 1 {
                    entry = ListingEntry { start, ..ListingEntry::default() };
                }
                text.clear();
                open.push(name);
            }
            Event::Empty(tag) if open.is_empty() => {
                root = tag.local_name().as_ref() == b"ListBucketResult";
                if !root {
                    return Err(not_a_listing(body));
                }
            }
            Event::End(_) => {
                let names: Vec<&str> = open.iter().map(String::as_str).collect();
                match names.as_slice() {
                    [_, "IsTruncated"] => truncated = text.trim().eq_ignore_ascii_case("true"),
                    [_, "NextContinuationToken"] => next = std::mem::take(&mut text),
                    [_, "Contents", "Key"] | [_, "CommonPrefixes", "Prefix"] => {
                        entry.key = std::mem::take(&mut text)
                    }
                    [_, "Contents", "Size"] => entry.empty = text.trim() == "0",
                    [_, "Contents"] => scan.end(&entry, action_of_object(&entry), position(&reader)),
                    [_, "CommonPrefixes"] => {
                        scan.end(&entry, action_of_prefix(&entry.key), position(&reader))
                    }
                    _ => {}
                }
                open.pop();
            }
            Event::Text(part) => text.push_str(&part.decode().map_err(|_| not_a_listing(body))?),
            Event::CData(part) => text.push_str(&part.decode().map_err(|_| not_a_listing(body))?),
            Event::GeneralRef(reference) => text.push_str(&character(&reference)),
            Event::Eof => break,
            _ => {}
        }
    }
    if !root {
        return Err(not_a_listing(body));
    }
    if !open.is_empty() {
        return Err("a page of the listing is cut off".to_owned());
    }
    if truncated && next.is_empty() {
        return Err(
            "a page of the listing says that more objects follow, but not where they start".to_owned()
        );
    }
    if !next.is_empty() && token == Some(next.as_str()) {
        return Err(
            "a page of the listing names itself as the next page, so the listing would never end".to_owned()
        );
    }
    Ok(scan.page())
}

fn position(reader: &Reader<&[u8]>) -> usize {
    usize::try_from(reader.buffer_position()).unwrap_or(usize::MAX)
}

/// The character of an XML reference. An unknown name stays as it was written; a number that is not a character becomes a text
/// with a control character, so that the key counts as unreadable.
fn character(reference: &BytesRef) -> String {
    if let Ok(Some(character)) = reference.resolve_char_ref() {
        return character.to_string();
    }
    let name = reference.decode().unwrap_or_default();
    match resolve_predefined_entity(&name) {
        Some(character) => character.to_owned(),
        None if name.starts_with('#') => char::REPLACEMENT_CHARACTER.to_string() + "\u{1}",
        None => format!("&{name};"),
    }
}

fn not_a_listing(body: &[u8]) -> String {
    let html = body.iter().take(1024).copied().collect::<Vec<u8>>().to_ascii_lowercase();
    let html = html.windows(5).any(|part| part == b"<html");
    let what = if html { "an HTML page" } else { "something else" };
    format!(
        "{what} came instead of a page of the listing: is there a proxy between this machine and the storage?"
    )
}

/// An object or a common prefix of the page.
#[derive(Debug, Default)]
struct ListingEntry {
    /// The byte of the page at which it starts.
    start: usize,
    key: String,
    empty: bool,
}

/// What happens to an entry of the page.
enum EntryAction {
    Keep,
    /// A folder marker.
    Drop,
    /// No path can name it.
    Skip,
}

fn action_of_object(entry: &ListingEntry) -> EntryAction {
    match Path::parse(&entry.key) {
        _ if entry.empty && entry.key.ends_with('/') => EntryAction::Drop,
        // A path with another spelling would name another object.
        Ok(path) if path.as_ref() == entry.key => EntryAction::Keep,
        _ => EntryAction::Skip,
    }
}

fn action_of_prefix(prefix: &str) -> EntryAction {
    match Path::parse(prefix) {
        Ok(path) if Some(path.as_ref()) == prefix.strip_suffix('/') => EntryAction::Keep,
        _ => EntryAction::Skip,
    }
}

/// A page while it is copied.
struct PageScan<'a> {
    body: &'a [u8],
    kept: Vec<u8>,
    /// Bytes of the page that are in `kept` or left out.
    copied: usize,
    unreadable: Vec<String>,
}

impl<'a> PageScan<'a> {
    /// The entry ends before byte `end`.
    fn end(&mut self, entry: &ListingEntry, action: EntryAction, end: usize) {
        match action {
            EntryAction::Keep => return,
            EntryAction::Drop => {}
            EntryAction::Skip => self.unreadable.push(entry.key.clone()),
        }
        self.kept.extend_from_slice(self.body.get(self.copied..entry.start).unwrap_or_default());
        self.copied = end;
    }

    fn page(mut self) -> ListingPage<'a> {
        let body = match self.copied {
            0 => Cow::Borrowed(self.body),
            copied => {
                self.kept.extend_from_slice(self.body.get(copied..).unwrap_or_default());
                Cow::Owned(self.kept)
            }
        };
        ListingPage { body, unreadable: self.unreadable }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn listing(inside: &str) -> String {
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">{inside}</ListBucketResult>"
        )
    }

    fn object(key: &str, size: u64) -> String {
        format!("<Contents><Key>{key}</Key><Size>{size}</Size></Contents>")
    }

    fn wrong(body: &str, token: Option<&str>) -> String {
        read(body.as_bytes(), token).unwrap_err()
    }

    #[test]
    fn a_good_page_stays_as_it_is() {
        let pages = [
            listing(&object("a/b c&amp;d.csv", 3)),
            listing("<IsTruncated>false</IsTruncated>"),
            listing("<IsTruncated>true</IsTruncated><NextContinuationToken>b</NextContinuationToken>"),
            listing("<CommonPrefixes><Prefix>a/b/</Prefix></CommonPrefixes>"),
            "<ListBucketResult/>".to_owned(),
        ];
        for page in &pages {
            let read = read(page.as_bytes(), Some("a")).unwrap();
            assert_eq!((read.body, read.unreadable), (Cow::Borrowed(page.as_bytes()), vec![]), "{page}");
        }
    }

    #[test]
    fn a_page_without_a_token_for_the_next_is_refused() {
        assert!(wrong(&listing("<IsTruncated>true</IsTruncated>"), None).contains("more objects follow"));
        let empty = "<IsTruncated>true</IsTruncated><NextContinuationToken></NextContinuationToken>";
        assert!(wrong(&listing(empty), None).contains("more objects follow"));
        let again = "<IsTruncated>true</IsTruncated><NextContinuationToken>a&amp;b</NextContinuationToken>";
        assert!(wrong(&listing(again), Some("a&b")).contains("never end"));
        assert!(read(listing(again).as_bytes(), None).is_ok());
    }

    #[test]
    fn other_documents_are_refused() {
        for (body, what) in [
            ("<!DOCTYPE html><html><body>Sign in</body></html>", "HTML"),
            ("<HTML><p>sign in<br></HTML>", "HTML"),
            ("<Error><Code>Odd</Code></Error>", "something else"),
            ("{\"contents\": []}", "something else"),
            ("", "something else"),
        ] {
            assert!(
                wrong(body, None).starts_with(if what == "HTML" { "an HTML page" } else { what }),
                "{body}"
            );
        }
        let whole = listing(&object("a", 1));
        assert!(wrong(&whole[..whole.len() - 19], None).contains("cut off"));
    }

    #[test]
    fn unreadable_keys_are_left_out_and_listed() {
        let good = object("t/a.txt", 1) + &object("t/b.txt", 0);
        let markers = object("t/sub/", 0) + &object("t/", 0);
        let odd = ["t//c", "t/./d", "t/../e", "/f", "t/g/", "t/h&#x1;", "t/i&#10;", "t/j\u{7}"];
        let odd_objects: String = odd.iter().map(|key| object(key, 5)).collect();
        let prefixes = "<CommonPrefixes><Prefix>t//</Prefix></CommonPrefixes>";
        let body = listing(&format!("{markers}{good}{odd_objects}{prefixes}{}", object("u", 2)));
        let page = read(body.as_bytes(), None).unwrap();
        assert_eq!(String::from_utf8(page.body.into_owned()).unwrap(), listing(&(good + &object("u", 2))));
        let named = ["t//c", "t/./d", "t/../e", "/f", "t/g/", "t/h\u{1}", "t/i\n", "t/j\u{7}", "t//"];
        assert_eq!(page.unreadable, named);
    }

    proptest! {
        /// Any bytes end without a panic.
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = read(&bytes, None);
            let text = listing(&String::from_utf8_lossy(&bytes));
            let _ = read(text.as_bytes(), Some("a"));
        }
    }
}
