//! The options of `kumo.crypto.aws_sign_v4` and of a request's method of that name.
//!
//! Owns [`AwsSigning`] and [`AwsRequestSigning`]. Signing is the web crate's. `payload` may be any octets, so it is read beside them.

use crate::key_source::KeySource;
use crate::options::options;
use std::collections::BTreeMap;

options! {
    /// `kumo.crypto.aws_sign_v4`
    pub struct AwsSigning {
        /// Id of the access key, as a KeySource.
        access_key: KeySource;
        /// The secret access key, as a KeySource.
        secret_key: KeySource;
        /// `us-east-1`
        region: String;
        /// `s3`, `sqs`, ...
        service: String;
        /// `GET`, `POST`, ...
        method: String;
        /// Path of the request, as it is sent.
        uri: String;
        /// Parameters of the query, by name, not encoded.
        query_params: BTreeMap<String, String> = BTreeMap::new();
        /// Header fields that are signed; `X-Amz-Date` always is.
        headers: BTreeMap<String, String> = BTreeMap::new();
        /// When it is signed, as RFC 3339 writes it; now when absent.
        timestamp: Option<String> = None;
        /// Token that came with temporary keys.
        session_token: Option<String> = None;
    }
}

options! {
    /// `request:aws_sign_v4`
    pub struct AwsRequestSigning {
        /// Id of the access key, as a KeySource.
        access_key: KeySource;
        /// The secret access key, as a KeySource.
        secret_key: KeySource;
        /// `us-east-1`
        region: String;
        /// `s3`, `sqs`, ...
        service: String;
        /// More header fields that are sent and signed.
        headers: BTreeMap<String, String> = BTreeMap::new();
        /// When it is signed, as RFC 3339 writes it; now when absent.
        timestamp: Option<String> = None;
        /// Token that came with temporary keys.
        session_token: Option<String> = None;
    }
}
