//! Values in the paths of files, as in `day=2026-11-01/part.parquet`.

use super::*;

/// Rows with the day and the shop of their path; of some the shop is missing.
fn partitioned(seed: u64) -> Vec<(String, Option<&'static str>, Vec<Row>)> {
    let all = rows(seed, 150);
    let shops = [Some("north"), Some("a/b c"), None];
    let of = |at: usize| format!("2026-11-0{}", at / 3 + 1);
    all.chunks(25).enumerate().map(|(at, rows)| (of(at), shops[at % 3], rows.to_vec())).collect()
}

/// Writes each part as a file in folders that Hive would name so.
fn write_all(source: &Source, ending: &str, parts: &[(String, Option<&str>, Vec<Row>)]) {
    for (day, shop, rows) in parts {
        let shop = shop.map_or("__HIVE_DEFAULT_PARTITION__".to_owned(), |shop| {
            shop.replace('/', "%2F").replace(' ', "%20")
        });
        write(&source.path(&format!("in/day={day}/shop={shop}/part.{ending}")), rows);
    }
}

#[test]
fn values_of_paths_are_columns_for_every_key() {
    let parts = partitioned(51);
    for ending in ENDINGS {
        let source = Source::new();
        write_all(&source, ending, &parts);
        let meets = |day: &str, shop: Option<&str>, row: &Row| {
            day > "2026-11-01"
                && (shop == Some("a/b c") || shop.is_none() && row.stars.is_some_and(|stars| stars > 1))
        };
        let mut expected = BTreeSet::new();
        let mut documents = Vec::new();
        let mut left_out = LeftOut::default();
        for (day, shop, rows) in &parts {
            if day == "2026-11-01" {
                left_out.files += 1;
                continue;
            }
            for row in rows {
                match meets(day, *shop, row) {
                    true => {
                        let id = format!("{day}/{}", row.id);
                        expected.insert((id.clone(), day.clone(), shop.unwrap_or("<null>").to_owned()));
                        documents.push(Row { id, ..row.clone() });
                    }
                    false => left_out.by_where += 1,
                }
            }
        }
        let condition = "source.where=day > '2026-11-01' AND (shop = 'a/b c' OR shop IS NULL AND stars > 1)";
        let id = ["source.id=['day', 'id']", "source.id_separator=/"];
        let sets = [&id[..], &["source.columns=['day']", "source.group=shop", condition]].concat();
        source.check(&source.job(ending, "out", &sets), &documents, left_out, ending);
        let found = table(&source.path("out"), "documents");
        let [ids, days, shops] = ["id", "day", "shop"].map(|name| strings(&found, name));
        let found = ids.into_iter().zip(days).zip(shops);
        let found: BTreeSet<_> = found.map(|((id, day), shop)| (id, day, shop)).collect();
        assert_eq!(found, expected, "{ending}");
    }
}

#[test]
fn files_are_left_out_before_they_are_read() {
    let source = Source::new();
    let all = rows(52, 60);
    write(&source.path("in/year=2025/a.parquet"), &all[..30]);
    write(&source.path("in/year=2026/a.parquet"), &all[30..]);
    source.put("year=19/a.parquet", "this is no Parquet");
    let error = run(&source.job("parquet", "out", &["source.where=stars > 1"])).unwrap_err();
    assert!(error.one_line().contains("year=19"), "{}", error.one_line());
    // Partition values are compared as texts: 19 is not less than 2025.
    let sets =
        ["source.where=year >= 2025 AND stars > 1", "output.pair_passages=true", "candidates.method=all"];
    let job = source.job("parquet", "out", &sets);
    let documents: Vec<Row> =
        all.iter().filter(|row| row.stars.is_some_and(|stars| stars > 1)).cloned().collect();
    let by_where = (all.len() - documents.len()) as u64;
    source.check(&job, &documents, LeftOut { files: 1, by_where, by_limit: 0 }, "year");
    std::fs::remove_dir_all(source.path("in/year=19")).unwrap();
    let outcome = run(&source.job("parquet", "none", &["source.where=year = 2026 AND year = 2025"])).unwrap();
    assert_eq!(outcome.manifest.counts.documents, 0);
    // A file that is not in such a folder has no year.
    write(&source.path("in/b.parquet"), &all[..5]);
    let error = run(&source.job("parquet", "other", &["source.where=year = 2025"])).unwrap_err();
    assert!(error.one_line().contains("no column `year`"), "{}", error.one_line());
}

#[test]
fn text_files_have_the_values_of_their_paths() {
    let source = Source::new();
    for (at, (id, text)) in corpus(53, 60, 25).into_iter().enumerate() {
        source.put(&format!("lang={}/{id}.txt", ["en", "de"][at % 2]), text);
    }
    let job = source.job("text", "out", &["source.id=path", "source.where=lang = 'de'"]);
    let outcome = run(&job).unwrap();
    let counts = outcome.manifest.counts;
    assert_eq!(counts.documents, 30);
    assert_eq!(LeftOut::of(&counts), Some(LeftOut { files: 30, ..LeftOut::default() }));
    assert!(ids(&source.path("out")).iter().all(|id| id.starts_with("lang=de/")));
}
