//! `resemblance plan`: a forecast from a sample, against the run that it is about.

use crate::support::*;

/// Documents, a job over them, and a folder for temporary files.
struct Scene {
    folder: TempDir,
    job: PathBuf,
}

impl Scene {
    fn new(source: &str, more: &str) -> Self {
        let folder = tempdir().unwrap();
        std::fs::create_dir(folder.path().join("tmp")).unwrap();
        let job = folder.path().join("job.toml");
        let [input, output] = ["in", "out"].map(|name| folder.path().join(name));
        let text = format!(
            "[source]\nurl = {input:?}\n{source}\n[output]\nurl = {output:?}\n[engine]\nthreads = 2\nmemory = \"1GiB\"\n{more}"
        );
        std::fs::write(&job, text).unwrap();
        Self { folder, job }
    }

    /// Generated documents in four files.
    fn generated(documents: &str, more: &[&str]) -> Self {
        let scene = Self::new("format = 'parquet'\nid = 'id'\ntext = 'text'", "");
        let mut generate = program!["generate", scene.path("in"), "--documents", documents, "--files", "4"];
        generate.arg("-q").args(more).assert().success();
        scene
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn command(&self, arguments: &[&str]) -> assert_cmd::Command {
        let mut command = program![arguments[0], &self.job];
        command.args(&arguments[1..]).env("TMPDIR", self.path("tmp")).env_remove("XDG_CACHE_HOME");
        command
    }

    /// The forecast, after which nothing is left of it.
    fn plan(&self, arguments: &[&str]) -> Value {
        let planned = self.command(&[&["plan", "--json", "-q"], arguments].concat()).assert().json();
        self.assert_clean();
        planned
    }

    fn assert_clean(&self) {
        assert_eq!(std::fs::read_dir(self.path("tmp")).unwrap().count(), 0, "a folder was left");
        assert!(!Path::new(&self.path("out")).exists(), "the output was touched");
    }

    fn run(&self, arguments: &[&str]) -> Value {
        self.command(&[&["run", "--json", "-q"], arguments].concat()).assert().json()
    }
}

fn number(forecast: &Value, key: &str) -> f64 {
    forecast[key]["value"].as_f64().unwrap_or_else(|| panic!("{key} in {forecast}"))
}

/// Checks that a range holds its value, and how far that is from what was measured.
fn assert_near(range: &Value, measured: f64, off: f64, what: &str) {
    let [value, low, high] = ["value", "low", "high"].map(|end| range[end].as_f64().unwrap());
    assert!(low <= value && value <= high, "{what}: {range}");
    assert!((value / measured - 1.0).abs() <= off, "{what}: {range}, measured {measured}");
}

fn sum(rows: &Value, key: &str) -> f64 {
    rows.as_array().unwrap().iter().map(|row| row[key].as_f64().unwrap()).sum()
}

fn bytes_of_tables(manifest: &Value) -> f64 {
    manifest["tables"].as_object().unwrap().values().map(|table| sum(&table["files"], "bytes")).sum()
}

fn names(stages: &Value) -> Vec<String> {
    stages.as_array().unwrap().iter().map(|stage| stage["name"].as_str().unwrap().to_owned()).collect()
}

/// Every setting that a forecast suggests is one that `run` takes.
fn assert_suggestions(scene: &Scene, forecast: &Value) -> Vec<String> {
    let risks = forecast["risks"].as_array().unwrap();
    for set in risks.iter().flat_map(|risk| risk["set"].as_array().unwrap()) {
        scene.command(&["check", "--no-data", "--set", set.as_str().unwrap()]).assert().success();
    }
    risks.iter().map(|risk| risk["kind"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_tenth_of_the_documents_forecasts_the_bytes_of_all() {
    let scene = Scene::generated("20000", &[]);
    let forecast = scene.plan(&["--sample", "2000", "--tasks", "16"]);
    let keys = "seconds peak_memory_bytes written_bytes output_bytes spilled_bytes most_disk_bytes candidates \
         pairs rejects";
    for key in keys.split(' ') {
        let [value, low, high] = ["value", "low", "high"].map(|end| forecast[key][end].as_f64());
        assert!(low.unwrap() <= value.unwrap() && value.unwrap() <= high.unwrap(), "{key}: {forecast}");
    }
    assert_eq!(forecast["documents"], json!({ "value": 20_000, "low": 20_000, "high": 20_000 }));
    assert_eq!(forecast["cluster"]["tasks"], 16);
    assert_eq!(forecast["requests"], Value::Null);
    let sampled = forecast["sample"]["documents"].as_f64().unwrap();
    assert!((1_700.0..2_300.0).contains(&sampled), "{forecast}");
    assert_eq!(assert_suggestions(&scene, &forecast), [""; 0]);
    // A seed always draws one sample. The bytes of its tables depend a little on which thread writes which row.
    let again = scene.plan(&["--sample", "2000"]);
    for key in ["sample", "documents", "pairs", "candidates"] {
        assert_eq!(again[key], forecast[key], "{key}");
    }
    assert_near(&again["written_bytes"], number(&forecast, "written_bytes"), 0.05, "written again");
    let other_samples = ["2", "3"].map(|seed| scene.plan(&["--sample", "2000", "--seed", seed]));

    let manifest = &scene.run(&[])["manifest"];
    assert_near(&forecast["written_bytes"], sum(&manifest["stages"], "bytes"), 0.3, "written");
    assert_near(&forecast["output_bytes"], bytes_of_tables(manifest), 0.3, "result");
    let pairs = manifest["counts"]["pairs"].as_f64().unwrap();
    // The samples depend on the path of the folder, so a range rarely misses the number of pairs.
    let ranges = [&forecast, &other_samples[0], &other_samples[1]].map(|forecast| &forecast["pairs"]);
    let contains = |range: &&&Value| {
        let [low, high] = ["low", "high"].map(|end| range[end].as_f64().unwrap());
        (low..=high).contains(&pairs)
    };
    assert!(ranges.iter().filter(contains).count() >= 2, "{ranges:?} {pairs}");
    let mut expected = names(&manifest["stages"]);
    expected.push("check and publish".to_owned());
    assert_eq!(names(&forecast["stages"]), expected);
}

#[test]
fn short_documents_are_named_as_a_risk() {
    let shingle = "[shingle]\nsize = 5\nshort = 'reject'\n";
    let scene = Scene::new("format = 'csv'\nid = 'id'\ntext = 'text'", shingle);
    let rows: String = (0..600)
        .map(|row| match row % 3 {
            0 => format!("{row},thanks a{row}\n"),
            _ => format!("{row},{}\n", (0..30).map(|word| format!("r{row}w{word} ")).collect::<String>()),
        })
        .collect();
    std::fs::create_dir(scene.path("in")).unwrap();
    std::fs::write(scene.folder.path().join("in/rows.csv"), format!("id,text\n{rows}")).unwrap();
    let forecast = scene.plan(&["--sample", "300"]);
    assert_eq!(assert_suggestions(&scene, &forecast), ["short_documents"]);
    assert!(forecast["risks"][0]["example"].as_str().unwrap().starts_with("thanks"), "{forecast}");
    assert_eq!(forecast["risks"][0]["set"][0], "shingle.size=3");
    let rejects = number(&forecast, "rejects");
    assert!((120.0..280.0).contains(&rejects), "200 of 600 are too short: {forecast}");
}

/// The passages of the sample are whole, and the value that is suggested leaves their shingles out.
#[test]
fn passages_that_many_documents_have_are_listed() {
    const WORDS: usize = 40;
    let scene = Scene::generated("3000", &["--boilerplate", "0.4", "--boilerplate-words", "40"]);
    let forecast = scene.plan(&["--sample", "2000"]);
    assert!(assert_suggestions(&scene, &forecast).contains(&"frequent_shingles".to_owned()));
    let templates = forecast["templates"].as_array().unwrap();
    let header = &templates[0];
    assert_eq!(header["text"].as_str().unwrap().split(' ').count(), WORDS, "{header}");
    assert_eq!(header["shingles"], WORDS - 4);
    let share = header["share"].as_f64().unwrap();
    assert!((0.3..0.47).contains(&share), "{header}");
    let all = templates.iter().map(|template| template["shingles"].as_u64().unwrap()).sum::<u64>();
    assert!(all >= 36 && templates.iter().all(|template| template["documents"].as_u64() >= Some(20)));
    let of_risk = |forecast: &Value| {
        let risks = forecast["risks"].as_array().unwrap().clone();
        risks.into_iter().find(|risk| risk["kind"] == "frequent_shingles")
    };
    let risk = of_risk(&forecast).unwrap();
    let example = risk["example"].as_str().unwrap().trim_end_matches('…');
    assert!(header["text"].as_str().unwrap().starts_with(example), "{risk}");
    let share: u64 = risk["text"].as_str().unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!((33..47).contains(&share), "about 40 % of the documents: {risk}");
    let set = risk["set"][0].as_str().unwrap().to_owned();
    assert!(set.starts_with("shingle.max_frequency="), "{set}");
    let shown = scene
        .command(&["plan", "--sample", "2000"])
        .assert()
        .shown(&["passages that many documents have", &format!("try --set {set}")]);
    assert!(shown.lines().all(|line| !line.starts_with('|') || line.chars().count() < 180), "{shown}");

    // With that value the header is no risk, and the forecast is that of such a run.
    let (key, value) = set.split_once('=').unwrap();
    let set = format!("{key}={value}");
    let forecast = scene.plan(&["--sample", "2000", "--set", &set]);
    assert_eq!(of_risk(&forecast), None, "{forecast}");
    let listed = forecast["templates"].as_array().unwrap();
    assert!(listed.iter().all(|template| template["text"] != header["text"]), "{forecast}");
    let manifest = &scene.run(&["--set", &set])["manifest"];
    assert!(manifest["counts"]["frequent_shingles"].as_u64() >= Some(36));
    let pairs = manifest["counts"]["pairs"].as_f64().unwrap();
    let range = &forecast["pairs"];
    assert!(range["low"].as_f64().unwrap() <= pairs, "{range} {pairs}");
    assert!(pairs <= range["high"].as_f64().unwrap(), "{range} {pairs}");
}

#[test]
fn a_passage_cannot_act_on_the_terminal() {
    let shingle = "[shingle]\nsize = 3\nwords = 'spaces'\nshort = 'reject'\n";
    let scene = Scene::new("format = 'jsonl'\nid = 'id'\ntext = 'text'", shingle);
    std::fs::create_dir(scene.path("in")).unwrap();
    let rows: String = (0..400)
        .map(|row| {
            let text =
                format!("all \u{1b}[31mrights \u{202e}reserved {} own{row} {row} a{row}", "x".repeat(3_000));
            format!("{}\n", json!({ "id": row, "text": text }))
        })
        .collect();
    std::fs::write(scene.folder.path().join("in/rows.jsonl"), rows).unwrap();
    let shown = scene.command(&["plan", "--sample", "300", "-q"]).assert().shown(&["rights"]);
    assert!(!shown.contains('\u{1b}') && !shown.contains('\u{202e}'), "{shown:?}");
    assert!(shown.lines().all(|line| !line.starts_with('|') || line.chars().count() < 180), "{shown}");
    let forecast = scene.plan(&["--sample", "300"]);
    assert!(forecast["templates"][0]["text"].as_str().unwrap().chars().count() < 500);
}

#[test]
fn low_recall_and_too_many_pairs_are_risks() {
    let scene = Scene::generated("2000", &["--identical", "300"]);
    let forecast = scene.plan(&["--sample", "1000", "--set", "lsh.bands=2", "--set", "lsh.rows=16"]);
    assert!(assert_suggestions(&scene, &forecast).contains(&"low_recall".to_owned()), "{forecast}");
    let prefix = ["--set", "candidates.method=prefix", "--set", "score.by=signature"];
    let forecast = scene.plan(&[&["--sample", "1000"][..], &prefix].concat());
    assert!(assert_suggestions(&scene, &forecast).contains(&"low_recall".to_owned()), "{forecast}");
    let risks = forecast["risks"].to_string();
    assert!(!risks.contains("lsh.") && !risks.contains("candidates.method=prefix"), "{forecast}");
    let forecast = scene.plan(&["--sample", "1000", "--set", "output.max_pairs=100"]);
    assert!(assert_suggestions(&scene, &forecast).contains(&"too_many_pairs".to_owned()), "{forecast}");
    let text =
        scene.command(&["plan", "--sample", "1000", "--set", "output.max_pairs=100"]).assert().shown(&[]);
    assert!(text.contains("seconds here") && text.contains("try --set output.expand=star"), "{text}");
    assert!(text.lines().count() < 60, "at most a screen: {text}");
}

#[test]
fn every_format_has_a_forecast_of_its_documents() {
    let documents = corpus(5, 400, 30);
    for format in formats(&documents) {
        let scene =
            Scene::new(&format!("format = {:?}\n{}", format.name, format.keys), "[shingle]\nsize = 3\n");
        format.write(Path::new(&scene.path("in")));
        let forecast = scene.plan(&["--sample", "100"]);
        assert_near(&forecast["documents"], 400.0, 0.2, format.name);
        let sampled = forecast["sample"]["documents"].as_f64().unwrap();
        assert!((50.0..200.0).contains(&sampled), "{}: {forecast}", format.name);
        assert!(number(&forecast, "output_bytes") > 0.0);
    }
}

#[test]
fn rows_that_are_no_documents_are_left_out() {
    let documents: Vec<Document> =
        corpus(6, 1_000, 30).into_iter().map(|(id, text)| (id, format!("{text} end"))).collect();
    let scene = Scene::new("format = \"parquet\"\nid = \"id\"\ntext = \"text\"", "[shingle]\nsize = 3\n");
    std::fs::create_dir(scene.path("in")).unwrap();
    write_parquet(&scene.folder.path().join("in/rows.parquet"), &documents, 100);
    let half = scene.plan(&["--sample", "200", "--set", "source.where=id < 'd00500'"]);
    assert_near(&half["documents"], 500.0, 0.01, "where");
    let limited = scene.plan(&["--sample", "100", "--set", "source.limit=300"]);
    assert_eq!(limited["documents"]["value"], 300);
    assert!(limited["notes"].to_string().contains("source.limit"), "{limited}");
    scene
        .command(&["plan", "--set", "source.where=id = 'missing'"])
        .assert()
        .refused(3, &["has no document that meets source.where"]);
    scene.assert_clean();
}

#[test]
fn jobs_that_cannot_be_planned_are_refused() {
    let scene = Scene::generated("100", &[]);
    let refused = |arguments: &[&str], code: i32, part: &str| {
        scene.command(&[&["plan"], arguments].concat()).assert().refused(code, &[part]);
        scene.assert_clean();
    };
    refused(&["--sample", "0"], 2, "expected a whole number from 1 to");
    refused(&["--set", "source.url=missing/"], 3, "missing/");
    refused(&["--set", "source.text=body"], 2, "body");
    let second = ["format=parquet", "url=earlier/", "id=id", "text=text"];
    let second = second.map(|set| format!("against.source.{set}"));
    let second: Vec<&str> = second.iter().flat_map(|set| ["--set", set.as_str()]).collect();
    refused(&second, 2, "this job has [against.source]");
    // A job over a finished output reads no texts.
    scene.run(&[]);
    let (out, again) = (scene.path("out"), scene.path("again"));
    let over_output = format!("[source]\nformat = \"output\"\nurl = {out:?}\n[output]\nurl = {again:?}\n");
    std::fs::write(&scene.job, over_output).unwrap();
    scene.command(&["plan"]).assert().refused(2, &["reads finished outputs and no texts"]);
}

/// New documents are planned against a whole earlier output: pairs with its documents grow as the documents, others as their square.
#[test]
fn new_documents_are_planned_against_outputs() {
    let scene = Scene::generated("8000", &[]);
    let part = |name: &str| format!("{}/part-{name}.parquet", scene.path("in"));
    let old = format!("source.url=[{:?}, {:?}]", part("00000"), part("00001"));
    let before = scene.path("before");
    scene.run(&["--set", &old, "--set", &format!("output.url={before}")]);
    let new = format!("source.url=[{:?}, {:?}]", part("00002"), part("00003"));
    let against = format!("against.output={before}");
    for pairs in ["new-old+new-new", "new-old"] {
        let pairs = format!("against.pairs={pairs}");
        let sets = ["--set", &new, "--set", &against, "--set", &pairs];
        let all = scene.plan(&[&sets[..], &["--sample", "100000"]].concat());
        let some = scene.plan(&[&sets[..], &["--sample", "1000"]].concat());
        let record = scene.run(&sets);
        std::fs::remove_dir_all(scene.path("out")).unwrap();
        let counts = &record["manifest"]["counts"];
        for name in ["pairs", "candidates"] {
            let (exact, count) = (&all[name], counts[name].as_u64().unwrap());
            assert_eq!([&exact["value"], &exact["low"], &exact["high"]], [count; 3], "{pairs} {name}");
            let [value, low, high] = ["value", "low", "high"].map(|end| some[name][end].as_u64().unwrap());
            // The interval lacks the number once in twenty samples.
            let is_close = 10 * value.abs_diff(count) <= 3 * count;
            assert!(count > 50, "{pairs} {name}: {} {count}", some[name]);
            assert!(is_close || (low..=high).contains(&count), "{pairs} {name}: {} {count}", some[name]);
        }
        assert_eq!(all["documents"]["value"], 4_000);
        assert!(some["sample"]["documents"].as_u64().unwrap() < 1_500);
        let stages = some["stages"].as_array().unwrap().iter();
        assert!(stages.map(|stage| &stage["name"]).any(|name| name == "reference"));
        assert!(some["notes"].to_string().contains("compared with all reference documents"));
        // The earlier output is only read.
        resemblance().args(["verify", &before, "-q"]).assert().success();
    }
}

#[test]
fn a_run_keeps_its_forecast_in_its_record() {
    let scene = Scene::generated("3000", &[]);
    let record = scene.run(&["--forecast", "1000"]);
    let forecast = &record["forecast"];
    assert_eq!(forecast["documents"]["value"], 3_000);
    assert!(record["peak_memory_bytes"].as_u64().unwrap() > 1 << 20);
    assert_near(&forecast["written_bytes"], sum(&record["manifest"]["stages"], "bytes"), 0.3, "written");
    assert_eq!(scene.run(&[])["forecast"], Value::Null);
    let shown = scene.command(&["run", "--overwrite", "--forecast", "500"]).assert().shown(&[]);
    let header = shown.lines().find(|line| line.contains("measured")).unwrap();
    assert!(header.contains("forecast") && header.contains("range"), "{shown}");
    assert!(shown.lines().any(|line| line.starts_with("| sketches")), "{shown}");
    assert_eq!(std::fs::read_dir(scene.path("tmp")).unwrap().count(), 0);

    // The report has both, and takes the record of no other result.
    let file = scene.path("record.json");
    std::fs::write(&file, record.to_string()).unwrap();
    let report = |arguments: &[&str]| {
        resemblance().args(["report", &scene.path("out"), "--record", &file]).args(arguments).assert()
    };
    let page = scene.path("report.html");
    let printed = report(&["--json", "--to", &page]).json();
    let mut stages = printed["cost"]["stages"].as_array().unwrap().iter();
    let sketches = stages.find(|stage| stage["name"] == "sketches").unwrap();
    assert_eq!(sketches["forecast"]["name"], "sketches");
    assert!(std::fs::read_to_string(page).unwrap().contains("seconds forecast"));
    scene.run(&["--overwrite", "--set", "score.threshold=0.7"]);
    report(&[]).refused(2, &["does not belong to the result"]);
}

#[test]
fn a_stopped_forecast_leaves_nothing() {
    let scene = Scene::generated("60000", &[]);
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("resemblance"));
    command.arg("plan").arg(&scene.job).args(["--sample", "60000"]);
    command.env("TMPDIR", scene.path("tmp")).env_remove("RESEMBLANCE_LOG");
    let mut plan = Process::start("plan", &mut command, scene.folder.path());
    wait_for("the sample", Duration::from_secs(120), || plan.said().contains("read a sample").then_some(()));
    plan.signal("INT");
    assert_eq!(plan.wait(Duration::from_secs(60)).code(), Some(130), "{}", plan.said());
    scene.assert_clean();
}

#[test]
fn a_forecast_of_objects_counts_requests_and_writes_none() {
    let s3 = S3::start();
    let path = paths();
    let documents = corpus(8, 2_000, 30);
    for (at, part) in documents.chunks(500).enumerate() {
        let file = path("part.parquet");
        write_parquet(&file, part, 100);
        s3.put(&format!("in/part{at}.parquet"), std::fs::read(file).unwrap());
    }
    let job = path("job.toml");
    std::fs::write(&job, job_text(s3.url("in/"), s3.url("out/"))).unwrap();
    let command = |arguments: &[&str]| {
        let mut command = resemblance();
        command.arg(arguments[0]).arg(&job).args(&arguments[1..]).envs(s3.env());
        command.args(["--json", "-q", "--set", "engine.threads=2"]).assert().json()
    };
    let forecast = command(&["plan", "--sample", "400"]);
    assert_eq!(forecast["documents"]["value"], 2_000);
    assert_eq!(s3.keys("out/").len(), 0);
    assert!(s3.faults.requests("PUT ").is_empty() && s3.faults.requests("POST ").is_empty());
    assert_eq!(number(&forecast, "most_disk_bytes"), number(&forecast, "spilled_bytes"));
    let requests = |methods: [&str; 2]| {
        methods.iter().map(|method| s3.faults.requests(method).len()).sum::<usize>() as u64
    };
    let (reads, writes) = (["GET ", "HEAD "], ["PUT ", "POST "]);
    let before = requests(reads);
    command(&["run"]);
    for (range, measured) in [("reads", requests(reads) - before), ("writes", requests(writes))] {
        let range = &forecast["requests"][range];
        let [low, high] = ["low", "high"].map(|end| range[end].as_u64().unwrap());
        assert!(low <= measured && measured <= high, "{range}: {measured}");
    }
}

/// Groups, conditions and passages apply to the sample too: a sample of all documents gives the numbers of the run.
#[test]
fn groups_conditions_and_passages_are_planned_too() {
    let documents = corpus(91, 300, 30);
    let within = "[candidates]\ncompare = 'within'\n[passages]\nunit = 'line'\n";
    for (source, more) in [
        ("group = 'shop'", "[candidates]\ncompare = 'across'\n"),
        ("where = 'n >= 60'", "[passages]\nunit = 'word'\nlength = 6\n"),
        ("group = 'shop'\nwhere = 'n >= 60 AND shop IS NOT NULL'", within),
    ] {
        let scene = Scene::new(&format!("format = 'parquet'\nid = 'id'\ntext = 'text'\n{source}"), more);
        std::fs::create_dir(scene.path("in")).unwrap();
        let shops = (0..documents.len()).map(|row| [Some("north"), Some("south"), None][row % 3]);
        let more: Vec<(&str, ArrayRef)> = vec![
            ("shop", Arc::new(shops.collect::<StringArray>())),
            ("n", Arc::new(Int64Array::from_iter_values(0..300))),
        ];
        write_columns(Path::new(&scene.path("in/a.parquet")), &documents, more, 50);
        let forecast = scene.plan(&["--sample", "10000"]);
        let record = scene.run(&[]);
        let manifest = &record["manifest"];
        assert!(manifest["counts"]["pairs"].as_u64().unwrap() > 10, "{source}");
        for name in ["pairs", "candidates"] {
            assert_eq!(forecast[name]["value"], manifest["counts"][name], "{source} {name}");
        }
        // Rows that are left out are not in the sample, and the end of a run is no stage of it.
        let [planned, ran] = [&forecast["stages"], &manifest["stages"]].map(|stages| {
            let kept = |name: &String| !["left_out", "check and publish"].contains(&name.as_str());
            names(stages).into_iter().filter(kept).collect::<Vec<_>>()
        });
        assert_eq!(planned, ran, "{source}");
    }
}
