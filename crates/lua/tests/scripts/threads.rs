//! Many threads, one policy: an error costs nobody else anything.

use crate::support::{draft, load, mailbox, now};
use policy::{ConnMeta, Policy, PolicyError, QueueParts};

const THREADS: usize = 8;
const EVENTS: usize = 1_500;

#[test]
fn threads_share_a_policy_whose_handlers_sometimes_fail() {
    let loaded = load(
        "kumo.on('smtp_server_message_received', function(msg)
           local n = msg:get_meta 'n'
           if n % 50 == 3 then error('fault ' .. n) end
           if n % 7 == 0 then kumo.reject(550, 'no ' .. n) end
           msg:set_meta('twice', n * 2) end)
         kumo.on('smtp_server_rcpt_to', function(rcpt) if rcpt.user == 'bad' then kumo.reject(550, 'bad') end end)
         kumo.on('get_queue_config', function(domain) return kumo.make_queue_config { egress_pool = domain } end)",
    );
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let policy = &loaded.policy;
            scope.spawn(move || (0..EVENTS).for_each(|turn| ask(policy, thread * EVENTS + turn)));
        }
    });
}

fn ask(policy: &lua::LuaPolicy, n: usize) {
    let mut draft = draft();
    draft.meta.set("n", n);
    match now(policy.smtp_server_message_received(draft, ConnMeta::new())) {
        Err(PolicyError::Script { text, .. }) => {
            assert!(n % 50 == 3 && text.contains(&format!("fault {n}")), "{n}: {text}")
        }
        Err(PolicyError::Reject { reply, .. }) => {
            assert_eq!((n.is_multiple_of(7), reply.text), (true, format!("no {n}")))
        }
        Ok(draft) => {
            assert!(n % 50 != 3 && !n.is_multiple_of(7), "{n}");
            assert_eq!(draft.meta.get("twice"), Some(&serde_json::json!(n * 2)));
        }
    }
    let user = if n.is_multiple_of(2) { "bad@d.test" } else { "good@d.test" };
    assert_eq!(now(policy.smtp_server_rcpt_to(mailbox(user), ConnMeta::new())).is_err(), n.is_multiple_of(2));
    let parts = QueueParts { domain: format!("d{n}"), tenant: None, campaign: None, routing_domain: None };
    assert_eq!(now(policy.get_queue_config(parts)).expect("sound").egress_pool(), format!("d{n}"));
}
