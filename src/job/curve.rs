//! The S-curve of banding, and the numbers that are read off it.
//!
//! With b bands of r rows, two documents of Jaccard similarity s share a bucket with probability 1 - (1 - s^r)^b
//! (Leskovec, Rajaraman, Ullman, *Mining of Massive Datasets*, section 3.4.2).

/// The probability that two documents of Jaccard similarity `s`, in [0, 1], share a bucket in at least one of `bands`
/// bands of `rows` rows. Rises with `s` and with `bands`, falls with `rows`.
pub fn probability(s: f64, bands: usize, rows: usize) -> f64 {
    // 1 - (1 - x)^b loses every digit where x is tiny; this form keeps them, and is exact at s = 0 and s = 1.
    -log_missed(s, bands, rows).exp_m1()
}

/// The similarity where the curve is steepest, about: (1/b)^(1/r).
pub fn threshold(bands: usize, rows: usize) -> f64 {
    (-(bands as f64).ln() / rows as f64).exp()
}

/// The area under the curve left of `threshold`: how likely pairs that are too far apart become candidates, if their
/// similarities are spread evenly. In [0, threshold].
pub fn false_positive_area(threshold: f64, bands: usize, rows: usize) -> f64 {
    integrate(|s| probability(s, bands, rows), 0.0, threshold)
}

/// The area over the curve right of `threshold`: how likely similar pairs are missed, if their similarities are spread
/// evenly. In [0, 1 - threshold].
pub fn false_negative_area(threshold: f64, bands: usize, rows: usize) -> f64 {
    integrate(|s| log_missed(s, bands, rows).exp(), threshold, 1.0)
}

/// The natural logarithm of the probability that no band agrees: b ln(1 - s^r).
fn log_missed(s: f64, bands: usize, rows: usize) -> f64 {
    bands as f64 * (-s.powf(rows as f64)).ln_1p()
}

/// The integral of a monotone `f` over [from, to], to about 1e-9.
///
/// Simpson's rule, halved where it disagrees with its halves (Kuncir, *Algorithm 103*, 1962). That `f` is monotone
/// makes the ends enough to see whether anything happens between them.
fn integrate(f: impl Fn(f64) -> f64, from: f64, to: f64) -> f64 {
    let middle = 0.5 * (from + to);
    let ends = [f(from), f(middle), f(to)];
    refine(&f, [from, to], ends, simpson([from, to], ends), 1e-9, 48)
}

fn refine(
    f: &impl Fn(f64) -> f64,
    [from, to]: [f64; 2],
    [left, mid, right]: [f64; 3],
    whole: f64,
    tolerance: f64,
    depth: u32,
) -> f64 {
    let middle = 0.5 * (from + to);
    let first = [left, f(0.5 * (from + middle)), mid];
    let second = [mid, f(0.5 * (middle + to)), right];
    let halves = [simpson([from, middle], first), simpson([middle, to], second)];
    let difference = halves[0] + halves[1] - whole;
    if depth == 0 || difference.abs() <= 15.0 * tolerance {
        // Richardson's step: the error of the halves is a fifteenth of the difference.
        return halves[0] + halves[1] + difference / 15.0;
    }
    refine(f, [from, middle], first, halves[0], 0.5 * tolerance, depth - 1)
        + refine(f, [middle, to], second, halves[1], 0.5 * tolerance, depth - 1)
}

fn simpson([from, to]: [f64; 2], [left, mid, right]: [f64; 3]) -> f64 {
    (to - from) / 6.0 * (left + 4.0 * mid + right)
}
