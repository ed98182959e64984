//! A spool directory as the engine's own recovery sees it, with everything that would change it turned off.
//!
//! Recovery may know messages that the log alone does not give away any more: a checkpoint remembers where they
//! stand although the batch header before them is damaged. Syncs are passed over, because what is looked at
//! is not going to be promised to anybody; writing is refused.

use spool::{
    Disk, FileInfo, FileName, Page, QueueOf, ReadPages, RecoveredMessage, SegmentLog, Settings, SpoolError, SpoolFiles,
};
use std::io;
use std::sync::Arc;
use store::ReadOnlyDir;

/// Every message that a start of the server would find.
pub(super) fn recovered(files: &Arc<ReadOnlyDir>, queue_of: QueueOf) -> Result<Vec<RecoveredMessage>, SpoolError> {
    let settings = Settings { queue_of, ..Settings::default() };
    // Nothing is written, so no segment is ever known by this number.
    let (_, recovery) = SegmentLog::open(Still(Arc::clone(files)), settings, Box::new(|| 0))?;
    Ok(recovery.messages)
}

struct Still(Arc<ReadOnlyDir>);

impl Disk for Still {
    fn list(&mut self) -> io::Result<Vec<FileInfo>> {
        SpoolFiles::list(&*self.0)
    }

    fn create(&mut self, _file: FileName) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn write_at(&mut self, _file: FileName, _at: u32, _pages: &[Page]) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync(&mut self, _file: FileName) -> io::Result<()> {
        Ok(())
    }

    fn rename(&mut self, _from: FileName, _to: FileName) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn remove(&mut self, _file: FileName) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn reader(&self) -> Arc<dyn ReadPages> {
        Arc::clone(&self.0) as Arc<dyn ReadPages>
    }
}
