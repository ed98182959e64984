//! aiosmtpd as a sink that keeps every message octet for octet: an independent reader of what we send.

use crate::certificate::Certificate;
use crate::peers;
use crate::process::{Process, run};
use crate::scratch::Scratch;
use crate::until::{SOON, until};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A running dump.
#[derive(Debug)]
pub struct Dump {
    /// Where it listens.
    pub address: SocketAddr,
    folder: PathBuf,
    _process: Process,
}

impl Dump {
    /// Starts one on a free port.
    pub fn start(scratch: &Scratch) -> Dump {
        Dump::start_on(scratch, 0)
    }

    /// Starts one on this port; 0 is a free one.
    pub fn start_on(scratch: &Scratch, port: u16) -> Dump {
        Dump::start_as(scratch, port, None)
    }

    /// Starts one on a free port that takes mail behind STARTTLS only.
    pub fn start_tls(scratch: &Scratch, own: &Certificate) -> Dump {
        Dump::start_as(scratch, 0, Some(own))
    }

    fn start_as(scratch: &Scratch, port: u16, own: Option<&Certificate>) -> Dump {
        let folder = scratch.folder("dump");
        let mut command = peers::script("dump_sink.py");
        command.arg(&folder).arg(port.to_string());
        command.args(own.into_iter().flat_map(|own| [&own.certificate, &own.key]));
        let process = Process::spawn("aiosmtpd", command);
        let address = process.await_stderr("its address", SOON, |line| {
            line.split_once("smtp listener on ").and_then(|(_, address)| address.trim().parse().ok())
        });
        Dump { address, folder, _process: process }
    }

    /// Waits until at least `count` messages have arrived; returns their files, which hold them as they were received.
    pub fn await_messages(&self, count: usize, within: Duration) -> Vec<PathBuf> {
        until(within, &format!("{count} messages at aiosmtpd"), || {
            let files = self.messages();
            (files.len() >= count).then_some(files)
        })
    }

    /// The files of messages received so far.
    pub fn messages(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.folder).expect("the dump's folder");
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let mut files: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|e| e == "eml")).collect();
        files.sort();
        files
    }

    /// The reverse paths of messages received so far.
    pub fn senders(&self) -> Vec<String> {
        let read = |file: PathBuf| std::fs::read_to_string(file.with_extension("from")).expect("beside each message");
        self.messages().into_iter().map(read).collect()
    }

    /// Compares with a ledger of `smtp_client.py`: each message of it must have arrived exactly once, octet for octet
    /// behind trace headers of ours, and nothing else.
    pub fn compare(&self, sent: &Path) {
        let mut command = peers::script("dump_compare.py");
        command.arg(sent).arg(&self.folder);
        run("dump_compare.py", command, SOON).success();
    }
}
