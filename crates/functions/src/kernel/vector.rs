//! Compiles loops for several sets of vector instructions, and runs them with the widest set of this machine. All sets give the same
//! results. Every x86-64 machine has SSE2, which lacks the product and the minimum of 32-bit numbers, so later sets are several times as
//! fast. Every AArch64 machine has NEON, which has both.

/// A loop. Its `run` should be `#[inline(always)]`: a function that is not inlined is compiled for SSE2.
pub(crate) trait Kernel {
    fn run(self);
}

pub(crate) fn widest(kernel: impl Kernel) {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
        {
            // SAFETY: the three features for which the function is compiled were just detected.
            return unsafe { avx512(kernel) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the feature for which the function is compiled was just detected.
            return unsafe { avx2(kernel) };
        }
    }
    kernel.run();
}

/// Returns a block that begins with `values` and is filled up with zeros.
#[inline(always)]
pub(crate) fn padded<T: Copy + Default, const LANES: usize>(values: &[T]) -> [T; LANES] {
    let mut block = [T::default(); LANES];
    block[..values.len()].copy_from_slice(values);
    block
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,avx512vl")]
fn avx512(kernel: impl Kernel) {
    kernel.run();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn avx2(kernel: impl Kernel) {
    kernel.run();
}

/// Runs the loop with AVX2 if this machine has it, and otherwise like [`widest`].
#[cfg(test)]
pub(crate) fn narrower(kernel: impl Kernel) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the feature for which the function is compiled was just detected.
        return unsafe { avx2(kernel) };
    }
    widest(kernel);
}
