//! Return addresses of programs without frame pointers, by the tables that compilers write for
//! exceptions (`.eh_frame`), from the registers and the top of the stack of a sample.
//!
//! Only for processes that compile code: an interpreter is mostly built without frame pointers, and
//! what it works on is known by the return address into that code.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use framehop::{
    CacheNative, ExplicitModuleSectionInfo, MayAllocateDuringUnwind, Module, UnwindRegsNative,
    Unwinder as _, UnwinderNative,
};
use object::{Object as _, ObjectSection as _, ObjectSegment as _, ReadCache};

use super::spaces::{Mapping, Spaces};

/// Registers that are sampled, in the order in which the kernel has them (`asm/perf_regs.h`): BP, SP
/// and IP of x86-64; X29, LR, SP and PC of aarch64.
#[cfg(target_arch = "x86_64")]
pub(super) const REGISTERS: u64 = 1 << 6 | 1 << 7 | 1 << 8;
#[cfg(not(target_arch = "x86_64"))]
pub(super) const REGISTERS: u64 = 1 << 29 | 1 << 30 | 1 << 31 | 1 << 32;

/// Read them: the instruction, the top of the stack, and all as the unwinder has them.
#[cfg(target_arch = "x86_64")]
fn read_registers(sampled: &[u64]) -> Option<(u64, u64, UnwindRegsNative)> {
    let [frame, top, instruction] = *sampled else {
        return None;
    };
    let registers = UnwindRegsNative::new(instruction, top, frame);
    Some((instruction, top, registers))
}
#[cfg(not(target_arch = "x86_64"))]
fn read_registers(sampled: &[u64]) -> Option<(u64, u64, UnwindRegsNative)> {
    let [frame, link, top, instruction] = *sampled else {
        return None;
    };
    let registers = UnwindRegsNative::new(link, top, frame);
    Some((instruction, top, registers))
}

/// Frames that are looked at above the instruction.
const MOST_FRAMES: usize = 16;

/// Largest table that is read, bytes.
const MOST_OF_TABLE: u64 = 64 << 20;

type Bytes = Arc<[u8]>;
type Unwinder = UnwinderNative<Bytes, MayAllocateDuringUnwind>;

/// The tables of a file.
#[derive(Debug)]
struct Tables {
    /// Offset in the file, size, and address of each part that is mapped.
    segments: Vec<(u64, u64, u64)>,
    frames: Option<(Range<u64>, Bytes)>,
    index: Option<(Range<u64>, Bytes)>,
}

/// Unwinds the stacks of processes.
#[derive(Default)]
pub(super) struct Unwinders {
    /// By process, with the number of mappings that it was made of.
    processes: BTreeMap<u32, (usize, Unwinder)>,
    /// By file; none of one without tables.
    tables: BTreeMap<usize, Option<Arc<Tables>>>,
    cache: CacheNative<MayAllocateDuringUnwind>,
}

impl Unwinders {
    /// Return the return addresses above an instruction, the innermost first, as far as the sampled
    /// part of the stack reaches.
    pub(super) fn above(
        &mut self,
        spaces: &Spaces,
        process: u32,
        registers: &[u64],
        stack: &[u8],
    ) -> Vec<u64> {
        let Some((instruction, top, registers)) = read_registers(registers) else {
            return Vec::new();
        };
        let mappings = spaces.mappings(process);
        if self
            .processes
            .get(&process)
            .is_none_or(|(count, _)| *count != mappings.len())
        {
            let made = self.unwinder(spaces, mappings);
            self.processes.insert(process, (mappings.len(), made));
        }
        let Some((_, unwinder)) = self.processes.get(&process) else {
            return Vec::new();
        };
        let mut read = |address: u64| {
            let at = usize::try_from(address.wrapping_sub(top)).map_err(|_| ())?;
            let word = stack.get(at..).and_then(<[u8]>::first_chunk);
            word.copied().map(u64::from_ne_bytes).ok_or(())
        };
        let mut frames = unwinder.iter_frames(instruction, registers, &mut self.cache, &mut read);
        let mut addresses = Vec::new();
        while let Ok(Some(frame)) = frames.next() {
            addresses.push(frame.address());
            if addresses.len() > MOST_FRAMES {
                break;
            }
        }
        // The first is the instruction itself.
        addresses.drain(..addresses.len().min(1));
        addresses
    }

    fn unwinder(&mut self, spaces: &Spaces, mappings: &[Mapping]) -> Unwinder {
        let mut unwinder = Unwinder::new();
        for mapping in mappings {
            let Some(object) = mapping.object else {
                continue;
            };
            let tables = self
                .tables
                .entry(object)
                .or_insert_with(|| {
                    let file = spaces.of(object)?.file.as_ref()?;
                    Some(Arc::new(Tables::read(file)?))
                })
                .clone();
            if let Some(module) = tables.and_then(|tables| tables.module(mapping)) {
                unwinder.add_module(module);
            }
        }
        unwinder
    }
}

impl Tables {
    /// Read those of an ELF file, which is foreign.
    fn read(file: &File) -> Option<Self> {
        let cache = ReadCache::new(file);
        let parsed = object::File::parse(&cache).ok()?;
        let [frames, index] = [".eh_frame", ".eh_frame_hdr"].map(|name| {
            let section = parsed.section_by_name(name)?;
            let size = Some(section.size()).filter(|size| *size <= MOST_OF_TABLE)?;
            let range = section.address()..section.address().checked_add(size)?;
            Some((range, Bytes::from(section.data().ok()?)))
        });
        Some(Self {
            segments: parsed
                .segments()
                .map(|it| (it.file_range().0, it.file_range().1, it.address()))
                .collect(),
            frames,
            index,
        })
    }

    /// The tables as those of a part of memory.
    fn module(&self, mapping: &Mapping) -> Option<Module<Bytes>> {
        let (start, _, address) = self.segments.iter().find(|(start, size, _)| {
            let end = start.saturating_add(*size);
            // Mapped by whole pages.
            (start & !0xfff..end).contains(&mapping.offset)
        })?;
        let own = address.wrapping_add(mapping.offset).wrapping_sub(*start);
        let (eh_frame_svma, eh_frame) = self.frames.clone().unzip();
        let (eh_frame_hdr_svma, eh_frame_hdr) = self.index.clone().unzip();
        let sections = ExplicitModuleSectionInfo {
            eh_frame_svma,
            eh_frame,
            eh_frame_hdr_svma,
            eh_frame_hdr,
            ..ExplicitModuleSectionInfo::default()
        };
        let base = mapping.start.wrapping_sub(own);
        let range = mapping.start..mapping.end;
        Some(Module::new(String::new(), range, base, sections))
    }
}
