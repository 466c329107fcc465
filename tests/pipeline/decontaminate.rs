//! `jobs/decontaminate.toml`: the rows of a training set that hold a question of a test set, and the places of its words.

use crate::support::*;

#[test]
fn the_job_that_finds_leaked_questions_finds_them() {
    let path = paths();
    let out = path("out");
    let mut run =
        program!["run", "jobs/decontaminate.toml", "--set", format!("output.url={}", out.display())];
    run.current_dir(repository("")).assert().success();
    let found: Vec<_> = string_pairs(&table(&out, "pairs"), ["id_a", "id_b"]);
    // t6 has 7 of the 8 shingles of q5.
    assert_eq!(found, documents(&[("t1", "q1"), ("t3", "q2"), ("t5", "q1"), ("t7", "q5")]));
    assert_eq!(strings(&table(&out, "reference_rejects"), "id"), ["q4"]);
    check_places(&out);

    let sql = |query: &str| program!["sql", &out, query, "--csv"].assert().shown(&[]).replace("\r\n", "\n");
    // The queries of docs/link.md.
    assert_eq!(
        sql(
            "SELECT group_b AS benchmark, count(DISTINCT id_b) AS questions, count(DISTINCT id_a) AS rows FROM pairs \
             GROUP BY group_b ORDER BY benchmark"
        ),
        "benchmark,questions,rows\nhistory,1,1\nscience,2,3\n"
    );
    assert_eq!(
        sql(
            "SELECT s.id, s.char_start, s.char_end, s.words, p.id_b AS question, p.group_b AS benchmark FROM spans s JOIN pairs p \
             ON p.id_a = s.id AND p.id_b = s.kept_id ORDER BY s.id LIMIT 1"
        ),
        "id,char_start,char_end,words,question,benchmark\nt1,23,108,14,q1,science\n"
    );
    assert_eq!(
        sql(
            "SELECT kept_group AS benchmark, count(DISTINCT kept_id) AS questions, count(DISTINCT id) AS rows, count(*) AS places \
             FROM spans WHERE kept_reference GROUP BY kept_group ORDER BY benchmark"
        ),
        "benchmark,questions,rows,places\nhistory,1,1,1\nscience,2,4,4\n"
    );
    let to = path("clean");
    program!["apply", &out, "--to", &to].current_dir(repository("")).assert().success();
    let clean = std::fs::read_to_string(to.join("training.jsonl")).unwrap();
    let kept: Vec<&str> = clean.lines().map(|line| &line[8..10]).collect();
    assert_eq!(kept, ["t2", "t4", "t6"]);
}

/// Holds the spans against the words of rows that are in eight words in a row of a question, by comparing all of them.
fn check_places(out: &Path) {
    let lines = |path: &str, text: &[&str]| -> Vec<Document> {
        let file = std::fs::read_to_string(repository(path)).unwrap();
        let of = |line: &str| {
            let row: Value = serde_json::from_str(line).unwrap();
            let texts: Vec<&str> = text.iter().map(|name| row[name].as_str().unwrap()).collect();
            (row["id"].as_str().unwrap().to_owned(), texts.join("\n"))
        };
        file.lines().map(of).collect()
    };
    let words = |text: &str| -> Vec<(String, Range<usize>)> {
        let parts = text.split(|c: char| !c.is_ascii_alphabetic()).filter(|part| !part.is_empty());
        let start = |part: &str| part.as_ptr() as usize - text.as_ptr() as usize;
        parts.map(|part| (part.to_lowercase(), start(part)..start(part) + part.len())).collect()
    };
    let questions = lines("jobs/decontaminate/questions.jsonl", &["question", "answer"]);
    let mut wanted = Vec::new();
    for (row, text) in lines("jobs/decontaminate/training.jsonl", &["text"]) {
        for (question, asked) in &questions {
            let (words, asked) = (words(&text), words(asked));
            let is_asked = |window: &[(String, Range<usize>)]| {
                asked.windows(8).any(|there| there.iter().map(|w| &w.0).eq(window.iter().map(|w| &w.0)))
            };
            let places = words.windows(8).enumerate().filter(|(_, window)| is_asked(window));
            let places: Vec<usize> = places.map(|(at, _)| at).collect();
            let (Some(first), Some(last)) = (places.first(), places.last()) else { continue };
            assert_eq!(last - first + 1, places.len(), "one run");
            let place = (words[*first].1.start, words[last + 7].1.end);
            wanted.push((row.clone(), place.0 as u64, place.1 as u64, question.clone()));
        }
    }
    let spans = table(out, "spans");
    assert!(bools(&spans, "kept_reference").into_iter().all(|reference| reference));
    let places = numbers(&spans, "byte_start").into_iter().zip(numbers(&spans, "byte_end"));
    let ids: Vec<(String, String)> = string_pairs(&spans, ["id", "kept_id"]);
    let found = ids.into_iter().zip(places).map(|((id, kept), (start, end))| (id, start, end, kept));
    assert_eq!(found.collect::<Vec<_>>(), wanted);
    assert_eq!(wanted.iter().map(|row| row.0.as_str()).collect::<Vec<_>>(), ["t1", "t3", "t5", "t6", "t7"]);
}
