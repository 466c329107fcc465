//! The four programs, written again in plain Python: what they make of a few hundred documents is what their jobs make of
//! them, to the last digit.

use icu_properties::CodePointMapData;
use icu_properties::props::GeneralCategory;
use resemblance::job::{Normalize, Score, ScoreBy, Words};
use resemblance::kernel::text::normalize::Normalizer;
use resemblance::kernel::text::words::each_word;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::support::*;

const STOP_WORDS: &str = "crates/functions/src/kernel/text/normalize/stop_word_lists/scikit_learn_en.txt";

/// The output of a program; none without a Python to run it.
fn printed(script: &str, arguments: &[&str]) -> Option<Vec<u8>> {
    // Without -B it would leave its bytecode in the repository.
    let mut python = needs::python("json")?;
    let script = repository("tests/pipeline/systems").join(script);
    let output = python.arg("-B").arg(script).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(output.stdout)
}

fn answer(script: &str, arguments: &[&str]) -> Option<Answer> {
    printed(script, arguments).map(|printed| serde_json::from_slice(&printed).unwrap())
}

/// Two ids, equal values of their signatures, shared shingles, and shingles of both together.
type Scored = (String, String, u64, u64, u64);

#[derive(Deserialize)]
struct Answer {
    bands: usize,
    rows: usize,
    coefficients: Vec<(u64, u64)>,
    signatures: BTreeMap<String, Vec<u32>>,
    candidates: Vec<Scored>,
    pairs: Vec<Scored>,
    neighbors: BTreeMap<String, Vec<(String, u64, u64, u64)>>,
}

impl Answer {
    fn scores(&self, equal: u64, shared: u64, union: u64) -> (f64, f64) {
        let jaccard = if union == 0 { 1.0 } else { shared as f64 / union as f64 };
        (equal as f64 / self.coefficients.len() as f64, jaccard)
    }

    fn scored(&self, pairs: &[Scored]) -> BTreeMap<(String, String), (f64, f64)> {
        let scored = |(a, b, equal, shared, union): &Scored| {
            ((a.clone(), b.clone()), self.scores(*equal, *shared, *union))
        };
        pairs.iter().map(scored).collect()
    }

    fn write_coefficients(&self, path: &Path) {
        let lines: String = self.coefficients.iter().map(|(a, b)| format!("{a},{b}\n")).collect();
        std::fs::write(path, lines).unwrap();
    }
}

fn scored_pairs(output: &Path) -> BTreeMap<(String, String), (f64, f64)> {
    let pairs = table(output, "pairs");
    let scores = floats(&pairs, "estimate").into_iter().zip(floats(&pairs, "jaccard"));
    strings(&pairs, "id_a").into_iter().zip(strings(&pairs, "id_b")).zip(scores).collect()
}

/// A line of `neighbors --json`. Numbers are read from their digits, since the parser may miss the last bit.
#[derive(Deserialize)]
struct Near {
    id: String,
    estimate: Box<RawValue>,
    jaccard: Box<RawValue>,
}

fn neighbors(output: &Path, id: &str) -> Vec<(String, f64, f64)> {
    let asked = ["--id", id, "--top", "10", "--by", "estimate", "--json"];
    let printed = resemblance().arg("neighbors").arg(output).args(asked).assert().shown(&[]);
    let number = |raw: &RawValue| raw.get().parse::<f64>().unwrap();
    let line = |line: &str| {
        let near: Near = serde_json::from_str(line).unwrap();
        (near.id, number(&near.estimate), number(&near.jaccard))
    };
    printed.lines().map(line).collect()
}

