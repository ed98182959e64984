//! The scratch folder everything happens in, and what lies ready there: policies, keys, the program under its names.
//!
//! The folder must be on a real disk, or a synced spool would prove nothing. It is removed when all went well; after a
//! failure the spools go and the logs of the children stay, and the error says where. In: where to work. Out: paths.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::keys::Keys;
use crate::machine;
use crate::process::Herd;

/// The place of one invocation.
pub struct Stage {
    /// All children.
    pub herd: Herd,
    /// Signing keys.
    pub keys: Keys,
    root: PathBuf,
}

/// Options that all verbs share.
#[derive(clap::Args, Clone, Default)]
pub struct Place {
    /// Folder to work in, on a real disk; a folder of this process's own is made there
    /// [default: postrider in $XDG_CACHE_HOME or ~/.cache]
    #[arg(long, visible_alias = "dir", value_name = "DIR")]
    work: Option<PathBuf>,
}

impl Place {
    /// Sets the stage, lets `play` happen on it, and clears it.
    ///
    /// # Errors
    /// The folder cannot be made or is not on a disk, or `play` fails.
    pub fn act(&self, play: impl FnOnce(&Stage) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let base = match &self.work {
            Some(folder) => folder.clone(),
            None => cache_folder()?,
        };
        let root = base.join(format!("bench-{}", std::process::id()));
        let herd = Herd::watched(root.clone())?;
        let outcome = Stage::set(root.clone(), herd).and_then(|stage| play(&stage));
        match outcome {
            Ok(()) => fs::remove_dir_all(&root).with_context(|| format!("cannot remove {}", root.display())),
            Err(error) => {
                // The first error is the one to tell.
                let _ = fs::remove_dir_all(root.join(SPOOLS));
                if root.join(LOGS).is_dir() {
                    return Err(error.context(format!("failed; logs are in {}", root.join(LOGS).display())));
                }
                Err(error)
            }
        }
    }
}

impl Stage {
    fn set(root: PathBuf, herd: Herd) -> anyhow::Result<Stage> {
        for name in [SPOOLS, LOGS, POLICIES] {
            let folder = root.join(name);
            fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        }
        let root = root.canonicalize()?;
        let mount = machine::mount_of(&root)?;
        if ["tmpfs", "ramfs"].contains(&mount.kind.as_str()) {
            bail!("--work: {} is on {}, where a sync costs nothing; expected a disk", root.display(), mount.kind);
        }
        for (name, text) in POLICY_TEXTS {
            fs::write(root.join(POLICIES).join(name), text).context("cannot write a policy")?;
        }
        let keys = Keys::make(&root.join(POLICIES))?;
        Ok(Stage { herd, keys, root })
    }

    /// Where the children's output goes.
    pub fn logs(&self) -> PathBuf {
        self.root.join(LOGS)
    }

    /// The policy of this file name.
    pub fn policy(&self, name: &str) -> PathBuf {
        self.root.join(POLICIES).join(name)
    }

    /// A new empty folder for a server's files.
    ///
    /// # Errors
    /// It is there already or cannot be made.
    pub fn spool(&self, name: &str) -> anyhow::Result<PathBuf> {
        let folder = self.root.join(SPOOLS).join(name);
        fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(folder)
    }

    /// Removes such a folder.
    pub fn sweep(&self, folder: &Path) {
        // Only disk space: the whole stage is removed at the end.
        let _ = fs::remove_dir_all(folder);
    }

    /// Any other file.
    pub fn file(&self, name: &str) -> PathBuf {
        self.root.join(LOGS).join(name)
    }

