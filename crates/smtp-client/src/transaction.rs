//! Mail transactions: `[RSET] MAIL RCPT.. DATA content`, and what each reply does.
//!
//! A job has one transaction or, with many recipients, several. One is planned when the last
//! one ended or its content is queued, so its envelope can travel behind the final dot. A
//! recipient is delivered only here, in [`Session::on_dot`] and [`Session::on_lmtp_dot`]:
//! 2xx to a dot that was written to its end, for recipients accepted in that transaction.
//!
//! With PIPELINING DATA may be accepted though every RCPT failed. RFC 2920 section 3.1 then asks
//! for a bare dot; the server's reply to it changes nothing for anybody.

use crate::classify;
use crate::command;
use crate::failure::{Failure, internal};
use crate::flight::{Flight, Standing};
use crate::pipeline::Stage;
use crate::session::Session;
use crate::{Job, RecipientResult, Verdict};
use smtp_wire::dots::Dots;
use smtp_wire::{EnhancedCode, Mailbox, Reply};
use std::borrow::Cow;
use std::sync::Arc;

impl Session {
    /// Takes a job in hand, or settles it at once when this server cannot take it.
    pub(crate) fn take_job(&mut self, job: Job) {
        let mut flight = Flight::new(self.next_serial, job);
        flight.verp = self.settings.verp;
        // A report is not lost for want of it (RFC 8689 section 5).
        let may_do_without = flight.sender.0.is_none();
        flight.requiretls &= self.may_require_tls() || !may_do_without;
        if let Some(reply) = self.refuse_locally(&flight) {
            flight.settle_where(|_| true, &local_refusal(reply));
        } else if flight.smtputf8 && !self.capabilities.smtputf8 && !self.settings.ignore_8bit_checks {
            refuse_non_ascii(&mut flight);
        }
        if !flight.is_waiting() {
            self.outcomes.push_back(flight.into_outcome());
            return;
        }
        let serial = flight.serial;
        self.next_serial += 1;
        self.flights.push_back(flight);
        self.plan_transaction(serial);
    }

    pub(crate) fn on_rset(&mut self, reply: Reply) {
        if !reply.is_success() {
            // Whatever state the server is in, it is not the one MAIL needs.
            self.fail_at(Stage::Rset, Failure::Refused(reply));
        }
    }

    pub(crate) fn on_mail(&mut self, serial: u64, reply: Reply) {
        let Some(flight) = self.flight(serial) else { return };
        flight.answered = true;
        if reply.is_success() {
            return;
        }
        let result = answer(classify::refusal(&reply), Arc::new(reply), Stage::Mail, flight);
        flight.settle_where(|s| matches!(s, Standing::Waiting | Standing::InBatch), &result);
        self.pipeline.drop_unsent(serial);
        self.end_unless_outstanding(serial);
    }

    pub(crate) fn on_rcpt(&mut self, serial: u64, place: u32, reply: Reply) {
        let pipelining = self.pipelining();
        // Not in the batch any more: its MAIL was refused, whatever the server says to the rest.
        let Some(flight) = self.flight(serial).filter(|f| f.is_in_batch(place)) else {
            return self.end_unless_outstanding(serial);
        };
        let accepted_before = flight.accepted().next().is_some();
        if reply.is_success() {
            flight.accept(place);
        } else if classify::is_too_many(&reply) && accepted_before {
            flight.put_back(place);
            if !pipelining {
                self.put_back_unsent(serial);
            }
        } else {
            let verdict = classify::refused_rcpt(&reply);
            let result = answer(verdict, Arc::new(reply), Stage::Rcpt(place), flight);
            flight.settle(place, result);
        }
        self.after_rcpt(serial);
    }

    pub(crate) fn on_data(&mut self, serial: u64, reply: Reply) {
        let Some(flight) = self.flight(serial) else { return };
        let accepted = flight.accepted().next().is_some();
        if reply.code == 354 {
            return self.send_content(serial, accepted);
        }
        let in_place = !reply.is_success() && reply.code / 100 != 3;
        let result = answer(classify::refusal(&reply), Arc::new(reply), Stage::Data, flight);
        flight.settle_where(|s| matches!(s, Standing::Accepted), &result);
        match in_place {
            true => self.end_transaction(serial),
            false => {
                self.fail_at(Stage::Data, Failure::Violation("the server answered DATA with neither 354 nor a refusal"))
            }
        }
    }

