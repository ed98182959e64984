//! Why no host of a site took the mail, as the reply about it says: bounded, since each host chooses its words, and a domain names
//! as many hosts as it likes.

use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;

/// What hosts have said, in the order in which they were tried.
#[derive(Default)]
pub(super) struct Reasons {
    said: Vec<String>,
    /// Those of further ones.
    more: usize,
}

impl Reasons {
    /// That host did not.
    pub fn add(&mut self, host: &str, addr: SocketAddr, why: &str) {
        if self.said.len() >= REASONS_MAX {
            self.more += 1;
            return;
        }
        let (why, cut) = match why.len() > REASON_OCTETS_MAX {
            true => (&why[..why.floor_char_boundary(REASON_OCTETS_MAX)], "..."),
            false => (why, ""),
        };
        self.said.push(format!("{host} ({addr}): {why}{cut}"));
    }
}

impl Display for Reasons {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.said.join(", "))?;
        match self.more {
            0 => Ok(()),
            more => write!(f, ", and {more} more"),
        }
    }
}

/// Hosts whose words are told.
const REASONS_MAX: usize = 16;
/// Octets of the words of each.
const REASON_OCTETS_MAX: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_are_told_whole_and_many_or_long_ones_are_cut() {
        let addr = SocketAddr::from(([127, 0, 0, 1], 25));
        let mut reasons = Reasons::default();
        reasons.add("a.test", addr, "554 no");
        reasons.add("b.test", addr, &"\u{e9}".repeat(300));
        let cut = "\u{e9}".repeat(256);
        assert_eq!(reasons.to_string(), format!("a.test (127.0.0.1:25): 554 no, b.test (127.0.0.1:25): {cut}..."));
        (0..100).for_each(|_| reasons.add("c.test", addr, &"x".repeat(65_536)));
        let told = reasons.to_string();
        assert!(told.ends_with(", and 86 more") && told.len() < 10_000, "{}", told.len());
    }
}
