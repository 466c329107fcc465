//! The documents: their links lead somewhere, and the page of the job file has the keys and defaults that there are.

use crate::support::*;

const SECTIONS: &str =
    "source shingle minhash lsh candidates against score clusters passages alarms output engine";

/// Has the required keys alone.
const LEAST: &str = "[source]\nformat = \"csv\"\nurl = \"in.csv\"\ntext = \"t\"\n[output]\nurl = \"out\"\n";

fn pages() -> Vec<PathBuf> {
    let mut pages = vec![repository("README.md"), repository("CONTRIBUTING.md"), repository("CHANGELOG.md")];
    for folder in ["docs", "docs/internals"] {
        let docs = std::fs::read_dir(repository(folder)).unwrap().map(|entry| entry.unwrap().path());
        pages.extend(docs.filter(|path| path.extension().is_some_and(|e| e == "md")));
    }
    assert!(pages.len() > 8, "{pages:?}");
    pages
}

/// The most words of README and the pages of `docs` together.
const MAX_WORDS: usize = 27_400;

#[test]
fn the_pages_are_short() {
    let words = |path: &PathBuf| std::fs::read_to_string(path).unwrap().split_whitespace().count();
    let others = ["CHANGELOG.md", "CONTRIBUTING.md"];
    let pages = pages().into_iter().filter(|path| !others.iter().any(|other| path.ends_with(other)));
    let words: usize = pages.map(|path| words(&path)).sum();
    assert!((20_000..=MAX_WORDS).contains(&words), "{words} words");
}

fn prose(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    text.split("```").step_by(2).collect()
}

fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn the_image_and_the_compose_file_know_the_token() {
    let text = |name: &str| std::fs::read_to_string(repository(name)).unwrap();
    let compose = text("docker-compose.yml");
    assert!(!compose.contains("--allow-unauthenticated"));
    // The scheduler, the executors and the driver.
    assert_eq!(compose.matches("*cluster").count(), 3);
    for file in [&compose, &text("Dockerfile")] {
        assert!(file.contains("RESEMBLANCE_CLUSTER_TOKEN"));
    }
}

#[test]
fn links_lead_somewhere() {
    let (mut links, mut broken) = (0, Vec::new());
    for page in pages() {
        let text = prose(&page);
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if target.starts_with("https://") {
                continue;
            }
            links += 1;
            let (file, wanted) = target.split_once('#').unwrap_or((target, ""));
            let to = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            let there = match wanted {
                "" => to.exists(),
                wanted => prose(&to)
                    .lines()
                    .filter(|line| line.starts_with('#'))
                    .any(|heading| anchor(heading.trim_start_matches('#')) == wanted),
            };
            if !there {
                broken.push(format!("{}: {target}", page.display()));
            }
        }
    }
    assert!(links > 20, "{links}");
    assert!(broken.is_empty(), "{broken:#?}");
}

/// (key, default, example) of each row of a section of the page; keys of all sections have their section in front.
fn described() -> Vec<(String, String, String)> {
    let text = std::fs::read_to_string(repository("docs/job-file.md")).unwrap();
    let mut section = String::new();
    let mut keys = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("## ") {
            section = format!("{name}.");
        }
        let mut cells = line.split(" | ");
        if let (Some(key), Some(default), Some(example)) = (
            cells.next().and_then(|key| key.strip_prefix("| `")?.strip_suffix('`')),
            cells.next(),
            cells.next(),
        ) {
            keys.push((format!("{section}{key}"), default.to_owned(), example.trim_matches('`').to_owned()));
        }
    }
    keys
}

/// The keys of a section, as the error about one that does not exist lists them.
fn keys_of(section: &str) -> BTreeSet<String> {
    let (head, wrong) = (format!("[{section}]"), format!("[{section}]\nno_such_key = 1\n"));
    let text = if LEAST.contains(&head) { LEAST.replace(&head, &wrong) } else { format!("{LEAST}{wrong}") };
    let error = job::file::read(&text, "job.toml", &[]).unwrap_err();
    let causes = std::iter::successors(std::error::Error::source(&error), |cause| cause.source());
    let message = causes.map(|cause| cause.to_string()).fold(error.to_string(), |all, one| all + "\n" + &one);
    let (_, list) = message.split_once("expected one of").or_else(|| message.split_once("expected")).unwrap();
    let keys: BTreeSet<String> = list.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    assert!(!keys.is_empty(), "{message}");
    keys
}

#[test]
fn the_page_of_the_job_file_has_every_key() {
    let described: Vec<String> = described().into_iter().map(|(key, ..)| key).collect();
    let mut there: BTreeSet<String> = BTreeSet::from(["name".to_owned()]);
    for section in SECTIONS.split(' ') {
        there.extend(keys_of(section).into_iter().map(|key| format!("{section}.{key}")));
    }
    let set: BTreeSet<String> = described.iter().cloned().collect();
    assert_eq!(set.len(), described.len(), "a key stands there twice");
    assert_eq!(set, there);
}

