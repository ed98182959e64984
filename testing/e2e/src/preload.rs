//! Libraries of `preload/` that stand between the program under test and its disk.
//!
//! Built with `cc` when a test wants them. They see every file call the program makes through the C library; a program
//! that went around it would be found out by the tests' own checks that faults were hit and syncs were seen.

use crate::process::run;
use crate::scratch::Scratch;
use crate::until::SOON;
use nix::errno::Errno;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds `preload/NAME.c`; returns the library.
pub fn library(scratch: &Scratch, name: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("preload").join(format!("{name}.c"));
    let out = scratch.join(&format!("{name}.so"));
    let mut command = Command::new("cc");
    command.args(["-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&out).arg(source);
    run("cc", command, SOON).success();
    out
}

/// The switchboard of `preload/faults.c`.
#[derive(Debug)]
pub struct Faults {
    /// The library.
    pub library: PathBuf,
    /// The switches.
    pub switches: PathBuf,
    file: File,
}

/// Kinds of calls that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// fsync and fdatasync.
    Sync,
    /// write, pwrite and their vectored kin.
    Write,
    /// Opening a file in order to write to it or to make it.
    Open,
    /// rename, link, unlink, mkdir.
    Name,
    /// ftruncate, fallocate.
    Size,
}

/// How calls fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// With this error.
    Error(Errno),
    /// Writes do only a part.
    Part,
    /// Writes do only a part, and fail with this error when asked for the rest.
    PartThen(Errno),
}

impl Faults {
    /// Builds the library; nothing fails yet.
    pub fn new(scratch: &Scratch) -> Faults {
        let switches = scratch.write("faults", [0; SLOT_OCTETS as usize * OPS.len()]);
        let file = OpenOptions::new().read(true).write(true).open(&switches).expect("a file just written");
        Faults { library: library(scratch, "faults"), switches, file }
    }

    /// Makes calls fail: `times` of them, all when `None`, after `skip` have been let by.
    pub fn arm(&self, op: Op, how: How, skip: u32, times: Option<u32>) {
        let error = match how {
            How::Error(errno) => errno as i32,
            How::Part => PART,
            How::PartThen(errno) => PART + errno as i32,
        };
        let left = times.map_or(-1, |times| i32::try_from(times).expect("a small number"));
        let skip = i32::try_from(skip).expect("a small number");
        // The error last: it is what arms the slot.
        self.put(op, 2, left);
        self.put(op, 1, skip);
        self.put(op, 0, error);
    }

    /// The disk is sound again.
    pub fn clear(&self) {
        OPS.into_iter().for_each(|op| self.put(op, 0, 0));
    }

    /// Calls that have failed so far.
    pub fn hits(&self, op: Op) -> i32 {
        let mut octets = [0; 4];
        self.file.read_exact_at(&mut octets, at(op, 3)).expect("the switches can be read");
        i32::from_le_bytes(octets)
    }

    fn put(&self, op: Op, field: u64, value: i32) {
        self.file.write_all_at(&value.to_le_bytes(), at(op, field)).expect("the switches can be written");
    }
}

fn at(op: Op, field: u64) -> u64 {
    OPS.iter().position(|other| *other == op).expect("every kind has a slot") as u64 * SLOT_OCTETS + field * 4
}

/// In the order of the slots.
const OPS: [Op; 5] = [Op::Sync, Op::Write, Op::Open, Op::Name, Op::Size];
const SLOT_OCTETS: u64 = 16;
const PART: i32 = 1000;
