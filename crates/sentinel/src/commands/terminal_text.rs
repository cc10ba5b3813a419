//! Foreign text for a terminal. Names and descriptions of servers, agents and callers may contain anything: none of it
//! may control the terminal, reorder the text around it, or look like a line of the program. Replaced characters stay
//! visible.

/// A text of several lines.
pub(crate) fn plain(text: &str) -> String {
    let visible = |c: char| match c {
        '\n' | '\t' => c,
        c if c.is_control() || turns_text(c) => char::REPLACEMENT_CHARACTER,
        c => c,
    };
    text.chars().map(visible).collect()
}

/// The same where others share the line.
pub(crate) fn one_line(text: &str) -> String {
    plain(text).replace(['\n', '\t'], " ")
}

/// The marks that change the direction of text, and those that end a line without being control characters.
fn turns_text(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_does_not_reach_it() {
        assert_eq!(plain("a\u{1b}[2Jb\nc\td\r"), "a\u{fffd}[2Jb\nc\td\u{fffd}");
        assert_eq!(plain("if \u{202e}eurt\u{200f}"), "if \u{fffd}eurt\u{fffd}");
        assert_eq!(plain("größe 😀"), "größe 😀");
    }

    #[test]
    fn a_text_cannot_pass_for_a_line_of_ours() {
        assert_eq!(one_line("p\n1234\tapproved"), "p 1234 approved");
        assert_eq!(one_line("p\u{2028}1234"), "p\u{fffd}1234");
    }
}
