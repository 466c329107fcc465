//! The loops with which the kernels are compared.

use std::ops::Range;

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Copies a text, byte by byte in lower case. No pass over a text can do less work.
pub fn lower(text: &str, out: &mut Vec<u8>) {
    out.clear();
    out.extend(text.bytes().map(|byte| byte.to_ascii_lowercase()));
}

/// Finds the ranges between single spaces. Reads 64 bytes at a time.
pub fn between_spaces(text: &str, mut found: impl FnMut(Range<usize>)) {
    let (bytes, mut start) = (text.as_bytes(), 0);
    let (blocks, rest) = bytes.as_chunks::<64>();
    for (block, base) in blocks.iter().zip((0..).step_by(64)) {
        let mut mask = spaces(block);
        while mask != 0 {
            let at = base + mask.trailing_zeros() as usize;
            mask &= mask - 1;
            found(start..at);
            start = at + 1;
        }
    }
    for (at, byte) in rest.iter().enumerate().map(|(at, byte)| (bytes.len() - rest.len() + at, byte)) {
        if *byte == b' ' {
            found(start..at);
            start = at + 1;
        }
    }
    if start < bytes.len() {
        found(start..bytes.len());
    }
}

/// Returns a mask in which bit i is set if byte i is a space.
#[cfg(target_arch = "x86_64")]
fn spaces(block: &[u8; 64]) -> u64 {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8};
    (0..4).fold(0, |mask, quarter| {
        // SAFETY: every x86-64 processor has SSE2. The block contains 16 bytes from `16 * quarter` on, and the load needs no alignment.
        let found = unsafe {
            let bytes = _mm_loadu_si128(block.as_ptr().add(16 * quarter).cast());
            _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(b' ' as i8)))
        };
        mask | (found as u64) << (16 * quarter)
    })
}

#[cfg(not(target_arch = "x86_64"))]
fn spaces(block: &[u8; 64]) -> u64 {
    block.iter().rev().fold(0, |mask, byte| mask << 1 | u64::from(*byte == b' '))
}

/// Hashes the words at the given ranges, and then every `size` consecutive hashes.
pub fn hash_words(text: &str, words: &[Range<usize>], size: usize, hashes: &mut Vec<u8>, out: &mut Vec<u64>) {
    hashes.clear();
    out.clear();
    for word in words {
        hashes.extend_from_slice(&xxh3_64(&text.as_bytes()[word.clone()]).to_le_bytes());
    }
    out.extend(hashes.windows(8 * size).step_by(8).map(xxh3_64));
}

/// Hashes the parts of a text at the given ranges.
pub fn hash_ranges(text: &str, ranges: &[Range<usize>], out: &mut Vec<u64>) {
    out.clear();
    out.extend(ranges.iter().map(|range| xxh3_64(&text.as_bytes()[range.clone()])));
}

/// Sorts values and removes repeats with the standard library.
pub fn sort_dedup(values: &mut Vec<u64>) {
    values.sort_unstable();
    values.dedup();
}

/// Counts the common elements of two sorted sets with the textbook merge.
pub fn merge(a: &[u64], b: &[u64]) -> u64 {
    let (mut i, mut j, mut shared) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        if a[i] == b[j] {
            shared += 1;
            i += 1;
            j += 1;
        } else if a[i] < b[j] {
            i += 1;
        } else {
            j += 1;
        }
    }
    shared
}

/// Like [`merge`], but stops as soon as the sets cannot share `least` elements.
pub fn merge_until_hopeless(a: &[u64], b: &[u64], least: usize) -> u64 {
    let (mut i, mut j, mut shared) = (0, 0, 0);
    while i < a.len() && j < b.len() && shared + (a.len() - i).min(b.len() - j) >= least {
        if a[i] == b[j] {
            shared += 1;
            i += 1;
            j += 1;
        } else if a[i] < b[j] {
            i += 1;
        } else {
            j += 1;
        }
    }
    shared as u64
}

/// Searches all of `large` for each element of `small`.
pub fn binary_search(small: &[u64], large: &[u64]) -> u64 {
    small.iter().filter(|x| large.binary_search(x).is_ok()).count() as u64
}

/// Hashes bands of `rows` values with 4 bytes each.
pub fn hash_bands(bytes: &[u8], rows: usize, out: &mut Vec<u64>) {
    out.clear();
    out.extend(bytes.chunks_exact(4 * rows).zip(0..).map(|(band, seed)| xxh3_64_with_seed(band, seed)));
}

/// Compiles a loop twice. If this machine has AVX-512, the copy for AVX-512 is run, otherwise the copy for any machine.
macro_rules! with_vectors {
    ($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),*) $(-> $result:ty)? $body:block) => {
        $(#[$doc])*
        pub fn $name($($arg: $type),*) $(-> $result)? {
            #[inline(always)]
            fn any($($arg: $type),*) $(-> $result)? $body
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512dq,avx512vl")]
                fn avx512($($arg: $type),*) $(-> $result)? { any($($arg),*) }
                if is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                {
                    // SAFETY: the machine has the three features that the function requires, as just detected.
                    return unsafe { avx512($($arg),*) };
                }
            }
            any($($arg),*)
        }
    };
}

with_vectors! {
    /// Computes a product, a sum and a minimum for each function and each value. The number of functions, which is the length of `out`, is
    /// a multiple of 64.
    fn minima(values: &[u32], a: &[u32], b: &[u32], out: &mut [u32]) {
        let blocks = a.as_chunks::<64>().0.iter().zip(b.as_chunks::<64>().0);
        for ((a, b), out) in blocks.zip(out.as_chunks_mut::<64>().0) {
            let mut least = [u32::MAX; 64];
            for &x in values {
                for lane in 0..64 {
                    least[lane] = least[lane].min(a[lane].wrapping_mul(x).wrapping_add(b[lane]));
                }
            }
            *out = least;
        }
    }
}

with_vectors! {
    /// Computes a 64-bit product, a sum, a folding of the upper bits and a minimum for each function and each value. Numbers modulo 2^31 -
    /// 1 need at least these steps. The number of functions, which is the length of `out`, is a multiple of 16.
    fn folded_minima(values: &[u64], a: &[u64], b: &[u64], out: &mut [u64]) {
        const MODULUS: u64 = (1 << 31) - 1;
        let blocks = a.as_chunks::<16>().0.iter().zip(b.as_chunks::<16>().0);
        for ((a, b), out) in blocks.zip(out.as_chunks_mut::<16>().0) {
            let mut least = [u64::MAX; 16];
            for &x in values {
                for lane in 0..16 {
                    // The operands are less than 2^32, so the compiler can use a 32-bit multiplication with a 64-bit result.
                    let v = (a[lane] & 0xffff_ffff) * (x & 0xffff_ffff) + b[lane];
                    least[lane] = least[lane].min((v & MODULUS) + (v >> 31));
                }
            }
            *out = least;
        }
    }
}

with_vectors! {
    /// Counts the equal values in two signatures. The number of values must be a multiple of 32.
    fn equal(a: &[u32], b: &[u32]) -> u32 {
        let mut counts = [0_u32; 32];
        for (a, b) in a.as_chunks::<32>().0.iter().zip(b.as_chunks::<32>().0) {
            for lane in 0..32 {
                counts[lane] += u32::from(a[lane] == b[lane]);
            }
        }
        counts.iter().sum()
    }
}

/// Copies rows: every row is read and written once.
pub(super) fn copied(rows: &[(u64, u64)]) -> Vec<(u64, u64)> {
    rows.to_vec()
}
