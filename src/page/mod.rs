//! Charts as SVG, pairs of texts in two columns, and HTML pages without external files. Templates draw all of them. A chart is drawn in
//! light colours, which the style sheet replaces in dark mode.

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
pub(crate) use text::PageWords;
