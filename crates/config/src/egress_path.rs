//! The options of a path: one source to one site.
//!
//! Owns [`EgressPath`], the argument of `kumo.make_egress_path`, and the time bounds that follow from its timeouts. The
//! same keys are valid in the blocks of a shaping file. Acting on them is the queue's, the client's and the
//! engine's.

use crate::choices::{
    EnableTls, IpLookupStrategy, MemoryReductionPolicy, ReconnectStrategy, RefreshStrategy, WakeupStrategy,
};
use crate::cidr::CidrSet;
use crate::concurrency_feedback::ConcurrencyFeedback;
use crate::duration::Duration;
use crate::key_source::KeySource;
use crate::limit::LimitSpec;
use crate::options::options;
use crate::throttle::ThrottleSpec;
use crate::tls_names::{OpensslOptions, RustlsCipherSuite};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time;
use ipnet::{IpNet, Ipv4Net};
use std::collections::BTreeMap;

options! {
    /// `kumo.make_egress_path`
    pub struct EgressPath check check_path {
        /// Most connections at once on this path (source and site).
        connection_limit: LimitSpec = LimitSpec::new(32);
        /// Further named limits, shared wherever the same name is used; all are taken, smallest first.
        additional_connection_limits: BTreeMap<String, LimitSpec> = BTreeMap::new();
        /// Rate of opening connections. A wait longer than idle_timeout delays the whole ready queue.
        max_connection_rate: Option<ThrottleSpec> = None;
        /// Rate of messages on the path; same long-wait rule.
        max_message_rate: Option<ThrottleSpec> = None;
        /// Further named message rates, checked smallest first together with max_message_rate.
        additional_message_rate_throttles: BTreeMap<String, ThrottleSpec> = BTreeMap::new();
        /// How often a pool may choose this source for this site; when exceeded the next source is tried.
        source_selection_rate: Option<ThrottleSpec> = None;
        /// Further named selection rates.
        additional_source_selection_rates: BTreeMap<String, ThrottleSpec> = BTreeMap::new();
        /// Messages attempted on one connection.
        max_deliveries_per_connection: usize = 1024, min 1;
        /// RCPT TO in one transaction; the rest goes in following transactions.
        max_recipients_per_batch: usize = 100, min 1;
        /// Most messages in the ready queue; the excess goes back to the scheduled queue for up to 60 s.
        max_ready: usize = 1024, min 1;
        /// Open connections eagerly instead of growing gradually.
        aggressive_connection_opening: bool = false;
        /// Let the destination tell how many connections it bears, instead of opening as many as connection_limit allows.
        concurrency_feedback: Option<ConcurrencyFeedback> = None;
        /// After this many full failures of the host list the ready queue is delayed with 451 4.4.1.
        consecutive_connection_failures_before_delay: usize = 100;
        /// Wake all idle sessions at each insert, or one.
        dispatcher_wakeup_strategy: WakeupStrategy = WakeupStrategy::Aggressive;
        /// Wake the queue's keeper at each insert, or only when connections look too few.
        maintainer_wakeup_strategy: WakeupStrategy = WakeupStrategy::Aggressive;
        /// A named thread pool; accepted and not followed.
        readyq_pool_name: Option<String> = None;

        /// TCP or proxy connect.
        connect_timeout: Duration = Duration::from_secs(60);
        /// Wait for the 220 greeting.
        banner_timeout: Duration = Duration::from_secs(60);
        /// Reply to EHLO.
        ehlo_timeout: Duration = Duration::from_secs(300);
        /// Reply to STARTTLS, and the handshake.
        starttls_timeout: Duration = Duration::from_secs(5);
        /// Reply to AUTH.
        auth_timeout: Duration = Duration::from_secs(60);
        /// Reply to MAIL FROM.
        mail_from_timeout: Duration = Duration::from_secs(300);
        /// Reply to RCPT TO.
        rcpt_to_timeout: Duration = Duration::from_secs(300);
        /// Reply to DATA.
        data_timeout: Duration = Duration::from_secs(300);
        /// Reply to the final dot.
        data_dot_timeout: Duration = Duration::from_secs(300);
        /// Reply to RSET.
        rset_timeout: Duration = Duration::from_secs(5);
        /// How long an idle connection is kept for reuse; also the longest wait for a throttle.
        idle_timeout: Duration = Duration::from_secs(5);
        /// Grace for deliveries under way at shutdown; the sum of the message timeouts when absent.
        system_shutdown_timeout: Option<Duration> = None;
        /// Ends a delivery that makes no progress for this long; derived from the other timeouts when absent.
        dispatcher_progress_watchdog_timeout: Option<Duration> = None;

        /// Whether and how strictly STARTTLS is used.
        enable_tls: EnableTls = EnableTls::Opportunistic;
        /// Let a published MTA-STS policy raise enable_tls.
        enable_mta_sts: bool = true;
        /// Let TLSA records of DNSSEC-secure hosts raise enable_tls; needs a validating resolver.
        enable_dane: bool = false;
        /// With `Opportunistic`, connect to the same address again without TLS when the handshake fails; `OpportunisticInsecure` does so anyway.
        opportunistic_tls_reconnect_on_failed_handshake: bool = false;
        /// How long a site's broken TLS is remembered; opportunistic modes then do without.
        remember_broken_tls: Option<Duration> = None;
        /// Prefer OpenSSL over rustls; accepted and not followed.
        tls_prefer_openssl: bool = false;
        /// Client certificate, PEM, ours first; needs tls_private_key.
        tls_certificate: Option<KeySource> = None;
        /// Client key, PEM.
        tls_private_key: Option<KeySource> = None;
        /// Cipher list for TLS 1.2 and below under OpenSSL; accepted and not followed.
        openssl_cipher_list: Option<String> = None;
        /// TLS 1.3 suites under OpenSSL, colon separated; accepted and not followed.
        openssl_cipher_suites: Option<String> = None;
        /// OpenSSL option flags joined by `|`; accepted and not followed.
        openssl_options: Option<OpensslOptions> = None;
        /// The suites rustls offers, best first; all when empty.
        rustls_cipher_suites: Vec<RustlsCipherSuite> = Vec::new();
        /// User of AUTH PLAIN, or of LOGIN where that is not offered; failure to authenticate fails the session.
        smtp_auth_plain_username: Option<String> = None;
        /// Its password.
        smtp_auth_plain_password: Option<KeySource> = None;
        /// Permit AUTH in clear text.
        allow_smtp_auth_plain_without_tls: bool = false;
        /// Permit AUTH when the peer's certificate was not verified.
        allow_smtp_auth_plain_without_valid_certificate: bool = false;

        /// Port to connect to, unless the mx_list entry or the source names one.
        smtp_port: u16 = 25, min 1;
        /// The name in EHLO; the source's, else the machine's, when absent.
        ehlo_domain: Option<String> = None;
        /// If any address of the site is in here, its ready queue fails with 550 5.4.4.
        prohibited_hosts: CidrSet = loopback_and_unspecified();
        /// Addresses left out; 451 4.4.4 when none remains.
        skip_hosts: CidrSet = CidrSet::default();
        /// Which addresses of a host are used, in which order.
        ip_lookup_strategy: IpLookupStrategy = IpLookupStrategy::Ipv4AndIpv6;
        /// Use PIPELINING when offered.
        enable_pipelining: bool = true;
        /// Send RSET between messages on a connection.
        enable_rset: bool = true;
        /// After a 421, a timeout or an I/O error during delivery.
        reconnect_strategy: ReconnectStrategy = ReconnectStrategy::ConnectNextHost;
        /// Retry the same message at once on the next host after such an error.
        try_next_host_on_transport_error: bool = false;
        /// Do not fail beforehand what needs 8BITMIME or SMTPUTF8 when the peer lacks it.
        ignore_8bit_checks: bool = false;
        /// Speak LMTP instead of ESMTP.
        use_lmtp: bool = false;

        /// What an insert lets go of above the low memory threshold.
        low_memory_reduction_policy: MemoryReductionPolicy = MemoryReductionPolicy::ShrinkDataAndMeta;
        /// What an insert lets go of above the soft memory limit.
        no_memory_reduction_policy: MemoryReductionPolicy = MemoryReductionPolicy::ShrinkDataAndMeta;
        /// How long this configuration holds before it is asked for again (refresh_strategy Ttl).
        refresh_interval: Duration = Duration::from_secs(60);
        /// Ask again after a time, or only when configuration files change.
        refresh_strategy: RefreshStrategy = RefreshStrategy::Ttl;
        /// The name under which metrics of several sites are summed.
        provider_name: Option<String> = None;
        /// Two of `-+=`, as `"+="`: the sender on the wire names the recipient (VERP), one transaction each. Ours.
        verp_delimiters: Option<String> = None;
    }
}

