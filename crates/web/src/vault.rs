//! Secrets of HashiCorp Vault, version 2 of its key-value engine.
//!
//! In: where a secret is. Out: one member of it. Fails with the place and what Vault says, never with a secret or a token.

use crate::client::Client;
use crate::error::WebError;
use crate::request::Request;
use reqwest::Method;
use serde_json::Value;
use thiserror::Error;

/// Where a secret is, and who asks.
#[derive(Clone, Copy, Debug)]
pub struct Secret<'a> {
    /// URL of the server.
    pub address: &'a str,
    /// Who asks.
    pub token: &'a str,
    /// The secrets engine's mount.
    pub mount: &'a str,
    /// The path of the secret.
    pub path: &'a str,
    /// Which member of it.
    pub key: &'a str,
}

/// Why there is no secret.
#[derive(Debug, Error)]
#[error("Vault secret {mount}/{path} at {address}: {why}")]
pub struct VaultError {
    address: String,
    mount: String,
    path: String,
    why: String,
}

/// Asks for it.
///
/// # Errors
/// Nobody answers, Vault refuses, or the secret has no such member.
pub async fn read(client: &Client, secret: &Secret<'_>) -> Result<Vec<u8>, VaultError> {
    let answer = ask(client, secret).await;
    answer.and_then(|(status, content)| member(status, &content, secret.key)).map_err(|why| VaultError {
        address: secret.address.to_owned(),
        mount: secret.mount.to_owned(),
        path: secret.path.to_owned(),
        why,
    })
}

async fn ask(client: &Client, secret: &Secret<'_>) -> Result<(u16, Vec<u8>), String> {
    let said = |e: WebError| e.to_string();
    let mut request = Request::new(Method::GET, secret.address).map_err(said)?;
    let [mount, path] = [secret.mount, secret.path].map(|part| part.trim_matches('/').split('/'));
    if let Ok(mut segments) = request.url.path_segments_mut() {
        // Each is encoded, so that a name from elsewhere cannot lead to another place.
        segments.pop_if_empty().push("v1").extend(mount).push("data").extend(path);
    }
    // Its error would show the token.
    request.add_header("X-Vault-Token", secret.token.as_bytes()).map_err(|_| "the token has control characters")?;
    let answer = client.send(request).await.map_err(said)?;
    let status = answer.status.as_u16();
    Ok((status, answer.content().await.map_err(said)?.to_vec()))
}

fn member(status: u16, content: &[u8], key: &str) -> Result<Vec<u8>, String> {
    let json: Value = serde_json::from_slice(content).unwrap_or_default();
    if status != 200 {
        let errors = json["errors"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let errors: Vec<&str> = errors.collect();
        let expected = "expected 200";
        return Err(match errors.is_empty() {
            true => format!("status {status}: {expected}"),
            false => format!("status {status}: {}", errors.join("; ")),
        });
    }
    match &json["data"]["data"][key] {
        Value::String(text) => Ok(text.as_bytes().to_vec()),
        Value::Null => Err(format!("it has no member `{key}`")),
        _ => Err(format!("its member `{key}` is no text")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_one_member() {
        let found = |status, content: &str| member(status, content.as_bytes(), "key");
        assert_eq!(found(200, r#"{"data":{"data":{"key":"s3cret","other":"x"}}}"#), Ok(b"s3cret".to_vec()));
        for (status, content, why) in [
            (200, r#"{"data":{"data":{"other":"x"}}}"#, "it has no member `key`"),
            (200, r#"{"data":{"data":{"key":{"a":1}}}}"#, "its member `key` is no text"),
            (403, r#"{"errors":["permission denied"]}"#, "status 403: permission denied"),
            (404, r#"{"errors":[]}"#, "status 404: expected 200"),
            (502, "<html>", "status 502: expected 200"),
        ] {
            assert_eq!(found(status, content), Err(why.to_owned()));
        }
    }
}
