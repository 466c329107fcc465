//! OpenLineage events of a run: what it reads, what it wrote, and whether bounds of the job were exceeded.
//!
//! The events follow the specification of OpenLineage, version 2-0-2 (<https://openlineage.io/spec/2-0-2/OpenLineage.json>), and
//! are plain JSON here: the command line sends them.

mod dataset;
mod event;
mod facet;
mod parent;
mod settings;

pub(crate) use dataset::{names_of_inputs, names_of_outputs};
pub(crate) use event::{Events, RunEnd};
pub(crate) use settings::{EventDestination, LineageSettings};
