//! `--passages`: what is cut out of documents, against a cut by the table `spans` in plain code.

use std::fmt::Debug;

use super::columns::{batch, metadata, write};
use super::dropped;
use super::*;

/// A text with its id, as a file of the source or of the result has it.
pub type Texts = BTreeMap<String, String>;

/// Parts of words that are written in other ways in some formats, or in several bytes.
const PARTS: &str = "\" \"\" , \\ \\n / é e\u{301} \u{1F600} \u{feff} 日本 \t \u{2028} ' ﬁ";

/// Documents that share lines and runs of words, and some that are nearly the same.
fn documents(random: &mut Random, count: usize) -> Vec<Document> {
    let word = |random: &mut Random| {
        let part = PARTS.split(' ').nth(random.below(15)).unwrap();
        match random.below(3) {
            0 => format!("w{}{part}", random.below(900)),
            1 => format!("{part}w{}", random.below(900)),
            _ => format!("w{}", random.below(900)),
        }
    };
    let line =
        |random: &mut Random, words: usize| (0..words).map(|_| word(random)).collect::<Vec<_>>().join(" ");
    let pool: Vec<String> = (0..8)
        .map(|_| {
            let words = 6 + random.below(6);
            line(random, words)
        })
        .collect();
    let mut documents: Vec<Document> = Vec::new();
    for number in 0..count {
        let id = format!("d{number:03}");
        if number > 4 && random.below(5) == 0 {
            let near = documents[random.below(number)].1.clone();
            documents.push((id, format!("{near}\nown{number}")));
            continue;
        }
        let mut lines = vec![format!("own{number} {}", line(random, 5))];
        for _ in 0..random.below(6) {
            lines.push(match random.below(3) {
                0 => {
                    let words = 1 + random.below(12);
                    line(random, words)
                }
                _ => pool[random.below(pool.len())].clone(),
            });
        }
        if random.below(4) == 0 {
            lines.rotate_left(1);
        }
        documents.push((id, lines.join("\n")));
    }
    documents
}

fn job_of(format: &str, source: impl Debug, output: impl Debug, passages: &str) -> String {
    let columns = match format {
        "text" => "",
        // A field of an object.
        "jsonl" => "id = \"id\"\ntext = \"deep.text\"\n",
        _ => "id = \"id\"\ntext = \"text\"\n",
    };
    format!(
        "[source]\nformat = {format:?}\nurl = {source:?}\n{columns}[shingle]\nsize = 3\nshort = \"reject\"\n[score]\n\
         threshold = 0.6\n[passages]\n{passages}\n[output]\nurl = {output:?}\n"
    )
}

const LINES: &str = "unit = \"line\"\nmin_words = 3";
const WORDS: &str = "unit = \"word\"\nlength = 5\ngap = 1";

impl Applied {
    /// Writes the documents in this format, and runs the job with these passages over them. `change` changes its text.
    fn run_with_passages(
        &self,
        format: &Format,
        documents: &[Document],
        passages: &str,
        change: impl Fn(String) -> String,
    ) {
        (format.put)(self, documents);
        let job = job_of(format.name, self.path("in"), self.path("out"), passages);
        self.run_job(&change(job));
    }
}

/// The ranges of each document that are not the occurrence that stays.
fn spans_of(output: &Path) -> BTreeMap<String, Vec<Range<usize>>> {
    let spans = table(output, "spans");
    let kept = strings(&spans, "kept");
    let places = numbers(&spans, "byte_start").into_iter().zip(numbers(&spans, "byte_end"));
    let mut cut = BTreeMap::<String, Vec<_>>::new();
    for ((id, kept), (start, end)) in strings(&spans, "id").into_iter().zip(kept).zip(places) {
        if kept == "false" {
            cut.entry(id).or_default().push(start as usize..end as usize);
        }
    }
    cut.values_mut().for_each(|spans| spans.sort_by_key(|span| span.start));
    cut
}

fn cut(text: &str, spans: &[Range<usize>]) -> String {
    let bytes = text.bytes().enumerate();
    let kept = bytes.filter(|(at, _)| !spans.iter().any(|span| span.contains(at))).map(|(_, byte)| byte);
    String::from_utf8(kept.collect()).unwrap()
}

