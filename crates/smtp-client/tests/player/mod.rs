//! Reads and plays transcripts; see `transcripts.rs` for the format.

use bytes::{Buf, Bytes};
use clock::{Duration, Instant};
use smtp_client::{AuthPlain, Job, Mailbox, Outcome, ReversePath, Session, Settings, Step, TlsMode, Verp};
use smtp_wire::Dsn;
use std::collections::VecDeque;
use std::sync::Arc;

/// How the server's bytes arrive.
#[derive(Clone, Copy, Debug)]
pub enum Feeding {
    Whole,
    Octets,
    CutAt(usize),
}

#[derive(Clone, Debug)]
enum Line {
    Client(Vec<u8>),
    Server(Vec<u8>),
    Drop(String),
    Timeout,
    Tls(String),
}

/// One conversation and its outcomes.
#[derive(Clone, Debug)]
pub struct Transcript {
    name: String,
    settings: Arc<Settings>,
    jobs: VecDeque<Job>,
    idle: bool,
    lines: Vec<Line>,
    outcomes: Vec<String>,
    close: Option<String>,
}

impl Transcript {
    pub fn parse_all(file: &str, text: &str) -> Vec<Transcript> {
        let mut all = Vec::new();
        for part in text.split("=== ").skip(1) {
            let (name, body) = part.split_once('\n').expect("a name and lines");
            let table = body.lines().find_map(|l| l.strip_prefix("with "));
            let pairs =
                table.map_or(vec![("-", "-")], |t| t.split(' ').map(|p| p.split_once('=').expect("a=b")).collect());
            for (a, b) in pairs {
                let body = body.replace("{a}", a).replace("{b}", b);
                all.push(Transcript::parse(format!("{file}: {name} [{a}]"), &body));
            }
        }
        all
    }

    pub fn server_bytes(&self) -> usize {
        self.lines.iter().map(|l| if let Line::Server(bytes) = l { bytes.len() } else { 0 }).sum()
    }

    pub fn play(&self, feeding: Feeding) {
        let mut player = Player::new(self, feeding);
        for line in &self.lines {
            player.line(line);
        }
        player.end();
    }

    fn parse(name: String, body: &str) -> Transcript {
        let mut t = Transcript {
            name,
            settings: Arc::new(Settings { ehlo_domain: "me.example".into(), ..Settings::default() }),
            jobs: VecDeque::new(),
            idle: false,
            lines: Vec::new(),
            outcomes: Vec::new(),
            close: None,
        };
        for line in body.lines().filter(|l| !l.trim().is_empty() && !l.starts_with('#') && !l.starts_with("with ")) {
            t.parse_line(line);
        }
        t
    }

    fn parse_line(&mut self, line: &str) {
        let (head, rest) = line.split_once(' ').unwrap_or((line, ""));
        let crlf = |text: &str| unescape(&format!("{text}\\r\\n"));
        match head {
            "use" => rest.split(' ').for_each(|word| set(Arc::make_mut(&mut self.settings), word)),
            "job" => self.jobs.push_back(job(rest)),
            "C:" => self.lines.push(Line::Client(crlf(rest))),
            "S:" => self.add_server(crlf(rest)),
            "S~" => self.add_server(unescape(rest)),
            "DROP" => self.lines.push(Line::Drop(rest.into())),
            "TIMEOUT" => self.lines.push(Line::Timeout),
            "TLS" => self.lines.push(Line::Tls(rest.into())),
            "IDLE" => self.idle = true,
            "=" => match rest.strip_prefix("close: ") {
                Some(close) => self.close = Some(close.into()),
                None => self.outcomes.push(rest.into()),
            },
            _ => panic!("{}: cannot read `{line}`", self.name),
        }
    }

    fn add_server(&mut self, bytes: Vec<u8>) {
        match self.lines.last_mut() {
            Some(Line::Server(block)) => block.extend(bytes),
            _ => self.lines.push(Line::Server(bytes)),
        }
    }
}

struct Player<'a> {
    script: &'a Transcript,
    feeding: Feeding,
    session: Session,
    now: Instant,
    jobs: VecDeque<Job>,
    fed: usize,
    sent: Vec<u8>,
    expected: Vec<u8>,
    outcomes: Vec<String>,
    close: Option<String>,
}

