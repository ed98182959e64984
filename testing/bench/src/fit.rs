//! The model of many cores, fitted to runs on one and on all: what sharing costs each message, what one thread does for all of
//! them, and so how far cores help. In: CPU a message on either. Out: the figures of the model.
//!
//! On n cores a message costs `c (1 + s (n - 1))`: `c` alone, and `s` of it more for each further core, for locks and cache lines
//! that move. So n cores do `n / (c (1 + s (n - 1)))` messages a second, and never more than `1 / w`, where `w` is what the one
//! thread that writes the spool does for each. Two counts of cores leave no residual for two figures: how far they can be
//! trusted says the spread of the runs, and whether `s` grows with n nobody can tell from two.

/// The figures of the model, in microseconds a message of the server's CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit {
    /// On one core.
    pub alone_us: f64,
    /// More for each further core, as a part of that; below nothing where runs differ by more than sharing costs.
    pub sharing: f64,
    /// What the one thread does.
    pub writer_us: f64,
}

impl Fit {
    /// From CPU a message on one core and on `cores`, of which there are at least two.
    pub fn of(alone_us: f64, together_us: f64, cores: usize, writer_us: f64) -> Fit {
        let sharing = (together_us / alone_us - 1.0) / (cores.max(2) - 1) as f64;
        Fit { alone_us, sharing, writer_us }
    }

    /// Messages a second that the server alone could do on so many cores, all of them its own.
    pub fn rate(&self, cores: f64) -> f64 {
        // What is below nothing is not to be extended to many cores.
        let each_us = self.alone_us * (1.0 + self.sharing.max(0.0) * (cores - 1.0));
        (cores * 1e6 / each_us).min(self.bound())
    }

    /// Messages a second that the one thread allows.
    pub fn bound(&self) -> f64 {
        1e6 / self.writer_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_help_until_one_thread_is_full() {
        let fit = Fit::of(50.0, 55.0, 2, 5.0);
        assert!((fit.sharing - 0.1).abs() < 1e-9 && (fit.rate(1.0) - 20_000.0).abs() < 1e-6, "{fit:?}");
        assert!((fit.rate(2.0) - 2e6 / 55.0).abs() < 1e-6, "as measured");
        assert!((fit.rate(4.0) - 4e6 / 65.0).abs() < 1e-6);
        assert!((fit.bound() - 200_000.0).abs() < 1e-6 && fit.rate(1e6) <= fit.bound());
        let noisy = Fit::of(50.0, 45.0, 2, 5.0);
        assert!(noisy.sharing < 0.0 && (noisy.rate(4.0) - 80_000.0).abs() < 1e-6, "{noisy:?}");
    }
}
