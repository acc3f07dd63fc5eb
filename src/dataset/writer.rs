//! The thread that saves what a shard crawls, and the shard's end of it.
//!
//! The crawl's thread copies each item that ended into a batch ([`Writer::push`]). A full batch
//! goes to the thread through a bounded queue; while that has no room, the shard starts no items
//! ([`Writer::has_room`]). The thread's CPU time is the process's.
//!
//! Memory: [`QUEUE`] + 2 batches of [`BATCH`] bytes, the lines of a frame with their compressed
//! form, and the bodies of the items that end while there is no room, at most one for each
//! connection.

use std::cell::RefCell;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel,
};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use crawlmark_harness::clock::Clock;
use crawlmark_harness::process::pin_to;
use crawlmark_harness::sample::Outcome;
use tokio::sync::Notify;

use super::batch::{Batch, Item};
use super::disk::Disk;
use super::log::{LogError, SegmentLog};
use super::manifest::{Bodies, Saved};

/// Batches between the two threads: 4 MiB, which 100,000 records a second of 300 bytes fill in 100
/// ms, so that waiting for the disk at a commit does not stop the crawl.
pub const QUEUE: usize = 16;

/// Size at which a batch is sent, bytes.
pub const BATCH: usize = 256 << 10;

/// Longest time for which an item may be left in a batch that is not full: call [`Writer::flush`]
/// as often.
pub const FLUSH_EVERY: Duration = Duration::from_millis(250);

/// State that both threads see.
#[derive(Debug, Default)]
struct WriterState {
    /// Batches in the queue.
    queued: AtomicUsize,
    /// Told of each change of the queue, and of the end.
    changed: Notify,
    /// End of the thread, and the reason unless everything was saved.
    ended: OnceLock<Result<(), String>>,
}

/// The shard's end. It lives on the crawl's thread, inside its runtime.
#[derive(Debug)]
pub struct Writer {
    saved: Saved,
    shared: Arc<WriterState>,
    batch: RefCell<Batch>,
    /// None once everything was sent.
    full: RefCell<Option<SyncSender<Batch>>>,
    empty: Receiver<Batch>,
}

impl Writer {
    /// Start the thread, on these CPUs as far as the process may use them. Call it in the shard's
    /// process, after the fork.
    ///
    /// # Errors
    /// When the system has no further thread.
    pub fn start<D>(
        log: SegmentLog<D>,
        saved: Saved,
        clock: Clock,
        cpus: Vec<usize>,
    ) -> io::Result<Self>
    where
        D: Disk<File: Send> + Send + 'static,
    {
        let (full, batches) = sync_channel(QUEUE);
        let (recycled, empty) = channel();
        let shared = Arc::new(WriterState::default());
        let of_thread = Arc::clone(&shared);
        // After the fork, as rule 11 of the design allows: the disk must not stop the crawl.
        thread::Builder::new()
            .name("writer".to_owned())
            .spawn(move || {
                // It inherits the one CPU of a pinned shard, where it would hold the crawl up. That
                // is how it stays if the system refuses.
                let _ = pin_to(&cpus);
                let written = write(log, clock, &of_thread, &batches, &recycled)
                    .map_err(|error| error.to_string());
                let _ = of_thread.ended.set(written);
                of_thread.changed.notify_waiters();
            })?;
        Ok(Self {
            saved,
            shared,
            batch: RefCell::default(),
            full: RefCell::new(Some(full)),
            empty,
        })
    }

    /// True if bodies of this outcome are saved.
    pub const fn saves_body(&self, outcome: Outcome) -> bool {
        match self.saved.bodies {
            Bodies::Good => matches!(outcome, Outcome::Ok | Outcome::Stepped),
            Bodies::All => true,
            Bodies::None => false,
        }
    }

    /// Save a record, and of its body what the settings say.
    pub fn push(&self, item: &Item<'_>) {
        let body = item
            .body
            .filter(|_| item.outcome.is_some_and(|outcome| self.saves_body(outcome)));
        let most = usize::try_from(self.saved.max_body).unwrap_or(usize::MAX);
        self.batch.borrow_mut().push(&Item { body, ..*item }, most);
        if self.is_full() {
            self.flush();
        }
    }

