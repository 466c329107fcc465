//! Files of every format -> documents: each row once, numbered as it is in its file, whatever the partitions.

use std::fmt::Write as _;
use std::fs;

use arrow::array::*;
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{Int32Type, UInt64Type};
use resemblance::error::{Error, Result};
use resemblance::job::{Csv, DuplicateIds, Encoding, Format, OnError, References, Source, SourceId};
use resemblance::source::{list, open};

use crate::support::*;

#[tokio::test]
async fn compressed_and_plain_files_are_one_source() {
    let dir = Folder::new();
    dir.write("a.csv", "id,text\n1,plain\n");
    dir.gzip("b.csv.gz", "id,text\n2,gzip\n");
    dir.zstd("c.csv.zst", "id,text\n3,zstd\n");
    dir.write_bytes("d.CSV.bz2", BZIP2);
    dir.write_bytes("e.tsv.XZ", XZ);
    // The frame declares a window of 2 GiB, as `zstd --long=31` does.
    let mut long = zstd::encode_all(&b"id,text\n7,long\n"[..], 1).unwrap();
    long[5] = (31 - 10) << 3;
    dir.write_bytes("f.csv.zst", &long);
    let rows = read(&dir.source(Format::Csv), 2).await.unwrap();
    assert_eq!(rows.texts(), ["plain", "gzip", "zstd", "bzip2", "two streams", "xz", "long"].map(Some));
    let files = ["a.csv", "b.csv.gz", "c.csv.zst", "d.CSV.bz2", "d.CSV.bz2", "e.tsv.XZ", "f.csv.zst"];
    assert_eq!(rows.places(), files.into_iter().zip([0, 0, 0, 0, 1, 0, 0]).collect::<Vec<_>>());

    let dir = Folder::new();
    dir.gzip("a.jsonl.gz", "{\"id\":1,\"text\":\"gzip\"}\n");
    dir.zstd("b.jsonl.zst", "{\"id\":2,\"text\":\"zstd\"}\n");
    let rows = read(&dir.source(Format::Jsonl), 2).await.unwrap();
    assert_eq!(rows.texts(), [Some("gzip"), Some("zstd")]);
    assert_eq!(rows.ids(), [Some("1"), Some("2")]);
}

#[tokio::test]
async fn compressed_bytes_are_known_by_their_first_bytes() {
    let dir = Folder::new();
    dir.gzip("a.csv", "id,text\n1,gzip\n");
    dir.zstd("b.csv.gz", "id,text\n2,zstd\n");
    dir.write_bytes("c.csv", BZIP2);
    dir.write_bytes("d.csv", XZ);
    let rows = read(&dir.source(Format::Csv), 1).await.unwrap();
    assert_eq!(rows.texts(), ["gzip", "zstd", "bzip2", "two streams", "xz"].map(Some));
    let dir = Folder::new();
    for (name, id) in [("a.csv", "BZh9"), ("b.csv", "P*M"), ("c.csv", "7zXZ")] {
        dir.write(name, &format!("{id},text\n1,x\n"));
        let source = Source { urls: vec![dir.path(name)], id: columns(&[id]), ..dir.source(Format::Csv) };
        assert_eq!(read(&source, 1).await.unwrap().texts(), [Some("x")], "{id}");
    }
}

#[tokio::test]
async fn zeros_after_a_gzip_member_are_padding() {
    let (one, two) = (gzipped("id,text\n1,one\n"), gzipped("2,two\n"));
    for padding in [0, 1, 512, 300_000] {
        let dir = Folder::new();
        let zeros = vec![0; padding];
        dir.write_bytes("a.csv.gz", &[&one[..], &zeros, &two, &zeros].concat());
        let rows = read(&dir.source(Format::Csv), 1).await.unwrap();
        assert_eq!(rows.texts(), [Some("one"), Some("two")], "{padding}");
        dir.write_bytes("a.csv.gz", &[&one[..], &zeros, b"other bytes"].concat());
        assert!(failure(&dir.source(Format::Csv), 1).await.contains("a.csv.gz"));
    }
}

#[tokio::test]
async fn endings_may_be_written_otherwise() {
    let dir = Folder::new();
    let column = |value: &str| Arc::new(StringArray::from(vec![value])) as ArrayRef;
    for name in ["a.PARQUET", "b.pq", "c.Parq"] {
        dir.parquet(name, &[("id", column("1")), ("text", column(name))], 1);
    }
    let rows = read(&dir.source(Format::Parquet), 1).await.unwrap();
    assert_eq!(rows.texts(), ["a.PARQUET", "b.pq", "c.Parq"].map(Some));
    dir.write("a.jsonlines", &json("a"));
    dir.write("b.JSONL", &json("b"));
    dir.gzip("c.JsonLines.GZ", &json("c"));
    let rows = read(&dir.source(Format::Jsonl), 1).await.unwrap();
    assert_eq!(rows.texts(), ["a", "b", "c"].map(Some));
}

