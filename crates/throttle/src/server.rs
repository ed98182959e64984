//! Where Redis is: one server, or a cluster of them; in clear or over TLS.
//!
//! A cluster runs a script where its keys are, so all keys of one script must be on one server: there the rates and limits
//! of queues and paths have a common hash tag ([`Server::keys`]), while throttles of scripts, one key each, are spread over all.

use ::redis::aio::{ConnectionLike, MultiplexedConnection};
use ::redis::cluster::{ClusterClient, ClusterClientBuilder};
use ::redis::cluster_async::ClusterConnection;
use ::redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionInfo, IntoConnectionInfo, Pipeline, RedisError, RedisFuture, Value,
};
use clock::Duration;
use config::RedisThrottles;

/// One server, or some of a cluster.
pub(crate) enum Server {
    One(Box<Client>),
    Cluster(Box<ClusterClient>),
}

/// A connection to it; clones share it.
#[derive(Clone)]
pub(crate) enum Connection {
    One(MultiplexedConnection),
    Cluster(ClusterConnection),
}

/// Where it is and how one comes in.
pub(crate) struct Login<'a> {
    pub nodes: &'a [String],
    pub is_cluster: bool,
    pub username: Option<&'a str>,
    pub password: Option<&'a str>,
    pub response_timeout: Duration,
}

impl<'a> From<&'a RedisThrottles> for Login<'a> {
    fn from(options: &'a RedisThrottles) -> Login<'a> {
        Login {
            nodes: options.nodes(),
            is_cluster: options.is_cluster(),
            username: options.username.as_deref(),
            password: options.password.as_deref(),
            response_timeout: options.response_timeout.get(),
        }
    }
}

impl Server {
    /// As configured; connects to nobody.
    pub fn new(login: &Login<'_>) -> Result<Server, RedisError> {
        let infos: Vec<ConnectionInfo> = login.nodes.iter().map(|node| info(node, login)).collect::<Result<_, _>>()?;
        if !login.is_cluster {
            let info = infos.into_iter().next().ok_or_else(|| RedisError::from(std::io::Error::other("no node")))?;
            return Ok(Server::One(Box::new(Client::open(info)?)));
        }
        let limit = login.response_timeout;
        // One server that is gone without a word must not use up the time for all.
        let builder = ClusterClientBuilder::new(infos).connection_timeout(limit / 4).response_timeout(limit);
        let builder = builder.retries(RETRIES).min_retry_wait(RETRY_WAIT_MS.0).max_retry_wait(RETRY_WAIT_MS.1);
        Ok(Server::Cluster(Box::new(builder.build()?)))
    }

    /// A connection; `limit` is for making it and for each answer.
    pub async fn connect(&self, limit: Duration) -> Result<Connection, RedisError> {
        self.connect_within(limit, limit).await
    }

    /// The same with a limit for each.
    pub async fn connect_within(&self, connect: Duration, response: Duration) -> Result<Connection, RedisError> {
        match self {
            Server::One(client) => {
                let config = AsyncConnectionConfig::new()
                    .set_connection_timeout(Some(connect))
                    .set_response_timeout(Some(response));
                client.get_multiplexed_async_connection_with_config(&config).await.map(Connection::One)
            }
            Server::Cluster(client) => client.get_async_connection().await.map(Connection::Cluster),
        }
    }

    /// What the names of rates and limits that are taken together begin with.
    pub fn keys(&self) -> &'static str {
        match self {
            Server::One(_) => OURS,
            Server::Cluster(_) => OURS_TOGETHER,
        }
    }
}

impl ConnectionLike for Connection {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Connection::One(connection) => connection.req_packed_command(cmd),
            Connection::Cluster(connection) => connection.req_packed_command(cmd),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Connection::One(connection) => connection.req_packed_commands(pipeline, offset, count),
            Connection::Cluster(connection) => connection.req_packed_commands(pipeline, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Connection::One(connection) => connection.get_db(),
            Connection::Cluster(connection) => connection.get_db(),
        }
    }
}

fn info(node: &str, login: &Login<'_>) -> Result<ConnectionInfo, RedisError> {
    let info = node.into_connection_info()?;
    let mut settings = info.redis_settings().clone();
    if let Some(username) = login.username {
        settings = settings.set_username(username);
    }
    if let Some(password) = login.password {
        settings = settings.set_password(password);
    }
    Ok(info.set_redis_settings(settings))
}

/// Before the keys of our scripts: what redis-cell keeps under the bare ones has another form.
pub(crate) const OURS: &str = "postrider:";
/// The same, with a hash tag that puts them all on one server of a cluster.
const OURS_TOGETHER: &str = "{postrider}:";
/// Times a question follows a slot that has moved to another server of a cluster.
const RETRIES: u32 = 3;
/// Shortest and longest pause before a question is asked again whose slot is on the move.
const RETRY_WAIT_MS: (u64, u64) = (20, 100);
