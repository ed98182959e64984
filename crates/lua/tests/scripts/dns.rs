//! `kumo.dns`: what a script says of resolvers, and when it may.

use crate::support::{assert_has, load, load_error, now};
use config::{DnsSettings, Duration, ResolverForm};
use policy::Policy;

#[test]
fn the_system_s_resolvers_can_be_read_and_changed() {
    let folder = tempfile::tempdir().expect("scratch folder");
    let file = folder.path().join("resolv.conf");
    std::fs::write(&file, "domain here.test\nsearch a.test b.test\nnameserver 192.0.2.1\noptions timeout:3 ndots:2\n")
        .expect("writes");
    let found = load(&format!(
        "kumo.on('init', function() local c = kumo.dns.load_resolv_conf('{}') \
         assert(c.name_servers[1].socket_addr == '192.0.2.1:53' and #c.name_servers == 1) \
         assert(c.search[2] == 'b.test' and c.options.ndots == 2) \
         c.options.timeout = '1s' c.name_servers = {{ '192.0.2.2:54' }} kumo.dns.configure_resolver(c) end)",
        file.display()
    ));
    let form = found.startup.dns.resolver.expect("configured");
    let config::ResolverForm::Hickory(options) = form else { panic!("{form:?}") };
    assert_eq!(options.options.timeout.get().as_secs(), 1);
    assert_eq!(options.name_servers[0].0.socket_addr.0, "192.0.2.2:54".parse().expect("an address"));
    let gone = load_error("kumo.on('init', function() kumo.dns.load_resolv_conf('/nowhere/resolv.conf') end)");
    assert!(gone.contains("kumo.dns.load_resolv_conf: ") && gone.contains("/nowhere/resolv.conf"), "{gone}");
}

#[test]
fn settings_made_before_or_in_init_are_what_is_started_with() {
    let dns = load(
        "kumo.dns.set_mx_timeout('2s')
         kumo.on('pre_init', function()
           kumo.dns.set_mx_concurrency_limit(7)
           kumo.dns.set_mx_negative_cache_ttl(60)
           kumo.dns.set_mta_sts_enabled(false) kumo.dns.set_mta_sts_port(8443)
         end)
         kumo.on('init', function()
           kumo.dns.configure_resolver { name_servers = { '10.0.0.1:53' }, options = { validate = true } }
           kumo.dns.define_resolver('other', { Test = { '$ORIGIN a.test.' } })
           kumo.dns.configure_test_mta_sts { ['a.test'] = 'version: STSv1' }
         end)",
    )
    .startup
    .dns;
    assert_eq!((dns.mx_timeout, dns.mx_concurrency_limit), (Duration::from_secs(2), 7));
    assert_eq!((dns.mx_negative_cache_ttl, dns.is_mta_sts_enabled), (Duration::from_secs(60), false));
    assert_eq!(dns.mta_sts_port, 8443);
    assert_eq!(dns.test_mta_sts["a.test"], "version: STSv1");
    let Some(ResolverForm::Hickory(options)) = &dns.resolver else { panic!("{:?}", dns.resolver) };
    assert!(options.options.validate && options.name_servers.len() == 1);
    assert_eq!(load("").startup.dns, DnsSettings::default());
}

/// As KumoMTA's policies may, and by the resolvers that were chosen by then.
#[test]
fn the_top_level_and_init_ask_too() {
    const ZONE: &str = "{ [[$ORIGIN a.test.
@ 60 TXT \"of a\"
@ 60 MX 10 mx
mx 60 A 192.0.2.7
]] }";
    load(&format!(
        "kumo.dns.configure_test_resolver {ZONE}
         assert(kumo.dns.lookup_txt('a.test')[1] == 'of a')
         local ok, why = pcall(kumo.dns.lookup_txt, 'a.test', 'other')
         assert(not ok and tostring(why):find('no resolver `other` is defined', 1, true), why)
         kumo.on('init', function()
           assert(kumo.dns.lookup_mx('a.test').hosts[1] == 'mx.a.test.')
           kumo.dns.define_resolver('other', {{ Test = {{ '$ORIGIN b.test.\\n@ 60 TXT \"of b\"' }} }})
           assert(kumo.dns.lookup_txt('b.test', 'other')[1] == 'of b')
           kumo.dns.configure_test_resolver {{ '$ORIGIN c.test.\\n@ 60 TXT \"of c\"' }}
           assert(kumo.dns.lookup_txt('c.test')[1] == 'of c')
           assert(not pcall(kumo.dns.lookup_txt, 'a.test'))
         end)"
    ));
}

#[test]
fn every_way_to_choose_a_resolver() {
    let chosen = |call: &str| load(&format!("kumo.on('init', function() kumo.dns.{call} end)")).startup.dns.resolver;
    let test = chosen("configure_test_resolver { '$ORIGIN a.test.' }");
    assert!(matches!(&test, Some(ResolverForm::Test(zones)) if zones.0.zones.len() == 1), "{test:?}");
    let unbound = chosen("configure_unbound_resolver { options = { validate = true } }");
    assert!(matches!(&unbound, Some(ResolverForm::Unbound(options)) if options.options.validate), "{unbound:?}");
    assert_eq!(chosen("configure_resolver 'HickorySystemConfig'"), Some(ResolverForm::HickorySystemConfig));
}

#[test]
fn mistakes_and_late_calls_are_errors() {
    assert_has(
        &load_error("kumo.dns.configure_resolver { name_server = {} }"),
        &["configure_resolver", "name_servers"],
    );
    assert_has(&load_error("kumo.dns.set_mx_concurrency_limit(0)"), &["set_mx_concurrency_limit: 0:", "1 to"]);
    assert_has(&load_error("kumo.dns.set_mx_timeout(0)"), &["kumo.dns.set_mx_timeout: 0s"]);
    let late = load("kumo.on('get_egress_pool', function() kumo.dns.set_mx_timeout('1s') end)");
    let error = now(late.policy.get_egress_pool("p".into())).map(|_| ()).expect_err("too late").to_string();
    assert_has(&error, &["kumo.dns.set_mx_timeout: can only be called before or in the init event"]);
    load("assert(kumo.dns.ptr_host('192.0.2.1') == '1.2.0.192.in-addr.arpa')");
    load("assert(kumo.dns.reverse_ip('192.0.2.1') == '1.2.0.192')");
}