/// Runs the job and holds bands, coefficients, signatures, candidates, pairs and neighbors against the program's.
fn assert_equal(job: &Job, output: &Path, answer: &Answer) {
    assert_eq!((job.lsh.bands, job.lsh.rows), (answer.bands, answer.rows));
    assert_eq!(job.minhash.coefficients.as_ref(), Some(&answer.coefficients));
    run(job).unwrap();
    let documents = table(output, "documents");
    let signatures = signature_values(documents.column_by_name("signature").unwrap());
    let signatures: BTreeMap<String, Vec<u32>> =
        strings(&documents, "id").into_iter().zip(signatures).collect();
    assert!(signatures.len() >= 200);
    assert!(signatures.keys().eq(answer.signatures.keys()));
    for (id, signature) in &signatures {
        assert_eq!(signature, &answer.signatures[id], "the signature of {id}");
    }
    assert!(!answer.pairs.is_empty());
    assert_eq!(scored_pairs(output), answer.scored(&answer.pairs));

    // Every candidate whose signatures agree anywhere is a pair where all of those are kept.
    let everything = output.with_extension("candidates");
    let mut all = job.clone();
    all.output.url = everything.display().to_string();
    all.score = Score { threshold: 1e-6, by: ScoreBy::Signature, ..Score::default() };
    run(&all).unwrap();
    let mut expected = answer.scored(&answer.candidates);
    expected.retain(|_, (estimate, _)| *estimate > 0.0);
    assert!(expected.len() >= answer.pairs.len());
    assert_eq!(scored_pairs(&everything), expected);

    let with_neighbors = answer.neighbors.iter().filter(|(_, near)| near.len() > 1).take(3);
    let alone = answer.neighbors.iter().filter(|(_, near)| near.is_empty()).take(1);
    for (id, near) in with_neighbors.chain(alone) {
        let scored = near.iter().map(|(id, equal, shared, union)| {
            let (estimate, jaccard) = answer.scores(*equal, *shared, *union);
            (id.clone(), estimate, jaccard)
        });
        assert_eq!(neighbors(output, id), scored.collect::<Vec<_>>(), "the neighbors of {id}");
    }
}

fn places() -> Scene {
    let places = Scene::new(&[]);
    std::fs::create_dir(places.path("in")).unwrap();
    places
}

fn coefficients(places: &Scene) -> String {
    format!("minhash.coefficients={}", places.text("coefficients.csv"))
}

/// How Python classifies characters: see `characters.py`.
#[derive(Deserialize)]
struct Characters {
    classes: String,
    lower: BTreeMap<char, String>,
}

/// Over every character that both versions of Unicode have.
#[test]
fn words_digits_and_white_space_are_as_python_has_them() {
    let Some(printed) = printed("characters.py", &[]) else { return };
    let python: Characters = serde_json::from_slice(&printed).unwrap();
    let steps = |names: &[&str]| names.iter().map(|name| name.parse().unwrap()).collect::<Vec<Normalize>>();
    let normalizer = |name| Normalizer::new(&steps(&[name]), Words::Spaces).unwrap();
    let [mut digits, mut folds, mut lowers] =
        ["digits-out", "collapse-whitespace:tabs-and-newlines", "lowercase"].map(normalizer);
    let done = |normalizer: &mut Normalizer, text: &str| {
        normalizer.begin();
        normalizer.piece(text).to_owned()
    };
    let (mut compared, mut differ) = (0, Vec::new());
    for (code, class) in (0..).zip(python.classes.chars()) {
        let (class, Some(c)) = (class.to_digit(16).unwrap(), char::from_u32(code)) else { continue };
        let ours = CodePointMapData::<GeneralCategory>::new().get(c);
        if class & 1 == 0 || ours == GeneralCategory::Unassigned {
            continue;
        }
        compared += 1;
        let mut words = 0;
        each_word(&format!("a{c}b"), Words::WordCharacters, |_| words += 1);
        let is_digit = done(&mut digits, &c.to_string()).is_empty();
        let folded = done(&mut folds, &format!("a{c}b")) == "a b";
        let lower = done(&mut lowers, &c.to_string());
        let expected = python.lower.get(&c).cloned().unwrap_or_else(|| c.to_string());
        let is_same = (words == 1) == (class & 2 != 0)
            && is_digit == (class & 4 != 0)
            && folded == (class & 8 != 0)
            && lower == expected;
        if !is_same {
            differ.push((c, ours, class, words, is_digit, folded, lower));
        }
    }
    assert!(compared > 250_000, "{compared}");
    assert!(differ.is_empty(), "{} characters: {differ:?}", differ.len());
}

#[test]
fn similar_files_and_the_three_methods_are_the_same_to_the_digit() {
    for (script, recipe) in [("similar_files.py", "newsgroups"), ("three_methods.py", "text-files")] {
        let places = places();
        let Some(answer) = answer(script, &[&places.text("in"), "0.8"]) else { return };
        answer.write_coefficients(&places.path("coefficients.csv"));
        let output = places.path("out");
        let recipe = format!("jobs/recipes/{recipe}.toml");
        let job = job_of(&recipe, &places.path("in"), &output, &[&coefficients(&places)]);
        assert_equal(&job, &output, &answer);
    }
}

