//! `source.where` and `source.limit`, partition columns and nested fields: which rows and columns of a source are documents,
//! compared with plain code over the same rows.

mod after;
mod conditions;
mod nested;
mod partitions;
mod samples;

use resemblance::output::manifest::Counts;

use crate::support::*;

#[derive(Debug, Clone)]
struct Row {
    id: String,
    text: String,
    lang: Option<&'static str>,
    stars: Option<i64>,
}

/// Rows with documents; some of them are similar.
fn rows(seed: u64, count: usize) -> Vec<Row> {
    let mut random = Random(seed);
    let row = |(id, text): Document| Row {
        id,
        text,
        lang: [Some("en"), Some("en"), Some("de"), None][random.below(4)],
        stars: [None, Some(1), Some(2), Some(3), Some(10), Some(11), Some(-7)][random.below(7)],
    };
    corpus(seed, count, 25).into_iter().map(row).collect()
}

/// The formats whose files have columns of their own, by their endings.
const ENDINGS: [&str; 4] = ["parquet", "csv", "jsonl", "csv.gz"];

/// Writes rows as a file of the format that its name says.
fn write(path: &Path, rows: &[Row]) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let name = path.to_string_lossy();
    if name.ends_with(".parquet") {
        return write_batch(path, &batch(rows), 7);
    }
    let text = match name.ends_with(".jsonl") {
        true => rows.iter().map(|row| json(row) + "\n").collect::<String>(),
        false => csv(rows),
    };
    let bytes = if name.ends_with(".gz") { gzipped(text) } else { text.into_bytes() };
    std::fs::write(path, bytes).unwrap();
}

fn batch(rows: &[Row]) -> RecordBatch {
    let columns: [(&str, ArrayRef); 4] = [
        ("id", Arc::new(StringArray::from_iter_values(rows.iter().map(|row| &row.id)))),
        ("text", Arc::new(StringArray::from_iter_values(rows.iter().map(|row| &row.text)))),
        ("lang", Arc::new(rows.iter().map(|row| row.lang).collect::<StringArray>())),
        ("stars", Arc::new(rows.iter().map(|row| row.stars).collect::<Int64Array>())),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn csv(rows: &[Row]) -> String {
    let shown = |stars: Option<i64>| stars.map_or(String::new(), |stars| stars.to_string());
    let line =
        |row: &Row| format!("{},{},{},{}\n", row.id, row.text, row.lang.unwrap_or(""), shown(row.stars));
    "id,text,lang,stars\n".to_owned() + &rows.iter().map(line).collect::<String>()
}

fn json(row: &Row) -> String {
    let Row { id, text, lang, stars } = row;
    serde_json::json!({"id": id, "text": text, "lang": lang, "stars": stars}).to_string()
}

/// The rows that a run leaves out of its source.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct LeftOut {
    files: u64,
    by_where: u64,
    by_limit: u64,
}

impl LeftOut {
    fn of(counts: &Counts) -> Option<Self> {
        let Counts { files_left_out, rows_left_out_by_where, rows_left_out_by_limit, .. } = counts;
        Some(Self {
            files: (*files_left_out)?,
            by_where: (*rows_left_out_by_where)?,
            by_limit: (*rows_left_out_by_limit)?,
        })
    }
}

struct Source {
    scene: Scene,
}

has_a_scene!(Source);

impl Source {
    fn new() -> Self {
        Self { scene: Scene::new(&[]) }
    }

    fn put(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.path("in").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// The job over the files of the format of `ending`, whose output is `output`.
    fn job(&self, ending: &str, output: &str, sets: &[&str]) -> Job {
        resolved(format(ending), &self.path("in"), &self.path(output), sets).unwrap()
    }

    /// Runs the job and compares its documents and pairs with `documents`, and its rejects with `left_out`.
    fn check(&self, job: &Job, documents: &[Row], left_out: LeftOut, what: &str) {
        let outcome = run(job).unwrap();
        let output = PathBuf::from(&job.output.url);
        assert_eq!(ids(&output), documents.iter().map(|row| row.id.clone()).collect(), "{what}");
        let documents: Vec<Document> =
            documents.iter().map(|row| (row.id.clone(), row.text.clone())).collect();
        assert_eq!(pairs(&output), exact_pairs(&documents, 3, 0.5), "{what}");
        let counts = outcome.manifest.counts;
        assert_eq!((LeftOut::of(&counts), counts.rejects), (Some(left_out), 0), "{what}");
    }
}

fn format(ending: &str) -> &str {
    ending.trim_end_matches(".gz")
}

fn resolved(format: &str, source: &Path, output: &Path, sets: &[&str]) -> resemblance::error::Result<Job> {
    let text = job_text_of(format, source, output);
    resolve(&text, &[&["candidates.method=prefix", "engine.threads=2"], sets].concat())
}

fn ids(output: &Path) -> BTreeSet<String> {
    strings(&table(output, "documents"), "id").into_iter().collect()
}
