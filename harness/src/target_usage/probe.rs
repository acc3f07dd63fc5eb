//! The loop of a probe: samples on standard output, a clock on standard input, the end with the end
//! of standard input.

use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::read;

use super::{ASK_FOR_PROFILE, Depth, Line, Pong, Sampler, TargetFound, TargetSample};
use crate::clock::{duration_ns, monotonic_ns, thread_cpu_ns};
use crate::profile::{Profiler, READ_EVERY};

/// Part of a CPU that sampling may use, as its reciprocal: 0.2 %. A target of so many processes
/// that its samples take more is sampled less often.
const CPU_PARTS: u64 = 500;

/// Longest line on standard input that is answered.
const LONGEST_INPUT: usize = 64;

/// Write what was found, its first sample, and then a sample each `interval`, until `input` ends.
/// Answer each number on a line of `input` with the clock, and a sample at once; but
/// [`ASK_FOR_PROFILE`] with the functions that the `profiler` sampled, if there is one.
///
/// # Errors
/// When the output cannot be written. One that is closed is an end like that of the input.
pub fn serve(
    mut sampler: Sampler,
    profiler: Option<Profiler>,
    found: TargetFound,
    first: TargetSample,
    interval: Duration,
    input: BorrowedFd<'_>,
    output: impl Write,
) -> io::Result<()> {
    let mut output = Output(output);
    let served = output
        .write(&Line::Found(found))
        .and_then(|()| output.write(&Line::Sample(first)))
        .and_then(|()| answer(&mut sampler, profiler, interval, input, &mut output));
    match served {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        served => served,
    }
}

fn answer(
    sampler: &mut Sampler,
    mut profiler: Option<Profiler>,
    interval: Duration,
    input: BorrowedFd<'_>,
    output: &mut Output<impl Write>,
) -> io::Result<()> {
    let interval_ns = duration_ns(interval);
    let (begun_ns, mut cpu_before) = (monotonic_ns(), thread_cpu_ns().unwrap_or(0));
    let mut next_ns = begun_ns + interval_ns;
    let mut line = Vec::new();
    loop {
        let mut wait_ns = next_ns.saturating_sub(monotonic_ns());
        if let Some(profiler) = &mut profiler {
            let before = thread_cpu_ns().unwrap_or(0);
            profiler.read();
            wait_ns = wait_ns.min(duration_ns(READ_EVERY));
            // Its cost is bounded by its own period.
            cpu_before += thread_cpu_ns().unwrap_or(0).saturating_sub(before);
        }
        let timeout =
            PollTimeout::try_from(wait_ns.div_ceil(1_000_000)).unwrap_or(PollTimeout::MAX);
        let mut files = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
        if poll(&mut files, timeout)? > 0 {
            let mut bytes = [0; LONGEST_INPUT];
            let length = read(input, &mut bytes)?;
            let at_ns = monotonic_ns();
            if length == 0 {
                return Ok(());
            }
            line.extend(&bytes[..length]);
            for number in numbers(&mut line) {
                if let (ASK_FOR_PROFILE, Some(profiler)) = (number, &mut profiler) {
                    output.write(&Line::Profile(profiler.take_profile(0)))?;
                    continue;
                }
                output.write(&Line::Pong(Pong { number, at_ns }))?;
                output.write(&Line::Sample(sampler.sample(Depth::Full)))?;
            }
        }
        let now_ns = monotonic_ns();
        if now_ns >= next_ns {
            output.write(&Line::Sample(sampler.sample(Depth::Affordable)))?;
            let used_ns = thread_cpu_ns().unwrap_or(0).saturating_sub(cpu_before);
            let affordable_ns = begun_ns.saturating_add(used_ns.saturating_mul(CPU_PARTS));
            next_ns = (next_ns + interval_ns).max(now_ns).max(affordable_ns);
        }
    }
}

/// Take the numbers of the whole lines; lines that hold none are dropped.
fn numbers(line: &mut Vec<u8>) -> Vec<u64> {
    let whole = line.iter().rposition(|byte| *byte == b'\n');
    let rest = line.split_off(whole.map_or(0, |end| end + 1));
    let lines = std::mem::replace(line, rest);
    line.truncate(LONGEST_INPUT);
    lines
        .split(|byte| *byte == b'\n')
        .filter_map(|line| std::str::from_utf8(line).ok()?.trim().parse().ok())
        .collect()
}

struct Output<W>(W);

impl<W: Write> Output<W> {
    /// Write a line at once.
    fn write(&mut self, line: &Line) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(line)?;
        bytes.push(b'\n');
        self.0.write_all(&bytes)?;
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_whole_lines_are_taken_and_the_rest_stays() {
        let mut line = b"12\nwhat\n 7 \n3".to_vec();
        assert_eq!(numbers(&mut line), [12, 7]);
        assert_eq!(line, b"3");
        line.extend(b"4\n");
        assert_eq!(numbers(&mut line), [34]);
        line.extend([b'x'; 1000]);
        assert!(numbers(&mut line).is_empty());
        assert!(line.len() <= LONGEST_INPUT);
    }
}
