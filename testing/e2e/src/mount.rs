//! Small file systems for tests that need a disk to be full or to end: tmpfs, mounted for the time of a test.
//!
//! In: size options. Out: a folder. Needs the right to mount, which root has; without it the test fails and says so.
//! Unmounted when the handle goes, also on the way out of a failed test; a file still open there does not hinder it.

use crate::process::run;
use crate::scratch::Scratch;
use crate::until::SOON;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A mounted tmpfs.
#[derive(Debug)]
pub struct Tmpfs {
    folder: PathBuf,
}

impl Tmpfs {
    /// Mounts one; `options` as in `size=64m,nr_inodes=1000`.
    pub fn mount(scratch: &Scratch, name: &str, options: &str) -> Tmpfs {
        let folder = scratch.folder(name);
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", options, "postrider-e2e"]).arg(&folder);
        let mounted = run("mount", command, SOON);
        assert!(
            mounted.status.success(),
            "cannot mount a tmpfs on {}: this test must run as root (or in `unshare -rm`): {}",
            folder.display(),
            mounted.stderr
        );
        Tmpfs { folder }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// Mounts it anew with other options, such as another size.
    pub fn remount(&self, options: &str) {
        let mut command = Command::new("mount");
        command.args(["-o", &format!("remount,{options}")]).arg(&self.folder);
        run("mount -o remount", command, SOON).success();
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("--lazy").arg(&self.folder).status();
        if !unmounted.as_ref().is_ok_and(|status| status.success()) {
            eprintln!("umount {}: {unmounted:?}", self.folder.display());
        }
    }
}
