//! `report`: the numbers of the page, compared with the tables, and a page that needs nothing else.

use crate::support::*;

fn scene(documents: &[Document]) -> Scene {
    let scene = Scene::new(&[]);
    scene.write("in.parquet", documents);
    scene
}

fn run_output(scene: &Scene, output: &str, sets: &[&str]) -> PathBuf {
    scene.run("in.parquet", output, sets);
    scene.path(output)
}

fn report(output: &Path, more: &[&str]) -> (Value, String) {
    let path = paths();
    let page = path("report.html");
    let printed = program!["report", output, "--json", "--to", &page].args(more).assert().json();
    let html = std::fs::read_to_string(page).unwrap();
    assert!(html.len() < 3 << 20, "{} bytes", html.len());
    (printed, html)
}

fn needs_nothing_else(html: &str) {
    let rest = html.replace("http://www.w3.org/2000/svg", "");
    for outside in ["<script", "<link", "<img", "<iframe", "src=", "@import", "url(", "http-equiv=\"refresh"]
    {
        assert!(!rest.contains(outside), "{outside}");
    }
    assert!(html.contains("default-src 'none'"));
}

fn count(value: &Value) -> usize {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}")) as usize
}

fn removals(output: &Path) -> BTreeMap<&'static str, usize> {
    let clusters = table(output, "clusters");
    let (ids, of) = (strings(&clusters, "id"), strings(&clusters, "cluster_id"));
    let represents = bools(&clusters, "representative");
    let kept: BTreeMap<&String, &String> =
        (0..ids.len()).filter(|&row| represents[row]).map(|row| (&of[row], &ids[row])).collect();
    let jaccard = optional(&clusters, "jaccard_to_representative");
    let pairs = table(output, "pairs");
    let (id_a, id_b) = (strings(&pairs, "id_a"), strings(&pairs, "id_b"));
    let (in_b, in_a) = (floats(&pairs, "containment_a"), floats(&pairs, "containment_b"));
    let mut reasons = BTreeMap::new();
    for row in (0..ids.len()).filter(|&row| !represents[row]) {
        let (id, kept) = (&ids[row], kept[&of[row]]);
        let pair = (0..id_a.len()).find(|&at| (&id_a[at], &id_b[at]) == (id.min(kept), id.max(kept)));
        let contained = pair.map(|at| if &id_a[at] == id { in_b[at] } else { in_a[at] });
        let reason = match (jaccard[row], contained) {
            (None, _) => "chain",
            (Some(1.0), _) => "same_shingles",
            (Some(_), Some(share)) if share >= 0.98 => "contained",
            (Some(_), _) => "lossy",
        };
        *reasons.entry(reason).or_default() += 1;
    }
    reasons
}

