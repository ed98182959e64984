//! Options whose value is one word out of a few.
//!
//! Owns the enumerations of the policy language, spelled as KumoMTA spells them (case counts). In: a string. Out: the
//! variant. Fails by listing the words that may stand there. No behaviour: those who act on a choice hold it.

use core::fmt;
use serde::{Deserialize, Deserializer, Serialize, de};

macro_rules! choices {
    ($( $(#[doc = $head:literal])+ $name:ident { $( $(#[doc = $doc:literal])+ $(#[$default:ident])? $variant:ident, )+ } )+) => { $(
        $(#[doc = $head])+
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $name { $( $(#[doc = $doc])+ $(#[$default])? $variant, )+ }

        impl $name {
            /// Every variant, in order.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The word in the policy language.
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$variant => stringify!($variant)),+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    )+

        /// The words that a choice of this name has; none when there is no such choice.
        pub fn words_of(choice: &str) -> Vec<&'static str> {
            match choice {
                $( stringify!($name) => $name::ALL.iter().map(|word| word.as_str()).collect(), )+
                _ => Vec::new(),
            }
        }
    };
}

choices! {
    /// Whether and how strictly delivery uses STARTTLS.
    EnableTls {
        /// Use it when offered and verify the certificate; do not fall back to clear text.
        #[default] Opportunistic,
        /// Use it when offered; any certificate will do.
        OpportunisticInsecure,
        /// It must be offered and the certificate valid.
        Required,
        /// It must be offered; any certificate will do.
        RequiredInsecure,
        /// Never use it.
        Disabled,
    }

    /// What becomes of a record while `back_pressure` records wait to be written.
    WhenFull {
        /// It waits too, and so does new work.
        #[default] Wait,
        /// It is dropped and counted; mail goes on.
        Drop,
    }

    /// What to do after a 421, a timeout or an I/O error in the middle of a delivery.
    ReconnectStrategy {
        /// End the session.
        TerminateSession,
        /// Connect to the same host again.
        ReconnectSameHost,
        /// Go on with the next host of the plan.
        #[default] ConnectNextHost,
    }

    /// When a cached configuration is asked for again.
    RefreshStrategy {
        /// After `refresh_interval`.
        #[default] Ttl,
        /// When the configuration files change.
        Epoch,
    }

    /// Whether a resolver looks into the hosts file first.
    HostsFile {
        /// It does.
        Always,
        /// It does.
        #[default] Auto,
        /// It does not.
        Never,
    }

    /// Which of several name servers is asked first.
    ServerOrdering {
        /// The one that answered best so far.
        #[default] QueryStatistics,
        /// Each in its turn.
        RoundRobin,
        /// The one named first.
        UserProvidedOrder,
    }

    /// A resolver's families of addresses, as it spells them.
    HostIpStrategy {
        /// A records only.
        Ipv4Only,
        /// AAAA records only.
        Ipv6Only,
        /// Both, side by side.
        Ipv4AndIpv6,
        /// Both, side by side.
        #[default] Ipv6AndIpv4,
        /// A; AAAA if there is none.
        Ipv4thenIpv6,
        /// AAAA; A if there is none.
        Ipv6thenIpv4,
    }

    /// Which addresses of an MX host are used, and in which order.
    IpLookupStrategy {
        /// Both families together.
        #[default] Ipv4AndIpv6,
        /// A records only.
        Ipv4Only,
        /// AAAA records only.
        Ipv6Only,
        /// AAAA records; A records when there are none.
        Ipv6ThenIpv4,
        /// A records; AAAA records when there are none.
        Ipv4ThenIpv6,
    }

    /// Whom an insert into a ready queue wakes.
    WakeupStrategy {
        /// Everyone who may have work.
        #[default] Aggressive,
        /// As few as will do.
        Relaxed,
    }

    /// What is let go of a message in memory.
    MemoryReductionPolicy {
        /// Body and metadata.
        #[default] ShrinkDataAndMeta,
        /// The body.
        ShrinkData,
        /// Nothing.
        NoShrink,
    }

    /// The structure a scheduled queue is kept in; a hint.
    QueueStrategy {
        /// A wheel of its own.
        TimerWheel,
        /// A sorted list of its own.
        SkipList,
        /// The wheel all queues share.
        #[default] SingletonTimerWheel,
        /// Its second edition.
        SingletonTimerWheelV2,
    }

    /// How a transaction with several recipients becomes messages.
    BatchHandling {
        /// One message a recipient.
        #[default] BifurcateAlways,
        /// One message a recipient domain, case ignored.
        BatchByDomain,
    }

    /// What happens to bare CR or LF in message data.
    InvalidLineEndings {
        /// Refuse: 552 5.6.0.
        #[default] Deny,
        /// Take as it is.
        Allow,
        /// Rewrite to CRLF.
        Fix,
    }

    /// The storage a spool asks for; our engine keeps its own store for either.
    SpoolKind {
        /// One file a message.
        #[default] LocalDisk,
        /// A RocksDB database.
        RocksDB,
    }

    /// Compression a RocksDB spool asks for.
    RocksCompression {
        /// None.
        None,
        /// Snappy.
        #[default] Snappy,
        /// Zlib.
        Zlib,
        /// Bzip2.
        Bz2,
        /// LZ4.
        Lz4,
        /// LZ4, high compression.
        Lz4hc,
        /// Zstandard.
        Zstd,
    }

    /// How talkative RocksDB's own log is.
    RocksLogLevel {
        /// Everything.
        Debug,
        /// Information and above.
        #[default] Info,
        /// Warnings and above.
        Warn,
        /// Errors and above.
        Error,
        /// Fatal errors.
        Fatal,
        /// Headers only.
        Header,
    }

    /// What a report gives back of the message it is about.
    EnclosedMessage {
        /// Nothing.
        #[default] No,
        /// The header.
        HeadersOnly,
        /// All of it.
        FullContent,
    }

    /// A DKIM canonicalization (RFC 6376 section 3.4).
    Canonicalization {
        /// Tolerates changes of white space.
        #[default] Relaxed,
        /// Tolerates almost nothing.
        Simple,
    }

    /// The hash of an ATPS tag (RFC 6541).
    AtpsHash {
        /// SHA-1.
        #[default] Sha1,
        /// SHA-256.
        Sha256,
    }

    /// What becomes of a message that breaks rules of large providers.
    ComplianceMode {
        /// It is not looked at.
        Off,
        /// It gets a header field and metadata that name the rules.
        Tag,
        /// It gets the metadata, and the diagnostic log a line.
        #[default] Warn,
        /// It is refused when a provider would refuse or hide it; else as with `Warn`.
        Reject,
    }

    /// The key of a `per_record` table: a record type, or `Any` for those not listed.
    RecordKey {
        /// A message was accepted.
        Reception,
        /// A message was delivered.
        Delivery,
        /// A permanent failure.
        Bounce,
        /// A failure that will be retried.
        TransientFailure,
        /// Too old.
        Expiration,
        /// Bounced by the operator.
        AdminBounce,
        /// An out-of-band bounce report.
        OOB,
        /// A feedback (ARF) report.
        Feedback,
        /// A 4xx or 5xx reply of our server.
        Rejection,
        /// Moved to another queue by the operator.
        AdminRebind,
        /// Left the deferred-injection queue.
        DeferredInjectionRebind,
        /// Delayed without an attempt.
        Delayed,
        /// Transferred to another node.
        XferOut,
        /// Transferred from another node.
        XferIn,
        /// Every type that has no entry of its own.
        #[default] Any,
    }
}

/// What to do with a bounce or feedback report addressed to one of our domains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum LogReport {
    /// Treat it as any message (`false` in the policy).
    #[default]
    Ignore,
    /// Log it and go on (`true` in the policy).
    LogThenRelay,
    /// Log it and discard it.
    LogThenDrop,
}

impl<'de> Deserialize<'de> for LogReport {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WordOrBool)
    }
}

struct WordOrBool;

impl de::Visitor<'_> for WordOrBool {
    type Value = LogReport;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"Ignore\", \"LogThenRelay\", \"LogThenDrop\" or a boolean")
    }

    fn visit_bool<E: de::Error>(self, logged: bool) -> Result<LogReport, E> {
        Ok(if logged { LogReport::LogThenRelay } else { LogReport::Ignore })
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<LogReport, E> {
        match word {
            "Ignore" => Ok(LogReport::Ignore),
            "LogThenRelay" => Ok(LogReport::LogThenRelay),
            "LogThenDrop" => Ok(LogReport::LogThenDrop),
            _ => Err(E::unknown_variant(word, &["Ignore", "LogThenRelay", "LogThenDrop"])),
        }
    }
}
