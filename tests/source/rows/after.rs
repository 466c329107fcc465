//! Commands and stages that read a source again: `apply`, `show`, passages.

use super::*;

fn apply(source: &Source, to: &str, more: &[&str]) -> Value {
    printed(resemblance().arg("apply").arg(source.path("out")).arg("--to").arg(source.path(to)).args(more))
}

const SETS: [&str; 2] = ["source.where=stars > 1", "source.limit=70"];

#[test]
fn apply_keeps_rows_that_were_left_out() {
    let all = rows(91, 160);
    for ending in ["parquet", "csv", "jsonl"] {
        let source = Source::new();
        let files = [("a", &all[..60]), ("b", &all[60..])];
        files.iter().for_each(|(name, rows)| write(&source.path(&format!("in/{name}.{ending}")), rows));
        let outcome = run(&source.job(ending, "out", &SETS)).unwrap();
        let counts = outcome.manifest.counts;
        let gone = removed(&source.path("out"));
        assert!(counts.documents == 70 && !gone.is_empty(), "{counts:?}");
        let stays: Vec<Row> = all.iter().filter(|row| !gone.contains(&row.id)).cloned().collect();
        for (name, rows) in files {
            let kept: Vec<Row> = rows.iter().filter(|row| !gone.contains(&row.id)).cloned().collect();
            write(&source.path(&format!("expected/{name}.{ending}")), &kept);
        }
        let said = apply(&source, "to", &[]);
        let expected = [("read", 160), ("kept", stays.len()), ("removed", gone.len()), ("rejected", 0)];
        for (key, number) in expected {
            assert_eq!(said[key], number, "{ending} {key}: {said}");
        }
        assert_eq!(apply(&source, "other", &["--dry-run"])["kept"], stays.len());
        for (name, _) in files {
            let file = format!("{name}.{ending}");
            let (kept, expected) = (source.path("to").join(&file), source.path("expected").join(&file));
            match ending {
                "parquet" => assert_eq!(parquet(&kept), parquet(&expected)),
                _ => assert_eq!(std::fs::read(kept).unwrap(), std::fs::read(expected).unwrap(), "{file}"),
            }
        }
        apply(&source, "annotated", &["--annotate"]);
    }
}

#[test]
fn apply_keeps_stories_and_files_that_were_left_out() {
    let documents = corpus(92, 80, 25);
    for format in
        formats::formats(&documents).into_iter().filter(|format| matches!(format.name, "reuters" | "text"))
    {
        let source = Source::new();
        format.write(&source.path("in"));
        let text = format!(
            "[source]\n{}limit = 60\n[shingle]\nsize = 3\n[score]\nthreshold = 0.5\n[output]\nurl = {:?}\n",
            format.source(&source.path("in").to_string_lossy()),
            source.path("out")
        );
        std::fs::write(source.path("job.toml"), text).unwrap();
        resemblance().arg("run").arg(source.path("job.toml")).assert().success();
        let gone = removed(&source.path("out"));
        let counts = manifest(&source.path("out")).counts;
        assert!(counts.documents + counts.rejects == 60 && !gone.is_empty(), "{counts:?}");
        let said = apply(&source, "to", &[]);
        assert_eq!((&said["read"], &said["kept"]), (&80.into(), &(80 - gone.len()).into()), "{said}");
        let to = source.path("to");
        let files = files::files(&to).into_keys();
        let files = files.filter(|path| !path.strip_prefix(&to).unwrap().starts_with("_resemblance"));
        let kept: BTreeSet<String> = match format.name {
            "text" => files.map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect(),
            _ => files.flat_map(|path| strings(&parquet(&path), "id")).collect(),
        };
        let name = |id: &String| if format.name == "text" { format!("{id}.txt") } else { id.clone() };
        let expected: BTreeSet<String> =
            documents.iter().map(|(id, _)| name(id)).filter(|id| !gone.contains(id)).collect();
        assert_eq!(kept, expected, "{}", format.name);
    }
}

/// Positions stay the numbers of rows in their files, so texts are found again.
#[test]
fn texts_are_found_again_by_their_places() {
    let all = rows(93, 120);
    let text = |id: &str| all.iter().find(|row| row.id == id).unwrap().text.clone();
    for ending in ["parquet", "csv", "jsonl"] {
        let source = Source::new();
        write(&source.path(&format!("in/a.{ending}")), &all);
        let sets = [&SETS[..], &["output.pair_passages=true", "candidates.method=lsh"]].concat();
        run(&source.job(ending, "out", &sets)).unwrap();
        let documents = table(&source.path("out"), "documents");
        for (id, position) in strings(&documents, "id").into_iter().zip(numbers(&documents, "position")) {
            assert_eq!(all[position as usize].id, id, "{ending}");
        }
        let shown =
            program!["show", source.path("out"), "--pairs", "most-similar", "--json"].assert().shown(&[]);
        let first: Value = serde_json::from_str(shown.lines().next().unwrap()).unwrap();
        let ids = ["id_a", "id_b"].map(|key| first[key].as_str().unwrap().to_owned());
        for (id, key) in ids.iter().zip(["text_a", "text_b"]) {
            assert_eq!(first[key], text(id), "{ending}: {first}");
        }
    }
}
