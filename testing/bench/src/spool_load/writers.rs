//! The writers: tasks that append, wait, and remove what they appended some messages before. In: a span of time. Out: how
//! long each append waited.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use message::MessageId;
use spool::Mark;
use store::{Options, SpoolHandle, Stats};
use tokio::task::JoinSet;

use super::letters::{Letters, Writer};

/// A spool and those who write to it.
pub struct Writers {
    spool: SpoolHandle,
    idle: Vec<Desk>,
}

/// One writer and what it has not removed yet, oldest first.
struct Desk {
    writer: Writer,
    kept: VecDeque<MessageId>,
}

impl Writers {
    /// Opens a new spool in `folder` for so many writers.
    ///
    /// # Errors
    /// It cannot be opened, or there are no letters.
    pub async fn open(
        folder: &Path,
        options: Options,
        count: u32,
        letters: anyhow::Result<Arc<Letters>>,
    ) -> anyhow::Result<Writers> {
        let letters = letters?;
        let (spool, mut recovering) = store::open(folder, options)?;
        while recovering.next().await.is_some() {}
        recovering.report().await.context("a new spool")?;
        let desk = |number| Desk { writer: Writer::new(&letters, number), kept: VecDeque::new() };
        Ok(Writers { spool, idle: (0..count).map(desk).collect() })
    }

    /// Lets all write for `span`; how long each append waited for its receipt, in milliseconds.
    ///
    /// # Errors
    /// The spool refused one.
    pub async fn work(&mut self, span: Duration) -> anyhow::Result<Vec<f64>> {
        let until = Instant::now() + span;
        let mut tasks = JoinSet::new();
        for mut desk in self.idle.drain(..) {
            let spool = self.spool.clone();
            tasks.spawn(async move {
                let mut waits_ms = Vec::new();
                let mut now = Instant::now();
                while now < until {
                    let then = now;
                    desk.step(&spool).await?;
                    now = Instant::now();
                    waits_ms.push((now - then).as_secs_f64() * 1e3);
                }
                anyhow::Ok((desk, waits_ms))
            });
        }
        let mut all = Vec::new();
        while let Some(ended) = tasks.join_next().await {
            let (desk, waits_ms) = ended.context("a writer")??;
            self.idle.push(desk);
            all.extend(waits_ms);
        }
        Ok(all)
    }

    /// Lets one writer append `count` messages, in a task of its own; how long each waited, in microseconds.
    ///
    /// # Errors
    /// The spool refused one.
    pub async fn alone(&mut self, count: usize) -> anyhow::Result<Vec<f64>> {
        let mut desk = self.idle.pop().context("no writer")?;
        let spool = self.spool.clone();
        let task = tokio::spawn(async move {
            let mut waits_us = Vec::with_capacity(count);
            for _ in 0..count {
                let then = Instant::now();
                desk.step(&spool).await?;
                waits_us.push(then.elapsed().as_secs_f64() * 1e6);
            }
            anyhow::Ok((desk, waits_us))
        });
        let (desk, waits_us) = task.await.context("a writer")??;
        self.idle.push(desk);
        // What was removed is to be written now and not beside the next measurement.
        self.spool.flush().await?;
        Ok(waits_us)
    }

    /// Writes until a segment has been released for reuse, then returns once the spool writes nothing any more: what is
    /// measured next is its steady state, and not the filling of new files.
    ///
    /// # Errors
    /// It does not come to that state.
    pub async fn settle(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + SETTLE_LIMIT;
        let in_time = || match Instant::now() < deadline {
            true => Ok(()),
            false => Err(anyhow!("the spool does not come to a steady state")),
        };
        while self.stats().log.released < RELEASED {
            in_time()?;
            self.work(REST).await?;
        }
        let mut octets = u64::MAX;
        while octets != self.stats().log.octets_written {
            in_time()?;
            octets = self.stats().log.octets_written;
            tokio::time::sleep(REST).await;
        }
        Ok(())
    }

    /// The spool's figures.
    pub fn stats(&self) -> Stats {
        self.spool.stats()
    }

    /// Removes what is left and closes the spool.
    ///
    /// # Errors
    /// The spool does not end in order.
    pub async fn close(self) -> anyhow::Result<()> {
        for id in self.idle.into_iter().flat_map(|desk| desk.kept) {
            self.spool.mark(Mark::Removed { id });
        }
        self.spool.flush().await?;
        Ok(self.spool.close().await?)
    }
}

impl Desk {
    /// One append, and the removal of an earlier message.
    async fn step(&mut self, spool: &SpoolHandle) -> anyhow::Result<()> {
        let sealed = self.writer.next();
        self.kept.push_back(sealed.id);
        spool.append(vec![vec![sealed]]).await?;
        if self.kept.len() > KEPT
            && let Some(id) = self.kept.pop_front()
        {
            spool.mark(Mark::Removed { id });
        }
        Ok(())
    }
}

/// Messages of a writer that are alive while it writes the next.
pub const KEPT: usize = 16;
/// Segments released before the spool counts as run in.
const RELEASED: u64 = 2;
/// Silence that counts as rest.
const REST: Duration = Duration::from_millis(200);
/// Longest time a spool may be busy with itself.
const SETTLE_LIMIT: Duration = Duration::from_secs(60);
