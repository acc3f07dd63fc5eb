//! A log that all processes append to and read. The stubs keep their changes at run time in one,
//! the request journal its records in another.
//!
//! It must not know what its records mean.

use super::atomics::{AtomicU64, Ordering};
use super::lock::Lock;

/// Bytes per word of the log.
const WORD: usize = size_of::<u64>();

/// A log of at most `WORDS` words of eight bytes, each record taking one more than its bytes need.
/// Once full it stays as it is.
///
/// One process at a time writes a record and then moves the end behind it, so that a reader sees
/// whole records, and one whose writer was killed is overwritten by the next. All of it is one
/// aligned part, so that it can be handed back to the kernel in whole pages.
#[repr(C, align(4096))]
pub(crate) struct Log<const WORDS: usize> {
    lock: Lock,
    /// Position of the first record.
    start: AtomicU64,
    /// Position behind the last record, and with it the generation of the whole: positions count the
    /// words ever written, so that none comes twice when the log starts over.
    end: AtomicU64,
    words: [AtomicU64; WORDS],
}

/// Position of a reader; the default is the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cursor(u64);

/// Fate of the records before a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Earlier {
    /// They stay.
    Kept,
    /// They make room: the new one says all that readers have to know.
    Forgotten,
}

/// The log has no room for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl<const WORDS: usize> Log<WORDS> {
    /// Appends a record, which every process sees from here on.
    pub(crate) fn append(&self, record: &[u8]) -> Result<(), Full> {
        let _held = self.lock.hold();
        self.write(self.start(), self.end(), record)
    }

    /// Appends a record if there is nothing behind `cursor`, and moves that past it. False if there
    /// is.
    pub(crate) fn append_at(
        &self,
        cursor: &mut Cursor,
        record: &[u8],
        earlier: Earlier,
    ) -> Result<bool, Full> {
        let _held = self.lock.hold();
        let is_at_end = self.is_at_end(*cursor);
        if is_at_end {
            let start = match earlier {
                Earlier::Kept => self.start(),
                Earlier::Forgotten => cursor.0,
            };
            self.write(start, cursor.0, record)?;
            cursor.0 = self.end();
        }
        Ok(is_at_end)
    }

    /// Writes a record at a position of a log whose first record is at `start`.
    fn write(&self, start: u64, at: u64, record: &[u8]) -> Result<(), Full> {
        let length = 1 + record.len().div_ceil(WORD);
        let from = usize::try_from(at - start).map_err(|_| Full)?;
        let [header, payload @ ..] = self
            .words
            .get(from..)
            .and_then(|rest| rest.get(..length))
            .ok_or(Full)?
        else {
            return Err(Full);
        };
        header.store(record.len() as u64, Ordering::Relaxed);
        for (word, bytes) in payload.iter().zip(record.chunks(WORD)) {
            let mut padded = [0; WORD];
            padded[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_le_bytes(padded), Ordering::Relaxed);
        }
        self.start.store(start, Ordering::Relaxed);
        // Release: a reader that sees the new end sees the record.
        self.end.store(at + length as u64, Ordering::Release);
        Ok(())
    }

    fn start(&self) -> u64 {
        self.start.load(Ordering::Relaxed)
    }

    fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    /// True if there is nothing behind `cursor`: a look at one word.
    pub(crate) fn is_at_end(&self, cursor: Cursor) -> bool {
        self.end() == cursor.0
    }

    /// Reads the records behind `cursor`, which moves past them, of a log that may start over. The
    /// first value is true if it did since the reader's last look.
    pub(crate) fn read_behind(&self, cursor: &mut Cursor) -> (bool, Vec<Vec<u8>>) {
        let _held = self.lock.hold();
        let starts_over = cursor.0 < self.start();
        cursor.0 = cursor.0.max(self.start());
        let records = std::iter::from_fn(|| self.next(cursor)).collect();
        (starts_over, records)
    }

    /// The record behind `cursor`, which moves past it.
    pub(crate) fn next(&self, cursor: &mut Cursor) -> Option<Vec<u8>> {
        let record = self.record(cursor)?;
        let mut bytes: Vec<u8> = record
            .words
            .iter()
            .flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes())
            .collect();
        bytes.truncate(record.length);
        Some(bytes)
    }

    /// Moves past the record behind `cursor` without reading it, if there is one.
    pub(crate) fn skip(&self, cursor: &mut Cursor) -> bool {
        self.record(cursor).is_some()
    }

    fn record(&self, cursor: &mut Cursor) -> Option<Record<'_>> {
        let index = |position: u64| usize::try_from(position.checked_sub(self.start())?).ok();
        let (header, payload) = self
            .words
            .get(index(cursor.0)?..index(self.end())?)?
            .split_first()?;
        let length = usize::try_from(header.load(Ordering::Relaxed)).ok()?;
        let words = payload.get(..length.div_ceil(WORD))?;
        cursor.0 += 1 + words.len() as u64;
        Some(Record { length, words })
    }

    /// Forgets every record, the slow way.
    pub(crate) fn clear(&self) {
        let _held = self.lock.hold();
        self.end.store(0, Ordering::Release);
    }
}

