//! SOCKS version 5 (RFC 1928) with user and password (RFC 1929), as a client.
//!
//! In: credentials, the addresses to bind and to reach, the octets of the server. Out: the octets to send, what the
//! server answered, or a [`Fault`] that says which rule or code stood in the way, in words.
//!
//! First the pure part, encoders and decoders; then three steps over any byte stream, each one question and one answer:
//! [`greet`], [`log_in`], [`ask`]. Reads are bounded by the longest reply there can be and never take an octet beyond
//! it: the next one is the mail server's. Time limits, and which steps are made, are the caller's ([`crate::proxy`]).
//!
//! Deliberately not here: GSSAPI (method 1), UDP ASSOCIATE, host names as destinations (names are resolved before).

use config::HostPort;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// User and password (RFC 1929 section 2). `Debug` shows neither length nor text of the password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    user: String,
    password: Vec<u8>,
}

/// What is asked for (RFC 1928 section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Connect to the address.
    Connect = 1,
    /// Bind the address.
    Bind = 2,
}

/// How the server wants to be logged in to (RFC 1928 section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Not at all.
    None,
    /// User and password.
    Password,
}

/// What a beginning of a reply amounts to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// So many octets in all are needed to go on.
    Need(usize),
    /// BND.ADDR and BND.PORT of a success.
    Bound(HostPort),
}

/// Why a SOCKS5 server is of no use.
#[derive(Debug, Error)]
pub enum Fault {
    /// No SOCKS5 server.
    #[error("answered with version {0}, not 5: not a SOCKS5 server")]
    Version(u8),
    /// Login of another kind.
    #[error("answered the login with version {0}, not 1 (RFC 1929)")]
    LoginVersion(u8),
    /// X'FF': none of ours.
    #[error("no acceptable method of authentication (code 255); offered: {0}")]
    NoMethod(&'static str),
    /// A method of the server's own choice.
    #[error("chose method {0} of authentication, which was not offered")]
    MethodNotOffered(u8),
    /// RFC 1929: any status but 0.
    #[error("user name or password refused (status {0})")]
    LoginRefused(u8),
    /// RFC 1928 section 6: any REP but 0.
    #[error("{} (code {code})", refusal(*code))]
    Refused {
        /// REP.
        code: u8,
    },
    /// ATYP of the reply.
    #[error("address type {0} in the reply is unknown")]
    AddressType(u8),
    /// RFC 1929 has one octet for a length, and forbids 0.
    #[error("{field} has {octets} octets; expected 1 to 255 (RFC 1929)")]
    Length {
        /// Which of the two.
        field: &'static str,
        /// Its length.
        octets: usize,
    },
    /// End of the stream instead of an answer.
    #[error("the proxy closed the connection")]
    Closed,
    /// The stream failed.
    #[error("{0}")]
    Io(io::Error),
}

impl Credentials {
    /// Fails when either is empty or longer than 255 octets.
    pub fn new(user: String, password: Vec<u8>) -> Result<Self, Fault> {
        for (field, octets) in [("user name", user.len()), ("password", password.len())] {
            if !(1..=CREDENTIAL_BYTES_MAX).contains(&octets) {
                return Err(Fault::Length { field, octets });
            }
        }
        Ok(Credentials { user, password })
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::UnexpectedEof { Fault::Closed } else { Fault::Io(error) }
    }
}

/// The version and the methods we can do (RFC 1928 section 3).
pub fn greeting(has_credentials: bool) -> &'static [u8] {
    if has_credentials { &[VERSION, 2, METHOD_NONE, METHOD_PASSWORD] } else { &[VERSION, 1, METHOD_NONE] }
}

/// The server's choice (RFC 1928 section 3).
pub fn method([version, method]: [u8; 2], has_credentials: bool) -> Result<Method, Fault> {
    match (version, method) {
        (VERSION, METHOD_NONE) => Ok(Method::None),
        (VERSION, METHOD_PASSWORD) if has_credentials => Ok(Method::Password),
        (VERSION, METHOD_NOT_ACCEPTABLE) if has_credentials => Err(Fault::NoMethod("none, user and password")),
        (VERSION, METHOD_NOT_ACCEPTABLE) => Err(Fault::NoMethod("none")),
        (VERSION, other) => Err(Fault::MethodNotOffered(other)),
        (other, _) => Err(Fault::Version(other)),
    }
}

/// User and password (RFC 1929 section 2).
pub fn login(credentials: &Credentials) -> Vec<u8> {
    let mut octets = vec![LOGIN_VERSION];
    for field in [credentials.user.as_bytes(), &credentials.password] {
        // Never saturates: `Credentials::new` has looked at the length.
        octets.push(u8::try_from(field.len()).unwrap_or(u8::MAX));
        octets.extend_from_slice(field);
    }
    octets
}

/// What the server thinks of them (RFC 1929 section 2).
pub fn login_status([version, status]: [u8; 2]) -> Result<(), Fault> {
    match (version, status) {
        (LOGIN_VERSION, 0) => Ok(()),
        (LOGIN_VERSION, status) => Err(Fault::LoginRefused(status)),
        (version, _) => Err(Fault::LoginVersion(version)),
    }
}

