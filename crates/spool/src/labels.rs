//! Names of queues, each kept once and known by a number.
//!
//! A million messages wait in a few hundred queues: an entry of the index keeps 4 octets for the name of its
//! queue. A name goes when the last message that bears it does; its number is then given to another.
//! Names come from mail, so they are found in an ordered map: nobody can make a look-up slow by choosing them.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The names in use.
#[derive(Debug, Default)]
pub(crate) struct Labels {
    numbers: BTreeMap<Arc<str>, u32>,
    rows: Vec<Row>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Row {
    name: Arc<str>,
    /// Messages that bear it; 0 while the number is free.
    count: u32,
    /// The last checkpoint that has this name under this number; 0 for none.
    noted_in: u32,
}

impl Labels {
    /// The number of a name, for one more message.
    pub fn hold(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            self.rows[*number as usize].count += 1;
            return *number;
        }
        let name: Arc<str> = name.into();
        let row = Row { name: Arc::clone(&name), count: 1, noted_in: 0 };
        let number = match self.free.pop() {
            Some(number) => {
                self.rows[number as usize] = row;
                number
            }
            None => {
                self.rows.push(row);
                (self.rows.len() - 1) as u32
            }
        };
        self.numbers.insert(name, number);
        number
    }

    /// One message more bears the name with a number that is held.
    pub fn hold_again(&mut self, number: u32) {
        self.rows[number as usize].count += 1;
    }

    /// One message less bears the name.
    pub fn release(&mut self, number: u32) {
        let row = &mut self.rows[number as usize];
        row.count -= 1;
        if row.count == 0 {
            self.numbers.remove(&row.name);
            self.free.push(number);
        }
    }

    /// The name with a number that is held.
    pub fn name(&self, number: u32) -> &Arc<str> {
        &self.rows[number as usize].name
    }

    /// Whether checkpoint `checkpoint` (never 0) still lacks the name with this number; from now on it has it.
    pub fn is_news_for(&mut self, number: u32, checkpoint: u32) -> bool {
        let noted_in = &mut self.rows[number as usize].noted_in;
        core::mem::replace(noted_in, checkpoint) != checkpoint
    }

    /// How many names are in use.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_kept_once_and_goes_with_its_last_message() {
        let mut labels = Labels::default();
        let (a, b) = (labels.hold("a"), labels.hold("b"));
        assert_eq!((labels.hold("a"), labels.len()), (a, 2));
        assert_ne!(a, b);
        labels.release(a);
        assert_eq!(&**labels.name(a), "a");
        labels.release(a);
        assert_eq!(labels.len(), 1);
        assert_eq!(labels.hold("c"), a, "numbers are used again");
        assert_eq!((&**labels.name(a), &**labels.name(b)), ("c", "b"));
    }

    #[test]
    fn a_number_with_another_name_is_news_again() {
        let mut labels = Labels::default();
        let a = labels.hold("a");
        assert!(labels.is_news_for(a, 7) && !labels.is_news_for(a, 7) && labels.is_news_for(a, 8));
        labels.release(a);
        assert_eq!(labels.hold("z"), a);
        assert!(labels.is_news_for(a, 8));
    }
}
