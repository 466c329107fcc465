//! `source.limit`.

use xxhash_rust::xxh3::xxh3_64;

use super::*;

/// The rows of files with their ranks, least first: what docs/job-file.md says of a sample.
fn ranked(files: &[(&str, &[Row])], seed: u64) -> Vec<(u64, Row)> {
    let rank = |name: &str, at: usize| xxh3_64(format!("{seed}:{name}:{at}").as_bytes());
    let mut ranked: Vec<(u64, Row)> = files
        .iter()
        .flat_map(|(name, rows)| rows.iter().enumerate().map(move |(at, row)| (rank(name, at), row.clone())))
        .collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked
}

#[test]
fn a_sample_has_the_documents_of_the_least_ranks() {
    let all = rows(81, 160);
    for ending in ENDINGS {
        for cuts in [&[160][..], &[40, 1, 119]] {
            let source = Source::new();
            let mut files = Vec::new();
            let mut rest = &all[..];
            for (at, count) in cuts.iter().enumerate() {
                let (file, others) = rest.split_at(*count);
                files.push((format!("sub/{at}.{ending}"), file));
                rest = others;
            }
            files.iter().for_each(|(name, rows)| write(&source.path("in").join(name), rows));
            let files: Vec<(&str, &[Row])> =
                files.iter().map(|(name, rows)| (name.as_str(), *rows)).collect();
            for (at, (limit, condition, seed)) in [
                ("70", None, 0),
                ("70", None, 3),
                ("1", None, 0),
                ("1000", None, 0),
                ("40%", None, 3),
                ("100%", None, 0),
                ("30", Some("lang = 'en'"), 3),
                ("25%", Some("lang = 'en'"), 0),
            ]
            .into_iter()
            .enumerate()
            {
                let mut left = ranked(&files, seed);
                left.retain(|(_, row)| condition.is_none() || row.lang == Some("en"));
                let matching = left.len();
                match limit.strip_suffix('%') {
                    Some(percent) => {
                        let share = percent.parse::<f64>().unwrap() / 100.0;
                        left.retain(|(rank, _)| (*rank as f64) < share * 2f64.powi(64));
                    }
                    None => left.truncate(limit.parse().unwrap()),
                }
                let chosen: Vec<Row> = left.into_iter().map(|(_, row)| row).collect();
                let left_out = LeftOut {
                    by_where: (all.len() - matching) as u64,
                    by_limit: (matching - chosen.len()) as u64,
                    ..LeftOut::default()
                };
                let threads = format!("engine.threads={}", 1 + 3 * (at % 2));
                let (limit, seed) = (format!("source.limit={limit}"), format!("source.seed={seed}"));
                let condition = condition.map(|condition| format!("source.where={condition}"));
                let mut sets = vec![limit.as_str(), &seed, &threads];
                sets.extend(condition.as_deref());
                let what = format!("{ending} {cuts:?} {sets:?}");
                source.check(&source.job(ending, &format!("out {at}"), &sets), &chosen, left_out, &what);
            }
        }
    }
}

#[test]
fn find_and_dedup_take_conditions_and_limits() {
    let source = Source::new();
    let all = rows(83, 120);
    write(&source.path("in/a.csv"), &all);
    let english = all.iter().filter(|row| row.lang == Some("en")).count();
    let file = source.path("in/a.csv");
    let find =
        |arguments: &[&str]| program!["find", &file, "--text", "text"].args(arguments).assert().shown(&[]);
    let said = find(&["--where", "lang = 'en'"]);
    let expected = format!("among {english} documents; {} rows left out by source.where", 120 - english);
    assert!(said.contains(&expected), "{said}");
    let said = find(&["--limit", "25%"]);
    assert!(said.contains("rows left out by source.limit"), "{said}");
    let to = source.path("to");
    program!["dedup", &file, "--text", "text", "--limit", "60", "--to", &to]
        .assert()
        .shown(&["120 documents read", "60 rows left out by source.limit, kept as they are"]);
    let refused = program!["find", &file, "--where", "now() > 1"].assert();
    refused.refused(2, &["calls now()"]);
}
