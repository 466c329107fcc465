//! Charts as SVG, texts side by side on a page or a terminal, and pages of charts and tables as one HTML file that needs nothing
//! else.
//!
//! Drawn by plotters, because its SVG backend needs neither fonts nor C libraries and leaves ticks, markers and the place
//! of every label to us. Colours follow the reader's light or dark setting: a chart is drawn in the light palette, and
//! a style sheet inside the SVG exchanges it for the dark one.

mod added;
mod axis;
mod chart;
mod html;
pub(crate) mod palette;
pub(crate) mod settings;
pub(crate) mod side_by_side;
mod sides;
pub(crate) mod text;

pub(crate) use added::added;
pub(crate) use axis::{Axis, Scale};
pub(crate) use chart::{Chart, SVG_MARK, Series, element, svg};
pub(crate) use html::{HTML_MARK, Page, Section, Table, html};
pub(crate) use sides::sides;
pub use sides::{Part, Side};
pub(crate) use text::count;
