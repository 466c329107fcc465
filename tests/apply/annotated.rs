//! `--annotate`: every document stays, and says what would be done with it.

use arrow::array::*;

use super::columns::batch;
use super::*;

impl Applied {
    /// The three columns of a row as text; empty where its document is in no cluster.
    fn said(&self, name: &str, row: usize) -> [String; 3] {
        match self.clustered().remove(&self.place(name, row)) {
            Some((cluster, kept, id)) => [cluster, (kept == id).to_string(), kept],
            None => Default::default(),
        }
    }
}

#[test]
fn records_get_fields_and_objects_too() {
    let documents = corpus(13, 60, 15);
    for format in ["csv", "jsonl"] {
        let applied = Applied::new();
        let name = if format == "csv" { "a.csv.gz" } else { "a.jsonl" };
        let line = |at: usize, (id, text): &Document| match format {
            "csv" => format!("\"{id},\",\"{}\"", text.replace(' ', "\n")),
            _ => format!("{{\"id\":\"{id},\",\"text\":\"{text}\",\"n\":{at}}}"),
        };
        let head = if format == "csv" { "id,text\r\n" } else { "" };
        let broken = if format == "csv" { "only one field\n" } else { "[]\n" };
        let mut made = head.to_owned();
        documents.iter().enumerate().for_each(|(at, document)| made += &(line(at, document) + "\r\n"));
        let bytes = match format {
            "csv" => gzipped(made + broken),
            _ => (made + broken).into_bytes(),
        };
        applied.put(name, bytes);
        applied.run(format, "id = \"id\"\ntext = \"text\"\non_error = \"reject\"");
        applied.apply("to", &["--annotate"]);
        let mut expected = if format == "csv" {
            "id,text,cluster_id,representative,kept_id\r\n".to_owned()
        } else {
            String::new()
        };
        for (at, document) in documents.iter().enumerate() {
            let [cluster, representative, kept] = applied.said(name, at);
            let line = line(at, document);
            expected += &match (format, cluster.is_empty()) {
                ("csv", true) => format!("{line},,,\r\n"),
                ("csv", false) => format!("{line},\"{cluster}\",{representative},\"{kept}\"\r\n"),
                (_, true) => {
                    let line = line.strip_suffix('}').unwrap();
                    format!("{line},\"cluster_id\":null,\"representative\":null,\"kept_id\":null}}\r\n")
                }
                (_, false) => {
                    let line = line.strip_suffix('}').unwrap();
                    format!(
                        "{line},\"cluster_id\":\"{cluster}\",\"representative\":{representative},\"kept_id\":\"{kept}\"}}\r\n"
                    )
                }
            };
        }
        expected += broken;
        let found = &files(&applied.path("to"))[name];
        let found = if format == "csv" { unzipped(found) } else { found.clone() };
        assert_eq!(String::from_utf8(found).unwrap(), expected);
        assert!(!applied.gone().is_empty());
    }
}

#[test]
fn names_that_are_there_already_are_refused() {
    for (name, bytes) in [
        ("a.csv", "id,text,kept_id\n1,a b c d,\n2,a b c d,\n3,x y z w,\n4,x y z w,\n".to_owned()),
        (
            "a.jsonl",
            (0..4)
                .map(|at| format!("{{\"id\":{at},\"text\":\"{} b c d\",\"kept_id\":0}}\n", at / 2))
                .collect(),
        ),
    ] {
        let applied = Applied::new();
        applied.put(name, bytes);
        applied.run(name.split_once('.').unwrap().1, "id = \"id\"\ntext = \"text\"");
        applied.refused("to", &["--annotate"], 3, &["`kept_id`", name]);
        assert!(!applied.path("to/_resemblance/manifest.json").exists());
        // The fields of lines of JSON are known only when they are read.
        assert_eq!(applied.path("to").exists(), name == "a.jsonl");
    }
    let applied = Applied::new();
    let rows = batch(&corpus(14, 60, 20));
    let taken: ArrayRef = Arc::new(BooleanArray::from(vec![true; 60]));
    let mut columns: Vec<(&str, ArrayRef)> = vec![("id", rows["id"].clone()), ("text", rows["text"].clone())];
    columns.push(("representative", taken));
    write_batch(&applied.path("in/a.parquet"), &RecordBatch::try_from_iter(columns).unwrap(), 50);
    applied.run("parquet", "id = \"id\"\ntext = \"text\"");
    applied.refused("to", &["--annotate"], 3, &["`representative`", "a.parquet"]);
    assert!(!applied.path("to").exists());
}

fn unzipped(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::MultiGzDecoder::new(bytes), &mut text).unwrap();
    text
}
