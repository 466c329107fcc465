//! A text without some of its spans.

use std::collections::VecDeque;
use std::ops::Range;

/// A text without `spans`, which are ranges of its bytes in ascending order; `None` if they are not in it, overlap, or divide a
/// character.
pub fn without_spans(text: &str, spans: &[Range<usize>]) -> Option<String> {
    let mut kept = String::with_capacity(text.len());
    let mut from = 0;
    for span in spans {
        kept.push_str(text.get(from..span.start)?);
        text.get(span.clone())?;
        from = span.end;
    }
    kept.push_str(text.get(from..)?);
    Some(kept)
}

/// Cuts spans out of a text whose bytes come in parts, as [`without_spans`] does.
pub struct SpanCutter {
    /// The spans that have not ended.
    spans: VecDeque<Range<usize>>,
    /// Bytes so far.
    at: usize,
    divides_character: bool,
}

impl SpanCutter {
    /// A cut of these spans, in ascending order.
    pub fn new(spans: Vec<Range<usize>>) -> Self {
        Self { spans: spans.into(), at: 0, divides_character: false }
    }

    /// The parts of the next bytes that stay.
    pub fn next(&mut self, bytes: &[u8]) -> Vec<Range<usize>> {
        let (start, end) = (self.at, self.at + bytes.len());
        let (mut kept, mut from) = (Vec::new(), start);
        while let Some(span) = self.spans.front().filter(|span| span.start < end) {
            for edge in [span.start, span.end] {
                let byte = edge.checked_sub(start).and_then(|at| bytes.get(at));
                self.divides_character |= byte.is_some_and(|byte| byte & 0xC0 == 0x80);
            }
            if from < span.start {
                kept.push(from - start..span.start - start);
            }
            from = from.max(span.end.min(end));
            // The byte behind the span comes with the next bytes.
            if span.end >= end {
                break;
            }
            self.spans.pop_front();
        }
        if from < end {
            kept.push(from - start..end - start);
        }
        self.at = end;
        kept
    }

    /// Whether all spans were in the text, and no character was divided.
    pub fn end(self) -> bool {
        !self.divides_character && self.spans.iter().all(|span| span.end == self.at)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A text, and which of its characters are in spans.
    fn texts() -> impl Strategy<Value = Vec<(char, bool)>> {
        let char = prop_oneof![any::<char>(), prop::sample::select(vec!['a', 'é', '\u{feff}', '😀'])];
        prop::collection::vec((char, any::<bool>()), 0..40)
    }

    fn spans(chars: &[(char, bool)]) -> Vec<Range<usize>> {
        let (mut spans, mut at) = (Vec::<Range<usize>>::new(), 0);
        for (char, is_cut) in chars {
            let end = at + char.len_utf8();
            match spans.last_mut().filter(|span| span.end == at) {
                Some(span) if *is_cut => span.end = end,
                _ if *is_cut => spans.push(at..end),
                _ => {}
            }
            at = end;
        }
        spans
    }

    proptest! {
        #[test]
        fn what_is_in_no_span_stays(chars in texts(), size in 1_usize..9) {
            let text: String = chars.iter().map(|(char, _)| *char).collect();
            let wanted: String = chars.iter().filter(|(_, is_cut)| !is_cut).map(|(char, _)| *char).collect();
            let spans = spans(&chars);
            prop_assert_eq!(without_spans(&text, &spans), Some(wanted.clone()));
            let (mut parts, mut kept) = (SpanCutter::new(spans), Vec::new());
            for chunk in text.as_bytes().chunks(size) {
                parts.next(chunk).into_iter().for_each(|range| kept.extend_from_slice(&chunk[range]));
            }
            prop_assert!(parts.end());
            prop_assert_eq!(kept, wanted.into_bytes());
        }

        /// A span that does not fit is never cut.
        #[test]
        fn spans_of_another_text_are_noticed(text in "[aé😀]{0,8}", start in 0_usize..12, length in 1_usize..6, size in 1_usize..9) {
            let spans: Vec<_> = std::iter::once(start..start + length).collect();
            let fits = text.is_char_boundary(start) && text.is_char_boundary(start + length);
            prop_assert_eq!(without_spans(&text, &spans).is_some(), fits);
            let mut parts = SpanCutter::new(spans);
            text.as_bytes().chunks(size).for_each(|chunk| drop(parts.next(chunk)));
            prop_assert_eq!(parts.end(), fits);
        }
    }

    #[test]
    fn spans_that_overlap_are_noticed() {
        assert_eq!(without_spans("abcdef", &[0..3, 2..4]), None);
        assert_eq!(without_spans("abcdef", &[0..3, 3..4]), Some("ef".to_owned()));
    }
}
