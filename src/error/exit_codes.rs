//! The exit codes of the process.

use super::Kind;

/// The exit codes, for the help of every command.
pub(crate) const EXIT_CODES: &str = "Exit codes: 0 done · 2 job file or arguments wrong · 3 input or storage wrong · 4 engine \
    (memory, cluster) · 5 a bug in resemblance · 6 done, but a bound of the job was exceeded · 130 stopped; run it again to continue";

impl Kind {
    /// Returns the exit code of a process that ends with this kind of error.
    pub fn exit_code(self) -> u8 {
        match self {
            Kind::Job => 2,
            Kind::Input => 3,
            Kind::Engine | Kind::Memory => 4,
            Kind::Bug => 5,
            Kind::Alarm => 6,
            Kind::Interrupted => 130,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_has_every_exit_code() {
        use Kind as K;
        for kind in [K::Job, K::Input, K::Engine, K::Memory, K::Bug, K::Alarm, K::Interrupted] {
            assert!(EXIT_CODES.contains(&format!(" {} ", kind.exit_code())), "{kind:?}");
        }
    }
}
