//! Hot restart: the program gives its place to another one, usually its own next version, and keeps the sockets open.
//!
//! In: SIGUSR2. The program is tried out first (its policy is read by the new program, as `--validate` does, and sockets that it
//! would have to bind are bound and closed again); one that is wrong changes nothing. Then work in hand is finished as at any stop, while who connects waits in the sockets' queues, and the
//! process becomes the new program (`exec`): it stays the same process, so a service manager sees no end. Sockets go over as
//! systemd hands them (`LISTEN_FDS`), with a list of what each is for; without that list they are a service manager's own, and are
//! known by their addresses. What cannot be used is closed. Who tells the program to stop meanwhile is heard. Fails by saying so and serving on, but for the last step: a program
//! that cannot be started then ends this one with an error.

use crate::early_signals;
use anyhow::{Context, bail};
use command_fds::{CommandFdExt, FdMapping};
use config::HostPort;
use listenfd::ListenFd;
use policy::Startup;
use std::ffi::OsString;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

/// A listening socket and what it is for.
#[derive(Debug)]
pub struct Kept {
    /// `smtp` or `http`, and the listener's address as the policy has it.
    pub name: String,
    /// The socket.
    pub socket: TcpListener,
}

/// What takes this program's place, and with which sockets.
pub struct Successor {
    /// The program.
    pub program: Program,
    /// The sockets it is given.
    pub kept: Vec<Kept>,
    /// What was heard meanwhile.
    pub heard: Heard,
}

/// What signals say while nobody waits for them any more.
#[derive(Clone, Debug, Default)]
pub struct Heard {
    /// Somebody wants no program any more.
    pub is_stopped: Arc<AtomicBool>,
    /// Whoever wants that from now on ends the process, which has nothing in hand.
    pub ends_at_once: Arc<AtomicBool>,
}

/// Sockets that were there when the program was started.
#[derive(Debug, Default)]
pub struct Inherited {
    kept: Vec<Kept>,
}

/// The program as it was started.
#[derive(Clone, Debug)]
pub struct Program {
    file: PathBuf,
    arguments: Vec<OsString>,
}

impl Successor {
    /// This process becomes it. Returns when somebody has stopped it before.
    ///
    /// # Errors
    /// It cannot.
    pub fn take_over(self) -> anyhow::Result<()> {
        // They wait for the new program to hear them: its handlers are not there at first.
        early_signals::hold().context("signals")?;
        self.program.become_it(self.kept, &self.heard)
    }
}

impl Inherited {
    /// What the environment says was handed over.
    ///
    /// # Errors
    /// A socket that was is none that listens.
    pub fn found() -> anyhow::Result<Inherited> {
        let names = std::env::var(NAMES).unwrap_or_default();
        let mut names = names.split(',').filter(|name| !name.is_empty());
        let mut handed = ListenFd::from_env();
        let mut kept = Vec::new();
        for number in 0..handed.len() {
            let socket = handed.take_tcp_listener(number).context("LISTEN_FDS")?;
            // A copy, which is not handed to other programs that are started.
            let Some(socket) = socket.map(|socket| socket.try_clone()).transpose().context("LISTEN_FDS")? else {
                continue;
            };
            socket.set_nonblocking(true).context("LISTEN_FDS")?;
            kept.push(Kept { name: names.next().unwrap_or_default().to_owned(), socket });
        }
        Ok(Inherited { kept })
    }

    /// The socket of a listener, once: by its name, or else by its address.
    pub fn take(&mut self, protocol: &str, at: &HostPort) -> Option<TcpListener> {
        let name = name_of(protocol, at);
        let address = crate::listeners::address(at).ok().filter(|address| address.port() != 0);
        let is_at = |kept: &Kept| address.is_some() && kept.socket.local_addr().ok() == address;
        let named = self.kept.iter().position(|kept| kept.name == name);
        let place = named.or_else(|| self.kept.iter().position(is_at))?;
        Some(self.kept.remove(place).socket)
    }
}

