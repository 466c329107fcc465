//! Job files: what is refused, and with which message.

use proptest::prelude::*;
use resemblance::error::Error;
use resemblance::job::{
    BandRule, Bits, Choice, ClusterMethod, Family, Format, Method, Modulus, Normalize, SourceId, Unit, Words,
    file,
};

use crate::support::resolve as load;
use crate::support::*;

const LEAST: &str = "\
[source]
format = \"csv\"
url = \"in.csv\"
text = \"body\"
[output]
url = \"out/\"
";

#[test]
fn the_least_job_has_the_defaults() {
    let job = load(LEAST, &[]).unwrap();
    assert_eq!(job.name, "unnamed");
    assert_eq!((job.source.urls, job.source.text), (vec!["in.csv".into()], vec!["body".into()]));
    assert_eq!((job.source.id, job.source.id_separator.as_str()), (SourceId::RowNumber, ":"));
    assert_eq!(job.source.csv.delimiter, b',');
    assert!(job.source.csv.header);
    assert_eq!(job.source.csv.quote, Some(b'"'));
    let normalize = [Normalize::Nfkc, Normalize::Lowercase, Normalize::CollapseWhitespace];
    assert_eq!((job.shingle.normalize.as_slice(), job.shingle.words), (&normalize[..], Words::Auto));
    assert_eq!(job.clusters.method, ClusterMethod::Representative);
    assert_eq!((job.shingle.unit, job.shingle.size, job.shingle.min_words), (Unit::Word, 5, 0));
    assert_eq!((job.minhash.permutations, job.minhash.seed), (128, 42));
    assert_eq!((job.lsh.bands, job.lsh.rows, job.lsh.choice), (16, 6, Choice::TargetRecall(0.99)));
    assert_eq!((job.score.threshold, job.score.prefilter), (0.8, false));
    assert_eq!((job.output.url.as_str(), job.output.max_expand), ("out/", 1000));
    assert_eq!(job.output.max_pairs, 1_000_000_000);
    let all = load(LEAST, &["engine.memory=100%"]).unwrap().engine.memory_bytes();
    let half = job.engine.memory_bytes();
    assert_eq!((job.engine.threads, job.engine.spill), (0, None));
    assert!(half.abs_diff(all / 2) < 100, "{half} of {all}");
}

#[test]
fn a_job_names_its_hash_family() {
    for (name, family, modulus) in [
        ("multiply-shift", Family::MultiplyShift, None),
        ("linear", Family::Linear, Some(Modulus::Is((1 << 31) - 1))),
        ("one-permutation", Family::OnePermutation, None),
    ] {
        let job = load(LEAST, &[&format!("minhash.family={name}")]).unwrap();
        assert_eq!((job.minhash.family, job.minhash.modulus), (family, modulus));
    }
}

/// 16 bits where they are enough, unless the job says otherwise.
#[test]
fn values_have_16_bits_unless_they_need_32() {
    for (sets, bits) in [
        (&[][..], Bits::Of16),
        (&["minhash.bits=32"], Bits::Of32),
        (&["minhash.family=one-permutation"], Bits::Of16),
        (&["minhash.family=linear"], Bits::Of32),
        (&["lsh.bucket_hash=crc32"], Bits::Of32),
        (&["lsh.table_size=1000"], Bits::Of32),
        (&["lsh.bands=42", "lsh.rows=3"], Bits::Of16),
        (&["lsh.bands=64", "lsh.rows=2"], Bits::Of32),
        (&["score.threshold=0.3"], Bits::Of32),
        (&["score.threshold=0.3", "candidates.method=prefix"], Bits::Of16),
        (&["score.threshold=0.3", "candidates.method=all"], Bits::Of16),
        (&["lsh.bands=64", "lsh.rows=2", "minhash.bits=16"], Bits::Of16),
        (&["lsh.bucket_hash=crc32", "minhash.bits=16"], Bits::Of16),
    ] {
        let job = load(LEAST, sets).unwrap();
        assert_eq!(job.minhash.bits, bits, "{sets:?}");
        job.check().unwrap();
    }
    for (sets, hint) in [
        (&["minhash.bits=8"][..], "16 or 32"),
        (&["minhash.bits=16", "minhash.family=linear"], "minhash.family"),
    ] {
        let error = message(load(LEAST, sets));
        assert!(error.contains("`minhash.bits`") && error.contains(hint), "{error}");
    }
    let mut job = load(LEAST, &["minhash.family=linear"]).unwrap();
    job.minhash.bits = Bits::Of16;
    assert!(job.check().unwrap_err().to_string().contains("`minhash.bits`"));
}

