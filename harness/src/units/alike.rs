//! Names that were probably meant by a mistyped one, for "did you mean". Called by parsers of
//! names; decides nothing else.

/// The one of `known` that differs least from `name`, or begins with it; none when no name is near.
pub fn nearest<K: AsRef<str>>(name: &str, known: impl IntoIterator<Item = K>) -> Option<K> {
    /// Fewer characters begin too many names.
    const BEGINNING: usize = 3;
    let length = name.chars().count();
    let most_edits = (length / 3).clamp(1, 3);
    let mut near: Option<(usize, K)> = None;
    for known in known {
        let longer = known.as_ref().chars().count().abs_diff(length);
        let begins = length >= BEGINNING && known.as_ref().starts_with(name);
        // Each character more is an edit: a name of a megabyte is compared with nothing.
        if longer > most_edits && !begins {
            continue;
        }
        let edits = strsim::osa_distance(name, known.as_ref());
        let is_near = edits <= most_edits || begins;
        if is_near && near.as_ref().is_none_or(|(fewest, _)| edits < *fewest) {
            near = Some((edits, known));
        }
    }
    near.map(|(_, known)| known)
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
