//! Random faults of a store: the run has the rows of an undisturbed run, or ends with an error of the storage and the
//! next one continues. `RESEMBLANCE_CASES` is the number of cases, `RESEMBLANCE_SEED` the first seed.

use super::*;

/// Bytes that each document carries along, in which there is little to compress: so the documents go up in parts.
const CARRIED: usize = 160 * 1024;

/// A request that a fault may strike.
const STRUCK: &str = "GET /data/in/|list-type=2|GET /data/out|GET /data/out/manifest.json|GET /data/out/_work/|\
     HEAD /data/|PUT /data/out|PUT /data/out/_work/|?uploads|partNumber=|?uploadId=|POST /data?delete";

/// A few of everything that can go wrong.
fn schedule(random: &mut Random) -> Vec<(&'static str, usize, Fault)> {
    let fault = |random: &mut Random| {
        let part = STRUCK.split('|').nth(random.below(12)).unwrap();
        let most = [1, 64, 4_096][random.below(3)];
        let bytes = random.below(most) as u64;
        let fault = match random.below(9) {
            0..=4 => Fault::Cut(bytes),
            5 | 6 => Fault::Silent,
            7 => Fault::Unavailable,
            _ => Fault::Slow(random.below(300) as u64),
        };
        (part, 1 + random.below(3), fault)
    };
    (0..3 + random.below(5)).map(|_| fault(random)).collect()
}

/// Documents with a column that is carried along.
fn put_documents(s3: &S3) {
    let (documents, mut random) = (corpus(9, 80, 40), Random(3));
    const LETTERS: &[u8; 64] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";
    let mut noise = || -> String {
        let bytes = (0..CARRIED / 8).flat_map(|_| random.next().to_le_bytes());
        bytes.map(|byte| char::from(LETTERS[usize::from(byte) % 64])).collect()
    };
    let noise: ArrayRef = Arc::new(StringArray::from_iter_values(documents.iter().map(|_| noise())));
    let file = tempfile::NamedTempFile::new().unwrap();
    write_columns(file.path(), &documents, vec![("noise", noise)], 20);
    s3.put("in/in.parquet", std::fs::read(file.path()).unwrap());
}

#[test]
fn under_random_faults_of_a_store_the_rows_are_right_or_the_storage_is_named() {
    let s3 = S3::start();
    put_documents(&s3);
    let folder = tempdir().unwrap();
    let source = format!("format = \"parquet\"\nurl = {:?}\n{COLUMNS}columns = [\"noise\"]\n", s3.url("in"));
    let job = job_file(folder.path(), &source);
    let run = || run_to(&s3.env(), &job, &s3.url("out"), &["--set", "engine.threads=1"]);
    let rows = || ["documents", "pairs", "clusters", "rejects"].map(|name| table(&s3.file("out"), name));
    let forget = || std::fs::remove_dir_all(s3.file("out")).unwrap();
    run().shown(&[]);
    assert!(!s3.faults.requests("partNumber=2").is_empty(), "no object went up in parts");
    let expected = rows();
    forget();
    let (mut met, mut failed) = (0, 0);
    for round in seeds(2) {
        let plan = schedule(&mut Random(round));
        for (part, count, fault) in &plan {
            s3.faults.add(part, *count, fault.clone());
        }
        let planned = s3.faults.left();
        let ended = run();
        met += planned - s3.faults.left();
        s3.faults.clear();
        if !ended.status.success() {
            failed += 1;
            eprintln!("{round} {plan:?}");
            eprintln!("{}", ended.refused(3, &["s3://data"]));
            run().shown(&[]);
        }
        assert_eq!(rows(), expected, "{round} {plan:?}");
        forget();
    }
    eprintln!("{:?}: {met} faults were met, {failed} runs ended with 3", seeds(2));
    assert!(met > 0, "no fault was met");
}