impl EgressPath {
    /// Whether a connection of this path may go on by another definition of it: who is spoken to, and how it is protected, is the
    /// same. Limits, rates and timeouts are not looked at.
    pub fn connects_like(&self, other: &EgressPath) -> bool {
        let protected = |path: &EgressPath| {
            let EgressPath { tls_certificate, tls_private_key, openssl_cipher_list, openssl_cipher_suites, .. } =
                path.clone();
            let flags = (path.enable_tls, path.enable_mta_sts, path.enable_dane, path.openssl_options.clone());
            let suites = (openssl_cipher_list, openssl_cipher_suites, path.rustls_cipher_suites.clone());
            (flags, suites, tls_certificate, tls_private_key)
        };
        let spoken_to = |path: &EgressPath| {
            let EgressPath { smtp_auth_plain_username, smtp_auth_plain_password, ehlo_domain, .. } = path.clone();
            let hosts = (path.prohibited_hosts.clone(), path.skip_hosts.clone());
            let auth = (path.allow_smtp_auth_plain_without_tls, path.allow_smtp_auth_plain_without_valid_certificate);
            (
                path.smtp_port,
                path.use_lmtp,
                ehlo_domain,
                smtp_auth_plain_username,
                smtp_auth_plain_password,
                auth,
                hosts,
            )
        };
        protected(self) == protected(other) && spoken_to(self) == spoken_to(other)
    }

