//! What the tests of this crate share: DNS as a table, a wait that never waits, where the peers are.
#![allow(dead_code, reason = "each test program uses another part of it")]

use mime::HeaderBlock;
use route::{BoxFuture, DnsError, IpAnswer, IpStrategy, MxAnswer, MxRecord, Resolver, TxtAnswer};
use sender_check::Mail;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

/// A record of the table.
#[derive(Clone, Debug)]
pub enum Record {
    Txt(Vec<u8>),
    Ip(IpAddr),
    Mx(u16, String),
    Ptr(String),
    Alias(String),
}

/// DNS without a network: what is not in the table does not exist.
#[derive(Debug, Default)]
pub struct Table {
    records: HashMap<String, Vec<Record>>,
    /// Names no server answers for.
    silent: HashSet<String>,
    questions: AtomicUsize,
}

impl Table {
    pub fn new() -> Table {
        Table::default()
    }

    pub fn add(&mut self, name: &str, record: Record) {
        self.records.entry(key(name)).or_default().push(record);
    }

    /// A name that exists, perhaps with no record.
    pub fn add_name(&mut self, name: &str) {
        self.records.entry(key(name)).or_default();
    }

    pub fn with_txt(mut self, name: &str, text: &str) -> Table {
        self.add(name, Record::Txt(text.as_bytes().to_vec()));
        self
    }

    pub fn with_ip(mut self, name: &str, ip: &str) -> Table {
        self.add(name, Record::Ip(ip.parse().expect("an address")));
        self
    }

    pub fn with_mx(mut self, name: &str, host: &str) -> Table {
        self.add(name, Record::Mx(10, host.to_owned()));
        self
    }

    pub fn with_ptr(mut self, name: &str, host: &str) -> Table {
        self.add(name, Record::Ptr(host.to_owned()));
        self
    }

    pub fn with_silence(mut self, name: &str) -> Table {
        self.add_silence(name);
        self
    }

    pub fn add_silence(&mut self, name: &str) {
        self.silent.insert(key(name));
    }

    /// Questions asked so far.
    pub fn questions(&self) -> usize {
        self.questions.load(Ordering::Relaxed)
    }

    fn find<T>(&self, name: &str, choose: impl Fn(&Record) -> Option<T>) -> Result<Vec<T>, DnsError> {
        self.questions.fetch_add(1, Ordering::Relaxed);
        let mut at = key(name);
        for _ in 0..8 {
            let records = self.records.get(&at);
            let found: Vec<T> = records.into_iter().flatten().filter_map(&choose).collect();
            if !found.is_empty() {
                return Ok(found);
            }
            if self.silent.contains(&at) {
                return Err(DnsError::Timeout);
            }
            let records = records.ok_or(DnsError::NxDomain)?;
            let alias = records.iter().find_map(|record| match record {
                Record::Alias(target) => Some(key(target)),
                _ => None,
            });
            at = alias.ok_or(DnsError::NoData)?;
        }
        Err(DnsError::ServFail)
    }
}

fn key(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

impl Resolver for Table {
    fn mx<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<MxAnswer, DnsError>> {
        let records = self.find(name, |record| match record {
            Record::Mx(preference, host) => Some(MxRecord { preference: *preference, host: host.clone() }),
            _ => None,
        });
        Box::pin(std::future::ready(records.map(|records| MxAnswer { records, ..MxAnswer::default() })))
    }

    fn ip<'a>(&'a self, host: &'a str, strategy: IpStrategy) -> BoxFuture<'a, Result<IpAnswer, DnsError>> {
        let addresses = self.find(host, |record| match (record, strategy) {
            (Record::Ip(ip), IpStrategy::Ipv4Only) => Some(*ip).filter(IpAddr::is_ipv4),
            (Record::Ip(ip), IpStrategy::Ipv6Only) => Some(*ip).filter(IpAddr::is_ipv6),
            (Record::Ip(ip), _) => Some(*ip),
            _ => None,
        });
        Box::pin(std::future::ready(addresses.map(|addresses| IpAnswer { addresses, ..IpAnswer::default() })))
    }

    fn txt<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<TxtAnswer, DnsError>> {
        let texts = self.find(name, |record| match record {
            Record::Txt(text) => Some(text.clone()),
            _ => None,
        });
        Box::pin(std::future::ready(texts.map(|texts| TxtAnswer { texts, ttl_secs: 60 })))
    }

    fn ptr<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Vec<String>, DnsError>> {
        let names = self.find(name, |record| match record {
            Record::Ptr(host) => Some(host.clone()),
            _ => None,
        });
        Box::pin(std::future::ready(names))
    }
}

/// The output of a future that has nothing to wait for.
pub fn now<T>(future: impl Future<Output = T>) -> T {
    match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("a table answers at once"),
    }
}

/// Does something with a raw message as the checks take it.
pub fn with_mail<T>(raw: &[u8], act: impl FnOnce(&Mail<'_>) -> T) -> T {
    let block = HeaderBlock::parse(raw);
    act(&Mail::new(block.view(raw), &raw[block.body_start()..]))
}

/// The folder of fetched peers, as `testing/e2e/peers/fetch.sh` fills it. `None` only when somebody said to do without:
/// `POSTRIDER_WITHOUT_PEERS=1`.
pub fn peers() -> Option<PathBuf> {
    if std::env::var_os("POSTRIDER_WITHOUT_PEERS").is_some_and(|value| value == "1") {
        return None;
    }
    let cache = || match (std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME")) {
        (Some(cache), _) => PathBuf::from(cache),
        (None, Some(home)) => PathBuf::from(home).join(".cache"),
        (None, None) => panic!("none of POSTRIDER_PEERS, XDG_CACHE_HOME and HOME is set: where are the peers?"),
    };
    Some(std::env::var_os("POSTRIDER_PEERS").map_or_else(|| cache().join("postrider/peers"), PathBuf::from))
}

/// A file of the peers; `made_by` is the script of `testing/e2e/peers` that makes it.
pub fn peer(name: &str, made_by: &str) -> Option<PathBuf> {
    let folder = peers()?;
    let path = folder.join(name);
    assert!(
        path.is_file(),
        "{} is missing: run testing/e2e/peers/{made_by} {}, or set POSTRIDER_WITHOUT_PEERS=1 to test less",
        path.display(),
        folder.display()
    );
    Some(path)
}