/// The documents that stay, each without its spans.
fn expected(documents: &[Document], output: &Path) -> Texts {
    let (spans, gone) = (spans_of(output), removed(output));
    let stay = documents.iter().filter(|(id, _)| !gone.contains(id));
    let none = Vec::new();
    stay.map(|(id, text)| (id.clone(), cut(text, spans.get(id).unwrap_or(&none)))).collect()
}

/// Puts the spans of the table `removed_spans` back into the texts of a result.
fn put_back(to: &Path, mut texts: Texts, documents: &[Document]) -> Texts {
    let originals: BTreeMap<&String, &String> = documents.iter().map(|(id, text)| (id, text)).collect();
    let rows = parquet(&to.join("_resemblance/removed_spans"));
    let places = numbers(&rows, "byte_start").into_iter().zip(numbers(&rows, "byte_end"));
    let rows = strings(&rows, "id").into_iter().zip(places);
    let mut rows: Vec<_> = rows.map(|(id, (start, end))| (id, start as usize, end as usize)).collect();
    rows.sort();
    for (id, start, end) in rows {
        texts.get_mut(&id).unwrap().insert_str(start, &originals[&id][start..end]);
    }
    texts
}

fn csv_field(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

struct Format {
    name: &'static str,
    put: fn(&Applied, &[Document]),
    read: fn(&Path) -> Texts,
}

const CSV_HEADERS: [&str; 2] = ["\u{feff}n,id,text,more\n", "\u{feff}text,n,more,id\n"];

fn put_csv(applied: &Applied, documents: &[Document]) {
    for (at, half) in documents.chunks(documents.len().div_ceil(2)).enumerate() {
        // The columns of each file are in another order.
        let mut text = CSV_HEADERS[at].to_owned();
        for (id, document) in half {
            let field = csv_field(document);
            match at {
                0 => writeln!(text, "1.50,{id},{field},\"a,\"\"b\"").unwrap(),
                _ => writeln!(text, "{field},1.50,\"a,\"\"b\",{id}").unwrap(),
            }
        }
        applied.put(&format!("{at}.csv"), text);
    }
}

fn read_csv(to: &Path) -> Texts {
    let mut texts = Texts::new();
    for (name, header, [n, id, document, more]) in
        [("0.csv", CSV_HEADERS[0], [0, 1, 2, 3]), ("1.csv", CSV_HEADERS[1], [1, 3, 0, 2])]
    {
        let text = std::fs::read_to_string(to.join(name)).unwrap();
        let rows = text.strip_prefix(header).unwrap();
        assert!(rows.is_empty() || rows.contains(",\"a,\"\"b\""), "{rows}");
        for row in csv_records(rows) {
            assert_eq!((row[n].as_str(), row[more].as_str(), row.len()), ("1.50", "a,\"b", 4));
            texts.insert(row[id].clone(), row[document].clone());
        }
    }
    texts
}

/// A line, in which some characters are escaped as serde does not.
fn json_line((id, text): &Document) -> String {
    let text = serde_json::to_string(text).unwrap().replace('/', "\\/").replace('é', "\\u00e9");
    let text = text.replace('\u{1F600}', "\\ud83d\\ude00");
    format!("{{\"n\": 1.50,\"id\":\"{id}\", \"deep\" : {{\"text\":{text}}},\"text\":\"\\u0041\" }}")
}

fn put_json(applied: &Applied, documents: &[Document]) {
    let lines: String = documents.iter().map(|document| json_line(document) + "\r\n").collect();
    applied.put("a.jsonl.zst", zstd::encode_all(lines.as_bytes(), 1).unwrap());
}

fn read_json(to: &Path) -> Texts {
    let bytes = zstd::decode_all(std::fs::File::open(to.join("a.jsonl.zst")).unwrap()).unwrap();
    let mut texts = Texts::new();
    for line in String::from_utf8(bytes).unwrap().split_terminator("\r\n") {
        let value: Value = serde_json::from_str(line).unwrap();
        let (id, text) = (value["id"].as_str().unwrap().to_owned(), value["deep"]["text"].as_str().unwrap());
        // The bytes of the string are the same too.
        assert_eq!(line, json_line(&(id.clone(), text.to_owned())));
        texts.insert(id, text.to_owned());
    }
    texts
}

fn put_text(applied: &Applied, documents: &[Document]) {
    for (at, (id, text)) in documents.iter().enumerate() {
        let mark = if at % 3 == 0 || text.starts_with('\u{feff}') { "\u{feff}" } else { "" };
        applied.put(id, format!("{mark}{text}"));
    }
}

fn read_text(to: &Path) -> Texts {
    let text = |(name, bytes): (String, Vec<u8>)| {
        let source = std::fs::read_to_string(to.parent().unwrap().join("in").join(&name)).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        match source.starts_with('\u{feff}') {
            true => (name, text.strip_prefix('\u{feff}').unwrap().to_owned()),
            false => (name, text),
        }
    };
    kept(to).into_iter().map(text).collect()
}

fn put_parquet(applied: &Applied, documents: &[Document]) {
    let all = batch(documents);
    let half = documents.len() / 2;
    write(&applied.path("in/a.parquet"), &all.slice(0, half), true);
    write(&applied.path("in/b.parquet"), &all.slice(half, documents.len() - half), true);
}

fn read_parquet(to: &Path) -> Texts {
    let mut texts = Texts::new();
    for name in ["a.parquet", "b.parquet"] {
        let (to, from) = (to.join(name), to.parent().unwrap().join("in").join(name));
        let [about, of_source] = [&to, &from].map(|path| metadata(path).file_metadata().clone());
        assert_eq!(about.key_value_metadata(), of_source.key_value_metadata());
        let (rows, source) = (parquet(&to), parquet(&from));
        assert_eq!(rows.schema(), source.schema());
        let places = strings(&source, "id");
        for (row, id) in strings(&rows, "id").into_iter().enumerate() {
            let from = places.iter().position(|place| *place == id).unwrap();
            for name in column_names(&rows).iter().filter(|name| *name != "text") {
                let (found, wanted) =
                    (rows[name.as_str()].slice(row, 1), source[name.as_str()].slice(from, 1));
                assert_eq!(&found, &wanted, "{name}");
            }
        }
        texts.extend(strings(&rows, "id").into_iter().zip(strings(&rows, "text")));
    }
    texts
}

const FORMATS: [Format; 4] = [
    Format { name: "parquet", put: put_parquet, read: read_parquet },
    Format { name: "csv", put: put_csv, read: read_csv },
    Format { name: "jsonl", put: put_json, read: read_json },
    Format { name: "text", put: put_text, read: read_text },
];

/// Whether a byte next to this place is one of several of a character, so that a cut one byte further would divide it.
fn is_next_to_a_wide_character(text: &str, at: usize) -> bool {
    text.as_bytes()[at.saturating_sub(1)..text.len().min(at + 1)].iter().any(|byte| !byte.is_ascii())
}

/// Cuts these passages out of documents of every format, and puts them back. `between` is what divides the lines of documents, so
/// that each is a unit of its own.
fn cut_and_put_back(passages: &str, between: &str) {
    let (mut cuts, mut gone, mut formats) = (0, 0, BTreeSet::new());
    for seed in seeds(4) {
        // Nearly every word begins with a character of two bytes.
        let wide = |text: String| text.replace('w', "ŵ").replace('\n', between);
        let documents: Vec<Document> =
            documents(&mut Random(seed), 30).into_iter().map(|(id, text)| (id, wide(text))).collect();
        let format = &FORMATS[seed as usize % 4];
        let applied = Applied::new();
        applied.run_with_passages(format, &documents, passages, |job| job);
        let printed = applied.apply("to", &["--passages", "cut"]);
        let manifest = result(&applied.path("to"));
        let texts = (format.read)(&applied.path("to"));
        let what = format!("{passages} of seed {seed}");
        assert_eq!(texts, expected(&documents, &applied.path("out")), "{what}");
        let kept: Texts = documents.iter().filter(|(id, _)| texts.contains_key(id)).cloned().collect();
        assert_eq!(put_back(&applied.path("to"), texts.clone(), &documents), kept, "{what}");
        let bytes = |texts: &Texts| texts.values().map(String::len).sum::<usize>();
        assert_eq!(printed["passages"]["bytes"], bytes(&kept) - bytes(&texts));
        assert_eq!(printed["passages"], manifest["passage_counts"]);
        let dry = applied.counted(&["--passages", "cut"]);
        for count in ["passages", "kept", "removed"] {
            assert_eq!(dry[count], printed[count], "{count}");
        }
        let spans = spans_of(&applied.path("out"));
        let mut next_to_wide = 0;
        for (id, text) in &kept {
            let ends = spans.get(id).into_iter().flatten().flat_map(|span| [span.start, span.end]);
            next_to_wide += ends.filter(|&at| is_next_to_a_wide_character(text, at)).count();
        }
        assert!(next_to_wide > 0, "{what}: no span of {} ends at a wide character", format.name);
        cuts += printed["passages"]["spans"].as_u64().unwrap();
        gone += printed["removed"].as_u64().unwrap();
        formats.insert(format.name);
    }
    assert!(cuts > 40 && gone > 4 && formats.len() == FORMATS.len(), "{passages}: {cuts} {gone} {formats:?}");
}

#[test]
fn what_is_cut_and_what_stays_are_the_source() {
    cut_and_put_back(LINES, "»\n«");
    cut_and_put_back(WORDS, "»\n«");
    // A full stop of three bytes, with no space behind it.
    cut_and_put_back("unit = \"sentence\"\nmin_words = 3", "。«");
    cut_and_put_back("unit = \"paragraph\"\nmin_words = 3", "»\n\n«");
}

#[test]
fn short_documents_are_removed_with_the_reason() {
    let documents = documents(&mut Random(21), 80);
    let documents: Vec<Document> = documents
        .into_iter()
        .map(|(id, text)| (id, text.replace(['\u{feff}', '\u{2028}', '\t'], "")))
        .collect();
    // Words are what spaces separate, for this test to count them.
    let by_spaces = |job: String| job.replace("size = 3", "size = 3\nwords = \"spaces\"\nnormalize = []");
    for format in &FORMATS {
        let applied = Applied::new();
        applied.run_with_passages(format, &documents, LINES, by_spaces);
        let more = ["--passages", "drop", "--min-words", "12"];
        let printed = applied.apply("to", &more);
        let (wanted, removed, _) = dropped::expected(&documents, &applied.path("out"), (None, true), 12);
        let is_short = |text: &&String| text.split_whitespace().count() < 12;
        let short: BTreeSet<&String> =
            removed.iter().filter(|(.., reason)| reason == "too_short").map(|(id, ..)| id).collect();
        let stay = wanted.values().filter(is_short).count();
        assert!(short.len() > 3 && stay > 0, "{} {stay}", short.len());
        assert_eq!((format.read)(&applied.path("to")), wanted, "{}", format.name);
        assert_eq!(printed["passages"]["too_short"], short.len());
        let manifest = result(&applied.path("to"));
        assert_eq!(manifest["counts"]["removed"], removed.len());
        let dry = applied.counted(&more);
        for count in ["passages", "kept", "removed"] {
            assert_eq!(dry[count], printed[count], "{count}");
        }
        let query = "SELECT id, reason FROM removed WHERE kept_id IS NULL ORDER BY id";
        let rows = program!["sql", applied.path("to"), "--json", query].assert().shown(&[]);
        let wanted: String =
            short.iter().map(|id| format!("{{\"id\":\"{id}\",\"reason\":\"too_short\"}}\n")).collect();
        assert_eq!(rows, wanted);
        // They are in no pair that could be shown.
        resemblance().arg("show").arg(applied.path("to")).assert().success();
    }
}

/// The ids, texts and marks of the files in `to`, which have so many more columns than the source.
fn marked(format: &str, to: &Path, added: &[&str]) -> Vec<(String, String, Option<String>)> {
    let mut rows = Vec::new();
    match format {
        "parquet" => {
            for name in ["a.parquet", "b.parquet"] {
                let batch = parquet(&to.join(name));
                let names = column_names(&batch);
                assert_eq!(names[names.len() - added.len()..], *added);
                let marks = batch.column_by_name("repeated_spans").unwrap().as_string::<i32>();
                let texts = strings(&batch, "id").into_iter().zip(strings(&batch, "text"));
                rows.extend(texts.zip(marks).map(|((id, text), mark)| (id, text, mark.map(str::to_owned))));
            }
        }
        "csv" => {
            for (name, header, [id, document]) in
                [("0.csv", CSV_HEADERS[0], [1, 2]), ("1.csv", CSV_HEADERS[1], [3, 0])]
            {
                let header = format!("{},{}\n", header.trim_end(), added.join(","));
                let text = std::fs::read_to_string(to.join(name)).unwrap();
                for row in csv_records(text.strip_prefix(&header).unwrap()) {
                    let mark = row.last().cloned().filter(|mark| !mark.is_empty());
                    rows.push((row[id].clone(), row[document].clone(), mark));
                }
            }
        }
        _ => {
            let bytes = zstd::decode_all(std::fs::File::open(to.join("a.jsonl.zst")).unwrap()).unwrap();
            for line in String::from_utf8(bytes).unwrap().split_terminator("\r\n") {
                let value: Value = serde_json::from_str(line).unwrap();
                assert!(added.iter().all(|name| value.get(name).is_some()), "{line}");
                let mark = &value["repeated_spans"];
                let text = |value: &Value| value.as_str().unwrap().to_owned();
                let mark = (!mark.is_null()).then(|| mark.to_string());
                rows.push((text(&value["id"]), text(&value["deep"]["text"]), mark));
            }
        }
    }
    rows
}

#[test]
fn marks_leave_the_texts_as_they_are() {
    let mut documents = documents(&mut Random(31), 60);
    documents.insert(30, ("short".to_owned(), "one two".to_owned()));
    for format in &FORMATS[..3] {
        let applied = Applied::new();
        applied.run_with_passages(format, &documents, WORDS, |job| job);
        let (spans, gone) = (spans_of(&applied.path("out")), removed(&applied.path("out")));
        let mark = |id: &String| {
            let spans: Vec<String> =
                spans.get(id)?.iter().map(|span| format!("[{},{}]", span.start, span.end)).collect();
            Some(format!("[{}]", spans.join(",")))
        };
        let all = ["cluster_id", "representative", "kept_id", "repeated_spans"];
        let separate = &["--rejects", "separate"][..];
        for (to, more, added) in [("all", &["--annotate"][..], &all[..]), ("kept", separate, &all[3..])] {
            applied.apply(to, &[&["--passages", "mark"], more].concat());
            result(&applied.path(to));
            let stays = |id: &String| to == "all" || !gone.contains(id) && id != "short";
            let wanted: BTreeSet<_> = documents
                .iter()
                .filter(|(id, _)| stays(id))
                .map(|(id, text)| (id.clone(), text.clone(), mark(id)))
                .collect();
            let found = marked(format.name, &applied.path(to), added);
            assert!(found.iter().filter(|(.., mark)| mark.is_some()).count() > 10);
            assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), wanted, "{} {to}", format.name);
        }
        // A reject in a file of its own gets no column.
        if format.name == "csv" {
            let rejected = std::fs::read_to_string(applied.path("kept/_resemblance/rejected/0.csv.rejected"));
            assert_eq!(rejected.unwrap(), "\u{feff}n,id,text,more\n1.50,short,\"one two\",\"a,\"\"b\"\n");
        }
    }
    let applied = Applied::new();
    applied.run_with_passages(&FORMATS[3], &documents, WORDS, |job| job);
    applied.refused("to", &["--passages", "mark"], 2, &["text files have no columns"]);
}

