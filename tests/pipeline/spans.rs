//! `[passages]`: what repeats inside documents, against plain code. Random cases are in `reference_passages`.

use xxhash_rust::xxh3::xxh3_128;

use crate::support::*;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    pub id: String,
    pub chars: (usize, usize),
    pub bytes: (usize, usize),
    pub words: usize,
    pub occurrences: usize,
    pub reference_documents: usize,
    pub passage: String,
    pub kept: bool,
    pub kept_at: (String, usize),
    pub kept_reference: bool,
}

/// The spans of an output, sorted by document and place.
pub fn spans(output: &Path) -> Vec<Span> {
    let table = table(output, "spans");
    let [ids, passages, kept_ids] = ["id", "passage_id", "kept_id"].map(|name| strings(&table, name));
    let [kept, kept_reference] = ["kept", "kept_reference"].map(|name| bools(&table, name));
    let number = |name| numbers(&table, name).into_iter().map(|n| n as usize).collect::<Vec<_>>();
    let [char_start, char_end, byte_start, byte_end] =
        ["char_start", "char_end", "byte_start", "byte_end"].map(number);
    let [words, occurrences, reference_documents, kept_char_start] =
        ["words", "occurrences", "reference_documents", "kept_char_start"].map(number);
    let mut spans: Vec<Span> = (0..table.num_rows())
        .map(|row| Span {
            id: ids[row].clone(),
            chars: (char_start[row], char_end[row]),
            bytes: (byte_start[row], byte_end[row]),
            words: words[row],
            occurrences: occurrences[row],
            reference_documents: reference_documents[row],
            passage: passages[row].clone(),
            kept: kept[row],
            kept_at: (kept_ids[row].clone(), kept_char_start[row]),
            kept_reference: kept_reference[row],
        })
        .collect();
    spans.sort();
    spans
}

/// A document without the passages that are not kept in it.
pub fn without_spans((id, mut text): Document, spans: &[Span]) -> Document {
    // Spans are in the order of ids and places.
    let gone = spans.iter().rev().filter(|span| span.id == id && !span.kept);
    gone.for_each(|span| text.replace_range(span.bytes.0..span.bytes.1, ""));
    (id, text)
}

/// Documents in the order in which their passages are kept. Represented documents come last.
pub fn removals_last(documents: &[Document], output: &Path) -> Vec<Document> {
    let clusters = table(output, "clusters");
    let flags = bools(&clusters, "representative").into_iter().zip(bools(&clusters, "reference"));
    let gone = strings(&clusters, "id").into_iter().zip(flags).filter(|(_, flags)| *flags == (false, false));
    let gone: BTreeSet<String> = gone.map(|(id, _)| id.trim_end_matches(".txt").to_owned()).collect();
    let (gone, stay): (Vec<Document>, Vec<Document>) =
        documents.iter().cloned().partition(|(id, _)| gone.contains(id.trim_end_matches(".txt")));
    [stay, gone].concat()
}

/// The normalised words of a text in which only spaces, newlines and full stops are between words.
fn words(text: &str) -> Vec<String> {
    text.split([' ', '\n', '.']).filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

fn parts<'t>(text: &'t str, unit: &str) -> Vec<&'t str> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    match unit {
        "line" => lines,
        "sentence" => {
            // A sentence ends behind the spaces after a full stop, and at a newline. No word here begins with a small letter.
            let mut parts = Vec::new();
            for line in lines {
                let mut start = 0;
                for (at, _) in line.match_indices(". ") {
                    parts.push(&line[start..at + 2]);
                    start = at + 2;
                }
                parts.push(&line[start..]);
            }
            parts.retain(|part| !part.is_empty());
            parts
        }
        _ => {
            let mut parts = Vec::new();
            let (mut start, mut at) = (0, 0);
            for pair in lines.windows(2) {
                at += pair[0].len();
                let has_text = text[start..at].chars().any(|c| c != '\n');
                if pair[0] == "\n" && pair[1] != "\n" && has_text {
                    parts.push(&text[start..at]);
                    start = at;
                }
            }
            if start < text.len() {
                parts.push(&text[start..]);
            }
            parts
        }
    }
}

/// Documents in the order in which passages of them are kept, each with whether it is a reference document.
pub type Searched = Vec<(bool, Document)>;

pub fn without_reference(documents: &[Document]) -> Searched {
    documents.iter().map(|document| (false, document.clone())).collect()
}

