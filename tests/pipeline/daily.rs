//! The daily recipe: what each day removes, what stays of all days together, and the warning where an earlier day has to change.

use crate::support::*;

fn document(id: impl Into<String>, text: impl Into<String>) -> Document {
    (id.into(), text.into())
}

/// The documents of a cluster with whether they represent it.
fn clusters(output: &Path) -> Vec<(String, bool)> {
    let clusters = table(output, "clusters");
    let mut ids: Vec<_> =
        strings(&clusters, "id").into_iter().zip(bools(&clusters, "representative")).collect();
    ids.sort();
    ids
}

fn ids(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for id in parquet_rows(folder).iter().flat_map(|batch| strings(batch, "id")) {
        assert!(found.insert(id.clone()), "{id} is there twice");
    }
    found
}

/// Days of documents, each with its output and what is kept of it.
struct Lake {
    scene: Scene,
}

has_a_scene!(Lake);

impl Lake {
    fn new(sets: &[&str]) -> Self {
        Self { scene: Scene::new(sets) }
    }

    /// Runs a day against `before`. Every day has a file of the same name.
    fn day(&self, name: &str, documents: &[Document], before: &[&str]) {
        self.day_with(name, documents, before, &[]);
    }

    fn replacing(&self, name: &str, documents: &[Document], before: &[&str]) {
        self.day_with(name, documents, before, &["against.same_id=replace"]);
    }

    fn day_with(&self, name: &str, documents: &[Document], before: &[&str], sets: &[&str]) {
        self.write(&format!("in/{name}/part-0.parquet"), documents);
        run(&self.job_against(&format!("in/{name}"), name, before, sets)).unwrap();
    }

    fn merge(&self, outputs: &[&str], to: &str) {
        self.command(&[&["merge"][..], outputs, &["--to", to]].concat()).assert().success();
    }

    /// Applies an output: what is printed, and what the log says.
    fn apply(&self, name: &str, more: &[&str]) -> (Value, String) {
        let mut apply = self.command(&[&["apply", name, "--json"][..], more].concat());
        if !more.contains(&"--dry-run") {
            apply.args(["--to", &format!("clean/{name}")]);
        }
        let ended = apply.assert();
        (ended.json(), ended.warned(&[]))
    }

    fn kept(&self, name: &str) -> BTreeSet<String> {
        ids(&self.path(&format!("clean/{name}")))
    }

    fn pairs_of_kept(&self, days: &[&str]) -> u64 {
        let urls: Vec<PathBuf> = days.iter().map(|day| self.path(&format!("clean/{day}"))).collect();
        self.run("in", "union", &[&format!("source.url={urls:?}")]).manifest.counts.pairs
    }

    /// The rows in a folder of the results of these days.
    fn kept_rows(&self, days: [&str; 3], folder: &str, columns: [&str; 3]) -> Vec<[String; 3]> {
        let folders = days.map(|day| self.path(&format!("clean/{day}{folder}")));
        let rows = folders.iter().flat_map(|folder| parquet_rows(folder));
        rows.flat_map(|batch| {
            let columns = columns.map(|column| strings(&batch, column));
            (0..batch.num_rows()).map(move |row| columns.each_ref().map(|column| column[row].clone()))
        })
        .collect()
    }

    fn superseded(&self, day: &str) -> Option<u64> {
        manifest(&self.path(day)).counts.superseded_reference_documents
    }
}

/// The days of [`Lake`] after a second source: its output, then `first` with it as the second source, then `next`.
#[test]
fn days_after_a_second_source_leave_no_pair() {
    for method in ["components", "representative"] {
        let mut lake = Lake::new(&[
            &format!("clusters.method={method}"),
            "candidates.method=prefix",
            "output.keep=shingles",
        ]);
        let documents = corpus(7, 240, 25);
        let [releases, first, next] = [0, 80, 160].map(|from| documents[from..from + 80].to_vec());
        lake.day("releases", &releases, &[]);
        let source = second_source(lake.path("in/releases"), "");
        lake.scene.sets.push(source);
        lake.day("first", &first, &[]);
        lake.scene.sets.pop();
        lake.day("next", &next, &["releases", "first"]);
        let days = ["releases", "first", "next"];
        let mut superseded = 0;
        for day in days {
            let (applied, _) = lake.apply(day, &[]);
            assert!(applied["removed"].as_u64().unwrap() > 0, "{method} {day}: {applied}");
            superseded += lake.superseded(day).unwrap_or(0);
        }
        // Pairs of documents that days before had kept stay, as the runs say.
        let pairs = lake.pairs_of_kept(&days);
        match method {
            "representative" => assert_eq!(pairs, 0),
            _ => assert!(pairs <= superseded, "{pairs} {superseded}"),
        }
    }
}

