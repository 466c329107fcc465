//! HTML: the text that a browser shows.

use std::convert::Infallible;

use html5gum::emitters::callback::{CallbackEmitter, CallbackEvent};
use html5gum::{Span, Tokenizer};

use crate::job::Html;
use crate::source::format::TextStep;
use crate::source::reading::lines::without_mark;

pub(super) const HTML: TextStep = TextStep {
    applies: |source, name, start| source.html == Some(Html::Text) && is_html(name, start),
    text: shown_text,
};

const ENDINGS: [&str; 3] = [".html", ".htm", ".xhtml"];
/// The first bytes of HTML files with other endings, in lower case.
const STARTS: [&[u8]; 2] = [b"<!doctype html", b"<html"];
/// The elements whose contents a browser does not show in the page.
const HIDDEN: [&str; 6] = ["script", "style", "title", "noscript", "iframe", "template"];
/// The elements that are parts of a line. Other elements begin and end lines.
const INLINE: [&str; 38] = [
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em", "font",
    "i", "img", "ins", "kbd", "label", "mark", "nobr", "q", "rp", "rt", "ruby", "s", "samp", "small", "span",
    "strike", "strong", "sub", "sup", "time", "tt", "u", "var", "wbr",
];

/// Returns whether a file is HTML. `name` is in lower case, without the ending of a compression.
fn is_html(name: &str, start: &[u8]) -> bool {
    let start = without_mark(start).trim_ascii_start();
    let begins = |with: &&[u8]| start.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with));
    ENDINGS.iter().any(|ending| name.ends_with(ending)) || STARTS.iter().any(begins)
}

fn shown_text(html: &str) -> String {
    let mut page = PageText::default();
    let mut emitter = CallbackEmitter::new(|event: CallbackEvent<'_>, _: Span<()>| {
        page.add(&event);
        None::<Infallible>
    });
    // Inside a script, the tokenizer then ignores text that looks like a tag.
    emitter.naively_switch_states(true);
    let Ok(_) = Tokenizer::new_with_emitter(html, emitter).finish();
    page.text
}

#[derive(Default)]
struct PageText {
    text: String,
    /// The element whose contents are skipped.
    hidden: Option<&'static str>,
    /// Whether white space is kept, as in the element `pre`.
    is_verbatim: bool,
    /// Whether white space precedes the next word.
    has_space: bool,
}

impl PageText {
    fn add(&mut self, event: &CallbackEvent<'_>) {
        match event {
            CallbackEvent::OpenStartTag { name } => {
                let is_hidden = |hidden: &&str| hidden.as_bytes() == *name;
                self.hidden = self.hidden.or_else(|| HIDDEN.into_iter().find(is_hidden));
                self.tag(name, true);
            }
            CallbackEvent::EndTag { name } => {
                self.hidden = self.hidden.filter(|hidden| hidden.as_bytes() != *name);
                self.tag(name, false);
            }
            CallbackEvent::String { value } if self.hidden.is_none() => {
                self.words(&String::from_utf8_lossy(value));
            }
            _ => {}
        }
    }

    fn tag(&mut self, name: &[u8], begins: bool) {
        if name == b"pre" {
            self.is_verbatim = begins;
        }
        let is_inline = INLINE.iter().any(|inline| inline.as_bytes() == name);
        if !is_inline && !self.text.is_empty() {
            self.has_space = false;
            if !self.text.ends_with('\n') {
                self.text.push('\n');
            }
        }
    }

    /// Adds text. White space becomes one space, unless it is kept.
    fn words(&mut self, value: &str) {
        if self.is_verbatim {
            return self.text.push_str(value);
        }
        for (at, word) in value.split(|c: char| c.is_ascii_whitespace()).enumerate() {
            self.has_space |= at > 0;
            if word.is_empty() {
                continue;
            }
            if std::mem::take(&mut self.has_space) && !self.text.is_empty() && !self.text.ends_with('\n') {
                self.text.push(' ');
            }
            self.text.push_str(word);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_page_has_the_text_that_a_browser_shows() {
        let page = "<!DOCTYPE html>\n<html><head><title>Not shown</title><style>p { x: \"</p>\" }</style></head>\n<body>\n\
                    <h1>Caf\u{e9} &amp; t&eacute;</h1><p>one <b>tw</b>o\n   three<br>four</p><p>five</p>\
                    <script>if (a < b) { \"<p>six\" }</script><!-- seven --><ul><li>eight<li>nine</ul>\
                    <pre>a  b\n  c</pre><table><tr><td>x</td><td>y &lt; z</td></tr></table></body></html>\n";
        let text = "Caf\u{e9} & t\u{e9}\none two three\nfour\nfive\neight\nnine\na  b\n  c\nx\ny < z\n";
        assert_eq!(shown_text(page), text);
        assert_eq!(shown_text("plain  text"), "plain text");
        assert_eq!(shown_text("a<script>b"), "a\n");
        assert_eq!(shown_text(""), "");
    }

    #[test]
    fn html_is_known_by_its_ending_or_its_start() {
        for (name, start, expected) in [
            ("a.html", &b"words"[..], true),
            ("a.htm", b"", true),
            ("a.txt", b"\xEF\xBB\xBF\n<!doctype HTML>", true),
            ("a", b"<HTML lang=en>", true),
            ("a.md", b"# <html>", false),
            ("html", b"<p>", false),
        ] {
            assert_eq!(is_html(name, start), expected, "{name}");
        }
    }

    proptest! {
        #[test]
        fn any_page_has_a_text(html in "(<(/?)(p|b|pre|script|title|template|x)( a=\"b)?>|&amp;?|[a<>\"é \n-]){0,30}") {
            shown_text(&html);
        }
    }
}
