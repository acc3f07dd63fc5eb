//! Trace ids of requests (W3C Trace Context, version 00): made of a run, an ID and an attempt, and
//! read back, so that nothing has to be kept of a request.
//!
//! The trace id is the number of the run and the ID, the latter by a bijection that is another one
//! in each run. All attempts of an item share it; the id of the span is of one attempt.

use std::fmt;
use std::str::FromStr;

use crate::plan::{RunNumber, RunPlan};

/// Trace ids of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Traces {
    run: u64,
    recorded: f64,
}

impl Traces {
    /// Trace ids of a run with this number, of which a share is to be recorded.
    pub const fn new(run: u64, recorded: f64) -> Self {
        Self { run, recorded }
    }

    /// Return the trace ids of a plan; none if its run sends none.
    pub fn of(plan: &RunPlan) -> Option<Self> {
        let RunNumber(run) = plan.workload.trace_run?;
        Some(Self::new(run, plan.workload.trace?))
    }

    /// True if any is to be recorded.
    pub fn are_recorded(&self) -> bool {
        self.recorded > 0.0
    }

    /// Return the trace context of a request: `attempt` is the number of earlier ones of its item.
    pub fn request(&self, id: u64, attempt: u32) -> TraceContext {
        let item = mixed(id ^ self.run);
        TraceContext {
            run: self.run,
            item,
            // 0 is no span: it comes up once in 2^64.
            span: mixed(item.wrapping_add(u64::from(attempt) + 1)).max(1),
            is_recorded: ((item >> 11) as f64) < self.recorded * (1_u64 << 53) as f64,
        }
    }
}

/// Trace context of a request. Displayed as the value of a `traceparent` header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    run: u64,
    item: u64,
    span: u64,
    /// True if the trace is to be recorded: the flag `sampled`.
    pub is_recorded: bool,
}

/// Value of a `traceparent` header.
pub type TraceHeader = [u8; 55];

impl TraceContext {
    /// Return the trace id.
    pub fn trace_id(&self) -> String {
        format!("{:016x}{:016x}", self.run, self.item)
    }

    /// Return the value of the header. Allocates nothing.
    pub fn header(&self) -> TraceHeader {
        let mut header = *b"00-                                -                -00";
        write_hex(self.run, &mut header[3..19]);
        write_hex(self.item, &mut header[19..35]);
        write_hex(self.span, &mut header[36..52]);
        header[54] += u8::from(self.is_recorded);
        header
    }

    /// Return the number of the run.
    pub const fn run(&self) -> u64 {
        self.run
    }

    /// Return the ID of the item.
    pub const fn id(&self) -> u64 {
        unmixed(self.item) ^ self.run
    }

    /// Return the number of earlier attempts of the item; none if the span is not one of ours.
    pub fn attempt(&self) -> Option<u32> {
        let number = unmixed(self.span).wrapping_sub(self.item);
        u32::try_from(number.checked_sub(1)?).ok()
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.header()))
    }
}

/// Reason why a text is no trace id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a trace id, which has 32 hexadecimal digits: write that, or a whole `traceparent`"
)]
pub struct NoTraceId(String);

/// Reads a trace id, whose span is then 0, or the value of a `traceparent` header.
impl FromStr for TraceContext {
    type Err = NoTraceId;

    fn from_str(text: &str) -> Result<Self, NoTraceId> {
        read(text).ok_or_else(|| NoTraceId(text.to_owned()))
    }
}

fn read(text: &str) -> Option<TraceContext> {
    let parts: Vec<&str> = text.split('-').collect();
    let (trace_id, span, flags) = match *parts {
        [trace_id] => (trace_id, "0000000000000000", "00"),
        ["00", trace_id, span, flags] => (trace_id, span, flags),
        _ => return None,
    };
    let (run, item) = trace_id.split_at_checked(16)?;
    let flags = u8::from_str_radix(flags, 16).ok()?;
    Some(TraceContext {
        run: read_hex(run)?,
        item: read_hex(item)?,
        span: read_hex(span)?,
        is_recorded: flags & 1 == 1,
    })
}

fn read_hex(text: &str) -> Option<u64> {
    let is_hex = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    u64::from_str_radix(text, 16).ok().filter(|_| is_hex)
}

fn write_hex(number: u64, output: &mut [u8]) {
    for (pair, byte) in output.chunks_exact_mut(2).zip(number.to_be_bytes()) {
        pair[0] = b"0123456789abcdef"[usize::from(byte >> 4)];
        pair[1] = b"0123456789abcdef"[usize::from(byte & 0xf)];
    }
}

/// Mix the bits of a number: the finalizer of splitmix64 (Steele, Lea and Flood, 2014).
pub const fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

/// Return the number that [`mixed`] makes this one of: the same steps backwards, each factor
/// inverted modulo 2^64.
const fn unmixed(number: u64) -> u64 {
    let number = number ^ (number >> 31) ^ (number >> 62);
    let number = number.wrapping_mul(0x3196_42B2_D24D_8EC3);
    let number = number ^ (number >> 27) ^ (number >> 54);
    let number = number.wrapping_mul(0x96DE_1B17_3F11_9089);
    number ^ (number >> 30) ^ (number >> 60)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_header_leads_back_to_its_run_item_and_attempt(run: u64, id: u64, attempt: u32) {
            let sent = Traces::new(run, 0.5).request(id, attempt);
            let header = sent.to_string();
            let read: TraceContext = header.parse().unwrap();
            prop_assert_eq!(read, sent);
            prop_assert_eq!((read.run(), read.id(), read.attempt()), (run, id, Some(attempt)));
            let read: TraceContext = header[3..35].parse().unwrap();
            prop_assert_eq!((read.trace_id(), read.id(), read.attempt()), (sent.trace_id(), id, None));
            // The form that the standard asks for.
            let lengths: Vec<usize> = header.split('-').map(str::len).collect();
            prop_assert_eq!(lengths, [2, 32, 16, 2]);
            prop_assert!(header.bytes().all(|byte| matches!(byte, b'-' | b'0'..=b'9' | b'a'..=b'f')));
        }

        #[test]
        fn any_number_is_mixed_from_one(number: u64) {
            prop_assert_eq!((unmixed(mixed(number)), mixed(unmixed(number))), (number, number));
        }

        #[test]
        fn no_text_makes_it_panic(text in "(00-)?[0-9a-f]{0,33}(-[0-9a-fé]{15,17}-0[0-9])?") {
            if let Ok(read) = text.parse::<TraceContext>() {
                prop_assert!(text.contains(&read.trace_id()));
            }
        }

        #[test]
        fn as_many_are_recorded_as_asked(run: u64, share in 0.0..1.0_f64) {
            let recorded = |share| {
                let traces = Traces::new(run, share);
                (0..2000).filter(|id| traces.request(*id, 0).is_recorded).count()
            };
            prop_assert_eq!((recorded(0.0), recorded(1.0)), (0, 2000));
            // Standard deviation at most 22: six of them either way.
            prop_assert!((recorded(share) as f64 - 2000.0 * share).abs() < 135.0);
            // Another attempt of an item is recorded like the first.
            let traces = Traces::new(run, share);
            let [first, next] = [0, 1].map(|attempt| traces.request(7, attempt));
            prop_assert_eq!((first.is_recorded, first.trace_id()), (next.is_recorded, next.trace_id()));
            prop_assert_ne!(first, next);
        }
    }
}