#[tokio::test]
async fn lines_may_end_in_a_return_alone_and_files_may_be_concatenated_with_their_marks() {
    let dir = Folder::new();
    let rows = ["one", "two", "three", "four"].map(json);
    let [one, two, three, four] = rows.each_ref().map(|row| row.trim_end());
    let lines = format!("\u{feff}{one}\r{two}\r\n\u{feff}{three}\n\u{feff}\n{four}\r");
    dir.write("a.jsonl", &lines);
    let rows = read(&dir.source(Format::Jsonl), 1).await.unwrap();
    assert_eq!(rows.texts(), ["one", "two", "three", "four"].map(Some));
    let text = "two,\n\u{feff}lines";
    let lines = format!("\u{feff}id,text\r1,one\r\n\u{feff}\"2\",\"{text}\"\n\u{feff}\n3,\u{feff}x\r");
    dir.write("a.csv", &lines);
    let rows = read(&dir.source(Format::Csv), 1).await.unwrap();
    assert_eq!(rows.ids(), ["1", "2", "3"].map(Some));
    assert_eq!(rows.texts(), ["one", text, "\u{feff}x"].map(Some));
}

#[tokio::test]
async fn columns_may_have_the_names_of_internal_columns() {
    let dir = Folder::new();
    dir.write("a.csv", "source,position,name,__resemblance_split\ns,p,n,c\n");
    let id = columns(&["source", "position", "__resemblance_split"]);
    let source =
        Source { id, id_separator: "/".into(), text: vec!["name".into()], ..dir.source(Format::Csv) };
    let rows = read(&source, 1).await.unwrap();
    assert_eq!((rows.ids(), rows.texts()), (vec![Some("s/p/c")], vec![Some("n")]));
}

#[tokio::test]
async fn json_values_may_be_nested_null_or_absent() {
    let dir = Folder::new();
    dir.write(
        "a.jsonl",
        "{\"meta\":{\"id\":7,\"x\":[1]},\"doc\":{\"body\":\"seven\"}}\n\
         {\"meta\":null,\"doc\":{\"body\":\"no id\"}}\n\n\
         {\"meta\":{\"id\":9},\"doc\":{}}\n",
    );
    let (id, text) = (columns(&["meta.id"]), vec!["doc.body".into()]);
    let rows = read(&Source { id, text, ..dir.source(Format::Jsonl) }, 2).await.unwrap();
    assert_eq!(rows.ids(), [Some("7"), None, Some("9")]);
    assert_eq!(rows.texts(), [Some("seven"), Some("no id"), None]);
}

#[tokio::test]
async fn json_texts_may_be_in_lists_and_in_objects_in_lists() {
    let dir = Folder::new();
    let rows = [
        r#"{"id": 1, "lines": ["a b", null, "c"], "messages": [{"role": "user", "content": "a b"}, {"content": "c"}]}"#,
        r#"{"id": 2, "lines": null, "messages": null}"#,
        r#"{"id": 3, "lines": ["d\u00e9"], "messages": [{"content": "d\u00e9"}, {"role": "bot"}]}"#,
        r#"{"id": 4, "lines": [5], "messages": [5]}"#,
    ];
    dir.write("a.jsonl", &rows.join("\n"));
    for name in ["lines", "lines[]", "messages[].content", "messages.content"] {
        let source = Source { text: vec![name.to_owned()], ..dir.source(Format::Jsonl) };
        let rows = read(&Source { on_error: OnError::Reject, ..source }, 1).await.unwrap();
        assert_eq!(rows.texts(), [Some("a b\nc"), None, Some("d\u{e9}"), None], "{name}");
        assert_eq!(rows.defects(), [None, None, None, Some("malformed")], "{name}");
    }
}

#[tokio::test]
async fn parquet_text_may_be_of_any_string_type() {
    let words = ["alpha", "a text that is longer than twelve bytes", "gamma"];
    let dictionary: DictionaryArray<Int32Type> = words.into_iter().collect();
    let types: [(&str, ArrayRef); 4] = [
        ("utf8", Arc::new(StringArray::from_iter_values(words))),
        ("large", Arc::new(LargeStringArray::from_iter_values(words))),
        ("view", Arc::new(StringViewArray::from_iter_values(words))),
        ("dictionary", Arc::new(dictionary)),
    ];
    let together = Folder::new();
    for (name, texts) in types {
        let dir = Folder::new();
        for dir in [&dir, &together] {
            dir.parquet(&format!("{name}.parquet"), &[ids(3), ("text", texts.clone())], 2);
        }
        let rows = read(&dir.source(Format::Parquet), 2).await.unwrap();
        assert_eq!(rows.texts(), words.map(Some), "{name}");
        assert_eq!(rows.ids(), [Some("1"), Some("2"), Some("3")], "{name}");
    }
    let rows = read(&together.source(Format::Parquet), 3).await.unwrap();
    assert_eq!(rows.texts(), [words.map(Some); 4].concat());
}

