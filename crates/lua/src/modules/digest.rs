//! `kumo.digest`: hashes and keyed hashes.
//!
//! In: strings as their octets, anything else as JSON, one after the other. Out: a [`BinaryResult`], which shows its octets
//! in the form that is asked for.

use crate::api::{Function, Member, Module, Proof::Example, Type, function};
use crate::convert;
use crate::modules::secrets::key_octets;
use aws_lc_rs::{digest, hmac};
use data_encoding::{
    BASE32, BASE32_NOPAD, BASE32HEX, BASE32HEX_NOPAD, BASE64, BASE64_NOPAD, BASE64URL, BASE64URL_NOPAD, Encoding,
    HEXLOWER,
};
use mlua::{Lua, LuaString, MetaMethod, UserData, UserDataFields, UserDataMethods, Value, Variadic};

/// The module.
pub(crate) const DIGEST: Module = Module {
    name: "kumo.digest",
    doc: "Hashes. Every argument goes into the hash, strings as they are and other values as JSON.",
    functions: &[FUNCTIONS],
    types: &[RESULT],
};

/// A plain hash: name, algorithm, the digest of "hi" in hex.
macro_rules! hash {
    ($name:literal, $algorithm:expr, $hi:literal) => {
        function!(
            "kumo.digest",
            $name,
            "(...) -> BinaryResult",
            concat!("The ", $name, " digest of all arguments."),
            Example(concat!(
                "assert(tostring(kumo.digest.",
                $name,
                "('hi')) == '",
                $hi,
                "') assert(kumo.digest.",
                $name,
                "('h', 'i').hex == '",
                $hi,
                "')"
            )),
            |lua, parts: Variadic<Value>| Ok(BinaryResult(
                digest::digest(&$algorithm, &octets(lua, &parts)?).as_ref().to_vec()
            ))
        )
    };
}

/// A keyed hash: name, algorithm, the tag of "hi" under "key" in hex.
macro_rules! keyed {
    ($name:literal, $algorithm:expr, $hi:literal) => {
        function!(
            waits
            "kumo.digest",
            $name,
            "(key, message) -> BinaryResult",
            concat!("The ", $name, " tag of a message; the key is a KeySource."),
            Example(concat!("assert(kumo.digest.", $name, "({ key_data = 'key' }, 'hi').hex == '", $hi, "')")),
            |lua: Lua, (key, message): (Value, LuaString)| async move {
                let key = key_octets(&lua, &key).await?;
                let tag = hmac::sign(&hmac::Key::new($algorithm, &key), &message.as_bytes());
                Ok(BinaryResult(tag.as_ref().to_vec()))
            }
        )
    };
}

