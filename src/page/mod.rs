//! Charts as SVG, pairs of texts in two columns, and HTML pages without external files.
//!
//! Pages are templates that extend `base.html`, and charts use the template `chart.svg`. A chart is drawn in the light palette. If the
//! reader's system is in dark mode, the style sheet replaces the colours.

mod chart;
mod html;
mod pairs;
pub(crate) mod palette;
pub(crate) mod passages;
pub(crate) mod side_by_side;
pub(crate) mod text;

pub(crate) use chart::{Axis, Chart, SVG_MARK, Scale, Series, read_series, svg};
pub(crate) use html::{
    HTML_MARK, HtmlPage, HtmlTable, Section, html, job_settings, settings_section, shingle_name,
};
pub(crate) use pairs::{PAIRS_MARK, PairOnPairsPage, PairsPage};
pub(crate) use side_by_side::{EXCERPT, sides};
pub use side_by_side::{Side, TextPart};
pub(crate) use text::{PageWords, count};
