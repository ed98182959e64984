//! The driver of one inbound session: bytes between a socket and `smtp_server::Session`.
//!
//! Owns the socket and the receive buffer. Reads, feeds, answers the session's questions by
//! asking policy, writes one batch of replies per batch of commands. A failing socket ends the
//! session; nothing acknowledged depends on it.

use crate::engine::Engine;
use crate::ingress::accept::{Arrival, Refusal};
use crate::ingress::buffer::ReceiveBuffer;
use crate::ingress::listener::{Current, Profile, SessionSlot, refuse};
use crate::ingress::relay::RelayFacts;
use crate::ingress::rewrite::rewritten;
use crate::ingress::trace::Hop;
use crate::pressure::content_growth;
use crate::standing::{Standing, StandingTimer, within};
use crate::watching::{Secret, Seen, Side};
use ::clock::Instant;
use config::ListenerDomain;
use net::Stream;
use policy::{AuthIdentity, AuthInfo, ConnMeta, Event, PolicyError};
use smtp_server::{Answer, Identity, Question, Rejection, Said, Session, Settings, Step, TlsInfo, Transaction};
use smtp_wire::{Body, Mailbox, ReversePath};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use tokio::io::AsyncWriteExt;

/// Between whom a session is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    /// The client.
    pub peer: SocketAddr,
    /// The address it meant.
    pub local: SocketAddr,
    /// The proxy and this server, if there is a proxy.
    pub behind: Option<(SocketAddr, SocketAddr)>,
}

/// Serves one client until either side is done.
pub(crate) async fn run(
    engine: Engine,
    (listener, profile): (Arc<Current>, Arc<Profile>),
    stream: Stream,
    ends: Ends,
    slot: SessionSlot,
) {
    let Ends { peer, local, .. } = ends;
    let session_id = uuid::Uuid::from_bytes(*engine.next_id().as_bytes()).to_string();
    let conn = ConnMeta::of_session(session_id.into());
    describe(&conn, &profile, ends);
    let begin = |profile: &Profile| Session::new(engine.clock.mono(), peer, local, profile.settings.clone());
    let of_listener = profile;
    let profile = match of_listener.clone().by_policy(&engine, ends, &conn).await {
        Ok(profile) => profile,
        Err(Refusal { reply, .. }) => {
            slot.counts.denied();
            let rejection =
                Rejection { reply: reply.clone(), command: String::new(), sender: None, recipients: Vec::new() };
            engine.log_rejection(&rejection, &slot.counts, &begin(&of_listener), &conn);
            // A client that expects TLS reads nothing else.
            if of_listener.params.implicit_tls {
                return;
            }
            return refuse(stream, &reply, slot).await;
        }
    };
    describe_changes(&conn, &of_listener, &profile);
    let session = begin(&profile);
    let buffer = ReceiveBuffer::new(engine.receive_pool.clone());
    let timer = StandingTimer::new(engine.clock);
    let mut driver = Driver {
        engine,
        listener,
        profile,
        stream,
        session,
        conn,
        buffer,
        greeted: false,
        content: (0, 0),
        shed: false,
        for_reports_only: false,
        ends: [peer, local].map(|end| end.ip().to_string()),
        behind: ends.behind,
        known_hello: None,
        owes_receipt: false,
        held_since: None,
        secret: Secret::default(),
        slot,
        timer,
        stop: Standing::new(),
        memory: Standing::new(),
    };
    driver.show(&Seen::Connected);
    if let Err(error) = driver.serve().await {
        tracing::debug!("session with {peer}: {error}");
        driver.show(&Seen::Diagnostic("ERROR", &error.to_string()));
    }
    driver.show(&Seen::Closed);
}

