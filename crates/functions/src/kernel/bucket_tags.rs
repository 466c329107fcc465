//! Tags of buckets. Without signatures, they show that two documents share no bucket.
//!
//! A tag is the lower 32 bits of a bucket. Two buckets of a band have the same tag by chance with a probability of 2^-32. The definition
//! never changes, because stored tags are compared with later tags.

/// Appends the tags of these buckets to `out`, with four bytes each, little endian.
pub fn bucket_tags(buckets: &[u64], out: &mut Vec<u8>) {
    out.extend(buckets.iter().flat_map(|&bucket| (bucket as u32).to_le_bytes()));
}

/// An unused slot of a set. The tag 0 counts as the tag 1.
const UNUSED: u32 = 0;
/// The number of slots for each word of bits in the table of a band. A table has a word for every two tags. So at least half of the slots
/// are unused, and at most one bit in 16 is set.
const SLOTS: usize = 4;

/// Returns the set of tags of documents with these `buckets`: a table for each of the `bands`, one after the other. A table consists of
/// bits that rule out most other tags, and of the slots of a hash table. `buckets` contains the buckets of one document after the other,
/// in the order of the bands.
pub fn tag_set(buckets: &[u64], bands: usize) -> Vec<u32> {
    let documents = buckets.chunks_exact(bands.max(1));
    let words = documents.len().div_ceil(2).max(1);
    let mut set = vec![UNUSED; (1 + SLOTS) * words * bands];
    for document in documents {
        for (&bucket, table) in document.iter().zip(set.chunks_exact_mut((1 + SLOTS) * words)) {
            let (bits, slots) = table.split_at_mut(words);
            let tag = (bucket as u32).max(1);
            let (word, bit) = bit(tag, words);
            bits[word] |= bit;
            if let Some(slot) = probes(tag, slots.len()).find(|&slot| [UNUSED, tag].contains(&slots[slot])) {
                slots[slot] = tag;
            }
        }
    }
    set
}

/// Returns whether a document with these `tags`, as [`bucket_tags`] writes them, has a tag that is in the set for the same band. The set
/// has as many bands as the document.
pub fn has_tag(tags: &[u8], set: &[u32]) -> bool {
    let (tags, _) = tags.as_chunks::<4>();
    let words = (set.len() / (1 + SLOTS) / tags.len().max(1)).max(1);
    tags.iter().zip(set.chunks_exact((1 + SLOTS) * words)).any(|(&tag, table)| {
        let (bits, slots) = table.split_at(words);
        let tag = u32::from_le_bytes(tag).max(1);
        let (word, bit) = bit(tag, words);
        bits[word] & bit != 0 && {
            let mut found = probes(tag, slots.len()).map(|slot| slots[slot]);
            found.find(|&found| found == tag || found == UNUSED) == Some(tag)
        }
    })
}

/// Returns the bit of a tag in `words`: the index of its word, and its mask.
fn bit(tag: u32, words: usize) -> (usize, u32) {
    let bit = place(tag, words * u32::BITS as usize);
    (bit / u32::BITS as usize, 1 << (bit % u32::BITS as usize))
}

/// Returns the slots in which a tag can be, in order.
fn probes(tag: u32, slots: usize) -> impl Iterator<Item = usize> {
    let first = place(tag, slots);
    (first..slots).chain(0..first)
}

/// Returns a number below `count`. The product spreads tags that differ only in their lower bits.
fn place(tag: u32, count: usize) -> usize {
    ((u64::from(tag.wrapping_mul(0x9e37_79b1)) * count as u64) >> u32::BITS) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::hash::SplitMix64;

    fn has(buckets: &[u64], set: &[u32]) -> bool {
        let mut tags = Vec::new();
        bucket_tags(buckets, &mut tags);
        has_tag(&tags, set)
    }

    #[test]
    fn tags_are_the_lower_bits_and_an_empty_set_has_none() {
        let mut tags = vec![9];
        bucket_tags(&[0x1122_3344_5566_7788, 1], &mut tags);
        assert_eq!(tags, [9, 0x88, 0x77, 0x66, 0x55, 1, 0, 0, 0]);
        let set = tag_set(&[], 4);
        assert!(!has(&[0, 1, 2, u64::MAX], &set) && !has(&[], &set));
    }

    #[test]
    fn exactly_documents_with_a_tag_in_the_same_band_are_found() {
        for (bands, documents) in [(1_u64, 1), (3, 1), (16, 50), (5, 1_000)] {
            let mut random = SplitMix64(bands);
            // Few different numbers, so that bands have common tags.
            let mut document = || (0..bands).map(|_| random.next() % 4_000).collect::<Vec<_>>();
            let known: Vec<Vec<u64>> = (0..documents).map(|_| document()).collect();
            let set = tag_set(&known.concat(), bands as usize);
            assert!(known.iter().all(|known| has(known, &set)));
            let mut counts = [0, 0];
            for _ in 0..2_000 {
                let other = document();
                let tag = |bucket: u64| bucket.max(1);
                let is_shared = |known: &Vec<u64>| known.iter().zip(&other).any(|(a, b)| tag(*a) == tag(*b));
                let expected = known.iter().any(is_shared);
                assert_eq!(has(&other, &set), expected, "{bands} {documents}");
                counts[usize::from(expected)] += 1;
            }
            assert!(documents == 1 || counts.iter().all(|&count| count > 0), "{counts:?}");
        }
    }
}
