//! Written from RFC 6376 alone, slow and plain, sharing nothing with the crate: canonicalization by
//! copying, and a verifier of one signature. What the crate does is held against this.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{ED25519, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Section 3.4.3 and 3.4.4.
pub fn canonical_body(relaxed: bool, body: &[u8]) -> Vec<u8> {
    let mut lines: Vec<Vec<u8>> = vec![Vec::new()];
    let mut at = 0;
    while at < body.len() {
        if body[at..].starts_with(b"\r\n") {
            lines.push(Vec::new());
            at += 2;
        } else {
            lines.last_mut().expect("never empty").push(body[at]);
            at += 1;
        }
    }
    if relaxed {
        lines = lines.iter().map(|line| relaxed_line(line)).collect();
    }
    while lines.last().is_some_and(Vec::is_empty) {
        lines.pop();
    }
    match (lines.is_empty(), relaxed) {
        (true, true) => Vec::new(),
        (true, false) => b"\r\n".to_vec(),
        _ => lines.iter().flat_map(|line| [line.as_slice(), b"\r\n"].concat()).collect(),
    }
}

/// Runs of white space become one space; none at the end.
fn relaxed_line(line: &[u8]) -> Vec<u8> {
    let mut out: Vec<u8> = Vec::new();
    for &byte in line {
        let byte = if byte == b'\t' { b' ' } else { byte };
        if !(byte == b' ' && out.last() == Some(&b' ')) {
            out.push(byte);
        }
    }
    if out.last() == Some(&b' ') {
        out.pop();
    }
    out
}

pub fn body_hash(relaxed: bool, body: &[u8]) -> Vec<u8> {
    digest(&SHA256, &canonical_body(relaxed, body)).as_ref().to_vec()
}

/// Verifies the first `DKIM-Signature` of a message against a published key record.
#[allow(dead_code, reason = "not every test program verifies")]
pub fn verify(message: &[u8], record: &str) -> Result<(), String> {
    let split = message.windows(4).position(|w| w == b"\r\n\r\n").ok_or("no blank line")?;
    let fields = split_fields(&message[..split + 2]);
    let place =
        fields.iter().position(|(name, _)| name.eq_ignore_ascii_case(b"DKIM-Signature")).ok_or("no signature")?;
    let signature = &fields[place].1;
    let text = String::from_utf8(signature.clone()).map_err(|_| "not ASCII")?;
    let value = text.split_once(':').ok_or("no colon")?.1;
    let tag = |wanted: &str| -> Result<String, String> {
        let found = value.split(';').filter_map(|t| t.split_once('='));
        let found = found.filter(|(name, _)| name.trim() == wanted).map(|(_, v)| v.to_owned());
        let found: Vec<String> = found.collect();
        match found.as_slice() {
            [one] => Ok(one.split_whitespace().collect()),
            _ => Err(format!("{} tags {wanted}", found.len())),
        }
    };
    let (header_form, body_form) = tag("c").and_then(|c| {
        let (h, b) = c.split_once('/').ok_or("c has no slash")?;
        Ok((h == "relaxed", b == "relaxed"))
    })?;
    if tag("bh")? != STANDARD.encode(body_hash(body_form, &message[split + 4..])) {
        return Err("body hash differs".into());
    }
    let mut data = Vec::new();
    let mut left: Vec<usize> = (0..fields.len()).filter(|&i| i != place).collect();
    for name in tag("h")?.split(':') {
        let lowest = left.iter().rposition(|&i| fields[i].0.eq_ignore_ascii_case(name.as_bytes()));
        if let Some(lowest) = lowest {
            data.extend(canonical_field(header_form, &fields[left.remove(lowest)]));
        }
    }
    let b_at = text.rfind("b=").ok_or("no b tag")? + 2;
    let unsigned = (b"DKIM-Signature".to_vec(), signature[..b_at].to_vec());
    let own = canonical_field(header_form, &unsigned);
    data.extend(if header_form { &own[..own.len() - 2] } else { &own[..] });
    check(&tag("a")?, record, &data, &tag("b")?)
}

fn check(algorithm: &str, record: &str, data: &[u8], b: &str) -> Result<(), String> {
    let public = record.split("p=").nth(1).ok_or("record has no p")?;
    let public = STANDARD.decode(public).map_err(|e| e.to_string())?;
    let b = STANDARD.decode(b).map_err(|e| e.to_string())?;
    let valid = match algorithm {
        "rsa-sha256" => UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, public).verify(data, &b),
        _ => UnparsedPublicKey::new(&ED25519, public).verify(digest(&SHA256, data).as_ref(), &b),
    };
    valid.map_err(|_| "signature differs".into())
}

/// Section 3.4.1 and 3.4.2, line end included.
fn canonical_field(relaxed: bool, (name, whole): &(Vec<u8>, Vec<u8>)) -> Vec<u8> {
    if !relaxed {
        return whole.clone();
    }
    let colon = whole.iter().position(|&b| b == b':').expect("fields have colons");
    let unfolded: Vec<u8> = whole[colon + 1..].iter().copied().filter(|b| !b"\r\n".contains(b)).collect();
    let line = relaxed_line(&unfolded);
    let line = line.strip_prefix(b" ").unwrap_or(&line);
    [name.to_ascii_lowercase().as_slice(), b":", line, b"\r\n"].concat()
}

/// Names and whole fields of a header block that ends every line with CRLF.
fn split_fields(head: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut fields: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    for line in head.split_inclusive(|&b| b == b'\n') {
        match fields.last_mut() {
            Some((_, whole)) if line.starts_with(b" ") || line.starts_with(b"\t") => whole.extend(line),
            _ => {
                let name = line.split(|&b| b == b':').next().unwrap_or_default();
                fields.push((name.trim_ascii_end().to_vec(), line.to_vec()));
            }
        }
    }
    fields
}
