//! Random layouts of files of others in and around an output, and random commands on them: every foreign byte is there afterwards,
//! whether the command ran or was refused.

use super::job_file;
use crate::support::*;

const TABLES: [&str; 5] = ["documents", "pairs", "clusters", "rejects", "cluster_id_changes"];

/// The content of an output, or of the folder of an application, before foreign files are added.
#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Nothing,
    Unfinished,
    Finished,
    FinishedAsDelta,
    Applied,
    HalfApplied,
    Generated,
}

const STATES: [State; 7] = [
    State::Nothing,
    State::Unfinished,
    State::Finished,
    State::FinishedAsDelta,
    State::Applied,
    State::HalfApplied,
    State::Generated,
];

/// Folders in every state, made once and copied for each layout.
struct Scene {
    folder: TempDir,
    random: Random,
}

impl Scene {
    fn new(seed: u64) -> Self {
        let scene = Self { folder: tempdir().unwrap(), random: Random(seed) };
        let path = |name: &str| scene.folder.path().join(name);
        write_parquet(&path("in.parquet"), &corpus(41, 40, 20), 20);
        for state in STATES {
            let made = path(&format!("{state:?}"));
            match state {
                State::Nothing => std::fs::create_dir(&made).unwrap(),
                // All of them name this output, so that the job finds its own.
                State::Unfinished | State::Finished | State::FinishedAsDelta => {
                    let out = path("out");
                    let delta = ["output.tables=delta"];
                    let sets = if state == State::FinishedAsDelta { &delta[..] } else { &[] };
                    let plans = if state == State::Unfinished { 5 } else { usize::MAX };
                    let (ended, failed) =
                        run_until(&job(&path("in.parquet"), &out, sets), OnExisting::Fail, plans);
                    assert_eq!((failed, ended.is_err()), (plans == 5, plans == 5));
                    std::fs::rename(out, &made).unwrap();
                }
                State::Applied | State::HalfApplied => {
                    program!["apply", path("source"), "--to", &made].assert().success();
                    if state == State::HalfApplied {
                        let manifest = std::fs::read(made.join("_resemblance/manifest.json")).unwrap();
                        let manifest: Value = serde_json::from_slice(&manifest).unwrap();
                        let begun = format!(
                            "{{\n  \"fingerprint\": {},\n  \"output\": {}\n}}\n",
                            manifest["fingerprint"], manifest["output"]
                        );
                        std::fs::remove_file(made.join("_resemblance/manifest.json")).unwrap();
                        std::fs::create_dir(made.join("_resemblance/_work")).unwrap();
                        std::fs::write(made.join("_resemblance/_work/apply.json"), begun).unwrap();
                    }
                }
                State::Generated => {
                    program!["generate", &made, "--documents", "30", "--files", "3"].assert().success();
                }
            }
            if state == State::Finished {
                copy(&made, &path("source"));
            }
        }
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn below(&mut self, n: usize) -> usize {
        self.random.below(n)
    }

    fn table(&mut self) -> &'static str {
        TABLES[self.below(TABLES.len())]
    }

    fn hex(&mut self, digits: usize) -> String {
        let text = format!("{:016x}{:016x}", self.random.next(), self.random.next());
        text[..digits].to_owned()
    }

    /// A name in `out` that a user might choose, some of them close to ours, and its content.
    fn foreign(&mut self, ours: &[PathBuf], out: &Path) -> Vec<(String, Vec<u8>)> {
        let (table, hex) = (self.table(), self.hex(32));
        let text = |text: &str| text.as_bytes().to_vec();
        let folder = [
            table,
            "_work",
            "_work/keys",
            "_work/attempts",
            "_resemblance",
            "_resemblance/removed",
            "_resemblance/_work/parts",
        ][self.below(7)];
        match self.below(12) {
            0 => delta_table(if self.below(4) == 0 { "_resemblance/removed" } else { table }),
            1 => {
                let name = ["manifest.json", "_resemblance/manifest.json"][self.below(2)];
                vec![(name.into(), text("{\"metadata\": {\"dbt_version\": \"1.9\"}, \"nodes\": {}}"))]
            }
            2 => vec![("manifest.json".into(), text("no JSON"))],
            3 => vec![(format!("{table}/part-00000-{}.snappy.parquet", self.hex(8)), text("PAR1"))],
            4 => {
                let random = self.hex(12);
                let name = format!("part-00000-{hex}-{random}-{}.resemblance.parquet", self.hex(8));
                vec![(format!("{folder}/{name}"), text("PAR1"))]
            }
            5..=7 if !ours.is_empty() => {
                let path = &ours[self.below(ours.len())];
                let inside = path.strip_prefix(out).unwrap();
                let name = inside.file_name().unwrap().to_str().unwrap();
                let parent = inside.parent().unwrap().to_str().unwrap();
                let bytes = std::fs::read(path).unwrap();
                let copy = match self.below(3) {
                    0 => format!("{parent}/backup/{name}"),
                    1 => format!("{parent}/{name}.bak"),
                    _ => format!("copies/{name}"),
                };
                vec![(copy.trim_start_matches('/').to_owned(), bytes)]
            }
            8 => vec![(format!("{folder}/.resemblance-{}.tmp", self.hex(6)), text("mine"))],
            9 => vec![(
                format!("{folder}/{}.{}.json", ["keys", "apply", "notes"][self.below(3)], self.hex(16)),
                text("{}"),
            )],
            10 => vec![(
                format!("{}/{hex}.json", ["_work/attempts", "_work/claims"][self.below(2)]),
                text("{\"a\": 1}"),
            )],
            _ => vec![(
                [
                    "_resemblance/_work/apply.json",
                    "_resemblance/_work/parts/000000.json",
                    "_work/mine.json#1",
                    "pairs/part-00001.parquet#2",
                    "part-00001.parquet",
                    "part-00009.parquet",
                    "part-00000.parquet.partial",
                    "in.parquet",
                    "_resemblance/removed/part-00000.parquet",
                    "pairs/_delta_log/notes.txt",
                ][self.below(10)]
                .into(),
                text("mine"),
            )],
        }
    }

