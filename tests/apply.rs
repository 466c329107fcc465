//! `resemblance apply`: the source of an output without its copies, compared with what plain code removes from the same files.

mod again;
mod annotated;
mod budget;
mod bytes;
mod columns;
mod delta;
mod dropped;
mod groups;
mod interrupted;
mod passages;
mod physical;
mod refused;
mod result;
mod sizes;
mod stores;

use std::fmt::Write;

use crate::support::*;

/// A source, the output of a job over it, and what is made of both.
struct Applied {
    folder: TempDir,
}

/// A document of a finished output, as its tables have it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    source: String,
    position: u64,
}

impl Applied {
    fn new() -> Self {
        let applied = Self { folder: tempdir().unwrap() };
        std::fs::create_dir(applied.path("in")).unwrap();
        applied
    }

    fn of_texts(documents: &[Document]) -> Self {
        let applied = Self::new();
        documents.iter().for_each(|(id, text)| applied.put(&format!("{id}.txt"), text));
        applied.run("text", "");
        applied
    }

    fn of_rows(documents: &[Document]) -> Self {
        let applied = Self::new();
        write_parquet(&applied.path("in/a.parquet"), documents, 30);
        applied.run("parquet", COLUMNS);
        applied
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn put(&self, name: &str, bytes: impl AsRef<[u8]>) {
        write_file(&self.folder, &format!("in/{name}"), bytes);
    }

    /// Runs the job over the source, with these lines in `[source]`, and further sections behind them.
    fn run(&self, format: &str, lines: &str) {
        let mut text = format!("[source]\nformat = {format:?}\nurl = {:?}\n{lines}\n", self.path("in"));
        write!(text, "[shingle]\nsize = 3\nshort = \"reject\"\n[score]\nthreshold = 0.5\n").unwrap();
        let clusters = if lines.contains("[clusters]") { "" } else { CONNECTED };
        write!(text, "{clusters}[output]\nurl = {:?}\n", self.path("out")).unwrap();
        self.run_job(&text);
        assert!(manifest(&self.path("out")).counts.clusters > 1, "nothing is similar");
    }

    fn run_job(&self, text: &str) {
        std::fs::write(self.path("job.toml"), text).unwrap();
        resemblance().arg("run").arg(self.path("job.toml")).assert().success();
    }

    /// Applies the output to the folder `to`: what is printed.
    fn apply(&self, to: &str, more: &[&str]) -> Value {
        program!["apply", self.path("out"), "--json", "--to", self.path(to)].args(more).assert().json()
    }

    fn dry(&self, more: &[&str]) -> String {
        program!["apply", self.path("out"), "--dry-run"].args(more).assert().shown(&[])
    }

    fn counted(&self, more: &[&str]) -> Value {
        program!["apply", self.path("out"), "--dry-run", "--json"].args(more).assert().json()
    }

    /// The message of an application that is refused with this exit code; it has all these parts.
    fn refused(&self, to: &str, more: &[&str], code: i32, parts: &[&str]) -> String {
        let ran = program!["apply", self.path("out"), "--to", self.path(to)].args(more).assert();
        ran.refused(code, parts)
    }

    /// The table of documents that go, of a result that is whole.
    fn removed(&self, to: &str) -> RecordBatch {
        result(&self.path(to));
        parquet(&self.path(to).join("_resemblance/removed"))
    }

    /// The documents that go by the tables of the output, each with the one that represents it.
    fn kept_of_gone(&self) -> BTreeMap<String, String> {
        let clustered = self.clustered().into_values();
        clustered.filter(|(_, kept, id)| kept != id).map(|(_, kept, id)| (id, kept)).collect()
    }

    /// The document that represents the cluster of each document that is in one: place -> (cluster_id, kept_id, id).
    fn clustered(&self) -> BTreeMap<Place, (String, String, String)> {
        let (documents, clusters) =
            (table(&self.path("out"), "documents"), table(&self.path("out"), "clusters"));
        let flags = bools(&clusters, "representative");
        let members: Vec<_> =
            strings(&clusters, "id").into_iter().zip(strings(&clusters, "cluster_id")).collect();
        let kept = members.iter().zip(flags).filter(|(_, kept)| *kept);
        let kept: BTreeMap<&String, &String> = kept.map(|((id, cluster), _)| (cluster, id)).collect();
        let of: BTreeMap<&String, &String> = members.iter().map(|(id, cluster)| (id, cluster)).collect();
        let places = strings(&documents, "source").into_iter().zip(numbers(&documents, "position"));
        strings(&documents, "id")
            .into_iter()
            .zip(places)
            .filter_map(|(id, (source, position))| {
                let cluster = *of.get(&id)?;
                Some((Place { source, position }, (cluster.clone(), kept[cluster].clone(), id)))
            })
            .collect()
    }

    fn gone(&self) -> BTreeSet<Place> {
        let clustered = self.clustered();
        clustered.into_iter().filter(|(_, (_, kept, id))| kept != id).map(|(place, _)| place).collect()
    }

    fn rejected(&self) -> BTreeSet<Place> {
        let rejects = table(&self.path("out"), "rejects");
        let places = strings(&rejects, "source").into_iter().zip(numbers(&rejects, "position"));
        places.map(|(source, position)| Place { source, position }).collect()
    }

    fn place(&self, name: &str, position: usize) -> Place {
        let source = self.path("in").join(name).to_str().unwrap().to_owned();
        Place { source, position: position as u64 }
    }
}

fn manifest_of(to: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(to.join("_resemblance/manifest.json")).unwrap()).unwrap()
}

fn column_names(rows: &RecordBatch) -> Vec<String> {
    rows.schema().fields().iter().map(|field| field.name().clone()).collect()
}

/// The manifest of a result; its counts add up, file by file too, and every file that it names has its bytes.
fn result(to: &Path) -> Value {
    let manifest = manifest_of(to);
    let adds_up = |counts: &Value| {
        let count = |name: &str| counts[name].as_u64().unwrap();
        assert_eq!(count("kept") + count("removed") + count("rejected"), count("read"), "{counts}");
    };
    adds_up(&manifest["counts"]);
    let mut named = BTreeSet::from(["_resemblance/manifest.json".to_owned()]);
    for file in manifest["files"].as_array().unwrap() {
        adds_up(file);
    }
    let written = manifest["files"].as_array().unwrap().iter().flat_map(|f| f["written"].as_array().unwrap());
    let tables = ["removed", "removed_spans"].into_iter().flat_map(|name| manifest[name].as_array().unwrap());
    for file in written.chain(tables) {
        let path = file["path"].as_str().unwrap();
        let bytes = std::fs::read(to.join(path)).unwrap();
        assert_eq!(bytes.len() as u64, file["bytes"].as_u64().unwrap(), "{path}");
        assert_eq!(u64::from(crc32fast::hash(&bytes)), file["crc32"].as_u64().unwrap(), "{path}");
        named.insert(path.to_owned());
    }
    assert_eq!(files(to).into_keys().collect::<BTreeSet<_>>(), named);
    manifest
}

/// The files under a folder, by their paths in it.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let inside = |path: PathBuf| path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
    crate::support::files(folder).into_iter().map(|(path, bytes)| (inside(path), bytes)).collect()
}

fn kept(to: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut kept = files(to);
    kept.retain(|path, _| !path.starts_with('_'));
    kept
}
