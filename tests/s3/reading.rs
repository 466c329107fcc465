//! Listing and reading.

use resemblance::source;

use super::*;

/// Also where each file's connection is cut, and cut again when it is taken up; and where the body of a range is shorter than announced.
/// The head of a range names its end; only the length tells the end of a whole object.
#[test]
fn every_format_gives_the_rows_of_a_local_run() {
    let s3 = S3::start();
    for (i, format) in formats(&corpus(3, 60, 30)).iter().enumerate() {
        let folder = tempdir().unwrap();
        let local = format.run_locally(folder.path());
        let job = format.put_with_job(&s3, &format!("in{i}"), folder.path());
        for (count, fault) in [(5, Fault::Cut(71)), (2, Fault::Resize(-7))] {
            if matches!(fault, Fault::Resize(_)) && format.name != "parquet" {
                continue;
            }
            s3.faults.add(&format!("GET /data/in{i}/"), count, fault);
            let out = format!("out{i}-{count}");
            run_to(&s3.env(), &job, &s3.url(&out), &[]).shown(&[]);
            assert_eq!(answers(&s3.file(&out)), answers(&local), "{}", format.files[0].0);
            assert!(pairs(&s3.file(&out)).len() > 10);
            assert_eq!(s3.faults.left(), 0);
        }
    }
}

#[tokio::test]
async fn prefixes_patterns_and_odd_keys_are_listed_as_they_are_written() {
    let s3 = S3::start();
    let keys =
        ["in/a b.txt", "in/a%20b.txt", "in/c+d&e=f.txt", "in/deep/x[1].txt", "in/deep/ä ö.txt", "inn/no.txt"];
    for key in keys {
        s3.put(key, key);
    }
    let context = session_of(&s3.env());
    let list = async |url: &str| {
        let job = resolved(&format!("format = \"text\"\nurl = {url:?}"));
        let listed = source::list(&context, &job.source).await;
        listed.map(|listed| listed.inputs().into_iter().map(|file| file.path).collect::<Vec<_>>())
    };
    let under = |keys: &[&str]| keys.iter().map(|key| s3.url(key)).collect::<Vec<_>>();
    assert_eq!(list("s3://data/in").await.unwrap(), under(&keys[..5]));
    assert_eq!(list("s3://data/in/").await.unwrap(), under(&keys[..5]));
    assert_eq!(list("s3://data").await.unwrap(), under(&keys));
    assert_eq!(list("s3://data/").await.unwrap(), under(&keys));
    assert_eq!(list("s3://data/in/*.txt").await.unwrap(), under(&keys[..3]));
    assert_eq!(list("s3://data/in/**/*.txt").await.unwrap(), under(&keys[..5]));
    assert_eq!(list("s3://data/*/deep").await.unwrap(), under(&keys[3..5]));
    for key in keys {
        assert_eq!(list(&s3.url(key)).await.unwrap(), under(&[key]));
        let job = resolved(&format!("format = \"text\"\nurl = {:?}", s3.url(key)));
        let read = source::open(&context, &job.source).await.unwrap().frame;
        let rows = read.select_columns(&["text"]).unwrap().to_string().await.unwrap();
        assert!(rows.contains(key), "{rows}");
    }
    let said = list("s3://data/nothing").await.unwrap_err().to_string();
    assert!(said.contains("there is no file under `s3://data/nothing`"), "{said}");
}

#[tokio::test]
async fn more_objects_than_one_answer_lists_are_all_listed() {
    let s3 = S3::start();
    for i in 0..1_203 {
        s3.put(&format!("in/{i:05}.txt"), "x");
    }
    // The second answer breaks off, and is asked for again.
    s3.faults.add("continuation-token", 1, Fault::Cut(100));
    let job = resolved("format = \"text\"\nurl = \"s3://data/in\"");
    let listed = source::list(&session_of(&s3.env()), &job.source).await.unwrap().inputs();
    assert_eq!(listed.len(), 1_203);
    assert_eq!(s3.faults.left(), 0);
}

