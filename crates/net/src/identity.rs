//! Who a listener is in TLS: its certificate and key, and who may vouch for its clients.
//!
//! In: the options of a listener. Out: an acceptor, as fresh as the files that the options name: they are read again when they
//! were read five minutes ago (KumoMTA behaviour), so that a certificate that was renewed counts without a reload. What cannot
//! be read or used then is said, and the one before stays. So is, once a day, that it has expired or is about to. Deliberately not
//! here: handshakes.

use crate::tls::{TlsError, acceptor_of, chain};
use crate::tls_client::{CERTIFICATE, KEY, load};
use crate::validity;
use config::KeySource;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio_rustls::TlsAcceptor;

/// A listener's identity.
#[derive(Clone)]
pub struct Identity(Arc<Inner>);

/// The identities of blocks of a listener, and of what policy says of sessions: read at the first session of each, not at every
/// one. Bounded: beyond [`IDENTITIES_MAX`] all are read again.
#[derive(Default)]
pub struct Identities(Mutex<HashMap<Names, Identity>>);

impl Identities {
    /// As [`Identity::new`], or the one of before.
    ///
    /// # Errors
    /// Those of [`Identity::new`]; they are not remembered.
    pub fn get(
        &self,
        pair: (Option<&KeySource>, Option<&KeySource>),
        client_ca: Option<&KeySource>,
        hostname: &str,
    ) -> Result<Identity, TlsError> {
        let names = Names::new(pair, client_ca, hostname);
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(identity) = known().get(&names) {
            return Ok(identity.clone());
        }
        let identity = Identity::new(pair, client_ca, hostname)?;
        let mut known = known();
        if known.len() >= IDENTITIES_MAX {
            known.clear();
        }
        known.insert(names, identity.clone());
        Ok(identity)
    }
}

struct Inner {
    names: Names,
    current: Mutex<Current>,
}

/// What the options say.
#[derive(PartialEq, Eq, Hash)]
struct Names {
    certificate: Option<KeySource>,
    key: Option<KeySource>,
    client_ca: Option<KeySource>,
    hostname: String,
}

/// What came of it.
struct Current {
    read: Vec<Vec<u8>>,
    read_at: Instant,
    acceptor: TlsAcceptor,
    /// When it was said that its time is over, or nearly.
    complained_at: Option<Instant>,
}

impl Identity {
    /// Of a certificate and its key, or of a made-up certificate for `hostname`.
    ///
    /// # Errors
    /// They cannot be read, do not fit, or one of the pair is given without the other.
    pub fn new(
        pair: (Option<&KeySource>, Option<&KeySource>),
        client_ca: Option<&KeySource>,
        hostname: &str,
    ) -> Result<Identity, TlsError> {
        let names = Names::new(pair, client_ca, hostname);
        let (read, acceptor) = (names.read()?, names.acceptor()?);
        let now = Instant::now();
        let mut current = Current { read, read_at: now, acceptor, complained_at: None };
        names.complain_of(&mut current, now);
        Ok(Identity(Arc::new(Inner { names, current: Mutex::new(current) })))
    }

    /// The acceptor as it stands.
    pub async fn acceptor(&self) -> TlsAcceptor {
        if self.is_due() {
            let this = self.clone();
            // Files may be slow; whoever comes meanwhile has the acceptor of before.
            let renewed = tokio::task::spawn_blocking(move || this.renew(Instant::now())).await;
            if let Err(error) = renewed {
                tracing::error!("reading the certificate of {}: {error}", self.0.names.hostname);
            }
        }
        self.current().acceptor.clone()
    }

    /// True for one of those who ask once the files were read long ago.
    fn is_due(&self) -> bool {
        let mut current = self.current();
        let is_due = self.0.names.has_files() && current.read_at.elapsed() >= READ_AGAIN;
        if is_due {
            current.read_at = Instant::now();
        }
        is_due
    }

    fn renew(&self, now: Instant) {
        let names = &self.0.names;
        // An unchanged one stays, and with it the sessions that clients may resume.
        let renewed = names.read().and_then(|read| {
            // Nobody waits for the lock while files are read.
            let is_unchanged = read == self.current().read;
            match is_unchanged {
                true => Ok(None),
                false => {
                    names.acceptor().map(|acceptor| Some(Current { read, read_at: now, acceptor, complained_at: None }))
                }
            }
        });
        match renewed {
            Ok(None) => {}
            Ok(Some(renewed)) => *self.current() = renewed,
            Err(error) => tracing::error!("the certificate of {} stays as it was: {error}", names.hostname),
        }
        names.complain_of(&mut self.current(), now);
    }

