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

    /// One that ends in so many days, or has ended so many days ago, in the place of the last one.
    pub fn make_for_days(scratch: &Scratch, name: &str, days: i32) -> Certificate {
        let (certificate, key) = (scratch.join("certificate.pem"), scratch.join("key.pem"));
        let (request, extensions) =
            (scratch.join("request.pem"), scratch.write("extensions", format!("subjectAltName=DNS:{name}\n")));
        let mut command =
            openssl(&["req", "-newkey", "rsa:2048", "-nodes", "-subj", &format!("/CN={name}"), "-keyout"]);
        command.arg(&key).arg("-out").arg(&request);
        run("openssl req", command, SOON).success();
        let mut command = openssl(&["x509", "-req", "-days", &days.to_string(), "-in"]);
        command.arg(&request).arg("-signkey").arg(&key).arg("-extfile").arg(extensions).arg("-out").arg(&certificate);
        run("openssl x509", command, SOON).success();
        Certificate { certificate, key }
    }
}

/// A name or an address as certificates have it.
fn alternative(name: &str) -> String {
    let kind = if name.parse::<std::net::IpAddr>().is_ok() { "IP" } else { "DNS" };
    format!("{kind}:{name}")
}

/// A certification authority of a test.
#[derive(Clone, Debug)]
pub struct Authority {
    /// Its own certificate, and its key.
    pub own: Certificate,
}

impl Authority {
    /// A new one.
    pub fn make(scratch: &Scratch) -> Authority {
        let own = Certificate { certificate: scratch.join("ca.pem"), key: scratch.join("ca.key") };
        let mut command = openssl(&["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout"]);
        command.arg(&own.key).arg("-out").arg(&own.certificate).args(["-subj", "/CN=authority of a test"]);
        run("openssl req", command, SOON).success();
        Authority { own }
    }

    /// A certificate for `names`; the file holds the authority's behind it.
    pub fn issue(&self, scratch: &Scratch, names: &[&str]) -> Certificate {
        let file = |end: &str| scratch.join(&format!("{}.{end}", names[0]));
        let issued = Certificate { certificate: file("pem"), key: file("key") };
        let alternatives: Vec<String> = names.iter().map(|name| alternative(name)).collect();
        let extensions = format!("subjectAltName={}\nextendedKeyUsage=serverAuth,clientAuth\n", alternatives.join(","));
        std::fs::write(file("ext"), extensions).expect("the extensions");
        let mut command = openssl(&["req", "-newkey", "rsa:2048", "-nodes", "-keyout"]);
        command.arg(&issued.key).arg("-out").arg(file("csr")).args(["-subj", &format!("/CN={}", names[0])]);
        run("openssl req", command, SOON).success();
        let mut command = openssl(&["x509", "-req", "-days", "2", "-CAcreateserial", "-CA"]);
        command.arg(&self.own.certificate).arg("-CAkey").arg(&self.own.key).arg("-in").arg(file("csr"));
        command.arg("-extfile").arg(file("ext")).arg("-out").arg(&issued.certificate);
        run("openssl x509", command, SOON).success();
        let read = |path: &Path| std::fs::read(path).expect("openssl wrote it");
        let chain = [read(&issued.certificate), read(&self.own.certificate)].concat();
        std::fs::write(&issued.certificate, chain).expect("the chain");
        issued
    }
}

impl Certificate {
    /// The data of a TLSA record about it (the first in its file), SHA-256, in hexadecimal; `of_key`: selector 1.
    pub fn tlsa_sha256(&self, scratch: &Scratch, of_key: bool) -> String {
        let out = scratch.join("tlsa.der");
        let mut command = openssl(&["x509", "-in"]);
        command.arg(&self.certificate);
        if of_key {
            let public = scratch.join("tlsa.pub");
            command.args(["-noout", "-pubkey", "-out"]).arg(&public);
            run("openssl x509", command, SOON).success();
            command = openssl(&["pkey", "-pubin", "-in"]);
            command.arg(&public);
        }
        command.args(["-outform", "DER", "-out"]).arg(&out);
        run("openssl", command, SOON).success();
        let mut command = openssl(&["dgst", "-sha256", "-r"]);
        command.arg(&out);
        run("openssl dgst", command, SOON).success().stdout.split(' ').next().expect("a digest").to_owned()
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
