//! `--annotate`: every document stays, and says what would be done with it.

use arrow::array::*;

use super::*;

#[test]
fn records_get_fields_and_objects_too() {
    let documents = corpus(13, 60, 15);
    let heads = ["id,text\r\n", "id,text,cluster_id,representative,kept_id\r\n"];
    for (format, name, [head, annotated], broken) in
        [("csv", "a.csv.gz", heads, "only one field\n"), ("jsonl", "a.jsonl", ["", ""], "[]\n")]
    {
        let applied = Applied::new();
        let line = |at: usize, (id, text): &Document| match format {
            "csv" => format!("\"{id},\",\"{}\"", text.replace(' ', "\n")),
            _ => format!("{{\"id\":\"{id},\",\"text\":\"{text}\",\"n\":{at}}}"),
        };
        let mut made = head.to_owned();
        documents.iter().enumerate().for_each(|(at, document)| made += &(line(at, document) + "\r\n"));
        made += broken;
        applied.put(name, if format == "csv" { gzipped(made) } else { made.into_bytes() });
        applied.run(format, &format!("{COLUMNS}on_error = \"reject\""));
        applied.apply("to", &["--annotate"]);
        let (mut expected, clustered) = (annotated.to_owned(), applied.clustered());
        for (at, document) in documents.iter().enumerate() {
            let said = clustered.get(&applied.place(name, at)).map(|(cluster, kept, id)| {
                [format!("\"{cluster}\""), (kept == id).to_string(), format!("\"{kept}\"")]
            });
            let line = line(at, document);
            expected += &match format {
                "csv" => format!("{line},{}\r\n", said.unwrap_or_default().join(",")),
                _ => {
                    let [cluster, representative, kept] = said.unwrap_or(["null"; 3].map(str::to_owned));
                    let line = line.strip_suffix('}').unwrap();
                    format!(
                        "{line},\"cluster_id\":{cluster},\"representative\":{representative},\"kept_id\":{kept}}}\r\n"
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
        applied.run(name.split_once('.').unwrap().1, COLUMNS);
        applied.refused("to", &["--annotate"], 3, &["`kept_id`", name]);
        assert!(!applied.path("to/_resemblance/manifest.json").exists());
        // The fields of lines of JSON are known only when they are read.
        assert_eq!(applied.path("to").exists(), name == "a.jsonl");
    }
    let applied = Applied::new();
    let taken: ArrayRef = Arc::new(BooleanArray::from(vec![true; 60]));
    write_columns(&applied.path("in/a.parquet"), &corpus(14, 60, 20), vec![("representative", taken)], 50);
    applied.run("parquet", COLUMNS);
    applied.refused("to", &["--annotate"], 3, &["`representative`", "a.parquet"]);
    assert!(!applied.path("to").exists());
}

pub fn unzipped(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::MultiGzDecoder::new(bytes), &mut text).unwrap();
    text
}