    fn current(&self) -> std::sync::MutexGuard<'_, Current> {
        self.0.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Names {
    fn new(pair: (Option<&KeySource>, Option<&KeySource>), client_ca: Option<&KeySource>, hostname: &str) -> Names {
        let (certificate, key) = (pair.0.cloned(), pair.1.cloned());
        Names { certificate, key, client_ca: client_ca.cloned(), hostname: hostname.to_owned() }
    }

    fn read(&self) -> Result<Vec<Vec<u8>>, TlsError> {
        let named = [(CERTIFICATE, &self.certificate), (KEY, &self.key), (CLIENT_CA, &self.client_ca)];
        let given = named.into_iter().filter_map(|(field, source)| Some((field, source.as_ref()?)));
        given.map(|(field, source)| load(field, source)).collect()
    }

    fn acceptor(&self) -> Result<TlsAcceptor, TlsError> {
        acceptor_of((self.certificate.as_ref(), self.key.as_ref()), self.client_ca.as_ref(), &self.hostname)
    }

    /// Says it of a certificate whose time is over, or nearly, unless that was said today.
    fn complain_of(&self, current: &mut Current, now: Instant) {
        let is_said = current.complained_at.is_some_and(|at| now.saturating_duration_since(at) < COMPLAINT_INTERVAL);
        let Some(complaint) = self.complaint(current).filter(|_| !is_said) else { return };
        current.complained_at = Some(now);
        let whose = match &self.certificate {
            Some(KeySource::File(path)) => format!("{} ({path})", self.hostname),
            _ => self.hostname.clone(),
        };
        tracing::warn!("the certificate of {whose} {complaint}");
    }

    /// A certificate that was made up is good for who takes it.
    fn complaint(&self, current: &Current) -> Option<String> {
        let pem = current.read.first().filter(|_| self.certificate.is_some())?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        validity::complaint(chain(pem).ok()?.first()?, i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
    }

    fn has_files(&self) -> bool {
        let sources = [&self.certificate, &self.key, &self.client_ca];
        sources.into_iter().flatten().any(|source| matches!(source, KeySource::File(_)))
    }
}

/// The option that says who vouches for clients.
const CLIENT_CA: &str = "tls_required_client_ca";
/// Identities that are remembered.
const IDENTITIES_MAX: usize = 4096;
/// How often it is said that a certificate's time is over.
const COMPLAINT_INTERVAL: Duration = Duration::from_secs(86_400);
/// Age at which files are read again.
const READ_AGAIN: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &std::path::Path, name: &str) {
        let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).expect("made");
        std::fs::write(folder.join("c.pem"), made.cert.pem()).expect("written");
        std::fs::write(folder.join("k.pem"), made.signing_key.serialize_pem()).expect("written");
    }

    #[test]
    fn each_is_read_once() {
        let folder = tempfile::tempdir().expect("scratch");
        write(folder.path(), "a.test");
        let file = |name: &str| KeySource::File(folder.path().join(name).display().to_string());
        let (certificate, key, known) = (file("c.pem"), file("k.pem"), Identities::default());
        let get = |hostname: &str| known.get((Some(&certificate), Some(&key)), None, hostname);
        let first = get("a.test").expect("sound");
        std::fs::remove_file(folder.path().join("k.pem")).expect("it was there");
        assert!(Arc::ptr_eq(&first.0, &get("a.test").expect("known").0));
        assert!(get("b.test").is_err(), "another is read, and what cannot be read is not known");
        write(folder.path(), "a.test");
        assert!(get("b.test").is_ok_and(|other| !Arc::ptr_eq(&first.0, &other.0)));
    }

    #[test]
    fn it_is_said_once_a_day_and_anew_of_another_that_a_certificate_is_over() {
        let folder = tempfile::tempdir().expect("scratch");
        let mut params = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).expect("sound");
        params.not_after = rcgen::date_time_ymd(2002, 1, 1);
        let key = rcgen::KeyPair::generate().expect("a key");
        std::fs::write(folder.path().join("c.pem"), params.self_signed(&key).expect("made").pem()).expect("written");
        std::fs::write(folder.path().join("k.pem"), key.serialize_pem()).expect("written");
        let file = |name: &str| KeySource::File(folder.path().join(name).display().to_string());
        let identity = Identity::new((Some(&file("c.pem")), Some(&file("k.pem"))), None, "a.test").expect("sound");
        let said_at = || identity.current().complained_at;
        let first = said_at().expect("it was said at once");
        identity.renew(first + COMPLAINT_INTERVAL / 2);
        assert_eq!(said_at(), Some(first));
        identity.renew(first + COMPLAINT_INTERVAL);
        assert_eq!(said_at(), Some(first + COMPLAINT_INTERVAL));
        write(folder.path(), "a.test");
        identity.renew(first + COMPLAINT_INTERVAL * 3);
        assert_eq!(said_at(), None, "that one is good");
    }

    #[tokio::test]
    async fn files_are_read_again_and_what_does_not_fit_changes_nothing() {
        let folder = tempfile::tempdir().expect("scratch");
        write(folder.path(), "a.test");
        let file = |name: &str| KeySource::File(folder.path().join(name).display().to_string());
        let (certificate, key) = (file("c.pem"), file("k.pem"));
        let identity = Identity::new((Some(&certificate), Some(&key)), None, "a.test").expect("sound");
        let age = |identity: &Identity| {
            let long_ago = Instant::now().checked_sub(READ_AGAIN).expect("the machine is up for five minutes");
            identity.current().read_at = long_ago;
        };
        let config = |acceptor: &TlsAcceptor| Arc::as_ptr(acceptor.config()) as usize;
        let first = config(&identity.acceptor().await);
        write(folder.path(), "b.test");
        assert_eq!(config(&identity.acceptor().await), first, "not old enough");
        age(&identity);
        let second = config(&identity.acceptor().await);
        assert_ne!(second, first);
        age(&identity);
        assert_eq!(config(&identity.acceptor().await), second, "unchanged");
        std::fs::write(folder.path().join("c.pem"), "no certificate").expect("written");
        age(&identity);
        assert_eq!(config(&identity.acceptor().await), second, "not to be used");
        assert!(!identity.is_due(), "tried once, it waits as long again");
    }
}
