//! A real browser without a screen: Chromium, as `peers/chromium.sh` fetched it, spoken to by its DevTools protocol.
//!
//! The protocol runs over two pipes, so there is no port and no websocket. In: addresses, keys, clicks, and questions in JavaScript.
//! Out: what the page says, what it asked for, what it complained about, and pictures. A browser is ended with its handle.

use crate::peers;
use crate::scratch::Scratch;
use crate::until::SOON;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// A running browser with one page.
#[derive(Debug)]
pub struct Browser {
    child: Child,
    requests: ChildStdin,
    answers: Receiver<Value>,
    next_id: u64,
    session: Option<String>,
    /// Everything it told without being asked.
    events: Vec<Value>,
}

/// A file the page loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// Where from.
    pub url: String,
    /// Octets that came over the wire for it, its header included; 0 while it is under way.
    pub octets: u64,
}

impl Browser {
    /// A browser with an empty page. It finds every name ending in `.test` at 127.0.0.1.
    pub fn start(scratch: &Scratch) -> Browser {
        let program = peers::file("chromium/bin/chromium", "chromium.sh");
        let profile = scratch.folder("browser");
        let mut command = Command::new("sh");
        // It reads requests from descriptor 3 and answers on 4.
        command.args(["-c", r#"exec "$0" "$@" 3<&0 4>&1 0</dev/null 1>&2"#]).arg(program);
        command.arg("--remote-debugging-pipe").arg(format!("--user-data-dir={}", profile.display()));
        command.args(["--host-resolver-rules=MAP *.test 127.0.0.1", "--hide-scrollbars", "about:blank"]);
        command.env("HOME", &profile).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let requests = child.stdin.take().expect("stdin is piped");
        let answers = follow(child.stdout.take().expect("stdout is piped"));
        let mut browser = Browser { child, requests, answers, next_id: 0, session: None, events: Vec::new() };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}))["targetId"].clone();
        let attached = browser.call("Target.attachToTarget", json!({"targetId": target, "flatten": true}));
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Goes to an address and waits until it has loaded; what was told before is forgotten.
    pub fn go(&mut self, url: &str) {
        // By way of nothing: to another fragment of its page a browser goes without loading it.
        for url in ["about:blank", url] {
            self.listen();
            self.events.clear();
            let answer = self.call("Page.navigate", json!({"url": url}));
            assert!(answer.get("errorText").is_none(), "{url}: {answer}");
            self.await_event("Page.loadEventFired");
        }
    }

    /// Runs a script in every page it goes to from now on, before the page's own.
    pub fn before_each_page(&mut self, script: &str) {
        self.call("Page.addScriptToEvaluateOnNewDocument", json!({"source": script}));
    }

