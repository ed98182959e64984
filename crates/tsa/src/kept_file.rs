//! The file that effects in force are kept in over a restart: JSON, replaced as a whole.
//!
//! Fails with the file and the system's reason. A restart of the machine may lose the last minute; rules bring it about again.

use crate::TsaError;
use automation::Effect;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Where they are kept.
#[derive(Clone, Debug)]
pub struct KeptFile {
    path: PathBuf,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    version: u32,
    effects: Vec<Effect>,
}

impl KeptFile {
    /// Beside the database that `tsa.configure_tsa_db_path` names; none for `:memory:`.
    pub fn beside(database: &str) -> Option<KeptFile> {
        let path = database.strip_prefix("file:").unwrap_or(database);
        let path = path.split('?').next().unwrap_or(path);
        (!path.contains(MEMORY)).then(|| KeptFile { path: PathBuf::from(format!("{path}.json")) })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What was kept; nothing if there is no file.
    pub(crate) fn read(&self) -> Result<Vec<Effect>, TsaError> {
        let text = match fs::read(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            text => text.map_err(|cause| self.failed(cause))?,
        };
        let wrong = |cause| TsaError::Content { path: self.path.clone(), cause };
        let Content { version, effects } = serde_json::from_slice(&text).map_err(wrong)?;
        match version {
            VERSION => Ok(effects),
            other => Err(self.failed(io::Error::other(format!("version {other}: expected {VERSION}")))),
        }
    }

    /// Keeps these in place of what was there.
    pub(crate) fn write(&self, effects: Vec<Effect>) -> Result<(), TsaError> {
        self.replace(effects).map_err(|cause| self.failed(cause))
    }

    fn replace(&self, effects: Vec<Effect>) -> io::Result<()> {
        let mut text = serde_json::to_vec(&Content { version: VERSION, effects })?;
        text.push(b'\n');
        let mut spare = self.path.as_os_str().to_owned();
        spare.push(".new");
        let mut file = fs::File::create(&spare)?;
        file.write_all(&text)?;
        file.sync_data()?;
        fs::rename(&spare, &self.path)
    }

    fn failed(&self, cause: io::Error) -> TsaError {
        TsaError::File { path: self.path.clone(), cause }
    }
}

const VERSION: u32 = 1;
/// What SQLite calls a database that is nowhere.
const MEMORY: &str = ":memory:";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_stands_beside_the_database() {
        let path = |database| KeptFile::beside(database).map(|file| file.path.display().to_string());
        assert_eq!(path("/x/tsa.db").as_deref(), Some("/x/tsa.db.json"));
        assert_eq!(path("file:/x/tsa.db?mode=rwc").as_deref(), Some("/x/tsa.db.json"));
        assert_eq!((path(":memory:"), path("file::memory:?cache=shared")), (None, None));
    }

    #[test]
    fn what_is_no_such_file_is_refused_and_named() {
        let dir = tempfile::tempdir().expect("scratch");
        let file = KeptFile { path: dir.path().join("tsa.db.json") };
        assert_eq!(file.read().expect("nothing there"), Vec::new());
        for wrong in ["", "[]", "{\"version\":2,\"effects\":[]}", "{\"version\":1,\"effects\":[],\"more\":1}"] {
            fs::write(&file.path, wrong).expect("scratch");
            let why = file.read().expect_err("no such file").to_string();
            assert!(why.contains("tsa.db.json"), "{why}");
        }
        let nowhere = KeptFile { path: dir.path().join("missing/tsa.db.json") };
        assert!(nowhere.write(Vec::new()).is_err());
    }
}
