//! `candidates.method = "none"`: passages are found, and no documents are compared.

use crate::pipeline::spans::{Searched, expected, expected_against, spans, texts};
use crate::support::*;

const NONE: &str = "candidates.method=none";

#[test]
fn passages_are_found_and_no_documents_are_compared() {
    let path = paths();
    let mut documents = texts(&mut Random(41), 60);
    let copies: Vec<Document> =
        documents[..12].iter().map(|(id, text)| (format!("{id}-copy"), text.clone())).collect();
    documents.extend(copies);
    documents.sort();
    write_parquet(&path("in.parquet"), &documents, 20);
    let sets = ["passages.unit=line", "passages.min_words=1", "clusters.keep=['id']", "shingle.size=1"];
    run(&job(&path("in.parquet"), &path("compared"), &sets)).unwrap();
    assert!(table(&path("compared"), "pairs").num_rows() >= 12);
    for (name, more) in [
        ("signed", &[][..]),
        ("least", &["output.keep=none"]),
        ("kept", &["output.keep=shingles", "engine.threads=1"]),
        ("contained", &["clusters.contained=0.9", "clusters.thresholds=[0.9]", "output.pair_passages=true"]),
    ] {
        let output = path(name);
        let outcome = run(&job(&path("in.parquet"), &output, &[&sets[..], &[NONE], more].concat())).unwrap();
        // All documents stay, so the copy comes in the order of ids.
        let found = spans(&output);
        assert_eq!(found, expected(&documents, "line", 1), "{name}");
        assert!(found.len() > 50, "{}", found.len());
        for empty in ["pairs", "clusters"] {
            assert_eq!(table(&output, empty).num_rows(), 0, "{empty} of {name}");
        }
        let (counts, all) = (&outcome.manifest.counts, table(&output, "documents").num_rows() as u64);
        assert_eq!((counts.documents, counts.candidates, counts.removed_documents), (all, None, 0));
        let ran: Vec<&str> = outcome.manifest.stages.iter().map(|stage| stage.name.as_str()).collect();
        assert!(!ran.contains(&"candidates"), "{ran:?}");
        assert!(!ran.contains(&"positions"), "{ran:?}");
        assert!(ran.contains(&"spans"), "{ran:?}");
        let shown = strings(&table(&output, "passages"), "sample");
        assert_eq!(shown, strings(&table(&path("signed"), "passages"), "sample"));
    }
    let sets_of = |output: &str| manifest(&path(output)).counts.shingle_sets;
    assert_eq!(sets_of("signed"), sets_of("compared"));
    cut(&path("least"), &path("clean"), &documents);
}

/// Cuts the passages out. Checks that each text lacks the passages that are not kept, and that no document is removed.
fn cut(output: &Path, clean: &Path, documents: &[Document]) {
    program!["apply", output, "--to", clean, "--passages", "cut"].assert().success();
    let rows = parquet(&clean.join("in.parquet"));
    let rows: Vec<Document> = strings(&rows, "id").into_iter().zip(strings(&rows, "text")).collect();
    let expected: Vec<Document> = documents
        .iter()
        .map(|(id, text)| {
            let mut rest = text.clone();
            let mut gone: Vec<_> =
                spans(output).into_iter().filter(|span| span.id == *id && !span.kept).collect();
            gone.sort_by_key(|span| std::cmp::Reverse(span.bytes));
            gone.iter().for_each(|span| rest.replace_range(span.bytes.0..span.bytes.1, ""));
            (id.clone(), rest)
        })
        .collect();
    assert_eq!(rows, expected);
    assert!(rows.iter().zip(documents).any(|(row, document)| row.1 != document.1));
}

