//! New documents are compared with those of earlier outputs without the shingles that did not count there.

use super::*;

/// Days of documents, each with its output.
struct Days {
    scene: Scene,
    headed: Headed,
}

impl std::ops::Deref for Days {
    type Target = Scene;

    fn deref(&self) -> &Scene {
        &self.scene
    }
}

const DAYS: [(&str, std::ops::Range<usize>); 3] = [("one", 0..150), ("two", 150..230), ("three", 230..300)];

impl Days {
    fn new(seed: u64, sets: &[&str]) -> Self {
        let sets = [sets, &BANDS, &["output.expand=all", AS_ONE_RUN]].concat();
        let days = Self { scene: Scene::new(&sets), headed: Headed::new(seed, 300) };
        for (name, range) in DAYS {
            days.of(range).write(&days.path(&format!("{name}.parquet")));
        }
        days
    }

    fn of(&self, range: std::ops::Range<usize>) -> Headed {
        let Headed { documents, groups } = &self.headed;
        Headed { documents: documents[range.clone()].to_vec(), groups: groups[range].to_vec() }
    }

    /// The job of a day against `before`.
    fn job(&self, day: &str, output: &str, before: &[&str], more: &[&str]) -> Job {
        let against = self.against(before);
        let more = if before.is_empty() { more.to_vec() } else { [more, &[&against]].concat() };
        self.scene.job(&format!("{day}.parquet"), output, &more)
    }
}

/// Pairs by both of their ids, the smaller first.
fn unordered(pairs: Pairs) -> Pairs {
    pairs.into_iter().map(|((a, b), of)| (if a < b { (a, b) } else { (b, a) }, of)).collect()
}

#[test]
fn days_are_compared_by_the_shingles_that_count_on_the_first() {
    for (seed, by_group, share, more) in [
        (21, false, 0.06, &[][..]),
        (22, false, 0.06, &["candidates.method=prefix", "output.keep=shingles"]),
        (23, true, 0.2, &["source.group=site"]),
    ] {
        let share_set = format!("shingle.max_frequency={share}");
        let days = Days::new(seed, &[&[share_set.as_str()], more].concat());
        let frequent = days.of(DAYS[0].1.clone()).frequent(by_group, share);
        // Later days have other frequent shingles than the first.
        assert_ne!(
            days.of(DAYS[1].1.clone()).frequent(by_group, share).keys().collect::<Vec<_>>(),
            frequent.keys().collect::<Vec<_>>()
        );
        let mut before: Vec<&str> = Vec::new();
        for (name, range) in DAYS {
            run(&days.job(name, name, &before, &[])).unwrap();
            before.push(name);
            let list = |name: &str| {
                let table = table(&days.path(name), "frequent_shingles");
                let counts = numbers(&table, "documents").into_iter().zip(floats(&table, "share"));
                strings(&table, "sample").into_iter().zip(counts).collect::<BTreeMap<_, _>>()
            };
            assert_eq!(list(name), frequent, "{name}");
            let all = days.of(0..range.end);
            let sets = all.sets(&frequent);
            let mut pairs = unordered(pairs_of(&sets, "jaccard"));
            let is_new = |id: &String| id.as_str() >= all.documents[range.start].0.as_str();
            pairs.retain(|(a, b), _| is_new(a) || is_new(b));
            assert_eq!(unordered(found(&days.path(name))), pairs, "{name}");
            assert!(pairs.len() > 10, "{name}: {}", pairs.len());
            let rejects = table(&days.path(name), "rejects");
            let own: BTreeSet<&str> = sets.iter().map(|(id, _)| *id).collect();
            let left = all.documents[range.clone()].iter().filter(|(id, _)| !own.contains(id.as_str()));
            let rejected: BTreeSet<String> = strings(&rejects, "id").into_iter().collect();
            assert_eq!(rejected, left.map(|(id, _)| id.clone()).collect(), "{name}");
        }

        // What is merged is the output of one run under that list, and the next day may be run against it.
        days.merge(&["one", "two"], "until two").unwrap();
        days.merge(&["one", "two", "three"], "merged").unwrap();
        let sets = days.headed.sets(&frequent);
        assert_eq!(unordered(found(&days.path("merged"))), unordered(pairs_of(&sets, "jaccard")));
        let listed = |name: &str| strings(&table(&days.path(name), "frequent_shingles"), "sample");
        assert_eq!(
            listed("merged").into_iter().collect::<BTreeSet<_>>(),
            listed("one").into_iter().collect::<BTreeSet<_>>()
        );
        assert!(!frequent.is_empty() && listed("merged").len() == frequent.len());
        run(&days.job("three", "three again", &["until two"], &[])).unwrap();
        for name in ["pairs", "documents", "rejects"] {
            let [again, first] = ["three again", "three"].map(|output| table(&days.path(output), name));
            assert_eq!(again, first, "{name}");
        }

        // The nearest to each of some documents are its pairs.
        for (id, _) in sets.iter().step_by(40) {
            let asked = resemblance()
                .arg("neighbors")
                .arg(days.path("merged"))
                .args(["--id", id, "--json", "--top", "500"])
                .output()
                .unwrap();
            let shown = String::from_utf8(asked.stdout).unwrap();
            assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
            for (a, b) in pairs_of(&sets, "jaccard").into_keys().filter(|(a, b)| a == id || b == id) {
                let other = if a == *id { b } else { a };
                assert!(shown.contains(&format!("\"{other}\"")), "{id} {other}: {shown}");
            }
        }
    }
}

