//! Every type of record, byte for byte as it stands in the log.
//!
//! The lines are written by hand from the description of KumoMTA's log. Each is compared with what is written and then
//! read back. A change of a name, of the order, or of null against left out shows here.

use record::*;
use serde_json::{Value, json};

const ID: &str = "d7ef132b5d7711eea8c8000c29c33806";
const NODE: &str = "557f3ad4-2c8c-11ee-976e-782d7e12e173";
/// 2026-08-04T12:34:56.789012Z
const NOW: i64 = 1_785_846_896_789_012;
/// 2026-08-04T12:34:50Z
const CREATED: i64 = 1_785_846_890_000_000;

const TIMES: &str = r#""timestamp":1785846896,"event_time":"2026-08-04T12:34:56.789012Z","created":1785846890,"created_time":"2026-08-04T12:34:50Z""#;

fn blank(kind: RecordType, response: Response) -> LogRecord {
    let (now, created) = (Timestamp::from_unix_micros(NOW), Timestamp::from_unix_micros(CREATED));
    LogRecord { nodeid: NODE.into(), ..LogRecord::new(kind, now, created, response) }
}

fn sample(kind: RecordType, response: Response) -> LogRecord {
    LogRecord {
        id: ID.into(),
        sender: "from@example.com".into(),
        recipient: "to@example.org".into(),
        queue: "c:t@example.org".into(),
        size: 1047,
        reception_protocol: Some("ESMTP".into()),
        ..blank(kind, response)
    }
}

/// A sample as a delivery attempt over SMTP.
fn attempt(kind: RecordType, response: Response) -> LogRecord {
    LogRecord {
        site: "ip-1->mx.example.org.@smtp_client".into(),
        peer_address: peer("mx.example.org.", "192.0.2.1"),
        egress_pool: Some("pool-1".into()),
        egress_source: Some("ip-1".into()),
        source_address: Some(SourceAddress { address: "192.0.2.9:41234".into(), ..Default::default() }),
        delivery_protocol: Some("ESMTP".into()),
        ..sample(kind, response)
    }
}

fn peer(name: &str, addr: &str) -> Option<PeerAddress> {
    Some(PeerAddress { name: name.into(), addr: addr.into(), is_secure: false })
}

#[track_caller]
fn golden(record: LogRecord, want: &str) {
    let want = want.replace("TIMES", TIMES).replace("ID", ID).replace("NODE", NODE);
    let mut out = b"before".to_vec();
    record.write_json_line(&mut out);
    assert_eq!(String::from_utf8(out).unwrap(), format!("before{want}\n"));
    assert_eq!(serde_json::to_string(&record).unwrap(), want, "both ways of writing agree");
    assert_eq!(serde_json::from_str::<LogRecord>(&want).unwrap(), record);
}

#[test]
fn reception() {
    let mut record = sample(RecordType::Reception, Response::new(250, None, ""));
    record.peer_address = peer("client.example", "192.0.2.7");
    record.meta = json!({"tenant": "t", "x_n": 1}).as_object().unwrap().clone();
    record.headers = json!({"Subject": "hello", "x-tag": ["a", "b"]}).as_object().unwrap().clone();
    record.tls_cipher = Some("TLS13_AES_256_GCM_SHA384".into());
    record.tls_protocol_version = Some("TLSv1_3".into());
    record.tls_peer_subject_name = Some(vec!["C=US".into(), "CN=client".into()]);
    record.session_id = Some("9a6f0d3e-0000-4000-8000-000000000001".into());
    golden(
        record,
        r#"{"type":"Reception","id":"ID","sender":"from@example.com","recipient":"to@example.org","queue":"c:t@example.org","site":"","size":1047,"response":{"code":250,"enhanced_code":null,"content":"","command":null},"peer_address":{"name":"client.example","addr":"192.0.2.7"},TIMES,"num_attempts":0,"bounce_classification":"Uncategorized","egress_pool":null,"egress_source":null,"source_address":null,"feedback_report":null,"meta":{"tenant":"t","x_n":1},"headers":{"Subject":"hello","x-tag":["a","b"]},"delivery_protocol":null,"reception_protocol":"ESMTP","nodeid":"NODE","tls_cipher":"TLS13_AES_256_GCM_SHA384","tls_protocol_version":"TLSv1_3","tls_peer_subject_name":["C=US","CN=client"],"session_id":"9a6f0d3e-0000-4000-8000-000000000001"}"#,
    );
}