#[test]
fn stories_are_cut_when_they_become_parquet() {
    let mut random = Random(33);
    let documents: Vec<Document> = documents(&mut random, 40)
        .into_iter()
        .map(|(id, text)| (id, text.replace(|c: char| !c.is_alphanumeric(), " ")))
        .collect();
    let reuters = formats(&documents).into_iter().find(|f| f.name == "reuters").unwrap();
    let applied = Applied::new();
    reuters.write(&applied.path("in"));
    let text = format!(
        "[source]\n{}[shingle]\nsize = 3\n[passages]\n{WORDS}\n[output]\nurl = {:?}\n",
        reuters.source(applied.path("in").to_str().unwrap()),
        applied.path("out")
    );
    applied.run_job(&text);
    let printed = applied.apply("to", &["--passages", "cut"]);
    assert!(printed["passages"]["spans"].as_u64().unwrap() > 10, "{printed}");
    result(&applied.path("to"));
    let mut texts = Texts::new();
    for name in kept(&applied.path("to")).into_keys() {
        let rows = parquet(&applied.path("to").join(name));
        texts.extend(strings(&rows, "id").into_iter().zip(strings(&rows, "text")));
    }
    assert_eq!(texts, expected(&documents, &applied.path("out")));
}

/// All columns of the table of cut passages, sorted, without the folder of the source.
fn removed_spans(to: &Path, source: &str) -> Vec<Vec<String>> {
    let folder = to.join("_resemblance/removed_spans");
    let names = column_names(&parquet(&folder));
    let mut rows = cells(&folder, &names.iter().map(String::as_str).collect::<Vec<_>>());
    rows.iter_mut().flatten().for_each(|cell| *cell = cell.replace(source, ""));
    rows.sort();
    rows
}

