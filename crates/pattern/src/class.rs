//! What one octet may be: `.`, `a`, `%a`, `[a-z%d]`.

/// A single-octet class, as written in a pattern.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Class<'p> {
    /// `.`
    Any,
    /// The octet itself.
    Octet(u8),
    /// The letter behind `%`; what is no class stands for itself.
    Escaped(u8),
    /// What is between `[` and `]`.
    Set(&'p [u8]),
}

impl Class<'_> {
    /// True when `octet` belongs to it.
    pub fn has(self, octet: u8) -> bool {
        match self {
            Class::Any => true,
            Class::Octet(own) => own == octet,
            Class::Escaped(letter) => escaped_has(letter, octet),
            Class::Set(text) => match text.strip_prefix(b"^") {
                Some(rest) => !set_has(rest, octet),
                None => set_has(text, octet),
            },
        }
    }

    /// What looking at one octet costs, in steps.
    pub fn cost(self) -> u64 {
        match self {
            Class::Set(text) => 1 + text.len() as u64 / SET_OCTETS_PER_STEP,
            _ => 1,
        }
    }
}

fn set_has(mut text: &[u8], octet: u8) -> bool {
    loop {
        text = match text {
            [] => return false,
            // It escapes the bracket that ends the set, as Lua has it.
            [b'%'] => return octet == b']',
            [b'%', letter, rest @ ..] => {
                if escaped_has(*letter, octet) {
                    return true;
                }
                rest
            }
            [first, b'-', last, rest @ ..] => {
                if (*first..=*last).contains(&octet) {
                    return true;
                }
                rest
            }
            [own, rest @ ..] => {
                if *own == octet {
                    return true;
                }
                rest
            }
        };
    }
}

/// The classes of the C locale; an upper-case letter is the complement of its lower-case one.
fn escaped_has(letter: u8, octet: u8) -> bool {
    let is_member = match letter.to_ascii_lowercase() {
        b'a' => octet.is_ascii_alphabetic(),
        b'c' => octet.is_ascii_control(),
        b'd' => octet.is_ascii_digit(),
        b'g' => octet.is_ascii_graphic(),
        b'l' => octet.is_ascii_lowercase(),
        b'p' => octet.is_ascii_punctuation(),
        b's' => octet == b' ' || (b'\t'..=b'\r').contains(&octet),
        b'u' => octet.is_ascii_uppercase(),
        b'w' => octet.is_ascii_alphanumeric(),
        b'x' => octet.is_ascii_hexdigit(),
        // Deprecated, and there.
        b'z' => octet == 0,
        _ => return letter == octet,
    };
    is_member != letter.is_ascii_uppercase()
}

/// Octets of a set that are looked through in the time of a step.
const SET_OCTETS_PER_STEP: u64 = 4;
