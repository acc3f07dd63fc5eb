//! Markdown as far as the documents use it: fenced blocks, headings, links.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A fenced block.
pub(super) struct Block {
    /// Line of its fence, from 1.
    pub(super) line: usize,
    /// Words after the fence, separated by commas.
    pub(super) info: String,
    pub(super) text: String,
}

impl Block {
    /// True if `word` is in the words after its fence.
    pub(super) fn is(&self, word: &str) -> bool {
        self.info.split(',').any(|other| other == word)
    }
}

/// A document.
pub(super) struct Page {
    /// Path from the root.
    pub(super) path: PathBuf,
    pub(super) blocks: Vec<Block>,
    /// Lines outside of blocks.
    prose: Vec<String>,
}

impl Page {
    pub(super) fn read(root: &Path, file: &Path) -> Self {
        let text = fs::read_to_string(file).unwrap_or_default();
        let path = file.strip_prefix(root).unwrap_or(file).to_owned();
        let (mut blocks, mut prose) = (Vec::<Block>::new(), Vec::new());
        let mut is_open = false;
        for (line, text) in (1..).zip(text.lines()) {
            if let Some(info) = text.trim_start().strip_prefix("```") {
                is_open = !is_open;
                if is_open {
                    blocks.push(Block {
                        line,
                        info: info.trim().to_owned(),
                        text: String::new(),
                    });
                }
            } else if is_open {
                let block = blocks.last_mut().unwrap();
                block.text.push_str(text);
                block.text.push('\n');
            } else {
                prose.push(text.to_owned());
            }
        }
        assert!(!is_open, "{}: a block is not closed", path.display());
        Self {
            path,
            blocks,
            prose,
        }
    }

    /// Targets of links and pictures.
    pub(super) fn links(&self) -> impl Iterator<Item = String> {
        let prose = self
            .prose
            .iter()
            .map(|line| without_code(line))
            .collect::<Vec<_>>();
        let targets = prose.into_iter().flat_map(|line| {
            let parts = line
                .split("](")
                .skip(1)
                .filter_map(|part| Some(part.split_once(')')?.0.to_owned()));
            let pictures = line
                .split("src=\"")
                .skip(1)
                .filter_map(|part| Some(part.split_once('"')?.0.to_owned()));
            parts.chain(pictures).collect::<Vec<_>>()
        });
        targets.filter(|target| !target.is_empty())
    }

    /// Anchors of its headings, as mdBook and GitHub name them.
    pub(super) fn anchors(&self) -> BTreeSet<String> {
        let slug = |c: char| match c {
            c if c.is_whitespace() => Some('-'),
            c if c.is_alphanumeric() || c == '_' || c == '-' => Some(c.to_ascii_lowercase()),
            _ => None,
        };
        let headings = self
            .prose
            .iter()
            .filter(|line| line.starts_with('#'))
            .map(|line| line.trim_start_matches('#'));
        let (mut anchors, mut seen) = (BTreeSet::new(), BTreeMap::<String, u32>::new());
        for heading in headings {
            let slug: String = heading.trim().chars().filter_map(slug).collect();
            let before = seen.entry(slug.clone()).or_default();
            anchors.insert(if *before == 0 {
                slug
            } else {
                format!("{slug}-{before}")
            });
            *before += 1;
        }
        anchors
    }
}

/// A line without its code spans, in which brackets are no links.
fn without_code(line: &str) -> String {
    line.split('`')
        .enumerate()
        .map(|(at, part)| if at % 2 == 0 { part } else { "`" })
        .collect()
}