/// Two hundred documents; the next day half of them with five words more, and fifty others.
fn two_days() -> [Vec<Document>; 2] {
    let first: Vec<Document> = (0..200).map(|n| document(format!("a{n:03}"), own_words(n, 30))).collect();
    let longer = first[..100]
        .iter()
        .map(|(id, text)| document(format!("b{id}"), format!("{text} and five more words here")));
    let others = (300..350).map(|n| document(format!("c{n}"), own_words(n, 30)));
    let second = longer.chain(others).collect();
    [first, second]
}

/// The block of code in `language` that comes first after a heading of a page.
fn block(page: &str, heading: &str, language: &str) -> String {
    let text = std::fs::read_to_string(repository(page)).unwrap();
    let (_, section) = text.split_once(&format!("## {heading}\n")).unwrap();
    let (_, block) = section.split_once(&format!("```{language}\n")).unwrap();
    block.split_once("```").unwrap().0.to_owned()
}

/// The commands of the page as they stand there, run by a shell.
#[test]
fn the_daily_recipe_leaves_no_pair() {
    let scene = Scene::new(&[]);
    for (day, documents) in ["2026-11-20", "2026-11-21"].into_iter().zip(two_days()) {
        scene.write(&format!("reviews/day={day}/part-0.parquet"), &documents);
    }
    const HEADING: &str = "A clean dataset every day";
    std::fs::write(scene.path("reviews.toml"), block("docs/daily.md", HEADING, "toml")).unwrap();
    let script = block("docs/daily.md", HEADING, "sh");
    shell(&script, &scene.path("")).output().unwrap().shown(&[]);
    let kept = |day: &str| ids(&scene.path(&format!("clean/day={day}"))).len();
    assert_eq!((kept("2026-11-20"), kept("2026-11-21")), (200, 50));
    let sets = [format!("source.url={}", scene.text("clean")), format!("output.url={}", scene.text("union"))];
    let union = run(&Job::load(scene.path("reviews.toml"), &sets).unwrap()).unwrap();
    assert_eq!((union.manifest.counts.documents, union.manifest.counts.pairs), (250, 0));
}

/// The commands of the page about a second source as they stand there.
#[test]
fn the_recipe_of_a_second_source_continues_it() {
    let scene = Scene::new(&[]);
    let page = std::fs::read_to_string(repository("docs/link.md")).unwrap();
    let articles = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    std::fs::write(scene.path("articles.toml"), articles).unwrap();
    const HEADING: &str = "New articles the next day";
    std::fs::write(scene.path("releases.toml"), block("docs/link.md", HEADING, "toml")).unwrap();
    let [first, second] = two_days();
    scene.write("articles/part-0.parquet", &second[..60]);
    scene.write("articles-2/part-0.parquet", &second[60..]);
    let lines = first.iter().map(|(id, text)| json!({"id": id, "body": text}).to_string() + "\n");
    std::fs::write(scene.path("releases.jsonl.gz"), gzipped(lines.collect::<String>())).unwrap();
    let script = format!("resemblance run articles.toml\n{}", block("docs/link.md", HEADING, "sh"));
    shell(&script, &scene.path("")).output().unwrap().shown(&[]);
    let counts = |name: &str| manifest(&scene.path(name)).counts;
    assert_eq!((counts("out/linked").pairs, counts("out/linked-2").pairs), (60, 40));
    assert_eq!(counts("out/linked-2").reference_documents, Some(260));
}

/// By either method a document that is kept stays, however long the new ones are; the job can say otherwise.
#[test]
fn reference_documents_represent_their_clusters_unless_the_job_says_otherwise() {
    let [first, second] = two_days();
    for method in ["components", "representative"] {
        let method = format!("clusters.method={method}");
        let new_first = "clusters.keep=['length desc', 'reference']";
        for (sets, removed, superseded) in [
            (vec![method.as_str()], 100, 0),
            (vec![&method, "clusters.keep=['reference', 'length desc']"], 100, 0),
            (vec![&method, new_first], 0, 100),
        ] {
            let lake = Lake::new(&sets);
            lake.day("one", &first, &[]);
            lake.day("two", &second, &["one"]);
            assert_eq!(lake.superseded("two"), Some(superseded), "{sets:?}");
            lake.apply("one", &[]);
            let (applied, said) = lake.apply("two", &[]);
            assert_eq!(applied["removed"], removed, "{sets:?}");
            assert_eq!(applied["superseded_reference_documents"], superseded, "{sets:?}");
            assert_eq!(said.contains("other documents now represent"), superseded > 0, "{said}");
            assert_eq!(lake.pairs_of_kept(&["one", "two"]), superseded, "{sets:?}");
            // Merged, the days have the representatives that they had.
            lake.merge(&["one", "two"], "both");
            let of_both: BTreeSet<_> = clusters(&lake.path("both")).into_iter().collect();
            assert!(clusters(&lake.path("two")).into_iter().all(|row| of_both.contains(&row)), "{sets:?}");
        }
    }
}