#[test]
fn ids_and_texts_depend_on_the_format() {
    let columns = |names: &[&str]| SourceId::Columns(names.iter().map(|&name| name.into()).collect());
    for (lines, id, text) in [
        ("format = 'reuters'", columns(&["oldid"]), vec!["body"]),
        ("format = 'text'", SourceId::Path, vec!["text"]),
        ("format = 'text'\nid = 'row_number'", SourceId::RowNumber, vec!["text"]),
        ("format = 'jsonl'\ntext = ['a.b', 'c']", SourceId::RowNumber, vec!["a.b", "c"]),
        ("format = 'parquet'\ntext = 't'\nid = 'key'", columns(&["key"]), vec!["t"]),
        ("format = 'parquet'\ntext = 't'\nid = ['x', 'y']", columns(&["x", "y"]), vec!["t"]),
        ("format = 'parquet'\ntext = 't'\nid = ['path']", columns(&["path"]), vec!["t"]),
    ] {
        let job = load(&format!("[source]\nurl = 'in/'\n{lines}\n[output]\nurl = 'out/'"), &[]).unwrap();
        let found = (job.source.id, job.source.text);
        assert_eq!(found, (id, text.into_iter().map(String::from).collect()), "{lines}");
    }
}

#[test]
fn overrides_are_toml_or_plain_strings() {
    let sets = "name=a name|source.url=../data/x.csv|source.format=jsonl|source.text=[\"a\", \"b\"]|\
                score.threshold=0.5|lsh.bands=8|lsh.rows=16|output.url=\"quoted/\"|name=the last one = wins";
    let job = load(LEAST, &sets.split('|').collect::<Vec<_>>()).unwrap();
    assert_eq!(job.name, "the last one = wins");
    assert_eq!((job.source.format, job.source.urls), (Format::Jsonl, vec!["../data/x.csv".into()]));
    assert_eq!((job.source.text.len(), job.score.threshold), (2, 0.5));
    assert_eq!((job.lsh.bands, job.lsh.rows, job.lsh.choice), (8, 16, Choice::Given));
    assert_eq!(job.output.url, "quoted/");
}

#[test]
fn rules_find_bands_and_rows() {
    for (set, bands, rows, choice) in [
        ("lsh.choose=nearest", 8, 16, Choice::Rule(BandRule::Nearest)),
        ("lsh.choose=balanced", 9, 13, Choice::Rule(BandRule::Balanced)),
        ("lsh.choose=recall", 16, 8, Choice::Rule(BandRule::Recall)),
        ("lsh.choose=precision", 8, 16, Choice::Rule(BandRule::Precision)),
        ("lsh.target_recall=0.5", 10, 12, Choice::TargetRecall(0.5)),
    ] {
        let lsh = load(LEAST, &[set]).unwrap().lsh;
        assert_eq!((lsh.bands, lsh.rows, lsh.choice), (bands, rows, choice), "{set}");
    }
}

#[test]
fn looking_at_all_pairs_needs_no_recall() {
    let job = load(LEAST, &["score.threshold=0.001", "candidates.method=all"]).unwrap();
    assert_eq!((job.candidates.method, job.lsh.bands, job.lsh.rows), (Method::All, 128, 1));
}

