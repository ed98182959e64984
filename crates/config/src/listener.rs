//! The options of an ESMTP listener.
//!
//! Owns [`EsmtpListener`], the argument of `kumo.start_esmtp_listener`; [`ListenerParams`], what one session runs by;
//! and [`ListenerOverlay`], a partial set of the same, as `peer` and `via` blocks and
//! `smtp_server_get_dynamic_parameters` give it. In: tables. Out: [`EsmtpListener::effective`]. The options are listed
//! once, in `listener_options!` below. It opens no socket.

use crate::choices::{BatchHandling, InvalidLineEndings};
use crate::cidr::CidrSet;
use crate::cidr_map::CidrMap;
use crate::duration::Duration;
use crate::host_port::HostPort;
use crate::key_source::KeySource;
use crate::options::{OptionInfo, Options, options};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use ipnet::IpNet;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

/// `kumo.start_esmtp_listener`
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EsmtpListener {
    /// Where to listen.
    pub listen: HostPort,
    /// Most sessions at once; above it 421 4.3.2.
    pub max_connections: usize,
    /// What a session runs by unless a block below changes it.
    #[serde(flatten)]
    pub params: ListenerParams,
    /// Changes by client address, longest prefix first.
    pub peer: CidrMap<ListenerOverlay>,
    /// Changes by local address.
    pub via: CidrMap<ListenerOverlay>,
}

impl EsmtpListener {
    /// What a session from `peer` to our address `via` runs by.
    ///
    /// KumoMTA behaviour: the listener's own options, then the matching `peer` block, then the matching `via` block;
    /// each block may hold further blocks, applied the same way right after it.
    pub fn effective(&self, peer: IpAddr, via: IpAddr) -> ListenerParams {
        let mut params = self.params.clone();
        params.apply_blocks(&self.peer, &self.via, peer, via);
        params
    }
}

impl ListenerParams {
    /// Lays `overlay` and its matching blocks over these options; what dynamic parameters do last.
    pub fn apply(&mut self, overlay: &ListenerOverlay, peer: IpAddr, via: IpAddr) {
        self.set_given(overlay);
        // Recursion is bounded: tables nested too deep were refused when the overlay was read.
        self.apply_blocks(&overlay.peer, &overlay.via, peer, via);
    }

    fn apply_blocks(
        &mut self,
        by_peer: &CidrMap<ListenerOverlay>,
        by_via: &CidrMap<ListenerOverlay>,
        peer: IpAddr,
        via: IpAddr,
    ) {
        if let Some(overlay) = by_peer.get(peer) {
            self.apply(overlay, peer, via);
        }
        if let Some(overlay) = by_via.get(via) {
            self.apply(overlay, peer, via);
        }
    }
}

