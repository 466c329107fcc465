//! Line charts as SVG, drawn by the template `chart.svg`.

use std::path::Path;

use askama::Template;
use serde::Deserialize;

use super::palette::{self, AXIS, FAINT_INK, GRID, GROUND, INK, Look};
use super::text::{decimal, without_forbidden};
use crate::error::counts::count;
use crate::error::{Context, Error, Result};

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Chart {
    pub title: String,
    pub caption: String,
    pub x: Axis,
    pub y: Axis,
    /// The lines, whose order determines their colours and markers.
    pub series: Vec<Series>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Series {
    pub name: String,
    /// The points (x, y), which the line connects in this order.
    pub points: Vec<(f64, f64)>,
}

impl Series {
    pub(crate) fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), points }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Axis {
    /// The name and the unit of the quantity.
    pub label: String,
    pub scale: Scale,
}

impl Axis {
    pub(crate) fn new(label: impl Into<String>, scale: Scale) -> Self {
        Self { label: label.into(), scale }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Linear, from the smallest to the largest value.
    Linear,
    /// Linear from 0, so that lengths can be compared.
    FromZero,
    /// Logarithmic, for positive numbers only.
    Log,
}

/// Reads series from a CSV file with the columns `name`, `documents` and `seconds`. Each row is a point in the series `name`. Series keep
/// their order, and points are sorted by the number of documents. Other columns are ignored.
pub(crate) fn read_series(path: &Path) -> Result<Vec<Series>> {
    #[derive(Deserialize)]
    struct SeriesRow {
        name: String,
        documents: f64,
        seconds: f64,
    }
    let shown = path.display();
    let text = std::fs::read_to_string(path).context(|| format!("cannot read {shown}"))?;
    let mut rows = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let wrong =
        |e: csv::Error| Error::job(format!("{shown} is not CSV with the expected columns")).because(e);
    let header = rows.headers().map_err(wrong)?.clone();
    let mut columns = ["name", "documents", "seconds"].into_iter();
    if let Some(missing) = columns.find(|name| header.iter().all(|column| column != *name)) {
        return Err(Error::job(format!(
            "{shown} has no column `{missing}`: expected name, documents and seconds in its first line"
        )));
    }
    let mut series: Vec<Series> = Vec::new();
    for record in rows.records() {
        let record = record.map_err(wrong)?;
        let SeriesRow { name, documents, seconds } = record.deserialize(Some(&header)).map_err(wrong)?;
        if name.is_empty() || ![documents, seconds].iter().all(|n| n.is_finite() && *n > 0.0) {
            let line = record.position().map_or(0, csv::Position::line);
            return Err(Error::job(format!(
                "{shown} line {line}: expected a name, and documents and seconds over 0"
            )));
        }
        match series.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push((documents, seconds)),
            None => series.push(Series::new(name, vec![(documents, seconds)])),
        }
    }
    for line in &mut series {
        line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    Ok(series)
}

const MAX_TICKS: usize = 9;

impl Scale {
    /// Returns the coordinate of `value` on the axis, before it is scaled to pixels, if the axis can show it.
    fn coordinate(self, value: f64) -> Option<f64> {
        // Numbers of 1e100 or more look the same in a drawing, and their differences can overflow.
        let drawable = value.is_finite() && value.abs() < 1e100;
        match self {
            Scale::Linear | Scale::FromZero => drawable.then_some(value),
            Scale::Log => (drawable && value > 0.0).then(|| value.log10()),
        }
    }

    /// Returns the range of the axis: from the lowest to the highest of `coordinates`, with a margin.
    fn range(self, coordinates: impl Iterator<Item = f64>) -> (f64, f64) {
        let (mut low, mut high) =
            coordinates.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), c| (low.min(c), high.max(c)));
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        if self == Scale::FromZero {
            (low, high) = (low.min(0.0), high.max(0.0));
        }
        if high - low <= 1e-9 * high.abs().max(low.abs()) {
            // Shows a single value in the middle.
            return match self {
                Scale::FromZero => (0.0, 1.0),
                Scale::Linear => (low - (high.abs() * 0.5).max(0.5), high + (high.abs() * 0.5).max(0.5)),
                Scale::Log => (low - 0.5, high + 0.5),
            };
        }
        let margin = (high - low) * 0.04;
        let starts_at_zero = self == Scale::FromZero && low == 0.0;
        (if starts_at_zero { 0.0 } else { low - margin }, high + margin)
    }

    /// Returns the coordinate and the label of each tick in a range of coordinates.
    fn ticks(self, (low, high): (f64, f64)) -> Vec<(f64, String)> {
        match self {
            Scale::Linear | Scale::FromZero => linear_ticks(low, high),
            Scale::Log => log_ticks(low, high),
        }
    }
}