pub fn expected(documents: &[Document], unit: &str, min_words: usize) -> Vec<Span> {
    expected_against(&without_reference(documents), false, unit, min_words)
}

/// The spans of the new documents. If `new_old`, only passages of reference documents count.
pub fn expected_against(documents: &Searched, new_old: bool, unit: &str, min_words: usize) -> Vec<Span> {
    let mut first: BTreeMap<String, (bool, String, usize)> = BTreeMap::new();
    let mut of_reference: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    let mut all = Vec::new();
    for (reference, (id, text)) in documents {
        let (mut byte, mut char) = (0, 0);
        for part in parts(text, unit) {
            let (bytes, chars) = ((byte, byte + part.len()), (char, char + part.chars().count()));
            (byte, char) = (bytes.1, chars.1);
            let words = words(part);
            if words.len() < min_words {
                continue;
            }
            let passage = format!("{:032x}", xxh3_128(words.join(" ").as_bytes()));
            let place = (*reference, id.clone(), chars.0);
            let kept_at = first.entry(passage.clone()).or_insert_with(|| place.clone()).clone();
            if *reference {
                of_reference.entry(passage.clone()).or_default().insert(id);
            }
            let span = Span {
                id: id.clone(),
                chars,
                bytes,
                words: words.len(),
                occurrences: 0,
                reference_documents: 0,
                passage,
                kept: kept_at == place,
                kept_at: (kept_at.1, kept_at.2),
                kept_reference: kept_at.0,
            };
            all.push((reference, span));
        }
    }
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    all.iter().for_each(|(_, span)| *times.entry(span.passage.clone()).or_default() += 1);
    let mut spans: Vec<Span> =
        all.into_iter().filter(|(reference, _)| !**reference).map(|(_, span)| span).collect();
    for span in &mut spans {
        span.occurrences = times[&span.passage];
        span.reference_documents = of_reference.get(&span.passage).map_or(0, BTreeSet::len);
    }
    spans.retain(|span| span.occurrences > 1 && (!new_old || span.reference_documents > 0));
    spans.sort();
    spans
}

/// Texts of a few sentences, lines and paragraphs, some of them in other letters and with other white space.
pub fn texts(random: &mut Random, count: usize) -> Vec<Document> {
    let pool: Vec<String> = (0..12)
        .map(|_| {
            let words = (0..1 + random.below(7))
                .map(|_| format!("{}{}", ["W", "Ü"][random.below(2)], random.below(40)));
            words.collect::<Vec<_>>().join(" ")
        })
        .collect();
    let sentence = |random: &mut Random| match random.below(3) {
        0 => pool[random.below(pool.len())].clone(),
        1 => pool[random.below(pool.len())].replace(' ', "  ").to_uppercase(),
        _ => (0..1 + random.below(6))
            .map(|_| format!("X{}", random.below(9_000)))
            .collect::<Vec<_>>()
            .join(" "),
    };
    let mut documents = Vec::new();
    for number in 0..count {
        // Enough words of its own that the document can be compared.
        let mut text = format!("Own{number} Two{number} Three{number}.");
        for _ in 0..random.below(9) {
            text.push_str([" ", "\n", "\n\n", "\n\n\n"][random.below(4)]);
            text.push_str(&sentence(random));
            text.push('.');
        }
        if random.below(2) == 0 {
            text.push('\n');
        }
        documents.push((format!("d{number:03}"), text));
    }
    documents
}

pub fn write_with_years(path: &Path, documents: &[Document], years: &[String], groups: &[String]) {
    let column = |values: &[String]| Arc::new(StringArray::from_iter_values(values)) as ArrayRef;
    write_columns(path, documents, vec![("year", column(years)), ("site", column(groups))], 7);
}

