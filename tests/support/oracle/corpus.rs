//! Random documents: new texts, copies, near copies, parts of others, and rows that cannot be compared.

use super::settings::Settings;
use super::sketch::shingles;
use crate::support::*;

#[derive(Debug, Clone)]
pub struct Text {
    pub id: Option<String>,
    pub text: Option<String>,
    pub group: Option<&'static str>,
    pub year: Option<i64>,
}

/// Files by the name under which the program reads them.
pub type Files = Vec<(String, Vec<Text>)>;

#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// One of so many texts is new, after the first four.
    pub new: usize,
    /// Words of the shortest text, and how many more a text has at most.
    pub words: (usize, usize),
    pub vocabulary: usize,
    /// Whether words and separators are unusual, and some rows cannot be compared.
    pub odd: bool,
    /// Whether most texts begin with the same words, and a few have no others.
    pub has_header: bool,
}

/// Makes documents. All files of a case have parts of the same texts.
pub struct Corpus {
    random: Random,
    shape: Shape,
    texts: Vec<Vec<String>>,
    ids: usize,
}

impl Corpus {
    pub fn new(seed: u64, shape: Shape) -> Self {
        Self { random: Random(seed), shape, texts: Vec::new(), ids: 0 }
    }

    pub fn documents(&mut self, count: usize) -> Vec<Text> {
        let mut documents: Vec<Text> = Vec::new();
        for _ in 0..count {
            let words = self.words();
            let random = &mut self.random;
            let mut text = String::new();
            let header = match self.shape.has_header && random.below(4) > 0 {
                true => (0..12).map(|word| format!("h{word}")).collect(),
                false => Vec::new(),
            };
            let is_header_alone = !header.is_empty() && random.below(12) == 0;
            let own = if is_header_alone { &[][..] } else { &words };
            for word in header.iter().chain(own) {
                text += word;
                text += match self.shape.odd {
                    true => [" ", " ", " ", "  ", "\n", ", ", "\t", "\u{a0}", ". "][random.below(9)],
                    false => [" ", "  "][random.below(2)],
                };
            }
            self.texts.push(words);
            // Other characters, and the same shingles.
            if !self.shape.odd && random.below(3) == 0 {
                text = text.to_uppercase();
            }
            // Ids in another order than documents.
            self.ids += 1;
            let mut id = Some(format!("{:x}-{}", random.next() % 4096, self.ids));
            let mut text = Some(text);
            if self.shape.odd {
                match random.below(40) {
                    0 => text = None,
                    1 => text = Some(String::new()),
                    2 => text = Some(" \r\n\t ".to_owned()),
                    3 => id = None,
                    4 | 5 if !documents.is_empty() => {
                        id.clone_from(&documents[random.below(documents.len())].id);
                    }
                    _ => {}
                }
            }
            let group = [Some("n"), Some("s"), Some(""), None][random.below(4)];
            let year = [None, Some(1999), Some(2005), Some(-3)][random.below(4)];
            documents.push(Text { id, text, group, year });
        }
        documents
    }

    /// The words of the next text: an earlier one's, with changes, or new ones.
    fn words(&mut self) -> Vec<String> {
        let (shape, known) = (self.shape, self.texts.len());
        let random = &mut self.random;
        let mut words = match known < 4 || random.below(shape.new) == 0 {
            true => (0..shape.words.0 + random.below(shape.words.1)).map(|_| word(random, shape)).collect(),
            false => self.texts[random.below(known)].clone(),
        };
        let at = random.below(words.len());
        match random.below(20) {
            0..=6 => {}
            7..=9 => words[at] = word(random, shape),
            10 => words.insert(at, word(random, shape)),
            11 if words.len() > 1 => drop(words.remove(at)),
            // A part of it, or more behind its end.
            12 | 13 => words.truncate(3 + random.below(words.len())),
            14 | 15 => words.extend((0..1 + random.below(6)).map(|_| word(random, shape))),
            // The window moves on, so that chains arise.
            16..=18 => {
                words.drain(..random.below(5).min(words.len() - 1));
                words.extend((0..random.below(5)).map(|_| word(random, shape)));
            }
            _ => words.truncate(1 + random.below(2)),
        }
        words
    }
}

/// A word; an odd one is one that a rule or a step of normalisation may take in another way than others do.
fn word(random: &mut Random, shape: Shape) -> String {
    const ODD: &str = "the The AND a isn't don't 12 3.5 x1 1,000;2 ΣΑΣ éA ﬁn ½ İ 中文 カ _ snake_case - e\u{301} \u{200d} \
         naïve U.S.A.";
    let number = random.below(shape.vocabulary);
    match random.below(6) {
        0 if shape.odd => ODD.split(' ').nth(random.below(24)).unwrap().to_owned(),
        1 if shape.odd => format!("W{number}"),
        _ => format!("w{number}"),
    }
}

