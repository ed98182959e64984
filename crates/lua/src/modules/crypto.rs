//! `kumo.crypto`: block ciphers, and signatures of requests to Amazon's services.
//!
//! In: texts, and keys as KeySources. Out: octets and signatures. Ciphers are aws-lc's; signing is the web crate's. With
//! `Cbc` the octets begin with the initialisation vector, which is new each time (16 octets); both modes pad (PKCS #7).

use crate::api::{Function, Module, Proof::Example, function};
use crate::convert;
use crate::modules::digest::BinaryResult;
use crate::modules::secrets::{key_octets, load};
use aws_lc_rs::cipher::{
    AES_128, AES_256, DecryptionContext, PaddedBlockDecryptingKey, PaddedBlockEncryptingKey, UnboundCipherKey,
};
use aws_lc_rs::iv::{FixedLength, IV_LEN_128_BIT};
use config::AwsSigning;
use jiff::Timestamp;
use mlua::{FromLua, IntoLua, Lua, LuaString, Table, Value};
use time::OffsetDateTime;
use web::sigv4::{Signed, ToSign, sign};

/// The module.
pub(crate) const CRYPTO: Module = Module {
    name: "kumo.crypto",
    doc: "Block ciphers, and signatures of requests to Amazon's services.",
    functions: &[FUNCTIONS],
    types: &[],
};

const FUNCTIONS: &[Function] = &[
    function!(
        waits
        "kumo.crypto",
        "aes_encrypt_block",
        "(mode, text, {key}) -> BinaryResult",
        "Encrypts with AES; `key` is a KeySource of 16 or 32 octets, the mode `Cbc` or `Ecb`. With `Cbc` the result begins with \
         the 16 octets of the initialisation vector, which is another each time; the text is padded (PKCS #7). Neither mode \
         shows that somebody changed the octets.",
        Example(
            "local key = { key = { key_data = '0123456789abcdef' } } \
             assert(kumo.crypto.aes_encrypt_block('Ecb', 'secret', key).hex == '88da3ee1113b9c49e9937dfc0981a173') \
             local one, two = kumo.crypto.aes_encrypt_block('Cbc', 'secret', key), kumo.crypto.aes_encrypt_block('Cbc', 'secret', key) \
             assert(#one.bytes == 32 and one.bytes ~= two.bytes) \
             assert(not pcall(kumo.crypto.aes_encrypt_block, 'Cbc', 'x', { key = { key_data = 'short' } }))"
        ),
        |lua: Lua, (mode, text, options): (String, LuaString, Table)| async move {
            let key = cipher_key(&lua, &options).await?;
            encrypt(&mode, &text.as_bytes(), &key).map(BinaryResult)
        }
    ),
    function!(
        waits
        "kumo.crypto",
        "aes_decrypt_block",
        "(mode, octets, {key}) -> string",
        "What `aes_encrypt_block` was given.",
        Example(
            "local key = { key = { key_data = '0123456789abcdef0123456789abcdef' } } \
             for _, mode in ipairs { 'Cbc', 'Ecb' } do \
               local octets = kumo.crypto.aes_encrypt_block(mode, 'secret message', key).bytes \
               assert(kumo.crypto.aes_decrypt_block(mode, octets, key) == 'secret message') \
               assert(not pcall(kumo.crypto.aes_decrypt_block, mode, octets:sub(2), key)) \
             end"
        ),
        |lua: Lua, (mode, octets, options): (String, LuaString, Table)| async move {
            let key = cipher_key(&lua, &options).await?;
            lua.create_string(decrypt(&mode, &octets.as_bytes(), &key)?)
        }
    ),
    function!(
        waits
        "kumo.crypto",
        "aws_sign_v4",
        "{options} -> table",
        "Signs a request to a service of Amazon's (Signature Version 4). The table has `authorization` and `timestamp`, which are the values of \
         `Authorization` and `X-Amz-Date`, `signature`, and the texts behind it: `canonical_request` and `string_to_sign`. \
         `payload`, the content, may be any octets.",
        Example(
            "local signed = kumo.crypto.aws_sign_v4 { access_key = { key_data = 'AKIDEXAMPLE' }, \
               secret_key = { key_data = 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY' }, region = 'us-east-1', service = 'service', \
               method = 'GET', uri = '/', query_params = { Param2 = 'value2', Param1 = 'value1' }, \
               headers = { Host = 'example.amazonaws.com' }, timestamp = '2015-08-30T12:36:00Z', payload = '' } \
             assert(signed.signature == 'b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500') \
             assert(signed.timestamp == '20150830T123600Z' and signed.authorization:find(signed.signature, 1, true)) \
             assert(signed.string_to_sign:find '^AWS4' and signed.canonical_request:find 'Param1=value1')"
        ),
        |lua: Lua, options: Table| async move {
            let (options, payload) = beside_payload(&lua, options)?;
            let options: AwsSigning = convert::options("kumo.crypto.aws_sign_v4", &options)?;
            let query = options.query_params.clone().into_iter().collect();
            let signed = signed(&lua, &options, query, &payload.unwrap_or_default()).await?;
            let table = lua.create_table()?;
            table.raw_set("authorization", signed.authorization)?;
            table.raw_set("timestamp", signed.timestamp)?;
            table.raw_set("signature", signed.signature)?;
            table.raw_set("canonical_request", signed.canonical_request)?;
            table.raw_set("string_to_sign", signed.string_to_sign)?;
            Ok(table)
        }
    ),
];

