//! Parquet files whose footers are damaged: an error that names the file, and no panic.

use resemblance::error::Error;
use resemblance::source::open;

use crate::support::*;

const NAME: &str = "documents.parquet";

/// A file of 60 documents in row groups of 25.
fn good(folder: &Path) -> Vec<u8> {
    let file = folder.join(NAME);
    write_parquet(&file, &corpus(3, 60, 30), 25);
    std::fs::read(file).unwrap()
}

fn footer_start(file: &[u8]) -> usize {
    let tail = file.len() - 8;
    let length: [u8; 4] = file[tail..tail + 4].try_into().unwrap();
    tail - u32::from_le_bytes(length) as usize
}

/// Reads all rows, as a run does: in a task of its own, whose panic would be seen.
async fn read(folder: &Path, bytes: &[u8]) -> Result<usize, Error> {
    std::fs::write(folder.join(NAME), bytes).unwrap();
    let source = job(folder, Path::new("unused"), &[]).source;
    let read = async move {
        let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
        let batches = open(&context, &source).await?.frame.collect().await?;
        Ok(batches.iter().map(|batch| batch.num_rows()).sum())
    };
    tokio::spawn(read).await.expect("no panic")
}

fn assert_named(error: &Error, what: &str) {
    assert!(matches!(error.kind(), Kind::Input | Kind::Job), "{what}: {error:?}");
    assert!(format!("{error:?}").contains(NAME), "{what}: {error:?}");
}

fn damaged() -> Vec<(&'static str, Vec<u8>)> {
    let folder = tempfile::tempdir().unwrap();
    let good = good(folder.path());
    let tail = good.len() - 8;
    let with = |at: usize, bytes: &[u8]| {
        let mut file = good.clone();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        file
    };
    let schema = good.windows(12).position(|part| part == b"ARROW:schema").unwrap() + 20;
    vec![
        ("a footer longer than the file", with(tail, &(good.len() as u32).to_le_bytes())),
        ("a footer as long as the file", with(tail, &(good.len() as u32 - 8).to_le_bytes())),
        ("a footer of 4 GiB", with(tail, &[0xff; 4])),
        ("a footer of no bytes", with(tail, &[0; 4])),
        ("a footer of one byte", with(tail, &[1, 0, 0, 0])),
        ("a file cut at its front", good[57..].to_vec()),
        ("a file cut at its front to the footer", good[footer_start(&good)..].to_vec()),
        ("a file cut at its end", good[..tail].to_vec()),
        ("eight bytes", b"\xff\xff\xff\0PAR1".to_vec()),
        ("twelve bytes", b"PAR1\xff\xff\xff\0PAR1".to_vec()),
        ("four bytes", b"PAR1".to_vec()),
        ("an encrypted file", with(tail + 4, b"PARE")),
        ("a schema of Arrow that is no base64", with(schema, b"!!!!")),
        ("a schema of Arrow that is none", with(schema, &[b'A'; 64])),
        ("a schema of Arrow that points elsewhere", with(schema, &[b'/'; 64])),
        ("two billion row groups", {
            // `FileMetaData`: a version, a schema of one element, a row, and a list without its elements.
            let footer = b"\x15\x02\x19\x1c\x48\x06schema\0\x16\x02\x19\xfc\xff\xff\xff\xff\x07";
            [b"PAR1", &footer[..], &(footer.len() as u32).to_le_bytes(), b"PAR1"].concat()
        }),
        ("a footer of zeros", with(footer_start(&good), &vec![0; tail - footer_start(&good)])),
        ("a footer of ones", with(footer_start(&good), &vec![0xff; tail - footer_start(&good)])),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_footer_is_an_error_that_names_the_file() {
    for (what, file) in damaged() {
        let folder = tempfile::tempdir().unwrap();
        let error = read(folder.path(), &file).await.expect_err(what);
        assert_eq!(error.kind(), Kind::Input, "{what}");
        assert_named(&error, what);
    }
}

/// The library allocates memory for the values that a dictionary declares before it reads them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dictionary_that_declares_two_billion_values_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let texts: Vec<_> =
        (0..20).map(|i| (format!("id{i}"), format!("some text with the number {i}"))).collect();
    write_parquet(&folder.path().join(NAME), &texts, 20);
    let mut file = std::fs::read(folder.path().join(NAME)).unwrap();
    assert_eq!(read(folder.path(), &file).await.unwrap(), 20);
    // A page header: a dictionary page, its two sizes of two bytes each, and its number of values.
    let is_header = |bytes: &[u8]| {
        bytes.starts_with(&[0x15, 0x04, 0x15]) && bytes[5] == 0x15 && bytes[8..11] == [0x4c, 0x15, 40]
    };
    let headers: Vec<usize> =
        file.windows(11).enumerate().filter(|(_, bytes)| is_header(bytes)).map(|(at, _)| at).collect();
    let header = *headers.last().expect("a dictionary of the texts");
    // The four bytes that the larger number takes are taken from the first text, so that nothing behind it moves.
    for size in [header + 3, header + 6] {
        let value = u16::from(file[size] & 0x7f) | u16::from(file[size + 1]) << 7;
        let value = value - 8;
        (file[size], file[size + 1]) = ((value & 0x7f) as u8 | 0x80, (value >> 7) as u8);
    }
    let text = file[header..].windows(9).position(|bytes| bytes == b"some text").unwrap() + header;
    file[text - 4] -= 4;
    file.drain(text..text + 4);
    file.splice(header + 10..header + 11, [0xfe, 0xff, 0xff, 0xff, 0x0f]);
    let error = read(folder.path(), &file).await.unwrap_err();
    assert_named(&error, "a dictionary");
    assert!(format!("{error:?}").contains("declares 2147483647 values"), "{error:?}");
}

/// Bytes of the footer, and of the pages before it, changed at random from a seed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_mutation_of_a_file_makes_a_panic() {
    let folder = tempfile::tempdir().unwrap();
    let good = good(folder.path());
    assert_eq!(read(folder.path(), &good).await.unwrap(), 60);
    let start = footer_start(&good);
    let mut random = Random(20_261_122);
    let mut failed = 0;
    for round in 0..400 {
        let mut file = good.clone();
        // Three of four in the footer.
        let from = if round % 4 == 3 { 0 } else { start };
        for _ in 0..1 + random.below(3) {
            let at = from + random.below(file.len() - from);
            match random.below(4) {
                0 => file[at] ^= 1 << random.below(8),
                1 => file[at] = [0, 0x7f, 0x80, 0xff][random.below(4)],
                2 => {
                    file.remove(at);
                }
                _ => file.insert(at, random.next() as u8),
            }
        }
        if let Err(error) = read(folder.path(), &file).await {
            failed += 1;
            assert_named(&error, &format!("round {round}"));
        }
    }
    assert!(failed > 200, "only {failed} of 400 were noticed");
}
