//! Bodies in a canonical order.
//!
//! What Java takes from a hash table has no order on the wire: those arrays and objects are
//! sorted here. Nothing else is touched: the text of keys and values, quoted or bare, escaped
//! or raw, present or left out, stays byte for byte, and so does the order of all the rest.

use std::borrow::Cow;

/// A JSON text cut at its structure; keys and scalars are as they were written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Node<'a> {
    Scalar(&'a [u8]),
    Array(Vec<Self>),
    Object(Vec<(&'a [u8], Self)>),
}

/// The body of an answer to `code` with its hash order taken out; other bodies as they are.
pub(crate) fn canonical(code: i32, body: &[u8]) -> Cow<'_, [u8]> {
    let hashed: &[&[&str]] = match code {
        105 => &[
            &["brokerDatas"],
            &["brokerDatas", "*", "brokerAddrs"],
            &["queueDatas"],
            &["filterServerTable"],
            &["topicQueueMappingByBroker"],
            &["topicQueueMappingByBroker", "*", "currIdMap"],
        ],
        106 => &[
            &["brokerAddrTable"],
            &["brokerAddrTable", "*", "brokerAddrs"],
            &["clusterAddrTable"],
            &["clusterAddrTable", "*"],
        ],
        206 | 224 | 304 | 311 | 312 | 313 => &[&["topicList"]],
        103 | 219 => &[&["table"]],
        901 => &[&["brokerMemberGroup", "brokerAddrs"]],
        _ => return Cow::Borrowed(body),
    };
    let mut parser = Parser { text: body, at: 0 };
    let Some(mut node) = parser.node().filter(|_| parser.at == body.len()) else {
        return Cow::Borrowed(body);
    };
    // what is inside first, for it decides the order outside
    for path in hashed.iter().rev() {
        sort(&mut node, path);
    }
    let mut out = Vec::with_capacity(body.len());
    write(&node, &mut out);
    Cow::Owned(out)
}

/// Puts the literal `"now"` where a timestamp is one of the time of answering.
pub(crate) fn without_now(body: &[u8], is_now: impl Fn(i64) -> bool) -> Vec<u8> {
    const KEY: &[u8] = b"\"timestamp\":";
    let Some(at) = body.windows(KEY.len()).position(|window| window == KEY) else {
        return body.to_vec();
    };
    let (head, rest) = body.split_at(at + KEY.len());
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number = std::str::from_utf8(&rest[..digits])
        .ok()
        .and_then(|text| text.parse().ok());
    match number {
        Some(number) if is_now(number) => [head, b"\"now\"", &rest[digits..]].concat(),
        _ => body.to_vec(),
    }
}

/// The text with each of its string literals, quotes included, replaced.
pub(crate) fn map_strings(text: &[u8], map: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let mut parser = Parser { text, at: 0 };
    let mut out = Vec::with_capacity(text.len());
    while let Some(byte) = parser.peek() {
        let start = parser.at;
        if byte != b'"' {
            out.push(byte);
            parser.at += 1;
        } else if let Some(literal) = parser.token() {
            out.extend(map(literal));
        } else {
            out.extend(&text[start..]);
            break;
        }
    }
    out
}

fn sort(node: &mut Node<'_>, path: &[&str]) {
    let Some((step, rest)) = path.split_first() else {
        match node {
            Node::Scalar(_) => {}
            Node::Array(items) => items.sort(),
            Node::Object(fields) => fields.sort(),
        }
        return;
    };
    match node {
        Node::Scalar(_) => {}
        Node::Array(items) if *step == "*" => items.iter_mut().for_each(|item| sort(item, rest)),
        Node::Array(_) => {}
        Node::Object(fields) => {
            for (key, value) in fields {
                let name = key
                    .strip_prefix(b"\"")
                    .and_then(|key| key.strip_suffix(b"\""));
                if *step == "*" || name == Some(step.as_bytes()) {
                    sort(value, rest);
                }
            }
        }
    }
}

fn write(node: &Node<'_>, out: &mut Vec<u8>) {
    match node {
        Node::Scalar(text) => out.extend(*text),
        Node::Array(items) => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write(item, out);
            }
            out.push(b']');
        }
        Node::Object(fields) => {
            out.push(b'{');
            for (i, (key, value)) in fields.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                out.extend(*key);
                out.push(b':');
                write(value, out);
            }
            out.push(b'}');
        }
    }
}

/// Reads compact JSON as servers write it, bare keys included.
struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Parser<'a> {
    fn node(&mut self) -> Option<Node<'a>> {
        match self.peek()? {
            b'{' => self.object(),
            b'[' => self.array(),
            _ => self.token().map(Node::Scalar),
        }
    }

    fn object(&mut self) -> Option<Node<'a>> {
        self.at += 1;
        let mut fields = Vec::new();
        if self.take(b'}') {
            return Some(Node::Object(fields));
        }
        loop {
            let key = self.token()?;
            if !self.take(b':') {
                return None;
            }
            fields.push((key, self.node()?));
            if self.take(b'}') {
                return Some(Node::Object(fields));
            }
            if !self.take(b',') {
                return None;
            }
        }
    }

    fn array(&mut self) -> Option<Node<'a>> {
        self.at += 1;
        let mut items = Vec::new();
        if self.take(b']') {
            return Some(Node::Array(items));
        }
        loop {
            items.push(self.node()?);
            if self.take(b']') {
                return Some(Node::Array(items));
            }
            if !self.take(b',') {
                return None;
            }
        }
    }

    /// A string literal with its quotes, or whatever stands up to the next separator.
    fn token(&mut self) -> Option<&'a [u8]> {
        let start = self.at;
        if self.take(b'"') {
            loop {
                let byte = self.peek()?;
                self.at += if byte == b'\\' { 2 } else { 1 };
                if byte == b'"' {
                    return self.text.get(start..self.at);
                }
            }
        }
        while !matches!(self.peek(), None | Some(b',' | b':' | b'}' | b']')) {
            self.at += 1;
        }
        self.text
            .get(start..self.at)
            .filter(|token| !token.is_empty())
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn take(&mut self, wanted: u8) -> bool {
        let there = self.peek() == Some(wanted);
        self.at += usize::from(there);
        there
    }
}
