//! Web and websocket servers for scripts to ask: `peers/web_server.py`.

use crate::certificate::Certificate;
use crate::http;
use crate::peers;
use crate::process::Process;
use crate::scratch::Scratch;
use crate::until::SOON;
use std::net::SocketAddr;
use std::process::Command;

/// Running servers.
#[derive(Debug)]
pub struct WebServer {
    /// Where HTTP is spoken.
    pub http: SocketAddr,
    /// Where websockets are.
    pub websocket: SocketAddr,
    /// The process itself.
    pub process: Process,
}

impl WebServer {
    /// Starts them, with TLS when there is a certificate.
    pub fn start(own: Option<&Certificate>) -> WebServer {
        let mut command = peers::script("web_server.py");
        if let Some(own) = own {
            command.arg("--certificate").arg(&own.certificate).arg("--key").arg(&own.key);
        }
        WebServer::run(command)
    }

    /// Starts them with HTTP on this port; what was posted to `/hook` in a life before is still there.
    pub fn start_on(scratch: &Scratch, port: u16) -> WebServer {
        let mut command = peers::script("web_server.py");
        command.args(["--port", &port.to_string(), "--posted"]).arg(scratch.join("posted"));
        WebServer::run(command)
    }

    /// What was posted to `/hook`: media type and content.
    pub fn posted(&self) -> Vec<(String, String)> {
        let (_, text) = http::get(self.http, "/hook");
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"))
    }

    fn run(command: Command) -> WebServer {
        let process = Process::spawn("web_server.py", command);
        let (http, websocket) = process.await_stderr("its addresses", SOON, |line| {
            let (_, addresses) = line.split_once("web listener on ")?;
            let (http, websocket) = addresses.trim().split_once(' ')?;
            Some((http.parse().ok()?, websocket.parse().ok()?))
        });
        WebServer { http, websocket, process }
    }
}
