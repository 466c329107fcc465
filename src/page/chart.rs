//! A line chart as SVG, drawn by the template `chart.svg`.

use askama::Template;

use super::axis::Axis;
use super::palette::{self, AXIS, FAINT_INK, GRID, GROUND, INK, Look};
use super::text::{count, without_forbidden};
use crate::error::{Error, Result};

/// A chart of lines through points.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Chart {
    /// The title, in a few words.
    pub title: String,
    /// A sentence under the chart.
    pub caption: String,
    /// The axis from left to right.
    pub x: Axis,
    /// The axis from bottom to top.
    pub y: Axis,
    /// The lines, in the order of their colours and markers.
    pub series: Vec<Series>,
}

/// A line of a chart.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Series {
    /// The label at its end.
    pub name: String,
    /// (x, y), in the order in which the line connects them.
    pub points: Vec<(f64, f64)>,
}

impl Series {
    /// A line with this label through `points`.
    pub(crate) fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), points }
    }
}

/// Pixels.
const WIDTH: i32 = 800;
const HEIGHT: i32 = 460;
/// The upper end of the plot, below the title and the label of the vertical axis.
const TOP: i32 = 78;
/// The lower end of the plot, above the ticks and the label of the horizontal axis.
const FLOOR: i32 = HEIGHT - 63;
const SMALL: f64 = 13.0;
const LARGE: f64 = 17.0;
/// The height of a line of labels.
const LINE: i32 = 19;

/// The beginning of every SVG file.
pub(crate) const SVG_MARK: &str = "<!-- resemblance -->\n";

/// `chart` as an SVG file. Legible in light and in dark, by the reader's setting; refers to nothing outside.
///
/// A point that is not a number, or not over 0 on a logarithmic axis, is left out, and the caption says how many were.
///
/// # Errors
/// Only if there is a bug.
pub(crate) fn svg(chart: &Chart) -> Result<String> {
    // Charts on a page share its style sheet; a file brings its own.
    let drawing = chart.element(&format!("<style>\n{}</style>\n", palette::style()));
    Ok(format!("{SVG_MARK}{}", drawing.map_err(|e| Error::bug("a chart cannot be drawn").because(e))?))
}

/// The parts of a chart. Places are pixels.
#[derive(Template)]
#[template(path = "chart.svg", config = "src/page/askama.toml")]
struct Drawing<'a> {
    /// The title for screen readers, and cut to the width of the chart.
    title: String,
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

/// A drawn line and its name.
struct ChartCurve {
    look: &'static Look,
    points: Vec<(i32, i32)>,
    name: String,
    name_y: i32,
}

impl ChartCurve {
    /// The end of the line, if its name is so far above or below that a leader connects them.
    fn leader(&self) -> Option<(i32, i32)> {
        self.points.last().copied().filter(|(_, y)| (y - self.name_y).abs() > LINE / 3)
    }
}

impl Chart {
    /// The chart as an SVG element, with `head` inside before everything else.
    ///
    /// # Errors
    /// Only if there is a bug.
    pub(crate) fn element(&self, head: &str) -> askama::Result<String> {
        let lines: Vec<Vec<(f64, f64)>> = self
            .series
            .iter()
            .map(|series| series.points.iter().filter_map(|point| self.place(*point)).collect())
            .collect();
        let points = || lines.iter().flatten().copied();
        let x_range = self.x.scale.range(points().map(|(x, _)| x));
        let y_range = self.y.scale.range(points().map(|(_, y)| y));
        let y_ticks = self.y.scale.ticks(y_range);
        let left = y_ticks.iter().map(|(_, label)| width(label, SMALL)).max().unwrap_or(0) + 26;
        let names = self.series.iter().map(|series| width(&series.name, SMALL)).max().unwrap_or(0);
        let margin = (names + 44).clamp(60, WIDTH * 2 / 5);
        let right = WIDTH - margin - 1;
        let x = |place: f64| pixel(place, x_range, (left, right));
        let y = |place: f64| pixel(place, y_range, (FLOOR, TOP));
        let drawn: Vec<Vec<(i32, i32)>> =
            lines.iter().map(|line| line.iter().map(|(px, py)| (x(*px), y(*py))).collect()).collect();
        let heights = name_heights(&drawn);
        let curve = |((points, name_y), (at, series)): ((_, i32), (usize, &Series))| ChartCurve {
            look: palette::look(at),
            points,
            name: cut(&series.name, SMALL, margin - 34),
            name_y,
        };
        let curves = drawn.into_iter().zip(heights).zip(self.series.iter().enumerate()).map(curve).collect();
        let on_pixels = |ticks: Vec<(f64, String)>, pixel: &dyn Fn(f64) -> i32| {
            ticks.into_iter().map(|(place, label)| (pixel(place), label)).collect()
        };
        Drawing {
            title: without_forbidden(&self.title),
            shown_title: cut(&self.title, LARGE, WIDTH - 32),
            caption: self.caption(),
            head,
            x_label: cut(&self.x.label, SMALL, right - 31),
            y_label: cut(&self.y.label, SMALL, WIDTH - 32),
            left,
            right,
            x_ticks: on_pixels(self.x.scale.ticks(x_range), &x),
            y_ticks: on_pixels(y_ticks, &y),
            is_empty: points().next().is_none(),
            curves,
        }
        .render()
    }

