//! Two outputs whose sources read different columns of one file: every document has the text that was compared.

use crate::support::*;

/// Bands that find every pair, and an order in which merged outputs equal one run.
const SETS: [&str; 5] =
    ["minhash.permutations=64", "lsh.bands=64", "lsh.rows=1", "output.max_expand=0", AS_ONE_RUN];

const ROWS: usize = 30;

/// A file with titles and bodies, which outputs `A` and `B` compare, their merge `M`, and new documents.
struct Shared {
    scene: Scene,
    titles: Vec<Document>,
    bodies: Vec<Document>,
    new: Vec<Document>,
}

has_a_scene!(Shared);

impl Shared {
    /// The bodies have ids of their own. If `replaced`, they have the ids of the first titles and replace them.
    fn new(keep: &str, replaced: bool) -> Self {
        let texts = corpus(91, 2 * ROWS, 30);
        let named = |prefix: &str, texts: &[Document]| -> Vec<Document> {
            let texts = texts.iter().enumerate();
            texts.map(|(row, (_, text))| (format!("{prefix}{row:02}"), text.clone())).collect()
        };
        let (titles, bodies) = (named("t", &texts[..ROWS]), named("b", &texts[ROWS..]));
        let new =
            texts.iter().enumerate().map(|(row, (_, text))| (format!("n{row:02}"), format!("{text} z")));
        let mut shared = Self { scene: Scene::new(&[]), titles, bodies, new: new.collect() };
        let text = |of: &[Document], id: bool| -> ArrayRef {
            let values = of.iter().map(|(own, text)| if id { own } else { text });
            Arc::new(StringArray::from_iter_values(values))
        };
        let columns = vec![
            ("title_id", text(&shared.titles, true)),
            ("title", text(&shared.titles, false)),
            ("body_id", text(&shared.bodies, true)),
            ("body", text(&shared.bodies, false)),
            ("row", Arc::new(Int64Array::from_iter_values(0..ROWS as i64)) as ArrayRef),
        ];
        write_batch(&shared.path("all.parquet"), &RecordBatch::try_from_iter(columns).unwrap(), 10);
        write_parquet(&shared.path("new.parquet"), &shared.new, 20);
        let keep = format!("output.keep={keep}");
        let (title, body) = (["source.id=title_id", "source.text=title"], "source.text=body");
        let against = format!("against.output={:?}", shared.path("A"));
        shared.run("all.parquet", "A", &[&title[..], &[&keep]].concat());
        let own: &[&str] = match replaced {
            true => &["source.id=title_id", "source.where=row < 20", "against.same_id=replace"],
            false => &["source.id=body_id"],
        };
        let last = shared.run("all.parquet", "B", &[own, &[body, &keep, &against]].concat());
        let outputs = ["A", "B"].map(|name| shared.path(name).display().to_string()).to_vec();
        run(&Job::merge(outputs, &last, &shared.path("M").display().to_string())).unwrap();
        if replaced {
            let ids = shared.titles.drain(..20).map(|(id, _)| id);
            shared.bodies = ids.zip(&shared.bodies).map(|(id, (_, text))| (id, text.clone())).collect();
        }
        shared
    }

    fn run(&self, source: &str, output: &str, sets: &[&str]) -> Job {
        let job = job(&self.path(source), &self.path(output), &[&SETS[..], sets].concat());
        run(&job).unwrap();
        job
    }

    fn compare(&self, outputs: &[&str], output: &str, sets: &[&str]) {
        let outputs: Vec<PathBuf> = outputs.iter().map(|name| self.path(name)).collect();
        let against = format!("against.output={outputs:?}");
        self.run("new.parquet", output, &[&[against.as_str()][..], sets].concat());
    }

    fn merged(&self) -> Vec<Document> {
        [self.titles.clone(), self.bodies.clone()].concat()
    }

    /// The pairs of new documents with each other and with the merged output, by plain code.
    fn expected(&self) -> BTreeMap<(String, String), f64> {
        let all = [self.new.clone(), self.merged()].concat();
        let mut pairs = exact_pairs(&all, 3, 0.5);
        pairs.retain(|(a, b), _| a.starts_with('n') || b.starts_with('n'));
        pairs
    }

