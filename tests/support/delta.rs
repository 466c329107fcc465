//! A reader of Delta logs that shares nothing with the program: it takes the protocol by its words.

use super::*;

#[derive(Debug, Clone)]
pub struct Table {
    pub folder: PathBuf,
    pub version: usize,
    pub protocol: Value,
    pub meta_data: Value,
    /// The last `add` of each file, by its path inside the folder.
    pub files: BTreeMap<String, Value>,
    /// The paths that the newest commit removes.
    pub removed: Vec<String>,
}

/// The names in a folder, sorted.
fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect::<BTreeSet<_>>().into_iter().collect()
}

/// The names in the folder of a table's log, sorted.
pub fn names(table: &Path) -> Vec<String> {
    names_in(&table.join("_delta_log"))
}

pub fn tables_with_logs(output: &Path) -> Vec<String> {
    names_in(output).into_iter().filter(|table| output.join(table).join("_delta_log").exists()).collect()
}

impl Table {
    pub fn read(folder: &Path) -> Table {
        let commits: Vec<String> =
            names(folder).into_iter().filter(|name| name.len() == 25 && name.ends_with(".json")).collect();
        assert!(!commits.is_empty(), "{} has no log", folder.display());
        let mut table = Table {
            folder: folder.to_owned(),
            version: commits.len() - 1,
            protocol: Value::Null,
            meta_data: Value::Null,
            files: BTreeMap::new(),
            removed: Vec::new(),
        };
        for (version, name) in commits.iter().enumerate() {
            assert_eq!(*name, format!("{version:020}.json"), "a version is missing");
            table.apply(&std::fs::read_to_string(folder.join("_delta_log").join(name)).unwrap());
        }
        table
    }

    fn apply(&mut self, commit: &str) {
        self.removed.clear();
        let (mut added, mut once) = (BTreeMap::new(), BTreeMap::new());
        for line in commit.lines() {
            let action: BTreeMap<String, Value> = serde_json::from_str(line).unwrap();
            assert_eq!(action.len(), 1, "one action in a line: {line}");
            for (kind, value) in action {
                let path = || unescaped(value["path"].as_str().unwrap());
                match kind.as_str() {
                    "add" => assert!(added.insert(path(), value.clone()).is_none(), "added twice: {line}"),
                    "remove" => {
                        assert!(value["deletionTimestamp"].is_i64() && value["dataChange"] == true, "{line}");
                        self.removed.push(path());
                    }
                    "protocol" => self.protocol = value,
                    "metaData" => self.meta_data = value,
                    "commitInfo" | "txn" => continue,
                    _ => panic!("unknown action {line}"),
                }
                if kind == "protocol" || kind == "metaData" {
                    assert!(once.insert(kind, ()).is_none(), "more than once in a commit");
                }
            }
        }
        for path in &self.removed {
            assert!(!added.contains_key(path), "{path} is removed and added in one commit");
            assert!(self.files.remove(path).is_some(), "{path} is removed and was not there");
        }
        self.files.extend(added);
        assert!(self.protocol.is_object() && self.meta_data.is_object());
    }

    /// The fields of the schema: name, type, and whether it may be null.
    pub fn fields(&self) -> Vec<(String, Value, bool)> {
        let schema: Value = serde_json::from_str(self.meta_data["schemaString"].as_str().unwrap()).unwrap();
        assert_eq!(schema["type"], "struct");
        let fields = schema["fields"].as_array().unwrap().iter();
        let field = |field: &Value| {
            let name = field["name"].as_str().unwrap().to_owned();
            (name, field["type"].clone(), field["nullable"].as_bool().unwrap())
        };
        fields.map(field).collect()
    }

    pub fn rows(&self) -> RecordBatch {
        let batches = self.batches();
        concat_batches(&batches.first().expect("a table has a file").schema(), &batches).unwrap()
    }

    /// The rows of all files in batches. Each file is as large and has as many rows as the log says.
    pub fn batches(&self) -> Vec<RecordBatch> {
        let mut batches = Vec::new();
        for (path, add) in &self.files {
            let path = self.folder.join(path);
            assert_eq!(add["size"], std::fs::metadata(&path).unwrap().len(), "{}", path.display());
            assert!(add["modificationTime"].as_i64().unwrap() > 1_600_000_000_000, "{add}");
            assert_eq!(add["partitionValues"], serde_json::json!({}));
            let reader =
                ParquetRecordBatchReaderBuilder::try_new(std::fs::File::open(&path).unwrap()).unwrap();
            let stats: Value = serde_json::from_str(add["stats"].as_str().unwrap()).unwrap();
            assert_eq!(stats["numRecords"], reader.metadata().file_metadata().num_rows());
            batches.push(RecordBatch::new_empty(reader.schema().clone()));
            batches.extend(reader.build().unwrap().map(Result::unwrap));
        }
        batches
    }
}

fn unescaped(uri: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = uri.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        rest = behind;
        if first != b'%' {
            assert!(first.is_ascii_alphanumeric() || b"-_.!~*'()/".contains(&first), "not a URI: {uri}");
            bytes.push(first);
            continue;
        }
        let (digits, behind) = rest.split_at(2);
        bytes.push(u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap());
        rest = behind;
    }
    String::from_utf8(bytes).unwrap()
}