    fn command(&mut self, out: &Path) -> (String, assert_cmd::Command) {
        let [input, source] = ["in.parquet", "source"].map(|name| self.path(name).display().to_string());
        let out = out.to_str().unwrap();
        let job = job_file(self.folder.path(), "parquet", &input, out);
        let (job, source) = (job.to_str().unwrap(), source.as_str());
        let delta = "output.tables=delta";
        let arguments = match self.below(8) {
            0 => vec!["clean", out],
            1 | 2 if self.below(2) == 0 => vec!["apply", source, "--to", out, "--tables", "delta"],
            1 | 2 => vec!["apply", source, "--to", out],
            3 => vec!["generate", out, "--documents", "30", "--files", "2", "--overwrite"],
            4 => vec!["run", job],
            5 => vec!["run", job, "--set", delta],
            6 => vec!["run", job, "--overwrite"],
            _ => vec!["run", job, "--overwrite", "--set", delta],
        };
        let mut command = resemblance();
        command.args(&arguments);
        (arguments.join(" "), command)
    }
}

fn delta_table(folder: &str) -> Vec<(String, Vec<u8>)> {
    let commit = format!(
        "{}\n{}\n{}\n",
        r#"{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}"#,
        r#"{"metaData":{"id":"0","format":{"provider":"parquet"},"schemaString":"{}","partitionColumns":[]}}"#,
        r#"{"add":{"path":"part-00000-a.parquet","size":4,"modificationTime":1,"dataChange":true}}"#
    );
    vec![
        (format!("{folder}/_delta_log/{:020}.json", 0), commit.into_bytes()),
        (format!("{folder}/part-00000-a.parquet"), b"PAR1".to_vec()),
    ]
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for (path, bytes) in files(from) {
        let to = to.join(path.strip_prefix(from).unwrap());
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::write(to, bytes).unwrap();
    }
}

/// The folders of spills of others, and one that a killed process of ours left.
fn spills(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    for name in
        ["resemblance-spill-12-mine/notes", "resemblance-spill-13-mine/lock", "resemblance-spill-14/a/b"]
    {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "mine").unwrap();
    }
    files(folder)
}

#[test]
fn every_byte_of_others_outlives_every_command() {
    let mut scene = Scene::new(2025 + seeds(6).start);
    let temporary = scene.path("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let of_spills = spills(&temporary);
    let (mut done, mut refused, mut removed) = (0, 0, 0);
    for layout in seeds(6) {
        let state = STATES[scene.below(STATES.len())];
        let out = scene.path("out");
        copy(&scene.path(&format!("{state:?}")), &out);
        let ours: Vec<PathBuf> = files(&out).into_keys().collect();
        let mut foreign = BTreeMap::new();
        for _ in 0..2 + scene.below(6) {
            for (inside, bytes) in scene.foreign(&ours, &out) {
                let path = out.join(inside);
                // Our files are not written by others.
                if !path.exists() && !path.ancestors().skip(1).any(Path::is_file) {
                    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                    std::fs::write(&path, &bytes).unwrap();
                    foreign.insert(path, bytes);
                }
            }
        }
        let logs = foreign.keys().filter(|path| path.ends_with(format!("_delta_log/{:020}.json", 0)));
        let logs: Vec<PathBuf> = logs.map(|path| path.parent().unwrap().to_owned()).collect();
        let commits = |log: &PathBuf| {
            files(log).into_keys().filter(|p| p.extension().is_some_and(|e| e == "json")).count()
        };
        for _ in 0..3 {
            let (name, mut command) = scene.command(&out);
            let ended = command.env("TMPDIR", &temporary).output().unwrap();
            let said = stderr(&ended);
            let what = format!("layout {layout}: {name} where there was {state:?}\n{said}");
            match ended.status.code() {
                Some(0) => done += 1,
                Some(2 | 3) => refused += 1,
                other => panic!("{other:?}: {what}"),
            }
            let there = files(&out);
            for (path, bytes) in &foreign {
                assert_eq!(there.get(path), Some(bytes), "{}: {what}", path.display());
            }
            for log in &logs {
                assert_eq!(commits(log), 1, "{} was gone on with: {what}", log.display());
            }
            removed += ours.iter().filter(|path| !there.contains_key(*path)).count();
            assert_eq!(files(&temporary), of_spills, "{what}");
        }
        std::fs::remove_dir_all(&out).unwrap();
    }
    eprintln!("{done} commands ended well, {refused} were refused, {removed} files of ours were removed");
    assert!(done > 0 && refused > 0 && removed > 0, "{done} {refused} {removed}");
}
