//! Names of messages in a Maildir: unique on this host and, with the host's name, everywhere.
//!
//! `SECONDS.MmicrosecondsPpidQnumber.HOST`, as the Maildir format asks. In: the time, a number that does not come again in
//! this process. Out: the name. Cannot fail.

use clock::WallTime;

/// What no two messages of this process share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unique {
    pub now: WallTime,
    pub pid: u32,
    pub number: u64,
}

impl Unique {
    /// The name; a slash and a colon in the host's become `\057` and `\072`.
    pub fn name(&self, host: &str) -> String {
        let micros = self.now.unix_micros();
        let (seconds, rest) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
        let host = host.replace('/', "\\057").replace(':', "\\072");
        format!("{seconds}.M{rest}P{}Q{}.{host}", self.pid, self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_three_parts() {
        let now = WallTime::from_unix_micros(1_790_000_000_012_345);
        let name = Unique { now, pid: 42, number: 7 }.name("mx/1:a.test");
        assert_eq!(name, "1790000000.M12345P42Q7.mx\\0571\\072a.test");
    }
}