/// Returns ticks at multiples of 1, 2 or 5 times a power of ten.
fn linear_ticks(low: f64, high: f64) -> Vec<(f64, String)> {
    let least_step = (high - low) / 8.0;
    if !(least_step.is_normal() && least_step > 0.0) {
        return Vec::new();
    }
    let power = least_step.log10().floor();
    let unit = 10f64.powf(power);
    let factor = [1.0, 2.0, 5.0].into_iter().find(|f| f * unit >= least_step).unwrap_or(10.0);
    let step = factor * unit;
    let power = if factor >= 10.0 { power + 1.0 } else { power };
    let digits = (-power).clamp(0.0, 12.0) as usize;
    let first = (low / step).ceil();
    let ticks = (0..MAX_TICKS).map(|i| (first + i as f64) * step).take_while(|tick| *tick <= high);
    ticks.map(|tick| (tick, decimal(tick, digits))).collect()
}

/// Returns ticks at 1, 2 and 5 times the powers of ten, or only at the powers of ten if these are too many.
fn log_ticks(low: f64, high: f64) -> Vec<(f64, String)> {
    let (first, last) = (low.floor() as i32, high.ceil() as i32);
    let tick = |factor: f64, power: i32| {
        let value = factor * 10f64.powi(power);
        let label = match power {
            -6..15 => decimal(value, (-power).max(0) as usize),
            _ => format!("{value:e}"),
        };
        (f64::from(power) + factor.log10(), label)
    };
    let is_shown = |(at, _): &(f64, String)| (low..=high).contains(at);
    let fine = (first..=last).flat_map(|power| [1.0, 2.0, 5.0].map(|factor| tick(factor, power)));
    let fine: Vec<_> = fine.filter(is_shown).collect();
    if fine.len() < 3 {
        // In a range below a factor of about five, linear steps are clearer.
        let ticks = linear_ticks(10f64.powf(low), 10f64.powf(high)).into_iter();
        return ticks
            .filter(|(value, _)| *value > 0.0)
            .map(|(value, label)| (value.log10(), label))
            .collect();
    }
    if fine.len() <= MAX_TICKS {
        return fine;
    }
    let step = ((last - first) as usize).div_ceil(MAX_TICKS).max(1);
    (first..=last).step_by(step).map(|power| tick(1.0, power)).filter(is_shown).collect()
}

const WIDTH: i32 = 800;
const HEIGHT: i32 = 460;
/// The top of the plot, below the title and the label of the vertical axis.
const TOP: i32 = 78;
/// The bottom of the plot, above the ticks and the label of the horizontal axis.
const FLOOR: i32 = HEIGHT - 63;
const SMALL: f64 = 13.0;
const LARGE: f64 = 17.0;
/// The line height of labels.
const LINE: i32 = 19;

/// The first bytes of every SVG file that this program writes.
pub(crate) const SVG_MARK: &str = "<!-- resemblance -->\n";

/// Renders `chart` as an SVG file that needs no other file, legible in light and dark mode.
///
/// Omits points that an axis cannot show: infinite values, and values that are not positive on a logarithmic axis. The caption states
/// their number.
pub(crate) fn svg(chart: &Chart) -> Result<String> {
    // Charts on a page share one style sheet. A separate file needs its own.
    let drawing = chart.element(&format!("<style>\n{}</style>\n", palette::style()));
    Ok(format!("{SVG_MARK}{}", drawing.map_err(|e| Error::bug("a chart cannot be drawn").because(e))?))
}

