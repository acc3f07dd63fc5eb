//! Lines of `latency.hlog`, parsed: shard, series, second, and the number of values in each cell.
//!
//! The bytes are foreign: a log may be cut short, damaged, or of another program. Whatever a line
//! says, reading it neither panics nor takes more memory than a histogram of the run's own bounds
//! has cells.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::{Decompress, FlushDecompress, Status};

use crawlmark_harness::shard::INTERVAL;
use crawlmark_harness::stats::{Bounds, Cells, Series};
use crawlmark_harness::wire::v2::{
    DEFLATED_COOKIE, DEFLATED_HEADER, HEADER, LONGEST_NUMBER, read_cells, word,
};

/// Suffix of the name of a series of ages.
pub const CENSORED: &str = "_censored";

/// Kind of the values of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Times that were measured.
    Times,
    /// Ages of attempts that were cut off.
    Ages,
}

/// Contents of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The shard's number.
    pub shard: u32,
    /// Distribution.
    pub series: Series,
    /// Kind of the values.
    pub kind: Kind,
    /// When its interval began, s after the common start.
    pub second: u64,
    /// The cells that are not empty, by their number in the histogram, and how many values each
    /// holds.
    pub cells: Vec<(usize, u64)>,
    /// Number of values.
    pub count: u64,
}

/// Fault of a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineFault {
    /// Not `Tag=..,start,length,max,histogram`.
    #[error("it is not of the form Tag=shard-0.service,START,LENGTH,MAX,HISTOGRAM")]
    Form,
    /// The tag is not `shard-0.service`.
    #[error("the tag `{0}` names no shard")]
    Tag(String),
    /// Not whole seconds of a second each.
    #[error("it is not of one whole second")]
    Second,
    /// The histogram is none.
    #[error("its histogram cannot be read: {0}")]
    Histogram(&'static str),
}

/// Reads lines of the log of one run. Keeps its buffers from one to the next.
#[derive(Debug)]
pub struct LineReader {
    bounds: Bounds,
    inflate: Decompress,
    packed: Vec<u8>,
    plain: Vec<u8>,
}

impl LineReader {
    /// For a run whose histograms have these bounds.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        // A byte more than the longest histogram takes, so that one that is longer can be told.
        let plain = Vec::with_capacity(HEADER + bounds.cells() * LONGEST_NUMBER + 1);
        Self {
            bounds,
            inflate: Decompress::new(true),
            packed: Vec::new(),
            plain,
        }
    }

    /// The most bytes that a line of such a run may have: all cells in their longest form, in
    /// base64, and what is before it.
    #[must_use]
    pub fn longest_line(&self) -> usize {
        const BEFORE: usize = 256;
        BEFORE
            + (self.plain.capacity() + self.plain.capacity() / 100 + DEFLATED_HEADER + BEFORE)
                .div_ceil(3)
                * 4
    }

    /// Parse `line`, given without its end. Return none for a comment, a legend, or a series that
    /// this version does not know.
    ///
    /// # Errors
    /// When it is no line of this run's log.
    pub fn read(&mut self, line: &str) -> Result<Option<Entry>, LineFault> {
        if line.is_empty() || line.starts_with(['#', '"']) {
            return Ok(None);
        }
        let (tag, rest) = line
            .strip_prefix("Tag=")
            .and_then(|rest| rest.split_once(','))
            .ok_or(LineFault::Form)?;
        let mut fields = rest.splitn(4, ',');
        let mut field = || fields.next().ok_or(LineFault::Form);
        let (start, length, _max, histogram) = (field()?, field()?, field()?, field()?);
        let second = whole(start)?;
        if whole(length)? != INTERVAL.as_secs() {
            return Err(LineFault::Second);
        }
        let Some((shard, series, kind)) = read_tag(tag)? else {
            return Ok(None);
        };
        self.unpack(histogram).map_err(LineFault::Histogram)?;
        let Cells(cells) = read_cells(&self.plain, self.bounds).map_err(LineFault::Histogram)?;
        let count = cells
            .iter()
            .try_fold(0_u64, |all, (_, count)| all.checked_add(*count));
        let count = count.ok_or(LineFault::Histogram("its counts are too large"))?;
        Ok(Some(Entry {
            shard,
            series,
            kind,
            second,
            cells,
            count,
        }))
    }

    /// Puts the histogram's plain form into `self.plain`.
    fn unpack(&mut self, text: &str) -> Result<(), &'static str> {
        self.packed.clear();
        STANDARD
            .decode_vec(text, &mut self.packed)
            .map_err(|_| "it is not base64")?;
        let (header, deflated) = self
            .packed
            .split_at_checked(DEFLATED_HEADER)
            .ok_or("it is cut short")?;
        let length = usize::try_from(word(header, 4)).unwrap_or(usize::MAX);
        if word(header, 0) != DEFLATED_COOKIE {
            return Err("it is not in V2-deflate encoding");
        }
        let deflated = deflated.get(..length).ok_or("it is cut short")?;
        self.plain.clear();
        self.inflate.reset(true);
        // Fills what room there is, which is bounded, and no more.
        match self
            .inflate
            .decompress_vec(deflated, &mut self.plain, FlushDecompress::Finish)
        {
            Ok(Status::StreamEnd) => Ok(()),
            Ok(Status::Ok | Status::BufError) => {
                Err("it is cut short, or larger than this run's are")
            }
            Err(_) => Err("it does not inflate"),
        }
    }
}

