//! `Pressure` as its users see it, fed with samples by hand.

use super::*;
use std::io;

const MIB: u64 = 1 << 20;

/// Hard 1000 MiB, soft 750, low 600, cut 975.
fn pressure(delivers_when_spool_unhealthy: bool) -> Pressure {
    Pressure::new(PressureSettings {
        limits: MemoryLimits { hard: Some(1000 * MIB), ..MemoryLimits::default() },
        memory: Arc::new(NotMeasured),
        volumes: Vec::new(),
        delivers_when_spool_unhealthy,
    })
}

fn io_error(kind: io::ErrorKind) -> SpoolError {
    SpoolError::io(spool::Step::Write, None, &kind.into())
}

#[test]
fn without_limits_everything_is_taken_for_ever() {
    let pressure = Pressure::unlimited();
    pressure.charge(1 << 50);
    assert!(matches!(pressure.admission(), Admission::Open { octets_max } if octets_max > 1 << 60));
    assert!(!pressure.is_out_of_memory() && pressure.reason().is_none());
}

#[test]
fn a_size_must_fit_into_what_is_left_until_the_soft_limit() {
    let pressure = pressure(false);
    pressure.set_memory(pressure.counted(), 700 * MIB);
    assert_eq!(pressure.level(), Level::Low);
    assert_eq!(pressure.admission(), Admission::Open { octets_max: 50 * MIB });
    pressure.charge(20 * MIB);
    assert_eq!(pressure.admission(), Admission::Open { octets_max: 30 * MIB });
    pressure.charge(30 * MIB);
    assert_eq!(pressure.admission(), Admission::LoadShedding, "a burst is seen before the next sample");
    pressure.set_memory(pressure.counted(), 700 * MIB);
    assert_eq!(pressure.admission(), Admission::Open { octets_max: 50 * MIB });
}

#[test]
fn above_the_soft_limit_mail_is_refused_and_content_goes_on_until_memory_is_out() {
    let pressure = pressure(false);
    assert_eq!(pressure.set_memory(pressure.counted(), 750 * MIB), (Level::Fine, Level::Stop));
    assert_eq!((pressure.admission(), pressure.reason().as_deref()), (Admission::LoadShedding, Some("load shedding")));
    pressure.charge(225 * MIB);
    assert!(!pressure.is_out_of_memory(), "at the bound");
    pressure.charge(1);
    assert!(pressure.is_out_of_memory());
    pressure.credit(1);
    assert!(!pressure.is_out_of_memory(), "what a session gives up serves the others");
    pressure.set_memory(pressure.counted(), 975 * MIB + 1);
    assert!(pressure.is_out_of_memory());
    assert_eq!(pressure.set_memory(pressure.counted(), 100 * MIB), (Level::Stop, Level::Fine));
    assert!(pressure.reason().is_none());
}

#[tokio::test]
async fn sessions_that_wait_hear_that_memory_is_out() {
    for by_charge in [true, false] {
        let pressure = pressure(false);
        pressure.set_memory(pressure.counted(), 900 * MIB);
        let waiting = tokio::spawn({
            let pressure = pressure.clone();
            async move { pressure.out_of_memory().await }
        });
        tokio::task::yield_now().await;
        if by_charge {
            pressure.charge(76 * MIB);
        } else {
            pressure.set_memory(pressure.counted(), 976 * MIB);
        }
        tokio::time::timeout(Duration::from_secs(20), waiting).await.expect("told").expect("no panic");
        tokio::time::timeout(Duration::from_secs(20), pressure.out_of_memory()).await.expect("at once");
    }
}

#[test]
fn a_disk_counts_until_it_has_room_and_a_silent_one_is_no_full_one() {
    let pressure = pressure(false);
    pressure.set_memory(pressure.counted(), 1);
    pressure.set_volume(Verdict::Room, Verdict::Full);
    pressure.set_volume(Verdict::Room, Verdict::Full);
    assert_eq!(pressure.reason().as_deref(), Some("storage is too full"));
    pressure.set_volume(Verdict::Full, Verdict::Room);
    assert_eq!(pressure.admission(), Admission::DiskTooFull, "the other one is still full");
    pressure.set_volume(Verdict::Full, Verdict::Silent);
    assert_eq!(pressure.admission(), Admission::SpoolFailing);
    assert_eq!(pressure.reason().as_deref(), Some("storage does not answer"));
    pressure.set_volume(Verdict::Silent, Verdict::Room);
    assert!(pressure.reason().is_none());
}

#[test]
fn a_full_spool_lets_deliveries_go_on_and_a_failing_one_does_not() {
    let pressure = pressure(false);
    pressure.set_memory(pressure.counted(), 1);
    assert!(!pressure.set_spool(Some(io_error(io::ErrorKind::StorageFull))) && !pressure.delivery_is_held());
    assert_eq!(pressure.admission(), Admission::SpoolFull);
    assert_eq!(pressure.reason().as_deref(), Some("storage is too full"));
    assert!(pressure.set_spool(Some(io_error(io::ErrorKind::ReadOnlyFilesystem))) && pressure.delivery_is_held());
    assert_eq!(pressure.admission(), Admission::SpoolFailing);
    let reason = pressure.reason().unwrap_or_default();
    assert!(reason.starts_with("spool unhealthy: spool: cannot write"), "{reason}");
    assert!(pressure.set_spool(None) && !pressure.delivery_is_held());
    assert!(!pressure.set_spool(None));

    let goes_on = self::pressure(true);
    assert!(!goes_on.set_spool(Some(io_error(io::ErrorKind::ReadOnlyFilesystem))) && !goes_on.delivery_is_held());
}