/// `passages/` against the spans, the texts and the groups.
pub fn check_passages(
    output: &Path,
    spans: &[Span],
    texts: &BTreeMap<String, String>,
    groups: Option<&BTreeMap<String, String>>,
) {
    let table = table(output, "passages");
    let of = |name: &str| strings(&table, name);
    let mut rows: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (row, passage) in of("passage_id").into_iter().enumerate() {
        let names = ["words", "occurrences", "documents", "reference_documents", "sample"];
        let mut cells: Vec<String> = names.iter().map(|name| of(name)[row].clone()).collect();
        if groups.is_some() {
            cells.push(of("groups")[row].clone());
        }
        assert!(rows.insert(passage, cells).is_none());
    }
    let mut wanted = BTreeMap::new();
    let ids: BTreeSet<&str> = spans.iter().map(|span| span.passage.as_str()).collect();
    for id in ids {
        // Spans are in the order of ids and places.
        let all: Vec<&Span> = spans.iter().filter(|span| span.passage == id).collect();
        let kept = all.iter().find(|span| span.kept).unwrap_or(&all[0]);
        let documents: BTreeSet<&str> = all.iter().map(|span| span.id.as_str()).collect();
        let sample: String = texts[&kept.id][kept.bytes.0..kept.bytes.1].chars().take(200).collect();
        let most = |of: fn(&Span) -> usize| all.iter().map(|span| of(span)).max().unwrap().to_string();
        let (occurrences, known) = (most(|span| span.occurrences), most(|span| span.reference_documents));
        let mut cells = vec![kept.words.to_string(), occurrences, documents.len().to_string(), known, sample];
        if let Some(groups) = groups {
            let groups: BTreeSet<&str> = documents.iter().map(|id| groups[*id].as_str()).collect();
            cells.push(groups.len().to_string());
        }
        wanted.insert(kept.passage.clone(), cells);
    }
    assert_eq!(rows, wanted);
}

/// A rejected document has no spans, even if it shares its id with a document that was compared.
#[test]
fn documents_that_are_rejected_have_no_spans() {
    let path = paths();
    let long = "A line that all have\nand Words of its own here";
    let other = "A line that all have\nbut Other words of its own";
    let rows = [("a", "All have"), ("a", long), ("b", other), ("a", long)];
    write_parquet(&path("in.parquet"), &documents(&rows), 10);
    let sets = ["passages.unit=line", "passages.min_words=2", "source.duplicate_ids=reject"];
    run(&job(&path("in.parquet"), &path("out"), &sets)).unwrap();
    let spans: Vec<(String, bool)> =
        spans(&path("out")).into_iter().map(|span| (span.id, span.kept)).collect();
    assert_eq!(spans, [("a".to_owned(), true), ("b".to_owned(), false)]);
    let found = strings(&table(&path("out"), "spans"), "position").into_iter().collect::<BTreeSet<_>>();
    assert_eq!(found, ["1", "2"].map(str::to_owned).into());
}

#[test]
fn a_run_that_was_stopped_finds_the_same_passages() {
    let scene = Scene::new(&["passages.unit=sentence", "passages.min_words=1"]);
    scene.write("in.parquet", &texts(&mut Random(5), 60));
    stopping::same_rows(|name| scene.job("in.parquet", name, &[]), 2, &["spans", "passages"]);

    let passages = "passages = { unit = \"sentence\", min_words = 1 }";
    let reused = output_job_text(scene.path("undisturbed"), scene.path("reused"), passages);
    scene.run_text(&reused).shown(&["passages inside documents"]);
    let of = |output: &str| ["spans", "passages"].map(|name| table(&scene.path(output), name));
    assert_eq!(of("reused"), of("undisturbed"));
}

/// A text file of more than 8 MiB is cut into shingles while it is read, and is whole for its lines all the same.
#[test]
fn lines_of_long_files_are_found() {
    let path = paths();
    std::fs::create_dir(path("in")).unwrap();
    let mut random = Random(3);
    let lines: Vec<String> =
        (0..900).map(|line| format!("Line{line} {}\n", "word ".repeat(random.below(90)))).collect();
    let mut long = String::new();
    while long.len() < 9 << 20 {
        long.push_str(&lines[random.below(lines.len())]);
    }
    let documents =
        [("long.txt".to_owned(), long), ("short.txt".to_owned(), lines[..50].concat() + "Own words of it")];
    for (name, text) in &documents {
        std::fs::write(path("in").join(name), text).unwrap();
    }
    let text = job_text_of("text", path("in"), path("out")).replace(COLUMNS, "");
    let sets = ["passages.unit=line", "passages.min_words=2", "clusters.keep=['id']"];
    run(&resolve(&text, &sets).unwrap()).unwrap();
    let ordered = removals_last(&documents, &path("out"));
    let (found, wanted) = (spans(&path("out")), expected(&ordered, "line", 2));
    assert!(wanted.len() > 10_000, "{}", wanted.len());
    assert!(found == wanted, "{} spans instead of {}", found.len(), wanted.len());
}

