//! A client that sends one small message each tenth of a second, on a connection of its own, and knows how long it waited
//! for its 250 and how long until the message arrived. In: where to send, a witness at the other end. Out: latencies.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use crate::stats::percentile;
use crate::wait::until;
use crate::witness::Witness;

/// A probe under way.
pub struct Probe {
    stop: watch::Sender<bool>,
    task: JoinHandle<anyhow::Result<Vec<Sent>>>,
}

/// A message that was answered 250.
struct Sent {
    id: String,
    at: Instant,
    answered: Instant,
}

/// What the probe met.
#[derive(Debug, Clone, Copy, Default)]
pub struct Latencies {
    /// Messages answered 250.
    pub accepted: usize,
    /// Of these, how many arrived.
    pub arrived: usize,
    /// From the connection to the 250, in milliseconds.
    pub accept_p50_ms: f64,
    pub accept_max_ms: f64,
    /// From the connection to the arrival.
    pub arrive_p50_ms: f64,
    pub arrive_max_ms: f64,
}

impl Probe {
    /// Starts sending to `to`; `name` makes the ids.
    pub fn start(runtime: &Runtime, to: SocketAddr, name: &str) -> Probe {
        let (stop, stopped) = watch::channel(false);
        let task = runtime.spawn(send_until(to, name.to_owned(), stopped));
        Probe { stop, task }
    }

    /// Ends it, and waits for what is still under way to the witness.
    ///
    /// # Errors
    /// A message was refused.
    pub fn stop(self, runtime: &Runtime, witness: &Witness) -> anyhow::Result<Latencies> {
        // Whoever does not listen any more has failed and says so below.
        let _ = self.stop.send(true);
        let sent = runtime.block_on(self.task).context("the probe")??;
        let ms = |from: Instant, to: Instant| to.saturating_duration_since(from).as_secs_f64() * 1e3;
        let mut accepts: Vec<f64> = sent.iter().map(|sent| ms(sent.at, sent.answered)).collect();
        let arrivals = || sent.iter().filter_map(|sent| Some(ms(sent.at, witness.arrival(&sent.id)?)));
        // Those that do not come are counted by the difference.
        let _ = until("the probe's messages", ARRIVE_LIMIT, || Ok((arrivals().count() == sent.len()).then_some(())));
        let mut arrives: Vec<f64> = arrivals().collect();
        let rank = |of: &mut [f64], percent| percentile(of, percent).unwrap_or_default();
        Ok(Latencies {
            accepted: sent.len(),
            arrived: arrives.len(),
            accept_p50_ms: rank(&mut accepts, 50.0),
            accept_max_ms: rank(&mut accepts, 100.0),
            arrive_p50_ms: rank(&mut arrives, 50.0),
            arrive_max_ms: rank(&mut arrives, 100.0),
        })
    }
}

async fn send_until(to: SocketAddr, name: String, mut stopped: watch::Receiver<bool>) -> anyhow::Result<Vec<Sent>> {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut all = Vec::new();
    loop {
        tokio::select! {
            _ = stopped.changed() => return Ok(all),
            _ = ticks.tick() => {}
        }
        let id = format!("probe-{name}-{}", all.len());
        let at = Instant::now();
        let answered = tokio::time::timeout(SEND_LIMIT, send(to, &id)).await;
        let answered = answered.with_context(|| format!("{id}: no 250 within {} s", SEND_LIMIT.as_secs()))?;
        let answered = answered.with_context(|| format!("{id}, sent to {to}"))?;
        all.push(Sent { id, at, answered });
    }
}

/// Sends one message; when its 250 came.
async fn send(to: SocketAddr, id: &str) -> anyhow::Result<Instant> {
    let mut stream = BufReader::new(TcpStream::connect(to).await?);
    stream.get_ref().set_nodelay(true)?;
    expect(&mut stream, "220").await?;
    let content = format!("X-Postrider-Id: {id}\r\nSubject: probe\r\n\r\nprobe\r\n.\r\n");
    for (command, code) in [
        ("EHLO probe.test\r\n", "250"),
        ("MAIL FROM:<probe@bench.test>\r\n", "250"),
        ("RCPT TO:<probe@live.bench.test>\r\n", "250"),
        ("DATA\r\n", "354"),
        (content.as_str(), "250"),
    ] {
        stream.write_all(command.as_bytes()).await?;
        expect(&mut stream, code).await.with_context(|| format!("after {:?}", command.lines().next()))?;
    }
    let answered = Instant::now();
    stream.write_all(b"QUIT\r\n").await?;
    expect(&mut stream, "221").await?;
    Ok(answered)
}

/// Reads a reply of any number of lines.
async fn expect(stream: &mut BufReader<TcpStream>, code: &str) -> anyhow::Result<()> {
    let mut line = String::new();
    loop {
        line.clear();
        stream.read_line(&mut line).await?;
        if !line.starts_with(code) {
            bail!("expected {code}, got {line:?}");
        }
        if line.as_bytes().get(3) != Some(&b'-') {
            return Ok(());
        }
    }
}

const EVERY: Duration = Duration::from_millis(100);
/// Longest time a message may take to its 250.
const SEND_LIMIT: Duration = Duration::from_secs(60);
/// Longest time it may take to arrive once the last was sent.
const ARRIVE_LIMIT: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_witness_answers_the_probe_itself() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("runtime");
        let witness = Witness::start(&runtime).expect("listens");
        let probe = Probe::start(&runtime, witness.address, "x");
        until("two messages", Duration::from_secs(20), || Ok(witness.arrival("probe-x-1"))).expect("arrive");
        let met = probe.stop(&runtime, &witness).expect("accepted");
        assert!(met.accepted >= 2 && met.arrived == met.accepted, "{met:?}");
        assert!(met.accept_max_ms >= met.accept_p50_ms && met.accept_p50_ms > 0.0, "{met:?}");
    }

    #[test]
    fn a_refusal_is_an_error_with_the_reply() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bind");
        let address = listener.local_addr().expect("bound");
        std::thread::spawn(move || {
            use std::io::Write as _;
            let (mut stream, _) = listener.accept().expect("a client");
            stream.write_all(b"421 4.3.2 not now\r\n").expect("said");
        });
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let error = runtime.expect("runtime").block_on(send(address, "x")).expect_err("refused");
        assert!(error.to_string().contains("421 4.3.2"), "{error}");
    }
}
