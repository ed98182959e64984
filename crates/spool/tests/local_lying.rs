//! The control run: on a disk that says "synced" and has not, power cuts must lose mail; else the tests in
//! `local_crash.rs` are blind. Alone in its file because it silences the panics it counts.

mod local_rig;

use local_rig::Rig;
use std::panic::catch_unwind;

#[test]
fn a_disk_that_lies_about_syncs_is_noticed() {
    let noisy = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let losses = (0..50).filter(|seed| catch_unwind(|| run(*seed)).is_err()).count();
    std::panic::set_hook(noisy);
    assert!(losses > 25, "{losses} of 50");
}

fn run(seed: u64) {
    let mut rig = Rig::new(seed);
    rig.files.lie();
    for _ in 0..80 {
        rig.step().expect("no faults");
    }
    rig.crash_and_check(seed);
}
