//! Web and websocket servers for scripts to ask: `peers/web_server.py`.

use crate::certificate::Certificate;
use crate::peers;
use crate::process::Process;
use crate::until::SOON;
use std::net::SocketAddr;

/// Running servers.
#[derive(Debug)]
pub struct WebServer {
    /// Where HTTP is spoken.
    pub http: SocketAddr,
    /// Where websockets are.
    pub websocket: SocketAddr,
    _process: Process,
}

impl WebServer {
    /// Starts them, with TLS when there is a certificate.
    pub fn start(own: Option<&Certificate>) -> WebServer {
        let mut command = peers::script("web_server.py");
        if let Some(own) = own {
            command.arg("--certificate").arg(&own.certificate).arg("--key").arg(&own.key);
        }
        let process = Process::spawn("web_server.py", command);
        let (http, websocket) = process.await_stderr("its addresses", SOON, |line| {
            let (_, addresses) = line.split_once("web listener on ")?;
            let (http, websocket) = addresses.trim().split_once(' ')?;
            Some((http.parse().ok()?, websocket.parse().ok()?))
        });
        WebServer { http, websocket, _process: process }
    }
}
