//! Names of functions: of ELF files, by their symbols or those of a separate debug file, and of
//! `/tmp/perf-PID.map`, which programs write that compile at run time.
//!
//! Both are foreign: read with bounds, and nothing in them is trusted.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;

use object::{Object as _, ObjectSegment as _, ObjectSymbol as _, ReadCache, SymbolKind};

use super::spaces::{Place, Spaces, regular};

/// The function of code without a name.
pub const UNKNOWN: &str = "[unknown]";

/// Bytes of a map of compiled code that are read.
const MOST_OF_MAP: u64 = 256 << 20;

/// Bytes in which an assembler's symbol without a size is believed.
const WITHOUT_SIZE: u64 = 4096;

/// Names of places.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// By file and offset.
    files: BTreeMap<(usize, u64), String>,
    /// By process and address.
    compiled: BTreeMap<(u32, u64), String>,
    objects: BTreeMap<usize, String>,
}

impl Names {
    /// Look up the names of all of these places.
    pub(super) fn of(spaces: &Spaces, places: impl Iterator<Item = Place>) -> Self {
        let mut offsets = BTreeMap::<usize, BTreeSet<u64>>::new();
        let mut addresses = BTreeMap::<u32, BTreeSet<u64>>::new();
        for place in places {
            match place {
                Place::File { object, offset } => {
                    offsets.entry(object).or_default().insert(offset);
                }
                Place::Compiled { process, address } => {
                    addresses.entry(process).or_default().insert(address);
                }
                Place::Unknown => {}
            }
        }
        let mut names = Self::default();
        for (number, wanted) in offsets {
            let Some(object) = spaces.of(number) else {
                continue;
            };
            names.objects.insert(number, object.name.clone());
            let found = object.file.as_ref().and_then(|file| in_file(file, &wanted));
            for (offset, name) in found.unwrap_or_default() {
                names.files.insert((number, offset), demangled(&name));
            }
        }
        for (process, wanted) in addresses {
            for (address, name) in in_map(process, &wanted) {
                names.compiled.insert((process, address), name);
            }
        }
        names
    }

    /// Return the function at a place, and the name of its file.
    pub(super) fn function(&self, place: Place) -> (String, String) {
        match place {
            Place::File { object, offset } => (
                self.files
                    .get(&(object, offset))
                    .cloned()
                    .unwrap_or_else(|| UNKNOWN.to_owned()),
                self.objects.get(&object).cloned().unwrap_or_default(),
            ),
            Place::Compiled { .. } => self
                .of_compiled(place)
                .unwrap_or_else(|| (UNKNOWN.to_owned(), "compiled at run time".to_owned())),
            Place::Unknown => (UNKNOWN.to_owned(), String::new()),
        }
    }

    /// Return the function at a place in code that its process made, if that named it.
    pub(super) fn of_compiled(&self, place: Place) -> Option<(String, String)> {
        let Place::Compiled { process, address } = place else {
            return None;
        };
        let name = self.compiled.get(&(process, address))?;
        Some((name.clone(), String::new()))
    }
}

/// Return the names at offsets of an ELF file.
fn in_file(file: &File, wanted: &BTreeSet<u64>) -> Option<BTreeMap<u64, String>> {
    let cache = ReadCache::new(file);
    let parsed = object::File::parse(&cache).ok()?;
    // Offsets in the file by addresses in memory, which symbols have.
    let mut offsets = BTreeMap::new();
    for segment in parsed.segments() {
        let (start, size) = segment.file_range();
        for offset in wanted.range(start..start.saturating_add(size)) {
            offsets.insert(segment.address().wrapping_add(offset - start), *offset);
        }
    }
    let mut found = Found::default();
    found.add(&parsed, &offsets);
    if found.0.len() < offsets.len()
        && let Some(debug) = debug_file(parsed.build_id().ok().flatten())
    {
        let cache = ReadCache::new(&debug);
        if let Ok(parsed) = object::File::parse(&cache) {
            found.add(&parsed, &offsets);
        }
    }
    let names = found.0.into_iter().map(|(offset, it)| (offset, it.name));
    Some(names.collect())
}

/// The best symbol for each offset.
#[derive(Debug, Default)]
struct Found(BTreeMap<u64, Symbol>);

#[derive(Debug)]
struct Symbol {
    has_size: bool,
    start: u64,
    name: String,
}

impl Found {
    /// Look for the symbols that cover addresses. One with a size is better than one without, and a
    /// later start than an earlier one.
    fn add<'a>(&mut self, file: &impl object::Object<'a>, offsets: &BTreeMap<u64, u64>) {
        for symbol in file.symbols().chain(file.dynamic_symbols()) {
            if !matches!(symbol.kind(), SymbolKind::Text) || symbol.is_undefined() {
                continue;
            }
            let (start, size) = (symbol.address(), symbol.size());
            let end = start.saturating_add(if size > 0 { size } else { WITHOUT_SIZE });
            for offset in offsets.range(start..end).map(|(_, offset)| offset) {
                let (has_size, known) = (size > 0, self.0.get(offset));
                let is_better = known.is_none_or(|it| (it.has_size, it.start) < (has_size, start));
                if let (true, Ok(name)) = (is_better, symbol.name()) {
                    let name = name.to_owned();
                    let symbol = Symbol {
                        has_size,
                        start,
                        name,
                    };
                    self.0.insert(*offset, symbol);
                }
            }
        }
    }
}

