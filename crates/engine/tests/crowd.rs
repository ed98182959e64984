//! Sessions beyond the first few have threads of their own; what their mail sets going has not.

mod support;

use config::{EgressPath, QueueConfig};
use engine::Threads;
use engine::pressure::Pressure;
use policy::{Answer, Event, Interest, Policy, QueueParts, ready};
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use support::{Report, ToNext, engine_on, listen, send, start, until};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::mpsc;

/// As [`ToNext`], by connections that stay when there is nothing to send.
struct Patient(ToNext);

impl Policy for Patient {
    fn interest(&self) -> Interest {
        Interest::NONE.with(Event::QueueConfig).with(Event::EgressPathConfig)
    }

    fn get_queue_config(&self, parts: QueueParts) -> Answer<'_, QueueConfig> {
        self.0.get_queue_config(parts)
    }

    fn get_egress_path_config(&self, _domain: String, _source: String, _site: String) -> Answer<'_, EgressPath> {
        let options = json!({"enable_tls": "OpportunisticInsecure", "prohibited_hosts": [], "idle_timeout": "5m"});
        ready(config::parse("kumo.make_egress_path", options).expect("sound"))
    }
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("threads")
}

/// A session that has been greeted and says nothing.
async fn greeted(by: SocketAddr) -> BufReader<TcpStream> {
    let mut stream = BufReader::new(TcpStream::connect(by).await.expect("listening"));
    let mut banner = String::new();
    stream.read_line(&mut banner).await.expect("a banner");
    assert!(banner.starts_with("220 "), "{banner}");
    stream
}

#[test]
fn who_comes_while_there_are_many_is_carried_by_the_crowds_threads() {
    let (main, crowd) = (runtime(), runtime());
    let carried = |by: &Handle| by.metrics().num_alive_tasks();
    main.block_on(async {
        let scratch = tempfile::tempdir().expect("scratch");
        let (tell, mut seen) = mpsc::unbounded_channel();
        let (next, address) = start(Arc::new(Report { seen: tell }), &scratch.path().join("next")).await;
        let threads = Threads { main: Handle::current(), crowd: crowd.handle().clone(), few_sessions: 2 };
        let policy = Arc::new(Patient(ToNext { next: address }));
        let relay = engine_on(threads, policy, &scratch.path().join("relay"), (Vec::new(), Pressure::unlimited()));
        let address = listen(&relay).await;

        let few = [greeted(address).await, greeted(address).await];
        assert_eq!(carried(crowd.handle()), 0, "the first two share their threads with all else");
        let third = greeted(address).await;
        assert_eq!(carried(crowd.handle()), 1, "the third does not");

        let answers = send(address, "Subject: x\r\n\r\nx\r\n.\r\n").await;
        assert!(answers.lines().last().is_some_and(|last| last.starts_with("250 ")), "{answers}");
        seen.recv().await.expect("its mail goes on");
        until("the sender's session ends, and nothing of its mail is left there", || carried(crowd.handle()) == 1)
            .await;
        let out: usize = relay.look().expect("nobody else asks").workload().await.phases.values().sum();
        assert_eq!(out, 1, "the connection that took it on is there, elsewhere");

        drop(few);
        until("the first two end", || relay.metrics().open_sessions.get() == 1).await;
        let another = greeted(address).await;
        assert_eq!(carried(crowd.handle()), 1, "there are few again");
        drop((third, another));
        until("the third ends", || carried(crowd.handle()) == 0).await;
        drop((relay, next));
    });
}