/// The data of the template `chart.svg`. Coordinates are in pixels.
#[derive(Template)]
#[template(path = "chart.svg", config = "src/page/askama.toml")]
struct Drawing<'a> {
    /// The title for screen readers.
    title: String,
    /// The title, cut off at the width of the chart.
    shown_title: String,
    caption: String,
    head: &'a str,
    x_label: String,
    y_label: String,
    left: i32,
    right: i32,
    x_ticks: Vec<(i32, String)>,
    y_ticks: Vec<(i32, String)>,
    is_empty: bool,
    curves: Vec<ChartCurve>,
}

impl Drawing<'_> {
    fn middle(&self) -> i32 {
        (self.left + self.right + 1) / 2
    }
}

/// A line of the drawing, with its name.
struct ChartCurve {
    look: &'static Look,
    points: Vec<(i32, i32)>,
    name: String,
    name_y: i32,
}

impl ChartCurve {
    /// Returns the end of the line if its name is so far above or below that a leader has to connect the two.
    fn leader(&self) -> Option<(i32, i32)> {
        self.points.last().copied().filter(|(_, y)| (y - self.name_y).abs() > LINE / 3)
    }
}

impl Chart {
    /// Renders the chart as an SVG element. `head` is its first child.
    pub(crate) fn element(&self, head: &str) -> askama::Result<String> {
        let lines =
            self.series.iter().map(|series| series.points.iter().filter_map(|p| self.coordinates(*p)));
        let lines: Vec<Vec<(f64, f64)>> = lines.map(Iterator::collect).collect();
        let points = || lines.iter().flatten().copied();
        let x_range = self.x.scale.range(points().map(|(x, _)| x));
        let y_range = self.y.scale.range(points().map(|(_, y)| y));
        let y_ticks = self.y.scale.ticks(y_range);
        let left = y_ticks.iter().map(|(_, label)| width(label, SMALL)).max().unwrap_or(0) + 26;
        let names = self.series.iter().map(|series| width(&series.name, SMALL)).max().unwrap_or(0);
        let margin = (names + 44).clamp(60, WIDTH * 2 / 5);
        let right = WIDTH - margin - 1;
        let x = |coordinate: f64| pixel(coordinate, x_range, (left, right));
        let y = |coordinate: f64| pixel(coordinate, y_range, (FLOOR, TOP));
        let drawn: Vec<Vec<(i32, i32)>> =
            lines.iter().map(|line| line.iter().map(|point| (x(point.0), y(point.1))).collect()).collect();
        let heights = name_heights(&drawn);
        let curve = |(((at, series), points), name_y): (((usize, &Series), _), i32)| ChartCurve {
            look: palette::look(at),
            points,
            name: cut(&series.name, SMALL, margin - 34),
            name_y,
        };
        let curves = self.series.iter().enumerate().zip(drawn).zip(heights).map(curve).collect();
        Drawing {
            title: without_forbidden(&self.title),
            shown_title: cut(&self.title, LARGE, WIDTH - 32),
            caption: self.caption(),
            head,
            x_label: cut(&self.x.label, SMALL, right - 31),
            y_label: cut(&self.y.label, SMALL, WIDTH - 32),
            left,
            right,
            x_ticks: self.x.scale.ticks(x_range).into_iter().map(|(at, label)| (x(at), label)).collect(),
            y_ticks: y_ticks.into_iter().map(|(at, label)| (y(at), label)).collect(),
            is_empty: points().next().is_none(),
            curves,
        }
        .render()
    }

    /// Returns the caption, with the number of omitted points.
    pub(super) fn caption(&self) -> String {
        let points = self.series.iter().flat_map(|series| &series.points);
        let caption = without_forbidden(&self.caption);
        match points.filter(|point| self.coordinates(**point).is_none()).count() {
            0 => caption,
            1 => format!("{caption} One point does not fit on these axes and is left out."),
            n => format!("{caption} {} points do not fit on these axes and are left out.", count(n as u64)),
        }
    }

    fn coordinates(&self, (x, y): (f64, f64)) -> Option<(f64, f64)> {
        Some((self.x.scale.coordinate(x)?, self.y.scale.coordinate(y)?))
    }
}

fn pixel(coordinate: f64, (low, high): (f64, f64), (first, last): (i32, i32)) -> i32 {
    first + (f64::from(last - first) * (coordinate - low) / (high - low)).round() as i32
}

