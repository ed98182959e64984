//! A client inside the harness for mail that `traffic-gen` does not make: one message to very many recipients, one to each
//! of very many domains. In: envelopes and content. Out: nothing but an error when a reply is not the one expected.

use std::io::{BufRead, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};

use anyhow::{Context as _, bail};

/// An open connection.
pub struct Injector {
    stream: BufReader<TcpStream>,
}

impl Injector {
    /// Connects and says EHLO.
    ///
    /// # Errors
    /// Nobody is there.
    pub fn open(to: SocketAddr) -> anyhow::Result<Injector> {
        let mut stream = BufReader::new(TcpStream::connect(to)?);
        stream.get_ref().set_nodelay(true)?;
        expect(&mut stream, "220")?;
        stream.get_mut().write_all(b"EHLO injector.test\r\n")?;
        expect(&mut stream, "250")?;
        Ok(Injector { stream })
    }

    /// Sends one message; `content` ends with CRLF and has no line that begins with a dot.
    ///
    /// # Errors
    /// It is refused.
    pub fn send(&mut self, recipients: &[String], content: &str) -> anyhow::Result<()> {
        self.ask("MAIL FROM:<sender@bench.test>\r\n", 1, "250")?;
        // In groups, so that neither side waits for the other to read.
        for group in recipients.chunks(GROUP) {
            let commands: String = group.iter().map(|recipient| format!("RCPT TO:<{recipient}>\r\n")).collect();
            self.ask(&commands, group.len(), "250")?;
        }
        self.ask("DATA\r\n", 1, "354")?;
        self.ask(&format!("{content}.\r\n"), 1, "250")
    }

    /// Ends the session.
    ///
    /// # Errors
    /// The server does not.
    pub fn quit(mut self) -> anyhow::Result<()> {
        self.ask("QUIT\r\n", 1, "221")
    }

    fn ask(&mut self, commands: &str, count: usize, code: &str) -> anyhow::Result<()> {
        self.stream.get_mut().write_all(commands.as_bytes())?;
        (0..count).try_for_each(|_| expect(&mut self.stream, code))
    }
}

/// Reads one reply, which has to begin with `code`.
fn expect(stream: &mut impl BufRead, code: &str) -> anyhow::Result<()> {
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).with_context(|| format!("waiting for {code}"))?;
        if !line.starts_with(code) {
            bail!("{code} expected, got {line:?}");
        }
        if line.as_bytes().get(code.len()) != Some(&b'-') {
            return Ok(());
        }
    }
}

/// Commands written at once.
const GROUP: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::witness::Witness;

    #[test]
    fn a_message_arrives_and_a_refusal_is_an_error() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("runtime");
        let witness = Witness::start(&runtime).expect("listens");
        let mut injector = Injector::open(witness.address).expect("greeted");
        let recipients: Vec<String> = (0..1200).map(|number| format!("user-{number}@bench.test")).collect();
        injector.send(&recipients, "X-Postrider-Id: one\r\n\r\nhello\r\n").expect("accepted");
        injector.quit().expect("a goodbye");
        assert!(witness.arrival("one").is_some());
        let mut refusal = &b"250-no\r\n550 nor this\r\n"[..];
        assert!(expect(&mut refusal, "250").expect_err("refused").to_string().contains("550 nor this"));
    }
}
