//! A line chart as SVG.

use plotters::backend::SVGBackend;
use plotters::chart::ChartBuilder;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea};
use plotters::element::{Circle, PathElement, Polygon, Text};
use plotters::series::LineSeries;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, IntoFont, RGBColor, TextStyle};

use super::axis::Axis;
use super::palette::{self, AXIS, Colour, FAINT_INK, GRID, GROUND, INK, Marker};
use super::text::{count, escape, is_forbidden};
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
const WIDTH: u32 = 800;
const HEIGHT: u32 = 460;
/// Above the plot: the title and the label of the vertical axis.
const TOP: u32 = 78;
/// Below the plot: ticks and the label of the horizontal axis.
const BOTTOM: u32 = 62;
const SMALL: f64 = 13.0;
const LARGE: f64 = 17.0;
/// The height of a line of labels.
const LINE: i32 = 19;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

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
    let element = element(chart, &format!("<style>\n{}</style>\n", palette::style()))?;
    Ok(format!("{SVG_MARK}{element}"))
}

/// `chart` as an SVG element, with `head` inside before everything else.
pub(crate) fn element(chart: &Chart, head: &str) -> Result<String> {
    let mut drawing = String::new();
    draw(chart, &mut drawing).map_err(|e| Error::bug("a chart cannot be drawn").because(e))?;
    // Replace the library's opening tag by one with a text for screen readers.
    let body = drawing.split_once('>').map_or("", |(_, body)| body.trim_start());
    let (title, caption) = (escape(&chart.title), caption(chart));
    let caption = escape(&caption);
    Ok(format!(
        "<svg class=\"chart\" width=\"{WIDTH}\" height=\"{HEIGHT}\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-label=\"{title}. {caption}\">\n\
         {head}<title>{title}</title>\n<desc>{caption}</desc>\n{body}"
    ))
}

/// The caption, with the number of points that are left out.
pub(super) fn caption(chart: &Chart) -> String {
    let points = || chart.series.iter().flat_map(|series| &series.points);
    let out = points().count() - points().filter(|point| place(chart, **point).is_some()).count();
    match out {
        0 => chart.caption.clone(),
        1 => format!("{} One point does not fit on these axes and is left out.", chart.caption),
        n => {
            format!("{} {} points do not fit on these axes and are left out.", chart.caption, count(n as u64))
        }
    }
}

fn place(chart: &Chart, (x, y): (f64, f64)) -> Option<(f64, f64)> {
    Some((chart.x.scale.place(x)?, chart.y.scale.place(y)?))
}

fn draw(chart: &Chart, drawing: &mut String) -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
    let lines: Vec<Vec<(f64, f64)>> = chart
        .series
        .iter()
        .map(|series| series.points.iter().filter_map(|point| place(chart, *point)).collect())
        .collect();
    let points = || lines.iter().flatten().copied();
    let x_range = chart.x.scale.range(points().map(|(x, _)| x));
    let y_range = chart.y.scale.range(points().map(|(_, y)| y));
    let (x_ticks, y_ticks) = (chart.x.scale.ticks(x_range), chart.y.scale.ticks(y_range));
    let left = y_ticks.iter().map(|(_, label)| width(label, SMALL)).max().unwrap_or(0) + 26;
    let names = chart.series.iter().map(|series| width(&series.name, SMALL)).max().unwrap_or(0);
    let right = (names + 44).clamp(60, WIDTH as i32 * 2 / 5);

    let root = SVGBackend::with_string(drawing, (WIDTH, HEIGHT)).into_drawing_area();
    root.fill(&GROUND.rgb())?;
    let all = WIDTH as i32 - 32;
    say(&root, &chart.title, (16, 16), text(LARGE, &INK, HPos::Left, VPos::Top), all)?;
    say(&root, &chart.y.label, (16, 48), text(SMALL, &FAINT_INK, HPos::Left, VPos::Top), all)?;
    let middle = (left + WIDTH as i32 - right) / 2;
    let under = (middle, HEIGHT as i32 - 16);
    say(&root, &chart.x.label, under, text(SMALL, &FAINT_INK, HPos::Center, VPos::Bottom), all - right)?;

    let label = |ticks: &[(f64, String)], place: &f64| {
        ticks.iter().find(|(tick, _)| tick == place).map_or(String::new(), |(_, label)| label.clone())
    };
    let mut plot = ChartBuilder::on(&root)
        .margin_top(TOP)
        .margin_right(right)
        .x_label_area_size(BOTTOM)
        .y_label_area_size(left)
        .build_cartesian_2d(Places::new(x_range, &x_ticks), Places::new(y_range, &y_ticks))?;
    plot.configure_mesh()
        .bold_line_style(GRID.rgb())
        .light_line_style(GRID.rgb())
        .axis_style(AXIS.rgb())
        .x_label_formatter(&|place| label(&x_ticks, place))
        .y_label_formatter(&|place| label(&y_ticks, place))
        .x_label_style(text(SMALL, &FAINT_INK, HPos::Center, VPos::Top))
        .y_label_style(text(SMALL, &FAINT_INK, HPos::Right, VPos::Center))
        .draw()?;
    if points().next().is_none() {
        let at = (middle, (TOP as i32 + HEIGHT as i32 - BOTTOM as i32) / 2);
        say(&root, "nothing to show", at, text(SMALL, &FAINT_INK, HPos::Center, VPos::Center), all - right)?;
    }
    for (i, line) in lines.iter().enumerate() {
        let colour = palette::look(i).colour.rgb();
        plot.draw_series(LineSeries::new(line.iter().copied(), colour.stroke_width(2)))?;
    }
    let mut ends = Vec::with_capacity(lines.len());
    for (i, line) in lines.iter().enumerate() {
        let look = palette::look(i);
        for point in line {
            mark(&root, look.marker, plot.backend_coord(point), look.colour.rgb())?;
        }
        ends.push(line.last().map(|point| plot.backend_coord(point)));
    }
    let edge = WIDTH as i32 - right;
    legend(&root, chart, &ends, edge)?;
    root.present()
}