#[test]
fn numbers_equal_the_tables() {
    let scene = scene(&corpus(71, 400, 30));
    let output = run_output(&scene, "out", &[]);
    let (report, html) = report(&output, &[]);
    needs_nothing_else(&html);
    let jaccards: Vec<f64> = pairs(&output).into_values().collect();
    let clusters = table(&output, "clusters");
    let sizes: BTreeMap<String, usize> =
        strings(&clusters, "cluster_id").into_iter().fold(BTreeMap::new(), |mut sizes, id| {
            *sizes.entry(id).or_default() += 1;
            sizes
        });
    assert!(jaccards.len() > 100 && sizes.len() > 20, "{} {}", jaccards.len(), sizes.len());
    let numbers = &report["numbers"];
    assert_eq!(count(&numbers["documents"]), 400);
    assert_eq!(count(&numbers["pairs"]), jaccards.len());
    assert_eq!(count(&numbers["clusters"]), sizes.len());
    let expected = removals(&output);
    assert_eq!(count(&numbers["removed"]), expected.values().sum::<usize>());
    let by_reason = report["removed"]["by_reason"].as_array().unwrap().iter();
    let by_reason: BTreeMap<&str, usize> =
        by_reason.map(|by| (by["reason"].as_str().unwrap(), count(&by["documents"]))).collect();
    assert_eq!(by_reason, expected);
    assert!(by_reason.len() >= 3, "{by_reason:?}");
    let mut all = 0;
    for bin in report["similarities"].as_array().unwrap() {
        let (from, to) = (bin["from"].as_f64().unwrap(), bin["to"].as_f64().unwrap());
        let in_bin = |jaccard: &&f64| **jaccard >= from && (**jaccard < to || from == to);
        assert_eq!(count(&bin["pairs"]), jaccards.iter().filter(in_bin).count(), "{bin}");
        all += count(&bin["pairs"]);
    }
    assert_eq!(all, jaccards.len());
    let intervals = report["cluster_sizes"].as_array().unwrap();
    assert_eq!(count(&intervals.last().unwrap()["to"]), *sizes.values().max().unwrap());
    assert!(intervals.windows(2).all(|two| count(&two[0]["to"]) + 1 == count(&two[1]["from"])));
    for of in intervals {
        let within = count(&of["from"])..=count(&of["to"]);
        let found = count(&of["clusters"]);
        assert_eq!(found, sizes.values().filter(|size| within.contains(size)).count(), "{of}");
    }
    let shown = report["clusters"].as_array().unwrap();
    let found = shown.iter().map(|of| of["why"].as_str().unwrap()).collect::<Vec<_>>();
    assert_eq!(found, ["largest", "loosest", "random"]);
    assert_eq!(count(&shown[0]["size"]), *sizes.values().max().unwrap());
    let different: BTreeSet<&str> = shown.iter().map(|of| of["cluster_id"].as_str().unwrap()).collect();
    assert_eq!(different.len(), 3);
    assert!(html.contains("<mark class=") && html.contains("What may be missing"));
}

#[test]
fn the_head_of_a_page_says_of_which_dataset_and_when() {
    let scene = scene(&corpus(76, 60, 30));
    let output = run_output(&scene, "out", &["clusters.method=representative"]);
    let (report, html) = report(&output, &["--evaluate", "10"]);
    let finished = manifest(&output).finished;
    let written = std::fs::metadata(output.join("manifest.json")).unwrap().modified().unwrap();
    let since = written.duration_since(humantime::parse_rfc3339(&finished).unwrap()).unwrap();
    assert!(since.as_secs() < 3600, "{finished}");
    assert!(html.contains("<title>Near-duplicates in in.parquet</title>"));
    assert!(html.contains(&format!("finished on {} (UTC)", &finished[..10])));
    let explained = html.find("<p>Documents are compared by their 3-word shingles. A shingle is");
    assert!(explained.is_some() && explained < html.find("<dl class=\"numbers\">"), "{}", report["shingle"]);
    assert!(!html.contains("<h2>Alarms</h2>"));
    assert!(html.contains("with 95 % certainty, between"), "{}", report["recall"]["measured"]);
    let mut settings = report["settings"].as_array().unwrap().iter();
    let clusters = settings.find(|of| of["name"] == "clusters").unwrap();
    assert!(clusters["value"].as_str().unwrap().starts_with("representative: "), "{clusters}");
    let (_, html) = self::report(&run_output(&scene, "large", &["alarms.largest_cluster=1"]), &[]);
    assert!(html.contains("<h2>Alarms</h2>") && html.contains("A bound is exceeded"));
}