#[test]
fn passages_are_cut_in_a_bucket_as_in_a_folder() {
    let s3 = S3::start();
    let documents = documents(&mut Random(51), 80);
    for format in &FORMATS {
        let name = format.name;
        let here = Applied::new();
        here.run_with_passages(format, &documents, WORDS, |job| job);
        here.apply("to", &["--passages", "cut"]);
        for (path, bytes) in files(&here.path("in")) {
            s3.put(&format!("{name}/in/{path}"), bytes);
        }
        let [source, from, to] = ["in/", "out/", "to/"].map(|folder| s3.url(&format!("{name}/{folder}")));
        let job = here.path("bucket.toml");
        std::fs::write(&job, job_of(name, &source, &from, WORDS)).unwrap();
        resemblance().envs(s3.env()).arg("run").arg(&job).assert().success();
        let ran =
            resemblance().envs(s3.env()).args(["apply", &from, "--to", &to, "--passages", "cut"]).assert();
        ran.shown(&["passages cut out of "]);
        let there = s3.file(name);
        assert_eq!((format.read)(&there.join("to")), expected(&documents, &there.join("out")), "{name}");
        let (found, wanted) = (kept(&there.join("to")), kept(&here.path("to")));
        assert_eq!(found.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>(), "{name}");
        let differ: Vec<&String> = found.keys().filter(|path| found[*path] != wanted[*path]).collect();
        assert!(differ.is_empty(), "other bytes of {name}: {differ:?}");
        let spans = removed_spans(&there.join("to"), &s3.url(&format!("{name}/in")));
        assert_eq!(spans, removed_spans(&here.path("to"), here.path("in").to_str().unwrap()), "{name}");
        let [of_bucket, of_folder] = [there.join("to"), here.path("to")].map(|to| result(&to));
        for part in ["counts", "passage_counts"] {
            assert_eq!(of_bucket[part], of_folder[part], "{part} of {name}");
        }
        assert_eq!(of_bucket["passage_counts"]["spans"], spans.len());
        assert!(spans.len() > 10, "{}", spans.len());
    }
}