impl Program {
    /// This one.
    ///
    /// # Errors
    /// The system does not tell its file.
    pub fn this() -> io::Result<Program> {
        let arguments: Vec<OsString> = std::env::args_os().collect();
        // As it was called, so that a link to another version is followed. Else what the system says now: once a new version is
        // installed it tells the removed file.
        let called = arguments.first().map(PathBuf::from).filter(|file| file.is_absolute());
        let file = called.map_or_else(std::env::current_exe, Ok)?;
        Ok(Program { file, arguments })
    }

    /// Has the program that is there now read its configuration, and start nothing. `sockets`: the addresses of those it will be given.
    ///
    /// # Errors
    /// What it said against it, or that it did not end within [`TRIAL_MAX`].
    pub fn try_out(&self, sockets: &[SocketAddr]) -> anyhow::Result<()> {
        let has_policy = self.arguments.iter().take(2).any(|word| word.to_string_lossy().ends_with("kumod"));
        let mut command = self.command();
        match has_policy {
            true => command.args(&self.arguments[1..]).arg("--validate"),
            false => command.arg("--help"),
        };
        command.env(TRIAL, sockets.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(","));
        command.env_remove(NAMES).env_remove("LISTEN_FDS").env_remove("LISTEN_PID").env_remove("NOTIFY_SOCKET");
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let stderr = child.stderr.take();
        let (tells, told) = channel();
        // What it says is over when it is.
        std::thread::spawn(move || tells.send(stderr.map(io::read_to_string).transpose()));
        let Ok(said) = told.recv_timeout(TRIAL_MAX) else {
            child.kill()?;
            child.wait()?;
            bail!("{}: did not read its configuration within {TRIAL_MAX:?}", self.file.display());
        };
        let status = child.wait()?;
        if !status.success() {
            bail!("{}: {status}: {}", self.file.display(), said?.unwrap_or_default().trim());
        }
        Ok(())
    }

    /// Becomes the program that is there now, with these sockets. Returns only when that is not possible.
    fn become_it(&self, kept: Vec<Kept>, heard: &Heard) -> anyhow::Result<()> {
        let names: Vec<String> = kept.iter().map(|kept| kept.name.clone()).collect();
        let sockets = kept.into_iter().zip(FIRST_SOCKET..);
        let mappings: Vec<FdMapping> =
            sockets.map(|(kept, child_fd)| FdMapping { parent_fd: kept.socket.into(), child_fd }).collect();
        let mut command = self.command();
        command.args(&self.arguments[1..]);
        command.env(NAMES, names.join(",")).env("LISTEN_FDS", mappings.len().to_string());
        command.env("LISTEN_PID", std::process::id().to_string());
        command.fd_mappings(mappings).context("handing sockets over")?;
        // In this order no moment is without somebody who hears: from here on a signal ends what the process is by then.
        heard.ends_at_once.store(true, Ordering::SeqCst);
        if heard.is_stopped.load(Ordering::SeqCst) {
            return Ok(());
        }
        Err(command.exec()).with_context(|| format!("cannot become {}", self.file.display()))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.file);
        // The name it was started under says what it is.
        command.arg0(&self.arguments[0]);
        command
    }
}

/// In the trial of a restart: whether the sockets that the program is not given can be bound. Else nothing is tried.
///
/// # Errors
/// One of them cannot.
pub fn try_sockets(startup: &Startup) -> anyhow::Result<()> {
    let Ok(given) = std::env::var(TRIAL) else { return Ok(()) };
    let given: Vec<SocketAddr> = given.split(',').filter_map(|address| address.parse().ok()).collect();
    // One that it is given need not be bound; another one in the way is closed before.
    let is_given =
        |at: &HostPort| crate::listeners::address(at).is_ok_and(|at| given.iter().any(|given| stands_in(*given, at)));
    let smtp = startup.esmtp_listeners.iter().map(|listener| &listener.listen);
    let http = startup.http_listeners.iter().map(|listener| &listener.listen);
    let sockets = smtp.chain(http).filter(|at| !is_given(at)).map(crate::listeners::bind);
    // All at once, so that two of one address are found.
    sockets.collect::<anyhow::Result<Vec<TcpListener>>>().map(drop)
}

