//! Redis for scripts: any command, and its answer as it comes (`require 'redis'`).
//!
//! One connection carries all questions; one that broke is made again by the next question.

use crate::server::{Connection, Login, Server};
use crate::times::QuestionTimes;
use ::redis::{Cmd, RedisError, Value};
use clock::Duration;
use config::RedisClientOptions;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use watched::Times;

/// A server or a cluster, by its options.
pub struct RedisClient {
    server: Server,
    connect_timeout: Duration,
    response_timeout: Duration,
    connection: Mutex<Option<Connection>>,
    times: QuestionTimes,
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// There is none.
    Nil,
    /// Of RESP3.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// Of RESP3.
    Number(f64),
    /// Octets.
    Text(Vec<u8>),
    /// Several.
    List(Vec<Reply>),
    /// By name.
    Map(Vec<(Reply, Reply)>),
}

impl RedisClient {
    /// As configured; connects to nobody.
    ///
    /// # Errors
    /// An address is none.
    pub fn new(options: &RedisClientOptions) -> Result<RedisClient, String> {
        let response_timeout = options.response_timeout.map_or(RESPONSE_TIMEOUT, |limit| limit.get());
        let login = Login {
            nodes: options.nodes(),
            is_cluster: options.is_cluster(),
            username: options.username.as_deref(),
            password: options.password.as_deref(),
            response_timeout,
        };
        let server = Server::new(&login).map_err(|e| e.to_string())?;
        let connect_timeout = options.connect_timeout.get();
        Ok(RedisClient {
            server,
            connect_timeout,
            response_timeout,
            connection: Mutex::default(),
            times: QuestionTimes::default(),
        })
    }

    /// Longest time a question may take.
    pub fn patience(&self) -> Duration {
        self.connect_timeout.saturating_add(self.response_timeout)
    }

    /// Says a command; an answer that is an error is one.
    ///
    /// # Errors
    /// The server cannot be reached, does not answer in time, or says no.
    pub async fn query(&self, words: &[Vec<u8>]) -> Result<Reply, String> {
        let begun = Instant::now();
        let answer = self.ask(words).await;
        self.times.took(begun, answer.is_ok());
        answer
    }

    /// How long questions took that were answered, and those that failed.
    pub fn question_times(&self) -> [Times; 2] {
        self.times.so_far()
    }

    async fn ask(&self, words: &[Vec<u8>]) -> Result<Reply, String> {
        let mut command = Cmd::new();
        words.iter().for_each(|word| _ = command.arg(&word[..]));
        let mut connection = self.connection().await.map_err(|e| e.to_string())?;
        match command.query_async::<Value>(&mut connection).await {
            Ok(answer) => reply(answer),
            Err(error) => {
                // What the server said is an answer; anything else is a connection that is not to be used again.
                if error.is_io_error() || error.is_unrecoverable_error() {
                    self.kept().take();
                }
                Err(error.to_string())
            }
        }
    }

    async fn connection(&self) -> Result<Connection, RedisError> {
        let kept = self.kept().clone();
        if let Some(connection) = kept {
            return Ok(connection);
        }
        let made = self.server.connect_within(self.connect_timeout, self.response_timeout).await?;
        Ok(self.kept().insert(made).clone())
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Option<Connection>> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn reply(answer: Value) -> Result<Reply, String> {
    Ok(match answer {
        Value::Nil => Reply::Nil,
        Value::Boolean(flag) => Reply::Boolean(flag),
        Value::Int(whole) => Reply::Integer(whole),
        Value::Double(number) => Reply::Number(number),
        Value::BulkString(octets) => Reply::Text(octets),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Reply::Text(text.into_bytes()),
        Value::Okay => Reply::Text(b"OK".to_vec()),
        Value::Array(items) | Value::Set(items) => Reply::List(items.into_iter().map(reply).collect::<Result<_, _>>()?),
        Value::Map(members) => {
            let members = members.into_iter().map(|(name, value)| Ok((reply(name)?, reply(value)?)));
            Reply::Map(members.collect::<Result<_, String>>()?)
        }
        Value::Attribute { data, .. } => reply(*data)?,
        Value::ServerError(error) => return Err(error.to_string()),
        other => return Err(format!("an answer that is not understood: {other:?}")),
    })
}

/// KumoMTA has none; a question without an answer must not hold a handler for ever.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
