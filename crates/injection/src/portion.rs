//! A request in portions, for what is generated later.

use crate::Injection;
use std::io::{self, Write};

impl Injection {
    /// The same for at most `recipients_max` recipients each, made one at a time: each has the whole content.
    pub fn portions(mut self, recipients_max: usize) -> impl ExactSizeIterator<Item = Injection> {
        let mut all = std::mem::take(&mut self.recipients);
        let size = recipients_max.max(1);
        (0..all.len().div_ceil(size)).map(move |_| {
            let rest = all.split_off(size.min(all.len()));
            Injection { recipients: std::mem::replace(&mut all, rest), ..self.clone() }
        })
    }

    /// Octets of what each portion has beside its recipients, as it waits.
    pub fn common_octets(&self) -> usize {
        let common = Injection { recipients: Vec::new(), ..self.clone() };
        let mut counted = Counted(0);
        // Names are strings and nothing fails to be counted.
        let _written: serde_json::Result<()> = serde_json::to_writer(&mut counted, &common);
        counted.0
    }
}

/// Counts what is written.
struct Counted(usize);

impl Write for Counted {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.0 += octets.len();
        Ok(octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