/// Four documents in a row: each is similar to the next one, and to no other.
fn row_of_four() -> [Document; 4] {
    let text = |from: usize| (from..from + 30).map(|n| format!("w{n}")).collect::<Vec<_>>().join(" ");
    [0, 8, 16, 24].map(|from| document(format!("d{from:02}"), text(from)))
}

/// A new document that connects two reference documents: one of these no longer represents any.
#[test]
fn superseded_documents_of_earlier_days_are_counted() {
    let lake = Lake::new(&[]);
    let [a, b, c, d] = row_of_four();
    lake.day("one", &[a.clone(), c.clone()], &[]);
    lake.apply("one", &[]);
    // Day two connects them, and day three continues: what was superseded once is not counted again.
    lake.day("two", std::slice::from_ref(&b), &["one"]);
    lake.day("three", std::slice::from_ref(&d), &["one", "two"]);
    assert_eq!(["one", "two", "three"].map(|day| lake.superseded(day)), [None, Some(1), Some(0)]);
    let represented = [(a.0.clone(), true), (b.0.clone(), false), (c.0.clone(), false)];
    assert_eq!(clusters(&lake.path("two")), represented);

    for more in [&["--dry-run"][..], &[]] {
        let (applied, said) = lake.apply("two", more);
        assert_eq!((&applied["removed"], &applied["superseded_reference_documents"]), (&1.into(), &1.into()));
        assert!(
            said.contains("other documents now represent 1 of the documents that reference outputs keep"),
            "{said}"
        );
        assert!(said.contains("merge the reference outputs and"), "{said}");
    }
    let written = std::fs::read(lake.path("clean/two/_resemblance/manifest.json")).unwrap();
    let written: Value = serde_json::from_slice(&written).unwrap();
    assert_eq!(written["warnings"].as_array().unwrap().len(), 1, "{written}");
    assert_eq!(lake.apply("three", &[]).0["removed"], 1);
    // The earlier result has both ends of the row still.
    assert_eq!(lake.kept("one"), BTreeSet::from([a.0.clone(), c.0.clone()]));
    assert_eq!(lake.pairs_of_kept(&["one", "two", "three"]), 0);

    lake.merge(&["one", "two", "three"], "all");
    let (applied, said) = lake.apply("all", &[]);
    assert_eq!((&applied["read"], &applied["removed"]), (&4.into(), &3.into()), "{said}");
    assert_eq!(lake.kept("all"), BTreeSet::from([a.0]));
}

/// A document that an earlier day removed does not represent new ones, even if what represented it was replaced.
#[test]
fn a_removed_document_removes_no_new_one() {
    for method in ["components", "representative"] {
        let method = format!("clusters.method={method}");
        let lake = Lake::new(&[&method]);
        let text = own_words(1, 30);
        lake.day("one", &[document("longest", format!("{text} and more")), document("copy", &*text)], &[]);
        lake.replacing("two", &[document("longest", own_words(2, 30))], &["one"]);
        lake.replacing("three", &[document("new", &*text)], &["one", "two"]);
        let expected = [("copy".to_owned(), false), ("new".to_owned(), true)];
        assert_eq!(clusters(&lake.path("three")), expected, "{method}");
        assert_eq!(lake.apply("three", &[]).0["kept"], 1);
        // The row of the replaced document is in the source of the first day, and in no table of the merged output.
        lake.merge(&["one", "two", "three"], "all");
        assert_eq!(manifest(&lake.path("all")).counts.replaced_documents, Some(1));
        let applied = lake.command(&["apply", "all", "--to", "refused"]).assert();
        applied.refused(2, &["replaced documents (1, by"]);
        assert!(!lake.path("refused").exists());
    }
}

/// Holds the cluster of each document and the rows of cluster_id_changes against these.
fn check_cluster_ids<const C: usize, const R: usize>(
    output: &Path,
    clusters: [(&str, &str); C],
    changes: [(&str, &str); R],
) {
    let both = |name: &str, columns: [&str; 2]| -> BTreeSet<Document> {
        string_pairs(&table(output, name), columns)
    };
    assert_eq!(both("clusters", ["id", "cluster_id"]), documents(&clusters).into_iter().collect());
    let found = both("cluster_id_changes", ["old_cluster_id", "cluster_id"]);
    assert_eq!(found, documents(&changes).into_iter().collect());
}

