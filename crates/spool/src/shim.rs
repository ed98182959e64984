//! To be replaced.
use crate::*;
/// What a step of housekeeping did.
#[derive(Clone, Copy, Default, Debug)]
pub struct Maintenance {
    /// There is more to do.
    pub more: bool,
    /// Octets moved.
    pub octets: u64,
}
impl<D: Disk> SegmentLog<D> {
    /// To come.
    pub fn finish(&mut self) -> Result<(), SpoolError> {
        Ok(())
    }
    /// To come.
    pub fn set_aside(&mut self, _id: message::MessageId) {}
    /// To come.
    pub fn accepts_appends(&mut self) -> Result<(), SpoolError> {
        self.ready()
    }
}
