//! `show` and `neighbors --show`: pairs and clusters with their texts, compared with the documents that were written.

use crate::support::*;

fn show(output: &Path, arguments: &[&str]) -> assert_cmd::assert::Assert {
    resemblance().arg("show").arg(output).args(arguments).assert()
}

fn lines(output: &Path, arguments: &[&str]) -> Vec<Value> {
    printed(output, arguments).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn printed(output: &Path, arguments: &[&str]) -> String {
    show(output, &[arguments, &["--json"]].concat()).shown(&[])
}

fn text(line: &Value, key: &str) -> String {
    line[key].as_str().unwrap_or_else(|| panic!("no text {key} in {line}")).to_owned()
}

fn ids(line: &Value) -> (String, String) {
    (text(line, "id_a"), text(line, "id_b"))
}

/// A finished output of 60 documents, some of them copies and some changed copies, and the documents.
fn output() -> (TempDir, PathBuf, Vec<Document>) {
    let folder = tempdir().unwrap();
    let documents = corpus(17, 60, 40);
    let (source, output) = (folder.path().join("in.parquet"), folder.path().join("out"));
    write_parquet(&source, &documents, 7);
    run(&job(&source, &output, &["score.threshold=0.3"])).unwrap();
    (folder, output, documents)
}

/// The words of a text that a place tells, lowercase.
fn words_at(line: &Value, key: &str, place: &Value) -> Vec<String> {
    let (start, end) = (place["start"].as_u64().unwrap() as usize, place["end"].as_u64().unwrap() as usize);
    let cut: String = text(line, key).chars().skip(start).take(end - start).collect();
    cut.to_lowercase().split_whitespace().map(str::to_owned).collect()
}

#[test]
fn texts_of_every_format_are_shown() {
    let path = paths();
    let documents = corpus(18, 40, 40);
    for (number, format) in formats(&documents).iter().enumerate() {
        let (source, output) = (path(&format!("in{number}")), path(&format!("out{number}")));
        format.write(&source);
        let job = path("job.toml");
        let source = format.source(&format!("{}/", source.display()));
        std::fs::write(&job, format!("[source]\n{source}[output]\nurl = {output:?}\n")).unwrap();
        resemblance().arg("run").arg(&job).assert().success();
        let shown = lines(&output, &["--top", "1000"]);
        assert!(shown.len() > 5, "{} pairs of {}", shown.len(), format.name);
        assert_eq!(shown.iter().map(ids).collect::<BTreeSet<_>>(), pairs(&output).into_keys().collect());
        for line in &shown {
            for (id, shown) in [("id_a", "text_a"), ("id_b", "text_b")] {
                let id = text(line, id).trim_end_matches(".txt").to_owned();
                let (_, written) = documents.iter().find(|document| document.0 == id).unwrap();
                assert_eq!(&text(line, shown), written, "{id} of {}", format.name);
            }
            for passage in line["passages"].as_array().unwrap() {
                let words = words_at(line, "text_a", &passage["a"]);
                assert_eq!(words, words_at(line, "text_b", &passage["b"]), "{line}");
                assert!(words.len() >= 3, "shorter than a shingle: {words:?}");
            }
            let whole = line["text_a"] == line["text_b"];
            assert!(!whole || line["passages"].as_array().unwrap().len() == 1, "{line}");
        }
    }
}

/// An earlier output that was made again has other texts: none of them is shown for what was compared.
#[test]
fn the_text_of_a_known_output_is_the_one_that_was_compared() {
    let path = paths();
    let documents = corpus(26, 60, 40);
    let (known, own) = documents.split_at(30);
    write_parquet(&path("reference.parquet"), known, 30);
    write_parquet(&path("own.parquet"), own, 30);
    let earlier =
        job(&path("reference.parquet"), &path("earlier"), &["output.keep=shingles", "minhash.bits=32"]);
    run(&earlier).unwrap();
    let against = format!("against.output={:?}", path("earlier").display());
    run(&job(&path("own.parquet"), &path("out"), &[&against, "score.threshold=0.3"])).unwrap();
    let shown = lines(&path("out"), &["--top", "1000"]);
    let with_known = shown.iter().filter(|line| line["reference_b"] == true);
    assert!(with_known.count() > 3);

    let others: Vec<Document> =
        known.iter().map(|(id, text)| (id.clone(), format!("another {text}"))).collect();
    write_parquet(&path("reference.parquet"), &others, 30);
    std::fs::remove_dir_all(path("earlier")).unwrap();
    run(&earlier).unwrap();
    let said = show(&path("out"), &["--top", "1000"]).failure().refused(3, &[]);
    let named = ["earlier", "out"].map(|name| path(name).display().to_string());
    assert!(said.contains("was made again") && named.iter().all(|name| said.contains(name)), "{said}");
}

/// Passages are looked for in the first 100,000 words: for longer texts, a note says that there may be more.
#[test]
fn incomplete_passages_are_reported() {
    let folder = tempdir().unwrap();
    let words = |count: usize| (0..count).map(|n| format!("w{n}")).collect::<Vec<_>>().join(" ");
    let (long, short) = (words(100_010), words(67_000));
    let texts = [("a", format!("{long} one two three")), ("b", format!("{long} four")), ("c", short)];
    let documents = texts.map(|(id, text)| (id.to_owned(), text));
    write_parquet(&folder.path().join("in.parquet"), &documents, 30);
    let output = folder.path().join("out");
    run(&job(&folder.path().join("in.parquet"), &output, &[])).unwrap();
    for line in lines(&output, &["--top", "9"]) {
        let end = line["passages"].as_array().unwrap().last().unwrap()["a"]["end"].as_u64().unwrap() as usize;
        let (first, second) = ids(&line);
        assert_eq!(line["passages_complete"], false, "{first} {second}");
        assert!(end < text(&line, "text_a").len(), "{first} {second}");
    }
    show(&output, &["--top", "1"]).shown(&["marked only in the first 100,000 words of each text"]);
    let (_folder, short, _) = crate::cli::show::output();
    assert!(lines(&short, &["--top", "99"]).iter().all(|line| line["passages_complete"] == true));
}

#[test]
fn the_most_and_the_least_similar_come_first() {
    let (_folder, output, _) = output();
    let mut sorted: Vec<_> = pairs(&output).into_iter().collect();
    sorted.sort_by(|(a, one), (b, other)| other.total_cmp(one).then_with(|| a.cmp(b)));
    let first = |found: &[Value]| found.iter().map(ids).collect::<Vec<_>>();
    let names =
        |pairs: &[((String, String), f64)]| pairs.iter().map(|pair| pair.0.clone()).collect::<Vec<_>>();
    assert_eq!(first(&lines(&output, &["--top", "7"])), names(&sorted[..7]));
    assert_eq!(first(&lines(&output, &[])), names(&sorted[..3]));
    sorted.sort_by(|(a, one), (b, other)| one.total_cmp(other).then_with(|| a.cmp(b)));
    assert_eq!(first(&lines(&output, &["--pairs", "least-similar", "--top", "7"])), names(&sorted[..7]));

    let id = &sorted[0].0.0;
    let of: Vec<_> = sorted.iter().filter(|((a, b), _)| a == id || b == id).cloned().collect();
    assert_eq!(first(&lines(&output, &["--id", id, "--pairs", "least-similar", "--top", "99"])), names(&of));
    let jaccard = lines(&output, &["--pairs", "least-similar"])[0]["jaccard"].as_f64().unwrap();
    assert_eq!(jaccard, sorted[0].1);
}

#[test]
fn random_pairs_are_the_same_for_a_seed_and_any_for_another() {
    let (_folder, output, _) = output();
    let all: BTreeSet<_> = pairs(&output).into_keys().collect();
    let drawn = |arguments: &[&str]| {
        let found = lines(&output, &[&["--pairs", "random"], arguments].concat());
        found.iter().map(ids).collect::<Vec<_>>()
    };
    assert_eq!(drawn(&["--seed", "7"]), drawn(&["--seed", "7"]));
    assert_eq!(drawn(&["--top", "9999"]).into_iter().collect::<BTreeSet<_>>(), all);
    // Every pair is drawn by some seed, and about as often as another.
    let mut times = BTreeMap::new();
    let few = 5.0 / all.len() as f64;
    for seed in 0..15 {
        let found = drawn(&["--seed", &seed.to_string(), "--top", "5"]);
        assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), 5);
        found.into_iter().for_each(|pair| *times.entry(pair).or_insert(0) += 1);
    }
    let expected = 15.0 * few;
    assert!(times.len() as f64 > 0.7 * (all.len() as f64).min(75.0), "{} of {}", times.len(), all.len());
    assert!(f64::from(*times.values().max().unwrap()) < 6.0 * expected.max(2.0), "{times:?}");
}