#[test]
fn the_id_of_a_cluster_whose_founder_was_replaced_goes_to_no_stranger() {
    let lake = Lake::new(&[]);
    let [a, b] = [own_words(1, 40), own_words(2, 40)];
    lake.day("one", &documents(&[("c1", a.clone()), ("s", format!("{a} x"))]), &[]);
    let strangers = documents(&[("c1", b.clone()), ("t", format!("{b} x")), ("u", format!("{a} y"))]);
    lake.replacing("two", &strangers, &["one"]);
    let clusters = [("c1", "t"), ("t", "t"), ("s", "s"), ("u", "s")];
    check_cluster_ids(&lake.path("two"), clusters, [("c1", "s")]);
    // The next day knows the new ids, and an edited founder keeps the id of its documents.
    let edited = documents(&[("s", format!("{a} z")), ("v", format!("{b} z"))]);
    lake.replacing("three", &edited, &["one", "two"]);
    let clusters = [("c1", "t"), ("t", "t"), ("v", "t"), ("s", "s"), ("u", "s")];
    check_cluster_ids(&lake.path("three"), clusters, []);
}

/// A cluster that no new document joined on the day when its founder was replaced is written on a later day.
#[test]
fn the_change_of_a_cluster_id_is_written_when_the_cluster_is() {
    let lake = Lake::new(&[]);
    let [a, b] = [own_words(1, 40), own_words(2, 40)];
    let one = documents(&[("c1", a.clone()), ("s", format!("{a} x")), ("v", format!("{a} y"))]);
    lake.day("one", &one, &[]);
    lake.replacing("two", &[document("c1", &*b)], &["one"]);
    check_cluster_ids(&lake.path("two"), [], []);
    let three = documents(&[("w", format!("{a} z")), ("z", format!("{b} z"))]);
    lake.replacing("three", &three, &["one", "two"]);
    let clusters = [("s", "s"), ("v", "s"), ("w", "s"), ("c1", "z"), ("z", "z")];
    check_cluster_ids(&lake.path("three"), clusters, [("c1", "s")]);
}

/// A copy of a document that clusters.contained spares is removed on the day when it comes.
#[test]
fn copies_of_a_spared_document_are_removed_every_day() {
    let lake = Lake::new(&["score.threshold=0.6", "clusters.contained=0.98"]);
    let base = own_words(1, 80);
    let (longest, spared) = (format!("{base} {}", own_words(2, 30)), format!("{base} {}", own_words(3, 6)));
    let copies = |from: usize, to: usize| -> Vec<Document> {
        (from..to).map(|n| document(format!("a{n}"), &*spared)).collect()
    };
    let first = [vec![document("r", &*longest)], copies(0, 5)].concat();
    lake.day("one", &first, &[]);
    lake.apply("one", &[]);
    assert_eq!(lake.kept("one"), BTreeSet::from(["a0", "r"].map(String::from)));
    let evaluated = printed(&mut lake.command(&["evaluate", "one"]));
    assert_eq!(evaluated["recall"]["removals"]["value"], 1.0);
    lake.day("two", &copies(5, 7), &["one"]);
    let (applied, _) = lake.apply("two", &[]);
    assert_eq!((&applied["kept"], &applied["removed"]), (&0.into(), &2.into()));
    lake.merge(&["one", "two"], "all");
    assert_eq!(lake.apply("all", &[]).0["kept"], 2);
}

/// The files of all days, under the paths below the folder that they share, with the rows that they have.
#[test]
fn a_merged_output_is_applied_to_the_sources_of_all_days() {
    let lake = Lake::new(&[]);
    let documents = corpus(7, 90, 25);
    let days: Vec<&[Document]> = documents.chunks(30).collect();
    lake.day("one", days[0], &[]);
    lake.day("two", days[1], &["one"]);
    lake.merge(&["one", "two"], "until-two");
    lake.day("three", days[2], &["until-two"]);
    lake.merge(&["until-two", "three"], "all");
    let gone = removed(&lake.path("all"));
    assert!(gone.len() > 10);
    let (applied, _) = lake.apply("all", &[]);
    assert_eq!((&applied["read"], &applied["removed"]), (&90.into(), &gone.len().into()));
    for (day, documents) in ["one", "two", "three"].into_iter().zip(days) {
        let stays = documents.iter().map(|(id, _)| id.clone()).filter(|id| !gone.contains(id));
        assert_eq!(ids(&lake.path(&format!("clean/all/{day}"))), stays.collect(), "{day}");
    }
    assert_eq!(ids(&lake.path("clean/all/_resemblance/removed")), gone);
    // A second run does nothing; with `--annotate` all documents are there.
    assert_eq!(lake.apply("all", &[]).0["already_finished"], true);
    lake.command(&["apply", "all", "--annotate", "--to", "marked"]).assert().success();
    assert_eq!(ids(&lake.path("marked")).len(), 90);
}