    /// The value of an expression.
    pub fn ask(&mut self, expression: &str) -> Value {
        let options = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.call("Runtime.evaluate", options);
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is something else than null, false, 0 or empty.
    pub fn until(&mut self, expression: &str) -> Value {
        let deadline = Instant::now() + SOON;
        loop {
            let value = self.ask(expression);
            let is_nothing = value.is_null() || value == false || value == 0 || value == "";
            if !is_nothing {
                return value;
            }
            assert!(Instant::now() < deadline, "{expression}: not within {SOON:?}; the page says:\n{}", self.text());
            // The page looks again when it is drawn again.
            self.call(
                "Runtime.evaluate",
                json!({"expression": "new Promise(requestAnimationFrame)", "awaitPromise": true}),
            );
        }
    }

    /// Waits until the page's text has this.
    pub fn until_text(&mut self, text: &str) {
        self.until(&format!("document.body.innerText.includes({})", Value::from(text)));
    }

    /// The text of the page as it is seen.
    pub fn text(&mut self) -> String {
        let answer =
            self.call("Runtime.evaluate", json!({"expression": "document.body.innerText", "returnByValue": true}));
        answer["result"]["value"].as_str().unwrap_or_default().to_owned()
    }

    /// Clicks into the middle of what a selector finds, of several what has this text, with the mouse: once it stands still from one
    /// frame to the next and nothing lies over it, as a person would.
    pub fn click(&mut self, selector: &str, text: &str) {
        let (selector, text) = (Value::from(selector), Value::from(text));
        let place = self.until(&format!(
            "(() => {{ const found = [...document.querySelectorAll({selector})].find(one => one.textContent.includes({text}) && one.getClientRects().length);
            if (!found) return null; found.scrollIntoView({{block: 'center', behavior: 'instant'}});
            const {{x, y, width, height}} = found.getClientRects()[0], place = [x + width / 2, y + height / 2];
            const was = found.placeBefore; found.placeBefore = place.join();
            return was === place.join() && found.contains(document.elementFromPoint(...place)) ? place : null; }})()"
        ));
        for (kind, buttons) in [("mousePressed", 1), ("mouseReleased", 0)] {
            let options = json!({"type": kind, "x": place[0], "y": place[1], "button": "left", "buttons": buttons, "clickCount": 1});
            self.call("Input.dispatchMouseEvent", options);
        }
    }

    /// Presses a key: `Tab`, `Enter`, `Escape`, ` ` or an arrow.
    pub fn press(&mut self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "Escape" => 27,
            " " => 32,
            "ArrowRight" => 39,
            "ArrowDown" => 40,
            other => panic!("{other:?}: no key the tests know"),
        };
        let text = match key {
            "Enter" => "\r",
            " " => " ",
            _ => "",
        };
        for kind in ["keyDown", "keyUp"] {
            let text = if kind == "keyDown" { text } else { "" };
            let options = json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text});
            self.call("Input.dispatchKeyEvent", options);
        }
    }

    /// Types text into what has the focus.
    pub fn write(&mut self, text: &str) {
        self.call("Input.insertText", json!({"text": text}));
    }

    /// Makes the window so large (CSS pixels), that of a phone or of a desk.
    pub fn resize(&mut self, width: u32, height: u32, is_phone: bool) {
        let options = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_phone});
        self.call("Emulation.setDeviceMetricsOverride", options);
    }

    /// Has the page believe in a setting of the system, such as `prefers-color-scheme: dark`.
    pub fn prefer(&mut self, feature: &str, value: &str) {
        self.call("Emulation.setEmulatedMedia", json!({"features": [{"name": feature, "value": value}]}));
    }

    /// Writes a picture of the whole page.
    pub fn picture(&mut self, file: &Path) {
        let options = json!({"format": "png", "captureBeyondViewport": true});
        let data = self.call("Page.captureScreenshot", options);
        let octets = BASE64_STANDARD.decode(data["data"].as_str().expect("a picture")).expect("base64");
        std::fs::write(file, octets).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    }

    /// What the page complained about: errors of its console, of its scripts, and of what it loaded.
    pub fn complaints(&mut self) -> Vec<String> {
        self.listen();
        let complains = |event: &&Value| match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => event["params"]["type"] == "error",
            Some("Log.entryAdded") => event["params"]["entry"]["level"] == "error",
            _ => false,
        };
        self.events.iter().filter(complains).map(Value::to_string).collect()
    }

    /// Everything the page asked for since it was gone to.
    pub fn loaded(&mut self) -> Vec<Loaded> {
        self.listen();
        let of = |method: &'static str| {
            self.events.iter().filter(move |event| event["method"] == method).map(|event| &event["params"])
        };
        let octets = |id: &Value| {
            let finished = of("Network.loadingFinished").find(|params| params["requestId"] == *id);
            finished.and_then(|params| params["encodedDataLength"].as_f64()).unwrap_or_default() as u64
        };
        let requests = of("Network.requestWillBeSent");
        let url = |params: &Value| params["request"]["url"].as_str().unwrap_or_default().to_owned();
        requests.map(|params| Loaded { url: url(params), octets: octets(&params["requestId"]) }).collect()
    }

    fn await_event(&mut self, method: &str) {
        let deadline = Instant::now() + SOON;
        while !self.events.iter().any(|event| event["method"] == method) {
            let event = self.next(deadline, method);
            self.events.push(event);
        }
    }

    /// Takes in what it has told.
    fn listen(&mut self) {
        self.events.extend(self.answers.try_iter());
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        self.next_id += 1;
        let id = self.next_id;
        let mut request = json!({"id": id, "method": method, "params": params});
        if let Some(session) = &self.session {
            request["sessionId"] = session.as_str().into();
        }
        let sent = self.requests.write_all(format!("{request}\0").as_bytes());
        sent.unwrap_or_else(|error| panic!("the browser is gone: {method}: {error}"));
        let deadline = Instant::now() + SOON;
        loop {
            let mut answer = self.next(deadline, method);
            if answer["id"] == id {
                assert!(answer.get("error").is_none(), "{method} {params}: {answer}");
                return answer["result"].take();
            }
            self.events.push(answer);
        }
    }

    fn next(&mut self, deadline: Instant, what: &str) -> Value {
        let left = deadline.saturating_duration_since(Instant::now());
        self.answers.recv_timeout(left).unwrap_or_else(|error| panic!("the browser did not answer {what}: {error}"))
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Asked first, so that its own children go with it.
        let _ = self.requests.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        // Its answers end when the last of them is gone.
        let deadline = Instant::now() + CLOSING_MAX;
        while self.answers.recv_timeout(deadline.saturating_duration_since(Instant::now())).is_ok() {}
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Its messages as they come; they end with it.
fn follow(stdout: impl std::io::Read + Send + 'static) -> Receiver<Value> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for message in BufReader::new(stdout).split(0) {
            let Ok(message) = message else { return };
            let Ok(value) = serde_json::from_slice(&message) else { return };
            if sender.send(value).is_err() {
                return;
            }
        }
    });
    receiver
}

/// How long it may take to end by itself.
const CLOSING_MAX: Duration = Duration::from_secs(5);