impl<'a> Player<'a> {
    fn new(script: &'a Transcript, feeding: Feeding) -> Player<'a> {
        Player {
            session: Session::new(Instant::ZERO, Arc::clone(&script.settings)),
            now: Instant::ZERO,
            jobs: script.jobs.clone(),
            script,
            feeding,
            fed: 0,
            sent: Vec::new(),
            expected: Vec::new(),
            outcomes: Vec::new(),
            close: None,
        }
    }

    fn line(&mut self, line: &Line) {
        if let Line::Client(bytes) = line {
            self.expected.extend_from_slice(bytes);
            return;
        }
        self.drive();
        self.check_sent();
        self.now = self.now + Duration::from_millis(10);
        match line {
            Line::Client(_) => {}
            Line::Server(bytes) => self.feed(bytes),
            Line::Drop(why) => self.session.connection_lost(self.now, why),
            Line::Timeout => self.time_out(),
            Line::Tls(how) => self.tls(how),
        }
    }

    fn feed(&mut self, bytes: &[u8]) {
        let cut = match self.feeding {
            Feeding::Whole => bytes.len(),
            Feeding::Octets => 1,
            Feeding::CutAt(cut) if (self.fed..self.fed + bytes.len()).contains(&cut) => cut - self.fed,
            Feeding::CutAt(_) => bytes.len(),
        };
        self.fed += bytes.len();
        let pieces: Vec<&[u8]> = match self.feeding {
            Feeding::Octets => bytes.chunks(1).collect(),
            _ => vec![&bytes[..cut], &bytes[cut..]],
        };
        for piece in pieces {
            self.session.feed(self.now, piece);
            self.drive();
        }
    }

    fn time_out(&mut self) {
        let deadline = self.session.deadline().unwrap_or_else(|| self.fail("nothing to wait for"));
        let before = Instant::from_micros(deadline.as_micros() - 1);
        self.session.expire(before);
        assert!(!self.session.is_closed(), "{}: expired too early", self.script.name);
        self.now = deadline;
        self.session.expire(deadline);
    }

    fn tls(&mut self, how: &str) {
        if self.session.next(self.now) != Step::StartTls {
            self.fail::<()>("no handshake was asked for");
        }
        match how {
            "verified" => self.session.tls_started(self.now, true),
            "unverified" => self.session.tls_started(self.now, false),
            _ => self.session.tls_failed(self.now, "alert: handshake failure"),
        }
    }

    /// What a driver does between two reads.
    fn drive(&mut self) {
        loop {
            match self.session.next(self.now) {
                Step::Outcome(outcome) => self.outcomes.push(show(&outcome)),
                Step::Send => {
                    while self.session.can_begin()
                        && let Some(job) = self.jobs.pop_front()
                    {
                        self.session.begin(self.now, job);
                    }
                    self.write();
                }
                Step::Ready => match self.jobs.pop_front() {
                    Some(job) => self.session.begin(self.now, job),
                    None if self.script.idle => return,
                    None => self.session.finish(self.now),
                },
                Step::StartTls | Step::NeedInput => return,
                Step::Close(c) => {
                    let clear = if c.reconnect_in_clear { " clear" } else { "" };
                    self.close = Some(format!("{:?} {:?}{clear}", c.why, c.phase));
                    return;
                }
            }
        }
    }

    /// Writes a few octets at a time, as a slow socket would.
    fn write(&mut self) {
        let output = self.session.output();
        while output.has_remaining() {
            let take = output.chunk().len().min(7);
            self.sent.extend_from_slice(&output.chunk()[..take]);
            output.advance(take);
        }
    }

    fn check_sent(&self) {
        if self.sent != self.expected {
            let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace("\r\n", "\n  ");
            self.fail(&format!("\nsent\n  {}\nexpected\n  {}", shown(&self.sent), shown(&self.expected)))
        }
    }

    fn end(mut self) {
        self.drive();
        self.check_sent();
        if self.outcomes != self.script.outcomes {
            self.fail(&format!("\noutcomes\n  {:#?}\nexpected\n  {:#?}", self.outcomes, self.script.outcomes))
        }
        if self.close != self.script.close {
            self.fail(&format!("\nclosed {:?}\nexpected {:?}", self.close, self.script.close))
        }
        let lost: Vec<u64> = self.jobs.iter().map(|j| j.ticket).collect();
        assert!(self.close.is_none() || self.session.jobs_in_hand() == 0, "{}: jobs kept", self.script.name);
        assert!(lost.is_empty() || self.close.is_some(), "{}: never begun: {lost:?}", self.script.name);
    }

    fn fail<T>(&self, what: &str) -> T {
        panic!("{} ({:?}): {what}", self.script.name, self.feeding)
    }
}

fn show(outcome: &Outcome) -> String {
    let results: Vec<String> = outcome
        .results
        .iter()
        .map(|r| {
            assert_eq!(r.local, r.reply.text.starts_with(smtp_client::INTERNAL_PREFIX));
            format!("{:?} {} {}{}", r.verdict, r.reply.code, if r.local { "!" } else { "" }, r.command)
        })
        .collect();
    format!("{}: {}", outcome.ticket, results.join(" | "))
}

fn set(settings: &mut Settings, word: &str) {
    let (key, value) = word.split_once('=').expect("key=value");
    let on = value == "on";
    match key {
        "pipelining" => settings.enable_pipelining = on,
        "rset" => settings.enable_rset = on,
        "verp" => settings.verp = Some(Verp { before: '+', at: '=' }),
        "lmtp" => settings.use_lmtp = on,
        "known" => settings.is_name_known = on,
        "needs" => settings.needs_requiretls = on,
        "reconnect" => settings.reconnect_in_clear = on,
        "ignore8bit" => settings.ignore_8bit_checks = on,
        "batch" => settings.max_recipients_per_batch = value.parse().expect("a number"),
        "tls" => settings.tls = tls_mode(value),
        "auth" => {
            settings.auth = Some(AuthPlain {
                username: "me".into(),
                password: "sesame".into(),
                allow_without_tls: value == "anywhere",
                allow_without_valid_certificate: value != "strict",
            })
        }
        _ => panic!("unknown setting {word}"),
    }
}

fn tls_mode(value: &str) -> TlsMode {
    use TlsMode::{Disabled, Opportunistic, OpportunisticInsecure, Required, RequiredInsecure};
    let all = [Opportunistic, OpportunisticInsecure, Required, RequiredInsecure, Disabled];
    all.into_iter().find(|m| format!("{m:?}") == value).expect("a TLS mode")
}

/// `N from=a to=b,c [8bit] [utf8] [requiretls] [dsn=RET=HDRS|NOTIFY=NEVER] [body=text]`
fn job(text: &str) -> Job {
    let mut words = text.split(' ');
    let ticket: u64 = words.next().and_then(|n| n.parse().ok()).expect("a ticket");
    let mut job = Job {
        ticket,
        sender: ReversePath::parse("s@me.example").expect("sound"),
        recipients: vec![Mailbox::parse("a@you.example").expect("sound")],
        head: Bytes::from(format!("Subject: {ticket}\r\n\r\n")),
        body: Bytes::from(format!("body {ticket}\r\n")).into(),
        dsn: None,
        needs_8bit: false,
        requiretls: false,
        needs_smtputf8: false,
    };
    for word in words {
        match word.split_once('=').unwrap_or((word, "")) {
            ("from", address) => job.sender = ReversePath::parse(address).expect("a sender"),
            ("to", list) => job.recipients = list.split(',').map(|a| Mailbox::parse(a).expect("sound")).collect(),
            ("8bit", _) => job.needs_8bit = true,
            ("utf8", _) => job.needs_smtputf8 = true,
            ("requiretls", _) => job.requiretls = true,
            ("dsn", list) => job.dsn = Some(Box::new(dsn(list))),
            ("body", text) => job.body = Bytes::from(unescape(text)).into(),
            _ => panic!("unknown job word {word}"),
        }
    }
    job
}

/// Parameters of MAIL, then of each RCPT, with `|` between and `_` for blanks.
fn dsn(list: &str) -> Dsn {
    let list = list.replace('_', " ");
    let mut texts = list.split('|');
    Dsn::parse(texts.next().unwrap_or_default(), texts).expect("DSN options")
}

/// `\r`, `\n` and `\xNN`.
fn unescape(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        let (byte, length) = match rest.as_bytes().get(at + 1) {
            Some(b'r') => (b'\r', 2),
            Some(b'n') => (b'\n', 2),
            Some(b'x') => (u8::from_str_radix(&rest[at + 2..at + 4], 16).expect("two hex digits"), 4),
            _ => panic!("unknown escape in {text}"),
        };
        out.push(byte);
        rest = &rest[at + length..];
    }
    out.extend_from_slice(rest.as_bytes());
    out
}
