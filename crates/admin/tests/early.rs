//! Who asks for messages before those of earlier runs are back in their queues is not told that there are none.

mod support;

use config::HttpListener;
use engine::pressure::Pressure;
use policy::{Startup, StaticPolicy};
use std::sync::Arc;
use support::{ask, engine_before_recovery, serve};

const ID: &str = "2063ba82e85911f199c7e77c9407c7c8";

#[tokio::test]
async fn a_message_that_may_be_in_the_spool_is_not_denied() {
    let dir = tempfile::tempdir().expect("a directory");
    let of_policy = (Arc::new(StaticPolicy) as Arc<_>, Startup::default());
    let (engine, recovering) = engine_before_recovery(dir.path(), Pressure::unlimited(), of_policy);
    let server = serve(&engine, &HttpListener::default()).await;
    let get = async |path: &str| {
        let answer = ask(server, &format!("GET {path}"), "", b"").await;
        String::from_utf8(answer).expect("text")
    };
    let (timeline, inspect) =
        (format!("/api/admin/timeline/v1?id={ID}"), format!("/api/admin/inspect-message/v1?id={ID}"));
    let search = format!("/api/admin/search/v1?id={ID}&among=queues");
    for path in [&timeline, &inspect] {
        let answer = get(path).await;
        assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("on their way to their queues"), "{answer}");
    }
    let answer = get(&search).await;
    assert!(answer.contains(r#""messages":[]"#) && answer.contains("on their way to their queues"), "{answer}");
    engine.start(recovering);
    while engine.is_recovering() {
        tokio::task::yield_now().await;
    }
    for path in [&timeline, &inspect] {
        let answer = get(path).await;
        assert!(answer.starts_with("HTTP/1.1 404 ") && !answer.contains("on their way"), "{answer}");
    }
    let answer = get(&search).await;
    assert!(answer.contains(r#""messages":[]"#) && answer.contains(r#""not_searched":[]"#), "{answer}");
}
