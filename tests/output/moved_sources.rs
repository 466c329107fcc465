//! Outputs that are read from another working directory, and whose sources were touched, moved or changed.

use crate::support::*;

/// A folder `home` with a source of two files, a job file with relative paths and its output, and a folder `away`.
struct Place {
    folder: TempDir,
    format: &'static str,
    documents: Vec<Document>,
}

impl Place {
    fn new(format: &'static str) -> Self {
        let place = Self { folder: tempdir().unwrap(), format, documents: corpus(31, 60, 30) };
        std::fs::create_dir_all(place.path("home/in")).unwrap();
        std::fs::create_dir_all(place.path("away")).unwrap();
        place.put("home/in/a", &place.documents[..40]);
        place.put("home/in/b", &place.documents[40..]);
        let text = job_text_of(format, "in", "out");
        std::fs::write(place.path("home/job.toml"), text).unwrap();
        place.command("home", &["run", "job.toml"]).success();
        for input in manifest(&place.path("home/out")).inputs {
            assert!(Path::new(&input.path).is_absolute(), "{input:?}");
            assert!(input.modified.is_some() && input.crc32.is_some(), "{input:?}");
        }
        place
    }

    fn path(&self, inside: &str) -> PathBuf {
        self.folder.path().join(inside)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path(&format!("{name}.{}", self.format))
    }

    fn put(&self, name: &str, documents: &[Document]) {
        match self.format {
            "parquet" => write_parquet(&self.file(name), documents, 7),
            _ => {
                let rows: Vec<String> = documents.iter().map(|(id, text)| format!("{id},{text}")).collect();
                std::fs::write(self.file(name), format!("id,text\n{}\n", rows.join("\n"))).unwrap();
            }
        }
    }

    fn command(&self, directory: &str, arguments: &[&str]) -> Assert {
        resemblance().current_dir(self.path(directory)).args(arguments).assert()
    }

    fn printed(&self, directory: &str, arguments: &[&str]) -> String {
        self.command(directory, arguments).shown(&[])
    }

    /// Checks that a command on the output from `away` ends with exit code `code`, and what it says.
    fn refused(&self, arguments: &[&str], code: i32, parts: &[&str]) {
        self.command("away", arguments).refused(code, parts);
    }

    fn is_finished(&self) -> bool {
        let arguments =
            "run ../home/job.toml --json --set source.url=../home/in --set output.url=../home/out";
        let arguments: Vec<&str> = arguments.split(' ').collect();
        self.command("away", &arguments).json()["already_finished"].as_bool().unwrap()
    }

    fn touch(&self, name: &str) {
        super::changed_sources::touch(&self.file(name));
    }

    /// Changes one letter of a text: the number of bytes, which stays.
    fn change(&self, name: &str) -> u64 {
        let mut bytes = std::fs::read(self.file(name)).unwrap();
        let text = self.documents[45].1.as_bytes();
        let at = bytes.windows(text.len()).position(|window| window == text).unwrap();
        bytes[at] = b'x';
        std::fs::write(self.file(name), &bytes).unwrap();
        bytes.len() as u64
    }

    fn copy(&self, folder: &str) {
        std::fs::create_dir_all(self.path(folder)).unwrap();
        for name in ["a", "b"] {
            let bytes = std::fs::read(self.file(&format!("home/in/{name}"))).unwrap();
            std::fs::write(self.file(&format!("{folder}/{name}")), bytes).unwrap();
        }
    }

    /// The documents that `apply` keeps in the folder `to`, by their ids.
    fn kept(&self, to: &str) -> Vec<u8> {
        let name = |name: &str| self.file(&format!("{to}/{name}"));
        ["a", "b"].map(|file| std::fs::read(name(file)).unwrap()).concat()
    }
}

const FORMATS: [&str; 2] = ["parquet", "csv"];

const SHOW: [&str; 5] = ["show", "../home/out", "--json", "--top", "5"];
const NEIGHBORS: [&str; 6] = ["neighbors", "../home/out", "--id", "d00001", "--by", "jaccard"];