/// Each override, put over the least job, and what the message must say.
#[test]
fn bad_values_are_refused_by_key_with_what_is_allowed() {
    for (set, hints) in [
        // Keys and types.
        ("shingle.sise=5", &["`shingle.sise`", "unknown key", "`size`", "did you mean `size`?"] as &[_]),
        ("shingel.size=5", &["`shingel`", "did you mean `shingle.size`?"]),
        ("shingle.size=five", &["`shingle.size`", "\"five\"", "a whole number"]),
        ("shingle.normalize=lowercase", &["`shingle.normalize`", "a list"]),
        ("shingle.normalize=[1]", &["`shingle.normalize`", "1", "a string"]),
        ("score.threshold=high", &["`score.threshold`", "a number"]),
        ("source.header=1", &["`source.header`", "true or false"]),
        ("source.url=1", &["`source.url`", "a string or a list of strings"]),
        ("source=1", &["`source`", "1"]),
        ("source.url.deep=1", &["`url` is a string, not a section"]),
        ("no-equals-sign", &["expected KEY=VALUE"]),
        ("=1", &["score.threshold"]),
        // Words that are not known, or not yet.
        (
            "source.format=sgml",
            &["`source.format`", "`sgml`", "`reuters`", "`csv`", "`parquet`", "`jsonl`", "`text`"],
        ),
        ("shingle.unit=line", &["`shingle.unit`", "`word`", "`char`"]),
        ("lsh.choose=best", &["`lsh.choose`", "`nearest`", "`balanced`", "`recall`", "`precision`"]),
        ("candidates.method=exact", &["`candidates.method`", "`lsh`", "`prefix`", "`all`"]),
        ("score.by=cosine", &["`score.by`", "`shingles`", "`signature`"]),
        ("output.expand=none", &["`output.expand`", "`all`", "`star`"]),
        ("engine.mode=far", &["`engine.mode`", "`local`", "`cluster`"]),
        ("engine.mode=cluster", &["`engine.scheduler`", "df://host:50050"]),
        ("engine.scheduler=df://a:1", &["`engine.scheduler`", "engine.mode"]),
        (
            "shingle.normalize=['lowercas']",
            &["`shingle.normalize`", "letters-only", "did you mean \"lowercase\""],
        ),
        ("shingle.normalize=['stop-words:xx']", &["`shingle.normalize`", "\"xx\"", "de, ", "en, "]),
        (
            "shingle.normalize=['stop-words:file=no/such.txt']",
            &["`shingle.normalize`", "\"no/such.txt\"", "stop words", "cannot be read", "No such file"],
        ),
        ("shingle.normalize=['stop-words:list=']", &["`shingle.normalize`", "holds no word"]),
        ("shingle.short=drop", &["`shingle.short`", "`reject`", "`whole`", "`empty`"]),
        ("shingle.short=empty", &["`shingle.short`", "score.by = \"signature\""]),
        ("source.references=keep", &["`source.references`", "reuters", "remove the key"]),
        ("minhash.coefficients=no/such.csv", &["`minhash.coefficients`", "\"no/such.csv\"", "No such file"]),
        // Numbers out of range.
        ("score.threshold=0", &["`score.threshold`", "over 0 and at most 1"]),
        ("score.threshold=1.5", &["`score.threshold`", "1.5", "over 0 and at most 1"]),
        ("score.threshold=nan", &["`score.threshold`", "NaN", "over 0 and at most 1"]),
        ("shingle.size=0", &["`shingle.size`", "1 or more"]),
        ("minhash.permutations=65536", &["`minhash.permutations`", "1 to 65535"]),
        ("lsh={bands=32, rows=5}", &["`lsh.bands`", "32 * 5", "128", "minhash.permutations"]),
        ("lsh={bands=9000000000000000000, rows=9}", &["`lsh.bands`", "at most 128"]),
        ("lsh={bands=0, rows=5}", &["`lsh.bands`", "1 or more"]),
        ("lsh={bands=5, rows=0}", &["`lsh.rows`", "1 or more"]),
        ("lsh.bands=5", &["`lsh.bands`", "without `lsh.rows`", "target_recall"]),
        ("lsh.rows=5", &["`lsh.rows`", "without `lsh.bands`"]),
        ("lsh={bands=4, rows=4, choose='recall'}", &["`lsh.choose`", "together"]),
        ("lsh={bands=4, rows=4, target_recall=0.9}", &["`lsh.target_recall`", "together"]),
        ("lsh={choose='recall', target_recall=0.9}", &["`lsh.target_recall`", "together with `lsh.choose`"]),
        ("lsh.target_recall=1", &["`lsh.target_recall`", "over 0 and under 1"]),
        ("score.threshold=0.02", &["`lsh.target_recall`", "0.9247", "minhash.permutations"]),
        ("output.max_pairs=0", &["`output.max_pairs`", "1 or more"]),
        ("engine.memory=lots", &["`engine.memory`", "\"lots\"", "GiB"]),
        ("engine.memory=0GiB", &["`engine.memory`", "over 0"]),
        // Hashing as others do it.
        ("shingle.hash=md5", &["`shingle.hash`", "crc32", "sha256-31", "dictionary"]),
        ("shingle.words=all", &["`shingle.words`", "word-characters", "spaces"]),
        ("minhash.family=cubic", &["`minhash.family`", "multiply-shift", "linear", "one-permutation"]),
        ("minhash.modulus=7", &["`minhash.modulus`", "minhash.family = \"linear\""]),
        (
            "minhash={family='one-permutation', modulus='2^31-1'}",
            &["`minhash.modulus`", "minhash.family = \"linear\"", "only"],
        ),
        (
            "minhash={family='linear', modulus=4294967295}",
            &["4294967295", "not a prime", "2^32-1", "next-prime"],
        ),
        ("minhash={family='linear', modulus=4294967311}", &["too large", "a prime under 2^32"]),
        ("minhash={family='linear', modulus=127}", &["`minhash.modulus`", "127", "more than 128"]),
        ("minhash={family='linear', modulus='2^30'}", &["\"2^30\"", "2^31-1", "a prime under 2^32"]),
        ("minhash.modulus=true", &["`minhash.modulus`", "2^31-1", "a prime under 2^32"]),
        ("minhash={family='linear', modulus='next-prime'}", &["shingle.hash = \"dictionary\""]),
        ("lsh.bucket_hash=md5", &["`lsh.bucket_hash`", "xxh3", "crc32"]),
        ("lsh.table_size=0", &["`lsh.table_size`", "1 or more"]),
        ("lsh.hot_bucket=1", &["`lsh.hot_bucket`", "2 or more"]),
        ("source.url=", &["`source.url`", "file, folder, glob or URL"]),
        ("source.url=[]", &["`source.url`", "empty"]),
        ("source.text=[]", &["`source.text`", "column"]),
        ("source.id=path", &["`source.id`", "text", "row_number"]),
        ("source={format='text', url='in', id='key'}", &["`source.id`", "\"path\" or \"row_number\""]),
        ("source={format='text', url='in', text='key'}", &["`source.text`", "remove the key"]),
        ("source={format='csv', url='in'}", &["`source.text`", "required"]),
        ("source={format='csv', text='x'}", &["`source.url`", "required"]),
        ("source={url='in', text='x'}", &["`source.format`", "required"]),
        ("source.delimiter=;;", &["`source.delimiter`", "one ASCII character"]),
        ("source.quote=','", &["`source.quote`", "`source.delimiter`"]),
        ("source.encoding=latin-7x", &["`source.encoding`", "\"latin-7x\"", "utf-8-lossy", "windows-1252"]),
        ("source.encoding=utf-8-losy", &["`source.encoding`", "did you mean \"utf-8-lossy\""]),
        ("source.encoding=iso-2022-kr", &["`source.encoding`", "Encoding Standard"]),
        (
            "source={format='parquet', url='in', text='t', encoding='latin-1'}",
            &["`source.encoding`", "always UTF-8", "remove the key"],
        ),
        (
            "source={format='parquet', url='in', text='t', id=['a', 'b'], id_separator=''}",
            &["`source.id_separator`", "one or more characters"],
        ),
        (
            "source={format='parquet', url='in', text='t', id=['a', 'b'], id_separator='\\'}",
            &["`source.id_separator`", "without a backslash"],
        ),
        ("output.url=", &["`output.url`", "folder"]),
        ("output.url=in.csv/", &["`output.url`", "in.csv", "outside"]),
        ("engine.spill=", &["`engine.spill`", "folder"]),
    ] {
        let said = message(load(LEAST, &[set]));
        for hint in hints {
            assert!(said.contains(hint), "{set}: {hint} is not in: {said}");
        }
    }
}