    /// Send the items so far to the thread, if the queue has room.
    pub fn flush(&self) {
        if self.batch.borrow().is_empty() {
            return;
        }
        let full = self.full.borrow();
        let Some(full) = full.as_ref() else { return };
        // Counted before it is there, so that the thread never takes one that is not counted.
        self.shared.queued.fetch_add(1, Ordering::AcqRel);
        let batch = self
            .batch
            .replace(self.empty.try_recv().unwrap_or_default());
        if let Err(TrySendError::Full(batch) | TrySendError::Disconnected(batch)) =
            full.try_send(batch)
        {
            self.shared.queued.fetch_sub(1, Ordering::AcqRel);
            self.batch.replace(batch);
        }
    }

    /// True if the shard may start items: the batch or the queue has room.
    pub fn has_room(&self) -> bool {
        let has_failed = self.shared.ended.get().is_some();
        !has_failed && (!self.is_full() || self.shared.queued.load(Ordering::Acquire) < QUEUE)
    }

    /// Wait until there is room. Without end once the thread has failed.
    pub async fn room(&self) {
        self.until(|| {
            if self.is_full() {
                self.flush();
            }
            self.has_room().then_some(())
        })
        .await;
    }

    /// Wait until the thread cannot go on, and return the reason: the file, and the remedy. What is
    /// committed is whole.
    pub async fn failed(&self) -> String {
        self.until(|| self.shared.ended.get()?.as_ref().err().cloned())
            .await
    }

    /// Save all items and wait until they are committed. Nothing may be pushed afterwards.
    ///
    /// # Errors
    /// When the thread cannot go on, as [`failed`](Self::failed).
    pub async fn finish(&self) -> Result<(), String> {
        self.until(|| {
            self.flush();
            (self.batch.borrow().is_empty() || self.shared.ended.get().is_some()).then_some(())
        })
        .await;
        self.full.take();
        self.until(|| self.shared.ended.get().cloned()).await
    }

    fn is_full(&self) -> bool {
        self.batch.borrow().size() >= BATCH
    }

    /// Wait until the function returns a value. It is called again whenever the thread took a batch
    /// or ended.
    async fn until<T>(&self, value: impl Fn() -> Option<T>) -> T {
        loop {
            let mut changed = std::pin::pin!(self.shared.changed.notified());
            // From now on no change is missed.
            changed.as_mut().enable();
            if let Some(value) = value() {
                return value;
            }
            changed.await;
        }
    }
}

