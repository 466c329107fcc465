//! Progress without a terminal: a log line for each stage, and how much of its input a stage has read.

use crate::support::*;

fn said(arguments: &[&str], log: Option<&str>) -> String {
    let log = log.map(|log| ("RESEMBLANCE_LOG", log));
    resemblance().envs(log).args(arguments).assert().warned(&[])
}

fn job_file(folder: &Path, format: &str, url: &Path) -> String {
    let path = folder.join(format!("{format}.toml"));
    let text = format!(
        "[source]\nformat = {format:?}\nurl = {url:?}\nid = \"id\"\ntext = \"text\"\n[score]\nthreshold = 0.5\n\
         [output]\nurl = {:?}\n",
        folder.join(format!("out-{format}"))
    );
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn every_stage_has_a_line_and_quiet_commands_have_none() {
    let folder = tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    write_parquet(&folder.path().join("in.parquet"), &corpus(3, 300, 30), 50);
    let job = job_file(folder.path(), "parquet", &folder.path().join("in.parquet"));
    let stages = |said: &str| -> Vec<String> {
        let stage = |line: &str| {
            line.split("stage=\"").nth(1).and_then(|rest| rest.split('"').next()).map(str::to_owned)
        };
        let lines: Vec<&str> =
            said.lines().filter(|line| line.contains("stage=") && line.contains("number=")).collect();
        for (at, line) in lines.iter().enumerate() {
            let number = format!("number={} ", at + 1);
            assert!(line.contains(" done ") && line.contains(&number) && line.contains("stages="), "{line}");
        }
        lines.into_iter().filter_map(stage).collect()
    };
    let run = said(&["run", &job], None);
    let names: Vec<String> =
        manifest(&folder.path().join("out-parquet")).stages.iter().map(|stage| stage.name.clone()).collect();
    assert_eq!(stages(&run), names);
    assert!(run.contains(&format!("number={0} stages={0} ", names.len())), "{run}");
    let (out, to) = (path("out-parquet"), path("to"));
    assert_eq!(stages(&said(&["apply", &out, "--to", &to], None)), ["removed", "decisions", "rewrite"]);
    assert_eq!(stages(&said(&["verify", &to], None)), ["verify"]);
    let (corpus, truth) = (path("corpus"), path("truth.parquet"));
    let generate = ["generate", &corpus, "--documents", "50", "--truth", &truth];
    assert_eq!(stages(&said(&generate, None)), ["documents", "truth"]);
    for arguments in [
        &["run", &job, "--overwrite", "-q"][..],
        &["apply", &out, "--to", &path("quiet"), "-q"],
        &["verify", &out, "-q"],
        &["generate", &corpus, "--documents", "50", "--overwrite", "-q"],
    ] {
        assert_eq!(said(arguments, None), "", "{arguments:?}");
    }
}

/// The unit and the size of the input of each stage, as its lines say.
fn inputs(said: &str) -> Vec<(String, String, u64)> {
    let mut inputs = Vec::new();
    for line in said.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let fields = &line["fields"];
        if fields["message"] != "reached" {
            continue;
        }
        let (done, all) = (fields["done"].as_u64().unwrap(), fields["all"].as_u64().unwrap());
        assert!(done <= all && all > 0, "{line}");
        let text = |name: &str| fields[name].as_str().unwrap().to_owned();
        inputs.push((text("stage"), text("unit"), all));
    }
    inputs
}

#[test]
fn the_share_of_the_input_is_known_from_footers_and_bytes() {
    let folder = tempdir().unwrap();
    let documents = corpus(4, 400, 60);
    write_parquet(&folder.path().join("in.parquet"), &documents, 50);
    let lines = documents.iter().map(|(id, text)| format!("{}\n", json!({"id": id, "text": text})));
    std::fs::write(folder.path().join("in.jsonl"), lines.collect::<String>()).unwrap();
    let bytes = std::fs::metadata(folder.path().join("in.jsonl")).unwrap().len();
    let log = Some("warn,resemblance::progress=debug");
    for (format, first) in [("parquet", ("rows", 400)), ("jsonl", ("bytes", bytes))] {
        let job = job_file(folder.path(), format, &folder.path().join(format!("in.{format}")));
        let found = inputs(&said(&["run", &job, "--log-format", "json"], log));
        let first = ("sketches".to_owned(), first.0.to_owned(), first.1);
        assert!(found.contains(&first), "{found:?}");
        let between = found.iter().filter(|(stage, unit, _)| stage != "sketches" && unit == "rows").count();
        assert!(between > 0, "{found:?}");
    }
    let (out, to) = (folder.path().join("out-jsonl"), folder.path().join("to"));
    let arguments = ["apply", out.to_str().unwrap(), "--to", to.to_str().unwrap(), "--log-format", "json"];
    let found = inputs(&said(&arguments, log));
    assert!(found.contains(&("rewrite".to_owned(), "bytes".to_owned(), bytes)), "{found:?}");
    let found = inputs(&said(&["verify", to.to_str().unwrap(), "--log-format", "json"], log));
    assert_eq!(found[0].1, "bytes");
}

/// The seconds that lines about stages say are left, by the message of the line.
fn seconds_left(said: &str) -> Vec<(String, Option<f64>)> {
    let lines = said.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["fields"].clone());
    let of_stages = lines.filter(|fields| fields.get("stage").is_some());
    of_stages
        .map(|fields| (fields["message"].as_str().unwrap().to_owned(), fields["left_seconds"].as_f64()))
        .collect()
}

#[test]
fn the_time_of_the_whole_run_is_known_after_its_first_stage_or_from_its_forecast() {
    let folder = tempdir().unwrap();
    write_parquet(&folder.path().join("in.parquet"), &corpus(5, 400, 60), 50);
    let job = job_file(folder.path(), "parquet", &folder.path().join("in.parquet"));
    let run = ["run", job.as_str(), "--overwrite", "--log-format", "json"];
    let lines = seconds_left(&said(&run, None));
    let of = |lines: &[(String, Option<f64>)], message: &str| -> Vec<Option<f64>> {
        lines.iter().filter(|(of, _)| of == message).map(|(_, left)| *left).collect()
    };
    let done = of(&lines, "done");
    assert!(done.len() > 8 && done.iter().all(|left| left.is_some_and(|left| left >= 0.0)), "{lines:?}");
    assert_eq!(done.last(), Some(&Some(0.0)));
    // The first stage begins before anything was measured.
    assert_eq!(lines[0], ("begins".to_owned(), None));
    let lines = seconds_left(&said(&[&run[..], &["--forecast", "200"]].concat(), None));
    let begins = of(&lines, "begins");
    // The steps of the forecast are not of the run, which they tell the seconds of.
    assert!(begins.len() > 10 && begins[..3].iter().all(|left| left.is_none()), "{lines:?}");
    assert!(begins[5..].iter().all(|left| left.is_some()), "{lines:?}");
    // A dataset is written after its run.
    let [data, to] = ["in.parquet", "to"].map(|name| folder.path().join(name).display().to_string());
    let lines = seconds_left(&said(&["dedup", &data, "--to", &to, "--log-format", "json"], None));
    assert!(lines.len() > 8 && lines.last().unwrap().1.is_none(), "{lines:?}");
}
