//! The span that started this process, as W3C Trace Context names it (<https://www.w3.org/TR/trace-context/>).

use crate::environment::{self as names, Environment};

/// A span of another program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Parent {
    /// 16 bytes.
    pub(super) trace_id: Vec<u8>,
    /// 8 bytes.
    pub(super) span_id: Vec<u8>,
    /// What other programs add, which spans of this one repeat.
    pub(super) state: String,
    /// Whether the parent itself is recorded.
    pub(super) is_sampled: bool,
}

impl Parent {
    /// The parent that the environment names. As the standard asks, one that cannot be read is left out.
    pub(super) fn read(environment: &Environment) -> Option<Self> {
        let text = environment.get(names::TRACEPARENT)?;
        let parent = parse(text);
        if parent.is_none() {
            tracing::warn!(
                "the variable {} is {text:?}, which names no span, so the trace begins here: expected VERSION-TRACE-SPAN-FLAGS, such \
                 as 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                names::TRACEPARENT
            );
        }
        let state = environment.get(names::TRACESTATE).unwrap_or_default().to_owned();
        Some(Self { state, ..parent? })
    }
}

fn parse(text: &str) -> Option<Parent> {
    let mut parts = text.split('-');
    let [version, trace_id, span_id, flags] = std::array::from_fn(|_| parts.next());
    let (version, flags) = (bytes(version?, 1)?[0], bytes(flags?, 1)?[0]);
    // A later version may have more parts.
    if version == 0xff || (version == 0 && parts.next().is_some()) {
        return None;
    }
    let (trace_id, span_id) = (bytes(trace_id?, 16)?, bytes(span_id?, 8)?);
    let are_valid = [&trace_id, &span_id].iter().all(|id| id.iter().any(|&byte| byte != 0));
    are_valid.then(|| Parent { trace_id, span_id, state: String::new(), is_sampled: flags & 1 == 1 })
}

/// The bytes that lower-case hexadecimal digits name, if they are `number` bytes.
fn bytes(text: &str, number: usize) -> Option<Vec<u8>> {
    let are_digits = text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    if !are_digits || text.len() != 2 * number {
        return None;
    }
    (0..number).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    #[test]
    fn a_parent_is_read_as_the_standard_writes_it() {
        let sampled = parse(&format!("00-{TRACE}-{SPAN}-01")).unwrap();
        assert_eq!((sampled.trace_id[0], sampled.trace_id[15], sampled.trace_id.len()), (0x4b, 0x36, 16));
        assert_eq!((sampled.span_id[1], sampled.span_id.len(), sampled.is_sampled), (0xf0, 8, true));
        assert!(!parse(&format!("00-{TRACE}-{SPAN}-02")).unwrap().is_sampled);
        assert!(parse(&format!("cc-{TRACE}-{SPAN}-01-what-comes-later")).is_some());
        let (no_trace, no_span) = ("0".repeat(32), "0".repeat(16));
        for wrong in [
            String::new(),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{TRACE}-{TRACE}-01"),
            format!("00-{no_trace}-{SPAN}-01"),
            format!("00-{TRACE}-{no_span}-01"),
            format!("00-{}é-{SPAN}-01", &TRACE[..30]),
        ] {
            assert_eq!(parse(&wrong), None, "{wrong}");
        }
    }
}
