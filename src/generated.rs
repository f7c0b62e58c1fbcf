//! Generated input for unit tests. The same cases come every time: a failure is one everywhere, and
//! proptest shows it in its smallest form.

use proptest::test_runner::{Config, RngSeed};

pub(crate) fn cases(count: u32) -> Config {
    Config {
        cases: count,
        rng_seed: RngSeed::Fixed(7),
        failure_persistence: None,
        ..Config::default()
    }
}
