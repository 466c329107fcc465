//! `--keep-up-to`: the documents of each cluster that stay, with their copies and weights, compared with plain code.

use arrow::array::*;
use proptest::prelude::*;

use super::*;

const SHOPS: [Option<&str>; 3] = [Some("north"), Some("south"), None];

/// A document of a source: its id, its text, and the value of the column `shop`.
type Row = (String, String, Option<&'static str>);

/// `count` documents in few clusters, many of them equal to the letter. Some equal sets of shingles are different texts.
fn rows(seed: u64, count: usize, ints: bool) -> Vec<Row> {
    let mut random = Random(seed);
    let bases: Vec<Vec<String>> =
        (0..count / 12).map(|base| (0..20).map(|word| format!("w{base}x{word}")).collect()).collect();
    let rows = (0..count).map(|at| {
        let mut words = bases[random.below(bases.len())].clone();
        match random.below(4) {
            0 => {}
            1 => words[0] = words[0].to_uppercase(),
            2 => words[19] = format!("e{}", random.below(3)),
            _ => words.truncate(18 + random.below(2)),
        }
        let id = if ints { (at * 7 % 1000).to_string() } else { format!("d{at:04}") };
        (id, words.join(" "), SHOPS[random.below(3)])
    });
    let mut rows: Vec<Row> = rows.collect();
    for at in 0..5 {
        rows.push((format!("{}", 5000 + at), own_words(format!("alone{at}"), 12), SHOPS[at % 3]));
    }
    rows
}

struct Budgeted {
    applied: Applied,
    rows: Vec<Row>,
}

/// Runs a job with the lines `more` in `[source]` over two Parquet files with `rows`.
fn budgeted(rows: Vec<Row>, ints: bool, more: &str) -> Budgeted {
    let applied = Applied::new();
    for (name, part) in ["a.parquet", "b.parquet"].into_iter().zip(rows.chunks(rows.len() / 2 + 1)) {
        let ids: ArrayRef = if ints {
            Arc::new(Int64Array::from_iter_values(part.iter().map(|row| row.0.parse().unwrap())))
        } else {
            Arc::new(StringArray::from_iter_values(part.iter().map(|row| &row.0)))
        };
        let texts: ArrayRef = Arc::new(StringArray::from_iter_values(part.iter().map(|row| &row.1)));
        let shops: ArrayRef = Arc::new(part.iter().map(|row| row.2).collect::<StringArray>());
        let batch = RecordBatch::try_from_iter_with_nullable([
            ("id", ids, false),
            ("text", texts, false),
            ("shop", shops, true),
        ]);
        write_batch(&applied.path("in").join(name), &batch.unwrap(), 40);
    }
    applied.run("parquet", &format!("{COLUMNS}columns = [\"shop\"]\n{more}"));
    Budgeted { applied, rows }
}

/// The number of copies and the weight of each document that stays.
type Kept = BTreeMap<String, (u64, f64)>;

impl Budgeted {
    /// The clusters of the output, each in the order of `clusters.keep`: by the number of shingles, and then by id; or by position.
    fn clusters(&self, first: bool) -> Vec<Vec<usize>> {
        let gone = self.applied.kept_of_gone();
        let mut clusters: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, (id, ..)) in self.rows.iter().enumerate() {
            clusters.entry(gone.get(id).map_or(id.as_str(), String::as_str)).or_default().push(at);
        }
        let shingles = |at: usize| {
            let lower = self.rows[at].1.to_lowercase();
            let words: Vec<&str> = lower.split(' ').collect();
            words.windows(3).collect::<BTreeSet<_>>().len()
        };
        let id = |at: usize| (self.rows[at].0.parse::<i64>().unwrap_or_default(), self.rows[at].0.clone());
        let mut clusters: Vec<Vec<usize>> = clusters.into_values().collect();
        for cluster in &mut clusters {
            match first {
                true => cluster.sort(),
                false => cluster.sort_by_key(|&at| (std::cmp::Reverse(shingles(at)), id(at))),
            }
        }
        clusters
    }

    fn expected(&self, up_to: usize, per_shop: bool, identical: bool, first: bool) -> Kept {
        let mut kept = Kept::new();
        for cluster in self.clusters(first) {
            let (mut texts, mut stay) = (BTreeSet::new(), Vec::new());
            let mut counts: BTreeMap<Option<&str>, usize> = BTreeMap::new();
            for &at in &cluster {
                let (_, text, shop) = &self.rows[at];
                if !texts.insert(text) && !identical {
                    continue;
                }
                let count = counts.entry(shop.filter(|_| per_shop)).or_default();
                *count += 1;
                if *count <= up_to {
                    stay.push(at);
                }
            }
            let weight = cluster.len() as f64 / stay.len() as f64;
            kept.extend(stay.iter().map(|&at| (self.rows[at].0.clone(), (cluster.len() as u64, weight))));
        }
        kept
    }

    fn found(&self, to: &str) -> Kept {
        let names = ["a.parquet", "b.parquet"];
        names.into_iter().flat_map(|name| kept_rows(&parquet(&self.applied.path(to).join(name)))).collect()
    }

    /// The repeat counts of `clusters`, by plain code: (from, to) -> (texts, bytes).
    fn repeats(&self, clusters: &[Vec<usize>]) -> BTreeMap<(u64, u64), (u64, u64)> {
        let mut repeats = BTreeMap::new();
        for cluster in clusters {
            let mut to = 1;
            while to < cluster.len() as u64 {
                to *= 2;
            }
            let at: &mut (u64, u64) = repeats.entry((to / 2 + 1, to)).or_default();
            at.0 += 1;
            at.1 += cluster.iter().map(|&at| self.rows[at].1.len() as u64).sum::<u64>();
        }
        repeats
    }
}

