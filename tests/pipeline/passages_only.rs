//! `candidates.method = "none"`: passages are found, and no documents are compared.

use crate::pipeline::spans::{Searched, expected, expected_against, spans, texts, without_spans};
use crate::support::*;

const NONE: &str = "candidates.method=none";

/// The settings of runs that find passages or give reference documents.
const PLAIN: [&str; 2] = ["clusters.keep=['id']", "shingle.size=1"];
const LINES: [&str; 2] = ["passages.unit=line", "passages.min_words=1"];

/// Runs a job that compares no documents: what it counts and the stages that it took. It has no pairs and no clusters.
fn run_without_pairs(scene: &Scene, source: &str, output: &str, sets: &[&str]) -> Run {
    let run = scene.run(source, output, &[&LINES[..], &[NONE], sets].concat()).manifest;
    for empty in ["pairs", "clusters"] {
        assert_eq!(table(&scene.path(output), empty).num_rows(), 0, "{empty} of {output}");
    }
    run
}

#[test]
fn passages_are_found_and_no_documents_are_compared() {
    let scene = Scene::new(&PLAIN);
    let mut documents = texts(&mut Random(41), 60);
    let copies: Vec<Document> =
        documents[..12].iter().map(|(id, text)| (format!("{id}-copy"), text.clone())).collect();
    documents.extend(copies);
    documents.sort();
    scene.write("in.parquet", &documents);
    let compared = scene.run("in.parquet", "compared", &LINES).manifest;
    assert!(compared.counts.pairs >= 12);
    for (name, more) in [
        ("signed", &[][..]),
        ("least", &["output.keep=none"]),
        ("kept", &["output.keep=shingles", "engine.threads=1"]),
        ("contained", &["clusters.contained=0.9", "clusters.thresholds=[0.9]", "output.pair_passages=true"]),
    ] {
        let Run { counts, stages, .. } = run_without_pairs(&scene, "in.parquet", name, more);
        let output = scene.path(name);
        // All documents stay, so the copy comes in the order of ids.
        let found = spans(&output);
        assert_eq!(found, expected(&documents, "line", 1), "{name}");
        assert!(found.len() > 50, "{}", found.len());
        let all = table(&output, "documents").num_rows() as u64;
        assert_eq!((counts.documents, counts.candidates, counts.removed_documents), (all, None, 0));
        let ran: Vec<&str> = stages.iter().map(|stage| stage.name.as_str()).collect();
        let stages = ["candidates", "positions", "spans"].map(|stage| ran.contains(&stage));
        assert_eq!(stages, [false, false, true], "{ran:?}");
        let shown = strings(&table(&output, "passages"), "sample");
        assert_eq!(shown, strings(&table(&scene.path("signed"), "passages"), "sample"));
    }
    let signed = manifest(&scene.path("signed"));
    assert_eq!(signed.counts.shingle_sets, compared.counts.shingle_sets);

    // Each text lacks the passages that are not kept, and no document is removed.
    scene.apply("least", "clean", &["--passages", "cut"]);
    let rows: Vec<Document> = string_pairs(&parquet(&scene.path("clean/in.parquet")), ["id", "text"]);
    let spans = spans(&scene.path("least"));
    let cut = documents.iter().cloned().map(|document| without_spans(document, &spans));
    assert_eq!(rows, cut.collect::<Vec<_>>());
    assert!(rows != documents);
}

#[test]
fn passages_of_reference_documents_need_no_comparison() {
    let scene = Scene::new(&PLAIN);
    let documents = texts(&mut Random(43), 80);
    let (mut new, mut old) = (documents[..40].to_vec(), documents[40..].to_vec());
    new.push(("copied".into(), old[3].1.clone()));
    new.sort();
    old.sort();
    scene.write("new.parquet", &new);
    scene.write("old.parquet", &old);
    scene.run("old.parquet", "earlier", &[]);
    let source = second_source(scene.path("old.parquet"), "");
    let output = scene.against(&["earlier"]);
    let marked = |documents: &[Document], known: bool| -> Searched {
        documents.iter().map(|document| (known, document.clone())).collect()
    };
    let searched = [marked(&old, true), marked(&new, false)].concat();
    let mut kept_there = 0;
    for (name, more) in [
        ("of-source", &[source.as_str()][..]),
        ("of-source-only", &[&source, "against.pairs=new-old", "output.keep=none"]),
        ("of-output", &[&output]),
        ("of-output-only", &[&output, "against.pairs=new-old", "clusters.contained=0.9"]),
    ] {
        let counts = run_without_pairs(&scene, "new.parquet", name, more).counts;
        let found = spans(&scene.path(name));
        let expected = expected_against(&searched, name.ends_with("only"), "line", 1);
        assert_eq!(found, expected, "{name}");
        kept_there += found.iter().filter(|span| span.kept_reference).count();
        assert_eq!((counts.reference_documents, counts.compared_reference_documents), (Some(40), Some(0)));
    }
    assert!(kept_there > 50, "{kept_there}");
    // Their documents were not compared, so their pairs are missing in what is merged.
    run_without_pairs(&scene, "old.parquet", "none", &[]);
    run_without_pairs(&scene, "new.parquet", "after", &[&scene.against(&["none"])]);
    let merged = scene.command(&["merge", "none", "after", "--to", "merged"]).assert().failure();
    let said = stderr(merged.get_output());
    assert!(said.contains("its documents were not compared"), "{said}");
    // Nor can later documents join their representatives.
    let representative = "clusters.method=representative";
    run_without_pairs(&scene, "old.parquet", "alone", &[representative]);
    let later = scene.job("new.parquet", "later", &[&scene.against(&["alone"]), representative]);
    let said = run(&later).unwrap_err().to_string();
    assert!(said.contains("its documents were not compared") && said.contains("another method"), "{said}");
}

#[test]
fn without_passages_it_is_refused() {
    assert!(refusal(&[NONE]).contains("add the section [passages]"));
    let scene = Scene::new(&["passages.unit=line", NONE]);
    scene.write("in.parquet", &texts(&mut Random(4), 20));
    let around = format!("output.url={}", scene.path("in.parquet").parent().unwrap().display());
    let inside = run(&scene.job("in.parquet", "inside", &[&around]));
    assert!(inside.unwrap_err().to_string().contains("output.url"));
    scene.run("in.parquet", "out", &["output.keep=signatures"]);
    let evaluated = scene.command(&["evaluate", "out"]).output().unwrap();
    assert!(stderr(&evaluated).contains("compares no documents"), "{evaluated:?}");
    scene.command(&["report", "out", "--to", "page.html"]).assert().success();
    let job = job_text(scene.path("in.parquet"), scene.path("checked"));
    std::fs::write(scene.path("job.toml"), job).unwrap();
    let check = ["check", "job.toml", "--set", NONE, "--set", "passages.unit=line"];
    let said = scene.command(&check).assert().shown(&["compare no documents"]);
    assert!(!said.contains("expected recall"), "{said}");
}
