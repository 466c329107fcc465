//! CSV, JSON lines and text files: every record that stays has the bytes that it had.

use async_compression::tokio::bufread::{BzDecoder, BzEncoder, XzDecoder, XzEncoder};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::annotated::unzipped;
use super::*;

/// A file put together from records, so that the bytes of each row are known.
#[derive(Default)]
struct Made {
    parts: Vec<(Option<usize>, Vec<u8>)>,
    rows: usize,
}

impl Made {
    fn other(&mut self, bytes: &str) {
        self.parts.push((None, bytes.into()));
    }

    fn row(&mut self, bytes: String) {
        self.parts.push((Some(self.rows), bytes.into()));
        self.rows += 1;
    }

    fn bytes(&self) -> Vec<u8> {
        self.only(|_| true)
    }

    fn rows_only(&self, wanted: impl Fn(usize) -> bool) -> Vec<u8> {
        let parts = self.parts.iter().filter(|(row, _)| row.is_some_and(&wanted));
        parts.flat_map(|(_, bytes)| bytes.clone()).collect()
    }

    fn only(&self, stays: impl Fn(usize) -> bool) -> Vec<u8> {
        let parts = self.parts.iter().filter(|(row, _)| row.is_none_or(&stays));
        parts.flat_map(|(_, bytes)| bytes.clone()).collect()
    }
}

/// Records with quotes, line ends inside of them, every end of a line, empty lines, and some that cannot be compared.
fn csv(documents: &[Document], last: &str) -> Made {
    let mut made = Made::default();
    made.other("\u{feff}id,text,\"a \"\"note\"\"\"\r\n");
    for (at, (id, text)) in documents.iter().enumerate() {
        let end = ["\n", "\r\n", "\r"][at % 3];
        made.row(match at % 4 {
            0 => format!("{id},{text},{end}"),
            1 => format!("{id},\"{}\",\"x \"\"y\"\", z\"{end}", text.replace(' ', "\n")),
            2 => format!("\"{id}\",\"{text}\", spaces \u{e9}{end}"),
            _ => format!("{id},\"{}\",\"\r\n\"{end}", text.replace(' ', ",  ")),
        });
        if at % 7 == 3 {
            made.other("\r\n\n");
        }
        if at % 10 == 4 {
            made.row(format!("short{id},two words,\n"));
            made.row(format!("broken{id}\r\n"));
        }
    }
    made.row(last.to_owned());
    made
}

fn json_lines(documents: &[Document]) -> Made {
    let mut made = Made::default();
    for (at, (id, text)) in documents.iter().enumerate() {
        made.row(match at % 3 {
            0 => format!("{{\"id\": \"{id}\", \"text\": \"{text}\"}}\n"),
            1 => format!(
                "  {{\"more\":[1, {{\"id\":2}}],\"text\":\"{}\",\"id\":\"{id}\"}}\r\n",
                text.replace(' ', "\\n")
            ),
            _ => format!("{{\"text\":\"{text}\",\"id\":\"{id}\",\"n\":1.50}} \n"),
        });
        if at % 9 == 5 {
            made.other("\n  \r\n");
            made.row("{\"id\": \"cut off\", \"text\"\n".to_owned());
        }
    }
    made
}