    pub(crate) fn on_dot(&mut self, serial: u64, reply: Reply) {
        let in_place = reply.code / 100 != 3;
        self.settle_dot(serial, None, reply);
        match in_place {
            true => self.end_unless_outstanding(serial),
            false => self.fail_at(Stage::Dot, Failure::Violation("the server answered the final dot with 3xx")),
        }
    }

    pub(crate) fn on_lmtp_dot(&mut self, serial: u64, place: u32, reply: Reply) {
        let in_place = reply.code / 100 != 3;
        self.settle_dot(serial, Some(place), reply);
        match in_place {
            true => self.end_unless_outstanding(serial),
            false => self.fail_at(Stage::Dot, Failure::Violation("the server answered the final dot with 3xx")),
        }
    }

    /// A reply came before its command was written to its end. To unfinished content it can be
    /// an honest refusal; success it cannot be. Either way the session lost its place.
    pub(crate) fn take_early_reply(&mut self, stage: Stage, serial: u64, reply: Reply) {
        let refusal = reply.is_transient() || reply.is_permanent();
        match stage {
            Stage::Dot if refusal => self.settle_dot(serial, None, reply),
            Stage::LmtpDot(place) if refusal => self.settle_dot(serial, Some(place), reply),
            _ => {}
        }
        self.fail(Failure::Violation("the server replied before the command was sent"));
    }

    /// Plans the next transaction of a flight.
    fn plan_transaction(&mut self, serial: u64) {
        let limit = self.batch_limit;
        let Some(flight) = self.flights.iter_mut().find(|f| f.serial == serial) else { return };
        let is_first_of_connection = serial == 0 && !flight.answered;
        let batch = flight.next_batch(limit);
        if self.must_reset || (self.settings.enable_rset && !is_first_of_connection) {
            self.pipeline.plan(Stage::Rset, serial);
        }
        self.must_reset = false;
        self.pipeline.plan(Stage::Mail, serial);
        for place in batch {
            self.pipeline.plan(Stage::Rcpt(place), serial);
        }
        self.pipeline.plan(Stage::Data, serial);
    }

    /// Queues the content, or a bare dot when nobody was accepted, and expects the replies.
    fn send_content(&mut self, serial: u64, accepted: bool) {
        let lmtp = self.settings.use_lmtp;
        let Some(flight) = self.flights.iter_mut().find(|f| f.serial == serial) else { return };
        if accepted {
            self.output.put_shared(&flight.content.head, &Dots::default());
            self.output.put_shared(&flight.content.body, &flight.content.dots);
            self.output.put(flight.content.end);
        } else {
            self.output.put(b".\r\n");
        }
        let end = self.output.queued();
        flight.dot_end = Some(end);
        match (lmtp, accepted) {
            (false, _) => self.pipeline.sent_now(Stage::Dot, serial, end),
            (true, true) => {
                flight.accepted().for_each(|place| self.pipeline.sent_now(Stage::LmtpDot(place), serial, end))
            }
            // One reply per accepted recipient is none: there is no telling when it is over.
            (true, false) => {
                return self.fail_at(Stage::Data, Failure::Violation("the server accepted DATA without a recipient"));
            }
        }
        if flight.is_waiting() {
            self.plan_transaction(serial);
        }
    }

    /// Judges the recipients of a final dot: one in LMTP, else all accepted ones.
    fn settle_dot(&mut self, serial: u64, place: Option<u32>, reply: Reply) {
        let Some(flight) = self.flight(serial) else { return };
        // 3xx is not an answer to a dot: the real one may be a 250 still under way.
        let verdict = if reply.code / 100 == 3 { Verdict::Unknown } else { classify::verdict(&reply) };
        let result = answer(verdict, Arc::new(reply), Stage::Dot, flight);
        match place {
            Some(place) => flight.settle(place, result),
            None => flight.settle_where(|s| matches!(s, Standing::Accepted), &result),
        }
    }

