//! What the documents of the tree say of the source holds: which module may import which, names in
//! CONTRIBUTING.md, comments that announce a `bool`.
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot read the tree is over"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The crates, by their sources. The table in the `lib.rs` of each lists its modules: one imports
/// only from those above it, or to its left.
const CRATES: [&str; 4] = ["harness/src", "mock-server/src", "results/src", "src"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("tests") {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") && !path.ends_with("tests.rs") {
            found.push(path);
        }
    }
}

/// A file without its comments and without what only tests have.
fn code(text: &str) -> String {
    let (mut kept, mut lines) = (String::new(), text.lines());
    while let Some(line) = lines.next() {
        let bare = line.trim_start();
        if bare.starts_with("#[cfg(test)]") || bare.starts_with("#[cfg(any(test") {
            let is_head = |line: &&str| line.ends_with(['{', ';', '}']);
            let head = lines.by_ref().find(is_head).unwrap_or_default();
            let end = format!("{}}}", &line[..line.len() - bare.len()]);
            if head.ends_with('{') {
                lines.by_ref().find(|line| line.starts_with(&end));
            }
        } else if !bare.starts_with("//") {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

/// Add the paths that a tree of names has below `before`: `a::{b, c::d}` has two.
fn leaves(tree: &str, before: &[String], found: &mut BTreeSet<String>) {
    let tree = tree.trim_start();
    if let Some(group) = tree.strip_prefix('{') {
        let (mut depth, mut start) = (0, 0);
        for (at, letter) in group.char_indices() {
            match letter {
                ',' | '}' if depth == 0 => {
                    leaves(&group[start..at], before, found);
                    start = at + 1;
                    if letter == '}' {
                        return;
                    }
                }
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
        }
        return;
    }
    let is_name = |letter: &char| letter.is_alphanumeric() || *letter == '_';
    let name: String = tree.chars().take_while(is_name).collect();
    let path = [before, std::slice::from_ref(&name)].concat();
    match tree[name.len()..].strip_prefix("::") {
        Some(rest) => leaves(rest, &path, found),
        None if !name.is_empty() => drop(found.insert(path.join("::"))),
        None => {}
    }
}

/// The paths from the root of the crate that a file of this module names.
fn imports(code: &str, module: &[String]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        if !code[..at].ends_with('$') {
            leaves(&code[at + "crate::".len()..], &[], &mut found);
        }
    }
    for (at, _) in code.match_indices("super::") {
        if !code[..at].ends_with("super::") {
            let (mut rest, mut above) = (&code[at..], module.len());
            while let Some(further) = rest.strip_prefix("super::") {
                (rest, above) = (further, above.saturating_sub(1));
            }
            leaves(rest, &module[..above], &mut found);
        }
    }
    found
}

/// The modules in the order of the table, and the modules of the names that `lib.rs` exports.
struct Order {
    modules: Vec<String>,
    exports: Vec<(String, String)>,
}

impl Order {
    fn read(lib: &str) -> Self {
        let rows = lib.lines().filter_map(|line| line.strip_prefix("//! | "));
        let cells = rows.filter_map(|row| row.split(" | ").next());
        let names = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
        let modules = names.map(str::to_owned).collect();
        let mut exports = Vec::new();
        for line in code(lib).split("pub use ").skip(1) {
            let mut found = BTreeSet::new();
            leaves(line.trim_start_matches("crate::"), &[], &mut found);
            let pairs = found.iter().filter_map(|path| path.rsplit_once("::"));
            exports.extend(pairs.map(|(module, name)| (name.to_owned(), module.to_owned())));
        }
        Self { modules, exports }
    }

    /// The place of the module that a path lies in, which is the last row for the longest name.
    fn place(&self, path: &str) -> Option<usize> {
        let exported = self.exports.iter().find(|(name, _)| name == path);
        let path = exported.map_or(path, |(_, module)| module);
        let is_in = |module: &&String| {
            let rest = path.strip_prefix(module.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        let module = self
            .modules
            .iter()
            .filter(is_in)
            .max_by_key(|it| it.len())?;
        self.modules.iter().position(|it| it == module)
    }
}

#[test]
fn imports_run_one_way_in_every_crate() {
    let (mut up, mut seen) = (BTreeSet::new(), 0);
    for folder in CRATES {
        let place = root().join(folder);
        let order = Order::read(&fs::read_to_string(place.join("lib.rs")).unwrap());
        let mut files = Vec::new();
        sources(&place, &mut files);
        for file in files {
            let path = file.strip_prefix(&place).unwrap().with_extension("");
            let module: Vec<String> = path
                .iter()
                .map(|part| part.to_string_lossy().into_owned())
                .collect();
            let name = module.join("::");
            if name == "lib" || name == "main" {
                continue;
            }
            let own = order.place(&name);
            let own = own.unwrap_or_else(|| panic!("{folder}/lib.rs lists no module {name}"));
            for import in imports(&code(&fs::read_to_string(&file).unwrap()), &module) {
                seen += 1;
                if let Some(other) = order.place(&import).filter(|other| *other > own) {
                    let file = format!("{folder}/{}.rs", path.display());
                    up.insert((file, order.modules[other].clone()));
                }
            }
        }
    }
    assert!(seen > 2_000, "{seen} imports");
    assert!(up.is_empty(), "imports from a module below: {up:#?}");
}

#[test]
fn imports_are_found_in_trees_and_behind_super() {
    let code = code(
        "use crate::{a::{b, c::D}, e};\nuse super::super::f;\n// use crate::g;\n#[cfg(test)]\nmod tests {\n    use crate::h;\n}\nx(crate::i::J)",
    );
    let module = ["m", "n", "o"].map(str::to_owned);
    let found = imports(&code, &module);
    assert_eq!(
        Vec::from_iter(found),
        ["a::b", "a::c::D", "e", "i::J", "m::f"]
    );
}

#[test]
fn comments_that_say_true_if_stand_before_a_bool() {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    let mut files = Vec::new();
    for folder in CRATES {
        sources(&root().join(folder), &mut files);
    }
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let mut lines = text.lines().map(str::trim_start);
        while let Some(line) = lines.next() {
            if !line.starts_with("/// True ") {
                continue;
            }
            let mut rest = lines.clone();
            let is_item = |line: &&str| !line.starts_with("//") && !line.starts_with('#');
            let item = rest.find(is_item).unwrap_or_default();
            seen += 1;
            let is_type = ["enum ", "struct "].iter().any(|kind| item.contains(kind));
            let is_field = item.ends_with(',') && item.contains(": ") && !item.contains("fn ");
            if is_type || is_field && !item.contains("bool") {
                wrong.push(format!("{}: {line}", file.display()));
            }
        }
    }
    assert!(seen > 100 && wrong.is_empty(), "{seen}: {wrong:#?}");
}

#[test]
fn contributing_names_files_and_constants_that_there_are() {
    let text = fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let mut files = Vec::new();
    for folder in CRATES {
        sources(&root().join(folder), &mut files);
    }
    sources(&root().join("tests/storm/torment"), &mut files);
    files.push(root().join("tests/storm/torment.rs"));
    let all: String = files.iter().flat_map(fs::read_to_string).collect();
    let prose = text.split("```").step_by(2).collect::<String>();
    let (mut seen, mut wrong) = (0, Vec::new());
    for name in prose.split('`').skip(1).step_by(2) {
        let is_constant =
            name.len() > 3 && name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
        let is_there = match name {
            _ if name.contains('/') && name.contains(".rs") => root().join(name).is_file(),
            _ if is_constant => {
                all.contains(&format!("const {name}:")) || all.contains(&format!("static {name}:"))
            }
            _ => continue,
        };
        seen += 1;
        if !is_there {
            wrong.push(name);
        }
    }
    assert!(seen > 10 && wrong.is_empty(), "{seen}: {wrong:?}");
}