/// Returns the vertical position of the name of each line: at the end of the line, unless it would overlap another name.
fn name_heights(lines: &[Vec<(i32, i32)>]) -> Vec<i32> {
    let (top, bottom) = (TOP + 6, FLOOR - 5);
    // A line without points has its name at the bottom.
    let end = |line: &Vec<(i32, i32)>| line.last().map_or(bottom, |(_, y)| *y);
    let mut order: Vec<(i32, usize)> = lines.iter().map(end).zip(0..).collect();
    order.sort_unstable();
    let ends: Vec<i32> = order.iter().map(|(y, _)| *y).collect();
    let mut heights = vec![bottom; lines.len()];
    for (y, (_, line)) in spread(&ends, top, bottom).into_iter().zip(order) {
        heights[line] = y;
    }
    heights
}

/// Moves sorted vertical positions apart to a distance of one line height, or less if the names do not fit between `top` and `bottom`.
fn spread(heights: &[i32], top: i32, bottom: i32) -> Vec<i32> {
    let gaps = i32::try_from(heights.len()).unwrap_or(i32::MAX).saturating_sub(1).max(1);
    let line = LINE.min((bottom - top) / gaps);
    let mut spread: Vec<i32> = Vec::with_capacity(heights.len());
    for y in heights {
        let least = spread.last().map_or(top, |above| above + line);
        spread.push((*y).max(least));
    }
    let mut most = bottom;
    for y in spread.iter_mut().rev() {
        *y = (*y).min(most);
        most = *y - line;
    }
    spread
}

fn cut(text: &str, size: f64, most: i32) -> String {
    let mut text = without_forbidden(text);
    if width(&text, size) > most {
        while !text.is_empty() && width(&text, size) + width("…", size) > most {
            text.pop();
        }
        text.push('…');
    }
    text
}

