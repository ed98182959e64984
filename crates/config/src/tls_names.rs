//! Names from the TLS libraries.
//!
//! Owns [`RustlsCipherSuite`] and [`OpensslOptions`]: checked names, so that a typing error is found when the policy is
//! read and not when the first peer connects. In: text. Out: canonical names. Fails by listing the names known. It
//! configures no TLS library.

use crate::fault::nearest;
use crate::text::{BadText, text_form};
use core::fmt;
use core::str::FromStr;

/// A cipher suite by its rustls name; case does not count when reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RustlsCipherSuite(&'static str);

impl RustlsCipherSuite {
    /// The canonical name, e.g. `TLS13_AES_256_GCM_SHA384`.
    pub const fn name(self) -> &'static str {
        self.0
    }
}

impl FromStr for RustlsCipherSuite {
    type Err = BadText;

    fn from_str(text: &str) -> Result<Self, BadText> {
        known("cipher suite", text, CIPHER_SUITES).map(RustlsCipherSuite)
    }
}

impl fmt::Display for RustlsCipherSuite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

text_form!(RustlsCipherSuite, "a cipher suite such as \"TLS13_AES_256_GCM_SHA384\"");

/// OpenSSL option flags joined by `|`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct OpensslOptions(Vec<&'static str>);

impl OpensslOptions {
    /// The flags, in the order written.
    pub fn names(&self) -> &[&'static str] {
        &self.0
    }
}

impl FromStr for OpensslOptions {
    type Err = BadText;

    fn from_str(text: &str) -> Result<Self, BadText> {
        let flags = text.split('|').map(str::trim).filter(|flag| !flag.is_empty());
        flags.map(|flag| known("OpenSSL option", flag, OPENSSL_OPTIONS)).collect::<Result<_, _>>().map(OpensslOptions)
    }
}

impl fmt::Display for OpensslOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("|"))
    }
}

text_form!(OpensslOptions, "OpenSSL option names joined by \"|\"");

fn known(what: &'static str, text: &str, names: &'static [&'static str]) -> Result<&'static str, BadText> {
    let found = names.iter().find(|name| name.eq_ignore_ascii_case(text)).copied();
    found.ok_or_else(|| {
        let hint = nearest(text, names).map(|near| format!(" (did you mean {near}?)")).unwrap_or_default();
        BadText::new(what, text, format!("one of {}{hint}", names.join(", ")))
    })
}

/// Every suite of rustls with its aws-lc-rs provider.
const CIPHER_SUITES: &[&str] = &[
    "TLS13_AES_256_GCM_SHA384",
    "TLS13_AES_128_GCM_SHA256",
    "TLS13_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
];

/// SSL_OP_* flags of OpenSSL 3 that make sense for a mail client.
const OPENSSL_OPTIONS: &[&str] = &[
    "ALL",
    "ALLOW_UNSAFE_LEGACY_RENEGOTIATION",
    "CIPHER_SERVER_PREFERENCE",
    "COOKIE_EXCHANGE",
    "DONT_INSERT_EMPTY_FRAGMENTS",
    "ENABLE_MIDDLEBOX_COMPAT",
    "IGNORE_UNEXPECTED_EOF",
    "NO_COMPRESSION",
    "NO_DTLSV1",
    "NO_DTLSV1_2",
    "NO_QUERY_MTU",
    "NO_RENEGOTIATION",
    "NO_SESSION_RESUMPTION_ON_RENEGOTIATION",
    "NO_SSLV2",
    "NO_SSLV3",
    "NO_SSL_MASK",
    "NO_TICKET",
    "NO_TLSV1",
    "NO_TLSV1_1",
    "NO_TLSV1_2",
    "NO_TLSV1_3",
    "PRIORITIZE_CHACHA",
    "SINGLE_DH_USE",
    "SINGLE_ECDH_USE",
    "TLS_ROLLBACK_BUG",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_is_forgiven_and_unknown_names_are_not() {
        let suite: RustlsCipherSuite = "tls13_aes_256_gcm_sha384".parse().unwrap();
        assert_eq!(suite.name(), "TLS13_AES_256_GCM_SHA384");
        let error = "TLS13_AES_257_GCM_SHA384".parse::<RustlsCipherSuite>().unwrap_err().to_string();
        assert!(error.contains("did you mean TLS13_AES_256_GCM_SHA384?"), "{error}");
    }

    #[test]
    fn flags_are_joined_by_bars() {
        let flags: OpensslOptions = "NO_TICKET | no_tlsv1".parse().unwrap();
        assert_eq!(flags.to_string(), "NO_TICKET|NO_TLSV1");
        let error = "NO_TICKET|NO_FUN".parse::<OpensslOptions>().unwrap_err().to_string();
        assert!(error.starts_with("invalid OpenSSL option \"NO_FUN\": expected one of ALL, "), "{error}");
    }
}
