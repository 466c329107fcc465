//! Public access to the SGML reader for the fuzzer and its replay.

use super::formats::reuters::sgml::{Stories, Story};

/// The values of a story.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoryParts {
    /// The values of its columns, in the order of a table.
    pub parts: Vec<Option<String>>,
    /// Whether the story was cut off.
    pub truncated: bool,
}

impl StoryParts {
    fn new(story: &Story) -> Self {
        let parts = story.parts().into_iter().map(|part| part.map(str::to_owned)).collect();
        Self { parts, truncated: story.truncated }
    }
}

/// The stories of a file whose bytes come in these chunks.
pub fn stories<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> Vec<StoryParts> {
    let mut stories = Stories::default();
    let mut found = Vec::new();
    for chunk in chunks {
        stories.feed(chunk);
        found.extend(std::iter::from_fn(|| stories.next()).map(|story| StoryParts::new(&story)));
    }
    found.extend(stories.end().map(|story| StoryParts::new(&story)));
    found
}