/// Writes rows as Parquet with the columns `id`, `text`, `shop` and `year`.
pub fn write(path: &Path, documents: &[Text], row_group: usize) {
    let column = |of: fn(&Text) -> Option<&str>| -> ArrayRef {
        Arc::new(documents.iter().map(of).collect::<StringArray>())
    };
    let years: ArrayRef = Arc::new(documents.iter().map(|document| document.year).collect::<Int64Array>());
    let columns = [
        ("id", column(|document| document.id.as_deref()), true),
        ("text", column(|document| document.text.as_deref()), true),
        ("shop", column(|document| document.group), true),
        ("year", years, true),
    ];
    write_batch(path, &RecordBatch::try_from_iter_with_nullable(columns).unwrap(), row_group);
}

/// Frequent shingles, each with its documents and its largest share of the documents of a group.
pub type Frequent = BTreeMap<Vec<u8>, (u64, f64)>;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reject {
    pub source: String,
    pub position: u64,
    pub id: String,
    pub reason: String,
}

#[derive(Default)]
pub struct Sorted {
    /// Rows that can be compared, each with its shingles.
    pub compared: Vec<(Text, Vec<Vec<u8>>)>,
    pub rejects: Vec<Reject>,
}

impl Sorted {
    /// The shingles that more than `share` and more than 10 of the documents of a group have.
    pub fn frequent(&self, share: f64, by_group: bool) -> Frequent {
        let mut sizes: BTreeMap<Option<&str>, u64> = BTreeMap::new();
        let mut counts: BTreeMap<(Option<&str>, &Vec<u8>), u64> = BTreeMap::new();
        for (text, shingles) in &self.compared {
            let group = text.group.filter(|_| by_group);
            *sizes.entry(group).or_default() += 1;
            shingles.iter().for_each(|shingle| *counts.entry((group, shingle)).or_default() += 1);
        }
        let mut frequent = Frequent::new();
        for ((group, shingle), documents) in counts {
            let of_group = documents as f64 / sizes[&group] as f64;
            if documents > 10 && documents as f64 > share * sizes[&group] as f64 {
                let largest = frequent.entry(shingle.clone()).or_insert((documents, of_group));
                if (of_group, documents) > (largest.1, largest.0) {
                    *largest = (documents, of_group);
                }
            }
        }
        frequent
    }
}

/// Sorts the rows of files. An error is the id of a document without shingles that other documents have too: which of them counts is
/// not what these tests ask.
pub fn sorted(files: &Files, settings: &Settings) -> Result<Sorted, String> {
    let mut sorted = Sorted::default();
    let mut known: BTreeMap<&str, bool> = BTreeMap::new();
    for (source, documents) in files {
        for (position, document) in (0..).zip(documents) {
            let mut reject = |reason: &str| {
                let id = document.id.clone().unwrap_or_else(|| "<null>".into());
                sorted.rejects.push(Reject { source: source.clone(), position, id, reason: reason.into() });
            };
            let (Some(id), Some(text)) = (&document.id, &document.text) else {
                reject(if document.id.is_none() { "missing_id" } else { "missing_text" });
                continue;
            };
            if text.trim_matches([' ', '\t', '\r', '\n']).is_empty() {
                reject("empty_text");
                continue;
            }
            let (normalized, mut shingles) = shingles(text, settings);
            let all = shingles.len();
            shingles.retain(|shingle| !settings.frequent.contains_key(shingle));
            if all > 0 && shingles.is_empty() {
                reject("only_template");
                continue;
            }
            match known.get(id.as_str()) {
                Some(true) if !shingles.is_empty() => reject("duplicate_id"),
                Some(_) => return Err(id.clone()),
                None => {
                    known.insert(id, !shingles.is_empty());
                    // A document that normalisation makes empty may be called by either name.
                    match (shingles.is_empty(), normalized.trim().is_empty()) {
                        (true, true) => reject("empty_text or too_short"),
                        (true, false) => reject("too_short"),
                        _ => sorted.compared.push((document.clone(), shingles.into_iter().collect())),
                    }
                }
            }
        }
    }
    sorted.rejects.sort();
    Ok(sorted)
}

/// Gives every document but the first of this id an id of its own.
pub fn rename(files: &mut Files, id: &str) {
    let documents = files.iter_mut().flat_map(|(_, documents)| documents);
    for (number, document) in
        documents.filter(|document| document.id.as_deref() == Some(id)).enumerate().skip(1)
    {
        document.id = Some(format!("{id}-{number}"));
    }
}