/// Whether nothing can be bound to `at` while there is a socket with the address `given`.
fn stands_in(given: SocketAddr, at: SocketAddr) -> bool {
    let overlap = given.ip() == at.ip() || given.ip().is_unspecified() || at.ip().is_unspecified();
    given.port() == at.port() && overlap
}

/// What a listener's socket is called when it is handed over.
pub fn name_of(protocol: &str, at: &HostPort) -> String {
    format!("{protocol} {at}")
}

/// The sockets' names, in their order.
const NAMES: &str = "POSTRIDER_SOCKETS";
/// Addresses of the sockets that a program would be given which is tried out.
const TRIAL: &str = "POSTRIDER_TRIAL_SOCKETS";
/// Where systemd puts the first socket.
const FIRST_SOCKET: i32 = 3;
/// How long a program may take to read its configuration.
const TRIAL_MAX: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> HostPort {
        config::parse("test", serde_json::json!(text)).expect("sound")
    }

    fn kept(name: &str) -> Kept {
        Kept { name: name.to_owned(), socket: TcpListener::bind("127.0.0.1:0").expect("a port") }
    }

    #[test]
    fn what_stands_in_the_way_is_closed_before() {
        for (given, at, stands) in [
            ("127.0.0.1:25", "127.0.0.1:25", true),
            ("0.0.0.0:25", "127.0.0.1:25", true),
            ("127.0.0.1:25", "0.0.0.0:25", true),
            ("127.0.0.1:25", "127.0.0.2:25", false),
            ("127.0.0.1:25", "127.0.0.1:26", false),
        ] {
            let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
            assert_eq!(stands_in(address(given), address(at)), stands, "{given} {at}");
        }
    }

    #[test]
    fn who_is_stopped_becomes_nothing() {
        let this = |is_stopped| Successor {
            program: Program { file: "/nonexistent".into(), arguments: vec!["kumod".into()] },
            // It would take the place of a file that another test has open: this is their process.
            kept: Vec::new(),
            heard: Heard { is_stopped: Arc::new(AtomicBool::new(is_stopped)), ..Heard::default() },
        };
        assert!(this(true).take_over().is_ok());
        let error = this(false).take_over().expect_err("there is no such program");
        assert!(format!("{error:#}").contains("cannot become /nonexistent"), "{error:#}");
    }

    #[test]
    fn a_socket_is_known_by_its_name_or_by_its_address() {
        let of_manager = kept("");
        let address = of_manager.socket.local_addr().expect("bound");
        let mut inherited = Inherited { kept: vec![kept("smtp 127.0.0.1:0"), kept("http 127.0.0.1:0"), of_manager] };
        assert!(inherited.take("smtp", &at("127.0.0.1:25")).is_none());
        let http = inherited.kept[1].socket.local_addr().expect("bound");
        let taken = inherited.take("http", &at("127.0.0.1:0")).expect("there is one");
        assert_eq!(taken.local_addr().expect("bound"), http);
        assert!(inherited.take("http", &at("127.0.0.1:0")).is_none(), "once");
        let taken = inherited.take("smtp", &at(&address.to_string())).expect("of that address");
        assert_eq!(taken.local_addr().expect("bound"), address);
        assert_eq!(inherited.kept.len(), 1);
        let smtp = inherited.kept[0].socket.local_addr().expect("bound");
        assert!(inherited.take("http", &at(&smtp.to_string())).is_some(), "what it was for before does not matter");
    }
}
