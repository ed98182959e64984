//! Which threads carry which work: a crowd of sessions has threads of its own.
//!
//! A runtime gives every ready task its turn, whatever it is. Where two thousand clients send at once, a hundred connections
//! that deliver have every twentieth turn: mail comes in faster than it goes out, piles up, and costs more to deliver. So the
//! first sessions are carried by the threads that deliver, which is cheapest while clients are few, and those beyond them by as
//! many threads again: between the two the kernel divides the cores. ADR 2 has what was measured.
//!
//! In: how many sessions are open. Out: whose threads the next one is for, and its socket watched by them. Fails where the kernel
//! does not watch one more socket. Absent: moving a session from one to the other, and a pool for each kind of work.

use std::io;
use tokio::net::TcpStream;
use tokio::runtime::Handle;

/// The threads of this process that tasks of the engine run on.
#[derive(Clone, Debug)]
pub struct Threads {
    /// Carries the first sessions, and all else.
    pub main: Handle,
    /// Carries sessions that come while there are many.
    pub crowd: Handle,
    /// Sessions of all ESMTP listeners, idle ones too; who comes while so many are open belongs to the crowd, and stays there.
    pub few_sessions: usize,
}

impl Threads {
    /// Of a machine with so many cores for this process.
    pub fn on_cores(cores: usize, main: Handle, crowd: Handle) -> Threads {
        Threads { main, crowd, few_sessions: cores.saturating_mul(FEW_A_CORE) }
    }

    /// Those of the runtime this is called on, for everything.
    ///
    /// # Panics
    /// Where there is no runtime.
    pub fn current() -> Threads {
        Threads { main: Handle::current(), crowd: Handle::current(), few_sessions: usize::MAX }
    }

    /// Who carries a session that comes while `open` others are: the runtime, and the client's socket as it watches it.
    ///
    /// # Errors
    /// The socket cannot be watched anew.
    pub(crate) fn for_session(&self, open: usize, tcp: TcpStream) -> io::Result<(&Handle, TcpStream)> {
        if open < self.few_sessions {
            return Ok((&self.main, tcp));
        }
        let tcp = tcp.into_std()?;
        let _on_crowd = self.crowd.enter();
        Ok((&self.crowd, TcpStream::from_std(tcp)?))
    }
}

/// Sessions a core that share their threads with deliveries. With 32 or 128 of 400 sharing, on two cores, mail cost the same.
const FEW_A_CORE: usize = 64;
