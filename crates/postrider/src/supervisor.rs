//! What a service manager is told (sd_notify(3)): that the program serves, reads its configuration again, ends, and is alive.
//!
//! In: what the environment says of the manager's socket and of its watchdog. Out: datagrams to that socket; without one, nothing.
//! Fails by what cannot be sent: that is in the diagnostic log, and the program goes on, as mail does not need a manager.
//!
//! A sign of life is sent when a task of each of the server's own runtimes came to its turn and [`Supervisor::watch`]'s `pulse` came back,
//! so that neither a runtime that stands still nor a lock that nobody gives back looks alive.
//!
//! Deliberately absent: a library (it is one datagram), and `fork`. Sockets handed over are `handover`'s.

use nix::time::{ClockId, clock_gettime};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::task::JoinError;

/// The way to the service manager, if one waits for word.
#[derive(Clone, Debug, Default)]
pub struct Supervisor {
    line: Option<Arc<Line>>,
    /// Time within which it wants to hear of us.
    watchdog: Option<Duration>,
}

/// What the environment says of it.
#[derive(Clone, Debug, Default)]
struct Environment {
    /// `NOTIFY_SOCKET`.
    socket: Option<OsString>,
    /// `WATCHDOG_USEC`.
    watchdog_usec: Option<OsString>,
    /// `WATCHDOG_PID`.
    watchdog_pid: Option<OsString>,
}

#[derive(Debug)]
struct Line {
    socket: UnixDatagram,
    to: SocketAddr,
}

impl Supervisor {
    /// Who the environment names.
    pub fn found() -> Supervisor {
        let environment = Environment {
            socket: std::env::var_os("NOTIFY_SOCKET"),
            watchdog_usec: std::env::var_os("WATCHDOG_USEC"),
            watchdog_pid: std::env::var_os("WATCHDOG_PID"),
        };
        Supervisor::of(&environment, std::process::id()).unwrap_or_else(|error| {
            tracing::warn!("NOTIFY_SOCKET: {error}: the service manager hears nothing");
            Supervisor::default()
        })
    }

    fn of(environment: &Environment, own_pid: u32) -> io::Result<Supervisor> {
        let Some(name) = environment.socket.as_deref().filter(|name| !name.is_empty()) else {
            return Ok(Supervisor::default());
        };
        let line = Line { to: address(name)?, socket: UnixDatagram::unbound()? };
        line.socket.set_write_timeout(Some(SEND_MAX))?;
        Ok(Supervisor { line: Some(Arc::new(line)), watchdog: watchdog(environment, own_pid) })
    }

    /// Every listener is open.
    pub fn ready(&self) {
        self.say("READY=1\nSTATUS=serving");
    }

    /// Configuration is read again, until [`Supervisor::reloaded`].
    pub fn reloading(&self) {
        // Microseconds of the monotonic clock tell the manager which of its requests this answers.
        match clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from) {
            Ok(now) => self.say(&format!("RELOADING=1\nMONOTONIC_USEC={}", now.as_micros())),
            Err(error) => tracing::warn!("the monotonic clock: {error}"),
        }
    }

    /// It was read; or not, then for this reason.
    pub fn reloaded(&self, refused: Option<&str>) {
        match refused {
            None => self.ready(),
            Some(why) => {
                let why = why.lines().next().unwrap_or_default();
                self.say(&format!("READY=1\nSTATUS=serving; configuration stays as it was: {why}"));
            }
        }
    }

    /// Nothing new is taken any more, and all is over `within` this time: the manager waits for that, whatever its own limit is.
    pub fn stopping(&self, within: Duration) {
        self.say(&format!("STOPPING=1\nSTATUS=finishing what is in hand\nEXTEND_TIMEOUT_USEC={}", within.as_micros()));
    }

    /// Tells the manager that the program is alive, twice in the time within which it wants to hear so, each time `pulse` came
    /// back from all `runtimes`. Never ends, if it wants to hear at all.
    pub async fn watch(self, runtimes: Vec<Handle>, pulse: impl Fn() + Clone + Send + 'static) {
        let Some(within) = self.watchdog else { return };
        let mut times = tokio::time::interval(within / 2);
        times.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            times.tick().await;
            match felt_on(&runtimes, &pulse).await {
                Ok(()) => self.say("WATCHDOG=1"),
                Err(error) => tracing::error!("no sign of life: {error}"),
            }
        }
    }

    fn say(&self, state: &str) {
        let Some(line) = &self.line else { return };
        if let Err(error) = line.socket.send_to_addr(state.as_bytes(), &line.to) {
            tracing::warn!(
                "the service manager cannot be told {:?}: {error}",
                state.lines().next().unwrap_or_default()
            );
        }
    }
}

/// Comes back when `pulse` did on each of them, as a task of its own, as every session is one.
async fn felt_on(runtimes: &[Handle], pulse: &(impl Fn() + Clone + Send + 'static)) -> Result<(), JoinError> {
    for runtime in runtimes {
        let pulse = pulse.clone();
        runtime.spawn(async move { pulse() }).await?;
    }
    Ok(())
}

/// A path, or behind `@` a name that is in no file system.
fn address(name: &OsStr) -> io::Result<SocketAddr> {
    match name.as_bytes().split_first() {
        Some((b'@', name)) => SocketAddr::from_abstract_name(name),
        Some((b'/', _)) => SocketAddr::from_pathname(name),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("`{}`: expected a path, or @ and a name", name.display()),
        )),
    }
}