#[test]
fn a_cluster_is_shown_beside_its_representative() {
    let (_folder, output, documents) = output();
    let clusters = table(&output, "clusters");
    let (members, of) = (strings(&clusters, "id"), strings(&clusters, "cluster_id"));
    let mut by_cluster: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (id, cluster) in members.iter().zip(&of) {
        by_cluster.entry(cluster).or_default().insert(id);
    }
    let (cluster, members) = by_cluster.into_iter().max_by_key(|(_, members)| members.len()).unwrap();
    assert!(members.len() > 3, "{members:?}");
    let asked = members.last().unwrap();
    let shown = lines(&output, &["--cluster", asked, "--top", "100"]);
    let representative = text(&shown[0], "id_a");
    let others: Vec<&str> = members.iter().copied().filter(|id| **id != *representative).collect();
    assert_eq!(shown.iter().map(|line| text(line, "id_b")).collect::<Vec<_>>(), others);
    let written = |id: &str| documents.iter().find(|document| document.0 == id).unwrap().1.clone();
    let all = printed(&output, &["--cluster", asked, "--top", "100"]);
    for (line, printed) in shown.iter().zip(all.lines()) {
        assert_eq!(text(line, "cluster_id").as_str(), cluster);
        assert_eq!(text(line, "id_a"), representative.clone());
        let [a, b] = ["id_a", "id_b"].map(|id| shingles(&written(&text(line, id)), 3));
        let shared = a.intersection(&b).count() as f64;
        // Compared as text: the reader of JSON may be one unit off in the last place.
        let numbers = [
            ("jaccard", shared / a.union(&b).count() as f64),
            ("containment_a", shared / a.len() as f64),
            ("containment_b", shared / b.len() as f64),
        ];
        for (name, number) in numbers {
            let number = format!("\"{name}\":{}", Value::from(number));
            assert!(printed.contains(&number), "{number} in {printed}");
        }
    }
    let head = format!("cluster {cluster}: {} documents, represented by {representative}", members.len());
    let left = members.len() - 2;
    let more = format!("{left} more documents are not shown; --top {}", left + 1);
    let one = show(&output, &["--cluster", asked, "--top", "1"]).shown(&[&more]);
    assert!(one.starts_with(&head) && one.matches("\njaccard ").count() == 1, "{one}");
}

