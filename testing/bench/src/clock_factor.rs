//! How fast the machine's clock runs at the moment: the CPU of one RSA-2048 signature.
//!
//! The clock of a virtual machine may have states a third apart, and a figure of CPU time is worth nothing without
//! knowing which. So a fixed piece of work, one aws-lc-rs signature, is timed beside each run; its time divided by
//! that of the reference state is the clock factor, and CPU divided by the factor can be compared between runs.
//!
//! What is timed is CPU, as that of the messages is, and a mean over as many signatures as one of them renews the blinding
//! for: that one takes twice as long (aws-lc), and a message's signature costs its part of it.

use std::hint::black_box;
use std::time::Duration;

use anyhow::Context as _;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::RSA_PKCS1_SHA256;
use nix::time::{ClockId, clock_gettime};

use crate::stats::median;

/// A key to sign with.
pub struct Clock {
    key: KeyPair,
    random: SystemRandom,
}

impl Clock {
    /// Makes the key; takes a fraction of a second.
    ///
    /// # Errors
    /// The library has no randomness.
    pub fn new() -> anyhow::Result<Clock> {
        let key = KeyPair::generate(KeySize::Rsa2048).ok().context("cannot make an RSA key")?;
        Ok(Clock { key, random: SystemRandom::new() })
    }

    /// The CPU of a signature in microseconds: the median of some means.
    ///
    /// # Errors
    /// The library cannot sign, or the system has no clock for a thread.
    pub fn signature_us(&self) -> anyhow::Result<f64> {
        let mut signature = vec![0; self.key.public_modulus_len()];
        let mut means = Vec::with_capacity(MEANS);
        for _ in 0..MEANS {
            let start = used()?;
            for _ in 0..SIGNATURES_OF_A_BLINDING {
                self.key
                    .sign(&RSA_PKCS1_SHA256, &self.random, black_box(MESSAGE), &mut signature)
                    .ok()
                    .context("cannot sign")?;
                black_box(&signature);
            }
            means.push((used()? - start).as_secs_f64() * 1e6 / SIGNATURES_OF_A_BLINDING as f64);
        }
        median(means).context("no samples")
    }
}

/// The CPU this thread has used.
fn used() -> anyhow::Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).context("the time of a thread")?.into())
}

/// The clock factor of a run with these signature times before and after it: 1.0 is the reference state. No number where
/// signatures are made with other instructions: their time says nothing of the clock then.
pub fn factor(before_us: f64, after_us: f64) -> f64 {
    if comparable() { mean_to_reference(before_us, after_us) } else { f64::NAN }
}

fn mean_to_reference(before_us: f64, after_us: f64) -> f64 {
    (before_us + after_us) / 2.0 / REFERENCE_US
}

/// Whether a signature is made with the instructions of the machine the reference is of.
#[cfg(target_arch = "x86_64")]
fn comparable() -> bool {
    std::arch::is_x86_feature_detected!("avx512ifma")
}

/// Elsewhere it is not.
#[cfg(not(target_arch = "x86_64"))]
fn comparable() -> bool {
    false
}

/// A signature in the fast state of the machine the project's targets are written for.
pub const REFERENCE_US: f64 = 253.0;
/// Signatures from one renewal of a key's blinding to the next (aws-lc, `BN_BLINDING_COUNTER`).
const SIGNATURES_OF_A_BLINDING: usize = 32;
/// Means timed: some 70 ms of work, enough that their median is steady to a percent.
const MEANS: usize = 7;
/// As long as the header digest input of a short message.
const MESSAGE: &[u8] = &[b'x'; 512];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_takes_time() {
        let us = Clock::new().expect("a key").signature_us().expect("a signature");
        assert!((50.0..50_000.0).contains(&us), "{us}");
        assert!((mean_to_reference(253.0, 253.0 * 2.0) - 1.5).abs() < 1e-9);
        assert_eq!(factor(253.0, 253.0).is_nan(), !comparable());
    }
}