/// Rows of files with one name are no documents with one id.
#[test]
fn row_numbers_of_two_days_are_no_ids_of_the_same_documents() {
    let scene = Scene::new(&[]);
    for (day, name) in [("one", "part.csv"), ("two", "part.csv"), ("three", "other.csv")] {
        std::fs::create_dir_all(scene.path(&format!("in/{day}"))).unwrap();
        let lines: String = (0..5).map(|n| format!("{}\n", own_words(n, 20))).collect();
        std::fs::write(scene.path(&format!("in/{day}/{name}")), format!("text\n{lines}")).unwrap();
    }
    let ended = |day: &str, lines: &str| {
        let source =
            format!("[source]\nformat = \"csv\"\nurl = {:?}\ntext = \"text\"", scene.path("in").join(day));
        let text = format!("{source}\n{lines}\n[output]\nurl = {:?}\n", scene.path(day));
        scene.run_text(&text)
    };
    ended("one", "").success();
    let against = format!("[against]\noutput = {:?}", scene.path("one"));
    for (lines, code, said) in [
        ("", 2, &["`source.id` is left out"][..]),
        (
            "id = \"row_number\"",
            3,
            &["`part.csv:0`", "name the column that identifies a document as source.id"],
        ),
    ] {
        let message = ended("two", &format!("{lines}\n{against}")).refused(code, said);
        assert!(!message.contains("same_id"), "{message}");
    }
    // Files with names of their own have rows of their own.
    ended("three", &format!("id = \"row_number\"\n{against}")).success();
    let kept = manifest(&scene.path("three")).counts;
    assert_eq!((kept.documents, kept.pairs), (5, 5));
}

/// Two runs over one file by `source.where`, where the second one skips ids that the first one has: the file is written once, with the
/// rows of no run too.
#[test]
fn a_file_that_several_runs_read_is_written_once() {
    let lake = Lake::new(&[]);
    let mut documents = corpus(11, 60, 25);
    documents[5].1 = "two words".into();
    lake.write("in/all.parquet", &documents);
    lake.run("in", "one", &["source.where=\"id < 'd00020'\""]);
    let below = "source.where=\"id < 'd00040'\"";
    lake.run("in", "two", &[below, &lake.against(&["one"]), "against.same_id=skip"]);
    lake.merge(&["one", "two"], "both");
    let gone = removed(&lake.path("both"));
    assert!(gone.len() > 10);
    let (dry, _) = lake.apply("both", &["--dry-run"]);
    let (applied, _) = lake.apply("both", &["--rejects", "drop"]);
    for (counts, what) in [(dry, "dry"), (applied, "applied")] {
        assert_eq!((&counts["read"], &counts["removed"]), (&60.into(), &gone.len().into()), "{what}");
        assert_eq!((&counts["rejected"], &counts["kept"]), (&1.into(), &(59 - gone.len()).into()), "{what}");
    }
    let stays = |id: &&String| !gone.contains(*id) && *id != "d00005";
    let stay: BTreeSet<String> = documents.iter().map(|(id, _)| id).filter(stays).cloned().collect();
    assert_eq!(lake.kept("both"), stay);
}

/// Words of three days with lines or runs of words that others have, in pages of few words of their own, and near-copies.
fn days_of_pages(random: &mut Random) -> Vec<Vec<Document>> {
    let line = |random: &mut Random, words: usize| {
        (0..words).map(|_| format!("w{}", random.below(9_000))).collect::<Vec<_>>().join(" ")
    };
    let common: Vec<String> = (0..12).map(|_| line(random, 8)).collect();
    let mut pages: Vec<Vec<String>> = Vec::new();
    for number in 0..72 {
        pages.push(match random.below(4) {
            0 if number > 0 => pages[random.below(number)].clone(),
            _ => {
                let mut page: Vec<String> =
                    (0..1 + random.below(4)).map(|_| common[random.below(12)].clone()).collect();
                let words = random.below(16);
                page.insert(random.below(page.len() + 1), line(random, words));
                page
            }
        });
    }
    let pages = pages.into_iter().enumerate();
    let documents: Vec<Document> =
        pages.map(|(number, page)| (format!("d{number:02}"), page.join("\n"))).collect();
    documents.chunks(24).map(<[Document]>::to_vec).collect()
}

