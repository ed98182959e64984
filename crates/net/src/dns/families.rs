//! Both families of a host's addresses, asked at once or in turn.
//!
//! In: a question to each. Out: one answer. A server that leaves questions for one family without an answer (some before mail hosts
//! do so with AAAA) does not keep the addresses of the other from us: once one family is there the other has [`PATIENCE`], and
//! whose turn comes second does not wait longer than that for its turn.

use super::hickory::both;
use route::{DnsError, IpAnswer};
use std::future::Future;
use std::pin::pin;
use std::time::Duration;
use tokio::time::timeout;

type Answer = Result<IpAnswer, DnsError>;

/// Both at once.
pub(super) async fn together(one: impl Future<Output = Answer>, other: impl Future<Output = Answer>) -> Answer {
    let (mut one, mut other) = (pin!(one), pin!(other));
    tokio::select! {
        one = &mut one => {
            let other = behind(&one, other).await;
            both(one, other)
        }
        other = &mut other => {
            let one = behind(&other, one).await;
            both(one, other)
        }
    }
}

/// The second where the first has no addresses.
pub(super) async fn in_turn(first: impl Future<Output = Answer>, second: impl Future<Output = Answer>) -> Answer {
    let mut first = pin!(first);
    match timeout(PATIENCE, &mut first).await {
        Ok(Ok(answer)) => return Ok(answer),
        Ok(failed) => return both(failed, second.await),
        Err(_) => {}
    }
    let mut second = pin!(second);
    tokio::select! {
        answer = &mut first => match answer {
            Ok(answer) => Ok(answer),
            failed => both(failed, second.await),
        },
        answer = &mut second => match answer {
            Ok(answer) => Ok(answer),
            failed => both(first.await, failed),
        },
    }
}

/// The answer that comes second.
async fn behind(first: &Answer, second: impl Future<Output = Answer>) -> Answer {
    match first {
        Ok(_) => timeout(PATIENCE, second).await.unwrap_or(Err(DnsError::Timeout)),
        Err(_) => second.await,
    }
}

/// How long the addresses of one family wait for the other.
const PATIENCE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{pending, ready};

    fn answer(text: &str) -> Answer {
        Ok(IpAnswer { addresses: vec![text.parse().expect("an address")], ttl_secs: 9, ..Default::default() })
    }

    async fn late(answer: Answer, by: Duration) -> Answer {
        tokio::time::sleep(by).await;
        answer
    }

    #[tokio::test(start_paused = true)]
    async fn a_family_that_is_not_answered_keeps_the_other_from_nobody() {
        let (v4, v6) = (answer("10.0.0.1"), answer("::1"));
        assert_eq!(together(ready(v4.clone()), pending()).await, v4);
        assert_eq!(together(pending(), ready(v6.clone())).await, v6);
        assert_eq!(in_turn(pending(), ready(v4.clone())).await, v4);
        assert_eq!(in_turn(late(v6.clone(), PATIENCE * 2), pending()).await, v6);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_late_is_waited_for_a_while_and_for_as_long_as_there_is_nothing_else() {
        let (v4, v6) = (answer("10.0.0.1"), answer("::1"));
        let all = together(ready(v4.clone()), late(v6.clone(), PATIENCE / 2)).await.expect("addresses");
        assert_eq!(all.addresses.len(), 2);
        assert_eq!(together(ready(Err(DnsError::NoData)), late(v6.clone(), PATIENCE * 9)).await, v6);
        assert_eq!(in_turn(ready(Err(DnsError::NoData)), late(v4.clone(), PATIENCE * 9)).await, v4);
        assert_eq!(in_turn(ready(v6.clone()), pending()).await, v6);
        let neither = in_turn(late(Err(DnsError::ServFail), PATIENCE * 2), ready(Err(DnsError::NoData))).await;
        assert_eq!(neither, Err(DnsError::ServFail));
    }
}