#[test]
fn delivery_to_several() {
    let mut record = attempt(RecordType::Delivery, Response::from_text(250, "2.0.0 OK\r\n2.0.0 queued as 4242"));
    record.recipient = vec!["to@example.org".to_owned(), "b@example.org".to_owned()].into();
    record.peer_address.as_mut().unwrap().is_secure = true;
    record.source_address = Some(SourceAddress {
        address: "192.0.2.9:0".into(),
        server: Some("10.0.0.1:5000".into()),
        protocol: Some(ProxyProtocol::HaProxy),
    });
    record.provider_name = Some("example".into());
    golden(
        record,
        r#"{"type":"Delivery","id":"ID","sender":"from@example.com","recipient":["to@example.org","b@example.org"],"queue":"c:t@example.org","site":"ip-1->mx.example.org.@smtp_client","size":1047,"response":{"code":250,"enhanced_code":{"class":2,"subject":0,"detail":0},"content":"OK queued as 4242","command":null},"peer_address":{"name":"mx.example.org.","addr":"192.0.2.1","is_secure":true},TIMES,"num_attempts":0,"bounce_classification":"Uncategorized","egress_pool":"pool-1","egress_source":"ip-1","source_address":{"address":"192.0.2.9:0","server":"10.0.0.1:5000","protocol":"haproxy"},"feedback_report":null,"meta":{},"headers":{},"delivery_protocol":"ESMTP","reception_protocol":"ESMTP","nodeid":"NODE","provider_name":"example"}"#,
    );
}

#[test]
fn bounce() {
    let mut record = attempt(RecordType::Bounce, Response::from_text(550, "5.1.1 \"to\" unknown\n5.1.1 here\\"));
    record.bounce_classification = "InvalidRecipient".into();
    golden(
        record,
        r#"{"type":"Bounce","id":"ID","sender":"from@example.com","recipient":"to@example.org","queue":"c:t@example.org","site":"ip-1->mx.example.org.@smtp_client","size":1047,"response":{"code":550,"enhanced_code":{"class":5,"subject":1,"detail":1},"content":"\"to\" unknown here\\","command":null},"peer_address":{"name":"mx.example.org.","addr":"192.0.2.1"},TIMES,"num_attempts":0,"bounce_classification":"InvalidRecipient","egress_pool":"pool-1","egress_source":"ip-1","source_address":{"address":"192.0.2.9:41234"},"feedback_report":null,"meta":{},"headers":{},"delivery_protocol":"ESMTP","reception_protocol":"ESMTP","nodeid":"NODE"}"#,
    );
}

#[test]
fn transient_failure() {
    let content = "KumoMTA internal: failed to connect to any candidate hosts: timeout";
    let mut record = attempt(RecordType::TransientFailure, Response::new(400, None, content));
    record.num_attempts = 3;
    record.peer_address = None;
    record.source_address = None;
    golden(
        record,
        r#"{"type":"TransientFailure","id":"ID","sender":"from@example.com","recipient":"to@example.org","queue":"c:t@example.org","site":"ip-1->mx.example.org.@smtp_client","size":1047,"response":{"code":400,"enhanced_code":null,"content":"KumoMTA internal: failed to connect to any candidate hosts: timeout","command":null},"peer_address":null,TIMES,"num_attempts":3,"bounce_classification":"Uncategorized","egress_pool":"pool-1","egress_source":"ip-1","source_address":null,"feedback_report":null,"meta":{},"headers":{},"delivery_protocol":"ESMTP","reception_protocol":"ESMTP","nodeid":"NODE"}"#,
    );
}