/// The windows of five words of a text, or its lines.
fn parts(text: &str, by_words: bool) -> BTreeSet<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    match by_words {
        true => words.windows(5).map(|window| window.join(" ")).collect(),
        false => text.lines().map(str::to_owned).collect(),
    }
}

/// Every day is made against the results of the days before it. Each line or window of words that is cut out of a document, or goes with
/// a document that becomes too short, is whole in a document that stays, and so is each document that others are removed for.
#[test]
fn nothing_is_lost_over_days_that_cut_and_drop() {
    let (mut cut, mut dropped) = (0, 0);
    for seed in seeds(6) {
        let by_words = seed % 2 == 0;
        let unit: [&str; 2] = match by_words {
            true => ["passages.unit=word", "passages.length=5"],
            false => ["passages.unit=line", "passages.min_words=3"],
        };
        let lake = Lake::new(&[&unit[..], &["shingle.words=spaces", "shingle.normalize=[]"]].concat());
        let days = days_of_pages(&mut Random(seed));
        let texts: BTreeMap<String, String> = days.iter().flatten().cloned().collect();
        let names = ["one", "two", "three"];
        for (at, (name, documents)) in names.into_iter().zip(&days).enumerate() {
            let before: Vec<String> = names[..at].iter().map(|name| format!("clean/{name}")).collect();
            lake.day(name, documents, &before.iter().map(String::as_str).collect::<Vec<_>>());
            lake.apply(name, &["--passages", "drop", "--min-words", "12"]);
        }
        let of_days = |folder: &str, columns: [&str; 3]| lake.kept_rows(names, folder, columns);
        let kept = of_days("", ["id", "text", "text"]);
        let ids: BTreeSet<&String> = kept.iter().map(|[id, ..]| id).collect();
        let whole: BTreeSet<String> = kept.iter().flat_map(|[_, text, _]| parts(text, by_words)).collect();
        let removed = of_days("/_resemblance/removed", ["id", "kept_id", "reason"]);
        let (duplicates, short): (Vec<_>, Vec<_>) =
            removed.into_iter().partition(|[.., reason]| reason == "duplicate");
        assert!(duplicates.iter().all(|[_, kept, _]| ids.contains(kept)), "seed {seed}: {duplicates:?}");
        let short: BTreeSet<String> = short.into_iter().map(|[id, ..]| id).collect();
        dropped += short.len();
        // A word that is cut is in a window that is whole elsewhere, which may begin before the span and end behind it.
        for row in of_days("/_resemblance/removed_spans", ["id", "byte_start", "byte_end"]) {
            let text = &texts[&row[0]];
            let (start, end): (usize, usize) = (row[1].parse().unwrap(), row[2].parse().unwrap());
            let span = &text[start..end];
            let words: Vec<&str> = text.split_whitespace().collect();
            let first = text[..start].split_whitespace().count();
            for at in (first..first + span.split_whitespace().count()).filter(|_| by_words) {
                let mut windows =
                    (at.saturating_sub(4)..=at.min(words.len() - 5)).map(|from| &words[from..from + 5]);
                assert!(windows.any(|window| whole.contains(&window.join(" "))), "seed {seed}: {row:?} {at}");
            }
            assert!(by_words || whole.contains(span.trim_end()), "seed {seed}: {row:?}");
            cut += 1;
        }
        // A document that becomes too short loses less than 12 words that others do not keep.
        for name in names.into_iter().filter(|_| !by_words) {
            let spans = table(&lake.path(name), "spans");
            let ends = numbers(&spans, "byte_start").into_iter().zip(numbers(&spans, "byte_end"));
            for (id, (start, end)) in strings(&spans, "id").into_iter().zip(ends) {
                let span = texts[&id][start as usize..end as usize].trim_end();
                assert!(!short.contains(&id) || whole.contains(span), "seed {seed}: {id} {span}");
            }
        }
    }
    assert!(cut > 100 && dropped > 10, "{cut} {dropped}");
}

