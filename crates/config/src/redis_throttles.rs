//! The options of throttles that nodes share.
//!
//! Owns [`RedisThrottles`], the argument of `kumo.configure_redis_throttles`. Talking to Redis is the throttle crate's.

use crate::duration::Duration;
use crate::options::options;

options! {
    /// `kumo.configure_redis_throttles`
    pub struct RedisThrottles check check_redis {
        /// The server, as `redis://HOST:PORT/DATABASE`; of a list, its one entry.
        node: RedisNode;
        /// User to log in as.
        username: Option<String> = None;
        /// Password to log in with.
        password: Option<String> = None;
        /// True for a Redis cluster, which is not supported.
        cluster: Option<bool> = None;
        /// Accepted: one connection carries all questions.
        pool_size: usize = 10, min 1;
        /// Accepted: throttles write.
        read_from_replicas: bool = false;
        /// Time limit for the connection that is made at the start.
        connect_timeout: Duration = Duration::from_secs(30);
        /// Accepted: nobody waits for a connection.
        wait_timeout: Duration = Duration::from_secs(30);
        /// Accepted: connections are not pooled.
        recycle_timeout: Option<Duration> = None;
        /// Time limit for one answer, and for connecting again; beyond it this node goes on by itself. At most 2 seconds.
        response_timeout: Duration = Duration::from_secs(1);
        /// Share of each throttle that this node admits by itself while Redis does not answer: above 0, at most 1.
        share_while_away: f64 = 1.0;
    }
}

/// Where Redis is: one address, or a list.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(untagged)]
pub enum RedisNode {
    /// One server.
    One(String),
    /// KumoMTA takes several for a cluster.
    Several(Vec<String>),
}

impl Default for RedisNode {
    fn default() -> RedisNode {
        RedisNode::Several(Vec::new())
    }
}

impl RedisThrottles {
    /// The one server's address.
    pub fn address(&self) -> &str {
        match &self.node {
            RedisNode::One(node) => node,
            RedisNode::Several(nodes) => nodes.first().map_or("", String::as_str),
        }
    }
}

fn check_redis(options: &RedisThrottles) -> Result<(), String> {
    let servers = match &options.node {
        RedisNode::One(_) => 1,
        RedisNode::Several(nodes) => nodes.len(),
    };
    if servers != 1 || options.cluster == Some(true) {
        return Err("node: expected one server: Redis clusters are not supported yet".to_owned());
    }
    if !(options.share_while_away > 0.0 && options.share_while_away <= 1.0) {
        return Err(format!("share_while_away: {}: expected a number above 0, at most 1", options.share_while_away));
    }
    let limit = core::time::Duration::from(options.response_timeout);
    if limit.is_zero() || limit > RESPONSE_TIMEOUT_MAX {
        // A node must have found out that Redis is away before others, which did, open connections by their share.
        return Err(format!(
            "response_timeout: {limit:?}: expected more than nothing and at most {RESPONSE_TIMEOUT_MAX:?}"
        ));
    }
    Ok(())
}

/// With the 2 s between two renewals it makes the 4 s for which no node that is alone opens a connection.
const RESPONSE_TIMEOUT_MAX: core::time::Duration = core::time::Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(options: serde_json::Value) -> Result<RedisThrottles, String> {
        crate::parse("kumo.configure_redis_throttles", options).map_err(|e| e.to_string())
    }

    #[test]
    fn one_server_is_named_in_either_form() {
        for node in [json!("redis://a:1"), json!(["redis://a:1"])] {
            assert_eq!(read(json!({"node": node})).map(|r| r.address().to_owned()), Ok("redis://a:1".to_owned()));
        }
        let whole = json!({"node": "redis://a", "pool_size": 4, "read_from_replicas": true, "username": "u", "password": "p",
            "connect_timeout": "5s", "wait_timeout": 5, "recycle_timeout": "1m", "response_timeout": "300ms", "cluster": false,
            "share_while_away": 0.25});
        assert_eq!(read(whole).map(|r| r.share_while_away), Ok(0.25));
        assert!(read(json!({"node": "redis://a", "response_timeout": "2s"})).is_ok());
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (options, why) in [
            (json!({}), "node"),
            (json!({"node": []}), "expected one server"),
            (json!({"node": ["redis://a", "redis://b"]}), "expected one server"),
            (json!({"node": "redis://a", "cluster": true}), "clusters are not supported"),
            (json!({"node": "redis://a", "share_while_away": 0}), "above 0"),
            (json!({"node": "redis://a", "share_while_away": 1.5}), "at most 1"),
            (json!({"node": "redis://a", "response_timeout": "2001ms"}), "at most 2s"),
            (json!({"node": "redis://a", "response_timeout": 0}), "more than nothing"),
            (json!({"node": "redis://a", "nodes": 1}), "nodes"),
        ] {
            let error = read(options.clone()).expect_err("refused");
            assert!(error.contains(why), "{options}: {error}");
        }
    }
}
