//! What a program asked of the kernel, in the order it was asked, as strace saw it.
//!
//! [`parse`] turns strace's text into calls; [`check`] is the judgement on them: a message must be on disk, content
//! and name, before the 250 for it is written to its socket. Both are pure. In: a file that [`strace`] had written.
//! A program that goes around the system calls traced here is found to have written nothing, which fails too.

mod check;
mod parse;

pub use check::{Violation, check, final_replies};
pub use parse::{Call, Event, parse};

use std::ffi::OsString;
use std::path::Path;

/// The words before a command that have it traced into `out`, with `preload` in its LD_PRELOAD if given.
///
/// The tracer is a grandchild: the process started is the program itself, and a kill hits it.
pub fn strace(out: &Path, preload: Option<&Path>) -> Vec<OsString> {
    let mut words: Vec<OsString> = ["strace", "-D", "-f", "-qq", "-yy", "-s"].map(OsString::from).into();
    words.extend([SHOWN_OCTETS.to_string().into(), "-e".into(), format!("trace={}", CALLS.join(",")).into()]);
    words.extend(["-e".into(), "signal=none".into(), "-o".into(), out.into()]);
    if let Some(library) = preload {
        let mut setting = OsString::from("LD_PRELOAD=");
        setting.push(library);
        words.extend(["-E".into(), setting]);
    }
    words
}

/// All that can put content, names or replies somewhere, and all that can make the first two last.
const CALLS: [&str; 24] = [
    "openat",
    "open",
    "creat",
    "write",
    "writev",
    "pwrite64",
    "pwritev",
    "pwritev2",
    "fdatasync",
    "fsync",
    "sync_file_range",
    "rename",
    "renameat",
    "renameat2",
    "link",
    "linkat",
    "unlink",
    "unlinkat",
    "mkdir",
    "mkdirat",
    "sendto",
    "sendmsg",
    "sendmmsg",
    "close",
];
/// Octets of a write that are shown: more than a commit of these tests has.
const SHOWN_OCTETS: usize = 65_536;