/// The first day drops a document and cuts a run of words out of another one, which then hold nothing of what the second day has.
#[test]
fn cut_texts_are_in_no_reference_document() {
    let [a, b, own] = [1, 2, 3].map(|number| own_words(number, 20));
    let lake = Lake::new(&["passages.unit=word", "passages.length=20", "clusters.keep=['id']"]);
    let first = [
        document("all", format!("{} {a}", own_words(5, 60))),
        document("cut", format!("{} {a} {own} {}", own_words(6, 30), own_words(7, 10))),
        document("other", format!("{} {b}", own_words(8, 60))),
        document("short", format!("{a} new words {b}")),
    ];
    let window = |text: &str, from: usize, count: usize| {
        text.split(' ').skip(from).take(count).collect::<Vec<_>>().join(" ")
    };
    // `cut` had one of two windows of 20 words, and `short` the other.
    let half = window(&format!("{a} {own}"), 10, 20);
    let middle = window(&first[3].1, 10, 22);
    let second = [
        document("x-half", format!("{} {half} {}", own_words(9, 40), own_words(10, 40))),
        document("y-copy", first[3].1.clone()),
        document("z-part", format!("{} {middle} {}", own_words(11, 40), own_words(12, 40))),
    ];
    lake.day("one", &first, &[]);
    let drop = ["--passages", "drop"];
    let (applied, _) = lake.apply("one", &drop);
    assert_eq!(applied["passages"]["too_short"], 1);
    assert_eq!(applied["passages"]["documents"], 1);
    lake.day("two", &second, &["clean/one"]);
    lake.apply("two", &["--passages", "cut"]);
    let clean: BTreeMap<String, String> = string_pairs(&parquet(&lake.path("clean/two")), ["id", "text"]);
    assert!(clean["x-half"].contains(&half));
    // It stays, and keeps what it has in common with the next one.
    assert!(clean["y-copy"].contains(&middle));
    assert!(!clean["z-part"].contains(&middle));
    let references = manifest(&lake.path("two")).reference_outputs;
    assert!(references[0].applied.as_ref().unwrap().url.ends_with("clean/one"));

    // Against the plain output, nothing that was removed from it is known.
    lake.day("plain", &second, &["one"]);
    for action in ["cut", "drop"] {
        let what_to_do = "name the result of apply in against.output instead of";
        let mut apply = lake.command(&["apply", "plain", "--to", "no", "--passages", action]);
        apply.assert().refused(2, &[what_to_do, &lake.text("one")]);
    }
    let (_, said) = lake.apply("plain", &["--dry-run"]);
    assert!(said.contains("whose job has [passages]"), "{said}");
    // Another result of the first day is another reference.
    lake.command(&["apply", "one", "--to", "clean/other"]).assert().success();
    let sets = format!("against.output={:?}", [lake.path("clean/other"), lake.path("two")]);
    let refused = run(&lake.job("in/two", "two", &["output.url=three", &sets])).unwrap_err().one_line();
    assert!(refused.contains("name the former in place of the latter"), "{refused}");
}

/// One job file over three days: each day names the output of all days before it, which the first day lacks.
struct OneJob {
    scene: Scene,
}

impl OneJob {
    fn new() -> Self {
        let scene = Scene::new(&[]);
        let text = "source = { format = 'jsonl', url = 'set by each day', id = 'id', text = 'text' }\n\
                    against = { output = 'set by each day', first_day = true }\n\
                    output.url = 'set by each day'";
        std::fs::write(scene.path("daily.toml"), text).unwrap();
        for day in 1..=3 {
            let new = (0..20).map(|n| document(format!("new{day}x{n}"), own_words(100 * day + n, 30)));
            // Copies of the first day.
            let copies = (0..day).map(|n| document(format!("copy{day}x{n}"), own_words(100 + n, 30)));
            scene.write(&format!("in/day={day}/part.jsonl"), &new.chain(copies).collect::<Vec<_>>());
        }
        Self { scene }
    }

    fn run(&self, day: usize, more: &[&str]) -> Assert {
        let sets = [
            format!("source.url=in/day={day}/"),
            format!("output.url=similar/day={day}/"),
            format!("against.output=similar/until={}/", day - 1),
        ];
        let mut run = self.scene.command(&["run", "daily.toml"]);
        for set in sets.iter().map(String::as_str).chain(more.iter().copied()) {
            run.args(["--set", set]);
        }
        run.assert()
    }

    fn merge(&self, outputs: &[&str], to: usize) -> Assert {
        let to = format!("similar/until={to}/");
        self.scene.command(&[&["merge"][..], outputs, &["--to", &to]].concat()).assert()
    }

    fn finish(&self, day: usize) {
        let (before, output) = (format!("similar/until={}/", day - 1), format!("similar/day={day}"));
        self.scene.command(&["apply", &output, "--to", &format!("clean/day={day}")]).assert().success();
        self.merge(&[&before, &output], day).success();
    }
}

