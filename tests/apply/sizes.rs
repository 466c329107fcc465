//! `--columns`: the documents that stay have the numbers of documents that they represent, compared with plain counting.

use arrow::array::*;

use super::*;

/// Groups that JSON has to quote, and documents without a group.
pub(super) const GROUPS: [Option<&str>; 4] = [Some("north"), Some("a \"b\",\n{c}"), Some(""), None];

type Sizes = (Option<u64>, Option<Value>);

pub(super) struct Scene {
    pub(super) applied: Applied,
    format: &'static str,
    documents: Vec<Document>,
}

/// Documents in two files; the first row cannot be compared.
pub(super) fn scene(format: &'static str) -> Scene {
    let applied = Applied::new();
    let mut documents = corpus(41, 160, 25);
    documents[0].1 = "short".into();
    for row in 60..75 {
        documents[row].1 = documents[20].1.clone();
    }
    let scene = Scene { applied, format, documents };
    for name in ["a", "b"] {
        let rows = scene.rows(name);
        let line = |row: usize| {
            let ((id, text), group) = (&scene.documents[row], GROUPS[row % 4]);
            match format {
                "csv" => {
                    let group = group.unwrap_or_default().replace('"', "\"\"");
                    format!("{id},{text},\"{group}\"\n")
                }
                _ => format!("{}\n", json!({"id": id, "text": text, "shop": group})),
            }
        };
        let path = format!("{name}.{format}");
        match format {
            "parquet" => {
                let documents = &scene.documents[rows.clone()];
                let shops = Arc::new(rows.map(|row| GROUPS[row % 4]).collect::<StringArray>());
                write_columns(&scene.applied.path("in").join(path), documents, vec![("shop", shops)], 40);
            }
            "csv" => {
                scene.applied.put(&path, format!("id,text,shop\n{}", rows.map(line).collect::<String>()))
            }
            _ => scene.applied.put(&path, rows.map(line).collect::<String>()),
        }
    }
    scene.applied.run(format, &format!("{COLUMNS}group = \"shop\""));
    scene
}

impl Scene {
    fn rows(&self, name: &str) -> std::ops::Range<usize> {
        match name {
            "a" => 0..100,
            _ => 100..self.documents.len(),
        }
    }

    /// The group of a document. In CSV the empty text is null.
    fn group(&self, id: &str) -> Option<&'static str> {
        let row = self.documents.iter().position(|document| document.0 == id).unwrap();
        match self.format {
            "csv" => GROUPS[row % 4].filter(|group| !group.is_empty()),
            _ => GROUPS[row % 4],
        }
    }

    /// The columns of each document that stays, where each of `gone` goes because of the document after it.
    fn expected(&self, gone: &BTreeMap<String, String>) -> BTreeMap<String, Sizes> {
        let mut of: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (id, _) in &self.documents[1..] {
            of.entry(gone.get(id).unwrap_or(id)).or_default().push(id);
        }
        let sizes = |ids: &[&str]| {
            let mut groups = serde_json::Map::new();
            for group in ids.iter().filter_map(|id| self.group(id)) {
                let count = groups.get(group).map_or(0, |count| count.as_u64().unwrap());
                groups.insert(group.to_owned(), (count + 1).into());
            }
            (Some(ids.len() as u64), Some(Value::Object(groups)))
        };
        let mut expected: BTreeMap<String, Sizes> =
            of.into_iter().map(|(id, ids)| (id.to_owned(), sizes(&ids))).collect();
        // It was not compared.
        expected.insert(self.documents[0].0.clone(), (None, None));
        expected
    }

    fn found(&self, to: &str) -> BTreeMap<String, Sizes> {
        let mut found = BTreeMap::new();
        for name in ["a", "b"] {
            let path = self.applied.path(to).join(format!("{name}.{}", self.format));
            match self.format {
                "parquet" => {
                    let batch = parquet(&path);
                    let names = column_names(&batch);
                    assert_eq!(names[names.len() - 2..], ["cluster_size", "group_sizes"]);
                    let sizes = batch["cluster_size"].as_primitive::<arrow::datatypes::Int64Type>();
                    let groups = batch["group_sizes"].as_string::<i32>();
                    for ((id, size), groups) in strings(&batch, "id").into_iter().zip(sizes).zip(groups) {
                        let groups = groups.map(|groups| serde_json::from_str(groups).unwrap());
                        assert!(found.insert(id, (size.map(|size| size as u64), groups)).is_none());
                    }
                }
                "csv" => {
                    let text = std::fs::read_to_string(&path).unwrap();
                    let records = text.strip_prefix("id,text,shop,cluster_size,group_sizes\n").unwrap();
                    for record in csv_records(records) {
                        let [id, _, _, size, groups] = <[String; 5]>::try_from(record).unwrap();
                        let groups = (!groups.is_empty()).then(|| serde_json::from_str(&groups).unwrap());
                        found.insert(id, (size.parse().ok(), groups));
                    }
                }
                _ => {
                    for line in std::fs::read_to_string(&path).unwrap().lines() {
                        let line: Value = serde_json::from_str(line).unwrap();
                        let groups = line.get("group_sizes").unwrap().clone();
                        let groups = (!groups.is_null()).then_some(groups);
                        let id = line["id"].as_str().unwrap().to_owned();
                        found.insert(id, (line["cluster_size"].as_u64(), groups));
                    }
                }
            }
        }
        found
    }
}

const BOTH: &[&str] = &["--columns", "group_sizes,cluster_size"];

