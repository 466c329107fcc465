//! Documents in files of every format.

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;

pub struct Format {
    pub name: &'static str,
    pub keys: &'static str,
    pub files: Vec<(String, Vec<u8>)>,
}

/// The keys of a source whose files have columns.
pub const COLUMNS: &str = "id = \"id\"\ntext = \"text\"\n";

/// Documents in every format, each in two files. Lines have other ids, and Delta tables have a log, so other tests read them.
pub fn formats(documents: &[Document]) -> Vec<Format> {
    let halves: Vec<&[Document]> = documents.chunks(documents.len().div_ceil(2)).collect();
    let each = |end: &str, bytes: &dyn Fn(&[Document]) -> Vec<u8>| -> Vec<(String, Vec<u8>)> {
        halves.iter().enumerate().map(|(i, half)| (format!("part {i}.{end}"), bytes(half))).collect()
    };
    let lines = |head: &str, line: fn(&Document) -> String, half: &[Document]| {
        format!("{head}{}", half.iter().map(line).collect::<String>()).into_bytes()
    };
    let csv = |half: &[Document]| lines("id,text\n", |(id, text)| format!("{id},{text}\n"), half);
    let jsonl = |half: &[Document]| {
        lines("", |(id, text)| format!("{{\"id\":\"{id}\",\"text\":\"{text}\"}}\n"), half)
    };
    let array = |half: &[Document]| {
        let rows: Vec<Value> = half.iter().map(|(id, text)| json!({"id": id, "text": text})).collect();
        serde_json::to_vec_pretty(&rows).unwrap()
    };
    let sgml = |half: &[Document]| {
        let story = |(id, text): &Document| {
            format!("<REUTERS OLDID=\"{id}\" NEWID=\"{id}\"><TEXT><BODY>{text}</BODY></TEXT></REUTERS>\n")
        };
        lines("<!DOCTYPE lewis SYSTEM \"lewis.dtd\">\n", story, half)
    };
    let parquet = |half: &[Document]| {
        let file = tempfile::NamedTempFile::new().unwrap();
        write_parquet(file.path(), half, 25);
        std::fs::read(file.path()).unwrap()
    };
    let texts = documents.iter().map(|(id, text)| (format!("{id}.txt"), text.clone().into_bytes())).collect();
    vec![
        Format { name: "parquet", keys: COLUMNS, files: each("parquet", &parquet) },
        Format { name: "csv", keys: COLUMNS, files: each("csv", &csv) },
        Format { name: "jsonl", keys: COLUMNS, files: each("jsonl", &jsonl) },
        Format { name: "jsonl", keys: COLUMNS, files: each("json", &array) },
        Format { name: "csv", keys: COLUMNS, files: each("csv.gz", &|half| gzipped(csv(half))) },
        Format { name: "jsonl", keys: COLUMNS, files: each("jsonl.gz", &|half| gzipped(jsonl(half))) },
        Format { name: "reuters", keys: "", files: each("sgm", &sgml) },
        Format { name: "text", keys: "", files: texts },
    ]
}

impl Format {
    pub fn source(&self, url: &str) -> String {
        format!("format = {:?}\nurl = {url:?}\n{}", self.name, self.keys)
    }

    pub fn write(&self, folder: &Path) {
        std::fs::create_dir_all(folder).unwrap();
        for (name, bytes) in &self.files {
            std::fs::write(folder.join(name), bytes).unwrap();
        }
    }
}

pub fn gzipped(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes.as_ref()).unwrap();
    encoder.finish().unwrap()
}
