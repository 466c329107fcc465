//! Charts as SVG, texts side by side on a page or a terminal, and pages of charts and tables as one HTML file that needs nothing
//! else.
//!
//! Pages are templates on `base.html`, and charts are the template `chart.svg`. Colours follow the reader's light or dark setting:
//! a chart is drawn in the light palette, and a style sheet inside the SVG exchanges it for the dark one.

mod added;
mod axis;
mod chart;
mod html;
pub(crate) mod palette;
pub(crate) mod settings;
pub(crate) mod side_by_side;
pub(crate) mod text;

pub(crate) use added::added;
pub(crate) use axis::{Axis, Scale};
pub(crate) use chart::{Chart, SVG_MARK, Series, svg};
pub(crate) use html::{HTML_MARK, HtmlPage, HtmlTable, Section, html};
pub(crate) use side_by_side::sides;
pub use side_by_side::{Side, TextPart};
pub(crate) use text::{PageWords, count};
