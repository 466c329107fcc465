//! Random settings, and the same as overrides of a job file.

use super::answer::Answer;
use crate::support::Random;

/// The hash of a shingle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Hash {
    Xxh3,
    Crc32,
    Sha256,
    Dictionary,
}

/// The computation of permutations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Family {
    MultiplyShift,
    /// With this modulus; none is the first prime above the dictionary.
    Linear(Option<u64>),
    OnePermutation,
}

/// The method that finds candidates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Method {
    Lsh,
    All,
    Prefix,
}

#[derive(Debug, Clone)]
pub struct Settings {
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
    /// `minhash.bits`, if it is set.
    bits: Option<u32>,
    /// Whether 16 bits of each value are kept: if nothing says otherwise, where these are enough.
    pub is_short: bool,
    pub seed: u64,
    pub family: Family,
    pub bands: usize,
    pub rows: usize,
    pub crc_buckets: bool,
    pub table_size: Option<u64>,
    pub hot_bucket: u64,
    pub method: Method,
    pub threshold: f64,
    pub by_signature: bool,
    pub prefilter: bool,
    pub star: bool,
    pub max_expand: u64,
    pub keep: &'static str,
    threads: usize,
}

fn one_of<T: Copy>(random: &mut Random, choices: &[T]) -> T {
    choices[random.below(choices.len())]
}

impl Settings {
    pub fn random(random: &mut Random) -> Self {
        const STEPS: [&str; 8] = [
            "lowercase",
            "letters-only",
            "collapse-whitespace",
            "digits-out",
            "stop-words:en",
            "stop-words:de",
            "spaces-to-underscores",
            "nfkc",
        ];
        let by_chars = random.below(3) == 0;
        let steps = (0..random.below(5)).map(|_| one_of(random, &STEPS)).collect();
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
        let method = one_of(random, &[Method::Lsh, Method::Lsh, Method::All, Method::Prefix]);
        // A document that meets itself in a shared table would count twice in a bucket.
        let table_size = (random.below(4) == 0).then(|| one_of(random, &[1_u64 << 40, 1_000_003]));
        let hot_bucket = if table_size.is_none() { one_of(random, &[256, 256, 2, 4]) } else { 256 };
        // A join by prefixes finds all pairs of so few documents only if no shingle is in too many of them.
        let crc_buckets = random.below(3) == 0;
        let wide_buckets = method == Method::Lsh && (crc_buckets || table_size.is_some() || rows < 3);
        let enough = !(wide_buckets || matches!(family, Family::Linear(_)));
        let bits = one_of(random, &[None, None, Some(32), enough.then_some(16)]);
        let exact_prefixes = method == Method::Prefix || hot_bucket < 256;
        Self {
            steps,
            by_chars,
            rule: one_of(random, &["unicode", "word-characters", "spaces"]),
            size: 1 + random.below(if by_chars { 9 } else { 4 }),
            separator: one_of(random, &[" ", "", "_", "--"]),
            hash,
            min_words: one_of(random, &[0, 0, 2, 5]),
            permutations: bands * rows + random.below(40),
            bits,
            is_short: bits.map_or(enough, |bits| bits == 16),
            seed: random.next() >> 1,
            family,
            bands,
            rows,
            crc_buckets,
            table_size,
            hot_bucket,
            method,
            threshold: one_of(random, &[0.05, 0.25, 1.0 / 3.0, 0.5, 0.5, 0.6, 0.75, 0.8, 1.0]),
            by_signature: random.below(4) == 0,
            prefilter: random.below(4) == 0,
            star: random.below(4) == 0,
            max_expand: one_of(random, if exact_prefixes { &[1000, 1000, 0, 0] } else { &[1000, 0, 2, 3] }),
            threads: 1 + random.below(3),
            keep: one_of(random, &["signatures", "shingles", "none"]),
            short_is_whole: random.below(2) == 0,
        }
    }

    /// These settings as overrides of a job.
    pub fn sets(&self) -> Vec<String> {
        let quoted: Vec<String> = self.steps.iter().map(|step| format!("{step:?}")).collect();
        let hash = match self.hash {
            Hash::Xxh3 => "xxh3",
            Hash::Crc32 => "crc32",
            Hash::Sha256 => "sha256-31",
            Hash::Dictionary => "dictionary",
        };
        let method = match self.method {
            Method::Lsh => "lsh",
            Method::All => "all",
            Method::Prefix => "prefix",
        };
        let mut sets = vec![
            "source.duplicate_ids=reject".to_owned(),
            format!("shingle.normalize=[{}]", quoted.join(",")),
            format!("shingle.unit={}", if self.by_chars { "char" } else { "word" }),
            format!("shingle.words={}", self.rule),
            format!("shingle.size={}", self.size),
            format!("shingle.separator={:?}", self.separator),
            format!("shingle.hash={hash}"),
            format!("shingle.min_words={}", self.min_words),
            format!("shingle.short={}", if self.short_is_whole { "whole" } else { "reject" }),
            format!("minhash.permutations={}", self.permutations),
            format!("minhash.seed={}", self.seed),
            format!("lsh.bands={}", self.bands),
            format!("lsh.rows={}", self.rows),
            format!("lsh.bucket_hash={}", if self.crc_buckets { "crc32" } else { "xxh3" }),
            format!("lsh.hot_bucket={}", self.hot_bucket),
            format!("candidates.method={method}"),
            format!("score.threshold={:?}", self.threshold),
            format!("score.by={}", if self.by_signature { "signature" } else { "shingles" }),
            format!("score.prefilter={}", self.prefilter),
            format!("output.expand={}", if self.star { "star" } else { "all" }),
            format!("output.max_expand={}", self.max_expand),
            format!("engine.threads={}", self.threads),
            format!("output.keep={}", self.keep),
            "engine.memory=256MiB".to_owned(),
        ];
        sets.extend(self.bits.map(|bits| format!("minhash.bits={bits}")));
        sets.extend(self.table_size.map(|size| format!("lsh.table_size={size}")));
        match self.family {
            Family::MultiplyShift => sets.push("minhash.family=multiply-shift".into()),
            Family::OnePermutation => sets.push("minhash.family=one-permutation".into()),
            Family::Linear(modulus) => {
                sets.push("minhash.family=linear".into());
                sets.push(match modulus {
                    Some(2_147_483_647) => "minhash.modulus=2^31-1".into(),
                    Some(4_294_967_295) => "minhash.modulus=2^32-1".into(),
                    Some(prime) => format!("minhash.modulus={prime}"),
                    None => "minhash.modulus=next-prime".into(),
                });
            }
        }
        sets
    }

    /// Whether the factors are drawn from a dictionary that has too few entries, which is an error.
    pub fn needs_more_shingles(&self, answer: &Answer) -> bool {
        self.family == Family::Linear(None) && answer.dictionary < self.permutations
    }
}
