//! `source.where`.

use super::*;

type Condition = (&'static str, fn(&Row) -> bool);

const CONDITIONS: [Condition; 8] = [
    ("lang = 'en' AND stars > 2", |row| row.lang == Some("en") && row.stars.is_some_and(|stars| stars > 2)),
    ("stars BETWEEN 2 AND 10 OR lang IS NULL", |row| {
        row.stars.is_some_and(|stars| (2..=10).contains(&stars)) || row.lang.is_none()
    }),
    ("stars IN (1, 10)", |row| matches!(row.stars, Some(1 | 10))),
    ("3.5 > stars", |row| row.stars.is_some_and(|stars| stars < 4)),
    ("stars <> -7", |row| row.stars.is_some_and(|stars| stars != -7)),
    ("length(text) > 142 AND NOT upper(lang) = 'DE'", |row| {
        row.text.len() > 142 && row.lang.is_some_and(|lang| lang != "de")
    }),
    ("id LIKE '%7' OR coalesce(lang, 'none') = 'none'", |row| row.id.ends_with('7') || row.lang.is_none()),
    ("CAST(stars AS INT) + 1 = 11", |row| row.stars == Some(10)),
];

#[test]
fn rows_that_do_not_meet_a_condition_are_no_documents() {
    let all = rows(71, 160);
    for ending in ENDINGS {
        let source = Source::new();
        write(&source.path(&format!("in/a.{ending}")), &all[..50]);
        write(&source.path(&format!("in/b.{ending}")), &all[50..]);
        for (at, (condition, meets)) in CONDITIONS.into_iter().enumerate() {
            let job = source.job(ending, &format!("out {at}"), &[&format!("source.where={condition}")]);
            let documents: Vec<Row> = all.iter().filter(|row| meets(row)).cloned().collect();
            assert!(documents.len() > 5 && documents.len() < 155, "{condition} tells nothing");
            let left_out = LeftOut { by_where: (all.len() - documents.len()) as u64, ..LeftOut::default() };
            source.check(&job, &documents, left_out, &format!("{ending}: {condition}"));
        }
    }
}

#[test]
fn texts_compared_with_numbers_are_counted() {
    let source = Source::new();
    let texts = ["5", "1", "n/a", "1e1", "many", "", "n/a"];
    let rows = texts.iter().enumerate().map(|(n, stars)| format!("r{n},one two three four {n},{stars}\n"));
    source.put("a.csv", format!("id,text,stars\n{}", rows.collect::<String>()));
    let warnings = |output: &str, condition: &str| {
        let outcome = run(&source.job("csv", output, &[&format!("source.where={condition}")])).unwrap();
        assert_eq!(ids(&source.path(output)), ["r0", "r3"].map(str::to_owned).into(), "{condition}");
        outcome.manifest.warnings.join("\n")
    };
    let said = warnings("out", "stars > 2 AND stars < 20");
    assert!(said.contains("`stars` in 3 rows, such as \"many\""), "{said}");
    assert_eq!(warnings("wanted", "TRY_CAST(stars AS DOUBLE) > 2"), "");
}

/// 2^53 + 1 and its neighbours are equal as floating-point numbers.
#[test]
fn large_numbers_in_texts_are_compared_exactly() {
    let source = Source::new();
    let numbers = "9007199254740992 9007199254740993 -9007199254740993 18446744073709551615 1e3 NaN 1e23 \
         99999999999999999999";
    let rows =
        numbers.split(' ').enumerate().map(|(n, number)| format!("r{n},one two three four {n},{number}\n"));
    source.put("a.csv", format!("id,text,n\n{}", rows.collect::<String>()));
    for (at, (condition, expected)) in [
        ("n = 9007199254740993", &["r1"][..]),
        ("n > 9007199254740992 AND n < 1e18", &["r1"]),
        ("n IN (-9007199254740993, 1000.0)", &["r2", "r4"]),
        ("n BETWEEN 9007199254740993 AND 18446744073709551614", &["r1"]),
        ("18446744073709551614 < n", &["r3", "r5", "r6", "r7"]),
        ("n <> 9007199254740992", &["r1", "r2", "r3", "r4", "r5", "r6", "r7"]),
        ("n = 1e23", &["r6"]),
        ("n = 99999999999999999999", &["r7"]),
        ("n BETWEEN 1000 AND 1000.5", &["r4"]),
    ]
    .into_iter()
    .enumerate()
    {
        let output = format!("out {at}");
        run(&source.job("csv", &output, &[&format!("source.where={condition}")])).unwrap();
        let expected = expected.iter().map(|id| (*id).to_owned()).collect();
        assert_eq!(ids(&source.path(&output)), expected, "{condition}");
    }
}

#[test]
fn a_condition_on_stories_and_one_that_no_row_meets() {
    let source = Source::new();
    let story = |id: usize, topics: &str| {
        format!(
            "<REUTERS TOPICS=\"{topics}\" OLDID=\"{id}\" NEWID=\"{id}\"><TEXT><TITLE>t{id}</TITLE><BODY>one two three four {id}\
             </BODY></TEXT></REUTERS>\n"
        )
    };
    let stories: String = (0..20).map(|id| story(id, ["YES", "NO"][id % 2])).collect();
    source.put("a.sgm", format!("<!DOCTYPE lewis SYSTEM \"lewis.dtd\">\n{stories}"));
    let job = |output: &str, condition: &str| {
        let sets = ["source.id=oldid", "source.text=body", &format!("source.where={condition}")];
        source.job("reuters", output, &sets)
    };
    let outcome = run(&job("some", "oldid >= 5 AND title <> 't7'")).unwrap();
    let expected = (5..20).filter(|id| *id != 7).map(|id: i32| id.to_string()).collect();
    assert_eq!(ids(&source.path("some")), expected);
    assert_eq!(LeftOut::of(&outcome.manifest.counts), Some(LeftOut { by_where: 6, ..LeftOut::default() }));
    let outcome = run(&job("none", "oldid > 100")).unwrap();
    assert_eq!((outcome.manifest.counts.documents, outcome.manifest.counts.pairs), (0, 0));
}

/// A row that cannot be read cannot be compared with anything either, so it is rejected all the same.
#[test]
fn rows_that_cannot_be_read_are_rejected_and_not_left_out() {
    let source = Source::new();
    let all = rows(72, 40);
    source.put("a.csv", csv(&all) + "too,few\n");
    let job = source.job("csv", "out", &["source.where=lang = 'en'", "source.on_error=reject"]);
    let outcome = run(&job).unwrap();
    let english = all.iter().filter(|row| row.lang == Some("en")).count() as u64;
    let counts = outcome.manifest.counts;
    assert_eq!((counts.documents, counts.rejects), (english, 1));
    assert_eq!(LeftOut::of(&counts), Some(LeftOut { by_where: 40 - english, ..LeftOut::default() }));
}

#[test]
fn conditions_that_cannot_be_used_are_refused() {
    let source = Source::new();
    write(&source.path("in/a.parquet"), &rows(73, 20));
    for (condition, expected) in [
        ("language = 'en'", &["no column `language`", "`lang`", "`stars`"][..]),
        ("Lang = 'en'", &["no column `Lang`", "`lang`"]),
        ("lang = \"en\"", &["no column `en`", "single quotes texts: 'en'"]),
        ("stars", &["source.where", "of type Int64"]),
        ("lang + 1 > 2", &["source.where"]),
        ("lower(stars, lang) = 'x'", &["source.where"]),
    ] {
        let ran = run(&source.job("parquet", "out", &[&format!("source.where={condition}")]));
        fails(ran, Kind::Job, expected);
    }
    for (set, expected) in [
        ("source.where=stars > random()", "`source.where` calls random(), which may give another value"),
        ("source.where=stars >", "`source.where` is \"stars >\", which is not a SQL condition"),
        ("source.limit=0", "`source.limit` is \"0\": expected a number of documents"),
        ("source.limit=101%", "`source.limit` is \"101%\""),
        ("source.limit=-1", "source.limit"),
        ("source.seed=1", "`source.seed` is set, but only source.limit uses it"),
    ] {
        fails(resolve(&job_text("in", "out"), &[set]), Kind::Job, &[expected]);
    }
    let texts = source.job("text", "out", &["source.where=lang = 'en'", "source.id=path"]);
    fails(run(&texts), Kind::Job, &["text files have no column `lang`"]);
}

#[test]
fn a_second_source_has_a_condition() {
    let source = Source::new();
    let (new, old) = (rows(74, 60), rows(74, 120));
    let old: Vec<Row> = old.into_iter().map(|row| Row { id: format!("old {}", row.id), ..row }).collect();
    write(&source.path("in/a.csv"), &new);
    write(&source.path("old/a.csv"), &old);
    let against = format!(
        "against.source={{url={:?}, format='csv', id='id', text='text', where=\"lang = 'de'\"}}",
        source.path("old")
    );
    let job = source.job("csv", "out", &["source.where=stars > 1", "against.pairs=new-old", &against]);
    let outcome = run(&job).unwrap();
    let meets_new = |row: &Row| row.stars.is_some_and(|stars| stars > 1);
    let meets_old = |row: &Row| row.lang == Some("de");
    let old_compared = old.iter().filter(|row| meets_old(row));
    let compared = new.iter().filter(|row| meets_new(row)).chain(old_compared).cloned();
    let documents: Vec<Document> = compared.map(|row| (row.id, row.text)).collect();
    let mut expected: BTreeSet<_> = exact_pairs(&documents, 3, 0.5).into_keys().collect();
    expected.retain(|(a, b)| a.starts_with("old ") != b.starts_with("old "));
    assert!(!expected.is_empty());
    let found: BTreeSet<_> =
        pairs(&source.path("out")).into_keys().map(|(a, b)| if a < b { (a, b) } else { (b, a) }).collect();
    assert_eq!(found, expected);
    let left_out = |rows: &[Row], meets: &dyn Fn(&Row) -> bool| {
        Some(rows.iter().filter(|row| !meets(row)).count() as u64)
    };
    let counts = outcome.manifest.counts;
    assert_eq!(counts.rows_left_out_by_where, left_out(&new, &meets_new));
    assert_eq!(counts.reference_rows_left_out, left_out(&old, &meets_old));
}
