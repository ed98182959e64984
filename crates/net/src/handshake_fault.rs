//! What was wrong with a peer's certificate, as far as it can be named.
//!
//! In: the error of a handshake. Out: [`HandshakeFault`]. Cannot fail: what is not about a certificate is something else.

use rustls::{CertificateError, Error};
use std::io;

/// Why a handshake failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeFault {
    /// The certificate is past its time, or before it.
    Expired,
    /// It is for somebody else.
    WrongName,
    /// Nobody we trust vouches for it.
    NotTrusted,
    /// Anything else: TLSA records, protocol, network.
    Other,
}

impl HandshakeFault {
    /// Of a handshake over a socket.
    pub fn of(error: &io::Error) -> HandshakeFault {
        let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<Error>());
        cause.map_or(HandshakeFault::Other, HandshakeFault::of_tls)
    }

    /// Of the library.
    pub fn of_tls(error: &Error) -> HandshakeFault {
        let Error::InvalidCertificate(error) = error else { return HandshakeFault::Other };
        match error {
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => HandshakeFault::Expired,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                HandshakeFault::WrongName
            }
            _ => HandshakeFault::NotTrusted,
        }
    }

    /// True when the peer showed a certificate that will not do.
    pub fn is_about_certificate(self) -> bool {
        self != HandshakeFault::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_have_names() {
        let of = |error: CertificateError| {
            HandshakeFault::of(&io::Error::new(io::ErrorKind::InvalidData, Error::InvalidCertificate(error)))
        };
        assert_eq!(of(CertificateError::Expired), HandshakeFault::Expired);
        assert_eq!(of(CertificateError::NotValidForName), HandshakeFault::WrongName);
        assert_eq!(of(CertificateError::UnknownIssuer), HandshakeFault::NotTrusted);
        let general = io::Error::new(io::ErrorKind::InvalidData, Error::General("DANE: no".to_owned()));
        assert!(!HandshakeFault::of(&general).is_about_certificate());
        assert_eq!(HandshakeFault::of(&io::ErrorKind::UnexpectedEof.into()), HandshakeFault::Other);
    }
}
