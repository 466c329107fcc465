//! Every target in one program, which links DataFusion once. `FUZZ_TARGET` names the one that runs.

#![no_main]

use std::sync::LazyLock;

use resemblance_fuzz::{Check, TARGETS};

static CHECK: LazyLock<Check> = LazyLock::new(|| {
    let wanted = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let found = TARGETS.into_iter().find(|(name, _)| *name == wanted);
    let names = TARGETS.map(|(name, _)| name).join(", ");
    found.unwrap_or_else(|| panic!("FUZZ_TARGET is {wanted:?}: expected one of {names}")).1
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| CHECK(bytes));
