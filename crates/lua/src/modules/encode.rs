//! `kumo.encode`: base32, base64, hex and character sets.
//!
//! Strings may hold any octets. What does not decode is an error that says where; base64 is read with its padding, without
//! it, or with too much.

use crate::api::{Function, Module, Proof::Example, function};
use data_encoding::{
    BASE32, BASE32_NOPAD, BASE32HEX, BASE32HEX_NOPAD, BASE64, BASE64_NOPAD, BASE64URL, BASE64URL_NOPAD, Encoding,
    HEXLOWER, HEXLOWER_PERMISSIVE,
};
use encoding_rs::{Encoding as Charset, UTF_16BE, UTF_16LE};
use mlua::{Lua, LuaString};

/// The module.
pub(crate) const ENCODE: Module = Module {
    name: "kumo.encode",
    doc: "Octets as text and back: RFC 4648's alphabets, and character sets. `nopad` leaves out the padding.",
    functions: &[FUNCTIONS],
    types: &[],
};

/// An encoder and a decoder of one alphabet.
macro_rules! pair {
    ($encode:literal, $decode:literal, $writes:expr, $reads:expr, $octets:literal, $text:literal) => {
        [
            function!(
                "kumo.encode",
                $encode,
                "(octets) -> string",
                "The octets as text.",
                Example(concat!("assert(kumo.encode.", $encode, "('", $octets, "') == '", $text, "')")),
                |_, octets: LuaString| Ok($writes.encode(&octets.as_bytes()))
            ),
            function!(
                "kumo.encode",
                $decode,
                "(text) -> octets",
                "The octets behind a text; an error when it is none of this alphabet.",
                Example(concat!(
                    "assert(kumo.encode.",
                    $decode,
                    "('",
                    $text,
                    "') == '",
                    $octets,
                    "') assert(not pcall(kumo.encode.",
                    $decode,
                    ", '!'))"
                )),
                |lua, text: LuaString| decoded(lua, &text, &$reads)
            ),
        ]
    };
}

const PAIRS: [[Function; 2]; 9] = [
    pair!("base32_encode", "base32_decode", BASE32, BASE32, "hello", "NBSWY3DP"),
    pair!("base32_nopad_encode", "base32_nopad_decode", BASE32_NOPAD, BASE32_NOPAD, "hi", "NBUQ"),
    pair!("base32hex_encode", "base32hex_decode", BASE32HEX, BASE32HEX, "hello", "D1IMOR3F"),
    pair!("base32hex_nopad_encode", "base32hex_nopad_decode", BASE32HEX_NOPAD, BASE32HEX_NOPAD, "hi", "D1KG"),
    pair!("base64_encode", "base64_decode", BASE64, BASE64_NOPAD, "hi", "aGk="),
    pair!("base64_nopad_encode", "base64_nopad_decode", BASE64_NOPAD, BASE64_NOPAD, "hi", "aGk"),
    pair!("base64url_encode", "base64url_decode", BASE64URL, BASE64URL_NOPAD, "\\xff\\xfe", "__4="),
    pair!("base64url_nopad_encode", "base64url_nopad_decode", BASE64URL_NOPAD, BASE64URL_NOPAD, "\\xff\\xfe", "__4"),
    pair!("hex_encode", "hex_decode", HEXLOWER, HEXLOWER_PERMISSIVE, "\\x00\\xffA", "00ff41"),
];

const FUNCTIONS: &[Function] = &{
    let [a, b, c, d, e, f, g, h, i] = PAIRS;
    let ([a1, a2], [b1, b2], [c1, c2], [d1, d2], [e1, e2]) = (a, b, c, d, e);
    let ([f1, f2], [g1, g2], [h1, h2], [i1, i2]) = (f, g, h, i);
    [
        a1,
        a2,
        b1,
        b2,
        c1,
        c2,
        d1,
        d2,
        e1,
        e2,
        f1,
        f2,
        g1,
        g2,
        h1,
        h2,
        i1,
        i2,
        function!(
            "kumo.encode",
            "charset_encode",
            "(charset, text, ignore_errors = true) -> octets",
            "The text in another character set. What that set does not have becomes a numeric character reference, or is an \
             error when `ignore_errors` is false.",
            Example(
                "assert(kumo.encode.charset_encode('iso-8859-1', 'gr\\u{fc}n') == 'gr\\xfcn') \
                 assert(not pcall(kumo.encode.charset_encode, 'iso-8859-1', '\\u{4e2d}', false))"
            ),
            charset_encode
        ),
        function!(
            "kumo.encode",
            "charset_decode",
            "(charset, octets) -> text",
            "Text of another character set as UTF-8; an error when the set is unknown or the octets are not of it.",
            Example(
                "assert(kumo.encode.charset_decode('iso-8859-1', 'gr\\xfcn') == 'gr\\u{fc}n') \
                 assert(not pcall(kumo.encode.charset_decode, 'utf-8', '\\xff'))"
            ),
            charset_decode
        ),
    ]
};

/// Padding of base64 may be there or not, so it is read without.
fn decoded(lua: &Lua, text: &LuaString, alphabet: &Encoding) -> mlua::Result<LuaString> {
    let given = text.as_bytes();
    let without = given.iter().rposition(|octet| *octet != b'=').map_or(0, |last| last + 1);
    let read = if alphabet.bit_width() == BASE64_BITS { &given[..without] } else { &given[..] };
    let octets = alphabet.decode(read).map_err(|e| mlua::Error::runtime(format!("{:?}: {e}", shown(text))))?;
    lua.create_string(octets)
}

/// The beginning of a text, for errors.
fn shown(text: &LuaString) -> String {
    text.to_string_lossy().chars().take(SHOWN_CHARS_MAX).collect()
}

fn charset(name: &str) -> mlua::Result<&'static Charset> {
    let found = Charset::for_label(name.as_bytes());
    found.ok_or_else(|| {
        mlua::Error::runtime(format!("charset {name:?}: expected a name of the WHATWG list, as `iso-8859-1`"))
    })
}

fn charset_encode(lua: &Lua, (name, text, ignore_errors): (String, String, Option<bool>)) -> mlua::Result<LuaString> {
    let charset = charset(&name)?;
    // The library writes these as UTF-8, as browsers do.
    let in_utf_16 =
        |octets_of: fn(u16) -> [u8; 2]| lua.create_string(text.encode_utf16().flat_map(octets_of).collect::<Vec<u8>>());
    if charset == UTF_16LE {
        return in_utf_16(u16::to_le_bytes);
    }
    if charset == UTF_16BE {
        return in_utf_16(u16::to_be_bytes);
    }
    let (octets, written_as, has_unmappable) = charset.encode(&text);
    if written_as != charset {
        return Err(mlua::Error::runtime(format!("charset {name:?}: nothing is written in it")));
    }
    if has_unmappable && ignore_errors == Some(false) {
        return Err(mlua::Error::runtime(format!("the text has characters that {name} has not")));
    }
    lua.create_string(octets)
}

fn charset_decode(lua: &Lua, (name, octets): (String, LuaString)) -> mlua::Result<LuaString> {
    let charset = charset(&name)?;
    let text =
        charset.decode_without_bom_handling_and_without_replacement(&octets.as_bytes()).map(|text| text.into_owned());
    let text = text.ok_or_else(|| mlua::Error::runtime(format!("{:?}: not all of it is {name}", shown(&octets))))?;
    lua.create_string(text)
}

/// Bits a character of base64 stands for.
const BASE64_BITS: usize = 6;
/// Characters of a refused text that an error shows.
const SHOWN_CHARS_MAX: usize = 64;