/// A record in the log.
struct Record<'l> {
    /// In bytes.
    length: usize,
    words: &'l [AtomicU64],
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn log<const WORDS: usize>() -> Log<WORDS> {
        Log {
            lock: Lock::default(),
            start: AtomicU64::new(0),
            end: AtomicU64::new(0),
            words: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    fn all<const WORDS: usize>(log: &Log<WORDS>) -> Vec<Vec<u8>> {
        let mut cursor = Cursor::default();
        std::iter::from_fn(|| log.next(&mut cursor)).collect()
    }

    proptest! {
        #[test]
        fn what_is_appended_is_read_in_order_until_it_is_full(
            records in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..30),
        ) {
            let log = log::<64>();
            let mut kept = Vec::new();
            for record in records {
                let words = kept.iter().chain([&record]).map(|record: &Vec<u8>| 1 + record.len().div_ceil(8)).sum::<usize>();
                let fits = words <= 64;
                prop_assert_eq!(log.append(&record).is_ok(), fits);
                if fits {
                    kept.push(record);
                }
            }
            prop_assert_eq!(all(&log), kept);
            log.clear();
            prop_assert!(all(&log).is_empty());
            prop_assert!(log.append(b"again").is_ok());
            prop_assert_eq!(all(&log), [b"again"]);
        }
    }

    #[test]
    fn what_comes_late_is_not_appended_and_the_log_is_read_first() {
        let log = log::<64>();
        let (mut one, mut other, mut third) = <(Cursor, Cursor, Cursor)>::default();
        let kept = Earlier::Kept;
        assert_eq!(log.append_at(&mut one, b"first", kept), Ok(true));
        assert_eq!(log.append_at(&mut other, b"second", kept), Ok(false));
        let first = b"first".to_vec();
        assert_eq!(log.read_behind(&mut other), (false, vec![first]));
        assert_eq!(log.append_at(&mut other, b"second", kept), Ok(true));
        assert_eq!(log.read_behind(&mut one).1, [b"second"]);
        assert_eq!(one, other);
        // It starts over: who has read all goes on, who has not is told.
        let room = [0; 8 * 50];
        assert_eq!(log.append_at(&mut one, &room, kept), Ok(true));
        assert_eq!(log.append_at(&mut one, &room, kept), Err(Full));
        assert_eq!(
            log.append_at(&mut one, b"anew", Earlier::Forgotten),
            Ok(true)
        );
        assert_eq!(log.append_at(&mut one, &room, kept), Ok(true));
        let (starts_over, records) = log.read_behind(&mut other);
        assert!(starts_over && records == [b"anew".to_vec(), room.to_vec()]);
        assert!(log.read_behind(&mut third).0 && third == one && one == other);
        assert_eq!(
            log.append_at(&mut one, b"last", Earlier::Forgotten),
            Ok(true)
        );
        assert_eq!(log.read_behind(&mut other), (false, vec![b"last".to_vec()]));
    }
}
