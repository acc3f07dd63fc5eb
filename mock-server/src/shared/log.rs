//! A log that all processes append to and read. The stubs keep their changes at run time in one,
//! the request journal its records in another.
//!
//! It must not know what its records mean.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes per word of the log.
const WORD: usize = size_of::<u64>();

/// A log of at most `WORDS` words of eight bytes, each record taking one more than its bytes need.
/// Once full it stays as it is.
///
/// A writer first reserves the place of its record, then writes it, and marks it as written last.
/// Records are read in the order of their places, by everyone, and none behind one that is not
/// written yet. All of it is one aligned part, so that it can be handed back to the kernel in whole
/// pages.
#[repr(C, align(4096))]
pub(crate) struct Log<const WORDS: usize> {
    /// Words reserved so far.
    reserved: AtomicU64,
    words: [AtomicU64; WORDS],
}

/// Position of a reader; the default is the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cursor(u64);

/// The log has no room for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl<const WORDS: usize> Log<WORDS> {
    /// Appends `record`, which every process sees from here on, behind all that were appended
    /// before this call. Returns where a reader is who has read all before it.
    ///
    /// A process killed in the middle of this hides all later records for good; a target whose
    /// process was killed is no longer a target.
    pub(crate) fn append(&self, record: &[u8]) -> Result<Cursor, Full> {
        let words = 1 + record.len().div_ceil(WORD) as u64;
        let fits = |reserved: u64| {
            reserved
                .checked_add(words)
                .filter(|end| *end <= WORDS as u64)
        };
        let start = self
            .reserved
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits)
            .map_err(|_| Full)?;
        let Some(place) = usize::try_from(start)
            .ok()
            .and_then(|start| self.words.get(start..))
        else {
            return Err(Full);
        };
        let Some((header, payload)) = place.split_first() else {
            return Err(Full);
        };
        for (word, bytes) in payload.iter().zip(record.chunks(WORD)) {
            let mut padded = [0; WORD];
            padded[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_le_bytes(padded), Ordering::Relaxed);
        }
        // Release: a reader that sees the header sees the record. Zero is the header of a place not
        // written yet.
        header.store(record.len() as u64 + 1, Ordering::Release);
        Ok(Cursor(start))
    }

    /// True if there is nothing behind `cursor`; a look at one word.
    pub(crate) fn is_at_end(&self, cursor: Cursor) -> bool {
        self.reserved.load(Ordering::Relaxed) <= cursor.0
    }

    /// The record behind `cursor`, which moves past it.
    pub(crate) fn next(&self, cursor: &mut Cursor) -> Option<Vec<u8>> {
        let start = usize::try_from(cursor.0).ok()?;
        let (header, payload) = self.words.get(start..)?.split_first()?;
        let length = usize::try_from(header.load(Ordering::Acquire).checked_sub(1)?).ok()?;
        let words = payload.get(..length.div_ceil(WORD))?;
        let mut record: Vec<u8> = words
            .iter()
            .flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes())
            .collect();
        record.truncate(length);
        cursor.0 += 1 + words.len() as u64;
        Some(record)
    }

    /// Moves past the record behind `cursor` without reading it, if there is one.
    pub(crate) fn skip(&self, cursor: &mut Cursor) -> bool {
        let header = usize::try_from(cursor.0)
            .ok()
            .and_then(|start| self.words.get(start));
        let Some(length) = header.and_then(|header| header.load(Ordering::Acquire).checked_sub(1))
        else {
            return false;
        };
        cursor.0 = cursor.0.saturating_add(1 + length.div_ceil(WORD as u64));
        true
    }

    /// Forgets every record, the slow way. Nothing may append at the same time.
    pub(crate) fn clear(&self) {
        let used = usize::try_from(self.reserved.load(Ordering::Relaxed))
            .unwrap_or(WORDS)
            .min(WORDS);
        for word in &self.words[..used] {
            word.store(0, Ordering::Relaxed);
        }
        self.reserved.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn log<const WORDS: usize>() -> Log<WORDS> {
        Log {
            reserved: AtomicU64::new(0),
            words: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    fn all<const WORDS: usize>(log: &Log<WORDS>) -> Vec<Vec<u8>> {
        let mut cursor = Cursor::default();
        let records = std::iter::from_fn(|| log.next(&mut cursor)).collect();
        assert!(log.is_at_end(cursor));
        records
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
    fn a_record_that_is_not_written_yet_hides_those_behind_it() {
        let log = log::<64>();
        log.append(b"first").unwrap();
        let place = log.reserved.fetch_add(2, Ordering::Relaxed);
        log.append(b"third").unwrap();
        let mut cursor = Cursor::default();
        assert_eq!(log.next(&mut cursor).as_deref(), Some(&b"first"[..]));
        assert_eq!(log.next(&mut cursor), None);
        assert!(!log.is_at_end(cursor));
        log.words[usize::try_from(place).unwrap()].store(1 + 1, Ordering::Release);
        assert_eq!(log.next(&mut cursor).as_deref(), Some(&[0][..]));
        assert_eq!(log.next(&mut cursor).as_deref(), Some(&b"third"[..]));
    }

    #[test]
    fn threads_lose_no_record_and_agree_on_the_order() {
        const EACH: u64 = 2_000;
        let log = &log::<{ 4 * 2_000 * 2 }>();
        let read = |expected: usize| {
            let (mut cursor, mut records) = (Cursor::default(), Vec::new());
            while records.len() < expected {
                match log.next(&mut cursor) {
                    Some(record) => records.push(record),
                    None => std::thread::yield_now(),
                }
            }
            records
        };
        let (one, other) = std::thread::scope(|scope| {
            for writer in 0..4_u64 {
                scope.spawn(move || {
                    for number in 0..EACH {
                        log.append(&(writer << 32 | number).to_le_bytes()).unwrap();
                    }
                });
            }
            let total = usize::try_from(4 * EACH).unwrap();
            let readers = [
                scope.spawn(move || read(total)),
                scope.spawn(move || read(total)),
            ];
            let [one, other] = readers.map(|reader| reader.join().unwrap());
            (one, other)
        });
        assert_eq!(one, other);
        assert_eq!(log.append(b"x"), Err(Full));
        let mut numbers: Vec<u64> = one
            .iter()
            .map(|r| u64::from_le_bytes(r[..].try_into().unwrap()))
            .collect();
        numbers.sort_unstable();
        let expected: Vec<u64> = (0..4)
            .flat_map(|writer| (0..EACH).map(move |number| writer << 32 | number))
            .collect();
        assert_eq!(numbers, expected);
    }
}
