//! String literals as fastjson 1.x writes them, in its two modes.
//!
//! Written from the description of the wire and not from `src/wire`, so that a mistake there
//! is seen here.

/// Appends `text` as a quoted literal in the default mode: the six short escapes, `\uXXXX`
/// (upper case) for the other control characters and the two Unicode line ends, raw UTF-8
/// for all the rest.
pub(crate) fn push_plain(out: &mut String, text: &str) {
    push(
        out,
        text,
        |c| matches!(c, '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}'),
    );
}

/// Appends `text` as a quoted literal in the mode `BrowserCompatible`: pure ASCII, and `/` is
/// written as `\/`.
pub(crate) fn push_browser(out: &mut String, text: &str) {
    push(out, text, |c| !matches!(c, ' '..='\u{7e}') || c == '/');
}

fn push(out: &mut String, text: &str, escaped: impl Fn(char) -> bool) {
    out.push('"');
    for c in text.chars() {
        match c {
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '/' if escaped(c) => out.push_str("\\/"),
            _ if escaped(c) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04X}"));
                }
            }
            _ => out.push(c),
        }
    }
    out.push('"');
}
