//! Files that a manifest names are there and whole, or commands report an error.

use std::panic::{AssertUnwindSafe, catch_unwind};

use parquet::arrow::parquet_to_arrow_schema;
use parquet::file::metadata::KeyValue;
use parquet::file::reader::{FileReader, SerializedFileReader};

use crate::support::*;

#[derive(Debug, Clone, Copy)]
enum Damage {
    Gone,
    Empty,
    Cut,
    Flipped,
}

const DAMAGES: [Damage; 4] = [Damage::Gone, Damage::Empty, Damage::Cut, Damage::Flipped];

fn damage(file: &Path, how: Damage) {
    let mut bytes = std::fs::read(file).unwrap();
    match how {
        Damage::Gone => return std::fs::remove_file(file).unwrap(),
        Damage::Empty => bytes.clear(),
        Damage::Cut => bytes.truncate(bytes.len() / 2),
        Damage::Flipped => {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
        }
    }
    std::fs::write(file, bytes).unwrap();
}

struct Scene {
    folder: TempDir,
    input: PathBuf,
    expected: Vec<RecordBatch>,
}

impl Scene {
    fn new() -> Self {
        let folder = tempdir().unwrap();
        let input = folder.path().join("in.parquet");
        write_parquet(&input, &corpus(8, 80, 30), 20);
        let output = folder.path().join("undisturbed");
        run(&job(&input, &output, &[])).unwrap();
        let expected = tables(&output);
        Self { folder, input, expected }
    }

