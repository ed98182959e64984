//! `maildir_path`: messages into Maildirs on this machine.
//!
//! A copy for each recipient, answered one by one; the work is done on blocking threads, of which all Maildirs together
//! have a few. A thread that hangs in a dead file system keeps its place there, whoever waited for it. A recipient whose
//! address cannot stand in a path is refused for good; whatever the disk or the template says is for now.

mod deposit;
mod folders;
mod name;
pub(crate) mod place;

use crate::egress::carrier::{Answers, Carried, Lent};
use crate::engine::Engine;
use deposit::{Deposit, DepositError, with_lf};
use folders::Folders;
use name::Unique;
use place::{PlaceError, Template};
use queue::Verdict;
use smtp_wire::Reply;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// What all Maildirs of a process share.
#[derive(Debug)]
pub(crate) struct Maildirs {
    writers: Arc<Semaphore>,
    number: AtomicU64,
    folders: Folders,
}

/// One session: nothing is kept open between messages.
pub(crate) struct MaildirCarrier {
    engine: Engine,
    template: Arc<Template>,
    call_max: Duration,
}

impl Default for Maildirs {
    fn default() -> Maildirs {
        Maildirs {
            writers: Arc::new(Semaphore::new(WRITERS_MAX)),
            number: AtomicU64::new(0),
            folders: Folders::default(),
        }
    }
}

impl MaildirCarrier {
    /// Time between attempts (KumoMTA: about a minute).
    pub const RETRY_INTERVAL: Duration = Duration::from_secs(60);

    /// `call_max`: how long [`MaildirCarrier::carry`] is waited for.
    pub fn new(engine: &Engine, template: Arc<Template>, call_max: Duration) -> MaildirCarrier {
        MaildirCarrier { engine: engine.clone(), template, call_max }
    }

    /// Puts down each message for each of its recipients. What is not begun in good time is for the next attempt: were the call cut,
    /// those who have their copy would get another.
    pub async fn carry(&mut self, messages: Vec<Lent>) -> Carried {
        let until = Instant::now() + self.call_max / 4 * 3;
        let mut answers = Vec::with_capacity(messages.len());
        for message in messages {
            let Ok(permit) = self.engine.maildirs.writers.clone().acquire_owned().await else {
                return Carried::broken(failure("nobody writes Maildirs any more"));
            };
            let (engine, template) = (self.engine.clone(), self.template.clone());
            let written = tokio::task::spawn_blocking(move || {
                // Given back when the disk has answered, not when nobody waits for it any more.
                let _permit = permit;
                put_down(&engine, &template, message, until)
            });
            match written.await {
                Ok(of_message) => answers.push(of_message),
                Err(error) => return Carried::broken(failure(&error.to_string())),
            }
        }
        Carried { answers: Answers::Each(answers), is_over: false }
    }
}

fn put_down(engine: &Engine, template: &Template, mut message: Lent, until: Instant) -> Vec<(Verdict, Reply)> {
    let content = with_lf(&message.draft.data());
    let recipients = message.draft.envelope.recipients.clone();
    let put = |recipient| {
        if Instant::now() >= until {
            return (Verdict::Transient, failure("there was no time left for this recipient"));
        }
        let folder = match template.place(&message, recipient) {
            Ok(folder) => folder,
            Err(error) => return refusal(&error),
        };
        let number = engine.maildirs.number.fetch_add(1, Ordering::Relaxed);
        let unique = Unique { now: engine.clock.wall(), pid: std::process::id(), number };
        let name = unique.name(&engine.settings.hostname);
        let Template { dir_mode, file_mode, .. } = *template;
        match (Deposit { folder: &folder, name: &name, content: &content, dir_mode, file_mode })
            .make(&engine.maildirs.folders)
        {
            Ok(()) => {
                (Verdict::Delivered, Reply::new(200, &format!("wrote to {}", folder.join("new").join(name).display())))
            }
            Err(error) => {
                tracing::warn!("maildir_path: {error}");
                (Verdict::Transient, trouble(&error))
            }
        }
    };
    recipients.iter().map(put).collect()
}

fn refusal(error: &PlaceError) -> (Verdict, Reply) {
    match error {
        PlaceError::Value(_) => (Verdict::Permanent, Reply::new(550, &format!("5.1.3 KumoMTA internal: {error}"))),
        PlaceError::Template(_) | PlaceError::Shape(_) => {
            tracing::error!("{error}");
            (Verdict::Transient, Reply::new(451, &format!("4.3.5 KumoMTA internal: {error}")))
        }
    }
}

fn trouble(error: &DepositError) -> Reply {
    match error.cause.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Reply::new(452, &format!("4.3.1 KumoMTA internal: maildir_path: {error}"))
        }
        _ => failure(&error.to_string()),
    }
}

fn failure(why: &str) -> Reply {
    Reply::new(451, &format!("4.3.0 KumoMTA internal: maildir_path: {why}"))
}

/// Threads that write Maildirs at the same time. Far fewer than the runtime has: the spool's must not wait for a dead disk.
const WRITERS_MAX: usize = 16;
