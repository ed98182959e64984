//! Mail of one name whose senders demand different things of TLS: queues and routes of their own, seen as one from outside.

mod support;

use clock::Duration;
use message::TlsDemand;
use queue::Effect;
use queue::schedule::Belonging;
use support::{Rig, config};

#[test]
fn each_demand_has_a_route_and_the_name_tells_of_all() {
    let mut rig = Rig::new();
    let name = "d.test";
    let key = rig.core.queue(rig.now.mono, name);
    rig.core.configured(rig.now, key, config(serde_json::json!({})).into());
    for tls in TlsDemand::ALL {
        let message = rig.message(1);
        rig.core.admit_to(rig.now, Belonging { tls, ..Belonging::to(name) }, message);
    }
    // Configured once; a route is asked for three times, each with its demand.
    let routed: Vec<TlsDemand> = rig
        .drain()
        .iter()
        .map(|effect| match effect {
            Effect::Route { tls, name, .. } if &**name == "d.test" => *tls,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(routed, TlsDemand::ALL);
    assert_eq!((rig.core.scheduled_in(name), rig.core.has_queue(name)), (3, true));
    assert_eq!(rig.core.list(rig.now, name, 9).map(|listed| listed.len()), Some(3));
    assert_eq!(rig.core.list(rig.now, name, 2).map(|listed| listed.len()), Some(2));
    assert!(rig.core.is_elsewhere(key, Belonging { tls: TlsDemand::Waived, ..Belonging::to(name) }));
    assert!(!rig.core.is_elsewhere(key, Belonging::to(name)));
}

#[test]
fn a_queue_that_is_not_used_leaves_its_namesakes() {
    let mut rig = Rig::new();
    rig.core.queue(rig.now.mono, "d.test");
    let message = rig.message(1);
    let due = rig.now.wall + Duration::from_secs(100_000);
    let waiting = message::Message { due, ..message };
    rig.core.admit_to(rig.now, Belonging { tls: TlsDemand::Required, ..Belonging::to("d.test") }, waiting);
    rig.pass(Duration::from_secs(7200));
    assert_eq!((rig.core.scheduled_in("d.test"), rig.core.scheduled_counts().count()), (1, 1));
}