#[test]
fn rejection() {
    let response = Response::from_text(550, "5.7.1 relaying not permitted").to_command("RCPT TO:<x@example.net>\r\n");
    let mut record = blank(RecordType::Rejection, response);
    record.created = record.timestamp;
    record.peer_address = peer("client.example", "192.0.2.7");
    golden(
        record,
        r#"{"type":"Rejection","id":"","sender":"","recipient":"","queue":"","site":"","size":0,"response":{"code":550,"enhanced_code":{"class":5,"subject":7,"detail":1},"content":"relaying not permitted","command":"RCPT TO:<x@example.net>\r\n"},"peer_address":{"name":"client.example","addr":"192.0.2.7"},"timestamp":1785846896,"event_time":"2026-08-04T12:34:56.789012Z","created":1785846896,"created_time":"2026-08-04T12:34:56.789012Z","num_attempts":0,"bounce_classification":"Uncategorized","egress_pool":null,"egress_source":null,"source_address":null,"feedback_report":null,"meta":{},"headers":{},"delivery_protocol":null,"reception_protocol":null,"nodeid":"NODE"}"#,
    );
}

#[test]
fn out_of_band_bounce() {
    let mut record = sample(RecordType::OOB, Response::from_text(550, "5.1.1 User unknown"));
    record.size = 0;
    record.peer_address = peer("mx.example.org", "0.0.0.0");
    golden(
        record,
        r#"{"type":"OOB","id":"ID","sender":"from@example.com","recipient":"to@example.org","queue":"c:t@example.org","site":"","size":0,"response":{"code":550,"enhanced_code":{"class":5,"subject":1,"detail":1},"content":"User unknown","command":null},"peer_address":{"name":"mx.example.org","addr":"0.0.0.0"},TIMES,"num_attempts":0,"bounce_classification":"Uncategorized","egress_pool":null,"egress_source":null,"source_address":null,"feedback_report":null,"meta":{},"headers":{},"delivery_protocol":null,"reception_protocol":"ESMTP","nodeid":"NODE"}"#,
    );
}

#[test]
fn feedback() {
    let mut record = sample(RecordType::Feedback, Response::new(250, None, ""));
    record.feedback_report = Some(Box::new(FeedbackReport {
        feedback_type: "abuse".into(),
        user_agent: "SomeGenerator/1.0".into(),
        version: "1".into(),
        arrival_date: Timestamp::parse_rfc3339("2005-03-08T18:00:00Z"),
        original_mail_from: Some("<from@example.net>".into()),
        reporting_mta: Some(RemoteMta { mta_type: "dns".into(), name: "mail.example.com".into() }),
        source_ip: Some("192.0.2.1".into()),
        authentication_results: vec!["mail.example.com; spf=fail".into()],
        original_rcpto_to: vec!["<user@example.com>".into()],
        reported_domain: vec!["example.net".into()],
        reported_uri: vec!["http://example.net/".into()],
        extensions: [("removal-recipient".to_owned(), vec!["user@example.com".into()])].into(),
        original_message: Some(vec![0xff, 0x0a].into()),
        supplemental_trace: Some(json!({"recipient": "user@example.com"})),
        ..Default::default()
    }));
    golden(
        record,
        r#"{"type":"Feedback","id":"ID","sender":"from@example.com","recipient":"to@example.org","queue":"c:t@example.org","site":"","size":1047,"response":{"code":250,"enhanced_code":null,"content":"","command":null},"peer_address":null,TIMES,"num_attempts":0,"bounce_classification":"Uncategorized","egress_pool":null,"egress_source":null,"source_address":null,"feedback_report":{"feedback_type":"abuse","user_agent":"SomeGenerator/1.0","version":"1","arrival_date":"2005-03-08T18:00:00Z","incidents":null,"original_envelope_id":null,"original_mail_from":"<from@example.net>","reporting_mta":{"mta_type":"dns","name":"mail.example.com"},"source_ip":"192.0.2.1","authentication_results":["mail.example.com; spf=fail"],"original_rcpto_to":["<user@example.com>"],"reported_domain":["example.net"],"reported_uri":["http://example.net/"],"extensions":{"removal-recipient":["user@example.com"]},"original_message":[255,10],"supplemental_trace":{"recipient":"user@example.com"}},"meta":{},"headers":{},"delivery_protocol":null,"reception_protocol":"ESMTP","nodeid":"NODE"}"#,
    );
}

