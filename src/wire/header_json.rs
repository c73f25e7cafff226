//! The JSON header (`RemotingSerializable` over fastjson 1).
//!
//! Two readers with one result. The scan goes once over the compact object that real peers
//! write, borrows everything and allocates nothing; at the first thing that is unusual it gives
//! up, and the lenient reader, which knows all of fastjson's habits, starts again from the
//! beginning. Invariant: what the scan accepts, the lenient reader reads to the same header.
//! Deliberately absent: gzip, which Java 5.0 to 5.3 happens to try on bytes that are not UTF-8
//! and which no peer sends; such a header closes the connection.

use std::borrow::Cow;

use super::fastjson::{first_lane, lanes_below_blank, lanes_equal, write_i32, write_string};
use super::frame::{FrameLimits, SerializeType};
use super::header::{ExtFields, FieldList, Header, HeaderError, HeaderFields};
use super::json::{self, JsonError, KeyForm, Lexer, Member, Token, Value, same_name};

/// Reads a JSON header that fills `bytes`.
#[inline]
pub(super) fn parse<'a>(bytes: &'a [u8], limits: &FrameLimits) -> Result<Header<'a>, HeaderError> {
    let text = str::from_utf8(bytes).map_err(|_| HeaderError::Utf8)?;
    let mut header = Header::empty(SerializeType::Json);
    match scan(text, limits, &mut header) {
        Some(()) => Ok(header),
        None => parse_lenient(text, limits),
    }
}