/// Writes the table of a Parquet file with the default settings of another program.
const REWRITE: &str = "
import sys, duckdb, polars, pyarrow.parquet
program, path = sys.argv[1:]
if program == 'duckdb':
    duckdb.sql(f\"COPY (SELECT * FROM read_parquet('{path}')) TO '{path}.new' (FORMAT parquet)\")
elif program == 'polars':
    polars.read_parquet(path).write_parquet(path + '.new')
else:
    pyarrow.parquet.write_table(pyarrow.parquet.read_table(path), path + '.new')
";

fn rewritten(path: &FsPath, program: &str) -> Option<Vec<u8>> {
    let mut python = needs::python("duckdb, polars, pyarrow.parquet")?;
    let done = python.args(["-c", REWRITE, program]).arg(path).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    Some(std::fs::read(path.with_extension("parquet.new")).unwrap())
}

/// The second day reads the tags of all documents of the first, and the signatures of few. It reads the texts of few documents, or no text
/// if the first day stored shingles, whoever wrote the files.
#[test]
fn the_second_day_reads_few_bytes_of_the_first() {
    let (s3, folder) = (S3::start(), tempdir().unwrap());
    // Each document has twelve words of its own.
    let document = |at: usize, more: &str| {
        let words: Vec<String> = (0..12).map(|word| format!("w{}", at * 12 + word)).collect();
        (format!("{at:05}{more}"), format!("{}{more}", words.join(" ")))
    };
    let first: Vec<Document> = (0..20_000).map(|at| document(at, "")).collect();
    let changed = (7_000..7_005).map(|at| document(at, " more"));
    let second: Vec<Document> = changed.chain((30_000..30_050).map(|at| document(at, ""))).collect();
    for (writer, keep) in [
        ("parquet-rs", "signatures"),
        ("pyarrow", "shingles"),
        ("duckdb", "shingles"),
        ("polars", "shingles"),
    ] {
        let source = folder.path().join("in.parquet");
        let name = |day: &str| format!("{writer}/{day}");
        let bytes = || {
            ["texts/first.parquet", "first/documents/"]
                .map(|part| s3.faults.bytes(&format!("GET /data/{writer}/{part}")))
        };
        let mut before = [0, 0];
        for (day, documents) in [("first", &first), ("second", &second)] {
            write_parquet(&source, documents, 5_000);
            let file = match writer {
                "parquet-rs" => std::fs::read(&source).unwrap(),
                other => match rewritten(&source, other) {
                    Some(file) => file,
                    None => return,
                },
            };
            let key = format!("{writer}/texts/{day}.parquet");
            s3.put(&key, file);
            let texts =
                format!("format = \"parquet\"\nurl = {:?}\nid = \"id\"\ntext = \"text\"", s3.url(&key));
            let job = job_file(folder.path(), &texts);
            let (keep, against) =
                (format!("output.keep={keep}"), format!("against.output=['{}']", s3.url(&name("first"))));
            let sets = ["lsh.bands=8", "lsh.rows=8", &keep, &against];
            let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", *set]).collect();
            before = bytes();
            let sets = &sets[..if day == "first" { 6 } else { 8 }];
            run_to(&s3.env(), &job, &s3.url(&name(day)), sets).shown(&[]);
        }
        assert!(pairs(&s3.file(&name("second"))).len() > 2, "{writer}");
        let after = bytes();
        let [texts, read] = [after[0] - before[0], after[1] - before[1]];
        let stored = s3.keys(&format!("{writer}/first/documents/")).values().sum::<u64>();
        assert!(read > 20_000 * 36 && 2 * read < stored, "{writer}: {read} of {stored} bytes");
        assert_eq!(texts > 0, keep == "signatures", "{writer}: {texts} bytes of the source");
    }
}

/// Prints the bytes that a run reads, including bytes from the page cache. The shell's count includes its children.
const READ: &str =
    "resemblance --quiet run job.toml \"$@\" > said.txt; grep rchar /proc/$$/io | cut -d' ' -f2";

/// On disk, too, a second day reads no text of the first if that stored shingles: it reads as many bytes, however large the files are that
/// another program wrote.
#[test]
fn the_second_day_on_disk_reads_as_much_whoever_wrote_the_first() {
    let document = |at: usize, more: &str| {
        let words: Vec<String> = (0..12).map(|word| format!("w{}", at * 12 + word)).collect();
        (format!("{at:05}{more}"), format!("{}{more}", words.join(" ")))
    };
    let first: Vec<Document> = (0..20_000).map(|at| document(at, "")).collect();
    let second: Vec<Document> = (7_000..7_005).map(|at| document(at, " more")).collect();
    let read = |folder: &FsPath, source: &FsPath, output: &str, more: &[&str]| -> u64 {
        let texts = format!("format = \"parquet\"\nurl = {source:?}\nid = \"id\"\ntext = \"text\"");
        job_file(folder, &texts);
        let output = format!("output.url={output:?}");
        let sets = [&["--set", "lsh.bands=8", "--set", "lsh.rows=8", "--set", "output.keep=shingles"], more];
        let done =
            shell(READ, folder).arg("sh").args(sets.concat()).args(["--set", &output]).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap().trim().parse().unwrap()
    };
    let (mut sizes, mut days) = (Vec::new(), Vec::new());
    for writer in ["pyarrow", "duckdb", "polars"] {
        let folder = tempdir().unwrap();
        let source = |name: &str, documents: &[Document]| {
            let path = folder.path().join(format!("{name}.parquet"));
            write_parquet(&path, documents, 5_000);
            let bytes = rewritten(&path, writer)?;
            std::fs::write(&path, &bytes).unwrap();
            Some((path, bytes.len() as u64))
        };
        let Some((day, size)) = source("first", &first) else { return };
        let (next, _) = source("second", &second).unwrap();
        read(folder.path(), &day, "first", &[]);
        let alone = read(folder.path(), &next, "alone", &[]);
        let both = read(folder.path(), &next, "second", &["--set", "against.output=['first']"]);
        assert!(pairs(&folder.path().join("second")).len() >= 5, "{writer}");
        sizes.push(size);
        days.push(both - alone);
    }
    let [least, most] = [*days.iter().min().unwrap(), *days.iter().max().unwrap()];
    assert!(sizes.iter().max() > sizes.iter().min().map(|size| 4 * size).as_ref(), "{sizes:?}");
    assert!(least > 20_000 * 36 && most < 20_000 * 130 && most - least < least / 20, "{days:?} bytes");
}
