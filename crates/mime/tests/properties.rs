//! Properties of the header block over arbitrary bytes: nothing panics, nothing is lost, and what is
//! written reads back as what was meant.

use mime::{AddressList, HeaderBlock, HeaderIndex, ValueForm, decode_unstructured};
use proptest::prelude::*;

/// Bytes that make header structure likely, arbitrary ones among them.
fn header_soup() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => Just(b"\r\n".to_vec()),
        1 => Just(b"\n".to_vec()),
        1 => Just(b"\r".to_vec()),
        4 => Just(b"Subject: hello".to_vec()),
        2 => Just(b"X-Foo:".to_vec()),
        2 => Just(b" folded".to_vec()),
        1 => Just(b"=?utf-8?q?=C3=BC?=".to_vec()),
        1 => Just(b"<a@b>, \"q\" (c) [d] x: y;".to_vec()),
        2 => proptest::collection::vec(any::<u8>(), 0..6),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|p| p.concat())
}

/// Every field as (name, whole bytes with the final line end).
fn fields(raw: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    HeaderIndex::parse(raw).fields().iter().map(|f| (raw[f.name()].to_vec(), raw[f.whole()].to_vec())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn the_index_covers_the_message(raw in header_soup()) {
        let index = HeaderIndex::parse(&raw);
        let mut at = 0;
        for field in index.fields() {
            prop_assert_eq!(field.whole().start, at);
            at = field.whole().end;
            prop_assert!(field.name().end <= field.value().start && field.value().end <= at);
        }
        prop_assert_eq!(at, index.header_len());
        prop_assert_eq!(index.separator(), at..index.body_start());
        prop_assert!(index.body_start() <= raw.len());
        prop_assert!(matches!(&raw[index.separator()], b"" | b"\n" | b"\r\n"));
    }

    #[test]
    fn an_untouched_block_is_written_as_it_came(raw in header_soup()) {
        let block = HeaderBlock::parse(&raw);
        let mut out = Vec::new();
        block.write_head_to(&raw, &mut out);
        out.extend_from_slice(&raw[block.body_start()..]);
        prop_assert_eq!(out, raw);
    }

    #[test]
    fn a_written_block_reads_back(raw in header_soup(), value in "[ -~]{0,40}", take in 0..4) {
        let mut block = HeaderBlock::parse(&raw);
        if take & 1 == 1 {
            block.remove_all(&raw, "subject");
        }
        if take & 2 == 2 {
            block.append("X-Last", value.as_bytes(), ValueForm::Encode).expect("valid header");
        }
        block.prepend("X-New", value.as_bytes(), ValueForm::Raw).expect("valid header");
        let meant: Vec<(Vec<u8>, Vec<u8>)> = block
            .view(&raw)
            .iter_all()
            .map(|f| (f.name.to_vec(), f.whole.to_vec()))
            .collect();
        let mut out = Vec::new();
        block.write_head_to(&raw, &mut out);
        let head_len = out.len();
        out.extend_from_slice(&raw[block.body_start()..]);
        let mut read = fields(&out);
        // an unterminated last line is ended when something follows it
        for ((_, meant), (_, read)) in meant.iter().zip(&mut read) {
            if !meant.ends_with(b"\n") && read.ends_with(b"\r\n") {
                read.truncate(read.len() - 2);
            }
        }
        prop_assert_eq!(read, meant);
        prop_assert_eq!(HeaderIndex::parse(&out).body_start(), head_len);
    }

    #[test]
    fn encoded_text_decodes_to_itself(text in "\\PC{0,200}") {
        let mut block = HeaderBlock::parse(b"");
        block.prepend("X", text.as_bytes(), ValueForm::Encode).expect("no controls in it");
        let whole: Vec<u8> = block.view(b"").iter().next().expect("one field").whole.to_vec();
        prop_assert!(whole.split(|&b| b == b'\n').all(|line| line.len() <= 903));
        // ASCII is not encoded, so text that looks encoded reads as that
        if !text.contains("=?") {
            let trimmed = if text.is_ascii() { text.trim_ascii() } else { text.trim() };
            prop_assert_eq!(block.view(b"").first_value("x"), Some(trimmed.to_owned()));
        }
    }

    #[test]
    fn readers_never_panic(raw in header_soup()) {
        let _ = decode_unstructured(&raw);
        let block = HeaderBlock::parse(&raw);
        let _ = block.view(&raw).all();
        let _ = block.view(&raw).import_x(None);
        if let Ok(list) = AddressList::parse(&raw) {
            for mailbox in list.mailboxes() {
                let again = AddressList::parse(mailbox.email().as_bytes());
                if !mailbox.email().contains(char::is_control) && !mailbox.email().contains('\u{fffd}') {
                    let again = again.expect("an address that was read can be written");
                    prop_assert_eq!(&again.single().expect("one").user, &mailbox.user);
                }
            }
        }
    }
}
