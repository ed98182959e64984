//! SIGKILL, and what the killed server had not read.
//!
//! It is stopped first, all its threads, so that what stands in its sockets' buffers then is what it dies without having
//! read. It runs no instruction of its own behind the stop; but a long write that it is in comes to its end, where SIGKILL
//! alone may leave a part: some kills should be [`kill_at_once`]. In: a process, and the port it delivers to. Out: octets
//! by the port of its own end. Behind SIGKILL alone the kernel tells less, and later: it resets a connection of which something
//! was not read, and closes any other in order (RFC 1122 section 4.2.2.13).

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use std::collections::HashMap;

/// Octets that nobody read, by port of the end that was to read them.
pub type Unread = HashMap<u16, u64>;

/// Kills a child of ours; what it had not read from its connections to `port`. Its end is still to be waited for.
pub fn kill_of(pid: u32, port: u16) -> Unread {
    let pid = Pid::from_raw(i32::try_from(pid).expect("a process id"));
    kill(pid, Signal::SIGSTOP).expect("a child of ours");
    let flags = WaitPidFlag::WSTOPPED | WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
    let status = waitid(Id::Pid(pid), flags).expect("a child of ours");
    let unread = match status {
        WaitStatus::Stopped(..) => {
            unread(&std::fs::read_to_string("/proc/net/tcp").expect("the kernel's list of connections"), port)
        }
        // It had ended by itself: its sockets are gone.
        _ => Unread::new(),
    };
    kill(pid, Signal::SIGKILL).expect("a child of ours");
    unread
}

/// The same by SIGKILL alone. What it had not read is not known then; its connections will tell.
pub fn kill_at_once(pid: u32) {
    kill(Pid::from_raw(i32::try_from(pid).expect("a process id")), Signal::SIGKILL).expect("a child of ours");
}

/// Of the kernel's list of connections, those to `port` (IPv4).
fn unread(list: &str, port: u16) -> Unread {
    let port_of = |end: &str| u16::from_str_radix(end.split_once(':')?.1, 16).ok();
    let row = |line: &str| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let (ours, theirs, state, queues) = (words.next()?, words.next()?, words.next()?, words.next()?);
        // The end of the stream counts as an octet of it.
        let end = u64::from(state == CLOSE_WAIT);
        let octets = u64::from_str_radix(queues.split_once(':')?.1, 16).ok()?.saturating_sub(end);
        (port_of(theirs)? == port && octets > 0).then_some((port_of(ours)?, octets))
    };
    list.lines().filter_map(row).collect()
}

/// The other side has closed (the kernel's TCP_CLOSE_WAIT).
const CLOSE_WAIT: &str = "08";

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Stdio};

    #[test]
    fn the_kernel_tells_what_was_not_read() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
        let port = listener.local_addr().expect("bound").port();
        let mut reader = TcpStream::connect(("127.0.0.1", port)).expect("connects");
        let (mut writer, _) = listener.accept().expect("accepts");
        let of = || unread(&std::fs::read_to_string("/proc/net/tcp").expect("reads"), port);
        assert_eq!(of(), Unread::new());
        writer.write_all(&[7; 300]).expect("writes");
        reader.read_exact(&mut [0; 44]).expect("reads");
        let unread = Unread::from([(reader.local_addr().expect("connected").port(), 256)]);
        assert_eq!(of(), unread);
        drop(writer);
        assert_eq!(of(), unread, "the end is no octet");
    }

    #[test]
    fn a_connection_is_reset_if_and_only_if_something_was_not_read() {
        for (read, ends) in [(300, Ok(0)), (299, Err(std::io::ErrorKind::ConnectionReset))] {
            let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
            let mut reader = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
            let (mut writer, _) = listener.accept().expect("accepts");
            writer.write_all(&[7; 300]).expect("writes");
            reader.read_exact(&mut vec![0; read]).expect("reads");
            drop(reader);
            assert_eq!(writer.read(&mut [0]).map_err(|e| e.kind()), ends, "{read} of 300 octets read");
        }
    }

    #[test]
    fn what_is_killed_ends_of_it_and_runs_no_further() {
        let mut child = Command::new("yes").stdout(Stdio::null()).spawn().expect("yes(1)");
        assert_eq!(kill_of(child.id(), 1), Unread::new());
        assert_eq!(child.wait().expect("ends").signal(), Some(Signal::SIGKILL as i32));
    }
}