struct Driver {
    engine: Engine,
    listener: Arc<Current>,
    profile: Arc<Profile>,
    stream: Stream,
    session: Session,
    conn: ConnMeta,
    buffer: ReceiveBuffer,
    /// The greeting was written, or refused.
    greeted: bool,
    /// Length and capacity of the content being received, as charged so far.
    content: (usize, usize),
    /// The session was ended for want of memory.
    shed: bool,
    /// A recipient of the transaction was let in only because its domain logs reports.
    for_reports_only: bool,
    /// The addresses of the peer and of this end, as `Received` names them.
    ends: [String; 2],
    /// The proxy and this server, if there is a proxy.
    behind: Option<(SocketAddr, SocketAddr)>,
    /// What the client calls itself, as scripts know it.
    known_hello: Option<String>,
    /// A message was accepted, and the client has not heard of it.
    owes_receipt: bool,
    /// When the first question was asked since the last write.
    held_since: Option<Instant>,
    /// What watchers must not see.
    secret: Secret,
    slot: SessionSlot,
    /// For the session's deadline.
    timer: StandingTimer,
    stop: Standing<()>,
    memory: Standing<()>,
}

/// What ended a wait.
enum Woken {
    Read(io::Result<usize>),
    Late,
    MemoryIsOut,
    Stop,
}

impl Driver {
    async fn serve(&mut self) -> io::Result<()> {
        if self.profile.params.implicit_tls {
            let tls = self.shake_hands().await?;
            self.session.under_tls(self.now(), tls);
        }
        let mut now = self.now();
        loop {
            self.session.set_admission(self.engine.pressure.admission());
            let consumed = self.session.feed(now, self.buffer.unread());
            self.buffer.consume(consumed);
            self.weigh();
            match self.session.next(now) {
                Step::Ask(question) => {
                    if self.is_due(&question, now) {
                        self.flush().await?;
                        if self.session.is_closing() {
                            continue;
                        }
                    }
                    // Policy may take its time, and a commit takes milliseconds: meanwhile others read into the buffer, which is in
                    // the processor's cache.
                    self.buffer.lend_back_if_cheap();
                    let answer = self.ask(question).await;
                    now = self.now();
                    self.owes_receipt |= matches!(answer, Answer::Accepted(_));
                    self.session.answer(now, answer);
                    continue;
                }
                Step::Flush => self.flush().await?,
                Step::NeedInput => {
                    self.flush().await?;
                    // What policy makes of a reply may end the session.
                    if !self.session.is_closing() {
                        self.wait().await?;
                    }
                }
                Step::StartTls => self.start_tls().await?,
                Step::Close => {
                    self.flush().await?;
                    tokio::time::timeout(CLOSE_PATIENCE, self.stream.shutdown()).await??;
                    return self.hear_out().await;
                }
            }
            now = self.now();
        }
    }

    /// True when what was said is to be written before the question is asked. Other replies may wait for those to pipelined commands,
    /// but not for long; that a message was accepted waits for nobody's policy and no disk: a client that does not hear of it sends it
    /// again.
    fn is_due(&mut self, question: &Question, now: Instant) -> bool {
        // From the first question on: what policy took for that, the client has waited already.
        let held = now.saturating_since(*self.held_since.get_or_insert(now));
        if self.session.output().is_empty() {
            return false;
        }
        let interest = &self.engine.interest;
        let may_wait = match question {
            Question::Data(_) | Question::XClient { .. } => true,
            Question::RcptTo { .. } => interest.has(Event::RcptTo) || interest.has(Event::ListenerDomain),
            other => event_of(other).is_some_and(|event| interest.has(event)),
        };
        self.owes_receipt && may_wait || held >= HELD_MAX
    }

    /// Charges what content grew by. Gives content up when memory is out.
    fn weigh(&mut self) {
        let held = self.session.content_held();
        let pressure = &self.engine.pressure;
        let before = std::mem::replace(&mut self.content, held);
        if held != before {
            pressure.charge(content_growth(before, held));
        }
        if self.session.is_receiving() && pressure.is_out_of_memory() && self.session.shed() {
            pressure.credit(held.0 as u64);
            self.engine.metrics.content_shed.inc();
            self.content = (0, 0);
            self.shed = true;
        }
    }

    /// Reads on for a moment after content was cut off: a close in the middle of what the client
    /// sends would be a reset, and take our last reply with it.
    async fn hear_out(&mut self) -> io::Result<()> {
        if !self.shed {
            return Ok(());
        }
        let read = async {
            while self.buffer.fill(&mut self.stream).await? > 0 {
                self.buffer.consume(self.buffer.unread().len());
            }
            Ok(())
        };
        // Either way the connection ends now.
        tokio::time::timeout(HEAR_OUT, read).await.unwrap_or(Ok(()))
    }

