//! `--passages drop` where documents that represent others become too short, against plain code over the tables of the run.

use super::passages::Texts;
use super::*;

/// A removed document, the one that was kept instead, and the reason.
pub type Gone = (String, String, String);

const FEWEST: usize = 14;

/// Pages of common lines with few words of their own, and variants of them with more, which the run removes in favour of longer ones.
fn pages(random: &mut Random) -> Vec<Document> {
    let line = |random: &mut Random, words: usize| {
        (0..words).map(|_| format!("w{}", random.below(5_000))).collect::<Vec<_>>().join(" ")
    };
    let common: Vec<String> = (0..6).map(|_| line(random, 9)).collect();
    let mut pages: Vec<Vec<String>> = Vec::new();
    for number in 0..60 {
        let mut page = match random.below(3) {
            0 if number > 0 => pages[random.below(number)].clone(),
            _ => {
                let mut page: Vec<String> =
                    (0..1 + random.below(4)).map(|_| common[random.below(6)].clone()).collect();
                let words = random.below(10);
                page.insert(random.below(page.len()), line(random, words));
                page
            }
        };
        if random.below(2) == 0 {
            let words = [2, 5, 12][random.below(3)];
            page.push(line(random, words));
        }
        pages.push(page);
    }
    // A page in one line has the shingles of its lines, and none of them as a passage.
    let texts = pages.into_iter().map(|page| page.join(["\n", "\n", " "][random.below(3)]));
    texts.enumerate().map(|(number, text)| (format!("d{number:02}"), text)).collect()
}

/// The documents that plain code keeps and removes, and the number of documents that stay instead of others.
pub fn expected(
    documents: &[Document],
    output: &Path,
    (contained, chains): (Option<f64>, bool),
    fewest: usize,
) -> (Texts, BTreeSet<Gone>, usize) {
    let texts: BTreeMap<&String, &String> = documents.iter().map(|(id, text)| (id, text)).collect();
    let clusters = table(output, "clusters");
    let members: Vec<(String, String)> =
        strings(&clusters, "id").into_iter().zip(strings(&clusters, "cluster_id")).collect();
    let kept = members.iter().zip(bools(&clusters, "representative")).filter(|(_, represents)| *represents);
    let kept: BTreeMap<&String, &String> = kept.map(|((id, cluster), _)| (cluster, id)).collect();
    let of_spared = |name: &str, column: &str| match contained {
        Some(_) => strings(&table(output, name), column),
        None => Vec::new(),
    };
    let spared = of_spared("spared", "id");
    let copies = of_spared("spared_copies", "id").into_iter().zip(of_spared("spared_copies", "kept_id"));
    let copies: BTreeMap<String, String> = copies.collect();
    let gone: BTreeMap<&String, &String> = members
        .iter()
        .map(|(id, cluster)| (id, copies.get(id).unwrap_or(kept[cluster])))
        .filter(|(id, kept)| id != kept && !spared.contains(*id))
        .collect();
    let spans = table(output, "spans");
    let places = numbers(&spans, "byte_start").into_iter().zip(numbers(&spans, "byte_end"));
    let kept_ids = strings(&spans, "kept_id").into_iter().zip(bools(&spans, "kept"));
    let spans: Vec<_> = strings(&spans, "id").into_iter().zip(places.zip(kept_ids)).collect();
    let rest = |id: &String, is_gone: &dyn Fn(&String) -> bool| {
        let of_id = spans.iter().filter(|(of, (_, (kept_id, kept)))| of == id && !kept && !is_gone(kept_id));
        let cut: Vec<_> = of_id.map(|(_, ((start, end), _))| *start as usize..*end as usize).collect();
        let bytes = texts[id].bytes().enumerate();
        let bytes = bytes.filter(|(at, _)| !cut.iter().any(|span| span.contains(at))).map(|(_, byte)| byte);
        (String::from_utf8(bytes.collect()).unwrap(), !cut.is_empty())
    };
    let keeps = |id: &String| spans.iter().any(|(of, (_, (_, kept)))| of == id && *kept);
    let is_short = |id: &String| {
        let (text, is_cut) = rest(id, &|kept| gone.contains_key(kept));
        is_cut && !keeps(id) && text.split_whitespace().count() < fewest
    };
    let sizes = table(output, "documents");
    let sizes: BTreeMap<String, u64> =
        strings(&sizes, "id").into_iter().zip(numbers(&sizes, "shingle_count")).collect();
    let pairs = table(output, "pairs");
    let ends = strings(&pairs, "id_a").into_iter().zip(strings(&pairs, "id_b"));
    let shares = floats(&pairs, "containment_a").into_iter().zip(floats(&pairs, "containment_b"));
    let mut containments = BTreeMap::new();
    for ((a, b), (of_a, of_b)) in ends.zip(shares) {
        containments.insert((a.clone(), b.clone()), of_a);
        containments.insert((b, a), of_b);
    }
    let (mut removed, mut heirs) = (BTreeSet::new(), 0);
    let mut remove = |id: &String, kept: &str, reason: &str| {
        removed.insert((id.clone(), kept.to_owned(), reason.to_owned()));
    };
    let dropped: BTreeSet<&String> =
        sizes.keys().filter(|id| !gone.contains_key(id) && is_short(id)).collect();
    dropped.iter().for_each(|id| remove(id, "<null>", "too_short"));
    for (id, kept) in gone.iter().filter(|(_, kept)| !dropped.contains(*kept)) {
        remove(id, kept, "duplicate");
    }
    for representative in dropped {
        let of = gone.iter().filter(|(_, kept)| **kept == representative).map(|(id, _)| *id);
        let (short, mut rest): (Vec<_>, Vec<_>) = of.partition(|id| is_short(id));
        short.into_iter().for_each(|id| remove(id, "<null>", "too_short"));
        rest.sort_by_key(|id| (std::cmp::Reverse(sizes[*id]), *id));
        let Some((heir, others)) = rest.split_first() else { continue };
        heirs += 1;
        for other in others {
            let share = containments.get(&((*other).clone(), (*heir).clone()));
            if share.map_or(chains, |share| *share >= contained.unwrap_or_default()) {
                remove(other, heir, "duplicate");
            }
        }
    }
    let is_removed = |id: &String| removed.iter().any(|(gone, ..)| gone == id);
    let stay = documents.iter().filter(|(id, _)| !is_removed(id));
    (stay.map(|(id, _)| (id.clone(), rest(id, &is_removed).0)).collect(), removed, heirs)
}

