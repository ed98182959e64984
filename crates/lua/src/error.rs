//! Lua errors as the rest of the program knows them.

use policy::{Disconnect, PolicyError};
use smtp_wire::Reply;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a policy file could not be used at start.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The file could not be read.
    #[error("cannot read policy {}: {cause}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// The script, its `pre_init` or its `init` failed.
    #[error("policy {}: {text}", path.display())]
    Script {
        /// Which file.
        path: PathBuf,
        /// Message and traceback.
        text: String,
    },
    /// A `validate_config` handler called `kumo.validation_failed`.
    #[error("policy {}: its own validation failed{}", path.display(), why.iter().map(|why| format!("; {why}")).collect::<String>())]
    Invalid {
        /// Which file.
        path: PathBuf,
        /// What it said to that function of why; it may have printed more.
        why: Vec<String>,
    },
    /// A policy that was read again cannot take the place of the one that serves.
    #[error("policy {}: {why}", path.display())]
    Refused {
        /// Which file.
        path: PathBuf,
        /// What is in the way.
        why: String,
    },
}

impl LoadError {
    /// An error of the script at `path`.
    pub(crate) fn script(path: &Path, error: &mlua::Error) -> LoadError {
        LoadError::Script { path: path.to_owned(), text: error.to_string().trim_end().to_owned() }
    }
}

/// What `kumo.reject` and `kumo.disconnect` raise; survives `pcall` and re-raising. As text it
/// is `CODE MESSAGE`, which is what the first line of `tostring` of a caught one shows.
#[derive(Clone, Debug, Error)]
#[error("{} {}", code, text)]
pub(crate) struct Rejection {
    pub code: u16,
    pub text: String,
    pub disconnect: Disconnect,
}

/// The rejection inside an error, however often it was wrapped; else a script error.
pub(crate) fn to_policy_error(event: &'static str, error: &mlua::Error) -> PolicyError {
    match rejection(error) {
        Some(r) => PolicyError::Reject { reply: Reply::new(r.code, &r.text), disconnect: r.disconnect },
        None => PolicyError::Script { event, text: error.to_string().trim_end().to_owned() },
    }
}

fn rejection(error: &mlua::Error) -> Option<&Rejection> {
    match error {
        mlua::Error::ExternalError(inner) => match inner.downcast_ref::<mlua::Error>() {
            Some(nested) => rejection(nested),
            None => inner.downcast_ref::<Rejection>(),
        },
        mlua::Error::CallbackError { cause, .. }
        | mlua::Error::WithContext { cause, .. }
        | mlua::Error::BadArgument { cause, .. } => rejection(cause),
        _ => None,
    }
}

/// An error of something that a method leaned on, as that method's own: it names who was called.
pub(crate) fn of_method(name: &str, error: mlua::Error) -> mlua::Error {
    match error {
        mlua::Error::RuntimeError(text) => mlua::Error::runtime(format!("{name}: {text}")),
        // A rejection is what it is, whoever made it, and so is the end of a handler that ran away.
        rejection @ (mlua::Error::ExternalError(_)
        | mlua::Error::CallbackError { .. }
        | mlua::Error::MemoryError(_)) => rejection,
        other => mlua::Error::runtime(format!("{name}: {other}")),
    }
}