const FUNCTIONS: &[Function] = &[
    hash!("sha1", digest::SHA1_FOR_LEGACY_USE_ONLY, "c22b5f9178342609428d6f51b2c5af4c0bde6a42"),
    hash!("sha224", digest::SHA224, "1a15bca3e4ed3ab82367c6c434f86c41040bdac577fa1c2de62c3be0"),
    hash!("sha256", digest::SHA256, "8f434346648f6b96df89dda901c5176b10a6d83961dd3c1ac88b59b2dc327aa4"),
    hash!(
        "sha384",
        digest::SHA384,
        "0791006df8128477244f53d0fdce210db81f55757510e26acee35c18a6bceaa28dcdbbfd6dc041b9b4dc7b1b54e37f52"
    ),
    hash!(
        "sha512",
        digest::SHA512,
        "150a14ed5bea6cc731cf86c41566ac427a8db48ef1b9fd626664b3bfbb99071fa4c922f33dde38719b8c8354e2b7ab9d77e0e67fc12843920a712e73d558e197"
    ),
    hash!("sha512_256", digest::SHA512_256, "8ab98d4dbaa10dbf48a1ee02367c967e39987e5096b90a4067a242b470be755a"),
    hash!("sha3_256", digest::SHA3_256, "b39c14c8da3b23811f6415b7e0b33526d7e07a46f2cf0484179435767e4a8804"),
    hash!(
        "sha3_384",
        digest::SHA3_384,
        "1a3f82224ae3c0933d97c7e2e5d48b73f93eadf91057a1b54d4ebdd9ec37bd4d73c8fb9b96515dabfc6fa0a33791f3d4"
    ),
    hash!(
        "sha3_512",
        digest::SHA3_512,
        "154013cb8140c753f0ac358da6110fe237481b26c75c3ddc1b59eaf9dd7b46a0a3aeb2cef164b3c82d65b38a4e26ea9930b7b2cb3c01da4ba331c95e62ccb9c3"
    ),
    function!(
        "kumo.digest",
        "crc32",
        "(...) -> BinaryResult",
        "The CRC-32 of all arguments, the highest octet first. It finds accidents, not forgeries.",
        Example("assert(kumo.digest.crc32('hi').hex == 'd8932aac')"),
        |lua, parts: Variadic<Value>| Ok(BinaryResult(crc32fast::hash(&octets(lua, &parts)?).to_be_bytes().to_vec()))
    ),
    keyed!("hmac_sha1", hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, "7a57c768a439a123a3f0957800ab4f9d38c7403b"),
    keyed!("hmac_sha224", hmac::HMAC_SHA224, "d8665cb4d3221ff828fc0a32d998839819802bfa694e2d5497a1f5a2"),
    keyed!("hmac_sha256", hmac::HMAC_SHA256, "1c9dc82e5f8e5ed5a0180aad33b8204dea12fde2fb62ffb5e963035bf324a7a4"),
    keyed!(
        "hmac_sha384",
        hmac::HMAC_SHA384,
        "05e934a7adb136df3467adc6d765b7403acc6fef0de10f2b87372db50cde2256c41c5c2ba41fcc6cd2877f4ffaeb866f"
    ),
    keyed!(
        "hmac_sha512",
        hmac::HMAC_SHA512,
        "5b27423cfcc1e84ba3968c0553ec1a6b9ba3515246a234dbb3ac5e620f9abfd0c74027f6139d017b80a12219ac527c52a44e1c39757952277ce14456d516d619"
    ),
];

fn octets(lua: &Lua, parts: &[Value]) -> mlua::Result<Vec<u8>> {
    let mut all = Vec::new();
    for part in parts {
        match part {
            Value::String(text) => all.extend_from_slice(&text.as_bytes()),
            other => all.extend_from_slice(convert::to_json(lua, other)?.to_string().as_bytes()),
        }
    }
    Ok(all)
}

/// Octets that scripts ask for in the form they need.
pub(crate) struct BinaryResult(pub Vec<u8>);

/// The forms there are, beside the octets themselves.
const FORMS: [(&str, &Encoding); 9] = [
    ("hex", &HEXLOWER),
    ("base32", &BASE32),
    ("base32_nopad", &BASE32_NOPAD),
    ("base32hex", &BASE32HEX),
    ("base32hex_nopad", &BASE32HEX_NOPAD),
    ("base64", &BASE64),
    ("base64_nopad", &BASE64_NOPAD),
    ("base64url", &BASE64URL),
    ("base64url_nopad", &BASE64URL_NOPAD),
];

impl UserData for BinaryResult {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        fields.add_field_method_get("bytes", |lua, this| lua.create_string(&this.0));
        for (name, form) in FORMS {
            fields.add_field_method_get(name, |_, this| Ok(form.encode(&this.0)));
        }
    }

    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_meta_method(MetaMethod::ToString, |_, this, ()| Ok(HEXLOWER.encode(&this.0)));
    }
}

const RESULT: Type = Type {
    name: "BinaryResult",
    prefix: "result",
    doc: "Octets. `tostring` shows them in hex.",
    members: &[
        Member {
            name: "result.bytes",
            signature: "string",
            doc: "The octets themselves.",
            proof: Example("assert(kumo.digest.crc32('hi').bytes == '\\xd8\\x93\\x2a\\xac')"),
        },
        Member {
            name: "result.hex, .base32, .base32_nopad, .base32hex, .base32hex_nopad, .base64, .base64_nopad, .base64url, .base64url_nopad",
            signature: "string",
            doc: "The octets as text of that alphabet.",
            proof: Example(
                "local r = kumo.digest.crc32('hi') assert(r.hex == 'd8932aac' and r.base64 == '2JMqrA==') \
                 assert(r.base64url_nopad == '2JMqrA' and r.base32 == '3CJSVLA=' and r.base32hex_nopad == 'R29ILB0')",
            ),
        },
    ],
};
