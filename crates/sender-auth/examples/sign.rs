//! Signs one message: reads it on stdin, writes it signed to stdout.
//!
//! `sign KEY DOMAIN SELECTOR HEADER_FORM BODY_FORM [over]`, forms `Relaxed` or `Simple`;
//! `sign KEY` prints the DNS TXT record of the public key. As SMTP does, a last line without CRLF gets one.

use mime::HeaderBlock;
use sender_auth::{BodyHashes, Scratch, Signer, SignerParams, SigningKey};
use std::error::Error;
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let key = args.first().ok_or("usage: sign KEY [DOMAIN SELECTOR HEADER_FORM BODY_FORM [over]]")?;
    let key = Arc::new(SigningKey::from_pem_or_der(&std::fs::read(key)?)?);
    let [_, domain, selector, header_form, body_form, rest @ ..] = args.as_slice() else {
        println!("{}", key.dns_record().ok_or("key has no public half")?);
        return Ok(());
    };
    let headers = ["From", "To", "Subject", "Date", "Message-ID", "X-Multi", "X-Multi", "Reply-To"];
    let mut params = SignerParams::new(domain, selector, &headers, key);
    params.header_canonicalization = header_form.parse()?;
    params.body_canonicalization = body_form.parse()?;
    params.over_sign = rest.first().is_some_and(|word| word == "over");
    let signer = Signer::new(params)?;

    let mut raw = Vec::new();
    std::io::stdin().read_to_end(&mut raw)?;
    if !raw.ends_with(b"\r\n") {
        raw.extend_from_slice(b"\r\n");
    }
    let mut block = HeaderBlock::parse(&raw);
    let body = &raw[block.body_start()..];
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let field = signer.sign(now, block.view(&raw), body, &BodyHashes::new(), &mut Scratch::new())?;
    block.prepend_field(field)?;
    let mut out = Vec::new();
    block.write_head_to(&raw, &mut out);
    out.extend_from_slice(body);
    std::io::stdout().write_all(&out)?;
    Ok(())
}
