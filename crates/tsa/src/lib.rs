//! The traffic shaping daemon: nodes publish what servers answer, rules of shaping files say what is to be done, and nodes
//! ask for that or follow it.
//!
//! Owns [`Keeper`], the effects in force and where they are kept over a restart, and [`TsaService`], the HTTP endpoints with
//! KumoMTA's names and forms. In: log records, and the rules policy loads. Out: a shaping file of options that rules have
//! set, lists of suspensions and bounces, and the same as websockets. What cannot be kept is logged; the service goes on.
//!
//! Deliberately absent: what rules come to, which `automation` decides, and acting on it, which nodes do.

mod answers;
mod around;
mod keeper;
mod kept_file;
mod service;
mod shared;
mod subscription;

pub use around::Around;
pub use keeper::Keeper;
pub use kept_file::KeptFile;
pub use service::TsaService;
pub use shared::{Facts, ReadAgain};

use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why effects cannot be kept over a restart.
#[derive(Debug, Error)]
pub enum TsaError {
    /// The file cannot be read or written.
    #[error("tsa.configure_tsa_db_path: {}: {cause}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        cause: io::Error,
    },
    /// The file holds something else.
    #[error("tsa.configure_tsa_db_path: {}: {cause}: expected what the daemon wrote there; without the file it starts anew", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// Where and what.
        cause: serde_json::Error,
    },
}