/// A sequence of words also occurs inside longer ones: the places of all of them are counted and listed.
#[test]
fn occurrences_inside_longer_passages_are_counted() {
    let scene = Scene::new(&[]);
    let (short, long) = (own_words("p", 12), format!("{}\n{}", own_words("p", 12), own_words("q", 12)));
    let documents = documents(&[
        ("a", format!("own words of a. {long}!")),
        ("b", format!("{} and b", long.to_uppercase())),
        ("c", format!("\u{e9} of c {short} then {short}")),
    ]);
    scene.write("in.parquet", &documents);
    scene.run("in.parquet", "out", &["passages.unit=word", "passages.length=6", "clusters.keep=['id']"]);
    let passages = table(&scene.path("out"), "passages");
    let ids: BTreeMap<u64, String> =
        numbers(&passages, "words").into_iter().zip(strings(&passages, "passage_id")).collect();
    let ask = |output: &str, id: &str| scene.command(&["show", output, "--passage", id]);
    let show = |words: u64, more: &[&str]| ask("out", &ids[&words]).args(more).assert();
    show(12, &["--top", "1"])
        .shown(&["12 words, occurs 4 times in 3 documents\n", "3 more places are not shown"]);
    show(24, &[])
        .shown(&["24 words, occurs 2 times in 2 documents; the most frequent window in it occurs 4 times"]);
    show(12, &["--csv"]).shown(&["id,source,char_start,char_end,kept"]);
    // The beginning of an id is enough.
    ask("out", &ids[&12][..6]).assert().shown(&[&format!("passage {}: 12 words", ids[&12]), &short]);
    ask("out", "no").assert().refused(2, &["no passage has the id \"no\""]);
    scene.run("in.parquet", "without", &[]);
    ask("without", &ids[&12]).assert().code(3);
    let places = |words: u64, more: &[&str]| -> Vec<(String, bool)> {
        let shown = show(words, &[&["--json", "--top", "9"], more].concat()).shown(&[]);
        let place = |line: &str| {
            let place: Value = serde_json::from_str(line).unwrap();
            let id = place["id"].as_str().unwrap().to_owned();
            let at = |key: &str| place[key].as_u64().unwrap() as usize;
            let (_, text) = documents.iter().find(|document| document.0 == id).unwrap();
            let cut: String =
                text.chars().skip(at("char_start")).take(at("char_end") - at("char_start")).collect();
            assert_eq!(&cut.to_lowercase(), if words == 12 { &short } else { &long });
            (id, place["kept"].as_bool().unwrap())
        };
        shown.lines().map(place).collect()
    };
    let of = |kept: &str, others: &[&str]| -> Vec<(String, bool)> {
        let others = others.iter().map(|id| (id.to_string(), false));
        std::iter::once((kept.to_owned(), true)).chain(others).collect()
    };
    assert_eq!(places(12, &[]), of("a", &["b", "c", "c"]));
    assert_eq!(places(24, &[]), of("a", &["b"]));
    // The texts are read from the source.
    std::fs::rename(scene.path("in.parquet"), scene.path("moved.parquet")).unwrap();
    show(12, &[]).refused(3, &["--source"]);
    assert_eq!(places(12, &["--source", &scene.text("moved.parquet")]).len(), 4);
}

#[test]
fn every_format_has_the_same_passages() {
    let mut documents = texts(&mut Random(8), 25);
    for (_, text) in &mut documents {
        *text = text.split('\n').filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    }
    let wanted = expected(&documents, "sentence", 2);
    assert!(wanted.len() > 20, "{}", wanted.len());
    let folder = tempdir().unwrap();
    for (number, format) in formats::formats(&documents).into_iter().enumerate() {
        let path = |name: &str| folder.path().join(format!("{name}{number}"));
        format.write(&path("in"));
        let source = format.source(&path("in").display().to_string());
        let text = format!("[source]\n{source}[output]\nurl = {:?}\n", path("out"));
        let sets = ["passages.unit=sentence", "passages.min_words=2", "clusters.keep=['id']"];
        run(&resolve(&text, &[&sets[..], &["shingle.size=3"]].concat()).unwrap()).unwrap();
        let mut found = spans(&path("out"));
        for span in &mut found {
            span.id = span.id.trim_end_matches(".txt").to_owned();
            span.kept_at.0 = span.kept_at.0.trim_end_matches(".txt").to_owned();
        }
        let ordered = removals_last(&documents, &path("out"));
        assert_eq!(found, expected(&ordered, "sentence", 2), "{} {number}", format.name);
    }
}