/// Makes the full set, the partial set and the whole listener table from one list of options.
macro_rules! listener_options {
    ($( $(#[doc = $doc:literal])+ $field:ident : $ty:ty = $default:expr $(, min $min:literal)? ; )+) => {
        options! {
            /// Everything one ESMTP session runs by.
            pub struct ListenerParams {
                $( $(#[doc = $doc])+ $field: $ty = $default $(, min $min)? ; )+
                /// Preset connection metadata; blocks add to it key by key.
                meta: Map<String, Value> = Map::new();
            }
        }

        options! {
            /// Some of a session's options: those of a `peer` or `via` block, or dynamic parameters.
            pub struct ListenerOverlay {
                $( $(#[doc = $doc])+ $field: Option<$ty> = None $(, min $min)? ; )+
                /// Connection metadata to add, key by key.
                meta: Map<String, Value> = Map::new();
                /// Further changes by client address.
                peer: CidrMap<ListenerOverlay> = CidrMap::new();
                /// Further changes by local address.
                via: CidrMap<ListenerOverlay> = CidrMap::new();
            }
        }

        options! {
            /// The listener's table as written.
            struct ListenerTable {
                /// Where to listen: `ip:port`, `[ipv6]:port` or `host:port`; not dynamic.
                listen: HostPort = default_listen();
                /// Most sessions at once; above it `421 4.3.2 ... too many concurrent sessions`; not dynamic.
                max_connections: usize = 32_768, min 1;
                $( $(#[doc = $doc])+ $field: $ty = $default $(, min $min)? ; )+
                /// Preset connection metadata.
                meta: Map<String, Value> = Map::new();
                /// Changes by client address: a table from address or block to listener options, longest prefix wins.
                peer: CidrMap<ListenerOverlay> = CidrMap::new();
                /// Changes by local address, likewise.
                via: CidrMap<ListenerOverlay> = CidrMap::new();
            }
        }

        impl ListenerParams {
            fn set_given(&mut self, overlay: &ListenerOverlay) {
                $( if let Some(value) = &overlay.$field { self.$field = value.clone(); } )+
                self.meta.extend(overlay.meta.iter().map(|(key, value)| (key.clone(), value.clone())));
            }
        }

        impl From<ListenerTable> for EsmtpListener {
            fn from(table: ListenerTable) -> Self {
                EsmtpListener {
                    listen: table.listen,
                    max_connections: table.max_connections,
                    params: ListenerParams { $( $field: table.$field, )+ meta: table.meta },
                    peer: table.peer,
                    via: table.via,
                }
            }
        }
    };
}

listener_options! {
    /// Name in the greeting and in replies; the machine's when absent.
    hostname: Option<String> = None;
    /// Peers that may relay to anywhere.
    relay_hosts: CidrSet = loopback_hosts();
    /// Text behind the host name in the greeting.
    banner: String = "KumoMTA".to_owned();
    /// TLS from the first octet on, as on port 465 (RFC 8314); an addition to KumoMTA's options.
    implicit_tls: bool = false;
    /// Certificate chain, PEM; a made-up one when absent.
    tls_certificate: Option<KeySource> = None;
    /// Its key, PEM.
    tls_private_key: Option<KeySource> = None;
    /// CA bundle against which optional client certificates are verified.
    tls_required_client_ca: Option<KeySource> = None;
    /// Keep messages in memory only until the first transient failure. Risks losing acknowledged mail.
    deferred_spool: bool = false;
    /// Answer 250 after spooling to the deferred-injection queue and process later.
    deferred_queue: bool = false;
    /// Messages with a field `Idempotency-Key` are accepted once in this time; nobody looks at it when absent. An addition to KumoMTA's options.
    idempotency_window: Option<Duration> = None;
    /// Received and supplemental trace headers.
    trace_headers: TraceHeaders = TraceHeaders::default();
    /// Idle time after which a session gets 421 4.3.2.
    client_timeout: Duration = Duration::from_minutes(1);
    /// Longest time from DATA to the point of responsibility; 451 4.4.5 beyond.
    data_processing_timeout: Duration = Duration::from_minutes(5);
    /// One message a recipient, or one a recipient domain.
    batch_handling: BatchHandling = BatchHandling::BifurcateAlways;
    /// Most accepted recipients on one connection (KumoMTA counts recipients, not messages); 452 or 421 4.5.3 beyond.
    max_messages_per_connection: usize = 10_000, min 1;
    /// Most recipients in one transaction; 452 4.5.3 beyond.
    max_recipients_per_message: usize = 1024, min 1;
    /// Largest message (bytes); 552 5.3.4 beyond.
    max_message_size: u64 = 20 * 1024 * 1024, min 1;
    /// How much is read at once (bytes).
    data_buffer_size: usize = 128 * 1024, min 1;
    /// What happens to bare CR or LF in message data.
    invalid_line_endings: InvalidLineEndings = InvalidLineEndings::Deny;
    /// Longest line in message data, without its CRLF (bytes); 500 5.2.3 beyond.
    line_length_hard_limit: usize = 998, min 1;
    /// Accept XCLIENT ADDR, PORT, DESTADDR, DESTPORT.
    allow_xclient: bool = false;
    /// A HAProxy protocol header must precede the session.
    require_proxy_protocol: bool = false;
}

options! {
    /// `trace_headers` of a listener
    pub struct TraceHeaders {
        /// Prepend a Received header before the message event.
        received_header: bool = true;
        /// Prepend the supplemental header after the message event.
        supplemental_header: bool = true;
        /// The supplemental header's name.
        header_name: String = "X-KumoRef".to_owned();
        /// Metadata to add to its (unencrypted) content.
        include_meta_names: Vec<String> = Vec::new();
    }
}

impl EsmtpListener {
    /// Every option of the listener, for the manual and for suggestions.
    pub(crate) const INFO: &'static [OptionInfo] = <ListenerTable as Options>::INFO;
    /// Their names.
    pub(crate) const NAMES: &'static [&'static str] = <ListenerTable as Options>::NAMES;
}

impl Default for EsmtpListener {
    fn default() -> Self {
        ListenerTable::default().into()
    }
}

crate::parse::from_table!(EsmtpListener);

impl<'de> Deserialize<'de> for EsmtpListener {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ListenerTable::deserialize(deserializer).map(Self::from)
    }
}

fn default_listen() -> HostPort {
    HostPort { host: "127.0.0.1".to_owned(), port: 2025 }
}

/// This machine, by both families; KumoMTA's default for hosts that are trusted.
pub(crate) fn loopback_hosts() -> CidrSet {
    CidrSet::new([IpNet::from(IpAddr::V4(Ipv4Addr::LOCALHOST)), IpNet::from(IpAddr::V6(Ipv6Addr::LOCALHOST))])
}