fn kept_rows(batch: &RecordBatch) -> Vec<(String, (u64, f64))> {
    let copies = numbers(batch, "copies").into_iter();
    let values = copies.zip(floats(batch, "weight"));
    strings(batch, "id").into_iter().zip(values).collect()
}

/// The texts and bytes of one side of the repeat counts in a record.
fn repeats_of(record: &Value, side: &str) -> BTreeMap<(u64, u64), (u64, u64)> {
    let number = |value: &Value| value.as_u64().unwrap();
    let intervals = record["repeats"].as_array().unwrap().iter();
    let all = intervals.map(|at| {
        let key = (number(&at["from"]), number(&at["to"]));
        (key, (number(&at[side]["texts"]), number(&at[side]["bytes"])))
    });
    all.filter(|(_, counts)| *counts != (0, 0)).collect()
}

#[test]
fn the_first_different_texts_of_each_cluster_stay() {
    for (ints, per_shop, identical, more) in [
        (false, false, false, ""),
        (true, false, false, ""),
        (true, true, false, "group = \"shop\"\n"),
        (false, false, true, "[clusters]\nmethod = \"components\"\nkeep = [\"first\"]\n"),
        (false, true, true, ""),
    ] {
        let budgeted = budgeted(rows(3, 150, ints), ints, more);
        let first = more.contains("first");
        let plain = budgeted.expected(1, false, false, first);
        for up_to in [1, 2, 3, 40] {
            let (to, number) = (format!("to{up_to}"), up_to.to_string());
            let budget = if per_shop { format!("shop={number}") } else { number };
            let options: &[&str] = if identical { &["--identical"] } else { &[] };
            let record = budgeted.applied.apply(&to, &[&["--keep-up-to", &budget], options].concat());
            let expected = budgeted.expected(up_to, per_shop, identical, first);
            let found = budgeted.found(&to);
            assert_eq!(found, expected, "{budget} {more}");
            assert!(expected.len() > plain.len() || up_to == 1 && !per_shop, "{budget}");
            let sum: f64 = found.values().map(|(_, weight)| weight).sum();
            assert!((sum - budgeted.rows.len() as f64).abs() < 1e-6, "{sum}");
            assert_eq!(record["kept"], expected.len());

            let all = budgeted.clusters(first);
            let stays = |&at: &usize| expected.contains_key(&budgeted.rows[at].0);
            let stay: Vec<Vec<usize>> =
                all.iter().map(|of| of.iter().copied().filter(stays).collect()).collect();
            assert_eq!(repeats_of(&record, "before"), budgeted.repeats(&all));
            assert_eq!(repeats_of(&record, "after"), budgeted.repeats(&stay));

            let removed = strings(&budgeted.applied.removed(&to), "id");
            assert_eq!(removed.len() + expected.len(), budgeted.rows.len());
            assert!(removed.iter().all(|id| !expected.contains_key(id)));
        }
    }
}