#[test]
fn passages_are_cut_out_of_delta_tables() {
    let documents = documents(&mut Random(61), 60);
    let applied = Applied::new();
    write_parquet(&applied.path("in/a.parquet"), &documents, 25);
    let text = job_of("parquet", applied.path("in"), applied.path("out"), LINES);
    applied.run_job(&text);
    applied.apply("to", &["--passages", "cut", "--tables", "delta"]);
    for table in ["", "_resemblance/removed", "_resemblance/removed_spans"] {
        assert!(applied.path("to").join(table).join("_delta_log").is_dir(), "{table}");
    }
    let rows = parquet(&applied.path("to/a.parquet"));
    let texts: Texts = strings(&rows, "id").into_iter().zip(strings(&rows, "text")).collect();
    assert_eq!(texts, expected(&documents, &applied.path("out")));
}

#[test]
fn passages_that_cannot_be_cut_are_refused() {
    let documents = documents(&mut Random(71), 30);
    let [parquet, csv, ..] = &FORMATS;
    let text = "text = \"text\"";
    for (format, change, more, wanted) in [
        (
            parquet,
            ["[passages]\nunit = \"line\"\nmin_words = 3", ""],
            &["cut"][..],
            "add the section [passages]",
        ),
        (parquet, [text, "text = [\"text\", \"word\"]"], &["cut"], "joins 2 columns"),
        (csv, [text, "text = \"text\"\nencoding = \"windows-1252\""], &["cut"], "convert the files to UTF-8"),
        (parquet, ["", ""], &["drop", "--annotate"], "--annotate keeps every document"),
        (parquet, ["", ""], &["cut", "--contained", "0.9"], "set clusters.contained in the job"),
        (parquet, ["", ""], &["cut", "--min-words", "9"], "only with --passages drop"),
    ] {
        let applied = Applied::new();
        applied.run_with_passages(format, &documents, LINES, |job| job.replacen(change[0], change[1], 1));
        applied.refused("to", &[&["--passages"], more].concat(), 2, &[wanted]);
        assert!(!applied.path("to").exists());
    }
}
