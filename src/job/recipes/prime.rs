//! Prime numbers under 2^32 and a little above: moduli of the linear family.

/// Whether `n` is prime, by trial division up to its square root: at most 2^16 steps for `n` under 2^32.
pub fn is_prime(n: u64) -> bool {
    n >= 2 && (2..).take_while(|d| d * d <= n).all(|d| !n.is_multiple_of(d))
}

/// The first prime above `n`.
pub(crate) fn next_prime(n: u64) -> u64 {
    // There always is one below 2n (Chebyshev), so the search ends.
    let mut next = n + 1;
    while !is_prime(next) {
        next += 1;
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primes_are_those_of_a_sieve() {
        const N: usize = 20_000;
        let mut prime = vec![true; N];
        prime[..2].fill(false);
        for n in 2..N {
            if prime[n] {
                (2 * n..N).step_by(n).for_each(|multiple| prime[multiple] = false);
            }
        }
        for (n, &expected) in (0..).zip(&prime) {
            assert_eq!(is_prime(n), expected, "{n}");
        }
    }

    #[test]
    fn the_moduli_that_have_names() {
        assert!(is_prime((1 << 31) - 1), "a Mersenne prime");
        assert!(!is_prime((1 << 32) - 1), "3 * 5 * 17 * 257 * 65537");
        assert!(is_prime(4_294_967_291), "the largest under 2^32");
        assert_eq!(next_prime(4_294_967_291), 4_294_967_311);
        assert_eq!([0, 1, 2, 7, 8, 13].map(next_prime), [2, 2, 3, 11, 11, 17]);
    }
}