/// Writes a JSON header: fields sorted by name, null fields left out, no white space.
pub(super) fn write(out: &mut Vec<u8>, fields: &HeaderFields<'_>) {
    out.extend_from_slice(br#"{"code":"#);
    write_i32(out, fields.code);
    if let Some(ext) = fields.ext {
        out.extend_from_slice(br#","extFields":{"#);
        for (index, (key, value)) in ext.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            write_string(out, key);
            out.push(b':');
            write_string(out, value);
        }
        out.push(b'}');
    }
    out.extend_from_slice(br#","flag":"#);
    write_i32(out, fields.flag);
    out.extend_from_slice(br#","language":"JAVA","opaque":"#);
    write_i32(out, fields.opaque);
    if let Some(remark) = fields.remark {
        out.extend_from_slice(br#","remark":"#);
        write_string(out, remark);
    }
    out.extend_from_slice(br#","serializeTypeCurrentRPC":"JSON","version":"#);
    write_i32(out, fields.version);
    out.push(b'}');
}

/// The scan, into an empty header; `None` means that the header is unusual, not that it is wrong.
///
/// A key that is unknown or comes twice is unusual: Java would compare it once more without
/// case, and would let the last one win.
pub(super) fn scan<'a>(text: &'a str, limits: &FrameLimits, header: &mut Header<'a>) -> Option<()> {
    let mut scan = Scan { text, at: 0 };
    let mut seen = 0u8;
    scan.eat(b'{')?;
    loop {
        let bit = match scan.key()? {
            "code" => {
                header.code = scan.int32()?;
                1
            }
            "opaque" => {
                header.opaque = scan.int32()?;
                2
            }
            "flag" => {
                header.flag = scan.int32()?;
                4
            }
            "version" => {
                header.version = scan.int32()?;
                8
            }
            "extFields" => {
                scan.ext_fields(limits, &mut header.ext)?;
                16
            }
            "language" => {
                scan.string()?;
                32
            }
            "serializeTypeCurrentRPC" => {
                scan.string()?;
                64
            }
            "remark" => {
                scan.remark()?;
                128
            }
            _ => return None,
        };
        if seen & bit != 0 {
            return None;
        }
        seen |= bit;
        if !scan.more_members()? {
            return scan.end();
        }
    }
}

/// A position in the text. Each step returns `None` for what is not usual.
struct Scan<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scan<'a> {
    /// The byte here; NUL at the end, which no step expects.
    #[inline]
    fn byte(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    #[inline]
    fn skip_blanks(&mut self) {
        while matches!(self.byte(), b' ' | b'\n' | b'\r' | b'\t') {
            self.at += 1;
        }
    }

    /// Steps over `byte` and the blanks before it.
    #[inline]
    fn eat(&mut self, byte: u8) -> Option<()> {
        self.skip_blanks();
        if self.byte() != byte {
            return None;
        }
        self.at += 1;
        Some(())
    }

    /// Only blanks are left.
    #[inline]
    fn end(&mut self) -> Option<()> {
        self.skip_blanks();
        (self.at == self.text.len()).then_some(())
    }

    #[inline]
    fn key(&mut self) -> Option<&'a str> {
        let key = self.string()?;
        self.eat(b':')?;
        Some(key)
    }

    /// Steps over the comma (true) or the brace (false) behind a member.
    #[inline]
    fn more_members(&mut self) -> Option<bool> {
        self.skip_blanks();
        let more = match self.byte() {
            b',' => true,
            b'}' => false,
            _ => return None,
        };
        self.at += 1;
        Some(more)
    }

    /// A string without escapes and control characters.
    #[inline]
    fn string(&mut self) -> Option<&'a str> {
        self.eat(b'"')?;
        let start = self.at;
        let length = plain_bytes(self.text.as_bytes().get(start..)?);
        self.at = start + length;
        if self.byte() != b'"' {
            return None;
        }
        self.at += 1;
        self.text.get(start..start + length)
    }

    /// An integer as every JSON writer writes it, and its value; what follows it is left to the
    /// next step. `-0` and leading zeros are not usual.
    #[inline]
    fn integer(&mut self) -> Option<(&'a str, i64)> {
        /// More digits than any number that a peer sends, and few enough for an `i64`.
        const MAX_DIGITS: usize = 18;
        let start = self.at;
        let negative = self.byte() == b'-';
        self.at += usize::from(negative);
        let (first_digit, first) = (self.at, self.byte());
        let mut value = 0i64;
        while self.byte().is_ascii_digit() {
            let digit = i64::from(self.byte() - b'0');
            value = value.wrapping_mul(10).wrapping_add(digit);
            self.at += 1;
        }
        let digits = self.at - first_digit;
        let is_usual = match first {
            b'0' => digits == 1 && !negative,
            _ => (1..=MAX_DIGITS).contains(&digits),
        };
        if !is_usual {
            return None;
        }
        let text = self.text.get(start..self.at)?;
        Some((text, if negative { -value } else { value }))
    }

    #[inline]
    fn int32(&mut self) -> Option<i32> {
        self.skip_blanks();
        let (_, value) = self.integer()?;
        i32::try_from(value).ok()
    }

    #[inline]
    fn remark(&mut self) -> Option<()> {
        self.skip_blanks();
        if self.byte() == b'n' {
            return self.word("null");
        }
        self.string().map(|_| ())
    }

    fn word(&mut self, word: &str) -> Option<()> {
        if !self
            .text
            .as_bytes()
            .get(self.at..)?
            .starts_with(word.as_bytes())
        {
            return None;
        }
        self.at += word.len();
        Some(())
    }

    fn ext_fields(&mut self, limits: &FrameLimits, ext: &mut ExtFields<'a>) -> Option<()> {
        self.skip_blanks();
        let start = self.at;
        self.eat(b'{')?;
        let mut fields = FieldList::new(ext, limits);
        self.skip_blanks();
        if self.byte() == b'}' {
            self.at += 1;
        } else {
            loop {
                let key = self.key()?;
                // `@type` makes fastjson load a class, or refuse to.
                if key.starts_with('@') {
                    return None;
                }
                let value = self.ext_value()?;
                fields
                    .push(Cow::Borrowed(key), value.map(Cow::Borrowed))
                    .ok()?;
                if !self.more_members()? {
                    break;
                }
            }
        }
        fields.finish(&self.text.as_bytes()[start..self.at]);
        Some(())
    }

    /// The text of a scalar; the inner `None` is null.
    #[inline]
    fn ext_value(&mut self) -> Option<Option<&'a str>> {
        self.skip_blanks();
        let text = match self.byte() {
            b'"' => self.string()?,
            b'-' | b'0'..=b'9' => self.integer()?.0,
            b't' => self.word("true").map(|()| "true")?,
            b'f' => self.word("false").map(|()| "false")?,
            b'n' => return self.word("null").map(|()| None),
            _ => return None,
        };
        Some(Some(text))
    }
}

/// Length of the prefix without quotes, backslashes and control characters.
#[inline]
fn plain_bytes(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(chunk) = bytes[at..].first_chunk::<8>() {
        let lanes = u64::from_le_bytes(*chunk);
        let stops = lanes_equal(lanes, b'"') | lanes_equal(lanes, b'\\') | lanes_below_blank(lanes);
        if stops != 0 {
            return at + first_lane(stops);
        }
        at += 8;
    }
    let is_plain = |b: &u8| *b >= b' ' && *b != b'"' && *b != b'\\';
    at + bytes[at..].iter().take_while(|b| is_plain(b)).count()
}

/// Reads whatever fastjson would take.
#[cold]
pub(super) fn parse_lenient<'a>(
    text: &'a str,
    limits: &FrameLimits,
) -> Result<Header<'a>, HeaderError> {
    let mut header = Header::empty(SerializeType::Json);
    let mut lexer = Lexer::new(text.as_bytes());
    if next_token(&mut lexer)? != Token::ObjectStart {
        return Err(HeaderError::Json);
    }
    loop {
        match next_token(&mut lexer)? {
            Token::Key(key) => {
                let item = next_item(&mut lexer, text)?;
                set_field(&mut header, &key.text.decode(), item, limits)?;
            }
            Token::ObjectEnd => break,
            _ => return Err(HeaderError::Json),
        }
    }
    match next_token(&mut lexer)? {
        Token::End => Ok(header),
        _ => Err(HeaderError::Json),
    }
}

