//! Memory shared by all serving processes: one mapping, made before the first fork, that holds the
//! ledger's counters, the requests in flight, the ids seen, the requests per millisecond and the
//! limiter's words. `LedgerWriter`, `Ledger` and the server work on it through [`Shared`].
//!
//! It is the one file of this crate with unsafe code, and it must not interpret what it holds: each
//! part has a file of its own. The parts consist of atomics only, so processes and threads may use
//! them at the same time without a lock that a killed process could leave behind.
//!
//! | room | for |
//! |---|---|
//! | `counters` | counters of one process; requests in flight |
//! | `seen`, `window` | requests per ID, per millisecond |
//! | `names` | numbers of addresses and limits |
//! | `lock`, `keys`, `pool` | lock between processes; words of a limit's keys; workers |
//! | `log` | changes of stubs at run time; recorded requests |
//! | `scenarios` | states of scenarios |
//! | `atomics` | atomic integers; in tests, every order of their steps |

mod atomics;
mod counters;
mod keys;
mod lock;
mod log;
mod names;
mod pool;
mod scenarios;
mod seen;
mod window;

pub(crate) use counters::{Counters, Times, UnderWay};
pub(crate) use keys::{HeldSlot, KeyQuery, Keys, SlotIndex, Telling};
pub(crate) use log::{Cursor, Earlier, Full, Log};
pub(crate) use scenarios::Scenarios;
pub(crate) use window::ArrivalCounts;
pub use window::Peaks;

use crate::clock::Clock;
use crate::limit::MAX_LIMITS;
use atomics::{AtomicUsize, Ordering};
use counters::{InFlight, NAMED};
use names::Names;
use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, munmap};
use pool::Pool;
use seen::Seen;
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::Arc;

/// Processes that count into memory of their own. More may serve: they share the counters of
/// earlier ones, which costs speed and no accuracy.
const PROCESSES: usize = 128;

/// Room for changes of stubs at run time between two resets, in words: 128 MiB.
const STUB_LOG: usize = 16 << 20;

/// Room for the journal of requests, in words: 256 MiB.
const JOURNAL: usize = 32 << 20;

/// The mapping. About 1 GiB of addresses, of which the kernel provides the pages that are touched,
/// a few hundred kilobytes for a short run.
///
/// Every field is made of atomic integers and arrays of them, for which all-zero memory is a valid
/// value.
#[repr(C)]
pub(crate) struct Region {
    processes: AtomicUsize,
    counters: [Counters; PROCESSES],
    pub(crate) in_flight: InFlight,
    /// Addresses of clients.
    pub(crate) sources: Names<NAMED>,
    /// One table per limit.
    pub(crate) keys: [Keys; MAX_LIMITS],
    pub(crate) limit_names: Names<MAX_LIMITS>,
    pub(crate) pool: Pool,
    pub(crate) window: ArrivalCounts,
    pub(crate) scenarios: Scenarios,
    pub(crate) seen: Seen,
    /// Changes of the stubs, in order.
    pub(crate) stub_log: Log<STUB_LOG>,
    /// The requests that arrived, where the target keeps them.
    pub(crate) journal: Log<JOURNAL>,
}

/// The memory that all processes of one target share, and the clock they share.
///
/// Make it once, before forking; a forked process inherits it and works on the same memory. A clone
/// is another handle to the same memory.
#[derive(Clone, Debug)]
pub struct Shared {
    mapping: Arc<Mapping>,
    clock: Clock,
}

/// Owns the mapping within this process. A forked process has a copy of this owner and of its
/// reference count, and unmapping there, as here, takes away that process's view and nothing else.
#[derive(Debug)]
struct Mapping {
    region: NonNull<Region>,
}

impl Shared {
    /// Maps fresh memory and starts the clock.
    ///
    /// # Errors
    ///
    /// The kernel refuses the mapping, for instance under a limit on address space.
    pub fn new() -> Result<Self, SharedError> {
        Ok(Self {
            mapping: Arc::new(Mapping::new()?),
            clock: Clock::start(),
        })
    }

    /// The clock that limits and counts go by, its epoch the making of the mapping.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    pub(crate) fn region(&self) -> &Region {
        self.mapping.region()
    }

    /// Takes the next set of counters, for one serving process.
    pub(crate) fn claim_counters(&self) -> usize {
        self.region().processes.fetch_add(1, Ordering::Relaxed) % PROCESSES
    }

    /// The counters claimed as `index`.
    pub(crate) fn counters(&self, index: usize) -> &Counters {
        &self.region().counters[index % PROCESSES]
    }

    /// The counters of every process that ever served.
    pub(crate) fn all_counters(&self) -> &[Counters] {
        let claimed = self
            .region()
            .processes
            .load(Ordering::Relaxed)
            .min(PROCESSES);
        &self.region().counters[..claimed]
    }

    /// Forgets the requests in the journal. Nothing may append at the same time.
    pub(crate) fn forget_journal(&self) {
        let journal = &self.region().journal;
        if discard(journal).is_err() {
            journal.clear();
        }
    }

    /// Forgets the ids seen and the requests per millisecond, from `now_ns` on.
    pub(crate) fn forget(&self, now_ns: u64) {
        let Region { seen, window, .. } = self.region();
        if discard(seen).is_err() {
            seen.clear();
        }
        if discard(window.per_ms()).is_err() {
            window.per_ms().clear();
        }
        window.restart(now_ns);
    }
}

