//! From a policy's choice to a resolver.
//!
//! In: [`ResolverForm`]. Out: a [`Resolver`]; several in a row ([`InTurn`]) when the policy says so. Fails with
//! [`DnsSetupError`].

use std::path::Path;
use std::sync::Arc;

use config::ResolverForm;
use route::{BoxFuture, DnsError, IpAnswer, IpStrategy, MxAnswer, Resolver, TlsaAnswer, TxtAnswer};

use super::hickory::{HickoryResolver, SYSTEM_RESOLV_CONF};
use super::setup_error::DnsSetupError;
use super::zones::ZoneResolver;

/// The resolver that `form` describes.
pub fn build(form: &ResolverForm) -> Result<Arc<dyn Resolver>, DnsSetupError> {
    build_at(form, 0)
}

fn build_at(form: &ResolverForm, depth: usize) -> Result<Arc<dyn Resolver>, DnsSetupError> {
    Ok(match form {
        ResolverForm::Hickory(options) | ResolverForm::Unbound(options) => {
            Arc::new(HickoryResolver::from_options(options)?)
        }
        ResolverForm::HickorySystemConfig => {
            Arc::new(HickoryResolver::from_resolv_conf(Path::new(SYSTEM_RESOLV_CONF))?)
        }
        ResolverForm::Test(zones) => Arc::new(ZoneResolver::new(&zones.0)?),
        ResolverForm::Aggregate(_) if depth >= NESTING_MAX => return Err(DnsSetupError::TooDeep(NESTING_MAX)),
        ResolverForm::Aggregate(forms) if forms.is_empty() => return Err(DnsSetupError::NoResolvers),
        ResolverForm::Aggregate(forms) => {
            Arc::new(InTurn(forms.iter().map(|form| build_at(form, depth + 1)).collect::<Result<_, _>>()?))
        }
    })
}

/// Asks one after the other until one has an answer. When none has, the first failure that may pass is the truest.
struct InTurn(Vec<Arc<dyn Resolver>>);

impl InTurn {
    async fn ask<'a, T>(
        &'a self,
        ask: impl Fn(&'a dyn Resolver) -> BoxFuture<'a, Result<T, DnsError>>,
    ) -> Result<T, DnsError> {
        let mut failure = DnsError::NxDomain;
        for resolver in &self.0 {
            match ask(&**resolver).await {
                Ok(answer) => return Ok(answer),
                // Another who does not look would believe it.
                Err(DnsError::Bogus) => return Err(DnsError::Bogus),
                // That there is such a name, if without such records, is not undone by who does not know it.
                Err(DnsError::NxDomain) => {}
                Err(error) if failure.is_permanent() => failure = error,
                Err(_) => {}
            }
        }
        Err(failure)
    }
}

impl Resolver for InTurn {
    fn mx<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<MxAnswer, DnsError>> {
        Box::pin(self.ask(move |resolver| resolver.mx(name)))
    }

    fn ip<'a>(&'a self, host: &'a str, strategy: IpStrategy) -> BoxFuture<'a, Result<IpAnswer, DnsError>> {
        Box::pin(self.ask(move |resolver| resolver.ip(host, strategy)))
    }

    fn txt<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<TxtAnswer, DnsError>> {
        Box::pin(self.ask(move |resolver| resolver.txt(name)))
    }

    fn ptr<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Vec<String>, DnsError>> {
        Box::pin(self.ask(move |resolver| resolver.ptr(name)))
    }

    /// Whoever is asked next may know nothing of DNSSEC, and then TLS would not be demanded: after a failure only who validates is
    /// believed.
    fn tlsa<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<TlsaAnswer, DnsError>> {
        Box::pin(async move {
            let mut failure = DnsError::NxDomain;
            for resolver in &self.0 {
                let is_open = !failure.is_permanent();
                if is_open && !resolver.validates() {
                    continue;
                }
                match resolver.tlsa(name).await {
                    Ok(answer) => return Ok(answer),
                    Err(error) if error == DnsError::Bogus || (is_open && error.is_permanent()) => return Err(error),
                    Err(error) if failure.is_permanent() => failure = error,
                    Err(_) => {}
                }
            }
            Err(failure)
        })
    }

    fn validates(&self) -> bool {
        self.0.iter().all(|resolver| resolver.validates())
    }

