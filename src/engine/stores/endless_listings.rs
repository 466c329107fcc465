use object_store::path::Path;

/// Detects a listing that repeats itself, in constant memory. Compares one object with all later objects. Replaces it after twice as many
/// objects as the previous one (Brent, "An improved Monte Carlo factorization algorithm", 1980).
#[derive(Debug, Default)]
pub(super) struct Repeats {
    compared: Option<Path>,
    /// The number of objects since the compared object.
    since: u64,
    /// The number of objects after which the compared object is replaced.
    term: u64,
}

impl Repeats {
    /// Whether `location` occurred before.
    pub(super) fn has_repeated(&mut self, location: &Path) -> bool {
        if self.compared.as_ref() == Some(location) {
            return true;
        }
        self.since += 1;
        if self.since >= self.term {
            self.compared = Some(location.clone());
            self.term = (2 * self.since).max(1);
            self.since = 0;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_of_any_length_are_detected() {
        let path = |i: usize| Path::from(format!("{i}"));
        let mut line = Repeats::default();
        assert!(!(0..5_000).any(|i| line.has_repeated(&path(i))));
        for (before, circle) in [(0, 1), (0, 2), (3, 5), (1_000, 1_500), (10, 700)] {
            let mut repeats = Repeats::default();
            let keys = (0..before).chain((0..).map(|i| before + i % circle));
            let noticed = keys.take(10 * (before + circle)).position(|i| repeats.has_repeated(&path(i)));
            assert!(noticed.is_some_and(|at| at >= before + circle), "{before} {circle} {noticed:?}");
        }
    }
}