#[test]
fn an_earlier_output_is_compared() {
    let scene = scene(&corpus(72, 200, 30));
    let (before, now) =
        (run_output(&scene, "before", &["score.threshold=0.7"]), run_output(&scene, "now", &[]));
    let (report, html) = report(&now, &["--before", before.to_str().unwrap()]);
    let of = |what: &str| {
        let all = report["before"]["compared"].as_array().unwrap();
        let row = all.iter().find(|row| row["what"] == what).unwrap();
        (count(&row["new"]), count(&row["gone"]))
    };
    let (then, pairs_now) = (pairs(&before), pairs(&now));
    let new = pairs_now.keys().filter(|pair| !then.contains_key(*pair)).count();
    let gone = then.keys().filter(|pair| !pairs_now.contains_key(*pair)).count();
    assert!(new > 0);
    assert_eq!(of("pairs"), (new, gone));
    assert_eq!(of("documents"), (0, 0));
    let (removed_then, removed_now) = (removed(&before), removed(&now));
    let only = |a: &BTreeSet<String>, b: &BTreeSet<String>| a.difference(b).count();
    assert_eq!(of("removals"), (only(&removed_now, &removed_then), only(&removed_then, &removed_now)));
    let settings = report["before"]["settings"].as_array().unwrap();
    assert!(settings.iter().any(|of| of["name"] == "threshold" && of["before"] == "0.7"), "{settings:?}");
    needs_nothing_else(&html);
}

#[test]
fn hostile_ids_and_texts_are_text() {
    let text = (0..30).map(|word| format!("w{word}")).collect::<Vec<_>>().join(" ");
    let hostile = "<script>alert('x')</script>\u{202e}\" onload=\"x\u{0}";
    let documents: Vec<Document> = vec![
        (format!("a{hostile}"), format!("{hostile} {text}")),
        (format!("b{hostile}"), format!("{text} {hostile} <img src=http://x.test/>")),
        ("long".into(), format!("{text} {}", "y".repeat(1 << 20))),
        ("i".repeat(5_000), text),
    ];
    let scene = scene(&documents);
    let output = run_output(&scene, "out", &[]);
    let (report, html) = report(&output, &[]);
    assert_eq!(count(&report["numbers"]["documents"]), 4);
    assert!(count(&report["numbers"]["pairs"]) >= 3, "{}", report["numbers"]);
    assert!(report["no_texts"].is_null(), "{}", report["no_texts"]);
    for raw in ["<script", "<img", "\u{202e}", "\u{0}", "\" onload=\""] {
        assert!(!html.contains(raw), "{raw:?}");
    }
    assert!(html.contains("&#60;script&#62;") || html.contains("&lt;script&gt;"));
    assert!(html.len() < 1 << 18, "long texts are cut: {} bytes", html.len());
}

#[test]
fn passages_are_listed_by_their_documents() {
    let hostile = "<b>all</b> \u{202e}rights are reserved & kept";
    // Line n is in n + 2 documents, and once more in the first.
    let line = |n: usize| format!("line number {n} of a footer");
    let documents: Vec<Document> = (0..20)
        .map(|at| {
            let lines = (0..14).filter(|n| at < n + 2).map(line);
            let more = (at == 0).then(|| line(3)).into_iter().chain((at < 18).then(|| hostile.to_owned()));
            let all: Vec<String> = std::iter::once(own(at)).chain(lines).chain(more).collect();
            (format!("d{at}"), all.join("\n"))
        })
        .collect();
    let scene = scene(&documents);
    let sets = ["passages.unit=\"line\"", "passages.min_words=1", "score.threshold=0.95"];
    let output = run_output(&scene, "out", &sets);
    let (report, html) = report(&output, &[]);
    needs_nothing_else(&html);
    let row = |of: &Value| {
        let [documents, occurrences, words] =
            ["documents", "occurrences", "words"].map(|name| of[name].as_u64().unwrap());
        (of["sample"].as_str().unwrap().trim().to_owned(), documents, occurrences, words)
    };
    let listed = report["passages"]["most_frequent"].as_array().unwrap();
    let found: Vec<(String, u64, u64, u64)> = listed.iter().map(row).collect();
    let lines = (5..14).rev().map(|n| (line(n), n as u64 + 2, n as u64 + 2, 6));
    assert_eq!(found[1..], lines.collect::<Vec<_>>());
    assert_eq!((&found[0].0, found[0].1, found[0].2), (&hostile.to_owned(), 18, 18));
    assert_eq!(report["passages"]["passages"], 15);
    assert!(html.contains("What repeats inside the documents"));
    assert!(html.contains("line number 13 of a footer"));
    assert!(!html.contains("line number 4 of a footer</bdi>"), "only ten are listed");
    assert!(!html.contains("<b>all") && !html.contains('\u{202e}'));
    let output = run_output(&scene, "plain", &[]);
    let (report, html) = self::report(&output, &[]);
    assert!(report["passages"].is_null() && !html.contains("What repeats inside the documents"));
}