#[test]
fn ids_that_are_numbers_stay_numbers() {
    let path = paths();
    let (source, output) = (path("in.parquet"), path("out"));
    let documents = corpus(19, 30, 30);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values((0..30).map(|i| i * 7 - 100)))),
        ("text", Arc::new(StringArray::from_iter_values(documents.iter().map(|d| &d.1)))),
    ];
    write_batch(&source, &RecordBatch::try_from_iter(columns).unwrap(), 50);
    run(&job(&source, &output, &[])).unwrap();
    for line in lines(&output, &["--top", "5"]) {
        let at = |key: &str| documents[((line[key].as_i64().unwrap() + 100) / 7) as usize].1.clone();
        assert_eq!((text(&line, "text_a"), text(&line, "text_b")), (at("id_a"), at("id_b")));
    }
    let id = lines(&output, &["--top", "1"])[0]["id_a"].to_string();
    show(&output, &["--id", &id]).success();
    show(&output, &["--id", "seven"]).refused(2, &["whole numbers"]);
}

#[test]
fn missing_pairs_and_clusters_are_reported() {
    let (folder, output, documents) = output();
    let in_pairs: BTreeSet<String> = pairs(&output).into_keys().flat_map(|(a, b)| [a, b]).collect();
    let lonely = &documents.iter().find(|document| !in_pairs.contains(&document.0)).unwrap().0;
    show(&output, &["--id", lonely]).success().stdout(format!("{lonely} is in no pair\n"));
    assert_eq!(lines(&output, &["--id", lonely]).len(), 0);
    show(&output, &["--cluster", lonely]).refused(2, &["in no cluster"]);
    show(&output, &["--id", "d0000x"]).refused(2, &["near it"]);
    show(&output, &["--top", "0"]).refused(2, &["from 1 to 1000000"]);
    show(&output, &["--cluster", lonely, "--id", lonely]).code(2);
    show(&output, &["--cluster", lonely, "--pairs", "random"]).code(2);
    show(folder.path(), &[]).refused(3, &["no finished output"]);
    show(&output, &[]).shown(&["more pairs are not shown; --top"]);
}

#[test]
fn neighbors_are_shown_beside_the_document() {
    let (folder, output, documents) = output();
    let (id, _) = pairs(&output).into_keys().next().unwrap();
    let written = &documents.iter().find(|document| document.0 == id).unwrap().1;
    let file = write_file(&folder, "some.txt", written);
    let ask = |arguments: &[&str]| {
        let found = resemblance().arg("neighbors").arg(&output).args(arguments).args(["--show"]).assert();
        found.shown(&[])
    };
    let left = |shown: &str| {
        let (_, side) = shown.split_once("\njaccard ").unwrap();
        let lines = side.lines().skip(3).map(|line| line.split(" | ").next().unwrap().trim());
        let text = lines.collect::<Vec<_>>().join(" ").replace(']', "");
        // The number of a passage precedes its first word.
        let words = text.split_whitespace().filter(|word| !(word.starts_with('[') && word.ends_with(':')));
        words.collect::<Vec<_>>().join(" ")
    };
    for arguments in [["--id", &id], ["--text", file.to_str().unwrap()]] {
        let shown = ask(&arguments);
        assert_eq!(&left(&shown), written);
        let name = shown.lines().skip_while(|line| !line.starts_with("jaccard ")).nth(1).unwrap();
        assert!(name.starts_with(&arguments[1][..20.min(arguments[1].len())]), "{shown}");
    }
    let both = program!["neighbors", &output, "--id", &id, "--show", "2", "--json"].assert();
    both.refused(2, &["cannot be used with"]);
    std::fs::remove_file(folder.path().join("in.parquet")).unwrap();
    program!["neighbors", &output, "--id", &id, "--show"].assert().code(3);
}
