//! Giving up root: after listeners are bound, before mail is touched.

use anyhow::{Context, anyhow, bail};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{Uid, User, geteuid, initgroups, setgid, setuid};
use std::ffi::CString;

/// True when started with root's rights.
pub fn is_root() -> bool {
    geteuid().is_root()
}

/// Becomes `name` for good: groups (all that he is in, as a service manager does it), group, user. No way back is kept.
pub fn become_user(name: &str) -> anyhow::Result<()> {
    let found = User::from_name(name).with_context(|| format!("--user {name}"))?;
    let user = found.ok_or_else(|| anyhow!("--user {name}: no such user"))?;
    if user.uid == geteuid() {
        return Ok(());
    }
    if !is_root() {
        bail!("--user {name}: only root can become another user");
    }
    let text = CString::new(user.name.as_str()).context("--user")?;
    initgroups(&text, user.gid).context("initgroups")?;
    setgid(user.gid).context("setgid")?;
    setuid(user.uid).context("setuid")?;
    // A kernel that let us keep a way back must not go unnoticed.
    if user.uid != Uid::from_raw(0) && setuid(Uid::from_raw(0)).is_ok() {
        bail!("--user {name}: root's rights could not be given up");
    }
    Ok(())
}

/// Before a policy is looked at by a tool: root becomes the server's user, given by name or `kumod` where there is one, as a
/// policy is a program and may be anybody's who is not root. Root that is asked for (`--user root`), or the only one there
/// is, stays.
pub fn become_reader(given: Option<&str>) -> anyhow::Result<()> {
    let usual = || User::from_name(SERVER_USER).ok().flatten().map(|user| user.name);
    match given.map(str::to_owned).or_else(|| if is_root() { usual() } else { None }) {
        Some(name) => become_user(&name),
        None => Ok(()),
    }
}

/// KumoMTA's name for the server's user.
const SERVER_USER: &str = "kumod";

/// The limit of open files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Files {
    /// What this process was started with.
    pub before: u64,
    /// What it has now.
    pub now: u64,
}

/// Raises the limit of open files, as every connection is one, to the hard limit.
///
/// # Errors
/// The kernel does not tell the limit.
pub fn raise_file_limit() -> anyhow::Result<Files> {
    let (before, hard) = getrlimit(Resource::RLIMIT_NOFILE).context("the limit of open files")?;
    let raised = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    if let Err(error) = raised {
        tracing::warn!("the limit of open files stays as it is: {error}");
    }
    let (now, _) = getrlimit(Resource::RLIMIT_NOFILE).context("the limit of open files")?;
    Ok(Files { before, now })
}