    /// Waits for input, the session's deadline, lack of memory, or the end of service.
    async fn wait(&mut self) -> io::Result<()> {
        self.buffer.lend_back();
        match poll_fn(|cx| self.poll_wait(cx)).await {
            Woken::Read(read) => match read? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.show_read(count),
            },
            Woken::Late => self.session.expire(self.engine.clock.mono()),
            // Looked at by `weigh`.
            Woken::MemoryIsOut => {}
            Woken::Stop => self.session.shutdown(self.engine.clock.mono()),
        }
        Ok(())
    }

    fn poll_wait(&mut self, cx: &mut Context<'_>) -> Poll<Woken> {
        let engine = &self.engine;
        // Before the input: a client that never pauses is told too.
        let draining = || {
            let engine = engine.clone();
            async move { engine.draining().await }
        };
        if self.stop.poll(cx, draining).is_ready() {
            return Poll::Ready(Woken::Stop);
        }
        if let Poll::Ready(read) = self.buffer.poll_fill(cx, &mut self.stream) {
            return Poll::Ready(Woken::Read(read));
        }
        // What a client says too late counts if it is there before it is looked whether it is late.
        if self.timer.poll(cx, self.session.deadline()).is_ready() {
            return Poll::Ready(Woken::Late);
        }
        if self.session.is_receiving() {
            let out_of_memory = || {
                let pressure = engine.pressure.clone();
                async move { pressure.out_of_memory().await }
            };
            return self.memory.poll(cx, out_of_memory).map(|()| Woken::MemoryIsOut);
        }
        Poll::Pending
    }

    async fn flush(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.greeted, true) && self.stream.has_input()? {
            self.session.early_talk(self.now());
        }
        (self.owes_receipt, self.held_since) = (false, None);
        for rejection in self.session.take_rejections() {
            self.engine.log_rejection(&rejection, &self.slot.counts, &self.session, &self.conn);
        }
        if self.session.output().is_empty() {
            return Ok(());
        }
        let said = self.session.take_said();
        if !said.is_empty() && !self.engine.stop.is_draining() {
            self.reword(said).await;
        }
        self.show_written();
        // The flush matters under TLS, where a write may succeed into a buffer.
        let writing = async {
            self.stream.write_all(self.session.output()).await?;
            self.stream.flush().await
        };
        within(self.profile.params.client_timeout.get(), writing).await??;
        self.session.output().clear();
        Ok(())
    }

    /// Has policy reword what is about to be written.
    async fn reword(&mut self, said: Vec<Said>) {
        let output = std::mem::take(self.session.output());
        let (output, ends) = rewritten(&*self.engine.policy, &self.conn, &output, said).await;
        *self.session.output() = output;
        if ends {
            self.session.hang_up();
        }
    }

    async fn start_tls(&mut self) -> io::Result<()> {
        self.flush().await?;
        if self.session.is_closing() {
            return Ok(());
        }
        let tls = self.shake_hands().await?;
        self.session.tls_started(self.now(), tls);
        Ok(())
    }

    /// The handshake; from then on the connection is under TLS.
    async fn shake_hands(&mut self) -> io::Result<TlsInfo> {
        let plain = std::mem::replace(&mut self.stream, Stream::Closed);
        let identity = self.profile.tls.clone();
        let handshake = async { plain.accept_tls(&identity.acceptor().await).await };
        let patience = self.profile.params.client_timeout.get();
        let (stream, facts) = tokio::select! {
            done = tokio::time::timeout(patience, handshake) => {
                let failed = |error: &io::Error| tracing::info!("no TLS with the client {}: {error}", self.ends[0]);
                done.map_err(io::Error::from).flatten().inspect_err(failed)?
            }
            // There is nobody who could be told.
            () = self.engine.stop.over_for(Some(HEAR_OUT)) => return Err(io::ErrorKind::TimedOut.into()),
        };
        self.stream = stream;
        self.conn.set("tls_cipher", facts.cipher.clone());
        self.conn.set("tls_protocol_version", facts.protocol_version.clone());
        if !facts.peer_subject.is_empty() {
            self.conn.set("tls_peer_subject_name", facts.peer_subject.clone());
        }
        Ok(TlsInfo {
            cipher: facts.cipher,
            protocol_version: facts.protocol_version,
            peer_subject_name: facts.peer_subject,
        })
    }

    async fn ask(&mut self, question: Question) -> Answer {
        let event = event_of(&question).filter(|event| self.engine.interest.has(*event));
        let answer = self.answer_to(question).await;
        if let Some(event) = event {
            self.show(&Seen::Callback(event.name(), refusal_of(&answer)));
        }
        answer
    }

    async fn answer_to(&mut self, question: Question) -> Answer {
        let policy = self.engine.policy.clone();
        self.introduce(&question);
        let conn = self.conn.clone();
        let answer = match question {
            Question::ConnectionAccepted => {
                policy.smtp_server_connection_accepted(conn).await.map(|()| Answer::Continue)
            }
            Question::Ehlo { domain, extended, extensions } => {
                let list = extended.then_some(extensions);
                let answer = policy.smtp_server_ehlo(domain.clone(), conn, list).await;
                if answer.is_ok() {
                    self.conn.set("ehlo_domain", domain);
                }
                answer.map(|list| list.map_or(Answer::Continue, Answer::Extensions))
            }
            Question::AuthPlain { authz, authc, password } => self.authenticate(authz, authc, password).await,
            Question::MailFrom { sender, .. } => {
                policy.smtp_server_mail_from(sender, conn).await.map(|()| Answer::Continue)
            }
            Question::XClient { peer, local } => return self.change_ends(peer, local).await,
            Question::RcptTo { sender, recipient, .. } => self.recipient(&sender, recipient).await,
            Question::Data(transaction) => return self.transaction(*transaction).await,
        };
        answer.unwrap_or_else(|error| reject(self.engine.refuse(&self.profile, &error)))
    }

    /// Has scripts know what the client calls itself, whoever let that pass.
    fn introduce(&mut self, question: &Question) {
        let hello = self.session.hello();
        let is_known =
            self.known_hello.as_deref() == hello && !matches!(question, Question::Data(_) if hello.is_none());
        if !is_known && !matches!(question, Question::Ehlo { .. } | Question::XClient { .. }) {
            self.conn.set("ehlo_domain", hello.unwrap_or_default());
            self.known_hello = hello.map(str::to_owned);
        }
    }

    /// A proxy says for whom it speaks: what the listener does for its peer is for that client.
    async fn change_ends(&mut self, peer: SocketAddr, local: SocketAddr) -> Answer {
        let behind = self.behind.unwrap_or((self.session.peer(), self.session.local()));
        let ends = Ends { peer, local, behind: Some(behind) };
        let profile = match self.listener.profile_for(&self.engine, peer, local) {
            Ok(profile) => profile,
            Err(error) => {
                tracing::error!("{error}");
                let reply = self.profile.settings.technical_difficulties();
                return Answer::Reject { reply, disconnect: smtp_server::Disconnect::If421 };
            }
        };
        // What the proxy said and proved, and what was said of it, is not said of its client.
        let conn = self.conn.session_id().map(ConnMeta::of_session).unwrap_or_default();
        for name in ["tls_cipher", "tls_protocol_version"] {
            self.conn.get(name).into_iter().for_each(|value| conn.set(name, value));
        }
        describe(&conn, &profile, ends);
        match profile.clone().by_policy(&self.engine, ends, &conn).await {
            Ok(of_policy) => self.profile = of_policy,
            Err(refusal) => return reject(refusal),
        }
        describe_changes(&conn, &profile, &self.profile);
        (self.conn, self.known_hello) = (conn, None);
        self.for_reports_only = false;
        self.behind = ends.behind;
        self.ends = [peer, local].map(|end| end.ip().to_string());
        Answer::Anew(self.profile.settings.clone())
    }

    async fn authenticate(&self, authz: String, authc: String, password: String) -> Result<Answer, PolicyError> {
        if !self.engine.gate.has_room().await {
            let text = "the accounting log has no room for another record".to_owned();
            return Err(PolicyError::Script { event: Event::AuthPlain.name(), text });
        }
        let attempted = AuthInfo::by_smtp(&authz, &authc);
        let answer = self.engine.policy.smtp_server_auth_plain(authz, authc, password, self.conn.clone()).await;
        let accounts = self.engine.gate.accounts();
        let Ok(Some(AuthIdentity { authz_id, authn_id, mut info })) = answer else {
            let nobody = AuthInfo { peer_address: Some(self.session.peer().ip()), ..AuthInfo::default() };
            attempted.identities.last().into_iter().for_each(|tried| accounts.authentication(tried, false, &nobody));
            return answer.map(|_| Answer::NotAuthenticated);
        };
        info.peer_address.get_or_insert(self.session.peer().ip());
        attempted.identities.last().into_iter().for_each(|tried| accounts.authentication(tried, true, &info));
        self.conn.set("authz_id", authz_id.clone());
        self.conn.set("authn_id", authn_id.clone());
        self.conn.set_auth(info);
        Ok(Answer::Authenticated(Identity { authz: authz_id, authc: authn_id }))
    }

    /// Relay permission first, then `smtp_server_rcpt_to`.
    async fn recipient(&mut self, sender: &ReversePath, recipient: Mailbox) -> Result<Answer, PolicyError> {
        let peer = self.session.peer().ip();
        let mut facts = RelayFacts {
            peer,
            relay_hosts: &self.profile.params.relay_hosts,
            sender_domain: None,
            recipient_domain: None,
        };
        let (of_sender, of_recipient);
        if !facts.may_relay() && self.engine.interest.has(Event::ListenerDomain) {
            of_sender = self.listener_domain(sender.domain()).await?;
            of_recipient = self.listener_domain(recipient.domain()).await?;
            facts.sender_domain = of_sender.as_ref();
            facts.recipient_domain = of_recipient.as_ref();
        }
        let may_relay = facts.may_relay();
        let takes_reports = facts.takes_reports();
        self.for_reports_only |= !may_relay && takes_reports;
        if !may_relay && !takes_reports {
            let reply = Settings::relaying_not_permitted(peer);
            return Ok(Answer::Reject { reply, disconnect: smtp_server::Disconnect::If421 });
        }
        if self.engine.interest.has(Event::RcptTo) {
            self.engine.policy.smtp_server_rcpt_to(recipient, self.conn.clone()).await?;
        }
        Ok(Answer::Continue)
    }

    async fn listener_domain(&self, domain: &str) -> Result<Option<ListenerDomain>, PolicyError> {
        if domain.is_empty() {
            return Ok(None);
        }
        let listener = self.session.local();
        self.engine.policy.get_listener_domain(domain.to_lowercase(), listener, self.conn.clone()).await
    }

    async fn transaction(&mut self, transaction: Transaction) -> Answer {
        self.buffer.lend_back();
        let Transaction { begun_at, content_at, received_at, .. } = transaction;
        let started = self.now();
        self.slot.counts.received();
        let arrival = Arrival {
            profile: &self.profile,
            conn: &self.conn,
            hop: Hop {
                ehlo_domain: self.session.hello().unwrap_or("unspecified"),
                peer: self.session.peer(),
                ends: &self.ends,
                hostname: &self.profile.hostname,
                local: self.session.local(),
                protocol: self.session.protocol(),
                tls: self.session.tls().map(|t| (t.protocol_version.as_str(), t.cipher.as_str())),
            },
            envelope: transaction.envelope,
            content: Body::known(transaction.content.into(), transaction.lines, transaction.is_ascii),
            is_utf8: transaction.mail_params.smtputf8,
            for_reports_only: std::mem::take(&mut self.for_reports_only),
            deadline: transaction.processing_deadline,
            known: OnceLock::new(),
        };
        let accepted = self.engine.accept(arrival).await;
        let ended = self.now();
        let latencies = &self.engine.metrics.latencies;
        latencies.read_data.observe(received_at.saturating_since(content_at).as_secs_f64());
        latencies.process_data.observe(ended.saturating_since(started).as_secs_f64());
        latencies.transaction.observe(ended.saturating_since(begun_at).as_secs_f64());
        accepted.map_or_else(reject, Answer::Accepted)
    }

    /// Tells watchers.
    fn show(&self, seen: &Seen<'_>) {
        self.engine.show_watchers(Side::Server, || self.conn.snapshot().as_map().clone(), seen);
    }

    /// Tells them what came in last, so many octets.
    fn show_read(&mut self, count: usize) {
        let unread = self.buffer.unread();
        let said = &unread[unread.len().saturating_sub(count)..];
        if !self.engine.watchers.is_watched() {
            return self.secret.passed(said);
        }
        let said = self.secret.said(said);
        if !said.is_empty() {
            self.show(&Seen::Read(&said));
        }
    }

    /// Tells them what is about to be written.
    fn show_written(&mut self) {
        let output = self.session.output();
        self.secret.replied(output);
        let meta = || self.conn.snapshot().as_map().clone();
        self.engine.show_watchers(Side::Server, meta, &Seen::Write(output, output.len()));
    }

    fn now(&self) -> Instant {
        self.engine.clock.mono()
    }
}