#[tokio::test]
async fn parquet_texts_may_be_bytes_and_a_file_may_have_none() {
    let dir = Folder::new();
    let bytes = BinaryArray::from_iter_values([&b"alpha"[..], "\u{e9}t\u{e9}".as_bytes()]);
    dir.parquet("a.parquet", &[ids(2), ("text", Arc::new(bytes))], 2);
    dir.parquet("b.parquet", &[ids(2), ("text", Arc::new(NullArray::new(2)))], 2);
    for on_error in [OnError::Error, OnError::Reject] {
        let rows = read(&Source { on_error, ..dir.source(Format::Parquet) }, 2).await.unwrap();
        assert_eq!(rows.texts(), [Some("alpha"), Some("\u{e9}t\u{e9}"), None, None], "{on_error:?}");
        assert_eq!(rows.defects(), [None; 4], "{on_error:?}");
    }
}

/// Texts as strings, as bytes, in a dictionary and in a struct.
#[tokio::test]
async fn a_parquet_text_that_is_no_utf8_is_rejected_and_the_rows_beside_it_are_read() {
    let bytes = BinaryArray::from_iter_values([&b"alpha"[..], b"\xff\xfe", b"gamma"]);
    let (offsets, values, _) = bytes.clone().into_parts();
    // SAFETY: no one reads these strings but the writer, which copies their bytes.
    let strings = unsafe { StringArray::new_unchecked(offsets, values, None) };
    let strings: ArrayRef = Arc::new(strings);
    let keys = Int32Array::from(vec![0, 1, 2]);
    let dictionary = DictionaryArray::<Int32Type>::try_new(keys, Arc::clone(&strings)).unwrap();
    let field = Arc::new(Field::new("body", DataType::Utf8, true));
    let nested = StructArray::from(vec![(field, Arc::clone(&strings))]);
    let columns: [(&str, ArrayRef); 4] = [
        ("text", strings),
        ("text", Arc::new(bytes)),
        ("text", Arc::new(dictionary)),
        ("doc.body", Arc::new(nested)),
    ];
    for (name, texts) in columns {
        let dir = Folder::new();
        let column = name.split('.').next().unwrap();
        let kind = texts.data_type().clone();
        dir.parquet("a.parquet", &[ids(3), (column, texts)], 3);
        let source = Source { text: vec![name.to_owned()], ..dir.source(Format::Parquet) };
        // Pages of strings are checked as a whole, and bytes one by one.
        let mut rows = read(&source, 1).await;
        if kind != DataType::Binary {
            fails(rows, Kind::Input, &["a.parquet"]);
            rows = read(&Source { on_error: OnError::Reject, ..source }, 1).await;
        }
        let rows = rows.unwrap();
        assert_eq!(rows.texts(), [Some("alpha"), None, Some("gamma")], "{kind}");
        assert_eq!(rows.defects(), [None, Some("invalid_utf8"), None], "{kind}");
    }
}

#[tokio::test]
async fn parquet_texts_may_be_in_lists_and_in_structs_in_lists() {
    let dir = Folder::new();
    let strings = StringArray::from(vec!["a b", "c", "d"]);
    let offsets = OffsetBuffer::from_lengths([2, 0, 1]);
    let nulls = NullBuffer::from(vec![true, false, true]);
    let list = |item: ArrayRef| {
        let field = Arc::new(Field::new("item", item.data_type().clone(), true));
        Arc::new(ListArray::new(field, offsets.clone(), item, Some(nulls.clone()))) as ArrayRef
    };
    let field = |name| Arc::new(Field::new(name, DataType::Utf8, true));
    let roles: ArrayRef = Arc::new(StringArray::from(vec!["user", "bot", "user"]));
    let messages: ArrayRef = Arc::new(StructArray::from(vec![
        (field("role"), roles),
        (field("content"), Arc::new(strings.clone()) as ArrayRef),
    ]));
    dir.parquet("a.parquet", &[ids(3), ("lines", list(Arc::new(strings))), ("messages", list(messages))], 3);
    for name in ["lines", "lines[]", "messages[].content", "messages.content"] {
        let source = Source { text: vec![name.to_owned()], ..dir.source(Format::Parquet) };
        let rows = read(&source, 1).await.unwrap();
        assert_eq!(rows.texts(), [Some("a b\nc"), None, Some("d")], "{name}");
    }
}

#[tokio::test]
async fn a_story_is_a_document_and_its_parts_are_columns() {
    let dir = Folder::new();
    dir.write(
        "a.sgm",
        "<REUTERS OLDID=\"5\" NEWID=\"1\"><TOPICS><D>earn</D><D>acq</D></TOPICS><TITLE>T &lt;1&gt;</TITLE><BODY>b&#5;</BODY></REUTERS>\n\
         <REUTERS OLDID=\"6\" NEWID=\"2\"><TEXT>no body</TEXT></REUTERS>\n\
         <REUTERS OLDID=\"7\" NEWID=\"3\"><TITLE>cut</TITLE><BODY>cut he",
    );
    let mut source = dir.source(Format::Reuters);
    source.id = columns(&["oldid", "newid"]);
    source.text = vec!["body".into()];
    let rows = read(&source, 2).await.unwrap();
    assert_eq!(rows.ids(), [Some("5-1"), Some("6-2"), Some("7-3")]);
    assert_eq!(rows.texts(), [Some("b\u{5}"), None, Some("cut he")]);
    assert_eq!(rows.defects(), [None, None, Some("truncated")]);
    assert_eq!(rows.places(), [("a.sgm", 0), ("a.sgm", 1), ("a.sgm", 2)]);

    source.id = columns(&["topics"]);
    source.text = vec!["title".into(), "body".into()];
    let rows = read(&source, 2).await.unwrap();
    assert_eq!(rows.ids(), [Some("earn,acq"), None, None]);
    assert_eq!(rows.texts(), [Some("T <1>\nb\u{5}"), None, Some("cut\ncut he")]);
}

