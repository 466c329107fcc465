//! Reuters SGML: where the bytes are cut, and the bytes.

use resemblance::source::fuzzing::{Story, stories};

/// However the bytes come in, the same stories come out, and no more than there are start tags.
pub fn check(bytes: &[u8]) {
    let [size, file @ ..] = bytes else { return };
    let whole = stories(std::iter::once(file));
    let chunks = stories(file.chunks(1 + usize::from(*size)));
    assert_eq!(chunks, whole, "in chunks of {}", 1 + usize::from(*size));
    let (start, end) = file.split_at(usize::from(*size).min(file.len()));
    assert_eq!(stories([start, end].into_iter()), whole, "cut at {size}");

    let tags = file.windows(8).filter(|tag| tag.eq_ignore_ascii_case(b"<REUTERS")).count();
    assert!(whole.len() <= tags, "{} stories of {tags} tags", whole.len());
    // A story is no longer than what it was cut from: a reference only shrinks, and Latin-1 at most doubles.
    let length: usize = whole.iter().map(length).sum();
    assert!(length <= 8 * 2 * file.len(), "{length} bytes of {}", file.len());
}

fn length(story: &Story) -> usize {
    story.parts.iter().flatten().map(String::len).sum()
}