#[test]
fn csv_records_stay_byte_for_byte() {
    let applied = Applied::new();
    let documents = corpus(3, 120, 20);
    let made = [
        ("one.csv", csv(&documents[..70], "last,\"never closed\n")),
        ("sub/two.csv", csv(&documents[70..], "end,two words,no end")),
    ];
    for (name, made) in &made {
        applied.put(name, made.bytes());
    }
    applied.put("sub/header.csv", "\u{feff}id,text,\"a \"\"note\"\"\"\n");
    applied.run("csv", &format!("{COLUMNS}on_error = \"reject\""));
    let (gone, rejected) = (applied.gone(), applied.rejected());
    assert!(gone.len() > 20 && rejected.len() > 20, "{} {}", gone.len(), rejected.len());
    for (rejects, to) in [("keep", "kept"), ("drop", "dropped"), ("separate", "separate")] {
        let printed = applied.apply(to, &["--rejects", rejects]);
        let manifest = result(&applied.path(to));
        assert_eq!(manifest["rejects"], rejects);
        for count in ["read", "kept", "removed", "rejected"] {
            assert_eq!(printed[count], manifest["counts"][count], "{count}");
        }
        assert_eq!(printed["removed"], gone.len());
        assert_eq!(printed["rejected"], rejected.len());
        assert_eq!(printed["read"], made.iter().map(|(_, made)| made.rows).sum::<usize>());
        let files = files(&applied.path(to));
        for (name, made) in &made {
            let is = |set: &BTreeSet<Place>, row| set.contains(&applied.place(name, row));
            let kept = made.only(|row| !is(&gone, row) && (rejects == "keep" || !is(&rejected, row)));
            assert!(files[*name] == kept, "{name} with {rejects}");
            let apart = files.get(&format!("_resemblance/rejected/{name}.rejected"));
            assert_eq!(apart.is_some(), rejects == "separate");
            if let Some(apart) = apart {
                let rows = made.rows_only(|row| is(&rejected, row));
                assert!(*apart == [&made.parts[0].1[..], &rows].concat(), "{name}");
            }
        }
        assert_eq!(files["sub/header.csv"], "\u{feff}id,text,\"a \"\"note\"\"\"\n".as_bytes());
    }
    assert_eq!(applied.apply("kept", &[])["already_finished"], true);
    std::fs::remove_file(applied.path("kept/sub/header.csv")).unwrap();
    applied.refused("kept", &[], 3, &["sub/header.csv", "is gone"]);
}

#[test]
fn rows_behind_a_stray_quote_are_rows_of_their_own() {
    let applied = Applied::new();
    let documents = corpus(5, 60, 15);
    let mut made = Made::default();
    made.other("id,text,note\n");
    for (at, (id, text)) in documents.iter().enumerate() {
        made.row(match at {
            20 => format!("{id},\"{text},stray\n"),
            40 => format!("{id},\"{text}\nand so on\",more\r\n"),
            50 => format!("{id},\"{text},last stray\n"),
            _ => format!("{id},{text},\n"),
        });
    }
    applied.put("in.csv", made.bytes());
    applied.run("csv", &format!("{COLUMNS}on_error = \"reject\""));
    let (gone, rejected) = (applied.gone(), applied.rejected());
    let place = |row| applied.place("in.csv", row);
    assert!(rejected.contains(&place(20)) && rejected.contains(&place(50)) && !rejected.contains(&place(40)));
    let printed = applied.apply("kept", &["--annotate"]);
    assert_eq!(printed["read"], documents.len());
    applied.apply("dropped", &["--rejects", "drop"]);
    let stays = |row| !gone.contains(&place(row)) && !rejected.contains(&place(row));
    assert!(files(&applied.path("dropped"))["in.csv"] == made.only(stays));
}

#[test]
fn csv_without_a_header_and_in_another_encoding_stays_too() {
    let applied = Applied::new();
    let documents = corpus(4, 80, 15);
    let mut made = Made::default();
    for (id, text) in &documents {
        made.row(format!("{id};'{text}; ß'\n"));
    }
    let latin = |bytes: &[u8]| {
        let text = std::str::from_utf8(bytes).unwrap();
        text.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect::<Vec<u8>>()
    };
    applied.put("a.txt", latin(&made.bytes()));
    let lines = "id = \"column_1\"\ntext = \"column_2\"\nheader = false\ndelimiter = \";\"\nquote = \"'\"";
    applied.run("csv", &format!("{lines}\nencoding = \"windows-1252\""));
    applied.apply("to", &[]);
    let gone = applied.gone();
    let kept = made.only(|row| !gone.contains(&applied.place("a.txt", row)));
    assert!(gone.len() > 10 && files(&applied.path("to"))["a.txt"] == latin(&kept));
}

