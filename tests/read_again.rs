//! Texts whose positions are too many for one plan, as those of a cluster's run over more than 32,000,000 documents: several plans
//! read them, each of a part of the documents.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use resemblance::engine::{Engine, Local, session};
use resemblance::error::Result;
use resemblance::job::{self, Job};
use resemblance::output::manifest::File;
use resemblance::pipeline::OnExisting;
use tempfile::tempdir;

use crate::support::around::{Around, Call, Hook, run_around};
use crate::support::formats::formats;
use crate::support::stopping::run_until_on;
use crate::support::*;

/// A plan may select 64 documents. Counts the plans that read texts again.
#[derive(Default)]
struct SmallPlans {
    plans: AtomicUsize,
}

#[async_trait]
impl Hook for SmallPlans {
    fn selection_bytes(&self, _engine: &dyn Engine) -> u64 {
        8
    }

    async fn run(&self, engine: &dyn Engine, call: Call<'_>) -> Result<Vec<File>> {
        if call.stage.ends_with("_texts") {
            self.plans.fetch_add(1, Ordering::Relaxed);
        }
        call.run_on(engine).await
    }
}

/// The stages of a run that read texts again, by several plans.
fn read_again(output: &Path) -> BTreeSet<String> {
    manifest(output)
        .stages
        .into_iter()
        .map(|stage| stage.name)
        .filter(|name| name.ends_with("_texts"))
        .collect()
}

/// Runs the job into two outputs, with large and with small plans, whose tables are equal: the stages that read texts again, and
/// their plans.
fn runs(folder: &Path, name: &str, job: impl Fn(&Path) -> Job) -> (BTreeSet<String>, usize) {
    let [large, small] = ["large", "small"].map(|plans| folder.join(format!("{name} {plans}")));
    run(&job(&large)).unwrap();
    let (ended, hook) = run_around(&job(&small), OnExisting::Fail, SmallPlans::default());
    ended.unwrap();
    assert!(read_again(&large).is_empty());
    assert!(table(&small, "pairs").num_rows() > 20, "{name}");
    assert_eq!(tables(&small), tables(&large), "{name}");
    (read_again(&small), hook.plans.into_inner())
}

#[test]
fn texts_of_every_format_are_read_by_several_plans() {
    let folder = tempdir().unwrap();
    for (at, format) in formats(&corpus(71, 400, 60)).into_iter().enumerate() {
        let name = format!("{at} {}", format.name);
        let source = folder.path().join(&name);
        format.write(&source);
        let source = format.source(source.to_str().unwrap());
        let (stages, plans) = runs(folder.path(), &name, |output| {
            let text = format!(
                "[source]\n{source}[shingle]\nsize = 3\n[score]\nthreshold = 0.5\n[output]\nurl = {output:?}\n"
            );
            job::resolve(job::file::read(&text, "test.toml", &[]).unwrap()).unwrap()
        });
        assert!(stages.contains("positions_texts"), "{name}: {stages:?}");
        assert!(plans > stages.len(), "{name}: {plans} plans for {stages:?}");
    }
}

/// Everything that reads texts again.
#[test]
fn all_stages_read_the_same_texts() {
    let folder = tempdir().unwrap();
    let source = folder.path().join("in.parquet");
    let mut documents = corpus(72, 400, 60);
    for (number, (_, text)) in documents.iter_mut().enumerate() {
        if number % 3 > 0 {
            text.insert_str(0, "many documents begin with these words ");
        }
    }
    write_parquet(&source, &documents, 50);
    let sets: [&[&str]; 4] = [
        &["output.pair_passages=true", "clusters.contained=0.9"],
        &["passages.unit=word", "passages.length=8", "clusters.keep=['length']"],
        &["shingle.max_frequency=0.3"],
        &["lsh.hot_bucket=4"],
    ];
    let mut stages = BTreeSet::new();
    for (at, sets) in sets.into_iter().enumerate() {
        stages.append(&mut runs(folder.path(), &at.to_string(), |output| job(&source, output, sets)).0);
    }
    let all = ["frequent_positions", "hit_positions", "hot_positions", "passage_positions", "positions"];
    let all = all.into_iter().chain(["removal_positions", "text_positions"]);
    assert!(all.map(|name| format!("{name}_texts")).all(|name| stages.contains(&name)), "{stages:?}");
}

/// The run's own texts, where there are reference documents, and where documents without a shingle that counts carry columns.
#[test]
fn texts_of_new_documents_are_read_by_several_plans() {
    let folder = tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut documents = corpus(74, 600, 60);
    for (number, (_, text)) in documents.iter_mut().enumerate() {
        match number % 10 {
            0 => *text = "this page was left blank by its author".into(),
            _ => text.insert_str(0, "this page was left blank by its author "),
        }
    }
    let (reference, new) = documents.split_at(200);
    write_parquet(&path("reference.parquet"), reference, 50);
    write_parquet(&path("new.parquet"), new, 50);
    const FREQUENT: &str = "shingle.max_frequency=0.5";
    for (at, more) in [&[][..], &[FREQUENT, "source.columns=['text']"]].into_iter().enumerate() {
        let output = path(&format!("reference {at}"));
        run(&job(&path("reference.parquet"), &output, more)).unwrap();
        let outputs = format!("against.output={output:?}");
        let source = second_source(path("reference.parquet"), "");
        for (name, against) in [("outputs", &outputs), ("source", &source)] {
            let name = format!("{name} {at}");
            let sets = [more, &[against.as_str()]].concat();
            let (stages, plans) =
                runs(folder.path(), &name, |output| job(&path("new.parquet"), output, &sets));
            assert!(stages.contains("positions_texts"), "{name}: {stages:?}");
            assert!(plans > stages.len(), "{name}: {plans} plans for {stages:?}");
            if at > 0 {
                let rejected = table(&path(&format!("{name} small")), "rejects");
                let templates = strings(&rejected, "reason").into_iter().filter(|why| why == "only_template");
                assert_eq!(templates.count(), 40, "{name}");
            }
        }
    }
}

/// The texts that a run wrote before it was stopped are not read again.
#[test]
fn a_run_that_was_stopped_takes_the_texts_up() {
    let folder = tempdir().unwrap();
    let source = folder.path().join("in.parquet");
    write_parquet(&source, &corpus(73, 400, 60), 50);
    let whole = folder.path().join("whole");
    run(&job(&source, &whole, &[])).unwrap();
    let mut took_up = 0;
    for at in 0.. {
        let output = folder.path().join(at.to_string());
        let job = job(&source, &output, &[]);
        let small = || {
            let engine = Box::new(Local::new(session::session(&job.engine).unwrap()));
            Box::new(Around { engine, hook: SmallPlans::default() })
        };
        if !run_until_on(small(), &job, OnExisting::Fail, at).1 {
            break;
        }
        let (ended, hook) = run_around(&job, OnExisting::Fail, SmallPlans::default());
        ended.unwrap();
        took_up += usize::from(hook.plans.into_inner() == 0);
        assert_eq!(tables(&output), tables(&whole), "stopped at plan {at}");
    }
    assert!(took_up > 2, "{took_up}");
}