/// What policy is asked by a question.
fn event_of(question: &Question) -> Option<Event> {
    match question {
        Question::ConnectionAccepted => Some(Event::ConnectionAccepted),
        Question::Ehlo { .. } => Some(Event::Ehlo),
        Question::AuthPlain { .. } => Some(Event::AuthPlain),
        Question::MailFrom { .. } => Some(Event::MailFrom),
        Question::RcptTo { .. } => Some(Event::RcptTo),
        Question::Data(_) => Some(Event::MessageReceived),
        Question::XClient { .. } => None,
    }
}

/// Why an answer is a no.
fn refusal_of(answer: &Answer) -> Option<String> {
    match answer {
        Answer::Reject { reply, .. } => Some(reply.to_string()),
        Answer::NotAuthenticated => Some("not authenticated".to_owned()),
        _ => None,
    }
}

/// What policy and logs may know about a connection from its start.
fn describe(conn: &ConnMeta, profile: &Profile, Ends { peer, local, behind }: Ends) {
    for (name, value) in &profile.params.meta {
        conn.set(name.clone(), value.clone());
    }
    conn.set("reception_protocol", "ESMTP");
    conn.set("received_from", peer.to_string());
    conn.set("received_via", local.to_string());
    conn.set("hostname", profile.hostname.clone());
    conn.set_auth(AuthInfo { peer_address: Some(peer.ip()), ..AuthInfo::default() });
    if let Some((proxy, server)) = behind {
        conn.set("orig_received_from", proxy.to_string());
        conn.set("orig_received_via", server.to_string());
    }
}

