//! The command's streams: full or closed ones, and text that a terminal would act on.

use crate::support::*;

fn plain_command() -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("resemblance"));
    command.env_remove("RESEMBLANCE_LOG").env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

fn job_file(documents: &[Document]) -> (Scene, String) {
    let scene = Scene::new(&[]).with_job("in.parquet", documents);
    let job = scene.text("job.toml");
    (scene, job)
}

fn closed_pipe() -> std::io::PipeWriter {
    std::io::pipe().unwrap().1
}

#[cfg(target_os = "linux")]
fn full() -> std::fs::File {
    std::fs::File::options().write(true).open("/dev/full").unwrap()
}

/// `2>/dev/full`, `2>&1 | head -0` and `2>&-`.
#[cfg(target_os = "linux")]
#[test]
fn a_run_goes_on_when_its_log_cannot_be_written() {
    let (scene, job) = job_file(&corpus(1, 40, 30));
    type Streams = (&'static str, fn(&mut Command) -> &mut Command);
    let streams: [Streams; 4] = [
        ("a full standard error", |c| c.stderr(full()).stdout(Stdio::null())),
        ("a closed pipe", |c| c.stderr(closed_pipe()).stdout(Stdio::null())),
        ("one closed pipe for both", |c| c.stderr(closed_pipe()).stdout(closed_pipe())),
        ("no standard error", |c| c.stdout(Stdio::null())),
    ];
    for (n, (what, redirect)) in streams.into_iter().enumerate() {
        for (format, more) in [("text", "-v"), ("json", "-vv")] {
            let run = |set: &str| {
                let mut command = match what {
                    "no standard error" => {
                        let mut shell = Command::new("sh");
                        shell.args(["-c", "exec \"$0\" \"$@\" 2>&-"]);
                        shell.arg(assert_cmd::cargo::cargo_bin("resemblance"));
                        shell
                    }
                    _ => plain_command(),
                };
                redirect(&mut command);
                command.arg("run").arg(&job).args(["--log-format", format, more, "--set", set]);
                command.status().unwrap().code()
            };
            let out = scene.path(&format!("out-{n}-{format}"));
            let set = format!("output.url={:?}", out.to_str().unwrap());
            assert_eq!(run(&set), Some(0), "{what}, {format}");
            assert_eq!(manifest(&out).counts.documents, 40, "{what}, {format}");
            assert_eq!(run("score.threshold=2"), Some(2), "{what}, {format}");
            assert_eq!(run("source.url=nowhere.parquet"), Some(3), "{what}, {format}");
        }
        let mut command = plain_command();
        redirect(&mut command);
        assert_eq!(command.args(["run", "--nonsense"]).status().unwrap().code(), Some(2), "{what}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_standard_output_is_an_error_and_a_closed_one_is_not() {
    let (scene, job) = job_file(&corpus(1, 40, 30));
    let out = scene.path("out");
    let query = ["sql", out.to_str().unwrap(), "SELECT * FROM pairs"];
    for arguments in [&["run", &job][..], &query, &["check", &job], &["--help"]] {
        plain_command().args(arguments).stdout(full()).output().unwrap().refused(3, &["standard output"]);
        assert!(out.join("manifest.json").exists());
        plain_command().args(arguments).stdout(closed_pipe()).output().unwrap().shown(&[]);
    }
}

/// Ids that would colour a terminal, forge a line, ring a bell and turn the writing round.
const EVIL: [&str; 3] = ["a\u{1b}[31mred\u{7}", "b\nerror: forged\r\tx", "c\u{202e}gpj.exe\u{2066}\u{9b}0m"];

fn evil_corpus() -> Vec<Document> {
    EVIL.map(|id| (id.to_owned(), "one two three four five six seven eight nine".to_owned())).to_vec()
}

/// Nothing on which a terminal acts, and no line that an id begins.
fn assert_harmless(what: &str, bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let acts =
        |c: char| c != '\n' && (c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c) || c == '\u{2066}');
    assert!(!text.contains(acts), "{what}: {text:?}");
    assert!(!text.contains("\nerror: forged"), "{what}: {text:?}");
}

#[test]
fn ids_are_escaped_for_people_and_exact_in_json() {
    let (scene, job) = job_file(&evil_corpus());
    let (job, out) = (job.as_str(), &scene.text("out"));
    let (_duplicates, twice) = job_file(&[evil_corpus(), evil_corpus()].concat());
    let missing = "mi\u{1b}[2Jss\ning";
    let cases: [(&[&str], i32, &str); 8] = [
        (&["run", job, "-vv"], 0, "a\\u{1b}[31mred\\u{7}"),
        (&["sql", out, "SELECT id FROM documents ORDER BY id"], 0, "b\\nerror: forged\\r\\tx"),
        (&["sql", out, "SELECT 1 AS \"x\u{1b}[31m\""], 0, "x\\u{1b}[31m"),
        (&["neighbors", out, "--id", EVIL[0]], 0, "c\\u{202e}gpj.exe\\u{2066}"),
        (&["neighbors", out, "--id", EVIL[1], "--json"], 0, "b\\nerror: forged"),
        (&["neighbors", out, "--id", missing], 2, "mi\\u{1b}[2Jss\\ning"),
        (&["sql", out, "SELECT \"x\u{1b}[31m\" FROM pairs"], 2, "\\u{1b}[31m"),
        (&["run", &twice], 3, "a\\u{1b}[31mred\\u{7}"),
    ];
    for (arguments, code, shown) in cases {
        let ended = plain_command().args(arguments).output().unwrap();
        let said = ended.refused(code, &[]);
        assert_harmless("standard error", &ended.stderr);
        if !arguments.contains(&"--json") {
            assert_harmless("standard output", &ended.stdout);
        }
        let all = stdout(&ended) + &said;
        assert!(all.contains(shown), "{arguments:?}: {all}");
    }
    let query = ["sql", out, "SELECT id FROM documents ORDER BY id", "--json"];
    let exact = plain_command().args(query).output().unwrap().shown(&[]);
    let id = |line: &str| serde_json::from_str::<Value>(line).unwrap()["id"].as_str().unwrap().to_owned();
    assert_eq!(exact.lines().map(id).collect::<Vec<String>>(), EVIL);
    // A JSON log is exact too, and one line for each event.
    let log =
        plain_command().args(["neighbors", out, "--id", missing, "--log-format", "json"]).output().unwrap();
    let said = stderr(&log);
    let line: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    assert!(line["fields"]["message"].as_str().unwrap().contains(missing), "{line}");
}

/// Names of files are ids. The listing escapes control characters, and the screen escapes what turns text around.
#[cfg(target_os = "linux")]
#[test]
fn names_of_files_are_escaped_where_they_are_ids() {
    let folder = tempdir().unwrap();
    for name in ["a", "c\u{202e}gpj.exe\u{2066}", "e\u{1b}[2J"] {
        std::fs::write(folder.path().join(name), &evil_corpus()[0].1).unwrap();
    }
    let found = plain_command().arg("find").arg(folder.path()).args(["-t", "0.5"]).output().unwrap();
    found.shown(&["c\\u{202e}gpj.exe\\u{2066}", "e\\x1B[2J"]);
    assert_harmless("standard output", &found.stdout);
    assert_harmless("standard error", &found.stderr);
}

#[test]
fn names_of_groups_and_jobs_do_not_act_on_a_terminal() {
    let scene = Scene::new(&[]);
    let text = "one two three four five six seven";
    let shop = |n: usize| format!("\u{1b}[2J\u{9b}31m{}", n % 2);
    let line = |n: usize| json!({"id": n.to_string(), "text": text, "shop": shop(n)}).to_string() + "\n";
    std::fs::write(scene.path("in.jsonl"), (0..6).map(line).collect::<String>()).unwrap();
    let text = job_text_of("jsonl", scene.path("in.jsonl"), scene.path("out"));
    let head = "name = \"a\\u001b[2J\\u009b31m\"\nalarms = { largest_cluster = 1, per = \"group\" }\n";
    std::fs::write(scene.path("job.toml"), head.to_owned() + &text).unwrap();
    let (job, out) = (scene.text("job.toml"), scene.text("out"));
    let job = job.as_str();
    let group = ["--set", "source.group=shop"];
    for (arguments, is_json) in [
        (vec!["run", job, "--log-format", "json", "-vv"], false),
        (vec!["check", job], false),
        (vec!["check", job, "--json"], true),
        (vec!["plan", job], false),
        (vec!["report", &out], false),
        (vec!["report", &out, "--json"], true),
        (vec!["apply", &out, "--dry-run"], false),
        (vec!["sql", &out, "SELECT shop FROM documents", "--json"], false),
    ] {
        let takes_a_job = arguments.contains(&job);
        let mut command = plain_command();
        command.args(&arguments).args(if takes_a_job { &group[..] } else { &[] });
        let ran = command.output().unwrap();
        let shown = ran.shown(&[]);
        for text in [&shown, &stderr(&ran)] {
            let acts = text.chars().find(|c| c.is_control() && !"\n\t".contains(*c));
            assert_eq!(acts, None, "{arguments:?}: {text:?}");
        }
        if is_json {
            assert!(serde_json::from_str::<Value>(&shown).unwrap().to_string().contains('\u{9b}'), "{shown}");
        }
    }
}
