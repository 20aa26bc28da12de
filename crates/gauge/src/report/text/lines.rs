//! Lines of words: wrapped, in ASCII, quoted for a shell.

use super::WIDTH;

/// The text in lines of at most [`WIDTH`], every line but the first indented.
pub(super) fn wrapped(text: &str, indent: &str) -> String {
    let leading = text.len() - text.trim_start().len();
    let mut line = " ".repeat(leading);
    let mut lines = String::new();
    let mut empty = true;
    for word in text.split_whitespace() {
        // A word longer than a line (a path, a label) is cut: the width is a promise.
        for piece in pieces(word) {
            if !empty && line.len() + 1 + piece.len() > WIDTH {
                lines.push_str(&line);
                lines.push('\n');
                line = indent.to_owned();
                empty = true;
            }
            if !empty {
                line.push(' ');
            }
            line.push_str(piece);
            empty = false;
        }
    }
    lines.push_str(&line);
    lines.push('\n');
    lines
}

fn pieces(word: &str) -> Vec<&str> {
    const LONGEST: usize = WIDTH - 8;
    let mut pieces = Vec::new();
    let mut rest = word;
    while rest.len() > LONGEST {
        let cut = (1..=LONGEST)
            .rev()
            .find(|&at| rest.is_char_boundary(at))
            .unwrap_or(rest.len());
        let (piece, more) = rest.split_at(cut);
        pieces.push(piece);
        rest = more;
    }
    pieces.push(rest);
    pieces
}

/// What a terminal, a mail and a log all show alike. Labels and names come from outside: no escape
/// sequence of theirs reaches the terminal.
pub(super) fn ascii(page: &str) -> String {
    page.chars()
        .map(|c| {
            if c == '\n' || (c.is_ascii() && !c.is_ascii_control()) {
                c
            } else {
                '?'
            }
        })
        .collect()
}

/// A command that can be pasted though it takes several lines: only ever broken between words, with
/// a backslash.
pub(super) fn command_lines(leading: &str, words: &[String]) -> String {
    const CONTINUED: &str = " \\";
    if words
        .iter()
        .any(|word| leading.len() + word.len() + CONTINUED.len() > WIDTH)
    {
        // A word that no line holds: a command that is cut would be worse than none of its options.
        return format!("{leading}tautline bench --help\n");
    }
    let mut line = leading.to_owned();
    let mut lines = String::new();
    let mut empty = true;
    for word in words {
        if !empty && line.len() + 1 + word.len() + CONTINUED.len() > WIDTH {
            lines.push_str(&line);
            lines.push_str(CONTINUED);
            lines.push('\n');
            line = "  ".to_owned();
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    lines + &line + "\n"
}

/// A word as a shell takes it back.
pub(in crate::report) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+:,./@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_command_is_broken_between_words_only() {
        let words: Vec<String> = [
            "tautline",
            "bench",
            "--label",
            &quoted(&"a b ".repeat(15)),
            "--fail-if",
            "'p50 > 1us'",
        ]
        .map(str::to_owned)
        .to_vec();
        assert_eq!(
            command_lines("Next: ", &words),
            "Next: tautline bench --label 'a b a b a b a b a b a b a b a b a b a b a b a b a b a b a b ' \\\n  \
             --fail-if 'p50 > 1us'\n"
        );
    }

    #[test]
    fn a_word_that_no_line_holds_is_not_cut() {
        let words = ["tautline".to_owned(), "x".repeat(101)];
        assert_eq!(
            command_lines("Next: ", &words),
            "Next: tautline bench --help\n"
        );
    }

    #[test]
    fn text_is_wrapped_at_the_width_and_long_words_are_cut() {
        let text = format!("a {}", "x".repeat(150));
        let wrapped = wrapped(&text, "  ");
        assert!(wrapped.lines().all(|line| line.len() <= WIDTH));
        assert_eq!(wrapped.matches('x').count(), 150);
    }
}
