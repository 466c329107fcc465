//! Charts as SVG, pages of charts and tables as one HTML file that needs nothing else, and a run's metrics.
//!
//! Drawn by plotters, because its SVG backend needs neither fonts nor C libraries and leaves ticks, markers and the place
//! of every label to us. Colours follow the reader's light or dark setting: a chart is drawn in the light palette, and
//! a style sheet inside the SVG exchanges it for the dark one.

mod added;
mod axis;
mod chart;
pub(crate) mod compare;
pub(crate) mod metrics;
mod page;
mod palette;
mod settings;
pub(crate) mod sweep;
mod text;

pub(crate) use added::added;
pub(crate) use axis::{Axis, Scale};
pub(crate) use chart::{Chart, Series, svg};
pub(crate) use page::{Page, Section, Table, html};
pub(crate) use text::count;
