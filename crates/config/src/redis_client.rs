//! The options of `redis.open`.
//!
//! Owns [`RedisClientOptions`]. Talking to Redis is the throttle crate's.

use crate::duration::Duration;
use crate::options::options;
use crate::redis_throttles::RedisNode;

options! {
    /// `redis.open`
    pub struct RedisClientOptions check check_client {
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
        /// Accepted: every question goes to the server that owns its key.
        read_from_replicas: bool = false;
        /// Time limit for making a connection.
        connect_timeout: Duration = Duration::from_secs(30);
        /// Accepted: nobody waits for a connection.
        wait_timeout: Duration = Duration::from_secs(30);
        /// Accepted: connections are not pooled.
        recycle_timeout: Option<Duration> = None;
        /// Time limit for one answer; 30 s when absent.
        response_timeout: Option<Duration> = None;
    }
}

impl RedisClientOptions {
    /// The addresses given, at least one.
    pub fn nodes(&self) -> &[String] {
        self.node.all()
    }

    /// They belong to a Redis cluster (KumoMTA behaviour: several always do).
    pub fn is_cluster(&self) -> bool {
        self.cluster.unwrap_or(self.nodes().len() > 1)
    }
}

fn check_client(options: &RedisClientOptions) -> Result<(), String> {
    if options.nodes().is_empty() {
        return Err("node: an empty list: expected at least one server".to_owned());
    }
    if options.nodes().len() > 1 && !options.is_cluster() {
        return Err("cluster: false with several nodes: expected one server".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn servers_are_named_in_either_form() {
        let read = |options| crate::parse::<RedisClientOptions>("redis.open", options).map_err(|e| e.to_string());
        assert!(!read(json!({"node": "redis://a"})).expect("sound").is_cluster());
        assert!(read(json!({"node": ["redis://a", "redis://b"]})).expect("sound").is_cluster());
        for (options, why) in [
            (json!({"node": []}), "at least one server"),
            (json!({"node": ["redis://a", "redis://b"], "cluster": false}), "expected one server"),
            (json!({"nod": "redis://a"}), "node"),
        ] {
            assert!(read(options.clone()).expect_err("refused").contains(why), "{options}");
        }
    }
}
