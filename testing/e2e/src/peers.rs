//! Where the real mail programs are, as `peers/fetch.sh`, `peers/dns.sh` and their like left them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// One of the wrappers in `bin/`: `smtp-source`, `smtp-sink`, `swaks`, `haproxy`, `danted`, `microsocks`, `redis-server`,
/// `nats-server`, `rabbitmq-server`, `python`.
pub fn command(name: &str) -> Command {
    Command::new(file(&format!("bin/{name}"), "fetch.sh"))
}

/// `python` with one of our scripts in `peers/`.
pub fn script(name: &str) -> Command {
    let mut command = command("python");
    command.arg(own(name));
    command
}

/// One of our own files in `peers/`.
pub fn own(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers").join(name)
}

/// The folder of fetched programs.
pub fn folder() -> PathBuf {
    let cache = || match (std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME")) {
        (Some(cache), _) => PathBuf::from(cache),
        (None, Some(home)) => PathBuf::from(home).join(".cache"),
        (None, None) => panic!("none of POSTRIDER_PEERS, XDG_CACHE_HOME and HOME is set: where are the mail programs?"),
    };
    std::env::var_os("POSTRIDER_PEERS").map_or_else(|| cache().join("postrider/peers"), PathBuf::from)
}

/// A file in the folder; `made_by` is the script of `peers/` that makes it.
pub fn file(name: &str, made_by: &str) -> PathBuf {
    let folder = folder();
    let path = folder.join(name);
    let missing = "the mail programs the tests need are missing";
    let script = own(made_by);
    assert!(path.is_file(), "{missing}: {}: run `{} {}`", path.display(), script.display(), folder.display());
    path
}