#[test]
fn settings_that_do_not_fit_together_are_refused_by_name() {
    for (sets, hints) in [
        (&["passages.unit=line", "passages.min_words=0"][..], &["`passages.min_words` is 0"][..]),
        (&["passages.unit=line", "passages.length=7"], &["`passages.length` is set"]),
        (&["passages.unit=sentence", "passages.gap=7"], &["`passages.gap` is set"]),
        (&["passages.unit=word", "passages.min_words=7"], &["expected `passages.length` instead"]),
        (&["passages.unit=word", "passages.length=1"], &["expected 2 to 1000000"]),
        (&["passages.unit=word", "passages.gap=1000001"], &["expected at most 1000000"]),
        (&["passages.unit=verse"], &["`verse`"]),
        (&["passages.min_words=7"], &["`passages.unit` is required"]),
        (&["clusters.contained=0"], &["clusters.contained"]),
        (&["clusters.contained=1.1"], &["clusters.contained"]),
        (&["clusters.contained=nan"], &["clusters.contained"]),
        (
            &["score.threshold=0.8", "clusters.thresholds=[0.9, 0.75]"],
            &["`clusters.thresholds`", "has 0.75: expected numbers from 0.8 to 1"],
        ),
        (&["clusters.thresholds=[1.5]"], &["`clusters.thresholds`", "has 1.5"]),
        (&["clusters.thresholds=[nan]"], &["`clusters.thresholds`", "has NaN"]),
        (&["clusters.thresholds=[0.9, 0.9]"], &["`clusters.thresholds`", "has 0.9 twice"]),
        (&["clusters.thresholds=[0.9]", "score.by=signature"], &["`clusters.thresholds`", "score.by"]),
        (
            &["clusters.keep=['year desc']"],
            &["`clusters.keep`", "names `year`, which documents do not carry"],
        ),
        (&["clusters.keep=['group']"], &["`clusters.keep`", "no document has a group"]),
        (&["clusters.keep=['id in (']"], &["`clusters.keep`", "names `id in (`"]),
        (&["clusters.keep=['id in ()']"], &["`clusters.keep`", "has an empty value"]),
        (
            &["against={ first_day = true, source = { url = 'k', format = 'jsonl', text = 't' } }"],
            &["against.first_day", "against.output"],
        ),
        (&["alarms.removed_share=1.5"], &["expected a number from 0 to 1"]),
        (&["alarms.require=recall>0.9"], &["recall>=0.95", "\"recall>0.9\" is none"]),
        (&["alarms.per=shop"], &["alarms.per"]),
        (&["alarms.max_rejected_share=-0.1"], &["expected a number from 0 to 1"]),
        (&["alarms.min_documents=-1"], &["alarms.min_documents"]),
    ] {
        let said = refusal(sets);
        assert!(hints.iter().all(|hint| said.contains(hint)), "{sets:?}: {said}");
    }
}

