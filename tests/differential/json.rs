//! JSON documents, written well or in all the ways that a lenient reader meets.

use crate::dice::Dice;
use crate::excuse::{
    COMMAS, END_MARK, KEY_TWICE, LETTER, NO_BREAK_SPACE, NO_NAME, ODD_BLANKS, WORDS,
};

/// A document that can be changed before it is written.
#[derive(Clone, Debug)]
pub(crate) enum Json {
    /// A literal as it will be written.
    Raw(String),
    Text(String),
    List(Vec<Self>),
    Map(Vec<(String, Self)>),
}

/// Literals that stand where something else belongs.
const LITERALS: [&str; 44] = [
    "null",
    "true",
    "false",
    "0",
    "1",
    "-1",
    "+1",
    "007",
    "1.0",
    "1.9",
    "-0",
    "1e1",
    "1E2",
    "12L",
    "3S",
    "5B",
    "1.5F",
    "2D",
    "0x10",
    "2147483647",
    "2147483648",
    "-2147483649",
    "9223372036854775807",
    "9223372036854775808",
    "3000000000.5",
    "\"\"",
    "\"null\"",
    "\"5\"",
    "\"+5\"",
    "\" 5\"",
    "\"5 \"",
    "\"1,2\"",
    "\"1.0\"",
    "\"true\"",
    "\"TRUE\"",
    "\"x\"",
    "'y'",
    "[]",
    "{}",
    "[1]",
    "{\"a\":1}",
    "NaN",
    "undefined",
    "\"a/b\\u00e9\\t\"",
];

impl Json {
    pub(crate) fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }

    pub(crate) fn number(number: i64) -> Self {
        Self::Raw(number.to_string())
    }

    pub(crate) fn map<'a>(fields: impl IntoIterator<Item = (&'a str, Self)>) -> Self {
        let fields = fields.into_iter();
        Self::Map(fields.map(|(key, value)| (key.to_owned(), value)).collect())
    }

    /// As a Java peer writes it.
    pub(crate) fn plain(&self) -> String {
        let mut out = String::new();
        write(self, &mut out, None);
        out
    }

    /// With so many odd spots in its text.
    pub(crate) fn odd(&self, dice: &mut Dice, spots: usize) -> Vec<u8> {
        let (mut out, mut quirks) = (String::new(), Quirks { dice, left: spots });
        quirks.edge(&mut out);
        write(self, &mut out, Some(&mut quirks));
        quirks.edge(&mut out);
        out.into_bytes()
    }

    /// Whether both have the same values under a key, at whatever depth.
    pub(crate) fn agrees(&self, other: &Self, key: &str) -> bool {
        let (mut own, mut others) = (Vec::new(), Vec::new());
        self.collect(key, &mut own);
        other.collect(key, &mut others);
        own == others
    }

    fn collect(&self, wanted: &str, found: &mut Vec<String>) {
        match self {
            Self::Map(fields) => {
                for (key, value) in fields {
                    if key == wanted {
                        found.push(value.plain());
                    } else {
                        value.collect(wanted, found);
                    }
                }
            }
            Self::List(items) => items.iter().for_each(|item| item.collect(wanted, found)),
            Self::Raw(_) | Self::Text(_) => {}
        }
    }

    /// Changes one value, key or field, somewhere.
    pub(crate) fn change(&mut self, dice: &mut Dice) {
        let children = match self {
            Self::Map(fields) => fields.len(),
            Self::List(items) => items.len(),
            Self::Raw(_) | Self::Text(_) => 0,
        };
        if children == 0 || dice.one_in(12) {
            *self = literal(dice);
            return;
        }
        let at = dice.below(children);
        match self {
            Self::Map(fields) => match dice.below(8) {
                0 => {
                    fields.remove(at);
                }
                1 => {
                    let copy = fields[at].clone();
                    fields.push(copy);
                    fields[at].1.change(dice);
                    dice.notes.push(KEY_TWICE);
                }
                2 => fields[at].0 = odd_name(&fields[at].0, dice),
                3 => fields.push(("unknown".to_owned(), literal(dice))),
                _ => fields[at].1.change(dice),
            },
            Self::List(items) => match dice.below(4) {
                0 => {
                    items.remove(at);
                }
                1 => items.push(literal(dice)),
                _ => items[at].change(dice),
            },
            Self::Raw(_) | Self::Text(_) => {}
        }
    }
}

fn literal(dice: &mut Dice) -> Json {
    let text = dice.pick(&LITERALS);
    if text.starts_with(|c: char| c.is_ascii_digit()) && text.ends_with(['F', 'D']) {
        dice.notes.push(LETTER);
    }
    if matches!(text, "undefined" | "NaN") {
        dice.notes.push(WORDS);
    }
    Json::Raw(text.to_owned())
}

/// Names that some readers take for the same.
fn odd_name(name: &str, dice: &mut Dice) -> String {
    match dice.below(7) {
        0 => name.to_uppercase(),
        1 => name.to_lowercase(),
        2 => format!("_{name}"),
        3 => format!("{name}-"),
        4 => format!("{name} "),
        5 => name.replace('e', "E"),
        _ => format!("{name}x"),
    }
}