/// The places along an axis, with our ticks instead of the library's.
struct Places {
    range: (f64, f64),
    ticks: Vec<f64>,
}

impl Places {
    fn new(range: (f64, f64), ticks: &[(f64, String)]) -> Self {
        Self { range, ticks: ticks.iter().map(|(place, _)| *place).collect() }
    }
}

impl Ranged for Places {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, (first, last): (i32, i32)) -> i32 {
        let (low, high) = self.range;
        first + (f64::from(last - first) * (place - low) / (high - low)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.ticks.clone() }
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.range.0..self.range.1
    }
}

/// Writes the name of each line at its end, in the order of the ends, and moves overlapping names apart.
fn legend(
    root: &Area<'_>,
    chart: &Chart,
    ends: &[Option<(i32, i32)>],
    edge: i32,
) -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
    let (top, bottom) = (TOP as i32 + 6, (HEIGHT - BOTTOM) as i32 - 6);
    // A line without points is named at the bottom.
    let mut order: Vec<(i32, usize)> =
        ends.iter().enumerate().map(|(i, end)| (end.map_or(bottom, |(_, y)| y), i)).collect();
    order.sort_unstable();
    let wanted: Vec<i32> = order.iter().map(|(y, _)| *y).collect();
    for (y, (_, i)) in apart(&wanted, top, bottom).into_iter().zip(order) {
        let look = palette::look(i);
        if let Some((end_x, end_y)) = ends[i]
            && (end_y - y).abs() > LINE / 3
        {
            let path = vec![(end_x + 8, end_y), (edge + 8, y)];
            root.draw(&PathElement::new(path, AXIS.rgb().stroke_width(1)))?;
        }
        mark(root, look.marker, (edge + 18, y), look.colour.rgb())?;
        let style = text(SMALL, &INK, HPos::Left, VPos::Center);
        say(root, &chart.series[i].name, (edge + 30, y), style, WIDTH as i32 - edge - 34)?;
    }
    Ok(())
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

fn mark(
    root: &Area<'_>,
    marker: Marker,
    (x, y): (i32, i32),
    colour: RGBColor,
) -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
    match marker.corners() {
        [] => root.draw(&Circle::new((x, y), 5, colour.filled())),
        corners => {
            let corners: Vec<_> = corners.iter().map(|(dx, dy)| (x + dx, y + dy)).collect();
            root.draw(&Polygon::new(corners, colour.filled()))
        }
    }
}

fn text(size: f64, colour: &Colour, across: HPos, down: VPos) -> TextStyle<'static> {
    // The SVG backend divides sizes by 1.24.
    ("sans-serif", size * 1.24).into_font().color(&colour.rgb()).pos(Pos::new(across, down))
}

/// Writes `what` at a point, cut off at `most` pixels.
fn say(
    root: &Area<'_>,
    what: &str,
    at: (i32, i32),
    style: TextStyle<'static>,
    most: i32,
) -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
    let mut what: String = what.chars().map(|c| if is_forbidden(c) { '\u{fffd}' } else { c }).collect();
    let size = style.font.get_size() / 1.24;
    if width(&what, size) > most {
        while !what.is_empty() && width(&what, size) + width("…", size) > most {
            what.pop();
        }
        what.push('…');
    }
    root.draw(&Text::new(what, at, style))
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
        assert!(svg.contains("&lt;b&gt;&amp;&quot;&apos;"), "{svg}");
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
