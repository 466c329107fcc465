//! `resemblance generate --from`: documents planted into texts that exist.

use crate::support::*;

/// Texts of words with capitals, in a CSV file whose columns have other names.
fn source(path: &Path, count: usize) -> BTreeMap<String, String> {
    let mut random = Random(5);
    let mut writer = csv::Writer::from_path(path).unwrap();
    writer.write_record(["number", "body", "stars"]).unwrap();
    let mut documents = BTreeMap::new();
    for number in 0..count {
        let words: Vec<String> = (0..60).map(|_| format!("W{}", random.below(100_000))).collect();
        let text = format!("{}\n\n{}", words[..30].join(" "), words[30..].join("  "));
        let id = format!("n{number}");
        writer.write_record([id.as_str(), text.as_str(), "5"]).unwrap();
        documents.insert(id, text);
    }
    writer.write_record(["empty", "", "1"]).unwrap();
    writer.flush().unwrap();
    documents
}

#[test]
fn the_truth_is_that_of_the_texts_and_is_found() {
    let path = paths();
    let (input, out, truth) = (path("in.csv"), path("planted.parquet"), path("truth.parquet"));
    let originals = source(&input, 600);
    let options = "--text body --id number -k 3 --near 0.2 --jaccards 0.9,0.6 --contained 0.05 --boilerplate 0.05 \
                   --boilerplate-words 12 --json";
    let generate = |out: &Path, truth: &Path, more: &[&str]| {
        let mut generate = program!["generate", out, "--from", &input, "--truth", truth];
        generate.args(options.split(' ')).args(more).assert()
    };
    let record = generate(&out, &truth, &[]).json();
    let documents: BTreeMap<String, String> =
        cells(&out, &["id", "text"]).into_iter().map(|row| (row[0].clone(), row[1].clone())).collect();
    let planted = cells(&truth, &["id_a", "id_b", "kind", "jaccard"]);
    assert_eq!(record["truth"]["rows"], planted.len());
    // The empty text is no document to plant into, and is written as it is or left out.
    let left_out = record["left_out"].as_u64().unwrap() as usize;
    assert_eq!(documents.len() + left_out, 601 + planted.len());
    for (id, text) in &originals {
        assert_eq!(documents[id], *text, "an original has changed");
    }
    let mut kinds: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for row in &planted {
        let (a, b) = (shingles(&documents[&row[0]], 3), shingles(&documents[&row[1]], 3));
        let shared = a.intersection(&b).count() as f64;
        let jaccard: f64 = row[3].parse().unwrap();
        assert_eq!(jaccard, shared / (a.len() as f64 + b.len() as f64 - shared), "{row:?}");
        assert!(row[0] < row[1] && originals.contains_key(&row[0]) != originals.contains_key(&row[1]));
        kinds.entry(&row[2]).or_default().push(jaccard);
    }
    assert_eq!(kinds.keys().copied().collect::<Vec<_>>(), ["contained", "copy", "header", "near"]);
    assert!(kinds["copy"].iter().all(|jaccard| *jaccard == 1.0));
    // A text of 58 runs changes in steps of about 0.05.
    let near = &kinds["near"];
    let close = |target: f64| near.iter().filter(|found| (*found - target).abs() < 0.05).count();
    assert!(near.len() > 100 && close(0.9) + close(0.6) == near.len(), "{near:?}");
    assert!(close(0.9).abs_diff(close(0.6)) <= 1);

    let output = path("out");
    run(&job(&out, &output, &["candidates.method=all", "score.threshold=0.4", "output.max_expand=0"]))
        .unwrap();
    let known = planted.iter().filter(|row| row[3].parse::<f64>().unwrap() >= 0.4).count();
    let evaluated = program!["evaluate", &output, "--truth", &truth, "--json"].assert().json();
    assert_eq!(evaluated["truth"]["known"], planted.len());
    assert_eq!(evaluated["truth"]["both"], known);

    // The seed decides, and other files are not replaced.
    let again = path("again.parquet");
    generate(&again, &path("again-truth.parquet"), &[]).success();
    let columns = ["id", "text"];
    assert_eq!(cells(&again, &columns), cells(&out, &columns));
    generate(&again, &truth, &["--overwrite", "--seed", "2"]).success();
    assert_ne!(cells(&again, &columns), cells(&out, &columns));
    generate(&out, &truth, &[]).code(2);
}

#[test]
fn any_format_is_read_and_wrong_places_are_refused() {
    let folder = tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    for number in 0..20 {
        let text = (0..40).map(|word| format!("w{number}x{word} ")).collect::<String>();
        write_file(&folder, &format!("texts/{number}.txt"), text);
    }
    let generate = |arguments: &[&str]| resemblance().arg("generate").args(arguments).assert();
    let (out, texts) = (path("out.parquet"), path("texts"));
    generate(&[&out, "--from", &texts, "--copies", "0.5", "--near", "0", "--contained", "0"]).success();
    let written = cells(Path::new(&out), &["id", "text"]);
    assert!(written.len() > 25 && written.iter().any(|row| row[0].ends_with("~copy")), "{}", written.len());
    generate(&[&path("few.parquet"), "--from", &texts, "--documents", "3", "--copies", "0", "--near", "0"])
        .success();
    for (to, more, said) in [
        ("folder", &["--from", &texts][..], "ends in .parquet"),
        ("texts/out.parquet", &["--from", &texts], "lies in"),
        ("a.parquet", &["--from", &texts, "--near", "0.6"], "at most 0.5"),
        ("a.parquet", &["--from", &texts, "--words", "9"], "cannot be used with"),
        ("a.parquet", &[], "--documents"),
    ] {
        generate(&[&[path(to).as_str()][..], more].concat()).refused(2, &[said]);
    }
    assert!(!Path::new(&path("a.parquet")).exists());
}