#[test]
fn passages_of_reference_documents_need_no_comparison() {
    let path = paths();
    let documents = texts(&mut Random(43), 80);
    let (mut new, old) = (documents[..40].to_vec(), &documents[40..]);
    new.push(("copied".into(), old[3].1.clone()));
    new.sort();
    write_parquet(&path("new.parquet"), &new, 20);
    write_parquet(&path("old.parquet"), old, 20);
    let sets = ["passages.unit=line", "passages.min_words=1", "clusters.keep=['id']", "shingle.size=1", NONE];
    let plain: Vec<&str> =
        sets.into_iter().filter(|set| !set.starts_with("passages") && *set != NONE).collect();
    run(&job(&path("old.parquet"), &path("earlier"), &plain)).unwrap();
    let source = second_source(path("old.parquet"), "");
    let output = format!("against.output={:?}", path("earlier").display().to_string());
    let (mut old, mut kept_there) = (old.to_vec(), 0);
    old.sort();
    let searched: Searched = old.iter().map(|document| (true, document.clone())).collect();
    let searched = [searched, new.iter().map(|document| (false, document.clone())).collect()].concat();
    for (name, more) in [
        ("of-source", &[source.as_str()][..]),
        ("of-source-only", &[&source, "against.pairs=new-old", "output.keep=none"]),
        ("of-output", &[&output]),
        ("of-output-only", &[&output, "against.pairs=new-old", "clusters.contained=0.9"]),
    ] {
        let out = path(name);
        let outcome = run(&job(&path("new.parquet"), &out, &[&sets[..], more].concat())).unwrap();
        let found = spans(&out);
        assert_eq!(found, expected_against(&searched, name.ends_with("only"), "line", 1), "{name}");
        kept_there += found.iter().filter(|span| span.kept_reference).count();
        for empty in ["pairs", "clusters"] {
            assert_eq!(table(&out, empty).num_rows(), 0, "{empty} of {name}");
        }
        let counts = &outcome.manifest.counts;
        assert_eq!((counts.reference_documents, counts.compared_reference_documents), (Some(40), Some(0)));
    }
    assert!(kept_there > 50, "{kept_there}");
    // Their documents were not compared, so their pairs are missing in what is merged.
    run(&job(&path("old.parquet"), &path("none"), &sets)).unwrap();
    let against = format!("against.output={:?}", path("none").display().to_string());
    run(&job(&path("new.parquet"), &path("after"), &[&sets[..], &[&against]].concat())).unwrap();
    let merged = program!["merge", path("none"), path("after"), "--to", path("merged")].output().unwrap();
    let said = stderr(&merged);
    assert!(!merged.status.success() && said.contains("its documents were not compared"), "{said}");
    // Nor can later documents join their representatives.
    let representative = "clusters.method=representative";
    run(&job(&path("old.parquet"), &path("alone"), &[&sets[..], &[representative]].concat())).unwrap();
    let against = format!("against.output={:?}", path("alone").display().to_string());
    let later = [&plain[..], &[&against, representative]].concat();
    let said = run(&job(&path("new.parquet"), &path("later"), &later)).unwrap_err().to_string();
    assert!(said.contains("its documents were not compared") && said.contains("another method"), "{said}");
}

#[test]
fn without_passages_it_is_refused() {
    let folder = tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    assert!(refusal(&[NONE]).contains("add the section [passages]"));
    write_parquet(&path("in.parquet"), &texts(&mut Random(4), 20), 20);
    let inside = job(&path("in.parquet"), folder.path(), &["passages.unit=line", NONE]);
    assert!(run(&inside).unwrap_err().to_string().contains("output.url"));
    let sets = ["passages.unit=line", NONE, "output.keep=signatures"];
    run(&job(&path("in.parquet"), &path("out"), &sets)).unwrap();
    let evaluated = program!["evaluate", path("out")].output().unwrap();
    assert!(stderr(&evaluated).contains("compares no documents"), "{evaluated:?}");
    let report = program!["report", path("out"), "--to", path("page.html")].output().unwrap();
    assert!(report.status.success(), "{report:?}");
    std::fs::write(path("job.toml"), job_text(path("in.parquet"), path("checked"))).unwrap();
    let checked =
        program!["check", path("job.toml"), "--set", NONE, "--set", "passages.unit=line"].output().unwrap();
    let said = stdout(&checked);
    assert!(said.contains("compare no documents") && !said.contains("expected recall"), "{checked:?}");
}
