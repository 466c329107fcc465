//! A session whose first rows are always the same ones.

use std::sync::Arc;

use datafusion::execution::context::SessionContext;

/// A session over the stores of `ctx` that reads one partition after the other.
pub(super) fn in_order(ctx: &SessionContext) -> SessionContext {
    let state = ctx.state();
    let config = state.config().clone().with_target_partitions(1);
    SessionContext::new_with_config_rt(config, Arc::clone(state.runtime_env()))
}