/// The watchdog's time, if it is this process that is watched.
fn watchdog(environment: &Environment, own_pid: u32) -> Option<Duration> {
    let number = |text: &Option<OsString>| text.as_ref()?.to_str()?.parse::<u64>().ok();
    let is_ours = environment.watchdog_pid.is_none() || number(&environment.watchdog_pid) == Some(own_pid.into());
    let usec = number(&environment.watchdog_usec).filter(|usec| *usec > 0 && is_ours)?;
    Some(Duration::from_micros(usec))
}

/// How long the manager may take to take a word, before it goes without.
const SEND_MAX: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Condvar, Mutex};
    use tokio::runtime::Builder;

    fn environment(socket: &str, usec: Option<&str>, pid: Option<&str>) -> Environment {
        let own = |text: Option<&str>| text.map(OsString::from);
        Environment { socket: own(Some(socket)), watchdog_usec: own(usec), watchdog_pid: own(pid) }
    }

    fn heard(manager: &UnixDatagram) -> io::Result<String> {
        let mut octets = [0; 512];
        let count = manager.recv(&mut octets)?;
        Ok(String::from_utf8_lossy(&octets[..count]).into_owned())
    }

    #[test]
    fn states_reach_a_path_and_an_abstract_name() {
        let folder = tempfile::tempdir().expect("scratch");
        let path = folder.path().join("notify");
        let abstract_name = format!("postrider-supervisor-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&abstract_name).expect("a name");
        for (manager, name) in [
            (UnixDatagram::bind(&path).expect("bound"), path.to_str().expect("UTF-8").to_owned()),
            (UnixDatagram::bind_addr(&address).expect("bound"), format!("@{abstract_name}")),
        ] {
            manager.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
            let supervisor = Supervisor::of(&environment(&name, None, None), 1).expect("sound");
            supervisor.ready();
            supervisor.reloading();
            supervisor.reloaded(Some("init.lua:1: oops\nmore"));
            supervisor.stopping(Duration::from_secs(90));
            assert_eq!(heard(&manager).expect("word"), "READY=1\nSTATUS=serving");
            let word = heard(&manager).expect("word");
            let (first, usec) = word.split_once("\nMONOTONIC_USEC=").expect("two lines");
            assert!(first == "RELOADING=1" && usec.parse::<u64>().is_ok_and(|usec| usec > 0), "{word}");
            let word = heard(&manager).expect("word");
            assert_eq!(word, "READY=1\nSTATUS=serving; configuration stays as it was: init.lua:1: oops");
            let word = heard(&manager).expect("word");
            assert_eq!(word, "STOPPING=1\nSTATUS=finishing what is in hand\nEXTEND_TIMEOUT_USEC=90000000");
        }
    }

    #[test]
    fn only_what_is_meant_for_this_process_counts() {
        let watched = |usec, pid| watchdog(&environment("", usec, pid), 7);
        assert_eq!(watched(Some("3000000"), None), Some(Duration::from_secs(3)));
        assert_eq!(watched(Some("3000000"), Some("7")), Some(Duration::from_secs(3)));
        for (usec, pid) in [(Some("3000000"), Some("8")), (Some("0"), None), (Some("x"), None), (None, Some("7"))] {
            assert_eq!(watched(usec, pid), None, "{usec:?} {pid:?}");
        }
        assert!(Supervisor::of(&environment("notify", None, None), 7).is_err(), "neither a path nor a name");
        // Nobody there: the program goes on.
        let absent = Supervisor::of(&environment("/nonexistent/notify", None, None), 7).expect("sound");
        absent.ready();
        Supervisor::of(&environment("", Some("3000000"), None), 7).expect("nobody asks").ready();
    }

    /// Who does not come back from the pulse on each runtime is not said to be alive.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn signs_of_life_end_with_life() {
        let folder = tempfile::tempdir().expect("scratch");
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).expect("bound");
        let supervisor =
            Supervisor::of(&environment(path.to_str().expect("UTF-8"), Some("100000"), None), 1).expect("sound");
        let held = Arc::new((Mutex::new(false), Condvar::new(), AtomicBool::new(false)));
        let pulse = {
            let held = held.clone();
            move || {
                if std::thread::current().name() != Some(SECOND) {
                    return;
                }
                let (stuck, changed, arrived) = &*held;
                let mut stuck = stuck.lock().expect("sound");
                while *stuck {
                    arrived.store(true, Ordering::Release);
                    stuck = changed.wait(stuck).expect("sound");
                }
            }
        };
        // The second is the one that will not come back; the test's own carries everything else.
        let second = Builder::new_multi_thread().worker_threads(1).thread_name(SECOND).enable_all().build();
        let second = second.expect("threads");
        let watching = tokio::spawn(supervisor.watch(vec![Handle::current(), second.handle().clone()], pulse));
        manager.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        for _ in 0..3 {
            assert_eq!(heard(&manager).expect("a sign of life"), "WATCHDOG=1");
        }
        *held.0.lock().expect("sound") = true;
        let arrived = async {
            while !held.2.load(Ordering::Acquire) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), arrived).await.expect("the pulse is asked for");
        manager.set_nonblocking(true).expect("nonblocking");
        while heard(&manager).is_ok() {}
        manager.set_nonblocking(false).expect("blocking");
        manager.set_read_timeout(Some(Duration::from_millis(500))).expect("a timeout");
        assert!(heard(&manager).is_err(), "five times the watchdog's time, and not a word");
        *held.0.lock().expect("sound") = false;
        held.1.notify_all();
        manager.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        assert_eq!(heard(&manager).expect("alive again"), "WATCHDOG=1");
        watching.abort();
        second.shutdown_background();
    }

    const SECOND: &str = "second";
}
