//! Charts as SVG, pairs of texts in two columns, and HTML pages without external files.
//!
//! Pages are templates on `base.html`, and charts are the template `chart.svg`. Colours follow the reader's light or dark setting:
//! a chart is drawn in the light palette, and the style sheet replaces it in dark mode.

mod chart;
mod html;
pub(crate) mod palette;
pub(crate) mod side_by_side;
pub(crate) mod text;

pub(crate) use chart::{Axis, Chart, SVG_MARK, Scale, Series, read_series, svg};
pub(crate) use html::{
    HTML_MARK, HtmlPage, HtmlTable, Section, html, job_settings, settings_section, shingle_name,
};
pub(crate) use side_by_side::sides;
pub use side_by_side::{Side, TextPart};
pub(crate) use text::{PageWords, count};