/// Reason why the shared memory could not be made; it reads after "failed to".
#[derive(Debug, thiserror::Error)]
#[error("map {} MiB of shared memory ({source}); raise the limit on address space (ulimit -v)", size_of::<Region>() >> 20)]
pub struct SharedError {
    source: nix::Error,
}

impl Mapping {
    #[expect(
        unsafe_code,
        reason = "memory that outlives a fork can only be had from mmap"
    )]
    fn new() -> Result<Self, SharedError> {
        const LENGTH: NonZeroUsize = match NonZeroUsize::new(size_of::<Region>()) {
            Some(length) => length,
            None => NonZeroUsize::MIN,
        };
        // NORESERVE: most of it is never touched, and must not count against the memory that the
        // kernel may promise.
        let flags = MapFlags::MAP_SHARED | MapFlags::MAP_NORESERVE;
        // SAFETY: no address is asked for, so no existing mapping is replaced.
        let address = unsafe {
            mmap_anonymous(
                None,
                LENGTH,
                ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
                flags,
            )
        }
        .map_err(|source| SharedError { source })?;
        Ok(Self {
            region: address.cast(),
        })
    }

    #[expect(unsafe_code, reason = "the mapping is reached through a pointer")]
    fn region(&self) -> &Region {
        // SAFETY: the pointer comes from a successful mmap of size_of::<Region>() bytes, readable
        // and writable, which stays mapped for as long as `self` lives, and the reference cannot
        // outlive `self`. It is page-aligned, and the assertion below checks that no more is
        // needed. The memory is initialised: the kernel provides zeroed pages, and zero is a valid
        // value for each field, all of them atomic integers. No `&mut` to it exists anywhere, and
        // every change, also by other processes, is made through the atomics or by `discard`.
        unsafe { self.region.as_ref() }
    }
}

/// The kernel aligns a mapping to pages, which have at least 4096 bytes.
const _: () = assert!(align_of::<Region>() <= 4096);

impl Drop for Mapping {
    #[expect(unsafe_code, reason = "what was mapped is unmapped")]
    fn drop(&mut self) {
        // SAFETY: the range is exactly what `new` mapped, and nothing unmapped it before, since
        // only this drop does. All references into it borrow from `self`, which is going away. In a
        // forked process the range is that process's own view of the memory.
        let unmapped = unsafe { munmap(self.region.cast(), size_of::<Region>()) };
        debug_assert_eq!(
            unmapped,
            Ok(()),
            "the only failure is a range that is no mapping"
        );
    }
}

#[expect(unsafe_code, reason = "a raw pointer takes Send away")]
// SAFETY: the pointer refers to memory that belongs to the process and not to a thread, and the
// owner gives out only shared references to atomics.
unsafe impl Send for Mapping {}

#[expect(unsafe_code, reason = "a raw pointer takes Sync away")]
// SAFETY: as for `Send`: every access through a shared reference is atomic.
unsafe impl Sync for Mapping {}

/// A part of the region that may be handed back to the kernel in whole pages.
///
/// # Safety
///
/// The type consists of atomic integers only, and its alignment and size are multiples of 4096
/// bytes.
#[expect(unsafe_code, reason = "only some parts of the region may be discarded")]
unsafe trait Discardable {}

#[expect(unsafe_code, reason = "only some parts of the region may be discarded")]
// SAFETY: one array of `AtomicU64`, aligned to 4096; the assertion below checks it.
unsafe impl Discardable for Seen {}

#[expect(unsafe_code, reason = "only some parts of the region may be discarded")]
// SAFETY: one array of pairs of `AtomicU32`, aligned to 4096, which makes its size a multiple of
// that; the assertion below checks it.
unsafe impl Discardable for window::PerMs {}

#[expect(unsafe_code, reason = "only some parts of the region may be discarded")]
// SAFETY: three `AtomicU64` and an array of them, aligned to 4096, which makes its size a multiple of
// that.
unsafe impl<const WORDS: usize> Discardable for Log<WORDS> {}

const _: () = assert!(align_of::<Seen>() == 4096 && align_of::<window::PerMs>() == 4096);

/// Zeroes a part of the region by giving its pages back, which costs nothing for the pages never
/// touched; storing zeros would make the kernel provide every one of them.
#[expect(unsafe_code, reason = "madvise takes an address")]
fn discard<Part: Discardable>(part: &Part) -> nix::Result<()> {
    // SAFETY: the range is that of a live reference, whole pages of a shared anonymous mapping (on
    // a machine with larger pages the kernel answers with an error). It reads as zeros afterwards,
    // for all processes, as though zero had been stored into every atomic of the part; the trait
    // promises that there is nothing else in it.
    unsafe {
        madvise(
            NonNull::from(part).cast(),
            size_of::<Part>(),
            MmapAdvise::MADV_REMOVE,
        )
    }
}

#[cfg(test)]
mod tests;