#[test]
fn sizes_equal_plain_counts() {
    for format in ["parquet", "csv", "jsonl"] {
        let scene = scene(format);
        let printed = scene.applied.apply("to", BOTH);
        let expected = scene.expected(&scene.applied.kept_of_gone());
        assert_eq!(scene.found("to"), expected, "{format}");
        let sizes: Vec<u64> = expected.values().filter_map(|(size, _)| *size).collect();
        let (all, largest) = (sizes.iter().sum::<u64>(), *sizes.iter().max().unwrap());
        assert!(largest > 15 && all == 159, "the first row was rejected, {largest} {all}");
        let counts = json!({"documents": sizes.len(), "represented": all, "largest": largest});
        assert_eq!(printed["sizes"], counts);
        assert_eq!(result(&scene.applied.path("to"))["columns"], json!(["cluster_size", "group_sizes"]));
        let before = files(&scene.applied.path(""));
        assert_eq!(scene.applied.counted(BOTH)["sizes"], counts);
        let line = format!(
            "get cluster_size and group_sizes: each represents {largest} documents at most, and all of them 159"
        );
        let text = scene.applied.dry(BOTH);
        assert!(text.contains(&line), "{text}");
        assert!(!scene.applied.dry(&[]).contains("each represents"));
        assert!(files(&scene.applied.path("")) == before);
        // The order of the columns does not matter; other columns are other options.
        let again = ["--columns", "cluster_size", "--columns", "group_sizes"];
        assert_eq!(scene.applied.apply("to", &again)["already_finished"], true);
        scene.applied.refused("to", &["--columns", "cluster_size"], 2, &["other options"]);
    }
}

#[test]
fn documents_that_are_spared_represent_themselves() {
    let scene = scene("parquet");
    scene.applied.apply("to", &[BOTH, &["--contained", "0.98"]].concat());
    let rows = scene.applied.removed("to");
    let gone: BTreeMap<_, _> = strings(&rows, "id").into_iter().zip(strings(&rows, "kept_id")).collect();
    assert!(gone.len() > 15 && gone.len() < scene.applied.kept_of_gone().len(), "{}", gone.len());
    assert_eq!(scene.found("to"), scene.expected(&gone));
}

#[test]
fn annotated_documents_that_others_represent_have_no_size() {
    let scene = scene("jsonl");
    scene.applied.apply("to", &[BOTH, &["--annotate"]].concat());
    let gone = scene.applied.kept_of_gone();
    let mut expected = scene.expected(&gone);
    expected.extend(gone.into_keys().map(|id| (id, (None, None))));
    assert_eq!(scene.found("to"), expected);
    let line = std::fs::read_to_string(scene.applied.path("to/a.jsonl")).unwrap();
    let names = ["cluster_id", "representative", "kept_id", "cluster_size", "group_sizes"]
        .map(|name| line.find(name).unwrap());
    assert!(names.is_sorted(), "{names:?}");
}

/// Documents of earlier outputs are not in the source, so documents that stay do not represent them, and those that go because of them
/// are in no number.
#[test]
fn reference_documents_are_not_counted() {
    let scene = scene("jsonl");
    let path = |name: &str| scene.applied.path(name).display().to_string();
    for (name, from, against) in [("one", "a.jsonl", None), ("two", "b.jsonl", Some("one"))] {
        let urls = [format!("source.url={}/in/{from}", path("")), format!("output.url={}", path(name))];
        let against = against.map(|output| format!("against.output={}", path(output)));
        let sets = urls.into_iter().chain(against).flat_map(|set| ["--set".to_owned(), set]);
        program!["run", path("job.toml")].args(sets).assert().success();
    }
    program!["apply", &path("two"), "--to", &path("to"), "--columns", "cluster_size"].assert().success();
    let kept = std::fs::read_to_string(scene.applied.path("to/b.jsonl")).unwrap();
    let size = |line: &str| serde_json::from_str::<Value>(line).unwrap()["cluster_size"].as_u64().unwrap();
    let sizes = kept.lines().map(size);
    let (count, sum) = (kept.lines().count() as u64, sizes.sum::<u64>());
    let rows = scene.applied.removed("to");
    let reference = rows["kept_source"].null_count() as u64;
    let own = rows.num_rows() as u64 - reference;
    assert!(own > 2 && reference > 5, "{own} {reference}");
    assert_eq!(count + own + reference, 60);
    assert_eq!(sum, count + own);
}

#[test]
fn delta_tables_have_the_columns() {
    let scene = scene("parquet");
    scene.applied.apply("to", &[BOTH, &["--tables", "delta"]].concat());
    assert_eq!(scene.found("to"), scene.expected(&scene.applied.kept_of_gone()));
    let fields = Table::read(&scene.applied.path("to")).fields();
    for (name, kind) in [("cluster_size", "long"), ("group_sizes", "string")] {
        assert!(fields.contains(&(name.to_owned(), kind.into(), true)), "{fields:?}");
    }
}

#[test]
fn columns_that_cannot_be_added_are_refused() {
    let applied = Applied::new();
    let line = |(id, text): &Document| format!("{}\n", json!({"id": id, "text": text, "cluster_size": 3}));
    applied.put("a.jsonl", corpus(16, 40, 15).iter().map(line).collect::<String>());
    applied.run("jsonl", COLUMNS);
    applied.refused("to", &["--columns", "group_sizes"], 2, &["no source.group", "--columns cluster_size"]);
    assert!(!applied.path("to").exists());
    let parts = ["field `cluster_size` already, which --columns would add"];
    applied.refused("to", &["--columns", "cluster_size"], 3, &parts);
    assert!(!applied.path("to/_resemblance/manifest.json").exists());
}
