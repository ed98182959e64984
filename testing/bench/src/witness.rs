//! A small SMTP receiver inside the harness that notes when things happen: each connection's begin and end, each message's
//! arrival. In: mail. Out: moments, from which rates and latencies follow exactly; `smtp-sink` is faster and knows no times.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

/// The receiver; it ends with its runtime.
pub struct Witness {
    /// Where it listens.
    pub address: SocketAddr,
    log: Arc<Mutex<Log>>,
}

/// What it saw, oldest first.
#[derive(Debug, Default, Clone)]
pub struct Log {
    /// When a message was complete, and its `X-Postrider-Id`.
    pub arrivals: Vec<(Instant, String)>,
    /// When a connection came, and when it went.
    pub connections: Vec<(Instant, Option<Instant>)>,
}

impl Witness {
    /// Listens on a free port.
    ///
    /// # Errors
    /// There is none.
    pub fn start(runtime: &Runtime) -> anyhow::Result<Witness> {
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).context("a witness's port")?;
        let address = listener.local_addr()?;
        let log = Arc::new(Mutex::new(Log::default()));
        let noted = Arc::clone(&log);
        runtime.spawn(async move {
            // The runtime's end is what ends this.
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(attend(stream, Arc::clone(&noted)));
            }
        });
        Ok(Witness { address, log })
    }

    /// What it has seen so far.
    pub fn log(&self) -> Log {
        lock(&self.log).clone()
    }

    /// When the message of this id arrived first.
    pub fn arrival(&self, id: &str) -> Option<Instant> {
        lock(&self.log).arrivals.iter().find(|(_, arrived)| arrived == id).map(|(at, _)| *at)
    }
}

impl Log {
    /// Of what happened after `from`: the most messages in any second.
    pub fn messages_per_s_max(&self, from: Instant) -> usize {
        most_within(self.arrivals.iter().map(|(at, _)| *at).filter(|at| *at >= from).collect(), SECOND)
    }

    /// The most connections opened in any second.
    pub fn connections_per_s_max(&self, from: Instant) -> usize {
        most_within(self.connections.iter().map(|(at, _)| *at).filter(|at| *at >= from).collect(), SECOND)
    }

    /// The most connections open at once.
    pub fn open_max(&self, from: Instant) -> usize {
        let later = self.connections.iter().filter(|(begun, _)| *begun >= from);
        let mut changes: Vec<(Instant, i32)> = Vec::new();
        for (begun, ended) in later {
            changes.push((*begun, 1));
            changes.extend(ended.map(|ended| (ended, -1)));
        }
        // One that goes at the moment another comes is not open beside it.
        changes.sort_unstable();
        let mut open = 0;
        changes
            .iter()
            .map(|(_, by)| {
                open += by;
                open
            })
            .max()
            .unwrap_or_default()
            .unsigned_abs() as usize
    }
}

/// The most of these moments that lie within any span of this length.
fn most_within(mut moments: Vec<Instant>, span: Duration) -> usize {
    moments.sort_unstable();
    let mut first = 0;
    let mut most = 0;
    for (last, at) in moments.iter().enumerate() {
        while *at - moments[first] >= span {
            first += 1;
        }
        most = most.max(last + 1 - first);
    }
    most
}

async fn attend(stream: TcpStream, log: Arc<Mutex<Log>>) {
    let number = {
        let mut log = lock(&log);
        log.connections.push((Instant::now(), None));
        log.connections.len() - 1
    };
    // A peer that goes away in the middle is its own business; what it had completed counts.
    let _ = converse(stream, &log).await;
    lock(&log).connections[number].1 = Some(Instant::now());
}

async fn converse(stream: TcpStream, log: &Mutex<Log>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    stream.write_all(b"220 witness.test ESMTP\r\n").await?;
    let mut line = Vec::new();
    loop {
        line.clear();
        if stream.read_until(b'\n', &mut line).await? == 0 {
            return Ok(());
        }
        let verb = line.get(..4).unwrap_or_default().to_ascii_uppercase();
        let reply: &[u8] = match &verb[..] {
            b"EHLO" => b"250-witness.test\r\n250-PIPELINING\r\n250 8BITMIME\r\n",
            b"DATA" => {
                stream.write_all(b"354 go on\r\n").await?;
                let id = content(&mut stream).await?;
                lock(log).arrivals.push((Instant::now(), id));
                b"250 2.0.0 noted\r\n"
            }
            b"QUIT" => {
                return stream.write_all(b"221 2.0.0 bye\r\n").await;
            }
            _ => b"250 2.0.0 OK\r\n",
        };
        stream.write_all(reply).await?;
    }
}

/// Reads a message to its final dot; its id, or nothing.
async fn content(stream: &mut BufReader<TcpStream>) -> std::io::Result<String> {
    let (mut line, mut id) = (Vec::new(), String::new());
    loop {
        line.clear();
        if stream.read_until(b'\n', &mut line).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        if line == b".\r\n" {
            return Ok(id);
        }
        if id.is_empty()
            && let Some(value) = line.strip_prefix(b"X-Postrider-Id: ")
        {
            id = String::from_utf8_lossy(value).trim_end().to_owned();
        }
    }
}

/// Every change under the lock is one call, so a panic elsewhere leaves it whole.
fn lock(log: &Mutex<Log>) -> MutexGuard<'_, Log> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

const SECOND: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};

    #[test]
    fn the_densest_second_wherever_it_begins() {
        let zero = Instant::now();
        let at = |ms: &[u64]| ms.iter().map(|ms| zero + Duration::from_millis(*ms)).collect::<Vec<_>>();
        assert_eq!(most_within(at(&[0, 600, 900, 1500, 1599, 1600, 3000]), SECOND), 4);
        assert_eq!(most_within(at(&[0, 1000, 2000]), SECOND), 1);
        assert_eq!(most_within(at(&[]), SECOND), 0);
    }

    #[test]
    fn connections_open_at_once() {
        let zero = Instant::now();
        let ms = |ms| zero + Duration::from_millis(ms);
        let connections = vec![(ms(0), Some(ms(50))), (ms(10), Some(ms(20))), (ms(20), None), (ms(60), None)];
        let log = Log { connections, arrivals: Vec::new() };
        assert_eq!(log.open_max(zero), 2);
        assert_eq!(log.open_max(ms(15)), 2);
        assert_eq!(log.open_max(ms(70)), 0);
        assert_eq!(log.connections_per_s_max(zero), 4);
    }

    #[test]
    fn a_message_is_noted_with_its_id() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("runtime");
        let witness = Witness::start(&runtime).expect("listens");
        let mut stream = std::net::TcpStream::connect(witness.address).expect("connects");
        stream
            .write_all(
                b"EHLO a\r\nMAIL FROM:<>\r\nRCPT TO:<a@b.test>\r\nDATA\r\nSubject: x\r\nX-Postrider-Id: p-1\r\n\r\n\
                  X-Postrider-Id: not this\r\n..\r\n.\r\nQUIT\r\n",
            )
            .expect("sent");
        let mut answers = String::new();
        stream.read_to_string(&mut answers).expect("answers");
        assert!(answers.ends_with("354 go on\r\n250 2.0.0 noted\r\n221 2.0.0 bye\r\n"), "{answers}");
        assert!(witness.arrival("p-1").is_some() && witness.arrival("not this").is_none());
        assert_eq!(witness.log().messages_per_s_max(Instant::now() - SECOND), 1);
    }
}