/// Settings in files of their own: a wrong one is an error that names the file.
#[test]
fn files_that_a_job_names_are_part_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.display().to_string()
    };
    let given = |path: &str, permutations: usize, family: &str| {
        let permutations = format!("minhash.permutations={permutations}");
        let coefficients = format!("minhash.coefficients={path}");
        load(LEAST, &[&permutations, &coefficients, family, "lsh.bands=1", "lsh.rows=1"])
    };
    let linear = |path: &str, permutations: usize| given(path, permutations, "minhash.family=linear");
    let two = file("two.csv", b"a,b\n3,1\n4,2\n");
    assert_eq!(linear(&two, 2).unwrap().minhash.coefficients, Some(vec![(3, 1), (4, 2)]));
    // Other programs draw a from 1 up to and with the modulus.
    let modulus = file("modulus.csv", b"2147483647,2147483647\n");
    assert_eq!(linear(&modulus, 1).unwrap().minhash.coefficients, Some(vec![(2_147_483_647, 2_147_483_647)]));
    for (path, permutations, said) in [
        (&two, 3, "2 pairs of a and b: expected 3"),
        (&file("words.csv", b"three,one\n"), 1, "line 1"),
        (&file("zero.csv", b"0,1\n"), 1, "0 as the a of permutation 1"),
        (&file("latin.csv", b"\xE9\n"), 1, "not UTF-8"),
    ] {
        let error = message(linear(path, permutations));
        assert!(error.contains("`minhash.coefficients`") && error.contains(said), "{error}");
    }
    let error = message(given(&two, 2, "name=x"));
    assert!(error.contains("`minhash.coefficients`"), "{error}");
    assert!(error.contains("minhash.family = \"linear\""), "{error}");

    let stop = |path: &str| load(LEAST, &[&format!("shingle.normalize=[\"stop-words:file={path}\"]")]);
    let words = file("words.txt", b"The\nof\n");
    let job = stop(&words).unwrap();
    assert_eq!(job.shingle.normalize, [Normalize::StopWordList("of the".into())]);
    // The job is whole without the file: as a manifest has it, and as executors get it.
    std::fs::remove_file(&words).unwrap();
    job.check().unwrap();
    let again: Job = serde_json::from_str(&serde_json::to_string(&job).unwrap()).unwrap();
    assert_eq!(again, job);
    for (path, said) in [
        (&file("empty.txt", b"\n"), "holds no word"),
        (&file("latin.txt", b"caf\xE9\n"), "is not UTF-8"),
        (&file("several.txt", b"a\nof the\n"), "line 2"),
    ] {
        let error = message(stop(path));
        let parts = ["`shingle.normalize`", path.as_str(), said];
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
}

