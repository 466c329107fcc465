//! `find --contains`, `find --top` and `find --rejects`.

use crate::support::*;

/// Texts, excerpts of different lengths from them, and the ids of both.
fn with_excerpts() -> Vec<Document> {
    let mut documents = corpus(11, 30, 80);
    for at in 0..20 {
        let words: Vec<&str> = documents[at].1.split(' ').collect();
        let inside = words[10..16 + at].join(" ");
        let own: Vec<String> = (0..12).map(|word| format!("own{at}x{word}")).collect();
        documents.push((format!("excerpt{at:02}"), format!("{inside} {}", own.join(" "))));
    }
    documents
}

/// A share with nine digits, because the JSON parser is not exact to the last bit.
fn rounded(share: f64) -> f64 {
    (share * 1e9).round() / 1e9
}

/// The pairs of which at least `share` of the smaller set is in the other, with this share.
fn contained(documents: &[Document], share: f64) -> BTreeMap<(String, String), f64> {
    let sets: Vec<_> = documents.iter().map(|(id, text)| (id, shingles(text, 5))).collect();
    let mut pairs = BTreeMap::new();
    for (at, (id, set)) in sets.iter().enumerate() {
        for (other_id, other) in &sets[at + 1..] {
            let found = set.intersection(other).count() as f64 / set.len().min(other.len()) as f64;
            if found >= share {
                let key = if id < other_id { (id, other_id) } else { (other_id, id) };
                pairs.insert((key.0.to_string(), key.1.to_string()), rounded(found));
            }
        }
    }
    pairs
}

fn find(data: &Path, arguments: &[&str]) -> assert_cmd::assert::Assert {
    resemblance().arg("find").arg(data).args(arguments).assert()
}

/// (pair, the larger containment) of each line, in the order of the lines.
fn lines(shown: &str) -> Vec<((String, String), f64)> {
    let row = |line: &str| {
        let row: Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| row[name].as_str().unwrap().to_owned();
        let share = |name: &str| row[name].as_f64().unwrap();
        ((text("id_a"), text("id_b")), rounded(share("containment_a").max(share("containment_b"))))
    };
    shown.lines().map(row).collect()
}

#[test]
fn contains_finds_every_document_of_which_the_share_is_in_another() {
    let folder = tempdir().unwrap();
    let (data, documents) = (folder.path().join("in.parquet"), with_excerpts());
    write_parquet(&data, &documents, 20);
    for share in ["0.2", "0.5", "1"] {
        let found = lines(&find(&data, &["--contains", share, "--json"]).shown(&[]));
        let expected = contained(&documents, share.parse().unwrap());
        assert!(found.is_sorted_by(|(_, a), (_, b)| a >= b), "{found:?}");
        assert_eq!(found.into_iter().collect::<BTreeMap<_, _>>(), expected, "{share}");
    }
    let half = contained(&documents, 0.5).len();
    assert!(contained(&documents, 0.2).len() > half && half > 5, "{half}");
    // By Jaccard, the excerpts are far from their texts, and bands do not find them.
    let excerpts = |options: &[&str]| find(&data, options).shown(&[]).matches("| excerpt").count();
    assert_eq!(excerpts(&["-t", "0.5"]), 0);
    let text = find(&data, &["--contains", "0.5"]).shown(&[]);
    let last = format!("{half} pairs of containment 0.5 or more among 50 documents\n");
    assert!(text.ends_with(&last), "{text}");
    assert_eq!(find(&data, &["--contains", "0.5", "--all"]).shown(&[]), text);
    find(&data, &["--contains", "0.5", "-t", "0.5"]).refused(2, &["cannot be used with"]);
    find(&data, &["--contains", "0"]).refused(2, &["--contains", "over 0 and at most 1"]);
}

