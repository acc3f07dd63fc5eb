//! Text without characters that hide, reorder or command: names and addresses come from files,
//! servers and command lines that others wrote. Called by everything that shows text to people:
//! terminal, Markdown, page and plots.

use std::borrow::Cow;
use std::fmt::Write;

/// The text with every control character but a line feed and a tab, and every character that has no
/// width or changes the direction of others, by its number: `\u202e`. Inside of a JSON string that
/// means the same.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_hidden(c) {
            // Two surrogates beyond the basic plane, as JSON has it.
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(shown, "\\u{unit:04x}");
            }
        } else {
            shown.push(c);
        }
    }
    shown.into()
}

/// True if the character is invisible, or moves others on the screen. Noncharacters have no place
/// in XML.
fn is_hidden(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        // Soft hyphen; Arabic and Mongolian marks; fillers.
        '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{3164}' | '\u{ffa0}'
        // Zero-width characters and direction marks; line and paragraph separators, embeddings and
        // overrides; invisible operators, isolates and deprecated controls.
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        // Byte-order mark; annotations; noncharacters; tags.
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}' | '\u{e0000}'..='\u{e007f}' => true,
        c => c.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_hides_or_reorders_is_shown_by_its_number_and_the_rest_as_it_is() {
        assert_eq!(
            visible("a\u{202e}b\u{1b}[31m\u{7f}\u{85}"),
            "a\\u202eb\\u001b[31m\\u007f\\u0085"
        );
        assert_eq!(visible("\u{e0041}\u{feff}"), "\\udb40\\udc41\\ufeff");
        let plain = "µ é שלום 日本 👍 ≥ …\n\tx";
        assert!(matches!(visible(plain), Cow::Borrowed(text) if text == plain));
    }

    proptest! {
        #[test]
        fn json_means_the_same(text in any::<String>()) {
            let json = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(serde_json::from_str::<String>(&visible(&json)).unwrap(), text);
        }
    }
}
