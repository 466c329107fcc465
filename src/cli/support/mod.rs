//! Shared parts of the commands.

pub(in crate::cli) mod allocator;
pub(in crate::cli) mod applied;
pub(in crate::cli) mod arguments;
pub(in crate::cli) mod audited;
pub(in crate::cli) mod data_text;
pub(in crate::cli) mod errors;
pub(in crate::cli) mod evaluated;
pub(in crate::cli) mod forecasted;
pub(in crate::cli) mod from_data;
pub(in crate::cli) mod http;
pub(in crate::cli) mod lineage;
pub(in crate::cli) mod log;
pub(in crate::cli) mod measure;
pub(in crate::cli) mod metrics;
pub(in crate::cli) mod own_file;
pub(in crate::cli) mod panics;
pub(in crate::cli) mod print;
pub(in crate::cli) mod progress;
pub(in crate::cli) mod record;
#[cfg(feature = "cluster")]
pub(in crate::cli) mod roles;
pub(in crate::cli) mod run_job;
pub(in crate::cli) mod side_by_side;
pub(in crate::cli) mod telemetry;
pub(in crate::cli) mod temporary;
pub(in crate::cli) mod time_left;
pub(in crate::cli) mod work;
