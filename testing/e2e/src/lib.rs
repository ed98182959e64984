//! End-to-end tests: the built program on one side, real mail programs on the other, real sockets between them.
//!
//! This library starts and watches processes and reads what they leave behind; `tests/` holds the tests, a file a
//! subject. In: `POSTRIDER_BIN`, the built program, and `POSTRIDER_PEERS`, the folder filled by `peers/fetch.sh` and
//! `peers/dns.sh`; what is missing is a failure that names the command to run, never a skipped test. Out: panics with
//! the last lines of every process concerned.
//!
//! `corpus/` holds policies as users write them, one behaviour each, with their stories in front; `corpus` plays them.
//!
//! It shares no code with the program: a mistake made on both sides would cancel itself out. It waits for lines,
//! ledgers, records and metrics, always with a deadline, and leaves nothing behind: every process is killed when its
//! handle goes, every folder is a scratch folder.

pub mod brokers;
pub mod browser;
pub mod certificate;
pub mod corpus;
pub mod dns;
pub mod dump;
pub mod event_receiver;
pub mod golden;
pub mod http;
pub mod kafka;
pub mod kumod;
pub mod ledger;
pub mod logs;
pub mod manual;
pub mod mount;
pub mod names;
pub mod nats;
pub mod otlp_collector;
pub mod parcel;
pub mod peers;
pub mod port;
pub mod postfix;
pub mod power_cut;
pub mod preload;
pub mod process;
pub mod proxy;
pub mod rabbitmq;
pub mod redis;
pub mod scratch;
pub mod sink;
pub mod stage;
pub mod sts_server;
pub mod terminal;
pub mod tls_server;
pub mod torture;
pub mod trace;
pub mod traffic;
pub mod until;
pub mod victim;
pub mod web_server;
pub mod wire;
