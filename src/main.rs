//! The command `resemblance`. All code is in the library; see `resemblance::cli`.

use std::process::ExitCode;

fn main() -> ExitCode {
    resemblance::cli::main()
}