    fn clear_cache(&self) {
        self.0.iter().for_each(|resolver| resolver.clear_cache());
    }
}

/// Resolvers inside resolvers.
const NESTING_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use config::{Short, TestZone, TestZones, Zones};

    fn zone(text: &str, servfail: &[&str]) -> ResolverForm {
        let zones = vec![Short(TestZone { zone: text.to_owned(), secure: false })];
        let servfail = servfail.iter().map(|name| (*name).to_owned()).collect();
        ResolverForm::Test(Zones(TestZones { zones, servfail }))
    }

    #[tokio::test]
    async fn the_first_answer_counts_and_a_failure_that_may_pass_beats_nothing() {
        let first = zone("a.test. 60 MX 10 mx.a.test.\n", &["broken.test"]);
        let second = zone("a.test. 60 MX 10 other.test.\nb.test. 60 MX 10 mx.b.test.\n", &[]);
        let resolver = build(&ResolverForm::Aggregate(vec![first, second])).expect("sound");
        let host = async |name| resolver.mx(name).await.map(|answer| answer.records[0].host.clone());
        assert_eq!(host("a.test").await, Ok("mx.a.test.".to_owned()));
        assert_eq!(host("b.test").await, Ok("mx.b.test.".to_owned()));
        assert_eq!(host("c.test").await, Err(DnsError::NxDomain));
        assert_eq!(host("broken.test").await, Err(DnsError::ServFail));
    }

    #[tokio::test]
    async fn that_there_is_a_name_is_not_undone_by_who_does_not_know_it() {
        let first = zone("a.test. 60 A 10.0.0.1\n", &["broken.test"]);
        let last = zone("b.test. 60 MX 10 mx.b.test.\n", &[]);
        for forms in [vec![first.clone(), last.clone()], vec![last, first]] {
            let resolver = build(&ResolverForm::Aggregate(forms)).expect("sound");
            assert_eq!(resolver.mx("a.test").await.map(|_| ()), Err(DnsError::NoData));
            assert_eq!(resolver.tlsa("broken.test").await.map(|_| ()), Err(DnsError::ServFail));
        }
    }

    /// One that fails, and one that says that there is none, proved or not.
    struct Says(DnsError, bool);

    impl Resolver for Says {
        fn mx<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<MxAnswer, DnsError>> {
            Box::pin(std::future::ready(Err(self.0.clone())))
        }

        fn ip<'a>(&'a self, _: &'a str, _: IpStrategy) -> BoxFuture<'a, Result<IpAnswer, DnsError>> {
            Box::pin(std::future::ready(Err(self.0.clone())))
        }

        fn tlsa<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<TlsaAnswer, DnsError>> {
            Box::pin(std::future::ready(Err(self.0.clone())))
        }

        fn validates(&self) -> bool {
            self.1
        }
    }

    #[tokio::test]
    async fn after_a_failure_only_who_validates_says_that_there_are_no_tlsa_records() {
        for (first, second, expected) in [
            (Says(DnsError::Timeout, true), Says(DnsError::NoData, true), DnsError::NoData),
            (Says(DnsError::Timeout, true), Says(DnsError::NoData, false), DnsError::Timeout),
            (Says(DnsError::Timeout, true), Says(DnsError::ServFail, true), DnsError::Timeout),
            (Says(DnsError::Bogus, true), Says(DnsError::NoData, true), DnsError::Bogus),
            (Says(DnsError::NxDomain, false), Says(DnsError::Timeout, true), DnsError::Timeout),
        ] {
            let both = InTurn(vec![Arc::new(first), Arc::new(second)]);
            assert_eq!(both.tlsa("a.test").await.map(|_| ()), Err(expected));
        }
        let both = InTurn(vec![Arc::new(Says(DnsError::Bogus, true)), Arc::new(Says(DnsError::NoData, true))]);
        assert_eq!(both.mx("a.test").await.map(|_| ()), Err(DnsError::Bogus));
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |levels| (0..levels).fold(zone("", &[]), |inner, _| ResolverForm::Aggregate(vec![inner]));
        assert!(build(&nested(NESTING_MAX)).is_ok());
        assert!(matches!(build(&nested(NESTING_MAX + 1)), Err(DnsSetupError::TooDeep(NESTING_MAX))));
        assert!(matches!(build(&ResolverForm::Aggregate(Vec::new())), Err(DnsSetupError::NoResolvers)));
    }
}
