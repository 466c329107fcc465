//! The metrics of a run, which are those of `--metrics`.

use prometheus::proto::MetricFamily;

use super::message::{DataPoint, Gauge, Metric, attribute};

/// Gauges with the names, labels and values of `families`, at `time` in nanoseconds since 1970.
pub(super) fn gauges(families: &[MetricFamily], time: u64) -> Vec<Metric> {
    let gauge = |family: &MetricFamily| {
        let points = family.get_metric().iter().map(|metric| DataPoint {
            time_unix_nano: time,
            as_double: Some(metric.get_gauge().get_value()),
            attributes: metric
                .get_label()
                .iter()
                .map(|label| attribute(label.name(), label.value()))
                .collect(),
        });
        Metric {
            name: family.name().to_owned(),
            description: family.help().to_owned(),
            unit: unit(family.name()).to_owned(),
            gauge: Some(Gauge { data_points: points.collect() }),
        }
    };
    families.iter().map(gauge).collect()
}

/// The unit that the end of a metric's name says, as UCUM writes it.
fn unit(name: &str) -> &'static str {
    match name.rsplit_once('_') {
        Some((_, "seconds")) => "s",
        Some((_, "bytes")) => "By",
        _ => "",
    }
}
