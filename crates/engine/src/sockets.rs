//! Who opens and closes listeners when a policy that was read again wants others: the program, which knows of HTTP too.

use crate::engine::Engine;
use policy::{Interest, Startup};
use std::future::Future;
use std::pin::Pin;

/// The sockets of listeners.
pub trait Sockets: Send + Sync {
    /// Reduces how many connections each ESMTP listener may have to what the limit of open files has room for.
    fn share_files(&self, startup: &mut Startup);

    /// Opens what `startup` wants and is not there. Nothing is served, and nothing closed, until the change is carried out; one
    /// that is dropped changes nothing. The options of ESMTP listeners that stay are not its affair.
    ///
    /// # Errors
    /// A socket or a certificate cannot be had.
    fn prepare(&self, engine: &Engine, startup: &Startup, interest: Interest) -> Result<SocketsChange, String>;

    /// Ends listeners for HTTP; completes when what they were asked is answered, or after a while.
    fn answered(&self) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// Opens and closes.
pub type SocketsChange = Box<dyn FnOnce() + Send>;

impl Engine {
    /// From now on listeners come and go with the policy; the first counts.
    pub fn set_sockets(&self, sockets: Box<dyn Sockets>) {
        let _: Result<(), _> = self.sockets.set(sockets);
    }
}
