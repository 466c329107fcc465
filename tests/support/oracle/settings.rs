//! Random settings, and the same as overrides of a job.

use super::corpus::{Frequent, Shape};
use super::decisions::Decisions;
use crate::support::Random;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Hash {
    Xxh3,
    Crc32,
    Sha256,
    Dictionary,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Family {
    MultiplyShift,
    /// With this modulus; none is the first prime above the dictionary.
    Linear(Option<u64>),
    OnePermutation,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    OneRun,
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
    pub shape: Shape,
    /// The number of corpora in a source, which have no words in common.
    pub corpora: usize,
    /// Documents of one corpus in a source, at most.
    pub documents: usize,
    pub from: From,
    pub days: usize,
    /// Whether only pairs of a new document with a known one are wanted; of days in the last one.
    pub new_old: bool,
    /// Whether the job says nothing of texts but the words of a shingle.
    pub plain: bool,
    pub steps: Vec<&'static str>,
    pub by_chars: bool,
    pub rule: &'static str,
    pub size: usize,
    pub separator: &'static str,
    pub hash: Hash,
    pub min_words: usize,
    /// Whether a text shorter than a shingle is one.
    pub short_is_whole: bool,
    pub permutations: usize,
    pub bits: Option<u32>,
    pub seed: u64,
    pub family: Family,
    pub bands: usize,
    pub rows: usize,
    pub crc_buckets: bool,
    pub table_size: Option<u64>,
    pub hot_bucket: usize,
    pub method: &'static str,
    pub threshold: f64,
    pub containment: bool,
    pub min_shared: usize,
    pub by_signature: bool,
    pub prefilter: bool,
    /// Which groups are compared; none if documents have no groups.
    pub compare: Option<&'static str>,
    pub star: bool,
    pub max_expand: usize,
    pub keep_tables: &'static str,
    pub representative: bool,
    pub keep: &'static str,
    pub thresholds: Vec<f64>,
    pub contained: Option<f64>,
    /// None if the job has no decisions.
    pub decisions: Option<Decisions>,
    pub threads: usize,
    pub max_frequency: Option<f64>,
    /// The frequent shingles of the first source, which no source is compared by.
    pub frequent: Frequent,
}

fn one_of<T: Copy>(random: &mut Random, choices: &[T]) -> T {
    choices[random.below(choices.len())]
}

/// Orders of preference that need no groups.
const KEEPS: [&str; 8] = [
    "[]",
    "['length asc']",
    "['id', 'reference']",
    "['id desc']",
    "['id desc', 'reference']",
    "['length desc', 'reference']",
    "['length desc', 'id', 'reference']",
    "['year desc', 'length desc', 'id', 'reference']",
];

impl Settings {
    /// Settings of a job over short plain texts whose bands find every pair.
    pub fn plain(random: &mut Random) -> Self {
        Self {
            shape: Shape { new: 8, words: (6, 10), vocabulary: 60, odd: false, has_header: false },
            corpora: 1,
            documents: 30,
            from: From::OneRun,
            days: 3,
            new_old: false,
            plain: true,
            steps: vec!["lowercase"],
            by_chars: false,
            rule: "unicode",
            size: 3,
            separator: " ",
            hash: Hash::Xxh3,
            min_words: 0,
            short_is_whole: false,
            permutations: 128,
            bits: None,
            seed: 42,
            family: Family::MultiplyShift,
            bands: 128,
            rows: 1,
            crc_buckets: false,
            table_size: None,
            hot_bucket: 256,
            method: "lsh",
            threshold: 0.5,
            containment: false,
            min_shared: 0,
            by_signature: false,
            prefilter: false,
            compare: None,
            star: random.below(3) == 0,
            max_expand: 1000,
            keep_tables: "shingles",
            representative: random.below(2) == 0,
            keep: "[]",
            thresholds: Vec::new(),
            contained: None,
            decisions: None,
            threads: 1 + random.below(3),
            max_frequency: None,
            frequent: Frequent::new(),
        }
    }

    /// All ways from a text to a signature and from signatures to pairs, over one source.
    pub fn of_sketches(random: &mut Random) -> Self {
        const STEPS: &str = "lowercase letters-only collapse-whitespace digits-out stop-words:en stop-words:de \
             spaces-to-underscores nfkc";
        let steps: Vec<&str> = STEPS.split(' ').collect();
        let by_chars = random.below(3) == 0;
        let hash = one_of(random, &[Hash::Xxh3, Hash::Xxh3, Hash::Crc32, Hash::Sha256, Hash::Dictionary]);
        let family = match random.below(4) {
            0 | 1 => Family::MultiplyShift,
            2 => Family::OnePermutation,
            _ if hash == Hash::Dictionary && random.below(2) == 0 => Family::Linear(None),
            _ => Family::Linear(Some(one_of(
                random,
                &[(1 << 31) - 1, (1 << 32) - 1, 4_294_967_291, 1_000_003],
            ))),
        };
        let (bands, rows) = one_of(random, &[(16, 2), (8, 4), (32, 1), (1, 1), (5, 3), (20, 5)]);
        let method = one_of(random, &["lsh", "lsh", "all", "prefix"]);
        // A document that meets itself in a shared table would count twice in a bucket.
        let table_size = (random.below(4) == 0).then(|| one_of(random, &[1_u64 << 40, 1_000_003]));
        let hot_bucket = if table_size.is_none() { one_of(random, &[256, 256, 2, 4]) } else { 256 };
        let mut settings = Self {
            shape: Shape {
                new: 4,
                words: (4 + random.below(15), 8 + random.below(30)),
                vocabulary: 20 + random.below(400),
                odd: true,
                has_header: false,
            },
            documents: 70,
            plain: false,
            steps: (0..random.below(5)).map(|_| one_of(random, &steps)).collect(),
            by_chars,
            rule: one_of(random, &["unicode", "word-characters", "spaces"]),
            size: 1 + random.below(if by_chars { 9 } else { 4 }),
            separator: one_of(random, &[" ", "", "_", "--"]),
            hash,
            min_words: one_of(random, &[0, 0, 2, 5]),
            short_is_whole: random.below(2) == 0,
            permutations: bands * rows + random.below(40),
            seed: random.next() >> 1,
            family,
            bands,
            rows,
            crc_buckets: random.below(3) == 0,
            table_size,
            hot_bucket,
            method,
            threshold: one_of(random, &[0.05, 0.25, 1.0 / 3.0, 0.5, 0.5, 0.6, 0.75, 0.8, 1.0]),
            by_signature: random.below(4) == 0,
            prefilter: random.below(4) == 0,
            // A join by prefixes finds all pairs of so few documents only if no shingle is in too many of them.
            max_expand: match method == "prefix" || hot_bucket < 256 {
                true => one_of(random, &[1000, 0]),
                false => one_of(random, &[1000, 0, 2, 3]),
            },
            keep_tables: one_of(random, &["signatures", "shingles", "none"]),
            keep: one_of(random, &KEEPS),
            ..Self::plain(random)
        };
        settings.bits = one_of(random, &[None, None, Some(32), settings.bits_are_enough().then_some(16)]);
        settings
    }

    /// Copies, groups, second sources and days: any 150 seeds in a row have every combination of those that decide which documents are
    /// copies of each other and how they are found.
    pub fn of_copies(seed: u64, random: &mut Random) -> Self {
        let seed = seed as usize;
        let compare = ["across", "all", "within"][seed % 3];
        let from = [From::TwoSources, From::Days, From::Replaced, From::OneRun, From::Skipped][seed % 5];
        let with_source = from == From::TwoSources;
        let methods = [("lsh", false), ("prefix", true), ("all", false), ("prefix", false), ("all", true)];
        let (method, containment) = methods[(seed % 5 * 2 + seed / 5) % 5];
        let keeps =
            [&KEEPS[..], &["['group in (s, n)']", "['group in (s, n)', 'year', 'reference']"]].concat();
        Self {
            // Where one text holds a share of another one, their lengths differ.
            shape: Shape {
                new: 8,
                words: if containment { (3, 40) } else { (6, 10) },
                vocabulary: 60,
                odd: false,
                has_header: false,
            },
            documents: [40, 20, 14, 14, 14][from as usize],
            from,
            new_old: from != From::OneRun && (seed / 3).is_multiple_of(2),
            size: 2 + random.below(2),
            hot_bucket: one_of(random, &[2, 3, 256]),
            method,
            containment,
            min_shared: if method == "lsh" { 0 } else { one_of(random, &[0, 0, 4]) },
            threshold: one_of(random, &[0.3, 0.5, 2.0 / 3.0, 0.8, 1.0]),
            family: if with_source {
                one_of(random, &[Family::MultiplyShift, Family::OnePermutation])
            } else {
                Family::MultiplyShift
            },
            compare: Some(compare),
            max_expand: one_of(random, &[0, 1, 2, 3, 1000]),
            keep_tables: match (method, with_source) {
                (_, true) => one_of(random, &["shingles", "signatures", "none"]),
                ("lsh", _) => one_of(random, &["shingles", "signatures"]),
                _ => "shingles",
            },
            keep: one_of(random, &keeps),
            ..Self::plain(random)
        }
    }

    /// Settings for removals that lose text, with texts that are parts of others. Half of the cases have a header that many texts begin with.
    pub fn of_losses(seed: u64, random: &mut Random) -> Self {
        let from = [From::OneRun, From::OneRun, From::TwoSources, From::Days, From::OneRun, From::TwoSources];
        let from = from[seed as usize % from.len()];
        let method = one_of(random, &["lsh", "prefix", "all"]);
        let threshold = one_of(random, &[0.3, 0.4, 0.5, 0.7]);
        let compare = [None, Some("within"), None, None, Some("across"), None][seed as usize % 6];
        let has_header = (seed / 6).is_multiple_of(2);
        let documents = if from == From::OneRun { 70 } else { 35 };
        Self {
            shape: Shape { new: 9, words: (12, 30), vocabulary: 3_000, odd: false, has_header },
            // More than ten documents of a group have the header.
            documents: if has_header && compare.is_some() { 2 * documents } else { documents },
            max_frequency: has_header.then_some(0.3),
            hot_bucket: if has_header && seed.is_multiple_of(2) { 2 } else { 256 },
            from,
            days: 2,
            new_old: seed % 6 == 5,
            bands: 64,
            method,
            threshold,
            compare,
            max_expand: if method == "prefix" { 0 } else { one_of(random, &[2, 1000]) },
            keep: match from {
                // Orders by which a document that an earlier day removed stands where it stood.
                From::Days => one_of(random, &[KEEPS[6], "['length asc', 'id', 'reference']", KEEPS[7]]),
                _ => one_of(random, &KEEPS),
            },
            thresholds: if random.below(2) == 0 { vec![threshold, 0.75, 1.0] } else { Vec::new() },
            contained: Some(one_of(random, &[0.3, 0.6, 0.75, 0.9, 0.98, 1.0])),
            ..Self::plain(random)
        }
    }

    /// Whether 16 bits of a value are enough, so that no more are kept if the job says nothing.
    fn bits_are_enough(&self) -> bool {
        let wide_buckets = self.crc_buckets || self.table_size.is_some() || self.rows < 3;
        !(self.method == "lsh" && wide_buckets || matches!(self.family, Family::Linear(_)))
    }

    pub fn is_short(&self) -> bool {
        self.bits.map_or(self.bits_are_enough(), |bits| bits == 16)
    }

    /// Whether dense groups may leave pairs out, so that only what holds of any answer can be checked.
    pub fn may_be_dense(&self) -> bool {
        let joined = self.method == "prefix" || self.method == "lsh" && self.hot_bucket < 256;
        let compares_all = matches!(self.compare, None | Some("all"));
        joined && !self.containment && compares_all && (1..1000).contains(&self.max_expand)
    }

    /// Whether every pair meets in a bucket of its own or is looked for in another way.
    pub fn finds_all(&self) -> bool {
        self.plain || self.method != "lsh"
    }

    /// These settings as overrides of a job. `new_old` is set apart, as only some runs of a case have it.
    pub fn sets(&self) -> Vec<String> {
        let mut sets = vec![
            "source.columns=['year']".to_owned(),
            format!("shingle.size={}", self.size),
            format!("minhash.permutations={}", self.permutations),
            format!("lsh.bands={}", self.bands),
            format!("lsh.rows={}", self.rows),
            format!("lsh.hot_bucket={}", self.hot_bucket),
            format!("candidates.method={}", self.method),
            format!("score.threshold={:?}", self.threshold),
            format!("output.expand={}", if self.star { "star" } else { "all" }),
            format!("output.max_expand={}", self.max_expand),
            format!("output.keep={}", self.keep_tables),
            format!("clusters.method={}", if self.representative { "representative" } else { "components" }),
            format!("clusters.keep={}", self.keep),
            format!("engine.threads={}", self.threads),
        ];
        let (family, modulus) = match self.family {
            Family::MultiplyShift => ("multiply-shift", None),
            Family::OnePermutation => ("one-permutation", None),
            Family::Linear(Some(2_147_483_647)) => ("linear", Some("2^31-1".to_owned())),
            Family::Linear(Some(4_294_967_295)) => ("linear", Some("2^32-1".to_owned())),
            Family::Linear(Some(prime)) => ("linear", Some(prime.to_string())),
            Family::Linear(None) => ("linear", Some("next-prime".to_owned())),
        };
        sets.push(format!("minhash.family={family}"));
        sets.extend(modulus.map(|modulus| format!("minhash.modulus={modulus}")));
        if self.containment {
            sets.push("score.measure=containment".to_owned());
        }
        if self.min_shared > 0 {
            sets.push(format!("score.min_shared={}", self.min_shared));
        }
        if let Some(compare) = self.compare {
            sets.extend(["source.group=shop".to_owned(), format!("candidates.compare={compare}")]);
        }
        if !self.thresholds.is_empty() {
            sets.push(format!("clusters.thresholds={:?}", self.thresholds));
        }
        sets.extend(self.contained.map(|share| format!("clusters.contained={share}")));
        sets.extend(self.max_frequency.map(|share| format!("shingle.max_frequency={share}")));
        if !self.plain {
            sets.extend(self.sets_of_texts());
        }
        sets
    }

    fn sets_of_texts(&self) -> Vec<String> {
        let quoted: Vec<String> = self.steps.iter().map(|step| format!("{step:?}")).collect();
        let hash = match self.hash {
            Hash::Xxh3 => "xxh3",
            Hash::Crc32 => "crc32",
            Hash::Sha256 => "sha256-31",
            Hash::Dictionary => "dictionary",
        };
        let mut sets = vec![
            "source.duplicate_ids=reject".to_owned(),
            format!("shingle.normalize=[{}]", quoted.join(",")),
            format!("shingle.unit={}", if self.by_chars { "char" } else { "word" }),
            format!("shingle.words={}", self.rule),
            format!("shingle.separator={:?}", self.separator),
            format!("shingle.hash={hash}"),
            format!("shingle.min_words={}", self.min_words),
            format!("shingle.short={}", if self.short_is_whole { "whole" } else { "reject" }),
            format!("minhash.seed={}", self.seed),
            format!("lsh.bucket_hash={}", if self.crc_buckets { "crc32" } else { "xxh3" }),
            format!("score.by={}", if self.by_signature { "signature" } else { "shingles" }),
            format!("score.prefilter={}", self.prefilter),
            "engine.memory=256MiB".to_owned(),
        ];
        sets.extend(self.bits.map(|bits| format!("minhash.bits={bits}")));
        sets.extend(self.table_size.map(|size| format!("lsh.table_size={size}")));
        sets
    }
}
