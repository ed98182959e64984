//! Keys and certificates made with openssl, which is not what the program makes or reads them with.

use crate::process::run;
use crate::scratch::Scratch;
use crate::until::SOON;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A self-signed certificate and its key, PEM files.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// The certificate.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

impl Certificate {
    /// A certificate for `name`.
    pub fn make(scratch: &Scratch, name: &str) -> Certificate {
        let (certificate, key) = (scratch.join("certificate.pem"), scratch.join("key.pem"));
        let mut command = openssl(&["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout"]);
        command.arg(&key).arg("-out").arg(&certificate);
        command.args(["-subj", &format!("/CN={name}"), "-addext", &format!("subjectAltName=DNS:{name}")]);
        run("openssl req", command, SOON).success();
        Certificate { certificate, key }
    }
}

/// Kinds of DKIM keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DkimKey {
    /// RSA with 2048 bits, as `BEGIN RSA PRIVATE KEY`.
    Rsa,
    /// RSA with 2048 bits, as `BEGIN PRIVATE KEY`.
    RsaPkcs8,
    /// Ed25519.
    Ed25519,
}

impl DkimKey {
    /// Makes a key. Returns its file and the TXT record that publishes it.
    pub fn make(self, scratch: &Scratch) -> (PathBuf, String) {
        let path = scratch.join("dkim.pem");
        let arguments: &[&str] = match self {
            DkimKey::Rsa => &["genrsa", "-traditional", "-out"],
            DkimKey::RsaPkcs8 => &["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out"],
            DkimKey::Ed25519 => &["genpkey", "-algorithm", "ed25519", "-out"],
        };
        let mut command = openssl(arguments);
        command.arg(&path);
        run("openssl genpkey", command, SOON).success();
        let public = public_key(scratch, &path);
        let record = match self {
            DkimKey::Rsa | DkimKey::RsaPkcs8 => format!("v=DKIM1; k=rsa; p={}", STANDARD.encode(public)),
            // RFC 8463: the bare key, which is the end of the structure openssl writes.
            DkimKey::Ed25519 => format!("v=DKIM1; k=ed25519; p={}", STANDARD.encode(&public[public.len() - 32..])),
        };
        (path, record)
    }
}

fn public_key(scratch: &Scratch, private: &Path) -> Vec<u8> {
    let out = scratch.join("dkim.der");
    let mut command = openssl(&["pkey", "-pubout", "-outform", "DER", "-in"]);
    command.arg(private).arg("-out").arg(&out);
    run("openssl pkey", command, SOON).success();
    std::fs::read(&out).expect("openssl wrote the public key")
}

fn openssl(arguments: &[&str]) -> Command {
    let mut command = Command::new("openssl");
    command.args(arguments);
    command
}