#[test]
fn documents_without_shingles_are_kept_only_where_their_signatures_are_compared() {
    let by_signature = |set: &str| load(LEAST, &["shingle.short=empty", "score.by=signature", set]);
    by_signature("name=x").unwrap().check().unwrap();
    for (set, said) in
        [("shingle.min_words=3", "shingle.min_words"), ("shingle.hash=dictionary", "dictionary")]
    {
        let error = message(by_signature(set));
        assert!(error.contains("`shingle.short`") && error.contains(said), "{error}");
    }
    load(LEAST, &["shingle.short=whole", "shingle.min_words=3"]).unwrap().check().unwrap();
}

#[test]
fn messages_name_the_file_and_the_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.toml");
    for (text, line, hint) in [
        (LEAST.replace("csv\"\nurl", "csv\"\nuri"), 3, "`source.uri`"),
        (LEAST.replace("text", "id"), 1, "`source.text` is required"),
        (format!("{LEAST}[score]\n\nthreshold = 1.5\n"), 9, "`score.threshold`"),
        (format!("{LEAST}[shingle]\nnormalize = [\n  'x',\n]\n"), 8, "`shingle.normalize`"),
        (format!("{LEAST}[engine]\nthreads = 'all'\n"), 8, "`engine.threads`"),
        (format!("{LEAST}max_expand = \n"), 7, "not TOML"),
        (format!("{LEAST}url = 'again'\n"), 7, "duplicate key"),
        (LEAST.replace("url = \"out/\"\n", ""), 5, "`output.url` is required"),
    ] {
        std::fs::write(&path, &text).unwrap();
        let said = message(Job::load(&path, &[]));
        let place = format!("bad.toml:{line}: ");
        assert!(said.contains(&place) && said.contains(hint), "{place}{hint} is not in: {said}");
    }
    std::fs::write(&path, LEAST).unwrap();
    let said = message(Job::load(&path, &["score.threshold=2".into()]));
    assert!(said.starts_with("--set `score.threshold` is 2"), "{said}");
}

