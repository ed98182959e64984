//! Parameters of MAIL and RCPT: SIZE (RFC 1870), BODY (6152), SMTPUTF8 (6531), AUTH (4954) and
//! those of DSN (3461), and REQUIRETLS (8689).
//!
//! In: the text behind the path. Out: plain structs, or the parameter that is wrong. A parameter
//! nobody knows is an error (RFC 5321 section 4.1.1.11), as is one given twice. Texts in xtext are
//! decoded, and refused when they decode to anything but printable ASCII: they end up in
//! envelopes, logs and delivery reports.

use super::{BLANKS, CommandError};

/// Parameters of MAIL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MailParams {
    /// `SIZE=`: the client's estimate of the content, in octets.
    pub size: Option<u64>,
    /// `BODY=`.
    pub body: Option<BodyType>,
    /// `SMTPUTF8`: addresses and header fields may hold UTF-8.
    pub smtputf8: bool,
    /// `AUTH=`: who submitted it, `<>` for unknown, as given. Nothing is concluded from it.
    pub auth: Option<String>,
    /// `RET=`.
    pub ret: Option<Ret>,
    /// `ENVID=`, decoded.
    pub envid: Option<String>,
    /// `REQUIRETLS`: every hop must be under TLS.
    pub requiretls: bool,
}

/// Parameters of RCPT.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RcptParams {
    /// `NOTIFY=`.
    pub notify: Option<Notify>,
    /// `ORCPT=`.
    pub orcpt: Option<OriginalRecipient>,
}

/// `BODY=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyType {
    /// `7BIT`.
    SevenBit,
    /// `8BITMIME`.
    EightBitMime,
}

/// `RET=`: how much of the message a report shall return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ret {
    /// Everything.
    Full,
    /// The header.
    Headers,
}

/// `NOTIFY=`: when a report is wanted; all false is `NEVER`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Notify {
    /// On delivery.
    pub success: bool,
    /// On failure.
    pub failure: bool,
    /// On delay.
    pub delay: bool,
}

/// `ORCPT=`: the recipient as the sender first gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginalRecipient {
    /// `rfc822`, `utf-8` and the like, as given.
    pub address_type: String,
    /// Decoded from xtext.
    pub address: String,
}

impl MailParams {
    /// From the text behind the path.
    ///
    /// # Errors
    /// The parameter that is unknown, repeated or wrong.
    pub fn parse(text: &str) -> Result<MailParams, CommandError> {
        let mut params = MailParams::default();
        for word in words(text) {
            let (name, value) = split(word);
            match name.to_ascii_uppercase().as_str() {
                "SIZE" => once(&mut params.size, "SIZE", value, "a number of octets", decimal)?,
                "BODY" => once(&mut params.body, "BODY", value, "7BIT or 8BITMIME", body)?,
                "AUTH" => once(&mut params.auth, "AUTH", value, "<> or an address in xtext", auth)?,
                "RET" => once(&mut params.ret, "RET", value, "FULL or HDRS", ret)?,
                "ENVID" => once(&mut params.envid, "ENVID", value, "printable xtext", envid)?,
                "SMTPUTF8" => flag(&mut params.smtputf8, "SMTPUTF8", value)?,
                "REQUIRETLS" => flag(&mut params.requiretls, "REQUIRETLS", value)?,
                other => return Err(CommandError::UnknownParameter(other.to_owned())),
            }
        }
        Ok(params)
    }
}

impl RcptParams {
    /// True when none was given.
    pub fn is_empty(&self) -> bool {
        self.notify.is_none() && self.orcpt.is_none()
    }

    /// From the text behind the path.
    ///
    /// # Errors
    /// As for [`MailParams::parse`].
    pub fn parse(text: &str) -> Result<RcptParams, CommandError> {
        let mut params = RcptParams::default();
        for word in words(text) {
            let (name, value) = split(word);
            match name.to_ascii_uppercase().as_str() {
                "NOTIFY" => once(&mut params.notify, "NOTIFY", value, NOTIFY_FORM, notify)?,
                "ORCPT" => once(&mut params.orcpt, "ORCPT", value, "type;address in xtext", orcpt)?,
                other => return Err(CommandError::UnknownParameter(other.to_owned())),
            }
        }
        Ok(params)
    }
}

