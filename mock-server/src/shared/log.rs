//! A log that all processes append to and read: that of the request journal.
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
    /// Words written so far.
    end: AtomicU64,
    words: [AtomicU64; WORDS],
}

/// Position of a reader; the default is the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cursor(usize);

/// The log has no room for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl<const WORDS: usize> Log<WORDS> {
    /// Appends a record, which every process sees from here on.
    pub(crate) fn append(&self, record: &[u8]) -> Result<(), Full> {
        let _held = self.lock.hold();
        self.write(self.end(), record)
    }

    fn write(&self, start: usize, record: &[u8]) -> Result<(), Full> {
        let end = start + 1 + record.len().div_ceil(WORD);
        let [header, payload @ ..] = self.words.get(start..end).ok_or(Full)? else {
            return Err(Full);
        };
        header.store(record.len() as u64, Ordering::Relaxed);
        for (word, bytes) in payload.iter().zip(record.chunks(WORD)) {
            let mut padded = [0; WORD];
            padded[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_le_bytes(padded), Ordering::Relaxed);
        }
        // Release: a reader that sees the new end sees the record.
        self.end.store(end as u64, Ordering::Release);
        Ok(())
    }

    fn end(&self) -> usize {
        usize::try_from(self.end.load(Ordering::Acquire)).unwrap_or(WORDS)
    }

    /// The record behind `cursor`, which moves past it.
    pub(crate) fn next(&self, cursor: &mut Cursor) -> Option<Vec<u8>> {
        let record = self.record(cursor)?;
        let words = record.words.iter();
        let mut bytes: Vec<u8> = words
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
        let (header, payload) = self.words.get(cursor.0..self.end())?.split_first()?;
        let length = usize::try_from(header.load(Ordering::Relaxed)).ok()?;
        let words = payload.get(..length.div_ceil(WORD))?;
        cursor.0 += 1 + words.len();
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
}
