//! A folder with sources and the outputs of jobs over them.

use assert_cmd::Command;
use resemblance::error::Result;

use super::*;

/// Sources and outputs by their names in a folder; all jobs have the same settings first.
pub struct Scene {
    folder: TempDir,
    pub sets: Vec<String>,
}

impl Scene {
    pub fn new(sets: &[&str]) -> Self {
        Self { folder: tempdir().unwrap(), sets: sets.iter().map(|set| set.to_string()).collect() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Writes documents as a file of the format that its name says, and the folders that its name has.
    pub fn write(&self, name: &str, documents: &[Document]) {
        std::fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        if !name.ends_with(".jsonl") {
            return write_parquet(&self.path(name), documents, 30);
        }
        let line = |(id, text): &Document| format!("{}\n", serde_json::json!({"id": id, "text": text}));
        std::fs::write(self.path(name), documents.iter().map(line).collect::<String>()).unwrap();
    }

    /// Writes these documents and the job file `job.toml` over them, whose output is `out`.
    pub fn with_job(self, source: &str, documents: &[Document]) -> Self {
        self.write(source, documents);
        let format = source.rsplit('.').next().unwrap();
        std::fs::write(self.path("job.toml"), job_text_of(format, self.path(source), self.path("out")))
            .unwrap();
        self
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = resemblance();
        command.current_dir(self.folder.path()).args(arguments);
        command
    }

    /// Runs a job file with this text.
    pub fn run_text(&self, text: &str) -> Assert {
        std::fs::write(self.path("job.toml"), text).unwrap();
        self.command(&["run", "job.toml"]).assert()
    }

    pub fn job(&self, source: &str, output: &str, sets: &[&str]) -> Job {
        let sets: Vec<&str> = self.sets.iter().map(String::as_str).chain(sets.iter().copied()).collect();
        job(&self.path(source), &self.path(output), &sets)
    }

    /// A job against these outputs, if there are any.
    pub fn job_against(&self, source: &str, output: &str, before: &[&str], sets: &[&str]) -> Job {
        let against = self.against(before);
        let against = if before.is_empty() { &[][..] } else { &[against.as_str()] };
        self.job(source, output, &[sets, against].concat())
    }

    pub fn run(&self, source: &str, output: &str, sets: &[&str]) -> Outcome {
        run(&self.job(source, output, sets)).unwrap_or_else(|error| panic!("{output} {sets:?}: {error}"))
    }

    /// The setting of these outputs as known ones.
    pub fn against(&self, outputs: &[&str]) -> String {
        format!("against.output={:?}", outputs.iter().map(|name| self.path(name)).collect::<Vec<_>>())
    }

    pub fn merge(&self, outputs: &[&str], to: &str) -> Result<Outcome> {
        let last = serde_json::from_value(manifest(&self.path(outputs.last().unwrap())).job).unwrap();
        let urls = outputs.iter().map(|name| self.path(name).display().to_string()).collect();
        run(&Job::merge(urls, &last, &self.path(to).display().to_string()))
    }

    /// The pairs, the clusters and the documents of an output, but not where these were read from.
    pub fn results(&self, output: &str) -> [RecordBatch; 3] {
        let [pairs, clusters, documents] =
            ["pairs", "clusters", "documents"].map(|name| table(&self.path(output), name));
        [pairs, clusters, without_places(documents)]
    }

    /// Applies an output to a folder; returns what is printed.
    pub fn apply(&self, output: &str, to: &str, more: &[&str]) -> Value {
        printed(resemblance().arg("apply").arg(self.path(output)).arg("--to").arg(self.path(to)).args(more))
    }
}