#[test]
fn one_job_file_serves_the_first_day_too() {
    let days = OneJob::new();
    let scene = &days.scene;
    let first = "this is the first day, because similar/until=0/ does not exist yet";
    for day in 1..=3 {
        let run = days.run(day, &[]);
        let (printed, said) = (run.shown(&[]), run.warned(&[]));
        let recorded = manifest(&scene.path(&format!("similar/day={day}")));
        assert_eq!(printed.starts_with(first), day == 1, "{printed}");
        // The log names the whole path.
        assert_eq!(said.contains("this is the first day"), day == 1, "{said}");
        assert_eq!(recorded.warnings.iter().any(|warning| warning.contains("first day")), day == 1);
        assert_eq!(recorded.job["first_day"]["outputs"]["urls"][0].is_string(), day == 1, "{}", recorded.job);
        days.finish(day);
        // The same commands again do nothing.
        if day > 1 {
            days.run(day, &[]).shown(&["finished already"]);
        }
    }
    let kept: Vec<usize> =
        (1..=3).map(|day| ids_of_lines(&scene.path(&format!("clean/day={day}"))).len()).collect();
    assert_eq!(kept, [20, 20, 20]);
    // All days together have the clusters of one run.
    let merged = manifest(&scene.path("similar/until=3"));
    assert_eq!((merged.counts.documents, merged.counts.removed_documents), (66, 6));
    assert_eq!(merged.job.get("first_day"), None);
}

fn ids_of_lines(folder: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(folder.join("part.jsonl")).unwrap();
    let id = |line: &str| serde_json::from_str::<Value>(line).unwrap()["id"].as_str().unwrap().to_owned();
    text.lines().map(id).collect()
}

/// The first day has the fingerprint of a job without reference documents, so that a run continues or repeats it.
#[test]
fn the_first_day_is_a_run_without_reference_documents() {
    let days = OneJob::new();
    days.run(1, &[]).success();
    days.run(1, &[]).shown(&["finished already", "this is the first day"]);
    let alone = Scene::new(&[]);
    let text = "source = { format = 'jsonl', id = 'id', text = 'text', url = 'in' }\noutput.url = 'out'";
    std::fs::write(alone.path("alone.toml"), text).unwrap();
    let input = format!("source.url={}", days.scene.text("in/day=1/"));
    let output = format!("output.url={}", days.scene.text("similar/day=1/"));
    let again = ["run", "alone.toml", "--set", &input, "--set", &output];
    alone.command(&again).assert().shown(&["finished already"]);
    // An output that appeared since then is another input.
    days.finish(1);
    days.run(1, &["against.output=similar/until=1/"]).refused(2, &["until=1"]);
    // `check` shows a job without reference documents.
    let mut check = days.scene.command(&["check", "daily.toml", "--no-data", "--set", "output.url=o"]);
    let checked: Value = printed(&mut check);
    assert_eq!(checked["job"]["against"], Value::Null, "{checked}");
    assert!(checked["job"]["first_day"].is_object(), "{checked}");
}

#[test]
fn only_a_missing_output_is_the_first_day() {
    let days = OneJob::new();
    // Without the key, a missing output stays an error.
    days.run(1, &["against.first_day=false"]).refused(3, &["until=0"]);
    // An output without its manifest, and a folder of other files.
    days.run(1, &[]).success();
    days.finish(1);
    let until = days.scene.path("similar/until=1");
    std::fs::rename(until.join("manifest.json"), days.scene.path("kept.json")).unwrap();
    days.run(2, &[]).refused(3, &["holds no finished output"]);
    std::fs::write(until.join("manifest.json"), "{\"resemblance").unwrap();
    days.run(2, &[]).code(3);
    std::fs::rename(days.scene.path("kept.json"), until.join("manifest.json")).unwrap();
    days.scene.write("other/notes.jsonl", &[]);
    days.run(2, &["against.output=other/"]).code(3);
    // One of two outputs is missing.
    days.run(2, &["against.output=['similar/until=1/', 'similar/until=9/']"]).refused(3, &["until=9"]);
    days.run(2, &[]).success();
    // `merge` leaves out only what the first day recorded as missing.
    for outputs in [["similar/until=9/", "similar/day=1/"], ["similar/day=1/", "similar/until=0/"]] {
        days.merge(&outputs, 8).refused(3, &["until="]);
    }
    days.merge(&["similar/until=0/", "similar/day=2/"], 8).code(3);
    // A run whose own output is its reference could not run twice.
    days.run(3, &["against.output=similar/day=3/"]).refused(2, &["overlaps"]);
}

#[test]
fn a_mistyped_or_missing_day_is_not_the_first_day() {
    let days = OneJob::new();
    days.run(1, &[]).success();
    days.run(2, &[]).refused(2, &["day=1", "not the first day"]);
    days.finish(1);
    let mistyped = ["output.url=elsewhere/day=2/", "against.output=similar/untill=1/"];
    days.run(2, &mistyped).refused(2, &["untill=1", "against.output"]);
    // Another job may begin beside the outputs of this one.
    days.run(2, &["name=\"another\"", "against.output=similar/other=1/"]).success();
}
