//! Templates filled in with what anybody may write into an envelope.

use super::*;
use clock::WallTime;
use message::{Draft, Envelope, IdGenerator, Meta};
use smtp_wire::ReversePath;

fn template(path: &str) -> Result<Template, PlaceError> {
    Template::new(&MaildirProtocol { maildir_path: path.to_owned(), dir_mode: None, file_mode: None })
}

fn place(path: &str, queue: &str, recipient: &str) -> Result<String, PlaceError> {
    let recipient = Mailbox::parse(recipient).expect("an address");
    let mut meta = Meta::new();
    meta.set("folder", "in/box");
    meta.set("line", "two\nlines");
    meta.set("user", "jo");
    let envelope = Envelope {
        sender: ReversePath::parse("from@source.test").expect("an address"),
        recipients: vec![recipient.clone()],
        dsn: None,
        tls: message::TlsDemand::Usual,
    };
    let id = IdGenerator::new([0; 6], 0).next(WallTime::EPOCH);
    let draft = Draft::new(id, envelope, meta, bytes::Bytes::new().into(), WallTime::EPOCH);
    let placed = template(path)?.place(&Lent { draft, queue: queue.into() }, &recipient)?;
    Ok(placed.display().to_string())
}

#[test]
fn every_variable_has_its_value() {
    for (path, expected) in [
        ("/m/{{ domain_part }}/{{ local_part }}", "/m/Example.test/Jo"),
        ("/m/{{ queue }}", "/m/c:t@example.test!route.test"),
        ("/m/{{ campaign }}/{{ tenant }}/{{ domain }}/{{ routing_domain }}", "/m/c/t/example.test/route.test"),
        ("/m/{{ email }}", "/m/Jo@Example.test"),
        (
            "/m/{{ sender_local_part }}-{{ sender_domain_part }}-{{ sender_email }}",
            "/m/from-source.test-from@source.test",
        ),
        ("/m/{{ meta.user }}/", "/m/jo/"),
        ("/m/{{ meta.folder | safe }}", "/m/in/box"),
        ("/m/{{ meta.absent or 'nobody' }}", "/m/nobody"),
        ("/m/{{ local_part | lower }}", "/m/jo"),
        ("/m/{% if meta.user %}{{ meta.user }}/{% endif %}", "/m/jo/"),
        ("/m/x{{ meta.absent }}", "/m/x"),
        ("m", "m"),
    ] {
        assert_eq!(place(path, "c:t@example.test!route.test", "Jo@Example.test").as_deref(), Ok(expected), "{path}");
    }
    let absent = place("/m/{{ campaign or 'none' }}/{{ tenant or 'no' }}", "example.test", "jo@example.test");
    assert_eq!(absent.as_deref(), Ok("/m/none/no"));
}

#[test]
fn no_value_leaves_its_component() {
    let refused = |path: &str, recipient: &str| {
        let placed = place(path, "example.test", recipient);
        assert!(matches!(placed, Err(PlaceError::Value(_))), "{path} for {recipient}: {placed:?}");
    };
    for local in [r#""../../etc""#, r#""..""#, r#"".""#, "a/b", "/etc/passwd", r#""a\/b""#] {
        for path in ["/m/{{ local_part }}", "/m/{{ local_part }}/x", "{{ local_part }}", "/m/{{ local_part | upper }}"]
        {
            refused(path, &format!("{local}@example.test"));
        }
    }
    refused("/m/{{ email }}", "a/b@example.test");
    refused("/m/{{ 'x' ~ local_part }}", "\"a/../../b\"@example.test");
    refused("/m/{{ local_part | replace('x', 'y') }}", "a/b@example.test");
    refused("/m/{{ [local_part, 'x'] | join('-') }}", "a/b@example.test");
    refused("/m/{{ meta.folder }}", "a@example.test");
    refused("/m/{{ meta.line }}", "a@example.test");
    refused("/m/{% for x in [local_part] %}{{ x }}{% endfor %}", "a/b@example.test");
    let long = "x".repeat(NAME_OCTETS_MAX);
    assert!(place("/m/{{ local_part }}", "example.test", &format!("{long}@example.test")).is_ok());
    refused("/m/{{ local_part ~ 'x' }}", &format!("{long}@example.test"));
}

#[test]
fn a_path_that_is_none_is_the_operators_affair() {
    for path in [
        "/m//x",
        "/m/../x",
        "/m/./x",
        "",
        "/",
        "/m/{{ meta.absent }}/x",
        "/m/{{ meta.absent }}",
        "/m/{{ meta.absent }}/",
        "/m/a\0b",
        "/m/.{{ meta.absent }}",
        "/m/.{{ meta.absent }}./x",
        "/m/{{ local_part | e }}/..",
    ] {
        let placed = place(path, "example.test", "jo@example.test");
        assert!(matches!(placed, Err(PlaceError::Shape(_))), "{path}: {placed:?}");
    }
    for path in [
        "/m/{{ local_part",
        "/m/{{ unknown() }}",
        "/m/{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
    ] {
        let placed = place(path, "example.test", "jo@example.test");
        assert!(matches!(placed, Err(PlaceError::Template(_))), "{path}: {placed:?}");
    }
}
