//! Slots on directories that fail and clocks that differ.

use std::cell::Cell;

use proptest::prelude::*;

use super::*;

const MS: u64 = 1_000_000;

fn files(place: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(place)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    names
}

fn at(ms: u64) -> Nanos {
    Nanos(ms * MS)
}

#[test]
fn a_slot_is_taken_renewed_freed_and_taken_over() {
    let home = tempfile::tempdir().unwrap();
    let place = home.path().join("slots");
    let slots = |attempt: &str| Slots::new(&place, 2, attempt);
    let (mut a, mut b, mut c) = (slots("a"), slots("b"), slots("c"));
    let mut held = a.take(1, || at(0)).unwrap().unwrap();
    assert_eq!(
        (held.slot(), held.was_used(), held.end),
        (1, false, at(10_000))
    );
    let other = b.take(1, || at(0)).unwrap().unwrap();
    assert_eq!(other.slot(), 0);
    assert!(c.take(0, || at(50)).unwrap().is_none());
    assert_eq!(held.renew(at(1_999)), at(10_000));
    assert_eq!(held.renew(at(2_000)), at(12_000));
    assert_eq!(
        files(&place),
        ["slot-00000.0000000001.b", "slot-00001.0000000002.a"]
    );
    drop(other);
    let mut third = c.take(1, || at(100)).unwrap().unwrap();
    assert_eq!((third.slot(), third.was_used()), (0, true));
    // Seen since 0 and renewed at 2 s: the change is noticed at the next look, and 12 s count from
    // there.
    assert!(b.take(1, || at(3_000)).unwrap().is_none());
    assert_eq!(third.renew(at(10_000)), at(20_000));
    assert!(b.take(1, || at(14_999)).unwrap().is_none());
    let taken = b.take(1, || at(15_000)).unwrap().unwrap();
    assert_eq!((taken.slot(), taken.was_used()), (1, true));
    assert_eq!(held.renew(at(15_000)), at(0));
    assert!(held.is_lost());
    drop(held);
    assert_eq!(
        files(&place),
        ["slot-00000.0000000004.c", "slot-00001.0000000003.b"]
    );
}

#[test]
fn a_renewal_without_an_answer_counts_from_its_first_try() {
    let home = tempfile::tempdir().unwrap();
    let place = home.path().join("slots");
    let mut held = Slots::new(&place, 1, "a")
        .take(0, || at(0))
        .unwrap()
        .unwrap();
    // The directory does not answer: another name stands for it.
    let gone = home.path().join("gone");
    held.place = home.path().join("file").join("slots");
    fs::write(home.path().join("file"), "").unwrap();
    assert_eq!(held.renew(at(2_000)), at(10_000));
    assert_eq!(held.renew(at(4_000)), at(10_000));
    held.place = place.clone();
    assert_eq!(held.renew(at(11_000)), at(12_000));
    assert_eq!(held.lapsed(), Duration::from_secs(1));
    // Without an answer until the end: that counts, too.
    fs::remove_file(home.path().join("file")).unwrap();
    held.place = home.path().join("file").join("slots");
    assert_eq!(held.renew(at(13_000)), at(12_000));
    assert_eq!(
        (held.is_lost(), held.lapsed()),
        (false, Duration::from_secs(2)),
        "the whole share is away"
    );
    held.place = place.clone();
    fs::rename(&place, &gone).unwrap();
    assert_eq!(held.renew(at(14_000)), at(0));
    assert!(
        held.is_lost(),
        "a directory that is gone may be given to others"
    );
}

#[test]
fn a_lease_counts_from_before_the_slot_was_taken() {
    let home = tempfile::tempdir().unwrap();
    // Each look at the clock takes a second: before the listing, after it, and before the rename.
    let ms = Cell::new(0);
    let now = || at(ms.replace(ms.get() + 1_000));
    let mut slots = Slots::new(&home.path().join("slots"), 1, "a");
    assert_eq!(slots.take(0, now).unwrap().unwrap().end, at(12_000));
}