/// Digits only: no sign, no blank, at most 20.
pub(super) fn decimal(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.len() <= 20 && text.bytes().all(|b| b.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(BLANKS).filter(|word| !word.is_empty())
}

pub(super) fn split(word: &str) -> (&str, Option<&str>) {
    word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)))
}

pub(super) fn once<T>(
    slot: &mut Option<T>,
    name: &'static str,
    value: Option<&str>,
    expected: &'static str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<(), CommandError> {
    if slot.is_some() {
        return Err(CommandError::RepeatedParameter(name.to_owned()));
    }
    *slot = value.and_then(parse);
    if slot.is_some() { Ok(()) } else { Err(invalid(name, value, expected)) }
}

fn flag(slot: &mut bool, name: &'static str, value: Option<&str>) -> Result<(), CommandError> {
    match value {
        Some(_) => Err(invalid(name, value, "no value")),
        None if std::mem::replace(slot, true) => Err(CommandError::RepeatedParameter(name.to_owned())),
        None => Ok(()),
    }
}

fn invalid(name: &'static str, value: Option<&str>, expected: &'static str) -> CommandError {
    CommandError::ParameterValue { name, value: value.unwrap_or("").to_owned(), expected }
}

fn body(value: &str) -> Option<BodyType> {
    match value.to_ascii_uppercase().as_str() {
        "7BIT" => Some(BodyType::SevenBit),
        "8BITMIME" => Some(BodyType::EightBitMime),
        _ => None,
    }
}

fn auth(value: &str) -> Option<String> {
    (value == "<>" || xtext(value).is_some_and(|text| !text.is_empty())).then(|| value.to_owned())
}

fn ret(value: &str) -> Option<Ret> {
    match value.to_ascii_uppercase().as_str() {
        "FULL" => Some(Ret::Full),
        "HDRS" => Some(Ret::Headers),
        _ => None,
    }
}

fn envid(value: &str) -> Option<String> {
    xtext(value).filter(|text| !text.is_empty() && text.len() <= ENVID_OCTETS_MAX)
}

fn notify(value: &str) -> Option<Notify> {
    let mut notify = Notify::default();
    if value.eq_ignore_ascii_case("NEVER") {
        return Some(notify);
    }
    for event in value.split(',') {
        match event.to_ascii_uppercase().as_str() {
            "SUCCESS" => notify.success = true,
            "FAILURE" => notify.failure = true,
            "DELAY" => notify.delay = true,
            _ => return None,
        }
    }
    Some(notify)
}

fn orcpt(value: &str) -> Option<OriginalRecipient> {
    let (address_type, address) = value.split_once(';')?;
    let sound = !address_type.is_empty() && address_type.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    // RFC 6533 section 3: under `utf-8` the address may hold UTF-8 as it is.
    let utf8 = address_type.eq_ignore_ascii_case("utf-8") && !address.is_ascii();
    let address = if utf8 { address.to_owned() } else { xtext(address)? };
    let fits = !address.is_empty() && !address.chars().any(char::is_control) && address.len() <= ORCPT_OCTETS_MAX;
    (sound && fits).then(|| OriginalRecipient { address_type: address_type.to_owned(), address })
}

/// Decodes xtext (RFC 3461 section 4) to printable ASCII; `None` when it is neither.
fn xtext(text: &str) -> Option<String> {
    let mut decoded = String::with_capacity(text.len());
    let mut octets = text.bytes();
    while let Some(octet) = octets.next() {
        let octet = match octet {
            b'+' => hex(octets.next()?)? << 4 | hex(octets.next()?)?,
            b'=' => return None,
            other => other,
        };
        if !(b' '..=b'~').contains(&octet) {
            return None;
        }
        decoded.push(char::from(octet));
    }
    Some(decoded)
}