    /// Behind a RCPT reply: without pipelining, DATA is not sent when nobody was accepted; the
    /// server's limit on recipients is remembered.
    fn after_rcpt(&mut self, serial: u64) {
        let more = self.pipeline.has(serial, |s| matches!(s, Stage::Rcpt(_)));
        let Some(flight) = self.flight(serial) else { return };
        if more {
            return;
        }
        let accepted = flight.accepted().count();
        if flight.was_cut_short() {
            self.batch_limit = self.batch_limit.min(accepted);
        }
        if accepted == 0 {
            self.pipeline.drop_unsent(serial);
            self.end_unless_outstanding(serial);
        }
    }

    /// Sends no more RCPTs in this transaction.
    fn put_back_unsent(&mut self, serial: u64) {
        for stage in self.pipeline.drop_unsent(serial) {
            match (stage, self.flight(serial)) {
                (Stage::Rcpt(place), Some(flight)) => flight.put_back(place),
                (other, _) => self.pipeline.plan(other, serial),
            }
        }
    }

    fn end_unless_outstanding(&mut self, serial: u64) {
        let Some(flight) = self.flights.iter().find(|f| f.serial == serial) else { return };
        let in_transaction = |s: Stage| matches!(s, Stage::Rset | Stage::Mail | Stage::Rcpt(_) | Stage::Data);
        let dots = |s: Stage| matches!(s, Stage::Dot | Stage::LmtpDot(_));
        let outstanding = self.pipeline.has(serial, |s| in_transaction(s) || dots(s));
        if !outstanding {
            self.must_reset |= flight.dot_end.is_none();
            self.close_transaction(serial);
        }
    }

    fn end_transaction(&mut self, serial: u64) {
        self.must_reset = true;
        self.close_transaction(serial);
    }

    /// Goes on with the recipients left over, or gives the outcome.
    fn close_transaction(&mut self, serial: u64) {
        match self.flights.iter().position(|f| f.serial == serial) {
            Some(place) if self.flights[place].is_waiting() => self.plan_transaction(serial),
            Some(place) => {
                let outcome = self.flights.remove(place).map(Flight::into_outcome);
                self.outcomes.extend(outcome);
            }
            None => {}
        }
    }

    /// Why this server cannot take the message for anybody.
    fn refuse_locally(&self, flight: &Flight) -> Option<Reply> {
        if flight.requiretls && !self.may_require_tls() {
            let text = "the message is to go by REQUIRETLS and this session cannot promise it";
            return Some(internal(550, Some(EnhancedCode::new(5, 7, 30)), text));
        }
        let strict = !self.settings.ignore_8bit_checks;
        if let Some(limit) = self.capabilities.size_exceeded_by(flight.content_bytes) {
            let text = format!("message of {} octets is over the server's SIZE limit of {limit}", flight.content_bytes);
            return Some(internal(552, Some(EnhancedCode::new(5, 3, 4)), &text));
        }
        if strict && flight.body_8bit && !self.capabilities.eight_bit_mime {
            let text = "message has 8-bit content and the server does not offer 8BITMIME";
            return Some(internal(554, Some(EnhancedCode::new(5, 6, 3)), text));
        }
        None
    }
}

/// Without SMTPUTF8: everybody when the sender or the header needs it, else those who do.
fn refuse_non_ascii(flight: &mut Flight) {
    let what = if flight.header_utf8 { "header" } else { "address" };
    let text = format!("{what} is not ASCII and the server does not offer SMTPUTF8");
    let result = local_refusal(internal(554, Some(EnhancedCode::new(5, 6, 7)), &text));
    let refused: Vec<u32> =
        (0u32..).zip(&flight.recipients).filter(|(_, r)| !r.is_ascii()).map(|(place, _)| place).collect();
    if flight.header_utf8 || !flight.sender.0.as_ref().is_none_or(Mailbox::is_ascii) {
        flight.settle_where(|_| true, &result);
        return;
    }
    for place in refused {
        flight.settle(place, result.clone());
    }
}

fn local_refusal(reply: Reply) -> RecipientResult {
    RecipientResult {
        verdict: Verdict::Permanent,
        reply: Arc::new(reply),
        command: Cow::Borrowed(""),
        phase: crate::Phase::Idle,
        local: true,
    }
}

fn answer(verdict: Verdict, reply: Arc<Reply>, stage: Stage, flight: &Flight) -> RecipientResult {
    RecipientResult { verdict, reply, command: command::named(stage, Some(flight)), phase: stage.phase(), local: false }
}