/// Write batches until there are no more.
// Out of line, for `.ci/instructions` counts it by its name.
#[inline(never)]
fn write<D: Disk>(
    mut log: SegmentLog<D>,
    clock: Clock,
    shared: &WriterState,
    batches: &Receiver<Batch>,
    recycled: &Sender<Batch>,
) -> Result<(), LogError> {
    loop {
        let due = log.commit_if_due(clock.now())?;
        match batches.recv_timeout(due) {
            Ok(mut batch) => {
                shared.queued.fetch_sub(1, Ordering::AcqRel);
                shared.changed.notify_waiters();
                for item in batch.items() {
                    log.push(&item)?;
                }
                batch.clear(BATCH);
                // Not taken after the last item.
                let _ = recycled.send(batch);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return log.close(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crawlmark_harness::process::usable_cpus;
    use crawlmark_harness::units::IdRange;

    use super::*;
    use crate::dataset::batch::ReceivedBody;
    use crate::dataset::disk::Directory;
    use crate::dataset::log::Steps;
    use crate::dataset::manifest::{Durability, Fields};
    use crate::dataset::recover::{Retry, records_of, recover};
    use crate::dataset::segment::tests::header;
    use crate::dataset::segment::{Header, SegmentName};

    const NAME: SegmentName = SegmentName {
        session: 1,
        shard: 0,
        life: 0,
    };

    /// Longest time that anything may take, for a test that cannot pass.
    const LIMIT: Duration = Duration::from_mins(1);

    fn start(disk: impl Disk<File: Send> + Send + 'static, steps: Steps) -> Writer {
        let saved = Saved {
            fields: Fields::default(),
            bodies: Bodies::Good,
            max_body: 1 << 20,
            durability: Durability::Power,
            mode: crawlmark_harness::files::PRIVATE,
        };
        let header = Header {
            name: NAME,
            ..header()
        };
        let log = SegmentLog::create(disk, &header, &saved, steps).unwrap();
        Writer::start(log, saved, Clock::start(), usable_cpus()).unwrap()
    }

    fn push(writer: &Writer, number: u64, body: &[u8]) {
        let whole = body.len() as u64;
        let body = Some(ReceivedBody { bytes: body, whole });
        writer.push(&Item {
            body,
            ..Item::good(number)
        });
    }

    fn run<T>(test: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime
            .block_on(async { tokio::time::timeout(LIMIT, test).await })
            .expect("it has no end")
    }

    #[test]
    fn items_wait_for_room_and_all_of_them_are_saved() {
        let place = tempfile::tempdir().unwrap();
        let number = run(async {
            let writer = start(Directory::new(place.path()), Steps::default());
            // Not compressible, and not text.
            let body: Vec<u8> = (0..50_000_u64)
                .map(|n| (n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8)
                .collect();
            let mut number = 0;
            for _ in 0..3 {
                while writer.has_room() {
                    push(&writer, number, &body);
                    number += 1;
                }
                assert!(
                    writer.batch.borrow().size() < BATCH + 2 * body.len(),
                    "{}",
                    writer.batch.borrow().size()
                );
                writer.room().await;
            }
            writer.finish().await.unwrap();
            number
        });
        let recovered = recover(&Directory::new(place.path()), 1, Retry::All).unwrap();
        assert!(recovered.finished.ranges().eq([IdRange {
            start: 0,
            end: number
        }]));
        assert!(number > QUEUE as u64, "{number}");
    }

    #[test]
    fn what_came_last_is_committed_without_anything_more() {
        let place = tempfile::tempdir().unwrap();
        run(async {
            let writer = start(
                Directory::new(place.path()),
                Steps {
                    every: Duration::from_millis(1),
                    ..Steps::default()
                },
            );
            push(&writer, 7, b"1");
            writer.flush();
            let disk = Directory::new(place.path());
            while records_of(&disk, NAME).unwrap().count() == 0 {
                tokio::task::yield_now().await;
            }
        });
    }

    /// A disk that takes the start of a segment, and is full then.
    #[derive(Default)]
    struct Full(std::cell::Cell<bool>);

    impl Disk for Full {
        type File = ();

        fn create(&self, _: &str) -> io::Result<()> {
            Ok(())
        }

        fn append(&self, (): &mut (), _: &[u8]) -> io::Result<()> {
            if self.0.replace(true) {
                Err(io::ErrorKind::StorageFull.into())
            } else {
                Ok(())
            }
        }

        fn sync(&self, (): &()) -> io::Result<()> {
            Ok(())
        }

        fn sync_names(&self) -> io::Result<()> {
            Ok(())
        }

        fn rename(&self, _: &str, _: &str) -> io::Result<()> {
            Ok(())
        }

        fn remove(&self, _: &str) -> io::Result<()> {
            Ok(())
        }

        fn open(&self, _: &str) -> io::Result<impl io::Read + io::Seek> {
            Ok(io::empty())
        }

        fn list(&self) -> io::Result<Vec<String>> {
            Ok(Vec::new())
        }

        fn path(&self, name: &str) -> std::path::PathBuf {
            Path::new("crawl").join(name)
        }
    }

    #[test]
    fn a_disk_that_fails_is_told_with_the_file_and_the_remedy() {
        run(async {
            let steps = Steps {
                every: Duration::ZERO,
                ..Steps::default()
            };
            let writer = start(Full::default(), steps);
            push(&writer, 7, b"1");
            writer.flush();
            let why = writer.failed().await;
            assert!(
                why.contains("crawl/0001-s00.jsonl.zst") && why.contains("--resume"),
                "{why}"
            );
            assert!(!writer.has_room());
            push(&writer, 8, b"1");
            assert_eq!(writer.finish().await, Err(why));
        });
    }
}