#[test]
fn a_day_that_was_stopped_has_the_same_rows() {
    let days = Days::new(24, &["shingle.max_frequency=0.06"]);
    run(&days.job("one", "one", &[], &[])).unwrap();
    run(&days.job("two", "whole", &["one"], &[])).unwrap();
    let whole = tables(&days.path("whole"));
    let mut stops = 0;
    for at in (0..).step_by(2) {
        let name = format!("stopped{at}");
        if !stopping::run_until(&days.job("two", &name, &["one"], &[]), OnExisting::Fail, at).1 {
            break;
        }
        stops += 1;
        run(&days.job("two", &name, &["one"], &[])).unwrap();
        assert_eq!(tables(&days.path(&name)), whole, "stopped at plan {at}");
    }
    assert!(stops > 5, "{stops}");
}

#[test]
fn outputs_with_other_lists_are_refused() {
    let days = Days::new(25, &["shingle.max_frequency=0.06"]);
    run(&days.job("one", "one", &[], &[])).unwrap();
    run(&days.job("two", "two", &["one"], &[])).unwrap();
    // These days did not know the first.
    run(&days.job("two", "alone", &[], &[])).unwrap();
    let error = run(&days.job("three", "three", &["one", "alone"], &[])).unwrap_err().to_string();
    assert!(error.contains("different tables frequent_shingles") && error.contains("alone"), "{error}");
    let error = days.merge(&["one", "alone"], "merged").unwrap_err().to_string();
    assert!(error.contains("frequent_shingles"), "{error}");
    let error = run(&days.job("three", "three", &["one", "two"], &["source.group=site"])).unwrap_err();
    assert!(error.to_string().contains("source.group"), "{error}");
    let error = run(&days.job("three", "three", &["one"], &["shingle.max_frequency=0.05"])).unwrap_err();
    assert!(error.to_string().contains("shingle.max_frequency"), "{error}");

    // An output that is used again keeps its list, so that has to be the same one.
    let over = |from: &str| {
        let text = format!(
            "source = {{ format = \"output\", url = {:?} }}\nscore.threshold = 0.5\nlsh = {{ bands = 128, rows = 1 }}\n\
             against.output = [{:?}]\noutput = {{ url = {:?}, expand = \"all\" }}\n{}",
            days.path(from),
            days.path("one"),
            days.path(&format!("over {from}")),
            CONNECTED
        );
        std::fs::write(days.path("job.toml"), text).unwrap();
        resemblance().arg("run").arg(days.path("job.toml")).output().unwrap()
    };
    let refused = over("alone");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("frequent_shingles"), "{refused:?}");
    let taken = over("two");
    assert!(taken.status.success(), "{}", String::from_utf8_lossy(&taken.stderr));
    assert_eq!(found(&days.path("over two")), found(&days.path("two")));
}
