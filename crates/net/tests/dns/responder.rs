//! A tiny DNS server in the test process: UDP only, a table of names, every byte written by hand so that the library under
//! test is not measured against its own encoder.
//!
//! Names not in the table are NXDOMAIN. Not a real server: the tests with unbound are the real ones.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

/// What a name has.
#[derive(Clone, Copy)]
pub enum Data {
    Mx(u16, &'static str),
    A([u8; 4]),
    Aaaa(&'static str),
    Cname(&'static str),
    ServFail,
    Refused,
    Silence,
}

/// A running server; it stops when dropped.
pub struct Responder {
    pub address: SocketAddr,
    questions: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Responder {
    pub async fn start(table: &'static [(&'static str, Data)]) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a loopback socket");
        let address = socket.local_addr().expect("its address");
        let questions = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&questions);
        let task = tokio::spawn(async move {
            let mut buffer = [0u8; 512];
            while let Ok((length, peer)) = socket.recv_from(&mut buffer).await {
                counter.fetch_add(1, Ordering::SeqCst);
                if let Some(reply) = answer(table, &buffer[..length]) {
                    let _ = socket.send_to(&reply, peer).await;
                }
            }
        });
        Self { address, questions, task }
    }

    /// Questions received so far.
    pub fn questions(&self) -> usize {
        self.questions.load(Ordering::SeqCst)
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The reply to a question, following CNAMEs as a recursive server does; `None` for silence.
fn answer(table: &[(&str, Data)], question: &[u8]) -> Option<Vec<u8>> {
    let (name, question_end) = read_name(question, HEADER_BYTES)?;
    let wanted = u16::from_be_bytes([*question.get(question_end)?, *question.get(question_end + 1)?]);
    let (mut rcode, mut records, mut owner) = (0u8, Vec::new(), name);
    for _ in 0..CNAME_HOPS_MAX {
        let known: Vec<Data> = table.iter().filter(|(n, _)| *n == owner).map(|(_, d)| *d).collect();
        let mut next = None;
        rcode = if known.is_empty() { NXDOMAIN } else { 0 };
        for data in known {
            match data {
                Data::Silence => return None,
                Data::ServFail => rcode = SERVFAIL,
                Data::Refused => rcode = REFUSED,
                Data::Cname(target) => {
                    records.push((owner.clone(), CNAME, name_bytes(target)));
                    next = Some(target);
                }
                Data::Mx(preference, host) if wanted == MX => {
                    records.push((owner.clone(), MX, [&preference.to_be_bytes()[..], &name_bytes(host)].concat()));
                }
                Data::A(ip) if wanted == A => records.push((owner.clone(), A, Ipv4Addr::from(ip).octets().to_vec())),
                Data::Aaaa(ip) if wanted == AAAA => {
                    let ip: Ipv6Addr = ip.parse().expect("an address in the table");
                    records.push((owner.clone(), AAAA, ip.octets().to_vec()));
                }
                _ => {}
            }
        }
        match next {
            Some(target) => owner = target.to_string(),
            None => break,
        }
    }
    let mut reply = question[..2].to_vec();
    reply.extend([0x81, 0x80 | rcode, 0, 1]);
    let is_nothing = records.is_empty() && matches!(rcode, 0 | NXDOMAIN);
    reply.extend((records.len() as u16).to_be_bytes());
    reply.extend([0, u8::from(is_nothing), 0, 0]);
    reply.extend(&question[HEADER_BYTES..question_end + 4]);
    // How long that may be believed (RFC 2308 section 5): the root's SOA, its minimum 60 s.
    if is_nothing {
        records.push((String::new(), SOA, [&[0, 0][..], &[0; 16], &60_u32.to_be_bytes()].concat()));
    }
    for (owner, kind, data) in records {
        reply.extend(name_bytes(&owner));
        reply.extend(kind.to_be_bytes());
        reply.extend([0, 1, 0, 0, 0, 60]);
        reply.extend((data.len() as u16).to_be_bytes());
        reply.extend(data);
    }
    Some(reply)
}

fn read_name(message: &[u8], mut at: usize) -> Option<(String, usize)> {
    let mut labels = Vec::new();
    loop {
        let length = usize::from(*message.get(at)?);
        if length == 0 {
            return Some((labels.join("."), at + 1));
        }
        labels.push(String::from_utf8_lossy(message.get(at + 1..at + 1 + length)?).to_lowercase());
        at += 1 + length;
    }
}

fn name_bytes(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in name.split('.').filter(|label| !label.is_empty()) {
        bytes.push(label.len() as u8);
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes
}

const HEADER_BYTES: usize = 12;
const CNAME_HOPS_MAX: usize = 8;
const A: u16 = 1;
const CNAME: u16 = 5;
const SOA: u16 = 6;
const MX: u16 = 15;
const AAAA: u16 = 28;
const SERVFAIL: u8 = 2;
const NXDOMAIN: u8 = 3;
const REFUSED: u8 = 5;
