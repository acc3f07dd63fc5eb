//! Lines between a probe and a run: JSON, an object each. A probe may run on another machine, so
//! what it writes is foreign.

use serde::{Deserialize, Serialize};

use super::{TargetFound, TargetSample};
use crate::profile::Profile;

/// A line that a probe writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// The first line: its target.
    Found(TargetFound),
    /// The first line of a probe that has no target, with the reason.
    Failed(String),
    /// A sample.
    Sample(TargetSample),
    /// The answer to a line on its standard input.
    Pong(Pong),
    /// The answer to [`ASK_FOR_PROFILE`] of a probe that samples functions.
    Profile(Profile),
}

/// Number on a line of standard input that asks for the functions sampled so far.
pub const ASK_FOR_PROFILE: u64 = 0;

/// Answer to a line on standard input, with the time at which the probe read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pong {
    /// Number on the line.
    pub number: u64,
    /// `CLOCK_MONOTONIC` of the probe, ns.
    pub at_ns: u64,
}

/// Longest line that is read, bytes: a profile has at most 150 functions with three names of 150
/// bytes.
const LONGEST: usize = 1 << 17;

/// Reads lines from the bytes of a pipe.
#[derive(Debug, Default)]
pub struct Lines {
    rest: Vec<u8>,
    /// True within a line that is too long.
    is_skipping: bool,
    bad: u64,
}

impl Lines {
    /// Take in bytes, and return the lines that they complete.
    pub fn take(&mut self, mut bytes: &[u8]) -> Vec<Line> {
        let mut lines = Vec::new();
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.add(&bytes[..end]);
            bytes = &bytes[end + 1..];
            match serde_json::from_slice(&self.rest) {
                Ok(line) if !self.is_skipping => lines.push(line),
                _ => self.bad += 1,
            }
            self.rest.clear();
            self.is_skipping = false;
        }
        self.add(bytes);
        lines
    }

    /// Return the number of lines that could not be read.
    pub const fn bad(&self) -> u64 {
        self.bad
    }

    fn add(&mut self, bytes: &[u8]) {
        self.is_skipping |= self.rest.len() + bytes.len() > LONGEST;
        if self.is_skipping {
            self.rest.clear();
        } else {
            self.rest.extend(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lines_are_read_however_the_bytes_are_cut_and_whatever_is_between_them(
            numbers in prop::collection::vec(any::<u64>(), 0..20),
            junk in prop::collection::vec(any::<u8>(), 0..200),
            cut in 1_usize..50,
        ) {
            let mut bytes = Vec::new();
            for number in &numbers {
                let line = Line::Pong(Pong { number: *number, at_ns: 7 });
                bytes.extend(serde_json::to_vec(&line).unwrap());
                bytes.push(b'\n');
                bytes.extend(&junk);
                bytes.push(b'\n');
            }
            let mut lines = Lines::default();
            let read: Vec<Line> = bytes.chunks(cut).flat_map(|part| lines.take(part)).collect();
            let read = read.iter().map(|line| match line {
                Line::Pong(pong) => pong.number,
                other => panic!("{other:?}"),
            });
            prop_assert_eq!(read.collect::<Vec<_>>(), numbers.clone());
            let junk = junk.split(|byte| *byte == b'\n').count();
            prop_assert_eq!(lines.bad(), (junk * numbers.len()) as u64);
        }
    }

    #[test]
    fn a_line_without_an_end_takes_no_memory() {
        let mut lines = Lines::default();
        for _ in 0..100 {
            assert!(lines.take(&[b'x'; 10_000]).is_empty());
            assert!(lines.rest.len() <= LONGEST);
        }
        assert_eq!(
            lines.take(b"\n{\"failed\":\"why\"}\n"),
            [Line::Failed("why".to_owned())]
        );
        assert_eq!(lines.bad(), 1);
    }
}
