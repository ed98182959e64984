//! How fast the machine's clock runs at the moment: the time of one RSA-2048 signature.
//!
//! The clock of a virtual machine may have states a third apart, and a figure of CPU time is worth nothing without
//! knowing which. So a fixed piece of work, one aws-lc-rs signature, is timed beside each run; its time divided by
//! that of the reference state is the clock factor, and CPU divided by the factor can be compared between runs.

use std::hint::black_box;
use std::time::Instant;

use anyhow::Context as _;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::RSA_PKCS1_SHA256;

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

    /// The median time of a signature in microseconds.
    ///
    /// # Errors
    /// The library cannot sign.
    pub fn signature_us(&self) -> anyhow::Result<f64> {
        let mut signature = vec![0; self.key.public_modulus_len()];
        let mut samples = Vec::with_capacity(SIGNATURES);
        for _ in 0..SIGNATURES {
            let start = Instant::now();
            self.key
                .sign(&RSA_PKCS1_SHA256, &self.random, black_box(MESSAGE), &mut signature)
                .ok()
                .context("cannot sign")?;
            samples.push(start.elapsed().as_secs_f64() * 1e6);
            black_box(&signature);
        }
        median(samples).context("no samples")
    }
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
/// Signatures timed: some 50 ms of work, enough that a median is steady to a percent.
const SIGNATURES: usize = 200;
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