#[test]
fn slots_that_were_made_again_are_taken_after_a_takeover() {
    let home = tempfile::tempdir().unwrap();
    let place = home.path().join("slots");
    let mut held = Slots::new(&place, 1, "a")
        .take(0, || at(0))
        .unwrap()
        .unwrap();
    assert_eq!(held.renew(at(2_000)), at(12_000));
    let mut waiting = Slots::new(&place, 1, "b");
    assert!(waiting.take(0, || at(3_000)).unwrap().is_none());
    fs::rename(
        place.join("slot-00000.0000000002.a"),
        place.join("slot-00000.0000000000.free"),
    )
    .unwrap();
    // The name that is gone may only be missing in a listing.
    assert!(waiting.take(0, || at(4_000)).unwrap().is_none());
    assert!(waiting.take(0, || at(15_000)).unwrap().is_none());
    assert_eq!(
        waiting
            .take(0, || at(15_001))
            .unwrap()
            .unwrap()
            .state
            .generation,
        1
    );
}

#[test]
fn a_directory_that_fails_is_tried_again_for_a_minute() {
    let home = tempfile::tempdir().unwrap();
    let (place, away) = (home.path().join("slots"), home.path().join("away"));
    let file = |name: &str| fs::write(place.join(name), "").unwrap();
    // A file stands where the directory is to be: neither can it be made, nor read.
    fs::write(&place, "").unwrap();
    let mut slots = Slots::new(&place, 2, "a");
    assert!(slots.take(0, || at(5)).unwrap().is_none());
    assert!(slots.take(0, || at(60_004)).unwrap().is_none());
    let error = slots.take(0, || at(65_005)).unwrap_err();
    assert_eq!(error.tried, Duration::from_secs(65));
    fs::remove_file(&place).unwrap();
    fs::create_dir(&place).unwrap();
    file("slot-00000.0000000007.b");
    // Beyond the slots of the plan: nobody's share.
    file("slot-00002.0000000007.free");
    assert!(slots.take(0, || at(70_000)).unwrap().is_none());
    assert!(slots.failing().is_none());

    // Away for a moment: the slot is taken over as if nothing had been.
    fs::rename(&place, &away).unwrap();
    assert!(slots.take(0, || at(71_000)).unwrap().is_none());
    assert!(!place.exists(), "slots that others hold are not made again");
    fs::rename(&away, &place).unwrap();
    let taken = slots.take(0, || at(82_000)).unwrap().unwrap();
    assert_eq!((taken.slot(), taken.was_used()), (0, true));
    // The answer to the rename was lost.
    let again = slots.take(0, || at(82_001)).unwrap().unwrap();
    assert_eq!(again.state.generation, 9);

    drop((taken, again));
    fs::remove_file(place.join("slot-00000.0000000010.free")).unwrap();
    fs::remove_file(place.join("slot-00002.0000000007.free")).unwrap();
    assert!(slots.take(0, || at(90_000)).unwrap().is_none());
    assert!(slots.take(0, || at(149_999)).unwrap().is_none());
    let error = slots.take(0, || at(150_000)).unwrap_err();
    assert_eq!(
        (error.tried, error.error.kind()),
        (TOLERANCE, io::ErrorKind::Other),
        "without its files"
    );
}

/// A machine whose clock began at some time and is a little fast or slow.
#[derive(Debug, Clone)]
struct Machine {
    began: u64,
    per_mille: u64,
}