fn own(at: usize) -> String {
    (0..12).map(|word| format!("own{at}x{word}")).collect::<Vec<_>>().join(" ")
}

#[test]
fn shingles_of_templates_are_listed_by_their_shares() {
    // The footer has four shingles of five words; the last word is missing in the first two documents.
    let footer = |at: usize| match at {
        0 | 1 => "all rights reserved by the bakers of",
        _ => "all rights reserved by the bakers of bern",
    };
    let documents: Vec<Document> =
        (0..20).map(|at| (format!("d{at}"), format!("{} {}", own(at), footer(at)))).collect();
    let scene = scene(&documents);
    let sets = ["shingle.unit=\"word\"", "shingle.size=5", "shingle.max_frequency=0.5"];
    let (report, html) = report(&run_output(&scene, "out", &sets), &[]);
    needs_nothing_else(&html);
    let row = |of: &Value| json!([of["sample"], of["documents"], of["share"]]);
    let listed = report["frequent_shingles"]["most_frequent"].as_array().unwrap();
    let expected = json!([
        ["all rights reserved by the", 20, 1.0],
        ["reserved by the bakers of", 20, 1.0],
        ["rights reserved by the bakers", 20, 1.0],
        ["by the bakers of bern", 18, 0.9],
    ]);
    assert_eq!(Value::from_iter(listed.iter().map(row)), expected);
    assert_eq!(report["frequent_shingles"]["shingles"], 4);
    assert!(html.contains("Text of templates that was left out"));
    assert!(html.contains("rights reserved by the bakers"));
    let (report, html) = self::report(&run_output(&scene, "plain", &[]), &[]);
    assert!(report["frequent_shingles"].is_null() && !html.contains("Text of templates that was left out"));
}

#[test]
fn the_page_says_how_this_job_may_miss_pairs() {
    let scene = scene(&corpus(5, 400, 30));
    let bands = ["minhash.permutations=64", "lsh.bands=16", "lsh.rows=4"];
    for (name, more, says, can_be_measured) in [
        ("plain", &[][..], "Pairs that never became candidates are missed. The job", true),
        (
            "filter",
            &["score.prefilter=true"],
            "so are candidates whose estimate is under the threshold",
            true,
        ),
        ("estimate", &["score.by=signature"], "The estimate of the signatures decides", true),
        ("prefix", &["candidates.method=prefix"], "All similar documents are candidates. The job", true),
        ("bare", &["output.keep=none"], "cannot be measured. It keeps nothing", false),
        ("none", &["candidates.method=none", "passages.unit=line"], "No documents were compared.", false),
    ] {
        let sets = [&bands[..], more].concat();
        let output = run_output(&scene, name, &sets);
        let (report, html) = report(&output, &[]);
        assert!(html.contains(says), "{name}: {}", report["recall"]);
        assert_eq!(html.contains("report --evaluate 1000"), can_be_measured, "{name}");
        let evaluated = resemblance().arg("evaluate").arg(&output).output().unwrap().status.success();
        assert_eq!(evaluated, can_be_measured, "{name}");
        let expected = job(&scene.path("in.parquet"), &output, &sets).expected_recall();
        let at_threshold = report["recall"]["at_threshold"].as_f64().unwrap();
        assert!((at_threshold - expected).abs() < 1e-12, "{name}: {at_threshold}");
        assert_eq!(html.contains("is expected to find"), name != "none", "{name}");
        if name == "estimate" {
            let pairs = floats(&table(&output, "pairs"), "jaccard");
            let under = pairs.iter().filter(|jaccard| **jaccard < 0.5).count();
            let all = match pairs.len() {
                all @ ..1000 => all.to_string(),
                all => format!("{},{:03}", all / 1000, all % 1000),
            };
            let says = format!("of {under} of {all} pairs is under");
            assert!(under > 0 && html.contains(&says), "{says}: {}", report["recall"]);
        }
    }
}

