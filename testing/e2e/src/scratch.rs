//! Scratch folders on the disk the program was built on: spools want a real file system, `/tmp` may be memory.

use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A folder that goes with its handle.
#[derive(Debug)]
pub struct Scratch(TempDir);

impl Scratch {
    /// A fresh, empty folder.
    pub fn new() -> Scratch {
        let base = base();
        std::fs::create_dir_all(&base).unwrap_or_else(|e| panic!("{}: {e}", base.display()));
        let folder = tempfile::Builder::new().prefix("e2e-").tempdir_in(&base);
        Scratch(folder.unwrap_or_else(|e| panic!("{}: {e}", base.display())))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// A path below it; nothing is created.
    pub fn join(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file below it.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.join(name);
        std::fs::write(&path, content).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        path
    }

    /// Creates a folder below it.
    pub fn folder(&self, name: &str) -> PathBuf {
        let path = self.join(name);
        std::fs::create_dir_all(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        path
    }
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch::new()
    }
}

/// Beside the build: this test program is `TARGET/PROFILE/deps/NAME`.
fn base() -> PathBuf {
    let here = std::env::current_exe().expect("the test program has a path");
    here.ancestors().nth(3).map_or_else(std::env::temp_dir, |target| target.join("e2e-scratch"))
}
