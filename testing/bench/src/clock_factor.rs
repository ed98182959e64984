//! How fast the machine's clock runs at the moment: the CPU of one RSA-2048 signature.
//!
//! The clock of a virtual machine may have states a third apart, and a figure of CPU time is worth nothing without
//! knowing which. So a fixed piece of work, one aws-lc-rs signature, is timed beside each run; its time divided by
//! that of the reference state is the clock factor, and CPU divided by the factor can be compared between runs.
//!
//! Beside it means while it runs ([`Beside`]): on a machine that others share the state changes within seconds, and what it was
//! before and after says little of the time between. Where the load is this very process, whose CPU is counted, it is before and after
//! ([`Clock::signature_us`]).
//!
//! What is timed is CPU, as that of the messages is, and a mean over as many signatures as one of them renews the blinding
//! for: that one takes twice as long (aws-lc), and a message's signature costs its part of it.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context as _;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::RSA_PKCS1_SHA256;
use nix::time::{ClockId, clock_gettime};

use crate::stats::median;

/// A key to sign with.
#[derive(Clone)]
pub struct Clock {
    key: Arc<KeyPair>,
}

impl Clock {
    /// Makes the key; takes a fraction of a second.
    ///
    /// # Errors
    /// The library has no randomness.
    pub fn new() -> anyhow::Result<Clock> {
        let key = KeyPair::generate(KeySize::Rsa2048).ok().context("cannot make an RSA key")?;
        Ok(Clock { key: Arc::new(key) })
    }

    /// The CPU of a signature in microseconds: the median of some means.
    ///
    /// # Errors
    /// The library cannot sign, or the system has no clock for a thread.
    pub fn signature_us(&self) -> anyhow::Result<f64> {
        let means = (0..MEANS).map(|_| self.mean_us()).collect::<anyhow::Result<Vec<f64>>>()?;
        median(means).context("no samples")
    }

    fn mean_us(&self) -> anyhow::Result<f64> {
        let (random, mut signature) = (SystemRandom::new(), vec![0; self.key.public_modulus_len()]);
        let start = used()?;
        for _ in 0..SIGNATURES_OF_A_BLINDING {
            self.key
                .sign(&RSA_PKCS1_SHA256, &random, black_box(MESSAGE), &mut signature)
                .ok()
                .context("cannot sign")?;
            black_box(&signature);
        }
        Ok((used()? - start).as_secs_f64() * 1e6 / SIGNATURES_OF_A_BLINDING as f64)
    }
}

/// Signatures beside a run, from its beginning to its end.
pub struct Beside {
    end: Sender<()>,
    thread: JoinHandle<anyhow::Result<Vec<f64>>>,
}

impl Beside {
    /// Begins. With a timetable to keep only the ends of the run are looked at: who is late waits for a core, and not for this.
    ///
    /// # Errors
    /// There is no thread for it.
    pub fn begin(clock: &Clock, timetable: bool) -> anyhow::Result<Beside> {
        Beside::begin_each(if timetable { Duration::MAX } else { BETWEEN_MEANS }, clock)
    }

    fn begin_each(pause: Duration, clock: &Clock) -> anyhow::Result<Beside> {
        let (clock, (end, ended)) = (clock.clone(), mpsc::channel());
        let samples = move || {
            let mut means = vec![clock.mean_us()?];
            loop {
                let is_over = ended.recv_timeout(pause) != Err(RecvTimeoutError::Timeout);
                means.push(clock.mean_us()?);
                if is_over {
                    return Ok(means);
                }
            }
        };
        let thread = std::thread::Builder::new().name("clock".to_owned()).spawn(samples).context("no thread")?;
        Ok(Beside { end, thread })
    }

    /// The CPU of a signature in microseconds: the mean of all.
    ///
    /// # Errors
    /// As of [`Clock::signature_us`].
    pub fn signature_us(self) -> anyhow::Result<f64> {
        drop(self.end);
        let means = self.thread.join().ok().context("the clock's thread panicked")??;
        Ok(means.iter().sum::<f64>() / means.len() as f64)
    }
}

/// The CPU this thread has used.
fn used() -> anyhow::Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).context("the time of a thread")?.into())
}

/// The clock factor at a moment when a signature takes so long: 1.0 is the reference state. No number where signatures are made
/// with other instructions: their time says nothing of the clock then.
pub fn factor(signature_us: f64) -> f64 {
    if comparable() { signature_us / REFERENCE_US } else { f64::NAN }
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
/// Between two means beside a run: they take some two hundredths of a core.
const BETWEEN_MEANS: Duration = Duration::from_millis(500);
/// As long as the header digest input of a short message.
const MESSAGE: &[u8] = &[b'x'; 512];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_takes_time() {
        let us = Clock::new().expect("a key").signature_us().expect("a signature");
        assert!((50.0..50_000.0).contains(&us), "{us}");
        assert_eq!(factor(253.0).is_nan(), !comparable());
    }

    #[test]
    fn signatures_beside_a_run_are_made_until_its_end() {
        let clock = Clock::new().expect("a key");
        let beside = Beside::begin_each(Duration::ZERO, &clock).expect("a thread");
        let us = beside.signature_us().expect("signatures");
        assert!((50.0..50_000.0).contains(&us), "{us}");
        assert_eq!(Arc::strong_count(&clock.key), 1, "it is over");
    }
}