#[test]
fn top_prints_the_most_similar_pairs_and_counts_all() {
    let folder = tempdir().unwrap();
    let (data, documents) = (folder.path().join("in.parquet"), with_excerpts());
    write_parquet(&data, &documents, 20);
    for search in [&["-t", "0.1", "--all"][..], &["--contains", "0.2"]] {
        let shown = |more: &[&str]| find(&data, &[search, more].concat()).shown(&[]);
        let all = shown(&["--json"]);
        let count = all.lines().count();
        assert!(count > 3, "{all}");
        let first: Vec<&str> = all.lines().take(3).collect();
        assert_eq!(shown(&["--json", "--top", "3"]).lines().collect::<Vec<_>>(), first);
        let text = shown(&["--top", "3"]);
        let hidden = format!("{} more pairs are not shown; --top {count} shows all\n", count - 3);
        assert!(text.contains(&format!("{count} pairs of ")) && text.ends_with(&hidden), "{text}");
        assert_eq!(text.lines().filter(|line| line.starts_with("| ")).count(), 4, "{text}");
        assert_eq!(shown(&["--top", "1000"]), shown(&[]));
    }
    // The texts are those of the first pairs, by the same measure.
    let (most, _) = lines(&find(&data, &["--contains", "0.2", "--json"]).shown(&[])).swap_remove(0);
    let text = find(&data, &["--contains", "0.2", "--top", "1", "--show"]).shown(&[]);
    let (_, sides) = text.split_once(" shows all\n").unwrap();
    assert!(sides.contains(&most.0) && sides.contains(&most.1), "{sides} is not {most:?}");
    find(&data, &["--top", "0"]).refused(2, &["--top", "from 1 to 1000000"]);
}

#[test]
fn rejects_are_written_with_their_reasons() {
    let folder = tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let text = "a longer text that has more words than a shingle needs";
    let rows = format!("{{\"id\":\"a\",\"text\":\"{text}\"}}\n")
        + "{\"id\":\"b\",\"text\":\"\"}\n{\"id\":\"c\"}\n[1]\n"
        + &format!("{{\"id\":\"e\",\"text\":\"{text}\"}}\n");
    let [file, readme] = [("in/a.jsonl", rows.as_str()), ("in/README.md", "about")]
        .map(|(name, text)| write_file(&folder, name, text).canonicalize().unwrap().display().to_string());
    let expected: [[&str; 4]; 4] = [
        [&readme, "", "", "left_out"],
        [&file, "1", "b", "empty_text"],
        [&file, "2", "c", "missing_text"],
        [&file, "3", "", "malformed"],
    ];
    let write = |name: &str| {
        let path = at(name).display().to_string();
        find(&at("in"), &["--rejects", &path]).shown(&["1 pair"]);
        at(name)
    };
    let records = csv_records(&std::fs::read_to_string(write("rejects.csv")).unwrap());
    assert_eq!(records[0], ["source", "position", "id", "reason", "remedy"]);
    let first = records[1..].iter().map(|record| &record[..4]);
    assert!(first.eq(expected.iter().map(|row| row.as_slice())), "{records:?}");
    let advice = ["name it itself", "fill in the text, or remove", "--text", "correct the row"];
    let remedies = records[1..].iter().map(|record| &record[4]);
    assert!(remedies.zip(advice).all(|(remedy, advice)| remedy.contains(advice)), "{records:?}");
    let lines = std::fs::read_to_string(write("rejects.jsonl")).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let second =
        json!({"source": file, "position": 1, "id": "b", "reason": "empty_text", "remedy": records[2][4]});
    assert_eq!(lines[1], second);
    assert_eq!((lines.len(), &lines[0]["position"]), (4, &Value::Null));
    let table = parquet(&write("rejects.parquet"));
    assert_eq!(table.num_rows(), 4);
    assert_eq!(strings(&table, "reason"), expected.map(|row| row[3].to_owned()));
    // The file must be new and of a known format, which is checked before the run.
    let refused = |name: &str, parts: &[&str]| {
        find(&at("in"), &["-v", "--rejects", &at(name).display().to_string()]).refused(2, parts)
    };
    let said = refused("rejects.csv", &["rejects.csv exists"]);
    assert!(!said.contains("stage="), "{said}");
    refused("no/rejects.csv", &["folder that does not exist"]);
    refused("rejects.txt", &["--rejects", "ends in .csv, .jsonl or .parquet"]);
}

#[test]
fn without_rejects_the_file_has_its_columns() {
    let at = paths();
    write_parquet(&at("in.parquet"), &corpus(3, 5, 20), 10);
    for name in ["none.csv", "none.jsonl", "none.parquet"] {
        find(&at("in.parquet"), &["--rejects", &at(name).display().to_string()]).success();
    }
    assert_eq!(std::fs::read_to_string(at("none.csv")).unwrap(), "source,position,id,reason,remedy\n");
    assert_eq!(std::fs::read_to_string(at("none.jsonl")).unwrap(), "");
    let table = parquet(&at("none.parquet"));
    assert_eq!((table.num_rows(), table.num_columns()), (0, 5));
}