#[tokio::test]
async fn a_text_file_is_a_document() {
    let dir = Folder::new();
    dir.write("b/two.md", "\u{feff}second");
    dir.write("a.txt", "first");
    dir.write("empty", "");
    dir.write_bytes("latin", b"caf\xE9");
    let long = "long ".repeat(100_000);
    dir.write("long.txt", &long);
    let source = Source { id: SourceId::Path, ..dir.source(Format::Text) };
    for partitions in [1, 3] {
        let rows = read(&source, partitions).await.unwrap();
        let names = ["a.txt", "b/two.md", "empty", "latin", "long.txt"];
        assert_eq!(rows.ids(), names.map(Some));
        assert_eq!(rows.texts(), [Some("first"), Some("second"), Some(""), None, Some(long.as_str())]);
        assert_eq!(rows.defects(), [None, None, None, Some("invalid_utf8"), None]);
    }
}

#[tokio::test]
async fn an_incomplete_id_is_null_and_a_text_keeps_its_parts() {
    let dir = Folder::new();
    dir.write("a.csv", "a,b,t,u\n1,x,top,bottom\n2,,top,\n,y,,\n");
    let (id, text) = (columns(&["a", "b"]), vec!["t".into(), "u".into()]);
    let source = Source { id, id_separator: "::".into(), text, ..dir.source(Format::Csv) };
    let rows = read(&source, 1).await.unwrap();
    assert_eq!(rows.ids(), [Some("1::x"), None, None]);
    assert_eq!(rows.texts(), [Some("top\nbottom"), Some("top"), None]);
}

#[tokio::test]
async fn different_parts_have_different_ids_whatever_they_hold() {
    let dir = Folder::new();
    let parts = ["a", "b", "_", "-", "a_", "_b", "_-", "\\", "a\\", "\\_", "a_-b"];
    let rows: String =
        parts.iter().flat_map(|a| parts.iter().map(move |b| format!("\"{a}\",\"{b}\",t\n"))).collect();
    dir.write("a.csv", &format!("a,b,t\n{rows}"));
    let mut source = Source { id: columns(&["a", "b"]), text: vec!["t".into()], ..dir.source(Format::Csv) };
    for separator in ["_", "_-", "--"] {
        source.id_separator = separator.into();
        let rows = read(&source, 1).await.unwrap();
        let ids = rows.ids();
        let distinct: BTreeSet<_> = ids.iter().flatten().collect();
        assert_eq!((ids.len(), distinct.len()), (parts.len().pow(2), parts.len().pow(2)), "{separator}");
        assert!(ids.contains(&Some(format!("a{separator}b").as_str())), "{separator}");
    }
}

#[tokio::test]
async fn row_numbers_name_the_file_also_where_it_is_the_only_one() {
    let dir = Folder::new();
    dir.write("a.csv", "id,text\n1,one\n2,two\n");
    let mut source = Source { id: SourceId::RowNumber, ..dir.source(Format::Csv) };
    for url in ["a.csv", ""] {
        source.urls = vec![dir.path(url)];
        assert_eq!(read(&source, 2).await.unwrap().ids(), [Some("a.csv:0"), Some("a.csv:1")]);
    }
    dir.write("sub/b.csv", "id,text\n1,one\n");
    let rows = read(&source, 2).await.unwrap();
    assert_eq!(rows.ids(), [Some("a.csv:0"), Some("a.csv:1"), Some("sub/b.csv:0")]);
    // Files of one name in two folders keep their ids apart.
    let dir = Folder::new();
    dir.write("x/part.csv", "text\none\n");
    dir.write("y/part.csv", "text\ntwo\n");
    let urls = ["x", "y"].map(|name| dir.path(name));
    let expected = urls.each_ref().map(|url| format!("{url}/part.csv:0"));
    let source = Source { urls: urls.to_vec(), id: SourceId::RowNumber, ..dir.source(Format::Csv) };
    assert_eq!(read(&source, 1).await.unwrap().ids(), expected.each_ref().map(|id| Some(id.as_str())));
}

