//! New keys, for those who have none.
//!
//! In: nothing. Out: the text of a PEM file. Fails when the crypto library does.

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// A new RSA key of 2048 bits, which every receiver can verify with: PKCS#8 in PEM.
///
/// # Errors
/// The crypto library cannot make one.
pub fn new_rsa_key() -> Result<String, Unspecified> {
    let pair = KeyPair::generate(KeySize::Rsa2048)?;
    let der: Pkcs8V1Der<'_> = pair.as_der()?;
    let text = STANDARD.encode(der.as_ref());
    let lines: Vec<&str> =
        (0..text.len()).step_by(PEM_LINE).map(|at| &text[at..text.len().min(at + PEM_LINE)]).collect();
    Ok(format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", lines.join("\n")))
}

/// Characters on a line of a PEM file.
const PEM_LINE: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SigningKey;
    use aws_lc_rs::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};

    #[test]
    fn a_new_key_signs_and_what_is_published_of_it_verifies() {
        let pem = new_rsa_key().expect("a key");
        let key = SigningKey::from_pem_or_der(pem.as_bytes()).expect("it reads");
        let signature = key.sign(b"text").expect("it signs");
        let record = key.dns_record().expect("a record");
        let public = record.split("p=").nth(1).and_then(|p| STANDARD.decode(p).ok()).expect("a public key");
        let verifier = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, public);
        verifier.verify(b"text", &signature).expect("the two are a pair");
        assert_ne!(pem, new_rsa_key().expect("another"));
    }
}
