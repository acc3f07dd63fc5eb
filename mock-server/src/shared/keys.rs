//! The limiter's words, one set per key. A key is a client address for now; whoever holds a connection looks its key up
//! once.
//!
//! It must not decide anything: `limit` does, on the words found here.

use super::sources::halves;
use crate::draw::mix;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many keys have words of their own.
const KEYS: usize = 1 << 16;

/// How many slots are tried for one key. With the table half full, a run of 64 taken slots is a freak event.
const PROBES: usize = 64;

/// Where a key's words are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyIndex(usize);

/// The words of one key, on a cache line of their own.
#[repr(C, align(64))]
pub(crate) struct KeySlot {
    /// 64 bits that stand for the key; 0 means that the slot is free. Two of a million keys share a fingerprint with a
    /// probability of 3 in 10^8.
    fingerprint: AtomicU64,
    /// What `limit::decide` works on.
    pub(crate) tat: AtomicU64,
    /// The end of the latest wait that was promised to the key, nanoseconds on the common clock.
    pub(crate) promised_ns: AtomicU64,
}

/// The table, open-addressed; the slot behind the last is for the keys that find no place.
#[repr(C)]
pub(crate) struct Keys {
    slots: [KeySlot; KEYS + 1],
}

impl Keys {
    /// The place of `address`.
    ///
    /// Keys that find no place share one set of words. Together they are then admitted what one of them should be:
    /// never more than the limit.
    pub(crate) fn find(&self, address: IpAddr) -> KeyIndex {
        let [upper, lower] = halves(address);
        // 0 is taken by the free slots.
        let fingerprint = mix(mix(upper) ^ lower).max(1);
        #[expect(clippy::cast_possible_truncation, reason = "only the lower bits are wanted")]
        let home = fingerprint as usize;
        for probe in 0..PROBES {
            let index = home.wrapping_add(probe) % KEYS;
            let slot = &self.slots[index].fingerprint;
            let taken = match slot.load(Ordering::Relaxed) {
                0 => match slot.compare_exchange(0, fingerprint, Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(_) => fingerprint,
                    Err(faster) => faster,
                },
                taken => taken,
            };
            if taken == fingerprint {
                return KeyIndex(index);
            }
        }
        KeyIndex(KEYS)
    }

    /// The words at `index`.
    pub(crate) fn slot(&self, index: KeyIndex) -> &KeySlot {
        &self.slots[index.0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::Shared;
    use std::collections::HashSet;
    use std::net::Ipv6Addr;

    fn address(number: u128) -> IpAddr {
        IpAddr::V6(Ipv6Addr::from(number))
    }

    #[test]
    fn keys_have_places_of_their_own_and_keep_them() {
        let shared = Shared::new().unwrap();
        let keys = &shared.region().keys;
        let places: Vec<usize> = (0..10_000).map(|number| keys.find(address(number << 64)).0).collect();
        assert_eq!(places.iter().collect::<HashSet<_>>().len(), places.len());
        assert_eq!((0..10_000).map(|number| keys.find(address(number << 64)).0).collect::<Vec<_>>(), places);
        assert!(!places.contains(&KEYS));
    }

    #[test]
    fn keys_without_a_place_share_one() {
        let shared = Shared::new().unwrap();
        let keys = &shared.region().keys;
        for slot in &keys.slots[..KEYS] {
            slot.fingerprint.store(u64::MAX, Ordering::Relaxed);
        }
        assert_eq!(keys.find(address(1)), KeyIndex(KEYS));
        assert_eq!(keys.find(address(2)), KeyIndex(KEYS));
        assert_eq!(keys.slot(KeyIndex(KEYS)).tat.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn threads_agree_on_the_places() {
        let shared = Shared::new().unwrap();
        let find_all = || (0..5_000).map(|number| shared.region().keys.find(address(number)).0).collect::<Vec<_>>();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(find_all)).collect();
            for thread in threads {
                assert_eq!(thread.join().unwrap(), find_all());
            }
        });
    }
}