#[test]
fn a_folder_that_is_walked_does_not_hold_the_output() {
    let job = |format: &str, url: &str, output: &str| {
        let text = format!("[source]\nformat='{format}'\nurl='{url}'\ntext='text'\n[output]\nurl='{output}'");
        load(&text, &[])
    };
    for (format, url, output, fine) in [
        ("parquet", "data", "data/out", false),
        ("text", "data/", "data/out/", false),
        ("csv", "data", "data/out", true),
        ("parquet", "data", "data-out", true),
        ("parquet", "data/*.parquet", "data/out", true),
    ] {
        assert_eq!(job(format, url, output).is_ok(), fine, "{format} {url} {output}");
    }
}

#[test]
fn every_job_in_the_repository_loads() {
    let jobs = repository("jobs");
    let mut seen = 0;
    let folders = [jobs.clone(), jobs.join("recipes")];
    for entry in folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap()) {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "toml") {
            let job = Job::load(&path, &[]).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            assert_eq!(path.file_stem().unwrap(), job.name.as_str());
            let url = &job.output.url;
            assert!(url.starts_with("out/") || url.starts_with("s3://"), "{}: {url}", path.display());
            seen += 1;
        }
    }
    assert!(seen >= 17, "{seen} jobs");
}

/// A template of ours finds what is similar at its threshold, and a recipe says whose it is and what it misses.
#[test]
fn only_recipes_of_other_programs_miss_many_pairs() {
    let load = |name: &str| Job::load(repository(&format!("jobs/{name}.toml")), &[]).unwrap();
    for name in ["csv", "delta", "jsonl", "parquet", "quickstart", "text"] {
        assert!(load(name).expected_recall() >= 0.99, "{name}");
    }
    for (name, recall) in [("newsgroups", 0.5593), ("text-files", 0.4611), ("amazon-books", 0.1540)] {
        let expected = load(&format!("recipes/{name}")).expected_recall();
        assert!((expected - recall).abs() < 1e-4, "{name}: {expected}");
    }
}

/// `check` accepts the recipes with published settings, and prints the numbers that the projects published and the page lists.
#[test]
fn recipes_have_the_published_settings() {
    let page = std::fs::read_to_string(repository("docs/coming-from.md")).unwrap();
    let mut listed: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for row in page.lines().skip_while(|line| !line.starts_with("| recipe |")).skip(2) {
        let Some(row) = row.strip_prefix("| `") else { break };
        let (name, cells) = row.split_once('`').unwrap();
        listed.insert(name, cells.trim_matches('|').split('|').map(str::trim).skip(1).collect());
    }
    // The recall is 1 - (1 - s^r)^b, computed by Python.
    let published = [
        ("datatrove", ("word", 5), (14, 8), 0.75, 0.7716),
        ("fineweb-2", ("word", 5), (14, 8), 0.75, 0.7716),
        ("text-dedup", ("word", 5), (24, 10), 0.7, 0.4973),
        ("bigcode", ("word", 5), (25, 10), 0.7, 0.5115),
        ("nemo-curator", ("char", 24), (20, 13), 0.8, 0.6773),
    ];
    assert_eq!(listed.len(), published.len(), "{listed:?}");
    for (name, (unit, size), (bands, rows), threshold, expected) in published {
        let check = |sets: &[&str]| {
            let mut command = program!["check", "--no-data", "--json", format!("jobs/recipes/{name}.toml")];
            command.args(sets.iter().flat_map(|set| ["--set", *set]));
            command.current_dir(repository(".")).assert().json()
        };
        let checked = check(&[]);
        let (shingle, permutations) =
            (&checked["job"]["shingle"], &checked["job"]["minhash"]["permutations"]);
        assert_eq!((&shingle["unit"], &shingle["size"]), (&json!(unit), &json!(size)), "{name}");
        assert_eq!((&checked["bands"], &checked["rows"]), (&json!(bands), &json!(rows)), "{name}");
        assert_eq!(permutations, &json!(bands * rows));
        assert_eq!(checked["job"]["score"]["threshold"], json!(threshold));
        let recall = checked["expected_recall_at_threshold"].as_f64().unwrap();
        assert!((recall - expected).abs() < 1e-4_f64, "{name}: {recall}");
        let units = if unit == "word" { "words" } else { "characters" };
        let row = [
            format!("{size} {units}"),
            format!("{bands}, {rows}"),
            (bands * rows).to_string(),
            threshold.to_string(),
            format!("{recall:.3}"),
        ];
        assert_eq!(listed[name], row, "{name}");
        // These two compute bands and rows from the threshold by the same rule as `balanced`.
        if name == "text-dedup" || name == "bigcode" {
            let balanced = check(&["lsh.choose=balanced"]);
            assert_eq!((&balanced["bands"], &balanced["rows"]), (&json!(bands), &json!(rows)), "{name}");
        }
    }
}

