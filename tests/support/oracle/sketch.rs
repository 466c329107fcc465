//! Shingles, signatures and buckets by the plainest means, from their definitions.

use std::collections::BTreeSet;

use resemblance::job::{Normalize, Words};
use sha2::{Digest, Sha256};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::settings::{Family, Hash, Settings};
use crate::fuzz_replay::targets::definitions;
use crate::support::Random;

/// The shingles of a text, each as the input of its number: the text of the shingle, or the hashes of its words. None if there are
/// too few words.
pub fn shingles(text: &str, settings: &Settings) -> (String, BTreeSet<Vec<u8>>) {
    let rule = match settings.rule {
        "unicode" => Words::Unicode,
        "word-characters" => Words::WordCharacters,
        _ => Words::Spaces,
    };
    let steps = settings.steps.iter().map(|step| step.parse::<Normalize>().unwrap());
    let text = steps.fold(text.to_owned(), |text, step| definitions::step(&text, &step, rule));
    let words = definitions::words(&text, rule);
    if words.len() < settings.min_words {
        return (text, BTreeSet::new());
    }
    let whole = |units: usize| settings.short_is_whole && units < settings.size && !text.trim().is_empty();
    let size = |units: usize| if whole(units) { units.max(1) } else { settings.size };
    let shingles = if settings.by_chars {
        let chars: Vec<char> = text.chars().collect();
        chars.windows(size(chars.len())).map(|run| run.iter().collect::<String>().into_bytes()).collect()
    } else if settings.hash == Hash::Xxh3 {
        let hashes: Vec<[u8; 8]> = words.iter().map(|word| xxh3_64(word.as_bytes()).to_le_bytes()).collect();
        hashes.windows(size(words.len())).map(|run| run.concat()).collect()
    } else {
        words.windows(size(words.len())).map(|run| run.join(settings.separator).into_bytes()).collect()
    };
    (text, shingles)
}

/// The number of a shingle; `dictionary` is that of the collection, in its order.
pub fn number(shingle: &[u8], hash: Hash, dictionary: &[(u64, Vec<u8>)]) -> u64 {
    match hash {
        Hash::Xxh3 => xxh3_64(shingle),
        Hash::Crc32 => u64::from(crc32(shingle)),
        Hash::Sha256 => {
            let digest = Sha256::digest(shingle);
            digest.iter().fold(0, |rest, byte| (rest * 256 + u64::from(*byte)) % 0x7fff_ffff)
        }
        Hash::Dictionary => {
            1 + dictionary.iter().position(|(_, known)| known == shingle).expect("it has all") as u64
        }
    }
}

/// The polynomial of IEEE 802.3, bit by bit.
pub fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

pub enum Functions {
    MultiplyShift(Vec<(u32, u32)>),
    Linear { factors: Vec<(u64, u64)>, modulus: u64 },
    OnePermutation { keys: Vec<u64> },
}

impl Functions {
    /// The permutations of the settings, in a collection of so many distinct shingles.
    pub fn new(settings: &Settings, dictionary: usize) -> Self {
        let mut random = Random(settings.seed);
        let count = settings.permutations;
        match settings.family {
            Family::MultiplyShift => {
                let mut half = || (random.next() >> 32) as u32;
                Self::MultiplyShift((0..count).map(|_| (half() | 1, half())).collect())
            }
            Family::Linear(modulus) => {
                let (modulus, draws) = match modulus {
                    Some(modulus) => (modulus, modulus - 1),
                    None => (prime_above(dictionary as u64), dictionary as u64),
                };
                let mut draw = |taken: &mut Vec<u64>| loop {
                    let number = 1 + ((u128::from(random.next()) * u128::from(draws)) >> 64) as u64;
                    if !taken.contains(&number) {
                        taken.push(number);
                        return number;
                    }
                };
                let (mut a, mut b) = (Vec::new(), Vec::new());
                let enough = if draws < count as u64 { 0 } else { count };
                Self::Linear { factors: (0..enough).map(|_| (draw(&mut a), draw(&mut b))).collect(), modulus }
            }
            Family::OnePermutation => {
                Self::OnePermutation { keys: (0..2 * count).map(|_| random.next()).collect() }
            }
        }
    }

    pub fn signature(&self, set: &[u64]) -> Vec<u32> {
        match self {
            Self::MultiplyShift(factors) => {
                let least = |(a, b): &(u32, u32)| {
                    let fold = |x: u64| (x >> 32) as u32 ^ x as u32;
                    set.iter().map(|&x| a.wrapping_mul(fold(x)).wrapping_add(*b)).min().unwrap()
                };
                factors.iter().map(least).collect()
            }
            Self::Linear { factors, modulus } => {
                let hash = |a: u64, b: u64, x: u64| {
                    ((u128::from(a) * u128::from(x % modulus) + u128::from(b)) % u128::from(*modulus)) as u32
                };
                factors.iter().map(|&(a, b)| set.iter().map(|&x| hash(a, b, x)).min().unwrap()).collect()
            }
            Self::OnePermutation { keys } => one_permutation(set, keys),
        }
    }
}

pub fn kept(minimum: u32, settings: &Settings) -> u32 {
    match settings.is_short() {
        true => (u64::from(minimum) * 2_654_435_761 % (1 << 32) / (1 << 16)) as u32,
        false => minimum,
    }
}

fn one_permutation(set: &[u64], keys: &[u64]) -> Vec<u32> {
    let bins = keys.len() / 2;
    let word = |x: u64, round: usize| Random(x ^ keys[round]).next();
    (0..bins)
        .map(|bin| {
            for round in 0..bins {
                let here = |word: &u64| (((word >> 32) * bins as u64) >> 32) as usize == bin;
                let words = set.iter().map(|&x| word(x, round)).filter(here);
                if let Some(least) = words.map(|word| word as u32).min() {
                    return least;
                }
            }
            set.iter().map(|&x| word(x, bins + bin) as u32).min().unwrap()
        })
        .collect()
}

fn prime_above(number: u64) -> u64 {
    let is_prime = |n: u64| n > 1 && (2..).take_while(|d| d * d <= n).all(|d| !n.is_multiple_of(d));
    (number + 1..).find(|&n| is_prime(n)).unwrap()
}

pub fn buckets(signature: &[u32], settings: &Settings) -> Vec<u64> {
    let bands = signature.chunks(settings.rows).take(settings.bands);
    let bucket = |(number, band): (u64, &[u32])| {
        let hash = if settings.crc_buckets {
            let text: Vec<String> = band.iter().map(u32::to_string).collect();
            let band = if settings.table_size.is_some() { 0 } else { number << 32 };
            band + u64::from(crc32(text.join("_").as_bytes()))
        } else {
            let width = if settings.is_short() { 2 } else { 4 };
            let bytes: Vec<u8> =
                band.iter().flat_map(|value| value.to_le_bytes()[..width].to_vec()).collect();
            xxh3_64_with_seed(&bytes, number)
        };
        settings.table_size.map_or(hash, |size| hash % size)
    };
    (0..).zip(bands).map(bucket).collect()
}