    /// The caption, with the number of points that are left out.
    pub(super) fn caption(&self) -> String {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let caption = without_forbidden(&self.caption);
        match points().filter(|point| self.place(**point).is_none()).count() {
            0 => caption,
            1 => format!("{caption} One point does not fit on these axes and is left out."),
            n => format!("{caption} {} points do not fit on these axes and are left out.", count(n as u64)),
        }
    }

    fn place(&self, (x, y): (f64, f64)) -> Option<(f64, f64)> {
        Some((self.x.scale.place(x)?, self.y.scale.place(y)?))
    }
}

/// The pixel of a place of the range (low, high) between the pixels `first` and `last`.
fn pixel(place: f64, (low, high): (f64, f64), (first, last): (i32, i32)) -> i32 {
    first + (f64::from(last - first) * (place - low) / (high - low)).round() as i32
}

/// The height of the name of each line: that of its end, moved apart from other names.
fn name_heights(lines: &[Vec<(i32, i32)>]) -> Vec<i32> {
    let (top, bottom) = (TOP + 6, FLOOR - 5);
    // A line without points is named at the bottom.
    let end = |line: &Vec<(i32, i32)>| line.last().map_or(bottom, |(_, y)| *y);
    let mut order: Vec<(i32, usize)> = lines.iter().map(end).zip(0..).collect();
    order.sort_unstable();
    let wanted: Vec<i32> = order.iter().map(|(y, _)| *y).collect();
    let mut heights = vec![bottom; lines.len()];
    for (y, (_, line)) in apart(&wanted, top, bottom).into_iter().zip(order) {
        heights[line] = y;
    }
    heights
}

/// Heights near the `wanted` ones, which are in order, a line apart or as far as there is room between top and bottom.
fn apart(wanted: &[i32], top: i32, bottom: i32) -> Vec<i32> {
    let gaps = i32::try_from(wanted.len()).unwrap_or(i32::MAX).saturating_sub(1).max(1);
    let line = LINE.min((bottom - top) / gaps);
    let mut heights: Vec<i32> = Vec::with_capacity(wanted.len());
    for y in wanted {
        let least = heights.last().map_or(top, |above| above + line);
        heights.push((*y).max(least));
    }
    let mut most = bottom;
    for y in heights.iter_mut().rev() {
        *y = (*y).min(most);
        most = *y - line;
    }
    heights
}

/// `text` cut off at `most` pixels.
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

/// The approximate width of a text in pixels: the reader's fonts are unknown.
fn width(what: &str, size: f64) -> i32 {
    let em: f64 = what
        .chars()
        .map(|c| match c {
            'i' | 'j' | 'l' | 't' | 'f' | 'r' | 'I' | ' ' | '.' | ',' | ':' | ';' | '\'' | '|' | '!'
            | '(' | ')' => 0.36,
            'm' | 'w' | 'M' | 'W' | '@' | '%' => 0.92,
            c if c.is_ascii_uppercase() => 0.72,
            c if c.is_ascii() => 0.59,
            c if (c as u32) < 0x1100 => 0.7,
            _ => 1.05,
        })
        .sum();
    (em * size).ceil() as i32
}

#[cfg(test)]
mod tests {
    use super::super::Scale;
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
    fn whatever_the_numbers_a_chart_comes_out() {
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
                assert!(
                    svg.starts_with(&format!("{SVG_MARK}<svg ")) && svg.trim_end().ends_with("</svg>"),
                    "{svg}"
                );
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{series:?}");
            }
        }
    }

    #[test]
    fn points_that_have_no_place_are_counted() {
        let zero = Series::new("a", vec![(1.0, 0.0), (10.0, 0.0), (100.0, 5.0)]);
        let said = svg(&chart(Scale::Log, vec![zero.clone()])).unwrap();
        assert!(said.contains("<desc>How long it takes. 2 points do not fit"), "{said}");
        assert!(!svg(&chart(Scale::Linear, vec![zero])).unwrap().contains("left out"));
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
        let svg = svg(&chart(Scale::FromZero, vec![line("first", 1.0), line("second", 1.0)])).unwrap();
        assert_eq!(svg.matches("<circle").count(), 4, "three points and one in the legend");
        assert_eq!(svg.matches("<polygon").count(), 4, "three points and one in the legend");
        assert!(svg.contains("first") && svg.contains("second"));
    }

    #[test]
    fn labels_do_not_overlap() {
        assert_eq!(apart(&[10, 12, 100], 0, 200), [10, 29, 100]);
        assert_eq!(apart(&[190, 195, 200], 0, 200), [162, 181, 200]);
        assert_eq!(apart(&[], 0, 200), Vec::<i32>::new());
        let many = apart(&[100; 50], 0, 200);
        assert!(many.is_sorted() && many[0] >= 0 && many[49] <= 200, "{many:?}");
    }
}
