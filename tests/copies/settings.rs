//! Settings of a case, and the keys of a job file that say them.

use crate::support::Random;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compare {
    All,
    Within,
    Across,
}

/// Which document represents a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    Longest,
    LongestThenReference,
    LastId,
    SouthThenNorth,
}

/// Where the documents come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// From one source.
    OneRun,
    /// From a source and a second one.
    TwoSources,
    /// From one source after the other, each against all before, merged in the end.
    Days,
    /// The same, with documents whose ids come again.
    Replaced,
    /// The same, where those are left out.
    Skipped,
}

#[derive(Debug, Clone)]
pub struct Settings {
    pub from: From,
    pub method: &'static str,
    pub containment: bool,
    pub compare: Compare,
    pub threshold: f64,
    /// Words of a shingle.
    pub size: usize,
    pub star: bool,
    pub max_expand: usize,
    /// Whether only pairs of a new document with a known one are wanted; of days in the last one.
    pub new_old: bool,
    pub representative: bool,
    pub keep: Keep,
    /// Where the documents of larger buckets are joined by their shingles.
    pub hot_bucket: usize,
    pub keeps_shingles: bool,
    pub threads: usize,
}

impl Settings {
    /// Settings number `seed`: any 150 seeds in a row have every combination of those that decide which documents are copies of each
    /// other and how they are found.
    pub fn new(seed: u64, random: &mut Random) -> Self {
        let seed = seed as usize;
        let compare = [Compare::Across, Compare::All, Compare::Within][seed % 3];
        let from = [From::TwoSources, From::Days, From::Replaced, From::OneRun, From::Skipped][seed % 5];
        let methods = [("lsh", false), ("prefix", true), ("all", false), ("prefix", false), ("all", true)];
        let (method, containment) = methods[(seed % 5 * 2 + seed / 5) % 5];
        let new_old = from != From::OneRun && (seed / 3).is_multiple_of(2);
        let star = random.below(3) == 0;
        Self {
            from,
            method,
            containment,
            compare,
            threshold: [0.3, 0.5, 0.8, 1.0][random.below(4)],
            size: 2 + random.below(2),
            star,
            max_expand: [0, 1, 2, 3, 1000][random.below(5)],
            new_old,
            representative: random.below(2) == 0,
            keep: [Keep::Longest, Keep::LongestThenReference, Keep::LastId, Keep::SouthThenNorth]
                [random.below(4)],
            hot_bucket: [2, 3, 256][random.below(3)],
            keeps_shingles: method != "lsh" || random.below(2) == 0,
            threads: 1 + random.below(3),
        }
    }

    /// Whether dense groups may leave pairs out, so that only what holds of any answer can be checked.
    pub fn may_be_dense(&self) -> bool {
        let joined = self.method != "all" && !self.containment && self.compare == Compare::All;
        joined && (1..1000).contains(&self.max_expand)
    }

    /// The keys of the job file. `new_old` is set apart, as only some runs of a case have it.
    pub fn keys(&self) -> Vec<String> {
        let compare = match self.compare {
            Compare::All => "all",
            Compare::Within => "within",
            Compare::Across => "across",
        };
        let measure = if self.containment { "containment" } else { "jaccard" };
        let mut keys = vec![
            "source.group=shop".to_owned(),
            format!("shingle.size={}", self.size),
            format!("score.threshold={}", self.threshold),
            format!("score.measure={measure}"),
            format!("candidates.method={}", self.method),
            format!("candidates.compare={compare}"),
            format!("output.expand={}", if self.star { "star" } else { "all" }),
            format!("output.max_expand={}", self.max_expand),
            format!("output.keep={}", if self.keeps_shingles { "shingles" } else { "signatures" }),
            format!("engine.threads={}", self.threads),
        ];
        if self.method == "lsh" {
            // Every pair of a threshold of 0.3 or more has a bucket in common.
            let hot_bucket = format!("lsh.hot_bucket={}", self.hot_bucket);
            keys.extend(["lsh.bands=128".to_owned(), "lsh.rows=1".to_owned(), hot_bucket]);
        }
        if self.representative {
            keys.push("clusters.method=representative".to_owned());
        }
        match self.keep {
            Keep::Longest => {}
            Keep::LongestThenReference => keys.push("clusters.keep=['length desc', 'reference']".to_owned()),
            Keep::LastId => keys.push("clusters.keep=['id desc']".to_owned()),
            Keep::SouthThenNorth => keys.push("clusters.keep=['group in (s, n)']".to_owned()),
        }
        keys
    }
}