#[test]
fn the_next_of_a_cluster_stays_where_its_representative_becomes_too_short() {
    let (mut heirs, mut unpaired, mut contained_heirs) = (0, 0, 0);
    for seed in seeds(9) {
        let (more, contained, chains) = [
            (CONNECTED.to_owned(), None, true),
            (String::new(), None, false),
            (format!("{CONNECTED}contained = 0.6\n"), Some(0.6), false),
        ][seed as usize % 3]
            .clone();
        let applied = Applied::new();
        let documents = pages(&mut Random(seed));
        write_parquet(&applied.path("in/pages.parquet"), &documents, 16);
        let text = format!(
            "[source]\nformat = \"parquet\"\nurl = {:?}\nid = \"id\"\ntext = \"text\"\n[shingle]\nsize = 2\nwords = \"spaces\"\n\
             normalize = []\n[score]\nthreshold = 0.3\n{more}[passages]\nunit = \"line\"\nmin_words = 3\n[output]\nurl = {:?}\n",
            applied.path("in"),
            applied.path("out")
        );
        applied.run_job(&text);
        let fewest = FEWEST.to_string();
        let options = ["--passages", "drop", "--min-words", &fewest, "--columns", "cluster_size"];
        let printed = applied.apply("to", &options);

        let (texts, removed, of_seed) =
            expected(&documents, &applied.path("out"), (contained, chains), FEWEST);
        let kept = parquet(&applied.path("to/pages.parquet"));
        let found: Texts = strings(&kept, "id").into_iter().zip(strings(&kept, "text")).collect();
        assert_eq!(found, texts, "seed {seed}");
        let gone = cells(&applied.path("to/_resemblance/removed"), &["id", "kept_id", "reason"]).into_iter();
        let gone: BTreeSet<Gone> = gone.map(|row| <[String; 3]>::try_from(row).unwrap().into()).collect();
        assert_eq!(gone, removed, "seed {seed}");
        // A document counts itself and every document that names it.
        let sizes: BTreeMap<String, u64> =
            strings(&kept, "id").into_iter().zip(numbers(&kept, "cluster_size")).collect();
        let size = |id: &String| 1 + removed.iter().filter(|(_, kept, _)| kept == id).count() as u64;
        assert_eq!(sizes, texts.keys().map(|id| (id.clone(), size(id))).collect(), "seed {seed}");
        let dry = applied.counted(&options);
        for count in ["kept", "removed", "passages", "sizes"] {
            assert_eq!(dry[count], printed[count], "seed {seed}: {count}");
        }
        heirs += of_seed;
        unpaired += usize::from(!chains && of_seed > 0);
        contained_heirs += contained.map_or(0, |_| of_seed);
    }
    assert!(heirs > 6 && unpaired > 1 && contained_heirs > 0, "{heirs} {unpaired} {contained_heirs}");
}

/// `4` becomes too short, and `5` and `6` are like it and not like each other. The run keeps a line of `6` in `3`, which goes.
#[test]
fn a_document_that_stays_beside_the_next_one_keeps_the_passages_of_documents_that_go() {
    let line = |of: &str, words: usize| (0..words).map(|n| format!("{of}{n}")).collect::<Vec<_>>().join(" ");
    let (a, b, c) = (line("a", 12), line("b", 12), line("c", 60));
    let passage = line("p", 6);
    let texts = [
        ("1", format!("{a}\n{b}\n{}", line("w", 400))),
        ("2", format!("{c} more")),
        ("3", format!("{c}\n{passage}")),
        ("4", format!("{a}\n{b}")),
        ("5", format!("{a} {}", line("d", 2))),
        ("6", format!("{b} {}\n{passage}", line("e", 2))),
    ];
    let applied = Applied::new();
    let documents: Vec<Document> = texts.iter().map(|(id, text)| (id.to_string(), text.clone())).collect();
    write_parquet(&applied.path("in/pages.parquet"), &documents, 16);
    let text = format!(
        "[source]\nformat = \"parquet\"\nurl = {:?}\nid = \"id\"\ntext = \"text\"\n[shingle]\nsize = 3\n[score]\nthreshold = 0.3\n\
         [candidates]\nmethod = \"all\"\n[clusters]\nmethod = \"representative\"\nkeep = [\"id()\"]\n\
         [passages]\nunit = \"line\"\nmin_words = 3\n[output]\nurl = {:?}\n",
        applied.path("in"),
        applied.path("out")
    );
    applied.run_job(&text);
    applied.apply("to", &["--passages", "drop", "--min-words", "10"]);
    let kept = parquet(&applied.path("to/pages.parquet"));
    assert_eq!(strings(&kept, "id"), ["1", "2", "5", "6"]);
    assert_eq!(strings(&kept, "text")[3], texts[5].1);
}
