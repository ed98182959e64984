//! One of two relays that are compared: it has a sink of its own and does the same work as the other, in turn with it.

use std::ffi::OsString;

use anyhow::bail;

use crate::clock_factor::Clock;
use crate::relay::Relay;
use crate::round::{Round, Running};
use crate::sink::Sink;
use crate::stage::{Programs, Stage};
use crate::workload::{Duty, Workload};

/// A relay at work.
pub struct Side<'a> {
    name: &'static str,
    /// Where generator and sink come from.
    tools: &'a Programs,
    work: Workload,
    relay: Relay,
    sink: Sink,
}

impl<'a> Side<'a> {
    /// Starts `build` as a relay for `work`, with something of its own in its environment.
    ///
    /// # Errors
    /// A program does not come up.
    pub fn start(
        stage: &Stage,
        name: &'static str,
        tools: &'a Programs,
        build: &Programs,
        work: &Workload,
        mut environment: Vec<(&'static str, OsString)>,
    ) -> anyhow::Result<Side<'a>> {
        let sink = match work.duty {
            Duty::Local => {
                let folder = stage.spool(&format!("{name}-mail"))?;
                let sink = Sink::files(&folder);
                environment.push(("LOCAL_MAIL", folder.into()));
                sink
            }
            _ => Sink::start(stage, tools, name)?,
        };
        let relay = Relay::start_with(stage, build, name, work.duty, Some(sink.address), environment)?;
        Ok(Side { name, tools, work: work.clone(), relay, sink })
    }

    /// The relay's process id.
    pub fn pid(&self) -> u32 {
        self.relay.pid()
    }

    /// One run.
    ///
    /// # Errors
    /// A program fails, or a message is refused.
    pub fn round(&mut self, stage: &Stage, clock: &Clock, number: u32) -> anyhow::Result<Round> {
        eprintln!("{} {number}", self.name);
        let order = self.work.order(&format!("{}{number}", self.name));
        let running = Running::begin(stage, self.tools, clock, &self.relay, Some(&mut self.sink), &order)?;
        let round = running.finish(&mut self.relay, Some(&mut self.sink))?;
        round.ensure_empty()?;
        Ok(round)
    }

    /// Ends it.
    ///
    /// # Errors
    /// A message was lost, doubled or damaged.
    pub fn stop(self, stage: &Stage) -> anyhow::Result<()> {
        self.relay.stop(stage)?;
        match self.sink.stop()?.fault(false) {
            None => Ok(()),
            Some(fault) => bail!("the figures are void: {}: {fault}", self.name),
        }
    }
}