#[tokio::test]
async fn every_row_of_every_file_comes_out_once_with_its_number() {
    let (dir, mut expected) = (Folder::new(), Vec::new());
    // Lengths on both sides of a batch of 1,024 rows and of a row group of 100.
    for (file, rows) in [0, 1, 99, 100, 101, 1024, 1025, 3000].into_iter().enumerate() {
        let text = |row: usize| format!("text {row} of file {file}");
        let mut lines = String::from("id,text\n");
        let mut objects = String::new();
        let mut stories = String::from("<!DOCTYPE lewis SYSTEM \"lewis.dtd\">\n");
        for row in 0..rows {
            writeln!(lines, "{file}-{row},{}", text(row)).unwrap();
            writeln!(objects, "{{\"id\":\"{file}-{row}\",\"text\":\"{}\"}}", text(row)).unwrap();
            writeln!(stories, "<REUTERS ID=\"\" OLDID=\"{file}-{row}\"><BODY>{}</BODY></REUTERS>", text(row))
                .unwrap();
            expected.push((file, row as u64, format!("{file}-{row}"), text(row)));
        }
        dir.write(&format!("{file}.csv"), &lines);
        dir.write(&format!("{file}.jsonl"), &objects);
        dir.write(&format!("{file}.sgm"), if rows > 0 { &stories[..] } else { "" });
        let ids = StringArray::from_iter_values((0..rows).map(|row| format!("{file}-{row}")));
        let texts = StringArray::from_iter_values((0..rows).map(text));
        dir.parquet(&format!("{file}.parquet"), &[("id", Arc::new(ids)), ("text", Arc::new(texts))], 100);
    }
    for format in [Format::Csv, Format::Jsonl, Format::Parquet, Format::Reuters] {
        let mut source = dir.source(format);
        if format == Format::Reuters {
            source.id = columns(&["oldid"]);
            source.text = vec!["body".into()];
        }
        for partitions in [1, 2, 7] {
            let rows = read(&source, partitions).await.unwrap();
            let found = rows.0.iter().map(|row| {
                let file = row.source.rsplit('/').next().unwrap().split('.').next().unwrap();
                (file.parse().unwrap(), row.position, row.id.clone().unwrap(), row.text.clone().unwrap())
            });
            let found: Vec<_> = found.collect();
            assert!(found == expected, "{format:?} in {partitions} partitions: {} rows", found.len());
        }
    }
}

#[tokio::test]
async fn long_rows_come_in_small_batches() {
    let long = "word ".repeat(40_000);
    let dir = Folder::new();
    dir.write("a.csv", &format!("id,text\n{}", format!("1,\"{long}\n\"\n").repeat(200)));
    dir.write("a.jsonl", &format!("{{\"id\":1,\"text\":\"{long}\"}}\n").repeat(200));
    let texts = Arc::new(StringArray::from_iter_values((0..200).map(|i| format!("{i} {long}")))) as ArrayRef;
    dir.parquet("a.parquet", &[ids(200), ("text", texts)], 200);
    for format in [Format::Csv, Format::Jsonl, Format::Parquet] {
        let frame = open(&session(1), &dir.source(format)).await.unwrap().frame;
        let batches = frame.collect().await.unwrap();
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 200);
        // 8 MiB hold 41 of these texts.
        assert!(batches.iter().all(|batch| batch.num_rows() <= 42), "{format:?}");
    }
}

#[tokio::test]
async fn files_folders_patterns_and_urls_name_the_input() {
    let dir = Folder::new();
    for name in ["b.csv", "a.csv", "sub/c.csv", "odd.data", ".hidden.csv", "_tmp/d.csv", "note.md"] {
        dir.write(name, "id,text\n1,x\n");
    }
    let names = async |url: String| {
        let source = Source { urls: vec![url], ..dir.source(Format::Csv) };
        let files = list(&session(1), &source).await.unwrap().inputs();
        files.iter().map(|f| f.path.clone()).collect::<Vec<_>>()
    };
    let under = |names: &[&str]| names.iter().map(|name| dir.path(name)).collect::<Vec<_>>();
    let all = ["a.csv", "b.csv", "sub/c.csv"];
    let found = names(dir.path("").trim_end_matches('/').to_owned()).await;
    assert_eq!(found, under(&all));
    for (url, expected) in [
        ("", &all[..]),
        ("odd.data", &["odd.data"]),
        ("*.csv", &all[..2]),
        ("**/*.csv", &all),
        ("s*", &all[2..]),
        ("s*/", &all[2..]),
        ("**/", &all[2..]),
        ("*/", &all[2..]),
        ("?dd.*", &["odd.data"]),
    ] {
        assert_eq!(names(dir.path(url)).await, under(expected), "{url}");
    }
    let url = format!("file://{}", dir.path("a.csv"));
    assert_eq!(names(url.clone()).await, [url]);
    let url = format!("file://{}", dir.path("sub"));
    assert_eq!(names(url.clone()).await, [format!("{url}/c.csv")]);
}