    /// Puts the built program where it can be started as `kumod`: a multi-call program goes by its name.
    ///
    /// # Errors
    /// There is no such program.
    pub fn install(&self, binary: &Path, folder: &str) -> anyhow::Result<Programs> {
        let folder = self.root.join(folder);
        fs::create_dir_all(&folder)?;
        for name in ["postrider", "kumod"] {
            let to = folder.join(name);
            // A hard link cannot cross file systems; a copy can.
            if fs::hard_link(binary, &to).is_err() {
                fs::copy(binary, &to).with_context(|| format!("no program {}", binary.display()))?;
            }
        }
        Ok(Programs { tools: folder.join("postrider"), kumod: folder.join("kumod") })
    }
}

/// One build of the program under the names it is started by.
pub struct Programs {
    /// For `postrider traffic-gen` and `postrider smtp-sink`.
    tools: PathBuf,
    /// The daemon.
    pub kumod: PathBuf,
}

impl Programs {
    /// A command for a tool that shares the server's cores: when it is woken it waits until the server's turn is over, and
    /// does not push it off its core (SCHED_BATCH).
    pub fn yielding_tool(&self) -> Command {
        let mut command = Command::new("chrt");
        command.args(["--batch", "0"]).arg(&self.tools);
        command
    }

    /// A command for a tool that has a timetable to keep.
    pub fn punctual_tool(&self) -> Command {
        Command::new(&self.tools)
    }
}

/// The built `postrider` in `folder`, or beside this program when no folder is given.
///
/// # Errors
/// It is not there.
pub fn built_program(folder: Option<&Path>) -> anyhow::Result<PathBuf> {
    let own;
    let folder = match folder {
        Some(folder) => folder,
        None => {
            own = std::env::current_exe()?;
            own.parent().context("this program has no folder")?
        }
    };
    let binary = folder.join("postrider");
    if !binary.is_file() {
        bail!("no program {}: build it (cargo build --release -p postrider) or give --bin", binary.display());
    }
    Ok(binary)
}

fn cache_folder() -> anyhow::Result<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = cache.or_else(home).context("neither HOME nor XDG_CACHE_HOME is set: give --work")?;
    Ok(cache.join("postrider"))
}

const SPOOLS: &str = "spool";
const LOGS: &str = "logs";
const POLICIES: &str = "policy";
const POLICY_TEXTS: [(&str, &str); 7] = [
    ("relay.lua", include_str!("../../../bench/policies/relay.lua")),
    ("production.lua", include_str!("../../../bench/policies/production.lua")),
    ("production-shaping.toml", include_str!("../../../bench/policies/production-shaping.toml")),
    ("local.lua", include_str!("../../../bench/policies/local.lua")),
    ("sink.lua", include_str!("../../../bench/policies/sink.lua")),
    ("backlog.lua", include_str!("../../../bench/policies/backlog.lua")),
    ("destinations.lua", include_str!("../../../bench/policies/destinations.lua")),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Program;
    use crate::wait::until;
    use std::time::Duration;

    #[test]
    fn a_tool_yields_unless_it_has_a_timetable() {
        let folder = tempfile::tempdir().expect("scratch folder");
        let programs = Programs { tools: "sleep".into(), kumod: PathBuf::new() };
        // The policy of scheduling, field 41 of proc_pid_stat(5), is the 39th behind the name. 3 is SCHED_BATCH.
        let policy_of = |mut command: Command| {
            let name = "sleeper";
            let program =
                Program::start(&Herd::default(), folder.path(), name, command.arg("1000")).expect("it starts");
            until("the program in chrt's place", Duration::from_secs(10), || {
                let stat = fs::read_to_string(format!("/proc/{}/stat", program.pid()))?;
                Ok(stat.contains(" (sleep) ").then(|| policy(&stat)))
            })
            .expect("a policy")
        };
        let own = policy(&fs::read_to_string("/proc/self/stat").expect("proc"));
        assert_eq!(policy_of(programs.yielding_tool()), "3");
        assert_eq!(policy_of(programs.punctual_tool()), own);
    }

    fn policy(stat: &str) -> String {
        let (_, fields) = stat.rsplit_once(") ").expect("a name");
        fields.split(' ').nth(38).expect("41 fields").to_owned()
    }
}