struct Quirks<'a> {
    dice: &'a mut Dice,
    left: usize,
}

impl Quirks<'_> {
    /// Whether this is one of the odd spots.
    fn here(&mut self) -> bool {
        let here = self.left > 0 && self.dice.one_in(6);
        self.left -= usize::from(here);
        here
    }

    fn blank(&mut self, out: &mut String) {
        let blanks = [
            " ", "\n", "\t", "\r", "\u{c}", "\u{8}", "/* c */", "// c\n", "\u{a0}", "\0", "\u{1a}",
        ];
        let blank = self.dice.pick(&blanks);
        if blank == "\u{a0}" {
            self.dice.notes.push(NO_BREAK_SPACE);
        }
        if blank == "\u{1a}" {
            self.dice.notes.push(END_MARK);
        }
        if !blank.chars().all(|c| " \n\t\r\u{c}\u{8}".contains(c)) {
            self.dice.notes.push(ODD_BLANKS);
        }
        out.push_str(blank);
    }

    /// Before and after the whole text.
    fn edge(&mut self, out: &mut String) {
        if self.left > 0 && self.dice.one_in(10) {
            self.left -= 1;
            let edges = [
                "\u{feff}", " ", "\n", "\0", "/* c */", "x", "{}", ",", "]", "}",
            ];
            let edge = self.dice.pick(&edges);
            if matches!(edge, "\0" | "/* c */") {
                self.dice.notes.push(ODD_BLANKS);
            }
            out.push_str(edge);
        }
    }
}

fn write(json: &Json, out: &mut String, mut quirks: Option<&mut Quirks<'_>>) {
    if let Some(quirks) = &mut quirks
        && quirks.here()
    {
        quirks.blank(out);
    }
    match json {
        Json::Raw(text) => out.push_str(text),
        Json::Text(text) => string(text, false, out, quirks.as_deref_mut()),
        Json::List(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                comma(i, out, quirks.as_deref_mut());
                write(item, out, quirks.as_deref_mut());
            }
            last(items.len(), out, quirks.as_deref_mut());
            out.push(']');
        }
        Json::Map(fields) => {
            out.push('{');
            for (i, (key, value)) in fields.iter().enumerate() {
                comma(i, out, quirks.as_deref_mut());
                string(key, true, out, quirks.as_deref_mut());
                if let Some(quirks) = &mut quirks
                    && quirks.here()
                {
                    quirks.blank(out);
                }
                out.push(':');
                write(value, out, quirks.as_deref_mut());
            }
            last(fields.len(), out, quirks.as_deref_mut());
            out.push('}');
        }
    }
    if let Some(quirks) = quirks
        && quirks.here()
    {
        quirks.blank(out);
    }
}

fn comma(i: usize, out: &mut String, quirks: Option<&mut Quirks<'_>>) {
    let odd = quirks.is_some_and(|quirks| {
        let here = quirks.here();
        if here {
            quirks.dice.notes.push(COMMAS);
        }
        here
    });
    if i > 0 || odd {
        out.push(',');
    }
    if i > 0 && odd {
        out.push(',');
    }
}

fn last(count: usize, out: &mut String, quirks: Option<&mut Quirks<'_>>) {
    if count > 0 && quirks.is_some_and(Quirks::here) {
        out.push(',');
    }
}

fn string(text: &str, is_key: bool, out: &mut String, quirks: Option<&mut Quirks<'_>>) {
    let Some(quirks) = quirks else {
        out.push_str(&serde_json::Value::from(text).to_string());
        return;
    };
    if !quirks.here() {
        out.push_str(&serde_json::Value::from(text).to_string());
        return;
    }
    match quirks.dice.below(if is_key { 9 } else { 7 }) {
        0 => {
            out.push('\'');
            out.push_str(text);
            out.push('\'');
        }
        1 => {
            out.push('"');
            for unit in text.encode_utf16() {
                out.push_str(&format!("\\u{unit:04x}"));
            }
            out.push('"');
        }
        2 => {
            out.push('"');
            let escapes = [
                "\\x41",
                "\\/",
                "\\v",
                "\\0",
                "\\7",
                "\\'",
                "\\a",
                "\\u12",
                "\\ud800",
                "\\uD83D\\uDE00",
            ];
            out.push_str(quirks.dice.pick(&escapes));
            out.push_str(text);
            out.push('"');
        }
        3 => {
            // raw control characters inside
            let controls = ["\n", "\t", "\u{1}", "\u{7f}", "\0", "\u{1a}", "\u{2028}"];
            let control = quirks.dice.pick(&controls);
            if control == "\u{1a}" {
                quirks.dice.notes.push(END_MARK);
            }
            out.push('"');
            out.push_str(control);
            out.push_str(text);
            out.push('"');
        }
        4 => out.push_str(&format!("\"{text}")),
        5 => {
            let Json::Raw(text) = literal(quirks.dice) else {
                return;
            };
            if is_key && !text.starts_with(['"', '\'']) {
                quirks.dice.notes.push(NO_NAME);
            }
            out.push_str(&text);
        }
        6 => out.push_str(&format!("\"{text}\"\"")),
        _ => out.push_str(text),
    }
}