/// Puts there what policy has made another in the options of the session; what it wrote there itself stays.
fn describe_changes(conn: &ConnMeta, before: &Profile, after: &Profile) {
    let changed = after.params.meta.iter().filter(|(name, value)| before.params.meta.get(*name) != Some(*value));
    changed.for_each(|(name, value)| conn.set(name.clone(), value.clone()));
    if before.hostname != after.hostname {
        conn.set("hostname", after.hostname.clone());
    }
}

fn reject(refusal: Refusal) -> Answer {
    let disconnect = match refusal.disconnect {
        policy::Disconnect::If421 => smtp_server::Disconnect::If421,
        policy::Disconnect::FollowWith421 => smtp_server::Disconnect::FollowWith421,
        policy::Disconnect::Force => smtp_server::Disconnect::ForceDisconnect,
    };
    Answer::Reject { reply: refusal.reply, disconnect }
}

/// How long a peer may take to let a connection end in order.
const CLOSE_PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);
/// How long a client whose content was cut off is listened to, and one in the middle of a handshake when the program ends.
const HEAR_OUT: std::time::Duration = std::time::Duration::from_secs(1);
/// Once questions have taken so long, replies are written before the next is asked.
const HELD_MAX: ::clock::Duration = ::clock::Duration::from_secs(1);
