//! What the helpers under `policy-extras` do to each message, in Rust: one call from Lua instead of a dozen.
//!
//! In: what a helper has read from its files, and the message. Out: the message has its tenant and campaign, or the helper hears
//! what is in the way and says so in its own words; who a message is from. The functions are for our helpers only, which
//! `require` them as `policy-extras.each_message`.

use crate::stored::{Fields, LuaTable};
use crate::types::message::LuaMessage;
use mlua::{Lua, Table, UserDataRef, UserDataRefMut};

/// What helpers `require`.
pub(crate) const NAME: &str = "policy-extras.each_message";

/// The table of functions.
pub(crate) fn table(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(0, 2)?;
    table.raw_set(
        "classify",
        lua.create_function(|_, (data, mut msg): (UserDataRef<LuaTable>, UserDataRefMut<LuaMessage>)| {
            classify(&data.0, &mut msg)
        })?,
    )?;
    table.raw_set(
        "author_domain",
        lua.create_function(|_, mut msg: UserDataRefMut<LuaMessage>| author_domain(&mut msg))?,
    )?;
    Ok(table)
}

/// What the helper of queues has still to do: what is the case, the tenant, the campaign.
type Rest = (Option<&'static str>, Option<String>, Option<String>);

/// Puts campaign and tenant on a message, from its header fields, as the data of `policy-extras.queue` has it. What the helper
/// then hears: nothing, that the tenant is `unknown` or `guarded` (by `require_authz`), or that the domain of the first recipient
/// is `configured`, maybe with a route.
fn classify(data: &Fields, msg: &mut LuaMessage) -> mlua::Result<Rest> {
    let campaign = taken(data, msg, "campaign_header", "remove_campaign_header")?;
    if let Some(campaign) = &campaign {
        msg.draft()?.meta.set("campaign", campaign.as_str());
    }
    let named = taken(data, msg, "tenant_header", "remove_tenant_header")?;
    let tenant = named.as_deref().or_else(|| data.text("default_tenant"));
    if let Some(tenant) = tenant {
        let Some(known) = data.table("tenants").and_then(|tenants| tenants.table(tenant)) else {
            return Ok((Some("unknown"), named, campaign));
        };
        if known.is_set("require_authz") {
            return Ok((Some("guarded"), Some(tenant.to_owned()), campaign));
        }
        msg.draft()?.meta.set("tenant", tenant);
    }
    let tenant = tenant.map(str::to_owned);
    let first = msg.draft()?.envelope.recipients.first();
    let is_configured = first.is_some_and(|first| data.has_domain("domains", &first.domain().to_ascii_lowercase()));
    Ok((is_configured.then_some("configured"), tenant, campaign))
}

/// The value of the header field that an option names; the field goes if another option says so.
fn taken(data: &Fields, msg: &mut LuaMessage, option: &str, remove: &str) -> mlua::Result<Option<String>> {
    let Some(name) = data.text(option) else { return Ok(None) };
    let draft = msg.draft()?;
    let value = draft.headers().first_value(name);
    if value.is_some() && data.is_set(remove) {
        let (block, raw) = draft.edit_headers();
        block.remove_all(raw, name);
    }
    Ok(value)
}

/// The domain of the first author, in lower case; nil when there is none that can be read. Of several the first counts: RFC 6376
/// does not say, and one of them has to.
fn author_domain(msg: &mut LuaMessage) -> mlua::Result<Option<String>> {
    let authors = msg.draft()?.headers().addresses("From").ok().flatten();
    Ok(authors.and_then(|authors| authors.mailboxes().next().map(|author| author.domain.to_ascii_lowercase())))
}