/// Returns the approximate width of a text in pixels. The reader's fonts are unknown.
fn width(text: &str, size: f64) -> i32 {
    let em = |c: char| match c {
        'i' | 'j' | 'l' | 't' | 'f' | 'r' | 'I' | ' ' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | '('
        | ')' => 0.36,
        'm' | 'w' | 'M' | 'W' | '@' | '%' => 0.92,
        c if c.is_ascii_uppercase() => 0.72,
        c if c.is_ascii() => 0.59,
        c if (c as u32) < 0x1100 => 0.7,
        _ => 1.05,
    };
    (text.chars().map(em).sum::<f64>() * size).ceil() as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(scale: Scale, series: Vec<Series>) -> Chart {
        Chart {
            title: "seconds".into(),
            caption: "How long it takes.".into(),
            x: Axis::new("documents", scale),
            y: Axis::new("seconds", scale),
            series,
        }
    }

    #[test]
    fn charts_render_for_any_numbers() {
        let odd = [0.0, -1.0, 1.0, 1e-300, 1e99, 1e308, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        let mut cases = vec![vec![], vec![Series::new("empty", vec![])]];
        for a in odd {
            cases.push(vec![Series::new("one", vec![(a, a)])]);
            for b in odd {
                cases.push(vec![Series::new("two", vec![(a, b), (b, a)]), Series::new("none", vec![])]);
            }
        }
        cases.push((0..40).map(|i| Series::new(format!("series {i}"), vec![(1.0, 2.0)])).collect());
        for scale in [Scale::Linear, Scale::FromZero, Scale::Log] {
            for series in &cases {
                let svg = svg(&chart(scale, series.clone())).unwrap();
                assert!(svg.starts_with(&format!("{SVG_MARK}<svg ")), "{svg}");
                assert!(svg.trim_end().ends_with("</svg>"), "{svg}");
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{series:?}");
            }
        }
    }

    #[test]
    fn names_are_text() {
        let mut chart = chart(Scale::Linear, vec![Series::new("<b>&\"'", vec![(1.0, 1.0)])]);
        chart.title = "</title><script>\u{1}".into();
        let svg = svg(&chart).unwrap();
        assert!(svg.contains("&#60;b&#62;&#38;&#34;&#39;"), "{svg}");
        assert!(!svg.contains("<script>") && !svg.contains("<b>") && !svg.contains('\u{1}'), "{svg}");
    }

    #[test]
    fn every_point_has_a_marker_and_every_line_a_name() {
        let line = |name: &str, y: f64| Series::new(name, vec![(1.0, y), (2.0, y), (3.0, y)]);
        let drawn = svg(&chart(Scale::FromZero, vec![line("first", 1.0), line("second", 1.0)])).unwrap();
        for marker in ["<circle", "<polygon"] {
            assert_eq!(drawn.matches(marker).count(), 4, "three points and one in the legend");
        }
        assert!(drawn.contains("first") && drawn.contains("second"));
        let zero = Series::new("a", vec![(1.0, 0.0), (10.0, 0.0), (100.0, 5.0)]);
        let said = svg(&chart(Scale::Log, vec![zero.clone()])).unwrap();
        assert!(said.contains("<desc>How long it takes. 2 points do not fit"), "{said}");
        assert!(!svg(&chart(Scale::Linear, vec![zero])).unwrap().contains("left out"));
    }

    #[test]
    fn labels_do_not_overlap() {
        assert_eq!(spread(&[10, 12, 100], 0, 200), [10, 29, 100]);
        assert_eq!(spread(&[190, 195, 200], 0, 200), [162, 181, 200]);
        assert_eq!(spread(&[], 0, 200), Vec::<i32>::new());
        let many = spread(&[100; 50], 0, 200);
        assert!(many.is_sorted() && many[0] >= 0 && many[49] <= 200, "{many:?}");
    }

    fn labels(scale: Scale, values: &[f64]) -> Vec<String> {
        let range = scale.range(values.iter().filter_map(|v| scale.coordinate(*v)));
        scale.ticks(range).into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(labels(Scale::Log, &[100.0, 2000.0]), ["100", "200", "500", "1,000", "2,000"]);
        assert_eq!(labels(Scale::Log, &[0.002, 0.03]), ["0.002", "0.005", "0.01", "0.02"]);
        let millions = ["1", "10", "100", "1,000", "10,000", "100,000", "1,000,000"];
        assert_eq!(labels(Scale::Log, &[1.0, 1e6]), millions);
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
                    let coordinates = || [a, b].into_iter().filter_map(|v| scale.coordinate(v));
                    let (low, high) = scale.range(coordinates());
                    assert!(low < high, "{scale:?} {a} {b}: {low} {high}");
                    assert!(coordinates().all(|p| (low..=high).contains(&p)), "{scale:?} {a} {b}");
                    let ticks = scale.ticks((low, high));
                    let inside = ticks.iter().all(|(p, _)| (low..=high).contains(p));
                    assert!(inside && ticks.len() <= 3 * MAX_TICKS, "{scale:?} {a} {b}: {ticks:?}");
                }
            }
        }
    }

    #[test]
    fn a_log_axis_does_not_show_zero() {
        assert_eq!([0.0, -1.0].map(|value| Scale::Log.coordinate(value)), [None, None]);
        assert_eq!([0.0, f64::NAN].map(|value| Scale::Linear.coordinate(value)), [Some(0.0), None]);
    }

    fn read(text: &str) -> Result<Vec<Series>> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        read_series(file.path())
    }

    #[test]
    fn series_are_read_by_name_and_errors_name_the_line() {
        let found = read("run,name,seconds,documents\n1,b,0.5,1000\n2,a,3,10\n3, b ,0.25,100\n").unwrap();
        let b = Series::new("b", vec![(100.0, 0.25), (1000.0, 0.5)]);
        assert_eq!(found, [b, Series::new("a", vec![(10.0, 3.0)])]);
        assert_eq!(read("name,documents,seconds\n").unwrap(), []);
        for (text, said) in [
            ("name,documents\na,1\n", "no column `seconds`"),
            ("", "no column `name`"),
            ("name,documents,seconds\na,1,2\n,1,2\n", "line 3"),
            ("name,documents,seconds\na,0,2\n", "line 2"),
            ("name,documents,seconds\na,1,nan\n", "line 2"),
            ("name,documents,seconds\na,many,2\n", "line: 2"),
            ("name,documents,seconds\na,1\n", "line: 2"),
        ] {
            let error = read(text).unwrap_err();
            let all = format!("{error} {}", error.one_line());
            assert!(all.contains(said), "{all}");
        }
        let missing = read_series(Path::new("no/such.csv")).unwrap_err();
        assert!(missing.to_string().contains("no/such.csv"), "{missing}");
    }
}