#[test]
fn the_page_of_the_job_file_has_the_defaults() {
    let resolved = |sets: &[String]| {
        let file = job::file::read(LEAST, "job.toml", sets).unwrap_or_else(|e| panic!("{sets:?}: {e}"));
        let job = job::resolve(file.clone()).ok().map(|job| format!("{job:?}"));
        (file, job)
    };
    let mut compared = 0;
    for (key, default, _) in described() {
        let Some(value) = default.strip_prefix('`').and_then(|value| value.strip_suffix('`')) else {
            continue;
        };
        // The required keys of an optional section.
        let required = if key.starts_with("against.") {
            vec!["against.output=out/before".into(), "source.id=id".into()]
        } else if key.starts_with("passages.") {
            vec!["passages.unit=line".into()]
        } else {
            vec![]
        };
        let set = [required.clone(), vec![format!("{key}={value}")]].concat();
        let (with, without) = (resolved(&set), resolved(&required));
        // The default of some keys is known only when the job is resolved.
        assert!(with.0 == without.0 || (with.1.is_some() && with.1 == without.1), "{key} = {value}");
        compared += 1;
    }
    assert!(compared > 25, "{compared}");
}

/// Each example sets its key to another value than the default.
#[test]
fn the_page_of_the_job_file_has_an_example_of_each_key() {
    let read = |sets: &[String]| job::file::read(LEAST, "job.toml", sets);
    let mut wrong = Vec::new();
    for (key, _, example) in described() {
        let required = match key.as_str() {
            "passages.unit" => vec![],
            key if key.starts_with("passages.") => vec!["passages.unit=line".to_owned()],
            key if key.starts_with("against.") && key != "against.source" => {
                vec!["against.output=out/before".to_owned()]
            }
            _ => vec![],
        };
        let set = [required.clone(), vec![format!("{key}={example}")]].concat();
        match (read(&set), read(&required)) {
            (Ok(with), Ok(without)) if with != without => {}
            (with, _) => wrong.push(format!("{key} = {example}: {:?}", with.err())),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_jobs_of_the_pages_are_jobs() {
    let mut jobs = 0;
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for block in text.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()) {
            let file = job::file::read(block, "job.toml", &[]).unwrap_or_else(|e| panic!("{page:?}: {e:?}"));
            job::resolve(file).unwrap_or_else(|e| panic!("{page:?}: {e:?}"));
            jobs += 1;
        }
    }
    assert!(jobs >= 2, "{jobs}");
}

/// The table of stages equals the program's list of stages, with the tables that they write.
#[test]
fn architecture_names_the_stages_of_jobs_and_their_tables() {
    let page = std::fs::read_to_string(repository("docs/internals/architecture.md")).unwrap();
    let (_, rows) = page.split_once("| stage | what it does | writes |").unwrap();
    let words = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<BTreeSet<_>>();
    let mut written: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for row in rows.lines().skip(2).take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.split('|').collect();
        written.insert(words(cells[1]).pop_first().unwrap(), words(cells[3]));
    }
    let second = "against.source={ format = 'parquet', url = 'known.parquet', id = 'id', text = 'text', duplicate_ids = 'reject' }";
    let jobs = [
        "output.pair_passages=true|source.duplicate_ids=reject|source.limit=10|\
         clusters.thresholds=[0.9]|clusters.contained=0.98",
        "candidates.method=prefix|shingle.hash=dictionary|source.group=shop|candidates.compare=within|passages.unit=line",
        "passages.unit=word|shingle.max_frequency=0.01",
        "source.group=shop|shingle.max_frequency=0.01|clusters.decisions=decisions.csv",
        "candidates.method=all|against.output=earlier|passages.unit=line",
        &format!("candidates.method=prefix|{second}|passages.unit=word"),
    ];
    let jobs = jobs.map(|sets| {
        let sets: Vec<&str> = sets.split('|').collect();
        job(Path::new("in.parquet"), Path::new("out"), &sets)
    });
    let merge = Job::merge(vec!["a".into(), "b".into()], &jobs[0], "out");
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for stage in jobs.iter().chain([&merge]).flat_map(resemblance::pipeline::stage::describe) {
        assert!(!stage.text.is_empty());
        found.entry(stage.name).or_default().extend(stage.tables);
    }
    assert_eq!(found, written);
}

/// `schemas/job.json` is what editors read; the command prints what the program takes.
#[test]
fn the_schema_of_the_job_file_is_that_of_the_command() {
    let printed = resemblance().arg("schema").assert().shown(&[]);
    let kept = std::fs::read_to_string(repository("schemas/job.json")).unwrap();
    assert_eq!(printed, kept, "write it anew: resemblance schema > schemas/job.json");
    let schema: Value = serde_json::from_str(&printed).unwrap();
    for section in SECTIONS.split(' ') {
        assert!(schema["properties"].get(section).is_some(), "{section}");
    }
    assert_eq!(schema["additionalProperties"], json!(false));
}

#[test]
fn the_version_of_the_tables_is_that_of_the_program() {
    let version = resemblance::job::FORMAT_VERSION;
    for (page, text) in [
        ("docs/internals/versions.md", format!("which is now {version}.")),
        ("schemas/manifest.toml", format!("format_version = {version}\n")),
    ] {
        let found = std::fs::read_to_string(repository(page)).unwrap();
        assert!(found.contains(&text), "{page} does not say {text:?}");
    }
}

#[test]
fn the_page_of_the_tables_has_the_reasons_of_rejects() {
    let contract = std::fs::read_to_string(repository("schemas/rejects.toml")).unwrap();
    let contract: toml::Table = contract.parse().unwrap();
    let name = |reason: &toml::Value| reason["name"].as_str().unwrap().to_owned();
    let wanted: Vec<String> = contract["reasons"].as_array().unwrap().iter().map(name).collect();
    let page = std::fs::read_to_string(repository("docs/tables.md")).unwrap();
    let section = page.split("\n## ").find(|section| section.starts_with("Reasons")).unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    assert_eq!(rows.collect::<Vec<_>>(), wanted);
}
