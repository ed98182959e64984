//! What the tests share: policies from text, drafts, and answers without a runtime.

use lua::{LoadError, LuaPolicy};
use message::{Draft, Envelope, IdGenerator, Meta, TlsDemand};
use policy::{ConnMeta, Policy, PolicyError, Startup};
use smtp_wire::{Mailbox, ReversePath};
use std::future::Future;
use std::path::PathBuf;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use tempfile::TempDir;

/// A loaded policy and the folder its file is in.
pub struct Loaded {
    pub policy: LuaPolicy,
    pub startup: Startup,
    pub folder: TempDir,
}

/// The folder with a policy file of this text, and the file.
pub fn file(text: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("scratch folder");
    let path = folder.path().join("policy.lua");
    std::fs::write(&path, text).expect("policy file");
    (folder, path)
}

/// Loads a policy; `kumo` is there without asking.
pub fn try_load(text: &str) -> Result<Loaded, LoadError> {
    let (folder, path) = file(&format!("local kumo = require 'kumo' {text}"));
    LuaPolicy::load(&path).map(|(policy, startup)| Loaded { policy, startup, folder })
}

pub fn load(text: &str) -> Loaded {
    try_load(text).unwrap_or_else(|e| panic!("{e}"))
}

/// The error of a policy that must not load.
pub fn load_error(text: &str) -> String {
    match try_load(text) {
        Ok(_) => panic!("loaded: {text}"),
        Err(error) => error.to_string(),
    }
}

pub fn mailbox(text: &str) -> Mailbox {
    Mailbox::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// A draft of these bytes from `sender@from.test` to `user@To.Test`.
pub fn draft_of(raw: &[u8]) -> Draft {
    let id = IdGenerator::new([1; 6], 0).next(clock::WallTime::EPOCH);
    let sender = ReversePath(Some(mailbox("sender@from.test")));
    let envelope = Envelope { sender, recipients: vec![mailbox("user@To.Test")], dsn: None, tls: TlsDemand::Usual };
    Draft::new(id, envelope, Meta::new(), raw.to_vec().into(), clock::WallTime::EPOCH)
}

pub fn draft() -> Draft {
    draft_of(RAW)
}

/// A message with some of everything.
pub const RAW: &[u8] =
    b"From: \"Some One\" <one@from.test>\r\nTo: a@x.test, B <b@y.test>\r\nSubject: =?utf-8?q?gr=C3=BCn?=\r\n\
X-Tenant: t1\r\nX-Campaign: c1\r\nx-tenant: t2\r\n\r\nbody\r\n";

/// The answer of a handler, which never waits.
pub fn now<T>(answer: impl Future<Output = T>) -> T {
    match pin!(answer).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a synchronous handler does not wait"),
    }
}

/// Runs `body` as handler of `smtp_server_message_received(msg, conn_meta)`.
pub fn received_with(body: &str, draft: Draft, conn: ConnMeta) -> Result<Draft, PolicyError> {
    let loaded = load(&format!("kumo.on('smtp_server_message_received', function(msg, conn_meta) {body} end)"));
    now(loaded.policy.smtp_server_message_received(draft, conn))
}

/// The same with the draft of [`RAW`]; the script's own asserts are the test.
pub fn received(body: &str) -> Draft {
    received_with(body, draft(), ConnMeta::new()).unwrap_or_else(|e| panic!("{body}\n{e}"))
}

/// The text of the script error that `body` must raise.
pub fn error_of(body: &str) -> String {
    match received_with(body, draft(), ConnMeta::new()) {
        Err(PolicyError::Script { text, .. }) => text,
        other => panic!("{body}\n{other:?}"),
    }
}

/// Fails unless every word is in the text.
#[track_caller]
pub fn assert_has(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "no {word:?} in:\n{text}");
    }
}