/// A request (RFC 1928 section 4).
pub fn request(command: Command, address: SocketAddr) -> Vec<u8> {
    let mut octets = vec![VERSION, command as u8, RESERVED];
    match address.ip() {
        IpAddr::V4(ip) => {
            octets.push(ADDRESS_V4);
            octets.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            octets.push(ADDRESS_V6);
            octets.extend_from_slice(&ip.octets());
        }
    }
    octets.extend_from_slice(&address.port().to_be_bytes());
    octets
}

/// Reads the beginning of a reply (RFC 1928 section 6). A refusal counts from its first four octets on: what follows
/// says nothing, and servers have been seen to leave it out.
pub fn reply(octets: &[u8]) -> Result<Parsed, Fault> {
    let Some((&[version, code, _, kind], rest)) = octets.split_first_chunk() else {
        return Ok(Parsed::Need(REPLY_HEAD_BYTES));
    };
    match (version, code) {
        (VERSION, SUCCEEDED) => {}
        (VERSION, code) => return Err(Fault::Refused { code }),
        (version, _) => return Err(Fault::Version(version)),
    }
    let (host, rest) = match kind {
        ADDRESS_V4 => match rest.split_first_chunk::<4>() {
            Some((ip, rest)) => (Ipv4Addr::from(*ip).to_string(), rest),
            None => return Ok(Parsed::Need(REPLY_HEAD_BYTES + 4 + PORT_BYTES)),
        },
        ADDRESS_V6 => match rest.split_first_chunk::<16>() {
            Some((ip, rest)) => (Ipv6Addr::from(*ip).to_string(), rest),
            None => return Ok(Parsed::Need(REPLY_HEAD_BYTES + 16 + PORT_BYTES)),
        },
        ADDRESS_NAME => {
            let Some((&length, rest)) = rest.split_first() else { return Ok(Parsed::Need(REPLY_HEAD_BYTES + 1)) };
            match rest.split_at_checked(length.into()) {
                // Goes into the log: a name from the wire is not to be trusted with control characters.
                Some((name, rest)) => (name.escape_ascii().to_string(), rest),
                None => return Ok(Parsed::Need(REPLY_HEAD_BYTES + 1 + usize::from(length) + PORT_BYTES)),
            }
        }
        other => return Err(Fault::AddressType(other)),
    };
    match rest.first_chunk::<PORT_BYTES>() {
        Some(port) => Ok(Parsed::Bound(HostPort { host, port: u16::from_be_bytes(*port) })),
        None => Ok(Parsed::Need(octets.len() - rest.len() + PORT_BYTES)),
    }
}

/// Greets; the answer is the method the server wants.
pub async fn greet<S>(stream: &mut S, has_credentials: bool) -> Result<Method, Fault>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    stream.write_all(greeting(has_credentials)).await?;
    let mut answer = [0; 2];
    stream.read_exact(&mut answer).await?;
    method(answer, has_credentials)
}

/// Logs in.
pub async fn log_in<S>(stream: &mut S, credentials: &Credentials) -> Result<(), Fault>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    stream.write_all(&login(credentials)).await?;
    let mut answer = [0; 2];
    stream.read_exact(&mut answer).await?;
    login_status(answer)
}

/// Asks for `address` to be bound or connected to; the answer is BND.ADDR and BND.PORT.
pub async fn ask<S>(stream: &mut S, command: Command, address: SocketAddr) -> Result<HostPort, Fault>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    stream.write_all(&request(command, address)).await?;
    let mut answer = Vec::with_capacity(REPLY_BYTES_MAX);
    loop {
        let have = answer.len();
        match reply(&answer)? {
            Parsed::Bound(address) => return Ok(address),
            // `reply` never asks for more than REPLY_BYTES_MAX, and always for more than it was given.
            Parsed::Need(bytes) => answer.resize(bytes, 0),
        }
        stream.read_exact(&mut answer[have..]).await?;
    }
}

/// RFC 1928 section 6, REP.
fn refusal(code: u8) -> &'static str {
    match code {
        1 => "general SOCKS server failure",
        2 => "connection not allowed by ruleset",
        3 => "network unreachable",
        4 => "host unreachable",
        5 => "connection refused",
        6 => "TTL expired",
        7 => "command not supported",
        8 => "address type not supported",
        _ => "refused for a reason that has no name",
    }
}

const VERSION: u8 = 5;
/// Of RFC 1929's exchange.
const LOGIN_VERSION: u8 = 1;
const METHOD_NONE: u8 = 0;
const METHOD_PASSWORD: u8 = 2;
const METHOD_NOT_ACCEPTABLE: u8 = 0xff;
const RESERVED: u8 = 0;
const ADDRESS_V4: u8 = 1;
const ADDRESS_NAME: u8 = 3;
const ADDRESS_V6: u8 = 4;
const SUCCEEDED: u8 = 0;
/// VER, REP, RSV, ATYP.
const REPLY_HEAD_BYTES: usize = 4;
const PORT_BYTES: usize = 2;
/// Head, length, the longest name, port.
const REPLY_BYTES_MAX: usize = REPLY_HEAD_BYTES + 1 + 255 + PORT_BYTES;
const CREDENTIAL_BYTES_MAX: usize = 255;

#[cfg(test)]
#[path = "socks5_tests.rs"]
mod tests;
