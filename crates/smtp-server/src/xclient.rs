//! XCLIENT: a proxy says for whom it speaks (Postfix's extension, KumoMTA's attributes).
//!
//! Only where the listener allows it, and outside of a transaction. The driver finds what the client so named is served by; then the session
//! begins anew with a banner, as if that client had connected. TLS stays, being between the proxy and us; who the proxy proved to be does not. Commands that move
//! no mail go on being counted, so that nobody begins anew for ever.

use crate::question::Question;
use crate::session::{Awaiting, Session};
use crate::settings::Settings;
use crate::texts;
use core::net::SocketAddr;
use smtp_wire::command::XClient;
use std::sync::Arc;

impl Session {
    pub(crate) fn xclient(&mut self, said: &XClient) {
        if !self.settings.allow_xclient {
            return self.refuse_junk(texts::reply(texts::XCLIENT_FORBIDDEN));
        }
        if self.transaction.is_some() {
            return self.refuse_junk(texts::reply(texts::XCLIENT_IN_TRANSACTION));
        }
        if self.count_junk() {
            let (peer, local) = said.over(self.peer, self.local);
            self.ask(Question::XClient { peer, local }, Awaiting::XClient { peer, local });
        }
    }

    /// The client is another one from here on.
    pub(crate) fn begin_anew(&mut self, peer: SocketAddr, local: SocketAddr, settings: Arc<Settings>) {
        self.peer = peer;
        self.local = local;
        self.settings = settings;
        self.hello = None;
        self.identity = None;
        if let Some(tls) = &mut self.tls {
            tls.peer_subject_name.clear();
        }
        (self.auth_failures, self.refusals) = (0, 0);
        self.recipients_accepted = 0;
        self.line.clear();
        if !self.stopping {
            self.begin();
        }
    }
}
