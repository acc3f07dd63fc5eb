//! Causes of the differences from what was published, a sentence each. They are about what is
//! different by design, and said only of rungs that were climbed.

use super::saved::RungReport;
use crawlmark_harness::units::micros;

/// The notes on these rungs.
pub(super) fn notes(rungs: &[RungReport]) -> Vec<String> {
    let climbed = |numbers: &[u8]| rungs.iter().any(|rung| numbers.contains(&rung.rung));
    let mut notes = Vec::new();
    if let Some(first) = rungs.first() {
        let cores = first.reading.cpu.cores;
        notes.push(format!(
            "no network: target and client share this machine's {cores} cores, response delays are simulated, and no packet \
             is lost, or delayed by a link of limited bandwidth"
        ));
    }
    let opening = rungs
        .iter()
        .filter(|rung| rung.reading.opened_per_attempt() > 0.5);
    if let Some(us) = opening
        .map(|rung| rung.reading.handshake_us)
        .reduce(f64::max)
        .filter(|us| *us > 0.0)
    {
        notes.push(format!(
            "a simulated handshake: the target holds the first response of each connection {} longer, as long as TCP and \
             TLS would take over a network; nothing is encrypted",
            micros(us)
        ));
    }
    if climbed(&[2, 3, 4, 5]) {
        notes.push(
            "no interpreter lock: in the published crawl, all threads and tasks of a process shared one, and waited for \
             each other; here a process spends its CPU on requests alone"
                .to_owned(),
        );
    }
    if climbed(&[2]) {
        notes.push(
            "no local proxy: in the published crawl, a proxy chose a random IPv6 address for each request; here this client \
             uses its 65,534 loopback addresses in turn, and its 20 workers are processes, not threads"
                .to_owned(),
        );
    }
    notes
}