fn all_of(mut reader: impl AsyncRead + Unpin) -> Vec<u8> {
    let mut bytes = Vec::new();
    block_on(reader.read_to_end(&mut bytes)).unwrap();
    bytes
}

#[test]
fn compressed_json_lines_stay_byte_for_byte() {
    let applied = Applied::new();
    let documents = corpus(5, 230, 20);
    let made = [
        ("a.jsonl.gz", json_lines(&documents[..60])),
        ("day=1/b.jsonl.zst", json_lines(&documents[60..110])),
        ("day=2/c.ndjson", json_lines(&documents[110..150])),
        ("day=2/d.jsonl.bz2", json_lines(&documents[150..190])),
        ("day=2/e.jsonl.xz", json_lines(&documents[190..])),
    ];
    let ending = |name: &str| name.rsplit('.').next().unwrap().to_owned();
    for (name, made) in &made {
        let bytes = made.bytes();
        let packed = match ending(name).as_str() {
            // Two members, as some writers make.
            "gz" => bytes.chunks(bytes.len() / 2 + 1).flat_map(gzipped).collect(),
            "zst" => zstd::encode_all(&bytes[..], 3).unwrap(),
            "bz2" => all_of(BzEncoder::new(&bytes[..])),
            "xz" => all_of(XzEncoder::new(&bytes[..])),
            _ => bytes,
        };
        applied.put(name, packed);
    }
    applied.put("empty.jsonl", "");
    applied.run("jsonl", &format!("{COLUMNS}on_error = \"reject\""));
    applied.apply("to", &[]);
    result(&applied.path("to"));
    let (gone, files) = (applied.gone(), files(&applied.path("to")));
    for (name, made) in &made {
        let bytes = &files[*name];
        let text = match ending(name).as_str() {
            "gz" => unzipped(bytes),
            "zst" => zstd::decode_all(&bytes[..]).unwrap(),
            "bz2" => all_of(BzDecoder::new(&bytes[..])),
            "xz" => all_of(XzDecoder::new(&bytes[..])),
            _ => bytes.clone(),
        };
        let expected = made.only(|row| !gone.contains(&applied.place(name, row)));
        assert!(text == expected && expected != made.bytes(), "{name}");
    }
    assert!(!files.contains_key("empty.jsonl"));
}

#[test]
fn text_files_are_copied_or_left_out() {
    let applied = Applied::new();
    let mut documents = corpus(6, 60, 15);
    documents.push(("too short".into(), "two words".into()));
    for (id, text) in &documents {
        applied.put(&format!("sub/{id} #1.txt"), format!("\u{feff}{text}\r\n"));
    }
    applied.put("invalid.txt", b"\xff\xfe not a text of any kind");
    applied.run("text", "");
    let (gone, rejected) = (applied.gone(), applied.rejected());
    assert_eq!((gone.len() > 10, rejected.len()), (true, 2));
    let source = files(&applied.path("in"));
    for rejects in ["keep", "drop", "separate"] {
        applied.apply(rejects, &["--rejects", rejects]);
        result(&applied.path(rejects));
        let mut expected = BTreeMap::new();
        for (name, bytes) in &source {
            let place = applied.place(name, 0);
            let path = match (gone.contains(&place), rejected.contains(&place), rejects) {
                (true, ..) | (_, true, "drop") => continue,
                (_, true, "separate") => format!("_resemblance/rejected/{name}.rejected"),
                _ => name.clone(),
            };
            expected.insert(path, bytes.clone());
        }
        let mut found = files(&applied.path(rejects));
        found.retain(|name, _| !name.starts_with('_') || name.starts_with("_resemblance/rejected/"));
        assert_eq!(found, expected, "{rejects}");
    }
}