    fn output(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// The stage manifests of an unfinished output, and the files that they name.
fn stages(output: &Path) -> Vec<(PathBuf, Vec<PathBuf>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(output.join("_work")).unwrap().flatten() {
        if entry.path().extension().is_some_and(|extension| extension == "json") {
            let stage: resemblance::output::manifest::FinishedStage =
                serde_json::from_slice(&std::fs::read(entry.path()).unwrap()).unwrap();
            found.push((entry.path(), stage.files.iter().map(|file| output.join(&file.path)).collect()));
        }
    }
    found.sort();
    found
}

/// A run that ended before its last stage and lost a file since: the stage is done again, for every file and damage.
#[test]
fn a_damaged_stage_is_done_again() {
    let scene = Scene::new();
    // Once to the last stage, to see what there is to damage.
    let probe = scene.output("probe");
    let plans = (0..).find(|at| {
        !run_until(&job(&scene.input, &scene.output(&format!("n{at}")), &[]), OnExisting::Fail, *at).1
    });
    let last = plans.unwrap() - 1;
    run_until(&job(&scene.input, &probe, &[]), OnExisting::Fail, last).0.unwrap_err();
    let there = stages(&probe);
    assert!(there.len() >= 6, "{there:?}");
    let whole = run(&job(&scene.input, &probe, &[])).unwrap();
    for (stage, (record, files)) in there.iter().enumerate() {
        // A finished stage does not need its positions, and a stage that is done again reuses them.
        let (name, texts) =
            (record.file_name().unwrap().to_string_lossy(), ["positions.", "scores.", "losses."]);
        let reused = whole.stages_reused - usize::from(!texts.iter().any(|part| name.contains(part)));
        for file in 0..files.len() {
            let how = DAMAGES[(stage + file) % DAMAGES.len()];
            let output = scene.output(&format!("out {stage} {file}"));
            let job = job(&scene.input, &output, &[]);
            run_until(&job, OnExisting::Fail, last).0.unwrap_err();
            // Which partitions get rows, but with them how many files there are, is not the same in every run.
            let written = &stages(&output)[stage].1;
            damage(&written[file % written.len()], how);
            let outcome = run(&job).unwrap();
            assert_eq!(outcome.stages_reused, reused, "{how:?} {file} of stage {stage}");
            assert_eq!(tables(&output), scene.expected, "{how:?} {file} of stage {stage}");
        }
        // The stage's manifest itself, cut as by a power cut.
        let output = scene.output(&format!("manifest {stage}"));
        let job = job(&scene.input, &output, &[]);
        run_until(&job, OnExisting::Fail, last).0.unwrap_err();
        damage(&stages(&output)[stage].0, if stage % 2 == 0 { Damage::Empty } else { Damage::Cut });
        let outcome = run(&job).unwrap();
        assert_eq!(outcome.stages_reused, reused, "manifest of stage {stage}");
        assert_eq!(tables(&output), scene.expected, "manifest of stage {stage}");
    }
}

#[test]
fn a_damaged_result_is_never_finished_already_and_never_read() {
    let scene = Scene::new();
    let output = scene.output("undisturbed");
    let path = write_file(&scene.folder, "job.toml", job_text(&scene.input, &output));
    let (path, shown) = (path.to_str().unwrap(), output.to_str().unwrap());
    for (table, how) in [
        ("pairs", Damage::Gone),
        ("documents", Damage::Empty),
        ("clusters", Damage::Cut),
        ("rejects", Damage::Gone),
    ] {
        let file = output.join(&manifest(&output).tables[table].files[0].path);
        let whole = std::fs::read(&file).unwrap();
        damage(&file, how);
        let name = file.file_name().unwrap().to_str().unwrap();
        for arguments in [
            vec!["run", path],
            vec!["sql", shown, "SELECT count(*) FROM pairs"],
            vec!["neighbors", shown, "--id", "d00000"],
            vec!["verify", shown],
        ] {
            resemblance().args(&arguments).assert().refused(3, &[name, "--overwrite"]);
        }
        std::fs::write(&file, whole).unwrap();
    }
    resemblance().args(["run", path]).assert().shown(&["finished already"]);
    // Other bytes of the same number are for `verify`.
    let file = output.join(&manifest(&output).tables["pairs"].files[0].path);
    damage(&file, Damage::Flipped);
    let found = resemblance().args(["verify", shown, "--json"]).assert().code(3).get_output().stdout.clone();
    let found: Value = serde_json::from_slice(&found).unwrap();
    assert_eq!(found["damaged"].as_array().unwrap().len(), 1, "{found}");
    assert!(found["damaged"][0].as_str().unwrap().contains("CRC-32"), "{found}");
    resemblance().args(["run", path, "--overwrite"]).assert().success();
    assert_eq!(tables(&output), scene.expected);
    resemblance().args(["verify", shown]).assert().shown(&["all as in the manifest"]);
}

#[test]
fn a_file_of_other_rows_than_the_manifest_says_is_not_read() {
    let scene = Scene::new();
    let output = scene.output("undisturbed");
    let mut told = manifest(&output);
    told.tables.get_mut("pairs").unwrap().files[0].rows += 1;
    std::fs::write(output.join("manifest.json"), serde_json::to_vec(&told).unwrap()).unwrap();
    let ran = program!["sql", output, "SELECT id_a FROM pairs LIMIT 1"].assert();
    ran.refused(3, &["rows, but", "in the manifest"]);
}

#[test]
fn a_manifest_that_leads_out_of_the_output_is_refused() {
    let scene = Scene::new();
    let output = scene.output("undisturbed");
    let secret = scene.input.file_name().unwrap().to_str().unwrap();
    let (above, beside) = (format!("../{secret}"), format!("pairs/../../{secret}"));
    for path in [above.as_str(), "../..", &beside, "", "/etc/passwd"] {
        let mut told = manifest(&output);
        told.tables.get_mut("pairs").unwrap().files[0].path = path.to_owned();
        let folder = tempdir().unwrap();
        std::fs::write(folder.path().join("manifest.json"), serde_json::to_vec(&told).unwrap()).unwrap();
        for mut command in
            [program!["verify", folder.path()], program!["sql", folder.path(), "SELECT * FROM pairs"]]
        {
            command.assert().refused(3, &["not inside the output"]);
        }
    }
}

/// A file that goes between the planning of a query and its reading is an error, not a shorter answer.
#[test]
fn a_file_that_goes_while_it_is_read_is_an_error() {
    let scene = Scene::new();
    let output = scene.output("undisturbed");
    block_on(async {
        let context = session::session(&EngineSettings::local(1 << 28)).unwrap();
        resemblance::lookup::Finished::open(&context, output.to_str().unwrap()).await.unwrap();
        let plan = context.sql("SELECT id_a FROM pairs").await.unwrap().create_physical_plan().await.unwrap();
        let told = manifest(&output);
        // A task without pairs writes a file too, in which there is nothing to read.
        let file = told.tables["pairs"].files.iter().find(|file| file.rows > 0).unwrap();
        std::fs::remove_file(output.join(&file.path)).unwrap();
        let read = datafusion::physical_plan::collect(plan, context.task_ctx()).await;
        let error = resemblance::error::Error::from(read.unwrap_err());
        assert_eq!(error.kind(), Kind::Input, "{error}");
        let again = context.sql("SELECT id_a FROM pairs").await.unwrap().collect().await;
        let error = resemblance::error::Error::from(again.unwrap_err());
        assert!(error.to_string().contains("is gone"), "{error}");
    });
}

/// A file whose description of its columns is damaged so that the library that reads it panics.
fn make_the_library_panic(file: &Path) {
    let footer = SerializedFileReader::new(std::fs::File::open(file).unwrap()).unwrap();
    let footer = footer.metadata().file_metadata();
    let columns = footer.key_value_metadata().unwrap().iter().find(|pair| pair.key == "ARROW:schema");
    let columns = columns.and_then(|pair| pair.value.clone()).expect("the file describes its columns");
    let panics = |columns: &String| {
        let pairs = vec![KeyValue::new("ARROW:schema".to_owned(), columns.clone())];
        catch_unwind(AssertUnwindSafe(|| parquet_to_arrow_schema(footer.schema_descr(), Some(&pairs))))
            .is_err()
    };
    let others = (0..columns.len()).flat_map(|at| ["A", "Q", "g", "z"].map(|letter| (at, letter)));
    let mut damaged = others.map(|(at, letter)| [&columns[..at], letter, &columns[at + 1..]].concat());
    let damaged = damaged.find(panics).expect("the library panics over none of them");
    let bytes = std::fs::read(file).unwrap();
    let at = bytes.windows(columns.len()).position(|part| part == columns.as_bytes()).unwrap();
    std::fs::write(file, [&bytes[..at], damaged.as_bytes(), &bytes[at + columns.len()..]].concat()).unwrap();
}

#[test]
fn a_file_over_which_the_library_panics_is_bad_input_and_no_bug() {
    let scene = Scene::new();
    let output = scene.output("undisturbed");
    let pairs = output.join(&manifest(&output).tables["pairs"].files[0].path);
    make_the_library_panic(&pairs);
    make_the_library_panic(&scene.input);
    let path = write_file(&scene.folder, "job.toml", job_text(&scene.input, scene.output("new")));
    let (job, shown) = (path.to_str().unwrap(), output.to_str().unwrap());
    let verify = format!("resemblance verify {shown}");
    for (arguments, named) in
        [(vec!["run", job], "in.parquet"), (vec!["sql", shown, "SELECT id_a FROM pairs"], verify.as_str())]
    {
        let said = resemblance().args(&arguments).assert().refused(3, &[named, "gave up"]);
        assert!(!said.contains("bug of resemblance"), "{said}");
    }
    let name = pairs.file_name().unwrap().to_str().unwrap();
    resemblance().args(["verify", shown]).assert().refused(3, &[name]);
}
