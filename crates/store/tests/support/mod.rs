//! What tests of running spools share.

use std::time::{Duration, Instant};

/// Lets other tasks run until `done`, which nobody announces; a test that hangs fails here.
pub async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < end, "never: {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
