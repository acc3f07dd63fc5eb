//! Simple commands of a piece of shell, as far as the documents use it.

/// The simple commands of a block: without comments, redirections and what separates them.
pub(super) fn commands(block: &str) -> Vec<String> {
    let block = block.replace("\\\n", " ");
    let (mut commands, mut command, mut quote, mut is_kept) =
        (Vec::new(), String::new(), None, true);
    let mut letters = block.chars().peekable();
    while let Some(c) = letters.next() {
        match (quote, c) {
            (Some(open), close) if open == close => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, '#') if command.is_empty() || command.ends_with(' ') => {
                while letters.next_if(|c| *c != '\n').is_some() {}
                continue;
            }
            (None, '>' | '<') => is_kept = false,
            (None, '&') if !is_kept && letters.peek().is_some_and(char::is_ascii_digit) => {}
            (None, '|' | ';' | '&' | '\n') => {
                commands.push(std::mem::take(&mut command));
                is_kept = true;
                continue;
            }
            _ => {}
        }
        if is_kept {
            command.push(c);
        }
    }
    commands.push(command);
    commands
        .iter()
        .map(|command| command.trim().to_owned())
        .filter(|command| !command.is_empty())
        .collect()
}

/// The words of a call of crawlmark, its name first; none of a call of another program that needs
/// no look; an error with the name of any other one.
pub(super) fn of_crawlmark(command: &str) -> Result<Option<Vec<String>>, String> {
    let words = shlex::split(command)
        .ok_or_else(|| format!("{command}: a quotation mark is not closed"))?;
    let is_setting = |word: &&String| {
        word.split_once('=')
            .is_some_and(|(name, _)| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
    };
    let words: Vec<String> = words.iter().skip_while(is_setting).cloned().collect();
    let Some(name) = words.first() else {
        return Ok(None);
    };
    let own = |words: &[String]| {
        std::iter::once("crawlmark".to_owned())
            .chain(words.iter().cloned())
            .collect()
    };
    match name.as_str() {
        name if name == "crawlmark" || name.ends_with("/crawlmark") => Ok(Some(own(&words[1..]))),
        "cargo"
            if words.get(1).is_some_and(|word| word == "run")
                && !words.iter().any(|word| word == "--example") =>
        {
            Ok(words
                .iter()
                .position(|word| word == "--")
                .map(|at| own(&words[at + 1..])))
        }
        _ => Err(name.clone()),
    }
}
