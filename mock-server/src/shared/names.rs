//! The names of the limits, so that whoever reads the books knows them. Each serving process writes them when it starts.
//!
//! It must not change them: all processes of a target have the same limits.

use crate::limit::{Limits, MAX_LIMITS, MAX_NAME};
use std::sync::atomic::{AtomicU8, Ordering};

/// The names; a limit that does not exist has an empty one.
#[repr(C)]
pub(crate) struct Names {
    bytes: [[AtomicU8; MAX_NAME]; MAX_LIMITS],
}

impl Names {
    pub(crate) fn write(&self, limits: &Limits) {
        for (place, limit) in self.bytes.iter().zip(limits.iter()) {
            for (place, byte) in place.iter().zip(limit.name().bytes()) {
                place.store(byte, Ordering::Relaxed);
            }
        }
    }

    /// The name of each limit.
    pub(crate) fn read(&self) -> [Option<String>; MAX_LIMITS] {
        self.bytes.each_ref().map(|name| {
            let bytes = name.iter().map(|byte| byte.load(Ordering::Relaxed)).take_while(|byte| *byte != 0);
            String::from_utf8(bytes.collect()).ok().filter(|name| !name.is_empty())
        })
    }
}
