//! The program under test: how it is started, where it listens, how it is stopped.
//!
//! Every start has an environment of its own: nothing of the caller's settings changes a test. Listeners are put on
//! port 0 by the policies and found by the lines that announce them.

use crate::http;
use crate::process::{Finished, Process};
use crate::scratch::Scratch;
use crate::until::{SOON, until};
use nix::sys::signal::Signal;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A way to start the server; may be used several times.
#[derive(Clone, Debug)]
pub struct Launch {
    /// Words before the program's name.
    wrapper: Vec<OsString>,
    arguments: Vec<OsString>,
    env: BTreeMap<String, OsString>,
    folder: Option<PathBuf>,
}

/// A running server.
#[derive(Debug)]
pub struct Kumod {
    /// The process itself.
    pub process: Process,
    /// ESMTP listeners in the order of the policy.
    pub smtp: Vec<SocketAddr>,
    /// HTTP listeners in the order of the policy.
    pub http: Vec<SocketAddr>,
    /// From the start to `initialization complete`.
    pub started_in: Duration,
}

impl Launch {
    /// `kumod --policy FILE`, as the user who runs the tests.
    pub fn policy(file: impl AsRef<Path>) -> Launch {
        let user = nix::unistd::User::from_uid(nix::unistd::geteuid());
        let user = user.ok().flatten().expect("the user who runs the tests has a name").name;
        Launch::verb("kumod").arg("--policy").arg(file.as_ref()).arg("--user").arg(user)
    }

    /// `kumod` with the policy `relay.lua`: everything goes to `to`, spool and logs lie in `DIR/relay`.
    pub fn relay(scratch: &Scratch, to: SocketAddr) -> Launch {
        Launch::policy(policy_file("relay.lua"))
            .env("RELAY_PORT", "0")
            .env("RELAY_HTTP", "127.0.0.1:0")
            .env("RELAY_DIR", scratch.join("relay"))
            .env("RELAY_TO", to.to_string())
    }

    /// `kumod` with the policy `front.lua`: TLS, AUTH, two listeners; spool and logs lie in `DIR/front`.
    pub fn front(scratch: &Scratch, to: SocketAddr) -> Launch {
        let launch = Launch::policy(policy_file("front.lua"));
        launch.env("FRONT_DIR", scratch.join("front")).env("FRONT_TO", to.to_string())
    }

    /// `postrider VERB` and nothing else.
    pub fn verb(verb: &str) -> Launch {
        Launch { wrapper: Vec::new(), arguments: vec![verb.into()], env: BTreeMap::new(), folder: None }
    }

    /// Adds an argument.
    pub fn arg(mut self, argument: impl Into<OsString>) -> Launch {
        self.arguments.push(argument.into());
        self
    }

    /// Sets a variable of its environment.
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Launch {
        self.env.insert(name.to_owned(), value.into());
        self
    }

    /// Starts it in this folder, which relative names are about.
    pub fn in_folder(mut self, folder: impl Into<PathBuf>) -> Launch {
        self.folder = Some(folder.into());
        self
    }

    /// Starts it by way of another program, such as a tracer: `WORDS... postrider ...`.
    pub fn under(mut self, words: Vec<OsString>) -> Launch {
        self.wrapper = words;
        self
    }

    /// Starts it and waits until it serves.
    pub fn start(&self) -> Kumod {
        let begun = Instant::now();
        let process = self.spawn();
        process.await_stderr("`initialization complete`", SOON, |line| {
            line.contains("initialization complete").then_some(())
        });
        let started_in = begun.elapsed();
        let text = process.stderr();
        let listeners = |protocol: &str| {
            let mark = format!("{protocol} listener on ");
            let address = |line: &str| line.split_once(&mark).and_then(|(_, address)| address.trim().parse().ok());
            text.lines().filter_map(address).collect::<Vec<SocketAddr>>()
        };
        Kumod { smtp: listeners("smtp"), http: listeners("http"), process, started_in }
    }

    /// Starts it in the expectation that it ends by itself.
    pub fn run(&self) -> Finished {
        self.spawn().finish(SOON)
    }

    /// Starts it and waits for nothing.
    pub fn spawn(&self) -> Process {
        let mut command = match self.wrapper.split_first() {
            None => program(),
            Some((wrapper, words)) => {
                let mut command = clean(wrapper);
                command.args(words).arg(binary());
                command
            }
        };
        command.args(&self.arguments).envs(&self.env);
        command.current_dir(self.folder.as_deref().unwrap_or(Path::new(".")));
        Process::spawn(&self.arguments[0].to_string_lossy(), command)
    }
}

impl Kumod {
    /// The first ESMTP listener.
    pub fn smtp(&self) -> SocketAddr {
        *self.smtp.first().expect("the policy has an ESMTP listener")
    }

    /// The first HTTP listener.
    pub fn http(&self) -> SocketAddr {
        *self.http.first().expect("the policy has an HTTP listener")
    }

    /// The metrics page.
    pub fn metrics(&self) -> String {
        http::get(self.http(), "/metrics").1
    }

    /// A series of the metrics page; 0 while it does not exist.
    pub fn metric(&self, series: &str) -> f64 {
        http::value(&self.metrics(), series).unwrap_or_default()
    }

    /// Waits until a series has reached a value.
    pub fn await_metric(&self, series: &str, at_least: f64, within: Duration) {
        let mut last = 0.0;
        until(within, &format!("{series} >= {at_least}"), || {
            last = self.metric(series);
            (last >= at_least).then_some(())
        });
    }

    /// True when the return of what earlier runs left has ended, well or not.
    pub fn is_recovered(&self) -> bool {
        http::value(&self.metrics(), "postrider_spool_recovering") == Some(0.0)
    }

    /// Waits until what earlier runs left is back in its queues. Until then nobody is told "no such message", on an empty spool either.
    pub fn await_recovered(&self, within: Duration) {
        until(within, "what was in the spool", || self.is_recovered().then_some(()));
        let (_, ready) = http::get(self.http(), "/api/check-readiness/v1");
        assert!(!ready.contains("spool unhealthy"), "{ready}");
    }

    /// Waits until no message is left in the server.
    pub fn await_empty(&self, within: Duration) {
        // In this order: what has not come back yet is not counted.
        let is_empty = || self.is_recovered() && self.metric("message_count") == 0.0;
        until(within, "an empty server (message_count 0)", || is_empty().then_some(()));
    }

    /// SIGTERM, and the end it leads to, which must be exit code 0.
    pub fn stop(mut self) -> Finished {
        self.process.signal(Signal::SIGTERM);
        self.process.finish(SOON).success()
    }
}

/// The built program with a clean environment.
pub fn program() -> Command {
    clean(binary())
}

fn clean(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env_clear();
    for name in ["PATH", "HOME"] {
        command.envs(std::env::var_os(name).map(|value| (name, value)));
    }
    command
}

/// A file of `policies/`.
pub fn policy_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("policies").join(name)
}

fn binary() -> PathBuf {
    let default = || std::env::var_os("CARGO_TARGET_DIR").map(|dir| PathBuf::from(dir).join("release/postrider"));
    let path = std::env::var_os("POSTRIDER_BIN").map(PathBuf::from).or_else(default);
    let path = path.expect("neither POSTRIDER_BIN nor CARGO_TARGET_DIR is set: where is the built program?");
    let build = "run `cargo build --release -p postrider`, or set POSTRIDER_BIN";
    assert!(path.is_file(), "the program under test is missing: {}: {build}", path.display());
    path
}