/// The coefficients come from the script that draws Python's for seed 42; short reviews have all-maximum signatures.
#[test]
fn reviews_are_the_same_to_the_digit() {
    let places = places();
    let csv = places.text("in/reviews.csv");
    let stop_words = repository(STOP_WORDS).display().to_string();
    let Some(answer) = answer("reviews.py", &[&csv, &stop_words, "0.8", "3", "write"]) else { return };
    let Some(drawn) = printed("coefficients.py", &["42"]) else { return };
    std::fs::write(places.path("coefficients.csv"), drawn).unwrap();
    let output = places.path("out");
    let sets = [&coefficients(&places), "shingle.short=empty"];
    let job = job_of("jobs/recipes/amazon-books.toml", Path::new(&csv), &output, &sets);
    let maximum = answer.signatures.values().filter(|s| s.iter().all(|&value| value == u32::MAX)).count();
    assert!(maximum > 10, "{maximum} reviews are too short");
    assert_equal(&job, &output, &answer);
}

/// Larger shingles find more pairs there: all reviews that are too short for one are alike by their signatures.
#[test]
fn short_reviews_are_pairs_by_their_signatures() {
    let Some(data) = real_data("amazon-books/Books_rating.sample.csv") else { return };
    let places = places();
    let stop_words = repository(STOP_WORDS).display().to_string();
    for (size, pairs) in [("3", 12), ("5", 15), ("7", 40)] {
        let arguments = [&data.display().to_string(), &stop_words, "0.7", size];
        let Some(answer) = answer("reviews.py", &arguments) else { return };
        assert_eq!(answer.pairs.len(), pairs, "shingles of {size} words");
        answer.write_coefficients(&places.path("coefficients.csv"));
        let output = places.path(size);
        let size = format!("shingle.size={size}");
        let sets = [&coefficients(&places), "shingle.short=empty", "score.threshold=0.7", &size];
        run(&job_of("jobs/recipes/amazon-books.toml", &data, &output, &sets)).unwrap();
        assert_eq!(scored_pairs(&output), answer.scored(&answer.pairs), "{size}");
        // Where they are rejected, larger shingles find fewer pairs.
        let output = places.path(&format!("{pairs}-rejected"));
        let sets = [&coefficients(&places), "score.threshold=0.7", &size];
        run(&job_of("jobs/recipes/amazon-books.toml", &data, &output, &sets)).unwrap();
        assert!(scored_pairs(&output).len() <= 12, "{size}");
    }
}

#[test]
fn news_stories_are_the_same_to_the_digit() {
    let places = places();
    let stories = places.text("in/stories.sgm");
    if printed("stories.py", &[&stories, "write"]).is_none() {
        return;
    }
    let steps = "shingle.normalize=[\"remove-newlines\", \"lowercase\", \"remove-non-letters\", \"collapse-whitespace\"]";
    let sets = [DICTIONARY.as_slice(), &[steps]].concat();
    // Which number a shingle has is free: the program takes ours, and sees that they are the numbers of a dictionary.
    let first = places.path("first");
    run(&job_of("jobs/recipes/reuters.toml", Path::new(&stories), &first, &sets)).unwrap();
    let dictionary = table(&first, "dictionary");
    let numbered = numbers(&dictionary, "number").into_iter().zip(strings(&dictionary, "shingle"));
    let lines: String = numbered.map(|(number, shingle)| format!("{number},{shingle}\n")).collect();
    std::fs::write(places.path("dictionary.csv"), lines).unwrap();
    let arguments = [stories.as_str(), &places.text("dictionary.csv"), "0.8", "5"];
    let Some(answer) = answer("stories.py", &arguments) else { return };
    answer.write_coefficients(&places.path("coefficients.csv"));
    let output = places.path("out");
    let coefficients = coefficients(&places);
    let sets = [sets.as_slice(), &[coefficients.as_str()]].concat();
    assert_equal(&job_of("jobs/recipes/reuters.toml", Path::new(&stories), &output, &sets), &output, &answer);
}