/// The value of a member of the header.
enum Item<'a> {
    /// Null, a boolean, a number or a string.
    Scalar(Value<'a>),
    /// The text of an object.
    Object(&'a str),
    /// An array, which no field takes.
    Array,
}

fn next_token<'a>(lexer: &mut Lexer<'a>) -> Result<Token<'a>, HeaderError> {
    loop {
        match lexer.token().map_err(json_error)? {
            Token::Pause => {}
            token => return Ok(token),
        }
    }
}

fn next_item<'a>(lexer: &mut Lexer<'a>, text: &'a str) -> Result<Item<'a>, HeaderError> {
    let outer_depth = lexer.depth();
    let scalar = match next_token(lexer)? {
        Token::Null => Value::Null,
        Token::Bool(value) => Value::Bool(value),
        Token::Number(number) => Value::Number(number),
        Token::String(string) => Value::String(string.decode()),
        open @ (Token::ObjectStart | Token::ArrayStart) => {
            let start = lexer.position() - 1;
            while lexer.depth() > outer_depth {
                next_token(lexer)?;
            }
            let is_object = open == Token::ObjectStart;
            let object = &text[start..lexer.position()];
            return Ok(if is_object {
                Item::Object(object)
            } else {
                Item::Array
            });
        }
        _ => return Err(HeaderError::Json),
    };
    Ok(Item::Scalar(scalar))
}

/// Sets what `key` names; fields that are not known, or not kept, may hold anything that Java
/// accepts for them. The last of equal keys wins.
fn set_field<'a>(
    header: &mut Header<'a>,
    key: &str,
    item: Item<'a>,
    limits: &FrameLimits,
) -> Result<(), HeaderError> {
    const NAMES: [&str; 7] = [
        "code",
        "flag",
        "opaque",
        "version",
        "extFields",
        "language",
        "serializeTypeCurrentRPC",
    ];
    /// `LanguageCode.NODE_JS`, the last that 5.3.3 knows.
    const LAST_LANGUAGE: i64 = 13;
    /// `SerializeType.ROCKETMQ`
    const LAST_SERIALIZE_TYPE: i64 = 1;
    let Some(name) = NAMES.into_iter().find(|name| same_name(key, name)) else {
        return Ok(());
    };
    match name {
        "code" => set_int32(&mut header.code, &item, name),
        "flag" => set_int32(&mut header.flag, &item, name),
        "opaque" => set_int32(&mut header.opaque, &item, name),
        "version" => set_int32(&mut header.version, &item, name),
        "language" => check_enum(&item, LAST_LANGUAGE, name),
        "serializeTypeCurrentRPC" => check_enum(&item, LAST_SERIALIZE_TYPE, name),
        _ => {
            header.ext = match item {
                Item::Object(object) => ext_fields(object, limits)?,
                Item::Scalar(Value::Null) => ExtFields::default(),
                Item::Scalar(Value::String(text)) if text.is_empty() => ExtFields::default(),
                Item::Scalar(_) | Item::Array => return Err(HeaderError::Field(name)),
            };
            Ok(())
        }
    }
}

/// Null and its text forms leave the field as it is, because a Java `int` cannot be null.
fn set_int32(field: &mut i32, item: &Item<'_>, name: &'static str) -> Result<(), HeaderError> {
    let Item::Scalar(value) = item else {
        return Err(HeaderError::Field(name));
    };
    if let Some(number) = json::int32(value).map_err(|_| HeaderError::Field(name))? {
        *field = number;
    }
    Ok(())
}

/// Any text is accepted for an enum (an unknown one is null); a number must be an ordinal.
fn check_enum(item: &Item<'_>, last: i64, name: &'static str) -> Result<(), HeaderError> {
    let is_accepted = match item {
        Item::Scalar(Value::Null | Value::String(_)) => true,
        Item::Scalar(Value::Number(number)) => {
            let ordinal = number.trim_end_matches(['B', 'S', 'L']).parse::<i64>();
            ordinal.is_ok_and(|ordinal| (0..=last).contains(&ordinal))
        }
        Item::Scalar(_) | Item::Object(_) | Item::Array => false,
    };
    if is_accepted {
        Ok(())
    } else {
        Err(HeaderError::Field(name))
    }
}

fn ext_fields<'a>(object: &'a str, limits: &FrameLimits) -> Result<ExtFields<'a>, HeaderError> {
    let Value::Object(members) = json::parse(object).map_err(json_error)? else {
        return Err(HeaderError::Json);
    };
    let mut ext = ExtFields::default();
    let mut fields = FieldList::new(&mut ext, limits);
    for Member { key, form, value } in members {
        // Only maps with numbers for keys may leave the quotes out.
        if form == KeyForm::Number {
            return Err(HeaderError::Json);
        }
        let value = json::text(value).map_err(json_error)?;
        fields.push(key, value)?;
    }
    fields.finish(object.as_bytes());
    Ok(ext)
}

fn json_error(error: JsonError) -> HeaderError {
    match error {
        JsonError::Depth(_) => HeaderError::Depth,
        _ => HeaderError::Json,
    }
}
