//! Signatures of requests to Amazon's services: "AWS Signature Version 4", in the `Authorization` field.
//!
//! Owns [`sign`]. In: a request's parts, keys, and when it is signed. Out: [`Signed`]. Cannot fail. Pure: sends nothing,
//! reads no clock. (The published libraries do not give the intermediate texts that `kumo.crypto.aws_sign_v4` returns.)

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac;
use data_encoding::HEXLOWER;
use std::collections::BTreeMap;
use time::OffsetDateTime;
use time::macros::format_description;

/// What is signed, and for whom.
#[derive(Clone, Debug, Default)]
pub struct ToSign<'a> {
    /// Who signs.
    pub access_key: &'a str,
    /// The key.
    pub secret_key: &'a [u8],
    /// A token that came with temporary keys; goes into the signature as `X-Amz-Security-Token`.
    pub session_token: Option<&'a str>,
    /// `us-east-1`
    pub region: &'a str,
    /// `sqs`
    pub service: &'a str,
    /// `POST`
    pub method: &'a str,
    /// The path, as it is sent.
    pub path: &'a str,
    /// Parameters of the query, not encoded.
    pub query: Vec<(String, String)>,
    /// Header fields that are signed; `X-Amz-Date` is added.
    pub headers: Vec<(String, String)>,
    /// The content.
    pub payload: &'a [u8],
}

/// A signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// The value of `Authorization`.
    pub authorization: String,
    /// The value of `X-Amz-Date`.
    pub timestamp: String,
    /// In hex.
    pub signature: String,
    /// The request as it is signed.
    pub canonical_request: String,
    /// The text that is signed.
    pub string_to_sign: String,
}

/// Signs.
pub fn sign(request: &ToSign, now: OffsetDateTime) -> Signed {
    let timestamp = stamp(now);
    let day = &timestamp[..DAY_CHARACTERS];
    let headers = canonical_headers(request, &timestamp);
    let names = headers.keys().map(String::as_str).collect::<Vec<_>>().join(";");
    let lines: String = headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
    let canonical_request = [
        request.method,
        &canonical_path(request),
        &canonical_query(&request.query),
        &lines,
        &names,
        &hex_sha256(request.payload),
    ]
    .join("\n");
    let scope = format!("{day}/{}/{}/aws4_request", request.region, request.service);
    let string_to_sign = format!("{ALGORITHM}\n{timestamp}\n{scope}\n{}", hex_sha256(canonical_request.as_bytes()));
    let first = [b"AWS4", request.secret_key].concat();
    let key = [day, request.region, request.service, "aws4_request"]
        .iter()
        .fold(first, |key, step| tag(&key, step.as_bytes()));
    let signature = HEXLOWER.encode(&tag(&key, string_to_sign.as_bytes()));
    let authorization =
        format!("{ALGORITHM} Credential={}/{scope}, SignedHeaders={names}, Signature={signature}", request.access_key);
    Signed { authorization, timestamp, signature, canonical_request, string_to_sign }
}

/// Names in small letters and in order, values of one name joined, blanks in them made one.
fn canonical_headers(request: &ToSign, timestamp: &str) -> BTreeMap<String, String> {
    let mut headers: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in &request.headers {
        let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
        let values = headers.entry(name.to_ascii_lowercase()).or_default();
        *values = if values.is_empty() { value } else { format!("{values},{value}") };
    }
    headers.entry("x-amz-date".to_owned()).or_insert_with(|| timestamp.to_owned());
    if let Some(token) = request.session_token {
        headers.entry("x-amz-security-token".to_owned()).or_insert_with(|| token.to_owned());
    }
    headers
}

/// S3 takes a path as it is sent; every other service encodes it once more.
fn canonical_path(request: &ToSign) -> String {
    let path = if request.path.is_empty() { "/" } else { request.path };
    let keep: &[u8] = if request.service == "s3" { b"/%" } else { b"/" };
    encode(path, keep)
}

fn canonical_query(parameters: &[(String, String)]) -> String {
    let mut pairs: Vec<_> = parameters.iter().map(|(name, value)| (encode(name, b""), encode(value, b""))).collect();
    pairs.sort();
    pairs.into_iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
}

/// Everything but the unreserved characters of RFC 3986 and `keep` as `%XX`.
fn encode(text: &str, keep: &[u8]) -> String {
    let is_plain = |octet: u8| octet.is_ascii_alphanumeric() || b"-._~".contains(&octet) || keep.contains(&octet);
    text.bytes().fold(String::with_capacity(text.len()), |encoded, octet| match is_plain(octet) {
        true => encoded + char::from(octet).encode_utf8(&mut [0; 4]),
        false => encoded + &format!("%{octet:02X}"),
    })
}

fn hex_sha256(octets: &[u8]) -> String {
    HEXLOWER.encode(digest(&SHA256, octets).as_ref())
}

fn tag(key: &[u8], octets: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), octets).as_ref().to_vec()
}

fn stamp(now: OffsetDateTime) -> String {
    let form = format_description!("[year][month][day]T[hour][minute][second]Z");
    now.to_offset(time::UtcOffset::UTC).format(&form).expect("a time of four digits a year")
}

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// `20150830` of `20150830T123600Z`.
const DAY_CHARACTERS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::datetime;

    /// The keys and the request that Amazon publishes vectors for.
    fn request<'a>(method: &'a str, path: &'a str, query: &[(&str, &str)]) -> ToSign<'a> {
        ToSign {
            access_key: "AKIDEXAMPLE",
            secret_key: b"wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
            region: "us-east-1",
            service: "service",
            method,
            path,
            query: query.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            headers: vec![("Host".to_owned(), "example.amazonaws.com".to_owned())],
            ..ToSign::default()
        }
    }

    #[test]
    fn signatures_are_those_amazon_publishes() {
        let now = datetime!(2015-08-30 12:36 UTC);
        for (request, signature) in [
            (request("GET", "/", &[]), "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
            (request("POST", "/", &[]), "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
            (
                request("GET", "/", &[("Param2", "value2"), ("Param1", "value1")]),
                "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
            ),
        ] {
            let signed = sign(&request, now);
            assert_eq!(signed.signature, signature, "{}", signed.canonical_request);
            assert_eq!(signed.timestamp, "20150830T123600Z");
            assert_eq!(
                signed.authorization,
                format!(
                    "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
                     SignedHeaders=host;x-amz-date, Signature={signature}"
                )
            );
        }
    }

    #[test]
    fn what_is_signed_is_written_in_one_way_only() {
        let mut given = request("GET", "/a%20b", &[("b", "x y"), ("a", "ü&")]);
        given.headers.push(("X-B".to_owned(), "  1   2 ".to_owned()));
        given.headers.push(("x-b".to_owned(), "3".to_owned()));
        given.session_token = Some("token");
        let lines = |given: &ToSign| {
            let signed = sign(given, datetime!(2015-08-30 12:36 UTC));
            signed.canonical_request.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        let found = lines(&given);
        assert_eq!(found[1..3], ["/a%2520b", "a=%C3%BC%26&b=x%20y"]);
        assert_eq!(found[5..7], ["x-amz-security-token:token", "x-b:1 2,3"]);
        assert_eq!(found[8], "host;x-amz-date;x-amz-security-token;x-b");
        assert_eq!(lines(&ToSign { service: "s3", ..given })[1], "/a%20b");
    }
}
