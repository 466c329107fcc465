//! The command `resemblance`. Everything is in the library; see `resemblance::cli`.

use std::process::ExitCode;

/// The system's allocator gives memory back late when threads free what others allocated, as stages do.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    resemblance::cli::main()
}
