//! The parts of a job that the recipes of other programs need to get the same signatures, bands and candidates.
//!
//! | part of a recipe | file |
//! |---|---|
//! | rules that choose bands and rows | [`choose`] |
//! | coefficients of the linear family, from a file | [`coefficients`] |
//! | prime moduli of the linear family | [`prime`] |
//! | signatures of the linear family | [`crate::kernel::linear`] |
//! | CRC-32 and SHA-256 as shingle hashes | [`crate::kernel::text`] |
//! | one table of buckets for all bands | [`crate::kernel::lsh_bands`] |
//! | numbers of shingles in a dictionary of the collection | [`crate::frames::shingles`] |

pub(crate) mod choose;
pub(super) mod coefficients;
pub(super) mod prime;
