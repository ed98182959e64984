//! Tokens of structured header fields (RFC 5322 section 3.2, obsolete forms and RFC 6532 UTF-8 included).
//!
//! In: a raw value. Out: atoms (dots included), quoted strings, domain literals, single specials.
//! White space, folds and comments are dropped. Can fail: unclosed or too deep constructs and stray
//! specials ([`AddressError`]). No recursion: comment depth is a counter with a bound.

use crate::address::AddressError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token<'a> {
    /// A run of ordinary bytes, dots included.
    Atom(&'a [u8]),
    /// A quoted string without its quotes and escapes.
    Quoted(Vec<u8>),
    /// A domain literal with its brackets, white space removed.
    Literal(Vec<u8>),
    /// One of `< > @ , : ;`
    Special(u8),
}

pub(crate) struct Lexer<'a> {
    input: &'a [u8],
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(input: &'a [u8]) -> Lexer<'a> {
        Lexer { input, at: 0 }
    }

    /// The next token, or `None` at the end.
    pub(crate) fn next_token(&mut self) -> Result<Option<Token<'a>>, AddressError> {
        self.skip_blanks()?;
        let Some(&byte) = self.input.get(self.at) else {
            return Ok(None);
        };
        let token = match byte {
            b'"' => Token::Quoted(self.delimited(b'"', "quoted string")?),
            b'[' => Token::Literal(self.literal()?),
            b'<' | b'>' | b'@' | b',' | b':' | b';' => {
                self.at += 1;
                Token::Special(byte)
            }
            _ if is_atom_byte(byte) => self.atom(),
            _ => {
                return Err(AddressError::Unexpected { found: char::from(byte), offset: self.at });
            }
        };
        Ok(Some(token))
    }

    fn atom(&mut self) -> Token<'a> {
        let rest = &self.input[self.at..];
        let len = rest.iter().take_while(|&&b| is_atom_byte(b)).count();
        self.at += len;
        Token::Atom(&rest[..len])
    }

    /// The inside of a construct that ends with `close`; escapes resolved, folds removed.
    fn delimited(&mut self, close: u8, what: &'static str) -> Result<Vec<u8>, AddressError> {
        let start = self.at;
        let mut out = Vec::new();
        self.at += 1;
        while let Some(&byte) = self.input.get(self.at) {
            self.at += 1;
            match byte {
                b'\\' => {
                    out.extend(self.input.get(self.at));
                    self.at += 1;
                }
                b'\r' | b'\n' => {}
                _ if byte == close => return Ok(out),
                _ => out.push(byte),
            }
        }
        Err(AddressError::Unclosed { what, offset: start })
    }

    fn literal(&mut self) -> Result<Vec<u8>, AddressError> {
        let inner = self.delimited(b']', "domain literal")?;
        let mut out = vec![b'['];
        out.extend(inner.into_iter().filter(|b| !b.is_ascii_whitespace()));
        out.push(b']');
        Ok(out)
    }

    fn skip_blanks(&mut self) -> Result<(), AddressError> {
        while let Some(&byte) = self.input.get(self.at) {
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' => self.at += 1,
                b'(' => self.skip_comment()?,
                _ => break,
            }
        }
        Ok(())
    }

    fn skip_comment(&mut self) -> Result<(), AddressError> {
        let start = self.at;
        let mut depth = 0;
        while let Some(&byte) = self.input.get(self.at) {
            self.at += 1;
            match byte {
                b'\\' => self.at += 1,
                b'(' if depth == COMMENT_DEPTH_MAX => {
                    return Err(AddressError::CommentTooDeep { max: COMMENT_DEPTH_MAX });
                }
                b'(' => depth += 1,
                b')' if depth == 1 => return Ok(()),
                b')' => depth -= 1,
                _ => {}
            }
        }
        Err(AddressError::Unclosed { what: "comment", offset: start })
    }
}

/// `atext`, the dot, and every byte of UTF-8 (RFC 6532); controls are refused.
fn is_atom_byte(byte: u8) -> bool {
    byte > b' ' && byte != 127 && !b"()<>[]:;@,\"\\".contains(&byte)
}

/// Deepest nesting of comments.
pub const COMMENT_DEPTH_MAX: usize = 32;
