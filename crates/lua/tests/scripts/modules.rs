//! Every name of the policy API does what its documentation says: the examples of the manual, run.

use crate::support::{draft, load};
use injection::Injection;
use lua::api::{Module, Proof};
use message::{Draft, IdGenerator, MessageId};
use policy::{Administered, AuthInfo, ConnMeta, Injected, Policy, Program, Requested};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A program that notes what its scripts count.
#[derive(Clone, Default)]
struct Desk(Arc<Mutex<Vec<String>>>);

impl Program for Desk {
    fn bump_config_epoch(&self) {}

    fn script_took(&self, label: &str, _: Duration) {
        self.0.lock().expect("one thread").push(label.to_owned());
    }

    fn message_id(&self) -> Option<MessageId> {
        Some(IdGenerator::new([2; 6], 7).next(clock::WallTime::EPOCH))
    }

    fn inject_request(&self, _injection: Injection, _auth: AuthInfo) -> Requested<'_> {
        Box::pin(async { Err("a desk".to_owned()) })
    }

    fn administer(&self, _method: &'static str, _path: &'static str, _request: serde_json::Value) -> Administered<'_> {
        Box::pin(async { Err("a desk".to_owned()) })
    }

    fn inject(&self, _: Draft, _: bool) -> Injected<'_> {
        Box::pin(async { Ok(()) })
    }
}

/// Runs a script of asserts as a handler of a message that came in, in a runtime; `may_wait` as handlers are called once one
/// has waited.
fn run(script: &str, may_wait: bool) -> Result<Desk, String> {
    let folder = tempfile::tempdir().expect("scratch folder");
    let text = format!(
        "local folder = [[{}]] kumo.on('smtp_server_message_received', function(msg, conn_meta) {script}\nend)",
        folder.path().display()
    );
    let loaded = load(&text);
    let desk = Desk::default();
    loaded.policy.serves_in(Box::new(desk.clone()));
    if may_wait {
        loaded.policy.throttles().will_be_waited_for();
    }
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let handled = async {
        tokio::time::timeout(EXAMPLE_MAX, loaded.policy.smtp_server_message_received(draft(), ConnMeta::new())).await
    };
    runtime.block_on(handled).map_err(|_| "it does not end".to_owned())?.map_err(|e| e.to_string())?;
    Ok(desk)
}

/// Longest time an example may take.
const EXAMPLE_MAX: Duration = Duration::from_secs(10);

/// Name and proof of everything in a module.
fn proofs(module: &'static Module) -> impl Iterator<Item = (&'static str, Proof)> {
    let functions = module.functions().map(|function| (function.full_name, function.proof));
    let members =
        module.types.iter().flat_map(|object| object.members.iter().map(|member| (member.name, member.proof)));
    functions.chain(members)
}

#[test]
fn every_example_of_the_manual_holds() {
    let mut failed = Vec::new();
    let mut count = 0;
    for (name, proof) in lua::modules().iter().flat_map(|module| proofs(module)) {
        if let Proof::Example(script) = proof {
            count += 1;
            // The last part is what a script calls: an example that does not is about something else.
            let called = name.rsplit(['.', ':']).next().unwrap_or(name).split([' ', ',']).next().unwrap_or(name);
            assert!(called == "fields" || script.contains(called), "{name}: its example does not use it");
            for may_wait in [false, true] {
                if let Err(error) = run(script, may_wait) {
                    failed.push(format!("{name}: {error}"));
                }
            }
        }
    }
    assert!(failed.is_empty(), "{} of {count}:\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn timers_are_counted_by_their_label() {
    const SCRIPT: &str = "local t = kumo.time.start_timer('one') assert(t:done() >= 0 and t:done() == nil) \
        do local two <close> = kumo.time.start_timer('two') end kumo.time.start_timer('dropped')";
    let desk = run(SCRIPT, false).expect("no error");
    assert_eq!(*desk.0.lock().expect("one thread"), ["one", "two"]);
}
