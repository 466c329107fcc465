//! The S-curve of banding, and the numbers that follow from it.
//!
//! With b bands of r rows, two documents of Jaccard similarity s share a bucket with probability 1 - (1 - s^r)^b
//! (Leskovec, Rajaraman, Ullman, *Mining of Massive Datasets*, section 3.4.2).

/// The probability that two documents of Jaccard similarity `s`, in [0, 1], share a bucket in at least one of `bands`
/// bands of `rows` rows. Rises with `s` and with `bands`, falls with `rows`.
pub fn probability(s: f64, bands: usize, rows: usize) -> f64 {
    // 1 - (1 - x)^b loses every digit if x is tiny; this form keeps them, and is exact at s = 0 and s = 1.
    -log_missed(s, bands, rows).exp_m1()
}

/// The similarity where the curve is steepest, about: (1/b)^(1/r).
pub(crate) fn threshold(bands: usize, rows: usize) -> f64 {
    (1.0 / bands as f64).powf(1.0 / rows as f64)
}

/// The area under the curve left of `threshold`: how likely pairs that are too far apart become candidates, if their
/// similarities are spread evenly. In [0, threshold].
pub(crate) fn false_positive_area(threshold: f64, bands: usize, rows: usize) -> f64 {
    integrate(|s| probability(s, bands, rows), 0.0, threshold)
}

/// The area over the curve right of `threshold`: how likely similar pairs are missed, if their similarities are spread
/// evenly. In [0, 1 - threshold].
pub(crate) fn false_negative_area(threshold: f64, bands: usize, rows: usize) -> f64 {
    integrate(|s| log_missed(s, bands, rows).exp(), threshold, 1.0)
}

/// The natural logarithm of the probability that no band agrees: b ln(1 - s^r).
fn log_missed(s: f64, bands: usize, rows: usize) -> f64 {
    bands as f64 * (-s.powf(rows as f64)).ln_1p()
}

/// The integral of a monotone `f` over [from, to], to about 1e-9.
///
/// Simpson's rule, halved where it disagrees with its halves (Kuncir, *Algorithm 103*, 1962). Since `f` is monotone,
/// its ends show whether it changes between them.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_curve_is_the_books() {
        // 1 - (1 - s^r)^b in rational arithmetic; the first three are the table of section 3.4.2.
        for (s, b, r, expected) in [
            (0.2, 20, 5, 0.006380581304768474),
            (0.5, 20, 5, 0.47005071531687653),
            (0.8, 20, 5, 0.9996439421094793),
            (0.8, 32, 4, 0.9999999525011427),
            (1e-6, 1000, 2, 9.999999995005e-10),
            (0.0, 20, 5, 0.0),
            (1.0, 20, 5, 1.0),
        ] {
            let found = probability(s, b, r);
            assert!((found - expected).abs() <= 1e-13 * expected, "{s} {b} {r}: {found}");
        }
    }

    #[test]
    fn the_threshold_is_where_the_book_says() {
        for (b, r, expected) in
            [(20, 5, 0.5492802716530588), (25, 4, 0.4472135954999579), (4, 2, 0.5), (1, 9, 1.0)]
        {
            assert!((threshold(b, r) - expected).abs() < 1e-15, "{b} {r}");
        }
    }

    #[test]
    fn areas_agree_with_a_fine_sum() {
        // The midpoint rule with 400,000 steps.
        for (t, b, r, positives, negatives) in [
            (0.5, 20, 5, 0.04463489348430348, 0.04598472781981867),
            (0.8, 32, 4, 0.42074661196406266, 4.0260613780235253e-10),
            (0.8, 9, 13, 0.025311863202514034, 0.03328213601214697),
        ] {
            assert!((false_positive_area(t, b, r) - positives).abs() < 1e-8, "{t} {b} {r}");
            assert!((false_negative_area(t, b, r) - negatives).abs() < 1e-8, "{t} {b} {r}");
        }
        // One band: the integral of s^r is t^(r+1) / (r+1), even for a curve that is nearly vertical.
        for r in [1, 2, 10_000] {
            let exact = 1.0 / (r + 1) as f64;
            assert!((false_positive_area(1.0, 1, r) - exact).abs() < 1e-8, "{r}");
        }
    }

    proptest! {
        #[test]
        fn it_is_a_probability_that_rises_with_similarity_and_bands(
            s in 0.0..=1.0f64, step in 0.0..=1.0f64, b in 1usize..500, r in 1usize..500,
        ) {
            let p = probability(s, b, r);
            prop_assert!((0.0..=1.0).contains(&p));
            prop_assert!(probability(s + (1.0 - s) * step, b, r) >= p);
            prop_assert!(probability(s, b + 1, r) >= p);
            prop_assert!(probability(s, b, r + 1) <= p);
        }

        #[test]
        fn the_areas_fill_the_square_with_the_curve(t in 0.01..=1.0f64, b in 1usize..100, r in 1usize..100) {
            // Area under the whole curve, from both sides of any threshold.
            let under = false_positive_area(t, b, r) + (1.0 - t) - false_negative_area(t, b, r);
            prop_assert!((under - false_positive_area(1.0, b, r)).abs() < 1e-7);
        }
    }
}