#[tokio::test]
async fn a_file_named_twice_is_read_once() {
    let dir = Folder::new();
    dir.write("a.csv", "id,text\n1,x\n");
    let mut source = dir.source(Format::Csv);
    source.urls = vec![dir.path(""), dir.path("a.csv"), dir.path("*.csv")];
    let files = list(&session(1), &source).await.unwrap().inputs();
    assert_eq!(files.len(), 1);
    assert_eq!(files[0].bytes, 12);
    let written = fs::metadata(dir.path("a.csv")).unwrap().modified().unwrap();
    let since = written.duration_since(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(files[0].modified, i64::try_from(since.as_nanos()).ok());
    assert_eq!(read(&source, 2).await.unwrap().0.len(), 1);
}

#[tokio::test]
async fn names_may_hold_spaces_percents_and_wildcards() {
    let dir = Folder::new();
    let name = "50% [of] it*.csv";
    dir.write(name, "id,text\n1,x\n");
    for url in [dir.path(name), dir.path("")] {
        let source = Source { urls: vec![url], ..dir.source(Format::Csv) };
        assert_eq!(read(&source, 1).await.unwrap().places(), [(name, 0)]);
    }
}

#[tokio::test]
async fn input_that_is_not_there_is_named() {
    let dir = Folder::new();
    fs::create_dir(dir.path("empty")).unwrap();
    dir.write("other/a.md", "x");
    for (url, says) in [
        ("nowhere.csv", "there is no `"),
        ("nowhere/", "there is no `"),
        ("empty", "there is no file under `"),
        ("*.csv", "no file matches `"),
        ("other", "set [source] format"),
    ] {
        let source = Source { urls: vec![dir.path(url)], ..dir.source(Format::Csv) };
        fails(read(&source, 1).await, Kind::Input, &[says, &dir.path(url)]);
    }
    let source = Source { urls: vec!["s3://bucket/x.csv".into()], ..dir.source(Format::Csv) };
    assert!(read(&source, 1).await.unwrap_err().to_string().contains("s3://bucket/x.csv"));
}

#[tokio::test]
async fn a_bad_row_after_full_batches_names_its_file() {
    let dir = Folder::new();
    let good: String = (0..2048).map(|i| format!("{i},fine\n")).collect();
    dir.write("a.csv", &format!("id,text\n{good}x\n"));
    let what = "a.csv line 2050 has 1 fields, but the others have 2";
    fails(read(&dir.source(Format::Csv), 1).await, Kind::Input, &[what]);
    dir.write("b.csv", "id,text\n1,fine\n");
    let said = failure(&dir.source(Format::Csv), 1).await;
    assert!(said.contains("a.csv line 2050") && !said.contains("b.csv"), "{said}");
}

/// A line of a mebibyte, in one chunk and in many, before and behind lines that are read.
#[tokio::test]
async fn a_json_line_that_is_too_long_is_rejected_and_a_csv_record_is_an_error() {
    let long = "x".repeat(1 << 20);
    let dir = Folder::new();
    let line = |id: u32, text: &str| format!("{{\"id\": {id}, \"text\": \"{text}\"}}\n");
    dir.write("a.jsonl", &[line(1, "a"), line(2, &long), line(3, "c"), line(4, &long)].concat());
    let limit = |source: Source, max_text| Source { max_text, ..source };
    let rows = read(&limit(dir.source(Format::Jsonl), 1 << 19), 1).await.unwrap();
    assert_eq!(rows.texts(), [Some("a"), None, Some("c"), None]);
    assert_eq!(rows.defects(), [None, Some("too_long"), None, Some("too_long")]);
    let rows = read(&limit(dir.source(Format::Jsonl), 1 << 21), 1).await.unwrap();
    assert_eq!(rows.texts(), [Some("a"), Some(long.as_str()), Some("c"), Some(long.as_str())]);

    let dir = Folder::new();
    dir.write("a.csv", &format!("id,text\n1,a\n2,\"{long}\"\n3,c\n"));
    let cut = read(&limit(dir.source(Format::Csv), 1 << 19), 1).await;
    fails(cut, Kind::Input, &["a.csv line 3", "source.max_text"]);
    assert_eq!(read(&limit(dir.source(Format::Csv), 1 << 21), 1).await.unwrap().0.len(), 3);
}

#[tokio::test]
async fn files_that_cannot_be_read_are_named() {
    let dir = Folder::new();
    dir.write("a.csv", "id,text\n1,fine\n");
    dir.write_bytes("b.csv", b"id,text\n1,caf\xE9\n");
    fails(read(&dir.source(Format::Csv), 1).await, Kind::Input, &["b.csv", "UTF-8"]);

    let dir = Folder::new();
    dir.write_bytes("a.csv", b"id,caf\xE9\n1,x\n");
    fails(read(&dir.source(Format::Csv), 1).await, Kind::Input, &["header of", "a.csv"]);

    let dir = Folder::new();
    let lines: String = (0..5000).map(|i| format!("{i},text {}\n", i * 7919)).collect();
    let packed = gzipped(format!("id,text\n{lines}"));
    dir.write_bytes("a.csv.gz", &packed[..packed.len() / 2]);
    fails(read(&dir.source(Format::Csv), 1).await, Kind::Input, &["a.csv.gz"]);

    dir.write("a.sgm", "<html>none</html>");
    let source = Source { id: columns(&["oldid"]), text: vec!["body".into()], ..dir.source(Format::Reuters) };
    fails(read(&source, 1).await, Kind::Input, &["a.sgm holds no <REUTERS> story"]);
}

#[tokio::test]
async fn a_damaged_parquet_file_is_named() {
    let texts = Arc::new(StringArray::from(vec!["some text that is long enough"; 1000])) as ArrayRef;
    let dir = Folder::new();
    dir.parquet("a.parquet", &[("id", texts.clone()), ("text", texts.clone())], 1000);
    dir.parquet("b.parquet", &[("id", texts.clone()), ("text", texts.clone())], 1000);
    let whole = fs::read(dir.path("b.parquet")).unwrap();
    dir.write_bytes("b.parquet", &whole[..whole.len() / 2]);
    let said = fails(read(&dir.source(Format::Parquet), 1).await, Kind::Input, &["b.parquet", "footer"]);
    assert!(!said.contains("a.parquet"), "{said}");

    // A footer that is whole over pages that are not.
    let mut pages = whole.clone();
    pages[8..80].fill(0xFF);
    dir.write_bytes("b.parquet", &pages);
    let said = failure(&dir.source(Format::Parquet), 1).await;
    assert!(said.contains("b.parquet failed") && !said.contains("a.parquet"), "{said}");
}

#[tokio::test]
async fn a_changed_byte_in_a_page_with_a_checksum_is_an_error() {
    // The Parquet library of this program writes no checksums.
    let Some(mut python) = python("pyarrow") else { return };
    let dir = Folder::new();
    let script = "import sys, pyarrow as pa, pyarrow.parquet as pq\n\
        texts = [f'text {i}' for i in range(100)]\n\
        pq.write_table(pa.table({'id': texts, 'text': texts}), sys.argv[1], compression='none', \
        use_dictionary=False, write_page_checksum=True)";
    assert!(python.args(["-c", script]).arg(dir.path("a.parquet")).status().unwrap().success());
    let mut file = fs::read(dir.path("a.parquet")).unwrap();
    assert_eq!(read(&dir.source(Format::Parquet), 1).await.unwrap().0.len(), 100);
    let last = file.windows(7).rposition(|bytes| bytes == b"text 77").unwrap();
    file[last] = b'n';
    dir.write_bytes("a.parquet", &file);
    fails(read(&dir.source(Format::Parquet), 1).await, Kind::Input, &["a.parquet", "CRC checksum mismatch"]);
}

#[tokio::test]
async fn a_parquet_file_without_a_column_that_others_have_is_named() {
    let dir = Folder::new();
    let texts = Arc::new(StringArray::from(vec!["x"])) as ArrayRef;
    dir.parquet("a.parquet", &[("id", texts.clone()), ("text", texts.clone())], 1);
    dir.parquet("b.parquet", &[("id", texts.clone())], 1);
    fails(read(&dir.source(Format::Parquet), 1).await, Kind::Input, &["b.parquet has no column `text`"]);
}

#[tokio::test]
async fn a_column_that_is_not_there_is_the_jobs_fault() {
    let numbers = Arc::new(Int64Array::from(vec![1])) as ArrayRef;
    let dir = Folder::new();
    dir.write("a.csv", "id,Texts,other\n1,x,y\n");
    dir.write("a.jsonl", "{\"id\":1,\"Texts\":\"x\",\"doc\":{\"body\":\"y\"}}\n");
    dir.parquet("a.parquet", &[("id", numbers.clone()), ("Texts", numbers)], 1);
    for (format, last) in [(Format::Csv, "`other`"), (Format::Jsonl, "`doc.body`"), (Format::Parquet, "`id`")]
    {
        let parts = ["no column `text`", "there are `Texts`", last];
        fails(read(&dir.source(format), 1).await, Kind::Job, &parts);
    }
    let source = Source { text: vec!["Texts".into()], ..dir.source(Format::Parquet) };
    fails(read(&source, 1).await, Kind::Job, &["Int64"]);
    fails(read(&dir.source(Format::Text), 1).await, Kind::Job, &["path"]);
}

#[derive(Debug, PartialEq)]
struct Row {
    source: String,
    position: u64,
    id: Option<String>,
    text: Option<String>,
    defect: Option<String>,
}

/// Rows in order of file and position.
#[derive(Debug)]
struct Rows(Vec<Row>);

impl Rows {
    fn ids(&self) -> Vec<Option<&str>> {
        self.0.iter().map(|row| row.id.as_deref()).collect()
    }

    fn texts(&self) -> Vec<Option<&str>> {
        self.0.iter().map(|row| row.text.as_deref()).collect()
    }

    fn defects(&self) -> Vec<Option<&str>> {
        self.0.iter().map(|row| row.defect.as_deref()).collect()
    }

    fn places(&self) -> Vec<(&str, u64)> {
        self.0.iter().map(|row| (row.source.rsplit('/').next().unwrap(), row.position)).collect()
    }
}

/// A session that splits whatever it may.
fn session(partitions: usize) -> SessionContext {
    let config = SessionConfig::new()
        .with_target_partitions(partitions)
        .set_usize("datafusion.optimizer.repartition_file_min_size", 1)
        .set_bool("datafusion.optimizer.repartition_file_scans", true);
    SessionContext::new_with_config(config)
}

async fn read(source: &Source, partitions: usize) -> Result<Rows> {
    let frame = open(&session(partitions), source).await?.frame;
    let names: Vec<_> = frame.schema().fields().iter().map(|f| f.name().clone()).collect();
    assert_eq!(names, ["source", "position", "id", "text", "defect"]);
    let mut rows = Vec::new();
    for batch in frame.collect().await.map_err(Error::from)? {
        let strings = |i: usize| cast(batch.column(i), &DataType::LargeUtf8).unwrap();
        let [sources, ids, texts, defects] = [0, 2, 3, 4].map(strings);
        let positions = batch.column(1).as_primitive::<UInt64Type>();
        let string = |array: &ArrayRef, i: usize| {
            array.is_valid(i).then(|| array.as_string::<i64>().value(i).to_owned())
        };
        for i in 0..batch.num_rows() {
            rows.push(Row {
                source: string(&sources, i).unwrap(),
                position: positions.value(i),
                id: string(&ids, i),
                text: string(&texts, i),
                defect: string(&defects, i),
            });
        }
    }
    rows.sort_by(|a, b| (&a.source, a.position).cmp(&(&b.source, b.position)));
    Ok(Rows(rows))
}

async fn failure(source: &Source, partitions: usize) -> String {
    fails(read(source, partitions).await, Kind::Input, &[])
}

fn columns(names: &[&str]) -> SourceId {
    SourceId::Columns(names.iter().map(|name| name.to_string()).collect())
}

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.0.path().display())
    }

    fn source(&self, format: Format) -> Source {
        Source {
            format,
            encoding: Encoding::Utf8,
            urls: vec![self.path("")],
            table_versions: Vec::new(),
            id: columns(&["id"]),
            id_separator: "-".into(),
            text: vec!["text".into()],
            columns: Vec::new(),
            group: None,
            condition: None,
            limit: None,
            forgotten: None,
            duplicate_ids: DuplicateIds::Error,
            on_error: OnError::Error,
            max_text: 1 << 27,
            csv: Csv::new(b','),
            references: References::Decode,
            html: None,
        }
    }

    fn write(&self, name: &str, text: &str) {
        self.write_bytes(name, text.as_bytes());
    }

    fn write_bytes(&self, name: &str, bytes: &[u8]) {
        write_file(&self.0, name, bytes);
    }

    fn gzip(&self, name: &str, text: &str) {
        self.write_bytes(name, &gzipped(text));
    }

    fn zstd(&self, name: &str, text: &str) {
        self.write_bytes(name, &zstd::encode_all(text.as_bytes(), 1).unwrap());
    }

    fn parquet(&self, name: &str, columns: &[(&str, ArrayRef)], rows: usize) {
        let batch = RecordBatch::try_from_iter(columns.iter().cloned()).unwrap();
        write_batch(Path::new(&self.path(name)), &batch, rows);
    }
}

