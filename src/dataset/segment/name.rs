//! Names of the files of a segment, from who wrote it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Writer of a segment: one process life. In the order in which a crawl was written.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct SegmentName {
    /// Session, from 1: a crawl has one more each time it is resumed.
    pub session: u32,
    /// Shard.
    pub shard: u32,
    /// Number of processes that the shard had before in this session.
    pub life: u32,
}

impl SegmentName {
    /// Extension of a segment.
    const SEGMENT: &str = ".jsonl.zst";
    /// End of the name of a session's counters of requests.
    const REQUESTS: &str = "-requests";
    /// Further extension of a file that is not yet in place.
    pub const NEW: &str = ".new";

    /// File name of the segment.
    pub fn segment(self) -> String {
        format!("{self}{}", Self::SEGMENT)
    }

    /// Name of a file until it is in its place.
    pub fn new_file(file: &str) -> String {
        format!("{file}{}", Self::NEW)
    }

    /// Return the segment with this file name; none of other files.
    pub fn of_segment(file: &str) -> Option<Self> {
        file.strip_suffix(Self::SEGMENT)?.parse().ok()
    }

    /// File name of the counters of the requests of a session.
    pub fn requests(session: u32) -> String {
        format!("{session:04}{}", Self::REQUESTS)
    }

    /// Return the session whose counters have this file name; none of other files.
    pub fn session_of_requests(file: &str) -> Option<u32> {
        let session = file.strip_suffix(Self::REQUESTS)?.parse().ok()?;
        (Self::requests(session) == file).then_some(session)
    }
}

impl fmt::Display for SegmentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-s{:02}", self.session, self.shard)?;
        if self.life > 0 {
            write!(f, "r{}", self.life)
        } else {
            Ok(())
        }
    }
}

impl FromStr for SegmentName {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (session, rest) = text.split_once("-s").ok_or(())?;
        let (shard, life) = rest.split_once('r').unwrap_or((rest, "0"));
        let name = Self {
            session: session.parse().map_err(drop)?,
            shard: shard.parse().map_err(drop)?,
            life: life.parse().map_err(drop)?,
        };
        // Each segment has one name.
        if name.to_string() == text {
            Ok(name)
        } else {
            Err(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_has_one_name() {
        for (name, text) in [
            ((1, 0, 0), "0001-s00"),
            ((1, 3, 1), "0001-s03r1"),
            ((12_345, 100, 12), "12345-s100r12"),
        ] {
            let name = SegmentName {
                session: name.0,
                shard: name.1,
                life: name.2,
            };
            assert_eq!((name.to_string().as_str(), text.parse()), (text, Ok(name)));
            assert_eq!(SegmentName::of_segment(&name.segment()), Some(name));
            let new = SegmentName::new_file(&name.segment());
            assert_eq!(SegmentName::of_segment(&new), None);
        }
        for text in [
            "",
            "1-s0",
            "0001-s0",
            "0001-s00r0",
            "0001-s00r01",
            "+001-s00",
            "0001-s00x",
            "0001-s99999999999",
        ] {
            assert_eq!(text.parse::<SegmentName>(), Err(()), "{text}");
        }
    }
}