#[test]
fn a_dry_run_counts_the_same_and_alarms_see_the_budget() {
    let budgeted = budgeted(rows(5, 150, false), false, "group = \"shop\"\n");
    let options = ["--keep-up-to", "2"];
    let before = files(&budgeted.applied.path(""));
    let counted = budgeted.applied.counted(&options);
    let text = budgeted.applied.dry(&options);
    assert!(text.contains("| documents of a text ") && text.contains("| 9 to 16 "), "{text}");
    assert!(files(&budgeted.applied.path("")) == before);
    let kept = budgeted.expected(2, false, false, false).len() as u64;
    assert_eq!(counted["kept"], kept);
    let groups = counted["groups"].as_array().unwrap();
    assert_eq!(groups.iter().map(|group| group["kept"].as_u64().unwrap()).sum::<u64>(), kept);
    assert_eq!(counted["losses"]["spared"], 0);

    let done = budgeted.applied.apply("to", &options);
    for key in ["read", "kept", "removed", "repeats", "losses"] {
        assert_eq!(done[key], counted[key], "{key}");
    }
    assert_eq!(manifest_of(&budgeted.applied.path("to"))["repeats"], done["repeats"]);
    assert_eq!(budgeted.applied.apply("to", &options)["repeats"], done["repeats"]);
    budgeted.applied.refused("to", &["--keep-up-to", "3"], 2, &["other options"]);
    assert!(budgeted.applied.counted(&[])["repeats"].is_null());

    // The bound lies between the share of removed documents without and with the budget.
    let all = budgeted.rows.len() as u64;
    let without = budgeted.applied.counted(&[])["removed"].as_u64().unwrap();
    let bound = ((without + all - kept) as f64 / 2.0 / all as f64).to_string();
    let warned = |more: &[&str]| {
        let ran = program!["apply", budgeted.applied.path("out"), "--dry-run", "--removed-share", &bound];
        let output = { ran }.args(more).assert().success().get_output().stderr.clone();
        String::from_utf8(output).unwrap().contains("alarms.removed_share allows")
    };
    assert!(warned(&[]) && !warned(&options));
}

#[test]
fn annotated_documents_and_delta_tables_have_copies_and_weights() {
    let budgeted = budgeted(rows(7, 120, true), true, "");
    let expected = budgeted.expected(2, false, false, false);
    budgeted.applied.apply("delta", &["--keep-up-to", "2", "--tables", "delta"]);
    assert_eq!(budgeted.found("delta"), expected);
    let table = Table::read(&budgeted.applied.path("delta"));
    for (name, kind) in [("copies", "long"), ("weight", "double")] {
        assert!(table.fields().contains(&(name.to_owned(), kind.into(), true)));
    }
    let rows: usize = table.batches().iter().map(RecordBatch::num_rows).sum();
    assert_eq!(rows, expected.len());

    let more = ["--keep-up-to", "2", "--annotate", "--columns", "cluster_size"];
    budgeted.applied.apply("marked", &more);
    let gone = budgeted.applied.kept_of_gone();
    let mut sizes = 0;
    for name in ["a.parquet", "b.parquet"] {
        let batch = parquet(&budgeted.applied.path("marked").join(name));
        let representative = batch["representative"].as_boolean();
        let [copies, size] =
            ["copies", "cluster_size"].map(|name| batch[name].as_primitive::<arrow::datatypes::Int64Type>());
        for (row, id) in strings(&batch, "id").into_iter().enumerate() {
            let stays = expected.get(&id);
            assert_eq!(representative.is_null(row) || representative.value(row), stays.is_some(), "{id}");
            assert_eq!(
                copies.is_valid(row).then(|| copies.value(row) as u64),
                stays.map(|(copies, _)| *copies)
            );
            assert_eq!(size.is_valid(row), stays.is_some());
            sizes += if size.is_valid(row) { size.value(row) } else { 0 };
            if stays.is_some() && gone.contains_key(&id) {
                assert_eq!(strings(&batch.slice(row, 1), "kept_id"), [id]);
            }
        }
    }
    assert_eq!(sizes, budgeted.rows.len() as i64);
}

#[test]
fn documents_that_are_spared_have_clusters_of_their_own() {
    let budgeted = budgeted(rows(9, 120, false), false, "");
    budgeted.applied.apply("to", &["--keep-up-to", "2", "--contained", "0.95"]);
    budgeted.applied.apply("one", &["--contained", "0.95"]);
    let removed = budgeted.applied.removed("one");
    let gone: BTreeMap<_, _> =
        strings(&removed, "id").into_iter().zip(strings(&removed, "kept_id")).collect();
    assert!(!gone.is_empty() && gone.len() < budgeted.applied.kept_of_gone().len());
    let found = budgeted.found("to");
    let mut clusters: BTreeMap<&str, (u64, f64)> = BTreeMap::new();
    for (id, ..) in &budgeted.rows {
        let cluster = clusters.entry(gone.get(id).unwrap_or(id)).or_default();
        cluster.0 += 1;
        if let Some((_, weight)) = found.get(id) {
            cluster.1 += weight;
        }
    }
    for (id, (size, weight)) in clusters {
        assert!((weight - size as f64).abs() < 1e-9, "{id} {size} {weight}");
        assert_eq!(found[id].0, size, "{id}");
    }
}