#[test]
fn an_output_works_from_any_working_directory() {
    for place in FORMATS.map(Place::new) {
        let sources = strings(&table(&place.path("home/out"), "documents"), "source");
        assert!(
            sources.iter().all(|source| Path::new(source).starts_with(place.path("home/in"))),
            "{sources:?}"
        );
        let at_home = |arguments: &[&str]| {
            let arguments: Vec<&str> =
                arguments.iter().map(|text| text.strip_prefix("../home/").unwrap_or(text)).collect();
            place.printed("home", &arguments)
        };
        for command in [SHOW.as_slice(), &NEIGHBORS] {
            assert_eq!(place.printed("away", command), at_home(command));
        }
        assert!(place.printed("away", &SHOW).lines().count() == 5);
        place.command("away", &["verify", "../home/out"]).success();
        assert!(place.is_finished(), "{}", place.format);
        place.command("away", &["apply", "../home/out", "--to", "clean"]).success();
        place.command("home", &["apply", "out", "--to", "clean"]).success();
        assert_eq!(place.kept("away/clean"), place.kept("home/clean"));

        // Its documents are compared with new ones, and their texts are read again.
        place.put("away/new", &corpus(31, 70, 30)[60..]);
        let new = format!("source.url=new.{}", place.format);
        let sets = ["output.url=day", "against.output=../home/out", &new].map(|set| ["--set", set]);
        let run = [&["run", "../home/job.toml"], sets.as_flattened()].concat();
        place.command("away", &run).success();
        let outputs = ["merge", "home/out", "away/day", "--to", "all"];
        place.command(".", &outputs).success();
        place.command("away", &["apply", "../all", "--to", "both"]).success();
        place.command("home", &["show", "../all", "--top", "2"]).success();
        place.command("home", &["show", "../away/day", "--top", "2"]).success();
        assert_eq!(manifest(&place.path("all")).counts.documents, 70);
    }
}

#[test]
fn a_file_that_was_only_touched_is_the_file_that_was_read() {
    for place in FORMATS.map(Place::new) {
        let before = place.printed("away", &SHOW);
        place.command("away", &["apply", "../home/out", "--to", "before"]).success();
        place.touch("home/in/b");
        assert_eq!(place.printed("away", &SHOW), before);
        place.command("away", &NEIGHBORS).success();
        place.command("away", &["apply", "../home/out", "--to", "after"]).success();
        assert_eq!(place.kept("away/after"), place.kept("away/before"));
        assert!(place.is_finished(), "{}", place.format);
        assert!(place.is_finished(), "{}", place.format);
    }
}

#[test]
fn another_content_of_the_same_size_is_refused_by_name() {
    for place in FORMATS.map(Place::new) {
        let bytes = place.change("home/in/b");
        place.touch("home/in/b");
        let file = place.file("home/in/b").display().to_string();
        for command in [SHOW.as_slice(), &NEIGHBORS, &["apply", "../home/out", "--to", "clean"]] {
            place.refused(command, 3, &[&format!("{file} has other content of the same size")]);
        }
        place.command("home", &["run", "job.toml"]).refused(2, &["of other inputs"]);
        place.put("home/in/b", &place.documents[41..]);
        place.refused(&SHOW, 3, &[&format!("{file} has "), &format!("had {bytes}")]);
        std::fs::remove_file(place.file("home/in/b")).unwrap();
        place.refused(&SHOW, 3, &[&format!("{file} is gone")]);
    }
}

#[test]
fn a_moved_source_is_read_from_its_new_place() {
    for place in FORMATS.map(Place::new) {
        let before = place.printed("away", &SHOW);
        place.command("away", &["apply", "../home/out", "--to", "before"]).success();
        place.copy("away/copy");
        std::fs::rename(place.path("home/in"), place.path("away/moved")).unwrap();
        place.refused(&SHOW, 3, &["name the new place of the source with --source"]);
        // The times stay when a folder is moved, and do not when it is copied.
        for now in ["moved", "copy"] {
            let with = |command: &[&str]| place.printed("away", &[command, &["--source", now]].concat());
            assert_eq!(with(&SHOW), before, "{now}");
            assert!(with(&NEIGHBORS).contains("d0"), "{now}");
            let to = format!("to {now}");
            with(&["apply", "../home/out", "--to", &to]);
            assert_eq!(place.kept(&format!("away/{to}")), place.kept("away/before"));
        }
        let show = |sources: &[&'static str]| [SHOW.as_slice(), sources].concat();
        place.refused(&show(&["--source", "moved", "--source", "copy"]), 2, &["and got 2"]);
        let said = ["the source is not where --source says", "nowhere"];
        place.refused(&show(&["--source", "nowhere"]), 3, &said);
        place.change("away/copy/b");
        let said = format!("{} has other content", place.file("away/copy/b").display());
        place.refused(&show(&["--source", "copy"]), 3, &[&said]);
    }
}

#[test]
fn an_output_without_checksums_knows_files_by_their_times() {
    for place in FORMATS.map(Place::new) {
        let path = place.path("home/out/manifest.json");
        let mut written: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        for input in written["inputs"].as_array_mut().unwrap() {
            let input = input.as_object_mut().unwrap();
            assert!(input.remove("modified").is_some() && input.remove("crc32").is_some());
        }
        std::fs::write(&path, serde_json::to_vec(&written).unwrap()).unwrap();
        place.command("away", &SHOW).success();
        assert!(place.is_finished());
        place.touch("home/in/b");
        place.refused(&SHOW, 3, &["may have been written again"]);
    }
}