impl Machine {
    fn reads(&self, ms: u64) -> Nanos {
        Nanos((self.began + ms * self.per_mille / 1_000) * MS)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Attempts on machines with clocks of their own that look, renew, free, pause and die at any
    /// time: in each slot, one may send.
    #[test]
    fn no_two_attempts_may_send_in_a_slot(
        slots in 1..4_u32,
        machines in prop::collection::vec((0..1_000_000_u64, 960..1_040_u64), 2..6),
        steps in prop::collection::vec((0..6_usize, 0..4_000_u64, 0..10_u8), 1..400),
    ) {
        let home = tempfile::tempdir().unwrap();
        let place = home.path().join("slots");
        let machines: Vec<Machine> = machines.into_iter().map(|(began, per_mille)| Machine { began, per_mille }).collect();
        let mut waiting: Vec<Option<Slots>> = (0..machines.len())
            .map(|i| Some(Slots::new(&place, slots, &format!("a{i}")))).collect();
        let mut held: Vec<Option<HeldSlot>> = machines.iter().map(|_| None).collect();
        let (mut ms, mut taken) = (0, 0);
        for (n, (who, wait, what)) in steps.into_iter().enumerate() {
            ms += wait;
            let i = who % machines.len();
            let now = machines[i].reads(ms);
            match (held[i].take(), what) {
                (None, _) => {
                    let looks = waiting[i].get_or_insert_with(|| Slots::new(&place, slots, &format!("a{i}.{n}")));
                    held[i] = looks.take(u32::try_from(n).unwrap() % slots, || now).unwrap();
                    if held[i].is_some() {
                        (waiting[i], taken) = (None, taken + 1);
                    }
                }
                (Some(slot), 9) => drop(slot),
                (Some(mut slot), _) => {
                    slot.renew(now);
                    held[i] = (!slot.is_lost()).then_some(slot);
                }
            }
            let sends = |(slot, machine): (&Option<HeldSlot>, &Machine)| {
                slot.as_ref().filter(|slot| machine.reads(ms) < slot.end).map(HeldSlot::slot)
            };
            let mut sending: Vec<u32> = held.iter().zip(&machines).filter_map(sends).collect();
            sending.sort_unstable();
            let all = sending.len();
            sending.dedup();
            prop_assert_eq!(all, sending.len());
            prop_assert_eq!(files(&place).len(), slots as usize);
        }
        prop_assert!(taken > 0);
    }
}

/// Two attempts at one slot: every order of four steps, in each of which one of them looks or renews,
/// or frees what it holds, after a time shorter or longer than a lease. One that is not chosen again
/// has died.
#[test]
fn in_every_order_of_two_attempts_one_may_send() {
    const STEPS: u32 = 4;
    // Together longer than a takeover, and the longer one alone than a lease.
    const WAITS_MS: [u64; 2] = [3_000, 11_000];
    let home = tempfile::tempdir().unwrap();
    let (mut taken_over, mut lapsed) = (0, 0);
    for order in 0..8_u32.pow(STEPS) {
        let place = home.path().join("slots");
        let mut waiting = ["a", "b"].map(|attempt| Slots::new(&place, 1, attempt));
        let mut held = [waiting[0].take(0, || at(0)).unwrap(), None];
        assert!(waiting[1].take(0, || at(0)).unwrap().is_none());
        let mut ms = 0;
        for step in 0..STEPS {
            let choice = (order >> (3 * step)) as usize & 7;
            let (i, is_freed) = (choice & 1, choice & 2 > 0);
            ms += WAITS_MS[choice >> 2];
            let now = at(ms);
            match held[i].take() {
                None => {
                    held[i] = waiting[i].take(0, || now).unwrap();
                    let is_other = held[1 - i].is_some();
                    taken_over += u32::from(is_other && held[i].is_some());
                }
                Some(slot) if is_freed => drop(slot),
                Some(mut slot) => {
                    slot.renew(now);
                    lapsed += u32::from(!slot.lapsed().is_zero());
                    held[i] = (!slot.is_lost()).then_some(slot);
                }
            }
            let sends = held.iter().flatten().filter(|slot| now < slot.end);
            assert!(sends.count() <= 1, "{order:o}");
            assert_eq!(files(&place).len(), 1, "{order:o}");
        }
        drop((held, waiting));
        fs::remove_dir_all(&place).unwrap();
    }
    assert!(taken_over > 0 && lapsed > 0);
}
