//! A message of another node of a cluster, as that would send it to `/api/xfer/inject/v1`.
//!
//! Written by hand: nodes of any version can be played with it, and a mistake of the program is not made here too.

use serde_json::json;

/// A message for r@x.test of node 0c0c0c0c-..., whose id ends in this octet.
pub fn parcel(last: u8) -> Vec<u8> {
    let text = |text: &str| [&(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat();
    let meta = json!({"tenant": null, "xfer_queue_info": {"tenant": "shop", "num_attempts": 7, "due": 0}}).to_string();
    let state = [&[1][..], &text("a@source.test"), &1u32.to_le_bytes(), &text("r@x.test"), &text(&meta)].concat();
    let part = |octets: &[u8]| [&(octets.len() as u32).to_le_bytes()[..], octets].concat();
    let head = b"Subject: x\r\n\r\n";
    [b"postrider-xfer-1\n", &[0x0c; 16][..], &id(last), &part(&state), &part(head), b"Hello.\r\n"].concat()
}

fn id(last: u8) -> [u8; 16] {
    let mut id = [0x0e; 16];
    (id[6], id[7], id[8], id[15]) = (0x11, 0xee, 0x8e, last);
    id
}

/// The last octet of the message that tests name.
pub const ORIGINAL: u8 = 0x0e;
