//! Ports for programs that cannot be asked for port 0, or must come back on the same one after a crash.

use std::net::TcpListener;

/// A port free on 127.0.0.1 now, below the range the system hands out by itself, so that no client's socket takes it
/// between two lives of a server.
pub fn free_port() -> u16 {
    for _ in 0..TRIES_MAX {
        let port = fastrand::u16(PORTS);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no free port among {PORTS:?} in {TRIES_MAX} tries");
}

const PORTS: std::ops::Range<u16> = 11_000..32_000;
const TRIES_MAX: usize = 100;