/// Options, and the payload apart from them: they are text, it may be any octets.
pub(crate) fn beside_payload(lua: &Lua, given: Table) -> mlua::Result<(Value, Option<Vec<u8>>)> {
    let (options, payload) = convert::without(lua, &given, "payload")?;
    let payload = Option::<LuaString>::from_lua(payload, lua)?;
    Ok((options.into_lua(lua)?, payload.map(|payload| payload.as_bytes().to_vec())))
}

/// The signature of a request, with keys from where they are kept.
pub(crate) async fn signed(
    lua: &Lua,
    options: &AwsSigning,
    query: Vec<(String, String)>,
    payload: &[u8],
) -> mlua::Result<Signed> {
    let time = match &options.timestamp {
        None => Timestamp::now(),
        Some(text) => text.parse().map_err(|e| {
            mlua::Error::runtime(format!("timestamp {text:?}: expected a time such as 2026-01-31T12:00:00Z: {e}"))
        })?,
    };
    let now = OffsetDateTime::from_unix_timestamp(time.as_second()).map_err(mlua::Error::runtime)?;
    let access_key = String::from_utf8(load(lua, &options.access_key).await?);
    let access_key = access_key.map_err(|_| mlua::Error::runtime("access_key: expected text"))?;
    let secret_key = load(lua, &options.secret_key).await?;
    let request = ToSign {
        access_key: access_key.trim_end(),
        secret_key: secret_key.trim_ascii_end(),
        session_token: options.session_token.as_deref(),
        region: &options.region,
        service: &options.service,
        method: &options.method,
        path: &options.uri,
        query,
        headers: options.headers.clone().into_iter().collect(),
        payload,
    };
    Ok(sign(&request, now))
}

async fn cipher_key(lua: &Lua, options: &Table) -> mlua::Result<Vec<u8>> {
    for pair in options.pairs::<String, Value>() {
        let (name, _) = pair?;
        if name != "key" {
            return Err(mlua::Error::runtime(format!("unknown field `{name}`, expected key")));
        }
    }
    key_octets(lua, &options.get("key")?).await
}

/// Which mode, and the key for it.
fn unbound(mode: &str, key: &[u8]) -> mlua::Result<(bool, UnboundCipherKey)> {
    let is_cbc = match mode {
        "Cbc" => true,
        "Ecb" => false,
        other => return Err(mlua::Error::runtime(format!("mode {other:?}: expected Cbc or Ecb"))),
    };
    let algorithm = match key.len() {
        16 => &AES_128,
        32 => &AES_256,
        other => return Err(mlua::Error::runtime(format!("key: {other} octets: expected 16 or 32"))),
    };
    Ok((is_cbc, UnboundCipherKey::new(algorithm, key).map_err(|_| refused())?))
}

fn encrypt(mode: &str, text: &[u8], key: &[u8]) -> mlua::Result<Vec<u8>> {
    let (is_cbc, key) = unbound(mode, key)?;
    let mut octets = text.to_vec();
    if !is_cbc {
        let key = PaddedBlockEncryptingKey::ecb_pkcs7(key).map_err(|_| refused())?;
        key.encrypt(&mut octets).map_err(|_| refused())?;
        return Ok(octets);
    }
    let key = PaddedBlockEncryptingKey::cbc_pkcs7(key).map_err(|_| refused())?;
    let context = key.encrypt(&mut octets).map_err(|_| refused())?;
    let vector: &[u8] = (&context).try_into().map_err(|_| refused())?;
    Ok([vector, &octets].concat())
}

fn decrypt(mode: &str, octets: &[u8], key: &[u8]) -> mlua::Result<Vec<u8>> {
    let (is_cbc, key) = unbound(mode, key)?;
    let wrong = || mlua::Error::runtime("the octets are not what this key encrypts in this mode");
    let (context, octets) = if is_cbc {
        let (vector, octets) = octets.split_first_chunk::<IV_LEN_128_BIT>().ok_or_else(wrong)?;
        (DecryptionContext::Iv128(FixedLength::from(vector)), octets)
    } else {
        (DecryptionContext::None, octets)
    };
    let made = if is_cbc { PaddedBlockDecryptingKey::cbc_pkcs7(key) } else { PaddedBlockDecryptingKey::ecb_pkcs7(key) };
    let mut octets = octets.to_vec();
    let text = made.map_err(|_| refused())?.decrypt(&mut octets, context).map_err(|_| wrong())?;
    Ok(text.to_vec())
}

fn refused() -> mlua::Error {
    mlua::Error::runtime("the cipher refused")
}