fn json(text: &str) -> String {
    format!("{{\"id\":\"{text}\",\"text\":\"{text}\"}}\n")
}

/// A column of ids from 1 on.
fn ids(count: i64) -> (&'static str, ArrayRef) {
    ("id", Arc::new(Int64Array::from_iter_values(1..=count)))
}

/// `id,text\n4,bzip2\n5,two streams\n` in two streams, by Python.
const BZIP2: &[u8] = b"BZh91AY&SY\xDB-\xAC\x00\x00\x00\x03\xD9\x80\x00\x10\x00\x04\x04\x00\x16 \x04P \x00\x22\x06\x9Ai\
\xA1\x000@\x8CE\xBCo\xC5\xDC\x91N\x14$6\xCBk\x00\x00BZh91AY&SY\xC6Q\x9F\xA3\x00\x00\x04Y\x80\x00\x10@\x04\x12\x00\
\x22\x22\xDC\x80 \x00\x22\x13LC\xD4\xF5=B\x98\x00\x0C\x91}\xAE\x18\x08\xA5\xE2\xA7\xE2\xEEH\xA7\x0A\x12\x18\xCA3\xF4`";

/// `id,text\n6,xz\n`, by Python.
const XZ: &[u8] =
    b"\xFD7zXZ\x00\x00\x04\xE6\xD6\xB4F\x02\x00!\x01\x0C\x00\x00\x00\x8F\x98A\x9C\x01\x00\x0Cid,text\x0A\
6,xz\x0A\x00\x00\x00\x00\x9BW,\xC3\x05M%q\x00\x01%\x0Dq\x19\xC4\xB6\x1F\xB6\xF3}\x01\x00\x00\x00\x00\x04YZ";
