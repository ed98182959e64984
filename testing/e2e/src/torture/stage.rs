//! The stage of a run: a relay with its folder, a receiver behind it, a book between them.
//!
//! The relay's port stays the same over its lives, so that senders find it again. In: a folder for spool and logs. Out:
//! the account, after everything stuck was released and the relay has nothing left.

use crate::http;
use crate::kumod::{Kumod, Launch, policy_file};
use crate::port::free_port;
use crate::torture::death;
use crate::torture::{Account, Book, Receiver};
use crate::until::{LATER, until};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a run needs.
#[derive(Debug)]
pub struct Stage {
    /// What is known.
    pub book: Arc<Book>,
    /// How the relay is started.
    pub launch: Launch,
    /// Where it listens, whenever it lives.
    pub address: SocketAddr,
    /// Where it delivers to.
    pub receiver: Option<Receiver>,
    /// Where the receiver is or will be.
    pub receiver_address: SocketAddr,
}

impl Stage {
    /// A relay that keeps spool and logs in `folder`, and a receiver that listens.
    pub fn new(folder: &Path, seed: u64) -> Stage {
        let mut stage = Stage::without_receiver(folder, seed);
        stage.open_receiver();
        stage
    }

    /// The same with nobody at the receiver's address.
    pub fn without_receiver(folder: &Path, seed: u64) -> Stage {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let receiver_address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let launch = Launch::policy(policy_file("torture.lua"))
            .env("TORTURE_LISTEN", address.to_string())
            .env("TORTURE_DIR", folder)
            .env("TORTURE_TO", receiver_address.to_string());
        Stage { book: Arc::new(Book::new(seed)), launch, address, receiver: None, receiver_address }
    }

    /// Sets a variable of the relay's environment.
    pub fn env(mut self, name: &str, value: impl Into<std::ffi::OsString>) -> Stage {
        self.launch = self.launch.env(name, value);
        self
    }

    /// Sets the kind of spool; none is given when `None`.
    pub fn kind(self, kind: Option<&str>) -> Stage {
        match kind {
            Some(kind) => self.env("TORTURE_KIND", kind),
            None => self,
        }
    }

    /// SIGKILL; what the relay had not read of the receiver's answers is in the book. Its end is still to be waited for.
    pub fn kill(&self, pid: u32) {
        self.book.dies(|| Some(death::kill_of(pid, self.receiver_address.port())));
    }

    /// The same by SIGKILL alone, in the middle of whatever the kernel does for the relay; an answer is excused as unread where
    /// the kernel resets the connection of which it was the last word.
    pub fn kill_at_once(&self, pid: u32) {
        self.book.dies(|| {
            death::kill_at_once(pid);
            None
        });
    }

    /// Somebody listens at the receiver's address from now on.
    pub fn open_receiver(&mut self) {
        self.receiver = Some(Receiver::start_on(&self.book, self.receiver_address));
    }

    /// Releases what is stuck, waits until every letter acknowledged has arrived and the relay is empty.
    pub fn settle(&self, relay: &Kumod) -> Account {
        self.book.release();
        self.book.await_arrivals(LATER);
        self.await_empty(relay);
        self.book.account()
    }

    /// The same for a run whose point is that mail is lost: what the relay has is delivered, nobody waits for the rest.
    pub fn settle_with_losses(&self, relay: &Kumod) -> Account {
        self.book.release();
        self.await_empty(relay);
        self.book.account()
    }

    fn await_empty(&self, relay: &Kumod) {
        // Letters whose answer nobody saw may still be on their way; the relay may still be reading its spool.
        let mut empty_since = None;
        until(LATER, "an empty relay", || {
            let page = relay.metrics();
            let none = |series: &str| http::value(&page, series).unwrap_or_default() == 0.0;
            let since = match none("message_count") && none("postrider_spool_recovering") {
                true => *empty_since.get_or_insert_with(Instant::now),
                false => {
                    empty_since = None;
                    return None;
                }
            };
            (since.elapsed() >= QUIET).then_some(())
        });
    }
}

/// The seed of this run: `TORTURE_SEED`, or a new one. It is printed, so that a failure can be repeated.
pub fn seed() -> u64 {
    let given = std::env::var("TORTURE_SEED").ok();
    let seed = given.map_or_else(|| fastrand::u64(..), |text| text.parse().expect("TORTURE_SEED is a number"));
    println!("seed: TORTURE_SEED={seed}");
    seed
}

/// A relay that shows no message for so long has none.
const QUIET: Duration = Duration::from_millis(300);