#[test]
fn records_get_the_columns_and_text_files_none() {
    let documents = corpus(31, 60, 15);
    let applied = Applied::new();
    let line = |(id, text): &Document| format!("{}\n", json!({"id": id, "text": text}));
    applied.put("a.jsonl", documents.iter().map(line).collect::<String>());
    applied.run("jsonl", COLUMNS);
    applied.apply("to", &["--keep-up-to", "2", "--identical"]);
    let kept = std::fs::read_to_string(applied.path("to/a.jsonl")).unwrap();
    let lines: Vec<Value> = kept.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let sum: f64 = lines.iter().map(|line| line["weight"].as_f64().unwrap()).sum();
    assert!((sum - 60.0).abs() < 1e-9 && lines.iter().any(|line| line["copies"].as_u64() > Some(2)));

    let applied = Applied::of_texts(&corpus(33, 40, 12));
    let one = applied.apply("one", &["--keep-up-to", "1"]);
    let record = applied.apply("to", &["--keep-up-to", "2", "--identical"]);
    assert!(record["kept"].as_u64() > one["kept"].as_u64());
    let kept: Vec<String> =
        files(&applied.path("to")).into_keys().filter(|name| name.ends_with("txt")).collect();
    assert_eq!(record["kept"], kept.len());
    for name in kept {
        let read = |folder: &str| std::fs::read(applied.path(folder).join(&name)).unwrap();
        assert_eq!(read("to"), read("in"));
    }
}

#[test]
fn budgets_that_do_not_apply_are_refused() {
    let budgeted = budgeted(rows(11, 60, false), false, "");
    let applied = &budgeted.applied;
    for budget in ["0", "shop=", "=2", "two"] {
        applied.refused("to", &["--keep-up-to", budget], 2, &["expected a whole number from 1"]);
    }
    applied.refused("to", &["--identical"], 2, &["--keep-up-to"]);
    applied.refused("to", &["--keep-up-to", "year=2"], 2, &["column `year`", "add it to source.columns"]);
    applied.refused("to", &["--keep-up-to", "group()=2"], 2, &["set source.group"]);
    applied.counted(&["--keep-up-to", "source()=1"]);
    let cut = ["--keep-up-to", "2", "--passages", "cut"];
    applied.refused("to", &cut, 2, &["--passages mark"]);
    let path = |name: &str| applied.path(name).display().to_string();
    let sets = [("against.output", "out"), ("output.url", "two"), ("source.url", "new")];
    let sets = sets.iter().flat_map(|(key, name)| ["--set".to_owned(), format!("{key}={}", path(name))]);
    let shops: ArrayRef = Arc::new(StringArray::from_iter_values((0..30).map(|at| own_words(at % 9, 12))));
    std::fs::create_dir(path("new")).unwrap();
    write_columns(&applied.path("new/a.parquet"), &documents_named("new", 30), vec![("shop", shops)], 30);
    program!["run", path("job.toml")].args(sets).assert().success();
    let ran = program!["apply", path("two"), "--keep-up-to", "2", "--dry-run"].assert();
    ran.refused(2, &["was made with [against]", "merge it"]);
    assert!(!applied.path("to").exists());
}

fn documents_named(name: &str, count: usize) -> Vec<Document> {
    (0..count).map(|at| (format!("{name}{at}"), own_words(at, 14))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

    /// The weights of each cluster sum to its size, and its documents that stay have different texts.
    #[test]
    fn weights_sum_to_sizes(seed in 1_u64..10_000, count in 40_usize..120, up_to in 1_usize..5) {
        let budgeted = budgeted(rows(seed, count, false), false, "");
        budgeted.applied.apply("to", &["--keep-up-to", &up_to.to_string()]);
        let found = budgeted.found("to");
        for cluster in budgeted.clusters(false) {
            let kept: Vec<usize> =
                cluster.iter().copied().filter(|&at| found.contains_key(&budgeted.rows[at].0)).collect();
            let sum: f64 = kept.iter().map(|&at| found[&budgeted.rows[at].0].1).sum();
            prop_assert!((sum - cluster.len() as f64).abs() < 1e-9);
            let texts: BTreeSet<&str> = kept.iter().map(|&at| budgeted.rows[at].1.as_str()).collect();
            prop_assert!(texts.len() == kept.len() && (1..=up_to).contains(&kept.len()));
        }
    }
}