#[test]
fn all_reasons_are_told_the_first_is_what_clients_hear() {
    let pressure = pressure(true);
    pressure.set_memory(pressure.counted(), 1);
    assert!(pressure.reasons().is_empty());
    pressure.set_volume(Verdict::Room, Verdict::Silent);
    pressure.set_spool(Some(io_error(io::ErrorKind::ReadOnlyFilesystem)));
    pressure.set_volume(Verdict::Room, Verdict::Full);
    pressure.set_memory(pressure.counted(), 800 * MIB);
    let reasons = pressure.reasons();
    assert_eq!(
        [&reasons[0], &reasons[1], &reasons[3]],
        ["load shedding", "storage is too full", "storage does not answer"]
    );
    assert!(reasons[2].starts_with("spool unhealthy: spool: cannot write") && reasons.len() == 4, "{reasons:?}");
    for (end, admission) in [(Verdict::Full, Admission::DiskTooFull), (Verdict::Silent, Admission::SpoolFailing)] {
        pressure.set_memory(pressure.counted(), 1);
        assert_eq!(pressure.admission(), admission);
        pressure.set_volume(end, Verdict::Room);
    }
    assert_eq!(pressure.reasons().len(), 1, "the spool still fails");
    pressure.set_spool(None);
    assert!(pressure.reasons().is_empty());
}

#[tokio::test]
async fn held_deliveries_hear_when_they_may_go_on() {
    let pressure = pressure(false);
    pressure.delivery_allowed().await;
    pressure.set_spool(Some(io_error(io::ErrorKind::ReadOnlyFilesystem)));
    let waiting = tokio::spawn({
        let pressure = pressure.clone();
        async move { pressure.delivery_allowed().await }
    });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    pressure.set_spool(None);
    tokio::time::timeout(Duration::from_secs(20), waiting).await.expect("told").expect("no panic");
}

#[test]
fn growth_is_what_was_written_and_what_had_to_move() {
    assert_eq!(content_growth((0, 0), (10, 16)), 10);
    assert_eq!(content_growth((10, 16), (16, 16)), 6);
    assert_eq!(content_growth((16, 16), (17, 32)), 17, "moved");
    assert_eq!(content_growth((17, 32), (0, 0)), 0, "handed over");
    assert_eq!(content_growth((17, 32), (3, 32)), 0, "shorter");
}

#[test]
fn content_comes_back_from_the_spool_only_as_memory_has_room() {
    let pressure = pressure(false);
    let (at_once, patient) = (Duration::ZERO, LOAD_PATIENCE);
    for (used, octets, waited, has_room) in [
        (550 * MIB, 50 * MIB, at_once, true),
        (550 * MIB, 50 * MIB + 1, at_once, false),
        (740 * MIB, SMALL_OCTETS, at_once, true),
        (760 * MIB, SMALL_OCTETS, at_once, true),
        (760 * MIB, SMALL_OCTETS + 1, at_once, false),
        (760 * MIB, 100 * MIB, patient - Duration::from_millis(1), false),
        (775 * MIB, 100 * MIB, patient, true),
        (775 * MIB, 100 * MIB + 1, patient, false),
        (975 * MIB - 4, 1, at_once, true),
        (975 * MIB - 3, 1, at_once, false),
        (976 * MIB, 1, patient, false),
    ] {
        pressure.set_memory(pressure.counted(), used);
        assert_eq!(pressure.has_room_to_load(octets, waited), has_room, "{octets} at {used} after {waited:?}");
    }
}

#[tokio::test]
async fn who_waits_for_room_gets_it_when_it_is_there_and_it_counts() {
    let pressure = pressure(false);
    pressure.set_memory(pressure.counted(), 980 * MIB);
    let waiting = tokio::spawn({
        let pressure = pressure.clone();
        async move { drop(pressure.room_to_load(10 * MIB).await) }
    });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    pressure.set_memory(pressure.counted(), 500 * MIB);
    tokio::time::timeout(Duration::from_secs(20), waiting).await.expect("there is room").expect("no panic");
    assert_eq!(pressure.admission(), Admission::Open { octets_max: 240 * MIB });
}

#[tokio::test]
async fn room_that_was_promised_is_not_promised_again_when_a_sample_does_not_show_it_yet() {
    let pressure = pressure(false);
    pressure.set_memory(pressure.counted(), 500 * MIB);
    let room = pressure.room_to_load(50 * MIB).await;
    assert_eq!(pressure.admission(), Admission::Open { octets_max: 200 * MIB });
    pressure.set_memory(pressure.counted(), 500 * MIB);
    assert_eq!(pressure.admission(), Admission::Open { octets_max: 200 * MIB }, "still on its way");
    drop(room);
    pressure.set_memory(pressure.counted(), 550 * MIB);
    assert_eq!(pressure.admission(), Admission::Open { octets_max: 200 * MIB }, "there, and counted once");
}

#[test]
fn who_cannot_wait_is_told_at_once() {
    let pressure = pressure(false);
    pressure.set_memory(pressure.counted(), 500 * MIB);
    assert!(pressure.room_to_load_now(62 * MIB).is_some(), "a quarter of what is left");
    assert!(pressure.room_to_load_now(100 * MIB).is_none());
    pressure.set_memory(pressure.counted(), 700 * MIB);
    assert!(pressure.room_to_load_now(1).is_none(), "memory is low");
}