/// Upper-case hex only, as RFC 3461 has it.
fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

const NOTIFY_FORM: &str = "NEVER, or some of SUCCESS,FAILURE,DELAY";
/// RFC 3461 section 4.4.
const ENVID_OCTETS_MAX: usize = 100;
/// RFC 3461 section 4.2.
const ORCPT_OCTETS_MAX: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mail_parameters_are_kept() {
        let params = MailParams::parse(" size=1000 BODY=8bitmime SMTPUTF8 AUTH=<> RET=HDRS ENVID=a+2Bb RequireTLS ");
        let expected = MailParams {
            size: Some(1000),
            body: Some(BodyType::EightBitMime),
            smtputf8: true,
            auth: Some("<>".into()),
            ret: Some(Ret::Headers),
            envid: Some("a+b".into()),
            requiretls: true,
        };
        assert_eq!(params, Ok(expected));
    }

    #[test]
    fn rcpt_parameters_are_kept() {
        let params = RcptParams::parse("NOTIFY=success,DELAY ORCPT=rfc822;a+40b").unwrap();
        assert_eq!(params.notify, Some(Notify { success: true, failure: false, delay: true }));
        let original = OriginalRecipient { address_type: "rfc822".into(), address: "a@b".into() };
        assert_eq!(params.orcpt, Some(original));
        assert_eq!(RcptParams::parse("NOTIFY=NEVER").unwrap().notify, Some(Notify::default()));
    }

    #[test]
    fn wrong_values_name_the_parameter() {
        let wrong = [
            "SIZE",
            "SIZE=",
            "SIZE=-1",
            "SIZE=1k",
            "SIZE=99999999999999999999",
            "BODY=BINARYMIME",
            "BODY",
            "SMTPUTF8=1",
            "REQUIRETLS=1",
            "REQUIRETLS=",
            "RET=ALL",
            "ENVID=",
            "ENVID=a+0Db",
            "ENVID=a+0ab",
            "ENVID=a+2",
            "AUTH=",
            "ENVID=a=b",
        ];
        for text in wrong {
            let error = MailParams::parse(text);
            assert!(matches!(error, Err(CommandError::ParameterValue { .. })), "{text}: {error:?}");
        }
        for text in ["NOTIFY=", "NOTIFY=NEVER,DELAY", "ORCPT=a@b", "ORCPT=rfc822;", "ORCPT=;a", "ORCPT=rfc822;a+0A"] {
            let error = RcptParams::parse(text);
            assert!(matches!(error, Err(CommandError::ParameterValue { .. })), "{text}: {error:?}");
        }
        assert_eq!(MailParams::parse("FOO=1"), Err(CommandError::UnknownParameter("FOO".into())));
        assert_eq!(RcptParams::parse("SIZE=1"), Err(CommandError::UnknownParameter("SIZE".into())));
        assert_eq!(MailParams::parse("SIZE=1 size=1"), Err(CommandError::RepeatedParameter("SIZE".into())));
        assert_eq!(MailParams::parse("SMTPUTF8 SMTPUTF8"), Err(CommandError::RepeatedParameter("SMTPUTF8".into())));
        let twice = MailParams::parse("REQUIRETLS requiretls");
        assert_eq!(twice, Err(CommandError::RepeatedParameter("REQUIRETLS".into())));
    }

    #[test]
    fn lengths_hold_at_bound_and_bound_plus_one() {
        assert!(MailParams::parse(&format!("ENVID={}", "a".repeat(100))).is_ok());
        assert!(MailParams::parse(&format!("ENVID={}", "a".repeat(101))).is_err());
        assert!(RcptParams::parse(&format!("ORCPT=x;{}", "a".repeat(500))).is_ok());
        assert!(RcptParams::parse(&format!("ORCPT=x;{}", "a".repeat(501))).is_err());
    }
}
