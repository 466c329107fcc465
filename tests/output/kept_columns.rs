//! The key `output.keep`: the rows are the same, and texts are read twice where shingles are not kept.

use async_trait::async_trait;
use resemblance::error::Result;
use resemblance::output::manifest::File;

use crate::support::around::run_around;
use crate::support::*;

fn job_over(format: &Format, input: &Path, output: &Path, sets: &[&str]) -> Job {
    let source = format.source(input.to_str().unwrap());
    let text = format!(
        "[source]\n{source}\n[shingle]\nsize = 3\n[score]\nthreshold = 0.5\n[output]\nurl = {output:?}\n"
    );
    resolve(&text, sets).unwrap()
}

fn stages(output: &Path) -> Vec<String> {
    manifest(output).stages.into_iter().map(|stage| stage.name).collect()
}

fn columns(output: &Path) -> Vec<String> {
    table(output, "documents").schema().fields().iter().map(|field| field.name().clone()).collect()
}

/// Some documents twice, some unreadable, hot buckets: whatever is kept, it is the same answer.
#[test]
fn whatever_is_kept_the_rows_are_the_same() {
    let mut documents = corpus(21, 120, 40);
    documents.extend_from_within(7..9);
    for (i, format) in formats(&documents).iter().enumerate() {
        let path = paths();
        let input = path("in");
        format.write(&input);
        let mut answers = BTreeSet::new();
        for (keep, hot) in
            [("shingles", 256), ("signatures", 256), ("none", 256), ("shingles", 3), ("signatures", 3)]
        {
            let output = path(&format!("{keep}{hot}"));
            let (keeps, hot_bucket) = (format!("output.keep={keep}"), format!("lsh.hot_bucket={hot}"));
            let sets = [&keeps, &hot_bucket, "source.duplicate_ids=reject", "engine.threads=3"];
            run(&job_over(format, &input, &output, &sets)).unwrap();
            let rows = |name: &str| -> String {
                let rows = arrow::util::pretty::pretty_format_batches(&[table(&output, name)]);
                let mut rows: Vec<_> = rows.unwrap().to_string().lines().map(str::to_owned).collect();
                rows.sort();
                rows.join("\n")
            };
            answers.insert(["pairs", "clusters", "rejects"].map(rows));

            let kept = columns(&output);
            assert_eq!(kept.contains(&"shingles".into()), keep == "shingles", "{kept:?}");
            assert_eq!(kept.contains(&"signature".into()), keep != "none", "{kept:?}");
            let stages = stages(&output);
            let again = keep != "shingles";
            assert_eq!(stages.contains(&"positions".into()), again, "{stages:?}");
            assert_eq!(stages.contains(&"hot_sketches".into()), again && hot == 3, "{stages:?}");
            assert!(manifest(&output).counts.pairs > 10);
        }
        assert_eq!(answers.len(), 1, "{} ({i})", format.name);
    }
}

struct After<F> {
    stage: &'static str,
    then: F,
}

#[async_trait]
impl<F: Fn() + Send + Sync> Hook for After<F> {
    async fn run(&self, engine: &dyn Engine, call: Call<'_>) -> Result<Vec<File>> {
        let stage = call.stage.to_owned();
        let files = call.run_on(engine).await?;
        if stage == self.stage {
            (self.then)();
        }
        Ok(files)
    }
}

/// Changes one letter of a file and sets its time a minute later.
fn change(file: &Path) {
    let before = std::fs::metadata(file).unwrap().modified().unwrap();
    let mut bytes = std::fs::read(file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(file, bytes).unwrap();
    let written = std::fs::File::options().write(true).open(file).unwrap();
    written.set_modified(before + Duration::from_secs(60)).unwrap();
}

#[test]
fn a_source_that_changed_between_the_readings_is_an_error() {
    for format in formats(&corpus(24, 120, 40)) {
        let path = paths();
        let (input, output) = (path("in"), path("out"));
        format.write(&input);
        // Only text files of candidates are read again.
        let files: Vec<PathBuf> = format.files.iter().map(|(name, _)| input.join(name)).collect();
        let then = || files.iter().for_each(|file| change(file));
        let job = job_over(&format, &input, &output, &["lsh.hot_bucket=256", "engine.threads=2"]);
        let (ended, _) = run_around(&job, OnExisting::Fail, After { stage: "positions", then });
        let error = ended.map(|outcome| outcome.manifest.counts).expect_err(format.name);
        assert_eq!(error.kind(), Kind::Input, "{error:?}");
        let said = format!("{error:?}");
        let named = files.iter().any(|file| said.contains(&*file.to_string_lossy()));
        assert!(named && said.contains("replaced"), "{}: {said}", format.name);
        assert!(!output.join("manifest.json").exists());
    }
}
