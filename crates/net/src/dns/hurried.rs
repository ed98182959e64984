//! A resolver for who asks many questions and has so much time for all of them.
//!
//! In: a resolver, a moment, and how long one question may take. Out: its answers; from that moment on every question ends as one that
//! nobody answered. One that strangers choose the name of must not use up the time of all that come behind it.

use route::{BoxFuture, DnsError, IpAnswer, IpStrategy, MxAnswer, Resolver, TlsaAnswer, TxtAnswer};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// The resolver.
pub struct Hurried {
    resolver: Arc<dyn Resolver>,
    until: Instant,
    each_max: Duration,
}

impl Hurried {
    /// Asks `resolver`, until then, and each question no longer than so.
    pub fn new(resolver: Arc<dyn Resolver>, until: Instant, each_max: Duration) -> Hurried {
        Hurried { resolver, until, each_max }
    }

    fn within<'a, T: 'a>(
        &self,
        question: impl Future<Output = Result<T, DnsError>> + Send + 'a,
    ) -> BoxFuture<'a, Result<T, DnsError>> {
        let until = self.until.min(Instant::now() + self.each_max);
        Box::pin(async move { timeout_at(until, question).await.unwrap_or(Err(DnsError::Timeout)) })
    }
}

impl Resolver for Hurried {
    fn mx<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<MxAnswer, DnsError>> {
        self.within(self.resolver.mx(name))
    }

    fn ip<'a>(&'a self, host: &'a str, strategy: IpStrategy) -> BoxFuture<'a, Result<IpAnswer, DnsError>> {
        self.within(self.resolver.ip(host, strategy))
    }

    fn txt<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<TxtAnswer, DnsError>> {
        self.within(self.resolver.txt(name))
    }

    fn ptr<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Vec<String>, DnsError>> {
        self.within(self.resolver.ptr(name))
    }

    fn tlsa<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<TlsaAnswer, DnsError>> {
        self.within(self.resolver.tlsa(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers questions about one name, and no others ever.
    struct Mute;

    impl Resolver for Mute {
        fn mx<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<MxAnswer, DnsError>> {
            Box::pin(std::future::pending())
        }

        fn ip<'a>(&'a self, _: &'a str, _: IpStrategy) -> BoxFuture<'a, Result<IpAnswer, DnsError>> {
            Box::pin(std::future::pending())
        }

        fn txt<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<TxtAnswer, DnsError>> {
            match name {
                "known.test" => Box::pin(async { Ok(TxtAnswer::default()) }),
                _ => Box::pin(std::future::pending()),
            }
        }
    }

    #[tokio::test]
    async fn all_questions_together_have_so_much_time() {
        let began = Instant::now();
        let hurried = Hurried::new(Arc::new(Mute), began + Duration::from_millis(50), Duration::from_secs(60));
        assert!(hurried.txt("known.test").await.is_ok());
        for _ in 0..3 {
            assert!(matches!(hurried.txt("a.test").await, Err(DnsError::Timeout)));
            assert!(matches!(hurried.mx("a.test").await, Err(DnsError::Timeout)));
        }
        assert!(matches!(hurried.ip("a.test", IpStrategy::default()).await, Err(DnsError::Timeout)));
        assert!((Duration::from_millis(50)..Duration::from_secs(5)).contains(&began.elapsed()), "once, not each time");
    }

    #[tokio::test]
    async fn one_question_takes_none_of_the_time_of_all() {
        let began = Instant::now();
        let hurried = Hurried::new(Arc::new(Mute), began + Duration::from_secs(60), Duration::from_millis(20));
        for _ in 0..3 {
            assert!(matches!(hurried.txt("a.test").await, Err(DnsError::Timeout)));
        }
        assert!(hurried.txt("known.test").await.is_ok(), "the next has its turn");
        assert!((Duration::from_millis(60)..Duration::from_secs(5)).contains(&began.elapsed()));
    }
}