#[test]
fn an_output_without_pairs_has_a_page() {
    let words = |from: usize| (from..from + 20).map(|word| format!("w{word}")).collect::<Vec<_>>().join(" ");
    let scene = scene(&[("a".into(), words(0)), ("b".into(), words(100)), ("c".into(), "short".into())]);
    let output = run_output(&scene, "out", &[]);
    let (report, html) = report(&output, &[]);
    assert_eq!(report["sentence"], "No pair of similar documents was found among 2 documents.");
    assert_eq!(report["rejected"][0]["reason"], "too_short");
    assert_eq!(report["rejected"][0]["examples"][0]["id"], "c");
    assert!(html.contains("There are no pairs."));
}

/// Wide tables scroll in a narrow window, and lines are broken on paper.
#[test]
fn a_page_is_no_wider_than_a_window_or_paper() {
    let mut documents = corpus(77, 60, 30);
    let text = documents[0].1.clone();
    documents.extend([("i".repeat(300), text), ("short".into(), "word".into())]);
    let scene = scene(&documents);
    let output = run_output(&scene, "out", &["alarms.largest_cluster=1"]);
    let page = scene.path("page.html");
    resemblance().arg("report").arg(&output).arg("--to").arg(&page).assert().success();
    let Some(mut browser) = Browser::open(&page) else { return };
    for (media, width) in [("screen", 420), ("screen", 1_400), ("print", 720)] {
        browser.call("Emulation.setEmulatedMedia", json!({"media": media}));
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        browser.call("Emulation.setDeviceMetricsOverride", size);
        let widest = browser.value("document.documentElement.scrollWidth").as_i64().unwrap();
        assert!((1..=width).contains(&widest), "{media} of {width} px: {widest}");
    }
}

#[test]
fn a_page_without_texts_gives_the_reason() {
    let scene = scene(&corpus(73, 60, 30));
    let output = run_output(&scene, "out", &[]);
    std::fs::remove_file(scene.path("in.parquet")).unwrap();
    let (report, html) = report(&output, &[]);
    let why = report["no_texts"].as_str().unwrap();
    assert!(why.contains("--source") && html.contains("There are no texts"), "{why}");
    assert_eq!(report["clusters"][0]["texts"].as_array().unwrap().len(), 0);
}

#[test]
fn wrong_places_are_refused() {
    let scene = scene(&corpus(74, 40, 30));
    run_output(&scene, "out", &[]);
    let refused = |arguments: &[&str], code: i32, part: &str| {
        scene.command(&["report"]).args(arguments).assert().refused(code, &[part]);
    };
    let quoting =
        "Pages of reports have <meta name=\"generator\" content=\"resemblance report\"> in their head";
    for text in ["my page", quoting] {
        std::fs::write(scene.path("mine.html"), text).unwrap();
        refused(&["out", "--to", "mine.html"], 2, "mine.html exists and is not a page of");
        assert_eq!(std::fs::read_to_string(scene.path("mine.html")).unwrap(), text);
    }
    std::os::unix::fs::symlink("page.html", scene.path("link.html")).unwrap();
    refused(&["out", "--to", "link.html"], 2, "is a link");
    assert!(!scene.path("page.html").exists());
    std::fs::create_dir(scene.path("empty")).unwrap();
    refused(&["empty"], 3, "empty");
    scene.apply("out", "clean", &[]);
    refused(&["clean"], 2, "result of apply");
    for _ in 0..2 {
        scene.command(&["report", "out", "--to", "page.html"]).assert().success();
    }
}