/// Open the file with the symbols of a program that has none: Debian and Fedora install it under
/// the program's build ID.
fn debug_file(build_id: Option<&[u8]>) -> Option<File> {
    let (first, rest) = build_id?.split_first()?;
    let mut path = format!("/usr/lib/debug/.build-id/{first:02x}/");
    for byte in rest {
        // A string takes everything.
        let _ = write!(path, "{byte:02x}");
    }
    regular(path + ".debug")
}

/// Return the names at addresses of a process, by the map that it wrote. In a container, the process
/// has another number and other files.
fn in_map(process: u32, wanted: &BTreeSet<u64>) -> BTreeMap<u64, String> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let inner = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:")?.split_whitespace().next_back())
        .map_or_else(|| process.to_string(), str::to_owned);
    let inside = format!("/proc/{process}/root/tmp/perf-{inner}.map");
    let file = regular(inside).or_else(|| regular(format!("/tmp/perf-{process}.map")));
    // Anybody may write below `/tmp`.
    let owned = fs::metadata(format!("/proc/{process}")).or_else(|_| fs::metadata("/proc/self"));
    let own = owned.as_ref().ok().map(MetadataExt::uid);
    file.filter(|file| {
        file.metadata()
            .is_ok_and(|it| it.uid() == 0 || Some(it.uid()) == own)
    })
    .map_or_else(BTreeMap::new, |file| {
        in_lines(BufReader::new(file.take(MOST_OF_MAP)), wanted)
    })
}

/// Read a map: lines of start and size, both hexadecimal, and a name. Later lines are of code that
/// took the place of earlier one.
fn in_lines(map: impl BufRead, wanted: &BTreeSet<u64>) -> BTreeMap<u64, String> {
    let mut found = BTreeMap::new();
    for line in map.split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        let mut fields = line.splitn(3, ' ');
        let mut number = || u64::from_str_radix(fields.next()?.trim_start_matches("0x"), 16).ok();
        let (Some(start), Some(size)) = (number(), number()) else {
            continue;
        };
        let Some(name) = fields.next().filter(|name| !name.is_empty()) else {
            continue;
        };
        for address in wanted.range(start..start.saturating_add(size)) {
            found.insert(*address, name.to_owned());
        }
    }
    found
}

/// The name as in the source, of Rust and C++; without parameters, and without the hash of a build.
fn demangled(name: &str) -> String {
    if let Ok(demangled) = rustc_demangle::try_demangle(name) {
        return format!("{demangled:#}");
    }
    let options = cpp_demangle::DemangleOptions::new()
        .no_params()
        .no_return_type();
    let symbol = cpp_demangle::Symbol::new(name).ok();
    let demangled = symbol.and_then(|it| it.demangle_with_options(&options).ok());
    // The version of a symbol is none of a function.
    let plain = name.split_once('@').map_or(name, |(name, _)| name);
    demangled.unwrap_or_else(|| plain.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_those_of_the_source() {
        for (name, expected) in [
            ("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"),
            ("_ZN5Class6methodEiPKc", "Class::method"),
            ("memcpy@GLIBC_2.14", "memcpy"),
            ("main", "main"),
        ] {
            assert_eq!(demangled(name), expected);
        }
    }

    #[test]
    fn the_last_line_of_a_map_counts() {
        let map = "10 10 first\nzz 1 no\n18 4 py::second:/a b.py\n30 0 none\n";
        let wanted = BTreeSet::from([0x10, 0x1b, 0x1c, 0x20, 0x30]);
        let names = in_lines(map.as_bytes(), &wanted);
        let expected = [
            (0x10, "first"),
            (0x1b, "py::second:/a b.py"),
            (0x1c, "first"),
        ];
        let expected = expected.map(|(address, name)| (address, name.to_owned()));
        assert_eq!(Vec::from_iter(names), expected);
    }

    proptest! {
        #[test]
        fn no_map_does_harm(map in proptest::collection::vec(any::<u8>(), 0..200)) {
            in_lines(&*map, &BTreeSet::from([0, 1, u64::MAX]));
        }

        #[test]
        fn no_file_does_harm(cut in 0_usize..4096, at in 0_usize..4096, byte in any::<u8>()) {
            use std::io::{Seek, Write};
            let own = std::fs::File::open("/proc/self/exe").unwrap();
            let mut bytes = Vec::new();
            own.take(8192).read_to_end(&mut bytes).unwrap();
            bytes[at] = byte;
            bytes.truncate(8192 - cut);
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&bytes).unwrap();
            file.rewind().unwrap();
            let _ = in_file(&file, &BTreeSet::from([0, 4096, u64::MAX]));
        }
    }
}
