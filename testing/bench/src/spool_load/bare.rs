//! What one client waits for its receipt, against the same write and sync done by hand. In: a spool with one writer. Out:
//! ranks of both.
//!
//! By hand means: as many pages as a commit of the spool has, to a file written before, past the page cache where the
//! file system allows it, then `fdatasync`. The two take turns in short blocks, so that the device's moods hit both.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Instant;

use anyhow::Context as _;
use nix::fcntl::OFlag;
use spool::{PAGE_OCTETS, Page, octets, octets_mut};

use super::writers::Writers;
use crate::stats::percentile;

/// Ranks of both, in microseconds.
#[derive(Debug, Clone, Copy)]
pub struct Alone {
    /// How many of each.
    pub appends: usize,
    pub append_p50_us: f64,
    pub append_p99_us: f64,
    pub bare_p50_us: f64,
    pub bare_p99_us: f64,
}

/// Times `count` appends of messages of so many octets and as many bare writes; the file for these is made in `folder`.
///
/// # Errors
/// The spool or the file refuses.
pub async fn compare(writers: &mut Writers, folder: &Path, octets: usize, count: usize) -> anyhow::Result<Alone> {
    let mut bare = Bare::create(folder, (octets + ENVELOPE_OCTETS).div_ceil(PAGE_OCTETS))?;
    let (mut appends_us, mut bare_us) = (Vec::new(), Vec::new());
    while appends_us.len() < count {
        let block = BLOCK.min(count - appends_us.len());
        appends_us.extend(writers.alone(block).await?);
        let task = tokio::task::spawn_blocking(move || {
            let waits_us = bare.write(block)?;
            anyhow::Ok((bare, waits_us))
        });
        let (returned, waits_us) = task.await.context("the bare writer")??;
        bare = returned;
        bare_us.extend(waits_us);
    }
    let rank = |samples: &mut [f64], percent| percentile(samples, percent).context("no samples");
    Ok(Alone {
        appends: appends_us.len(),
        append_p50_us: rank(&mut appends_us, 50.0)?,
        append_p99_us: rank(&mut appends_us, 99.0)?,
        bare_p50_us: rank(&mut bare_us, 50.0)?,
        bare_p99_us: rank(&mut bare_us, 99.0)?,
    })
}

/// A file written before, and what is written to it.
struct Bare {
    file: File,
    pages: Vec<Page>,
    at: u64,
}

impl Bare {
    fn create(folder: &Path, pages: usize) -> anyhow::Result<Bare> {
        let path = folder.join("bare");
        let refused = || format!("cannot write {}", path.display());
        std::fs::write(&path, vec![0; FILE_OCTETS as usize]).with_context(refused)?;
        File::open(&path).and_then(|file| file.sync_all()).with_context(refused)?;
        let direct = OpenOptions::new().write(true).custom_flags(OFlag::O_DIRECT.bits()).open(&path);
        let file = match direct {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => OpenOptions::new().write(true).open(&path),
            other => other,
        };
        let mut pages = Page::zeros(pages);
        octets_mut(&mut pages).fill(b'x');
        Ok(Bare { file: file.with_context(refused)?, pages, at: 0 })
    }

    /// So many writes, each synced; how long each took.
    fn write(&mut self, count: usize) -> anyhow::Result<Vec<f64>> {
        let octets = octets(&self.pages);
        let mut waits_us = Vec::with_capacity(count);
        for _ in 0..count {
            if self.at + octets.len() as u64 > FILE_OCTETS {
                self.at = 0;
            }
            let then = Instant::now();
            self.file.write_all_at(octets, self.at)?;
            self.file.sync_data()?;
            waits_us.push(then.elapsed().as_secs_f64() * 1e6);
            self.at += octets.len() as u64;
        }
        Ok(waits_us)
    }
}

/// Appends in a row, then as many bare writes.
const BLOCK: usize = 50;
/// What a commit of one message holds besides it: headers, table, envelope, metadata, a mark.
const ENVELOPE_OCTETS: usize = 600;
/// As large as a segment.
const FILE_OCTETS: u64 = 64 << 20;