    fn lines(&self, arguments: &[&str]) -> Vec<Value> {
        let printed =
            resemblance().args(&arguments[..1]).arg(self.path("M")).args(&arguments[1..]).assert().shown(&[]);
        serde_json::Deserializer::from_str(&printed).into_iter().map(Result::unwrap).collect()
    }
}

fn sorted(pairs: BTreeMap<(String, String), f64>) -> BTreeMap<(String, String), f64> {
    pairs.into_iter().map(|((a, b), jaccard)| ((a.clone().min(b.clone()), a.max(b)), jaccard)).collect()
}

#[test]
fn new_documents_are_compared_with_the_texts_of_both_columns() {
    for (keep, replaced) in [("signatures", false), ("signatures", true), ("shingles", true)] {
        let shared = Shared::new(keep, replaced);
        shared.compare(&["M"], "out", &[]);
        let expected = shared.expected();
        let columns: BTreeSet<char> =
            expected.keys().flat_map(|(a, b)| [a, b]).map(|id| id.as_bytes()[0].into()).collect();
        assert!(expected.len() > 60 && columns.len() == if replaced { 2 } else { 3 }, "{columns:?}");
        assert_eq!(sorted(pairs(&shared.path("out"))), expected, "{keep} {replaced}");
    }
}

#[test]
fn passages_are_found_in_the_texts_of_both_columns() {
    for replaced in [false, true] {
        let shared = Shared::new("shingles", replaced);
        write_parquet(&shared.path("whole.parquet"), &shared.merged(), 20);
        shared.run("whole.parquet", "whole", &["output.keep=shingles"]);
        for (name, sets) in [
            ("spans", &["passages.unit=word", "passages.length=8"][..]),
            ("pairs", &["output.pair_passages=true"]),
        ] {
            let outputs = [("M", format!("{name} by merged")), ("whole", format!("{name} by whole"))];
            let [found, expected] = outputs.map(|(against, output)| {
                shared.compare(&[against], &output, sets);
                table(&shared.path(&output), name)
            });
            assert!(found.num_rows() > 60);
            assert_eq!(found, expected, "{name} {replaced}");
        }
    }
}

#[test]
fn the_merged_output_shows_the_texts_that_were_compared() {
    for replaced in [false, true] {
        let shared = Shared::new("signatures", replaced);
        let documents: BTreeMap<String, String> = shared.merged().into_iter().collect();
        let expected = exact_pairs(&shared.merged(), 3, 0.5);
        assert_eq!(pairs(&shared.path("M")), expected);
        let shown = shared.lines(&["show", "--top", "1000", "--json"]);
        assert_eq!(shown.len(), expected.len());
        for line in shown {
            for (id, text) in [("id_a", "text_a"), ("id_b", "text_b")] {
                assert_eq!(line[text].as_str().unwrap(), documents[line[id].as_str().unwrap()], "{line}");
            }
        }
        // The shingles are cut from the texts and compared with the shingles of the document.
        let of = &expected.keys().next().unwrap().0;
        let found = shared.lines(&["neighbors", "--id", of, "--top", "1000", "--json"]);
        let similar = |line: &Value| {
            let jaccard = line["jaccard"].as_f64().unwrap();
            (jaccard >= 0.5).then(|| (line["id"].as_str().unwrap().to_owned(), jaccard))
        };
        let found: BTreeMap<String, f64> = found.iter().filter_map(similar).collect();
        let other = |((a, b), jaccard): (&(String, String), &f64)| {
            let id = [a, b].into_iter().find(|id| *id != of)?.clone();
            (a == of || b == of).then_some((id, *jaccard))
        };
        assert_eq!(found, expected.iter().filter_map(other).collect());
        let evaluated = &shared.lines(&["evaluate", "--json", "--sample", "1000"])[0];
        assert_eq!(evaluated["wrong_pairs"], 0);
        assert_eq!(evaluated["recall"]["pairs"]["value"], 1.0);
        let texts: BTreeMap<String, String> = documents.into_iter().map(|(id, text)| (text, id)).collect();
        let texts: Vec<Document> = texts.into_iter().map(|(text, id)| (id, text)).collect();
        assert_eq!(evaluated["found_pairs"], exact_pairs(&texts, 3, 0.5).len(), "{evaluated}");
    }
}