/// `12.000` as 12.
fn whole(text: &str) -> Result<u64, LineFault> {
    let (seconds, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(seconds) || part.bytes().any(|byte| byte != b'0') {
        return Err(LineFault::Second);
    }
    seconds.parse().map_err(|_| LineFault::Second)
}

/// `shard-0.service` or `shard-0.service_censored`; none of a series that is not known.
fn read_tag(tag: &str) -> Result<Option<(u32, Series, Kind)>, LineFault> {
    let unknown = || LineFault::Tag(tag.chars().take(40).collect());
    let (shard, name) = tag
        .strip_prefix("shard-")
        .and_then(|rest| rest.split_once('.'))
        .ok_or_else(unknown)?;
    let shard = shard.parse().map_err(|_| unknown())?;
    let (name, kind) = name
        .strip_suffix(CENSORED)
        .map_or((name, Kind::Times), |name| (name, Kind::Ages));
    let series = Series::PER_INTERVAL
        .into_iter()
        .find(|series| series.name() == name);
    Ok(series.map(|series| (shard, series, kind)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer, V2Serializer};
    use proptest::prelude::*;

    use super::*;
    use crate::run::cut::laws;

    fn bounds() -> Bounds {
        Bounds::for_timeout(Duration::from_secs(1))
    }

    fn line(histogram: &Histogram<u64>) -> String {
        let mut v2 = Vec::new();
        V2DeflateSerializer::new()
            .serialize(histogram, &mut v2)
            .unwrap();
        format!(
            "Tag=shard-3.service,7.000,1.000,5.5,{}",
            STANDARD.encode(v2)
        )
    }

    /// The histogram that an entry is of.
    fn histogram(entry: &Entry) -> Histogram<u64> {
        let mut histogram = bounds().histogram();
        let values: Vec<u64> = histogram
            .iter_all()
            .map(|cell| cell.value_iterated_to())
            .collect();
        for (cell, count) in &entry.cells {
            histogram.record_n(values[*cell], *count).unwrap();
        }
        histogram
    }

    #[test]
    fn what_inflates_beyond_a_histogram_is_refused_without_the_memory_for_it() {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        std::io::copy(
            &mut std::io::Read::take(std::io::repeat(0), 1 << 28),
            &mut encoder,
        )
        .unwrap();
        let bomb = encoder.finish().unwrap();
        let mut packed = DEFLATED_COOKIE.to_be_bytes().to_vec();
        packed.extend(u32::try_from(bomb.len()).unwrap().to_be_bytes());
        packed.extend(bomb);
        let mut reader = LineReader::new(bounds());
        let room = reader.plain.capacity();
        let fault = reader
            .read(&format!(
                "Tag=shard-0.service,0,1,1,{}",
                STANDARD.encode(packed)
            ))
            .unwrap_err();
        assert_eq!(
            fault,
            LineFault::Histogram("it is cut short, or larger than this run's are")
        );
        assert_eq!(reader.plain.capacity(), room);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn what_the_crate_writes_is_read_cell_by_cell(
            values in prop::collection::vec((0..2_000_000_000_u64, 1..1_u64 << 40), 0..60),
        ) {
            let mut recorded = bounds().histogram();
            for (value, count) in values {
                recorded.record_n(value, count).unwrap();
            }
            let mut reader = LineReader::new(bounds());
            let line = line(&recorded);
            prop_assert!(line.len() <= reader.longest_line());
            let entry = reader.read(&line).unwrap().unwrap();
            prop_assert_eq!(entry.count, recorded.len());
            prop_assert_eq!(histogram(&entry), recorded);
        }

        #[test]
        fn no_bytes_bring_it_down(
            junk in prop::collection::vec(any::<u8>(), 0..200), at in 0..400_usize, cut in 0..400_usize,
        ) {
            let mut recorded = bounds().histogram();
            (0..200_u64).for_each(|n| recorded.record(n * n * 1_000).unwrap());
            // Damaged before it was deflated, where a checksum would hide what is behind it.
            let mut plain = Vec::new();
            V2Serializer::new().serialize(&recorded, &mut plain).unwrap();
            let at = at.min(plain.len());
            let mut damaged = plain[..at].to_vec();
            damaged.extend(&junk);
            damaged.extend(&plain[cut.min(plain.len())..]);
            laws::check(&damaged);
            laws::check(&junk);
            let whole = line(&recorded);
            laws::check(&whole.as_bytes()[..cut.min(whole.len())]);
            prop_assert_eq!(LineReader::new(bounds()).read(&whole).unwrap().map(|entry| entry.count), Some(200));
        }
    }
}