/// The types that differ only in site and response.
#[test]
fn records_without_a_peer() {
    let delayed = "Context: ReadyQueueWasFull. Next due in 20m at 2026-08-04T12:54:56Z";
    for (kind, site, response, written) in [
        (
            RecordType::Expiration,
            "localhost",
            Response::from_text(551, "5.4.7 too late"),
            r#"{"code":551,"enhanced_code":{"class":5,"subject":4,"detail":7},"content":"too late","command":null}"#,
        ),
        (
            RecordType::AdminBounce,
            "localhost",
            Response::from_text(551, "5.7.1 Administrator bounced with reason: cleanup"),
            r#"{"code":551,"enhanced_code":{"class":5,"subject":7,"detail":1},"content":"Administrator bounced with reason: cleanup","command":null}"#,
        ),
        (
            RecordType::AdminRebind,
            "",
            Response::new(250, None, "Rebound from a to b: why"),
            r#"{"code":250,"enhanced_code":null,"content":"Rebound from a to b: why","command":null}"#,
        ),
        (
            RecordType::DeferredInjectionRebind,
            "",
            Response::new(250, None, ""),
            r#"{"code":250,"enhanced_code":null,"content":"","command":null}"#,
        ),
        (
            RecordType::Delayed,
            "",
            Response::new(400, None, delayed),
            r#"{"code":400,"enhanced_code":null,"content":"Context: ReadyQueueWasFull. Next due in 20m at 2026-08-04T12:54:56Z","command":null}"#,
        ),
        (
            RecordType::XferOut,
            "",
            Response::new(250, None, format!("new id is {ID}")),
            r#"{"code":250,"enhanced_code":null,"content":"new id is ID","command":null}"#,
        ),
        (
            RecordType::XferIn,
            "",
            Response::new(250, None, ""),
            r#"{"code":250,"enhanced_code":null,"content":"","command":null}"#,
        ),
    ] {
        let record = LogRecord { site: site.into(), num_attempts: 2, ..sample(kind, response) };
        let want = format!(
            r#"{{"type":"{kind}","id":"ID","sender":"from@example.com","recipient":"to@example.org","queue":"c:t@example.org","site":"{site}","size":1047,"response":{written},"peer_address":null,TIMES,"num_attempts":2,"bounce_classification":"Uncategorized","egress_pool":null,"egress_source":null,"source_address":null,"feedback_report":null,"meta":{{}},"headers":{{}},"delivery_protocol":null,"reception_protocol":"ESMTP","nodeid":"NODE"}}"#
        );
        golden(record, &want);
    }
}

#[test]
fn lines_of_other_ages_are_read() {
    let record = attempt(RecordType::Delivery, Response::new(250, None, "ok"));
    let mut line: Value = serde_json::to_value(record).unwrap();
    let map = line.as_object_mut().unwrap();
    for absent in ["event_time", "created_time", "source_address", "egress_pool", "headers", "bounce_classification"] {
        map.remove(absent);
    }
    map.insert("some_new_field".into(), json!(1));
    let record: LogRecord = serde_json::from_value(line.clone()).unwrap();
    assert_eq!(record.timestamp.unix_micros(), NOW / 1_000_000 * 1_000_000);
    assert_eq!(record.bounce_classification, UNCATEGORIZED);
    line.as_object_mut().unwrap().remove("timestamp");
    let error = serde_json::from_value::<LogRecord>(line).unwrap_err().to_string();
    assert_eq!(error, "missing field `timestamp`");
}