#[test]
fn every_job_in_the_repository_takes_other_bands_and_rows() {
    let sets = |sets: &[&str]| sets.iter().map(|set| set.to_string()).collect::<Vec<_>>();
    let names = "csv delta jsonl parquet quickstart text recipes/amazon-books recipes/bigcode recipes/datatrove \
         recipes/fineweb-2 recipes/nemo-curator recipes/newsgroups recipes/reuters recipes/text-dedup \
         recipes/text-files";
    for name in names.split(' ') {
        let path = repository(&format!("jobs/{name}.toml"));
        let given = Job::load(&path, &sets(&["lsh.bands=20", "lsh.rows=3"])).unwrap().lsh;
        assert_eq!((given.bands, given.rows, given.choice), (20, 3, Choice::Given), "{name}");
        let target = Job::load(&path, &sets(&["lsh.target_recall=0.9"])).unwrap().lsh;
        assert_eq!(target.choice, Choice::TargetRecall(0.9), "{name}");
        let nearest = Job::load(&path, &sets(&["lsh.choose=nearest"])).unwrap().lsh;
        assert_eq!(nearest.choice, Choice::Rule(BandRule::Nearest), "{name}");
    }
    // Half a choice is an error, and so are two.
    let template = format!("{LEAST}[lsh]\ntarget_recall = 0.5\n");
    assert!(message(load(&template, &["lsh.bands=20"])).contains("without `lsh.rows`"));
    let two = load(&template, &["lsh.choose=recall", "lsh.target_recall=0.9"]);
    assert!(message(two).contains("together with `lsh.choose`"));
    let given = format!("{LEAST}[lsh]\nbands = 4\nrows = 8\n");
    assert_eq!(load(&given, &["lsh.bands=5"]).unwrap().lsh.bands, 5);
    assert_eq!(load(&given, &["lsh.choose=recall"]).unwrap().lsh.choice, Choice::Rule(BandRule::Recall));
}

proptest! {
    #[test]
    fn no_job_file_panics(text in "\\PC*", set in "\\PC*") {
        let _ = file::read(&text, "job.toml", &[]);
        let _ = load(LEAST, &[&set]);
    }

    #[test]
    fn resolved_jobs_have_valid_bands(
        permutations in 1usize..600, threshold in 0.001..=1.0f64, target in 0.01..0.999f64,
    ) {
        let sets = [
            format!("minhash.permutations={permutations}"),
            format!("score.threshold={threshold:?}"),
            format!("lsh.target_recall={target:?}"),
        ];
        if let Ok(job) = load(LEAST, &[&sets[0], &sets[1], &sets[2]]) {
            prop_assert!(job.lsh.bands >= 1 && job.lsh.rows >= 1);
            prop_assert!(job.lsh.bands * job.lsh.rows <= permutations);
        }
    }
}

fn message(result: Result<Job, Error>) -> String {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), Kind::Job);
    error.to_string()
}
