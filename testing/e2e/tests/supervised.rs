//! What a service manager hears (sd_notify): ready once mail is taken, alive while the program is, reloading, stopping.

use e2e::kumod::Launch;
use e2e::scratch::Scratch;
use e2e::until::SOON;
use e2e::wire::Client;
use nix::sys::signal::Signal;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Instant;

#[test]
fn the_manager_hears_when_it_serves_lives_reloads_and_stops() {
    let scratch = Scratch::new();
    // A path in a socket's address has 107 octets at most.
    let name = format!("postrider-e2e-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    let manager = Manager(UnixDatagram::bind_addr(&address).expect("bound"));
    manager.0.set_read_timeout(Some(SOON)).expect("a timeout");
    let policy = scratch.write("init.lua", policy(&scratch));
    let launch = Launch::policy(&policy).env("NOTIFY_SOCKET", format!("@{name}")).env("WATCHDOG_USEC", "200000");
    let mut server = launch.spawn();
    manager.await_word("READY=1");
    let line =
        server.await_stderr("a listener", SOON, |line| line.rsplit_once("smtp listener on ").map(|l| l.1.to_owned()));
    let listener = line.trim().parse().expect("an address");
    // Ready is ready: nobody who acts on it is refused.
    assert_eq!(Client::connect(listener).submit("a@from.test", "b@to.invalid", "first").code, 250);
    (0..3).for_each(|_| assert_eq!(manager.await_word("WATCHDOG=1"), "WATCHDOG=1"));

    server.signal(Signal::SIGHUP);
    assert!(manager.await_word("RELOADING=1").contains("\nMONOTONIC_USEC="));
    assert_eq!(manager.await_word("READY=1"), "READY=1\nSTATUS=serving");
    scratch.write("init.lua", "this is no Lua");
    server.signal(Signal::SIGHUP);
    manager.await_word("RELOADING=1");
    let word = manager.await_word("READY=1");
    assert!(word.contains("\nSTATUS=serving; configuration stays as it was: "), "{word}");
    manager.await_word("WATCHDOG=1");

    // The policy must be sound for that, and is not.
    server.signal(Signal::SIGUSR2);
    server.await_stderr("no restart", SOON, |line| line.contains("no restart: ").then_some(()));
    scratch.write("init.lua", self::policy(&scratch));
    let pid = server.pid();
    server.signal(Signal::SIGUSR2);
    manager.await_word("RELOADING=1");
    assert_eq!(manager.await_word("READY=1"), "READY=1\nSTATUS=serving");
    manager.await_word("WATCHDOG=1");
    assert_eq!((server.pid(), server.is_running()), (pid, true), "the same process");
    assert_eq!(Client::connect(listener).submit("a@from.test", "b@to.invalid", "second").code, 250);

    server.signal(Signal::SIGTERM);
    manager.await_word("STOPPING=1");
    server.finish(SOON).success();
}

/// The manager's end.
struct Manager(UnixDatagram);

impl Manager {
    /// The next word that begins so.
    fn await_word(&self, start: &str) -> String {
        let deadline = Instant::now() + SOON;
        loop {
            // Others may come for ever.
            assert!(Instant::now() < deadline, "no {start} within {SOON:?}");
            let mut octets = [0; 1024];
            let count = self.0.recv(&mut octets).unwrap_or_else(|error| panic!("no {start}: {error}"));
            let word = String::from_utf8_lossy(&octets[..count]).into_owned();
            if word.starts_with(start) {
                return word;
            }
        }
    }
}

fn policy(scratch: &Scratch) -> String {
    format!(
        "local kumo = require 'kumo'\nkumo.on('init', function()\n\
         kumo.define_spool {{ name = 'data', path = '{spool}' }}\n\
         kumo.define_spool {{ name = 'meta', path = '{spool}' }}\n\
         kumo.start_esmtp_listener {{ listen = '127.0.0.1:0', relay_hosts = {{ '127.0.0.1' }} }}\n\
         end)\n",
        spool = scratch.join("spool").display()
    )
}
