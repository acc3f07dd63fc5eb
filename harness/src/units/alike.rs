//! Names that were probably meant by a mistyped one, for "did you mean". Called by parsers of
//! names; decides nothing else.

/// The one of `known` that differs least from `name`, or begins with it; none when no name is near.
pub fn nearest<K: AsRef<str>>(name: &str, known: impl IntoIterator<Item = K>) -> Option<K> {
    /// Fewer characters begin too many names.
    const BEGINNING: usize = 3;
    let length = name.chars().count();
    let most_edits = (length / 3).clamp(1, 3);
    let near = known.into_iter().filter_map(|known| {
        let longer = known.as_ref().chars().count().abs_diff(length);
        let begins = length >= BEGINNING && known.as_ref().starts_with(name);
        // Each character more is an edit: a name of a megabyte is compared with nothing.
        if longer > most_edits && !begins {
            return None;
        }
        let edits = strsim::osa_distance(name, known.as_ref());
        (edits <= most_edits || begins).then_some((edits, known))
    });
    near.min_by_key(|(edits, _)| *edits).map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_seen_through_and_another_word_is_not() {
        let known = ["run", "ab", "connections", "connect-timeout", "rate"];
        for (name, meant) in [
            ("rnu", Some("run")),
            ("ba", Some("ab")),
            ("conections", Some("connections")),
            ("conn", Some("connections")),
            ("connect-timeot", Some("connect-timeout")),
            ("rat", Some("rate")),
            ("x", None),
            ("fly", None),
            ("frobnicate", None),
        ] {
            assert_eq!(nearest(name, known), meant, "{name}");
        }
        assert_eq!(nearest(&"a".repeat(1 << 24), known), None);
    }
}
