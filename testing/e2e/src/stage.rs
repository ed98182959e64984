//! What the console is looked at with: a server with mail that waits, and a browser.
//!
//! Names and replies in it are hostile. With POSTRIDER_PICTURES, a folder, set, the pictures that are taken are left there, to be looked at.

use crate::browser::Browser;
use crate::http;
use crate::kumod::{Kumod, Launch, policy_file};
use crate::scratch::Scratch;
use crate::sink::Sink;
use crate::until::{SOON, until};
use crate::wire::Client;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::thread;

/// A server with mail, and a browser.
#[derive(Debug)]
pub struct Stage {
    /// The browser.
    pub browser: Browser,
    /// The server.
    pub relay: Kumod,
    _sink: Sink,
    scratch: Scratch,
}

impl Stage {
    /// 16 messages wait for a retry: 8 for slow.test (6 of tenant shop, 2 of news), 5 for away.test, 3 of a tenant with a hostile name; 4 were delivered.
    pub fn set() -> Stage {
        let scratch = Scratch::new();
        let sink = Sink::start(&scratch, "sink", &[]);
        let relay = Launch::policy(policy_file("console.lua"))
            .env("CONSOLE_DIR", scratch.join("relay"))
            .env("CONSOLE_GOOD", sink.address.to_string())
            .env("CONSOLE_REFUSES", refusing().to_string())
            .start();
        for (count, domain, tenant) in [
            (6, "slow.test", "shop"),
            (2, "slow.test", "news"),
            (5, "away.test", ""),
            (3, "odd.test", HOSTILE),
            (4, "good.test", "shop"),
        ] {
            (0..count).for_each(|number| submit(relay.smtp(), &format!("r{number}@{domain}"), tenant));
        }
        until(SOON, "16 refusals and 4 deliveries", || {
            let totals = &get(&relay, "/api/admin/overview/v1")["totals"];
            (totals["transient"] == 16 && totals["delivered"] == 4).then_some(())
        });
        let mut browser = Browser::start(&scratch);
        browser.resize(1280, 900, false);
        Stage { browser, relay, _sink: sink, scratch }
    }

    /// Brings the server another message.
    pub fn submit(&self, to: &str, tenant: &str) {
        submit(self.relay.smtp(), to, tenant);
    }

    /// The address of a view.
    pub fn at(&self, view: &str) -> String {
        format!("http://{}/console{view}", self.relay.http())
    }

    /// Goes to a view and waits until the server has answered.
    pub fn go(&mut self, view: &str) {
        let url = self.at(view);
        self.browser.go(&url);
        self.browser.until("document.querySelector('#state .good')");
    }

    /// Takes a picture.
    pub fn picture(&mut self, name: &str) {
        let folder =
            std::env::var_os("POSTRIDER_PICTURES").map_or_else(|| self.scratch.path().to_owned(), PathBuf::from);
        self.browser.picture(&folder.join(format!("{name}.png")));
    }
}

/// JSON of the server.
pub fn get(relay: &Kumod, path: &str) -> Value {
    let (status, text) = http::get(relay.http(), path);
    assert_eq!(status, 200, "{path}: {text}");
    serde_json::from_str(&text).expect("JSON")
}

fn submit(relay: SocketAddr, to: &str, tenant: &str) {
    let mut client = Client::connect(relay);
    client.begin("a@source.test", to);
    let owner = if tenant.is_empty() { String::new() } else { format!("X-Tenant: {tenant}\r\nX-Campaign: spring\r\n") };
    let reply = client.say(&format!("Subject: the console\r\n{owner}\r\nHello.\r\n."));
    assert_eq!(reply.code, 250, "{reply:?}");
}

/// A server that refuses every recipient for the time being, in words that are no good to a page.
fn refusing() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    thread::spawn(move || listener.incoming().flatten().for_each(|client| drop(thread::spawn(move || refuse(client)))));
    address
}

/// One of its sessions; a client that hangs up ends it.
fn refuse(client: TcpStream) -> std::io::Result<()> {
    let mut writer = client.try_clone()?;
    writer.write_all(b"220 mx.test\r\n")?;
    for line in BufReader::new(client).lines() {
        let verb = line?.get(..4).unwrap_or_default().to_ascii_uppercase();
        let reply = match &*verb {
            "RCPT" => format!("451 4.7.1 not now {HOSTILE}\r\n"),
            "DATA" => "554 5.5.1 nobody to send to\r\n".to_owned(),
            _ => "250 mx.test\r\n".to_owned(),
        };
        writer.write_all(reply.as_bytes())?;
    }
    Ok(())
}

/// What strangers write into names and replies.
pub const HOSTILE: &str = "<img src=x onerror=window.pwned=1>";
