//! The options of throttles that nodes share.
//!
//! Owns [`RedisThrottles`], the argument of `kumo.configure_redis_throttles`. Talking to Redis is the throttle crate's.

use crate::duration::Duration;
use crate::options::options;

options! {
    /// `kumo.configure_redis_throttles`
    pub struct RedisThrottles check check_redis {
        /// The server, as `redis://HOST:PORT/DATABASE` or, for TLS, `rediss://...`; a list for some servers of a cluster.
        node: RedisNode;
        /// User to log in as.
        username: Option<String> = None;
        /// Password to log in with.
        password: Option<String> = None;
        /// True for a Redis cluster; so are several nodes.
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
    /// Some servers of a cluster, or one server.
    Several(Vec<String>),
}

impl Default for RedisNode {
    fn default() -> RedisNode {
        RedisNode::Several(Vec::new())
    }
}

impl RedisNode {
    /// Every address.
    pub(crate) fn all(&self) -> &[String] {
        match self {
            RedisNode::One(node) => std::slice::from_ref(node),
            RedisNode::Several(nodes) => nodes,
        }
    }
}

impl RedisThrottles {
    /// The addresses given, at least one.
    pub fn nodes(&self) -> &[String] {
        self.node.all()
    }

    /// They belong to a Redis cluster (KumoMTA behaviour: several always do).
    pub fn is_cluster(&self) -> bool {
        self.cluster.unwrap_or(self.nodes().len() > 1)
    }
}

fn check_redis(options: &RedisThrottles) -> Result<(), String> {
    if options.nodes().is_empty() {
        return Err("node: an empty list: expected at least one server".to_owned());
    }
    if options.nodes().len() > 1 && !options.is_cluster() {
        return Err("cluster: false with several nodes: expected one server".to_owned());
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
    fn servers_are_named_in_either_form_and_several_are_a_cluster() {
        for (options, nodes, is_cluster) in [
            (json!({"node": "redis://a:1"}), vec!["redis://a:1"], false),
            (json!({"node": ["redis://a:1"]}), vec!["redis://a:1"], false),
            (json!({"node": "rediss://a:1", "cluster": true}), vec!["rediss://a:1"], true),
            (json!({"node": ["redis://a", "redis://b"]}), vec!["redis://a", "redis://b"], true),
        ] {
            let found = read(options).expect("sound");
            assert_eq!(
                (found.nodes(), found.is_cluster()),
                (&nodes.into_iter().map(str::to_owned).collect::<Vec<_>>()[..], is_cluster)
            );
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
            (json!({"node": []}), "expected at least one server"),
            (json!({"node": ["redis://a", "redis://b"], "cluster": false}), "expected one server"),
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