    /// How long deliveries under way may last at shutdown.
    pub fn shutdown_timeout(&self) -> time::Duration {
        match self.system_shutdown_timeout {
            Some(given) => given.get(),
            None => sum([self.mail_from_timeout, self.rcpt_to_timeout, self.data_timeout, self.data_dot_timeout]),
        }
    }

    /// How long an SMTP delivery may go without progress. KumoMTA behaviour: twice the longest wait for a command, at
    /// least 60 s.
    pub fn smtp_progress_timeout(&self) -> time::Duration {
        let longest = self.commands().into_iter().map(|(_, wait)| wait).max().unwrap_or_default();
        match self.dispatcher_progress_watchdog_timeout {
            Some(given) => given.get(),
            None => longest.get().saturating_mul(2).max(SMTP_PROGRESS_MIN),
        }
    }

    /// How long the replies to single commands may take, by the names of the options.
    pub(crate) fn commands(&self) -> [(&'static str, Duration); 10] {
        [
            ("connect_timeout", self.connect_timeout),
            ("banner_timeout", self.banner_timeout),
            ("ehlo_timeout", self.ehlo_timeout),
            ("starttls_timeout", self.starttls_timeout),
            ("auth_timeout", self.auth_timeout),
            ("mail_from_timeout", self.mail_from_timeout),
            ("rcpt_to_timeout", self.rcpt_to_timeout),
            ("data_timeout", self.data_timeout),
            ("data_dot_timeout", self.data_dot_timeout),
            ("rset_timeout", self.rset_timeout),
        ]
    }

    /// The longest a session can last without a message: the lifetime of a connection-limit lease.
    pub fn session_timeouts_sum(&self) -> time::Duration {
        let around = [
            self.connect_timeout,
            self.banner_timeout,
            self.ehlo_timeout,
            self.starttls_timeout,
            self.auth_timeout,
            self.rset_timeout,
            self.idle_timeout,
        ];
        let message = [self.mail_from_timeout, self.rcpt_to_timeout, self.data_timeout, self.data_dot_timeout];
        sum(around).saturating_add(sum(message))
    }
}

fn check_path(path: &EgressPath) -> Result<(), String> {
    let is_pair = |text: &String| text.len() == 2 && text.bytes().all(|b| VERP_DELIMITERS.contains(&b));
    if let Some(text) = path.verp_delimiters.as_ref().filter(|text| !is_pair(text)) {
        return Err(format!("verp_delimiters: invalid value {text:?}: expected two of `-+=`"));
    }
    match path.tls_certificate.is_some() == path.tls_private_key.is_some() {
        true => Ok(()),
        false => Err("tls_certificate and tls_private_key: expected both or neither".to_owned()),
    }
}

fn sum<const N: usize>(parts: [Duration; N]) -> time::Duration {
    parts.iter().fold(time::Duration::ZERO, |total, part| total.saturating_add(part.get()))
}

/// Mail loops back to this machine through these; KumoMTA's default.
fn loopback_and_unspecified() -> CidrSet {
    CidrSet::new([
        IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8)),
        IpNet::from(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        IpNet::from(IpAddr::V6(Ipv6Addr::LOCALHOST)),
        IpNet::from(IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
    ])
}

/// What Postfix allows, too.
const VERP_DELIMITERS: [u8; 3] = *b"-+=";
const SMTP_PROGRESS_MIN: time::Duration = time::Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derived_times() {
        let path = EgressPath::default();
        assert_eq!(path.shutdown_timeout().as_secs(), 1200);
        assert_eq!(path.smtp_progress_timeout().as_secs(), 600);
        assert_eq!(path.session_timeouts_sum().as_secs(), 60 + 60 + 300 + 5 + 60 + 5 + 5 + 1200);
        let second = Duration::from_secs(1);
        let quick = EgressPath {
            connect_timeout: second,
            banner_timeout: second,
            ehlo_timeout: second,
            auth_timeout: second,
            mail_from_timeout: second,
            rcpt_to_timeout: second,
            data_timeout: second,
            data_dot_timeout: second,
            ..path
        };
        assert_eq!(quick.smtp_progress_timeout().as_secs(), 60);
        let slow_greeting = EgressPath { ehlo_timeout: Duration::from_secs(45), ..quick };
        assert_eq!(slow_greeting.smtp_progress_timeout().as_secs(), 90, "no option cuts short what another allows");
    }
}
