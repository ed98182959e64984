//! What the control runs of both kinds of spool share.

use std::panic::catch_unwind;

/// In how many of fifty runs, each with a seed of its own, a loss was noticed: that run panicked. Silences all panics of the
/// program meanwhile, so a test that calls it is alone in its file.
pub fn noticed(run: fn(u64)) -> usize {
    let noisy = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let noticed = (0..RUNS).filter(|seed| catch_unwind(|| run(*seed)).is_err()).count();
    std::panic::set_hook(noisy);
    noticed
}

const RUNS: u64 = 50;
