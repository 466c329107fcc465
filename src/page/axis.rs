//! An axis: its label, its scale and its ticks.

use super::text::decimal;

/// The scale of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Evenly, from the least value to the greatest.
    Linear,
    /// Evenly, from 0, so that lengths can be compared.
    FromZero,
    /// Logarithmic: only for numbers over 0.
    Log,
}

/// One of the two axes of a chart.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Axis {
    /// The quantity with its unit.
    pub label: String,
    /// Its scale.
    pub scale: Scale,
}

impl Axis {
    /// An axis with the label `label`.
    pub(crate) fn new(label: impl Into<String>, scale: Scale) -> Self {
        Self { label: label.into(), scale }
    }
}

/// The most ticks of an axis.
const MAX_TICKS: usize = 9;

impl Scale {
    /// The place of `value` on the axis, before it is scaled to the drawing; `None` if it has none.
    pub(super) fn place(self, value: f64) -> Option<f64> {
        // Larger numbers cannot be distinguished in a drawing, and their differences overflow.
        let drawable = value.is_finite() && value.abs() < 1e100;
        match self {
            Scale::Linear | Scale::FromZero => drawable.then_some(value),
            Scale::Log => (drawable && value > 0.0).then(|| value.log10()),
        }
    }

    /// The least and the greatest place that the drawing shows for values at `places`, with a margin around them.
    pub(super) fn range(self, places: impl Iterator<Item = f64>) -> (f64, f64) {
        let (mut low, mut high) =
            places.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), p| (low.min(p), high.max(p)));
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        if self == Scale::FromZero {
            (low, high) = (low.min(0.0), high.max(0.0));
        }
        if high - low <= 1e-9 * high.abs().max(low.abs()) {
            // A single value is in the middle.
            let around = if self == Scale::Log { 0.5 } else { (high.abs() * 0.5).max(0.5) };
            return match self {
                Scale::FromZero => (0.0, 1.0),
                Scale::Linear | Scale::Log => (low - around, high + around),
            };
        }
        let air = (high - low) * 0.04;
        let stands_on_zero = self == Scale::FromZero && low == 0.0;
        (if stands_on_zero { 0.0 } else { low - air }, high + air)
    }

    /// The ticks between two places, each with its label.
    pub(super) fn ticks(self, (low, high): (f64, f64)) -> Vec<(f64, String)> {
        match self {
            Scale::Linear | Scale::FromZero => even(low, high),
            Scale::Log => by_powers(low, high),
        }
    }
}

/// Ticks at multiples of 1, 2 or 5 times a power of ten.
fn even(low: f64, high: f64) -> Vec<(f64, String)> {
    let least_step = (high - low) / 8.0;
    if !(least_step.is_normal() && least_step > 0.0) {
        return Vec::new();
    }
    let power = least_step.log10().floor();
    let unit = 10f64.powf(power);
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|f| f * unit >= least_step).unwrap_or(10.0);
    let step = factor * unit;
    let power = if factor >= 10.0 { power + 1.0 } else { power };
    let places = (-power).clamp(0.0, 12.0) as usize;
    let first = (low / step).ceil();
    (0..MAX_TICKS)
        .map(|i| (first + i as f64) * step)
        .take_while(|tick| *tick <= high)
        .map(|tick| (tick, decimal(tick, places)))
        .collect()
}

/// Ticks at 1, 2 and 5 times the powers of ten, or only at the powers if the others would be too many.
fn by_powers(low: f64, high: f64) -> Vec<(f64, String)> {
    let (first, last) = (low.floor() as i32, high.ceil() as i32);
    let label = |factor: f64, power: i32| {
        let value = factor * 10f64.powi(power);
        match power {
            -6..15 => decimal(value, (-power).max(0) as usize),
            _ => format!("{value:e}"),
        }
    };
    let fine: Vec<_> = (first..=last)
        .flat_map(|power| {
            [1.0, 2.0, 5.0].map(|factor| (f64::from(power) + f64::log10(factor), factor, power))
        })
        .filter(|(place, ..)| (low..=high).contains(place))
        .map(|(place, factor, power)| (place, label(factor, power)))
        .collect();
    if fine.len() < 3 {
        // Below a factor of about five, even steps are clearer.
        return even(10f64.powf(low), 10f64.powf(high))
            .into_iter()
            .filter(|(value, _)| *value > 0.0)
            .map(|(value, label)| (value.log10(), label))
            .collect();
    }
    if fine.len() <= MAX_TICKS {
        return fine;
    }
    let every = ((last - first) as usize).div_ceil(MAX_TICKS).max(1);
    (first..=last)
        .step_by(every)
        .filter(|power| (low..=high).contains(&f64::from(*power)))
        .map(|power| (f64::from(power), label(1.0, power)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: Scale, values: &[f64]) -> Vec<String> {
        let range = scale.range(values.iter().filter_map(|v| scale.place(*v)));
        scale.ticks(range).into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(labels(Scale::Log, &[100.0, 2000.0]), ["100", "200", "500", "1,000", "2,000"]);
        assert_eq!(labels(Scale::Log, &[0.002, 0.03]), ["0.002", "0.005", "0.01", "0.02"]);
        assert_eq!(
            labels(Scale::Log, &[1.0, 1e6]),
            ["1", "10", "100", "1,000", "10,000", "100,000", "1,000,000"]
        );
        assert_eq!(labels(Scale::FromZero, &[300.0, 1000.0]), ["0", "200", "400", "600", "800", "1,000"]);
        assert_eq!(labels(Scale::Linear, &[0.3, 0.9]), ["0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9"]);
        assert_eq!(labels(Scale::Log, &[300.0, 400.0]), ["300", "320", "340", "360", "380", "400"]);
    }

    #[test]
    fn every_range_has_some_ticks_and_not_many() {
        let odd = [0.0, -0.0, 1e-300, 5e-324, 1.0, -1.0, 1e15, 1e99, -1e99, 1e300, f64::NAN, f64::INFINITY];
        for scale in [Scale::Linear, Scale::FromZero, Scale::Log] {
            for a in odd {
                for b in odd {
                    let places = || [a, b].into_iter().filter_map(|v| scale.place(v));
                    let (low, high) = scale.range(places());
                    assert!(low < high, "{scale:?} {a} {b}: {low} {high}");
                    assert!(places().all(|p| (low..=high).contains(&p)), "{scale:?} {a} {b}");
                    let ticks = scale.ticks((low, high));
                    assert!(ticks.len() <= 3 * MAX_TICKS, "{scale:?} {a} {b}: {ticks:?}");
                    assert!(
                        ticks.iter().all(|(p, _)| (low..=high).contains(p)),
                        "{scale:?} {a} {b}: {ticks:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_log_axis_has_no_place_for_zero() {
        assert_eq!(Scale::Log.place(0.0), None);
        assert_eq!(Scale::Log.place(-1.0), None);
        assert_eq!(Scale::Linear.place(0.0), Some(0.0));
        assert_eq!(Scale::Linear.place(f64::NAN), None);
    }
}
