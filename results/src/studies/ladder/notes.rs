//! Causes of the differences from what was published, a sentence each. They are about what is different by design, and
//! said only of rungs that were climbed.

use super::saved::RungReport;
use crawlmark_harness::units::micros;

/// The notes on these rungs.
pub(super) fn notes(rungs: &[RungReport]) -> Vec<String> {
    let climbed = |numbers: &[u8]| rungs.iter().any(|rung| numbers.contains(&rung.rung));
    let mut notes = Vec::new();
    if let Some(first) = rungs.first() {
        let cores = first.reading.cpu.cores;
        notes.push(format!(
            "no network: target and client share this machine's {cores} cores, an answer's delay is drawn, and no packet is \
             ever lost or limited by a line"
        ));
    }
    let opening = rungs.iter().filter(|rung| rung.reading.opened_per_attempt() > 0.5);
    if let Some(us) = opening.map(|rung| rung.reading.handshake_us).reduce(f64::max).filter(|us| *us > 0.0) {
        notes.push(format!(
            "a simulated handshake: the target holds the first answer of each connection {} longer, for what TCP and TLS \
             cost over a network; nothing is encrypted",
            micros(us)
        ));
    }
    if climbed(&[2, 3, 4, 5]) {
        notes.push(
            "no interpreter lock: there all threads and tasks of a process shared one, which made waiting cost CPU and \
             CPU cost waiting; a process here spends its CPU on requests alone"
                .to_owned(),
        );
    }
    if climbed(&[2]) {
        notes.push(
            "no local proxy: there one bound a random IPv6 address for each request; here the client binds the next of \
             65,534 loopback addresses itself, and its 20 workers are processes and not threads"
                .to_owned(),
        );
    }
    notes
}
