//! Scripts of ours that Redis runs: what is counted together is counted by one of them, by the server's clock.
//!
//! In: a script by what it does, its keys and arguments. Out: the answer. A server that ran it before is told its hash only.
//! The scripts themselves are beside this file, each with what it is told and what it answers.

use crate::server::Connection;
use ::redis::{Cmd, ErrorKind, FromRedisValue, RedisError, ServerErrorKind, cmd};

/// All of them.
#[derive(Debug)]
pub(crate) struct Scripts {
    /// Admissions of several rates.
    pub grants: Script,
    /// A lease and what it needs of rates.
    pub lease: Script,
    /// A lease that lasts on.
    pub renew: Script,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct Script {
    code: String,
    hash: String,
}

impl Scripts {
    pub fn new() -> Scripts {
        const LINE: &str = include_str!("scripts/line.lua");
        const LIMITS: &str = include_str!("scripts/limits.lua");
        Scripts {
            grants: Script::of(&[LINE, include_str!("scripts/grants.lua")]),
            lease: Script::of(&[LINE, LIMITS, include_str!("scripts/lease.lua")]),
            renew: Script::of(&[LIMITS, include_str!("scripts/renew.lua")]),
        }
    }
}

impl Script {
    fn of(parts: &[&str]) -> Script {
        let lines = parts.iter().flat_map(|part| part.lines()).map(str::trim);
        let code = lines.filter(|line| !line.is_empty() && !line.starts_with("--")).collect::<Vec<_>>().join("\n");
        let hash = ::redis::Script::new(&code).get_hash().to_owned();
        Script { code, hash }
    }

    /// Runs it: `add` adds how many keys there are, these, and the arguments.
    pub async fn ask<T: FromRedisValue>(
        &self,
        connection: &mut Connection,
        add: impl Fn(&mut Cmd),
    ) -> Result<T, RedisError> {
        let mut known = cmd("EVALSHA");
        add(known.arg(&self.hash));
        match known.query_async(connection).await {
            Err(error) if is_unknown(&error) => {
                let mut whole = self.whole();
                add(&mut whole);
                whole.query_async(connection).await
            }
            answer => answer,
        }
    }

    /// The question with the whole script, for those that are asked together and cannot be asked again one by one.
    pub fn whole(&self) -> Cmd {
        let mut whole = cmd("EVAL");
        whole.arg(&self.code);
        whole
    }
}

/// The server has not run the script yet, or we may not name it by its hash: nothing was done.
fn is_unknown(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Server(ServerErrorKind::NoScript | ServerErrorKind::NoPerm))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_has_no_comments_and_renewals_which_go_whole_and_many_at_once_are_short() {
        let all = Scripts::new();
        for (script, octets_max) in [(all.grants, 3000), (all.lease, 4000), (all.renew, 1200)] {
            assert!(script.code.len() <= octets_max, "{}: {}", script.code.len(), script.code);
            assert!(script.code.contains("redis.call('TIME')") && !script.code.contains("--"));
        }
    }
}
