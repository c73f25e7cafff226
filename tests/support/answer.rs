//! Answers as values, and the strict reader of the frames that carry them.

use super::fastjson;

/// What an answer says, without the opaque that ties it to its request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) remark: Remark,
    /// `None`: no `extFields` at all, which differs from an empty map.
    pub(crate) ext: Option<Vec<(String, String)>>,
    pub(crate) body: Option<Vec<u8>>,
}

/// The text beside the code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Remark {
    Absent,
    Text(String),
    /// Where Java prints an exception: any text, and clients look at the code alone.
    Any,
}

impl Answer {
    /// Code 0 and nothing else.
    pub(crate) fn success() -> Self {
        Self {
            code: 0,
            remark: Remark::Absent,
            ext: None,
            body: None,
        }
    }

    /// A code with a reason that clients may read.
    pub(crate) fn failure(code: i32, remark: &str) -> Self {
        Self {
            code,
            remark: Remark::Text(remark.to_owned()),
            ext: None,
            body: None,
        }
    }

    /// Code 1 with whatever reason.
    pub(crate) fn refused() -> Self {
        Self {
            code: 1,
            remark: Remark::Any,
            ext: None,
            body: None,
        }
    }

    /// With an `extFields` object, even if it is empty.
    pub(crate) fn ext(mut self, fields: &[(&str, &str)]) -> Self {
        self.ext = Some(
            fields
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect(),
        );
        self
    }

    /// With a body.
    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// Whether `actual` is what `self` demands.
    pub(crate) fn admits(&self, actual: &Self) -> bool {
        if self.remark == Remark::Any {
            return self.code == actual.code
                && actual.body.is_none()
                && matches!(&actual.remark, Remark::Text(text) if !text.is_empty());
        }
        self == actual
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "code {} remark {:?} ext {:?} body ",
            self.code, self.remark, self.ext
        )?;
        match &self.body {
            Some(body) => f.write_str(&String::from_utf8_lossy(body)),
            None => f.write_str("-"),
        }
    }
}

/// Reads all answer frames of `bytes`. An error for anything that is not, byte for byte, the
/// form of the 5.3.3 server: key order, escapes, flag 1, version 479.
pub(crate) fn read_answers(mut bytes: &[u8]) -> Result<Vec<(i32, Answer)>, String> {
    let mut answers = Vec::new();
    while !bytes.is_empty() {
        let (kind, header, body, rest) = cut(bytes)?;
        let (opaque, mut answer) = match kind {
            0 => read_json(header)?,
            1 => read_binary(header)?,
            _ => return Err(format!("serialize type {kind}")),
        };
        answer.body = (!body.is_empty()).then(|| body.to_vec());
        answers.push((opaque, answer));
        bytes = rest;
    }
    Ok(answers)
}

/// The opaque of a 905, after checking that the rest of the frame is exactly what Java sends
/// for these ext fields.
pub(crate) fn read_notification(bytes: &[u8], ext: &[(&str, &str)]) -> Result<i32, String> {
    let (kind, header, body, rest) = cut(bytes)?;
    if kind != 0 || !body.is_empty() || !rest.is_empty() {
        return Err("a notification is one JSON header".to_owned());
    }
    let value: serde_json::Value = serde_json::from_slice(header).map_err(|e| e.to_string())?;
    let opaque = value["opaque"].as_i64().ok_or("no opaque")?;
    let expected = json_header(905, Some(ext), 2, opaque, None);
    if header != expected.as_bytes() {
        return Err(format!(
            "{} instead of {expected}",
            String::from_utf8_lossy(header)
        ));
    }
    i32::try_from(opaque).map_err(|e| e.to_string())
}

type Cut<'a> = (u8, &'a [u8], &'a [u8], &'a [u8]);

fn cut(bytes: &[u8]) -> Result<Cut<'_>, String> {
    let short = || format!("cut off frame of {} bytes", bytes.len());
    let word = |at: usize| {
        let word = bytes.get(at..at + 4).and_then(|w| w.try_into().ok());
        word.map(u32::from_be_bytes).ok_or_else(short)
    };
    let end = 4 + word(0)? as usize;
    let (kind, header_len) = ((word(4)? >> 24) as u8, (word(4)? & 0xff_ffff) as usize);
    let header = bytes.get(8..8 + header_len).ok_or_else(short)?;
    let body = bytes.get(8 + header_len..end).ok_or_else(short)?;
    Ok((kind, header, body, &bytes[end..]))
}

fn read_json(header: &[u8]) -> Result<(i32, Answer), String> {
    let text = String::from_utf8_lossy(header);
    let value: serde_json::Value =
        serde_json::from_slice(header).map_err(|e| format!("{e} in {text}"))?;
    let int = |key: &str| {
        value[key]
            .as_i64()
            .ok_or_else(|| format!("no {key} in {text}"))
    };
    let ext = value
        .get("extFields")
        .and_then(|e| e.as_object())
        .map(|fields| {
            let text = |v: &serde_json::Value| v.as_str().unwrap_or_default().to_owned();
            fields
                .iter()
                .map(|(k, v)| (k.clone(), text(v)))
                .collect::<Vec<_>>()
        });
    let remark = value.get("remark").and_then(|r| r.as_str());
    let (code, opaque) = (int("code")?, int("opaque")?);
    let mut fields: Option<Vec<(&str, &str)>> = ext
        .as_ref()
        .map(|ext| ext.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect());
    if let Some(fields) = &mut fields {
        fields.sort_unstable();
    }
    let expected = json_header(code, fields.as_deref(), 1, opaque, remark);
    if header != expected.as_bytes() {
        return Err(format!("header {text} instead of {expected}"));
    }
    let remark = remark.map_or(Remark::Absent, |text| Remark::Text(text.to_owned()));
    let code = i32::try_from(code).map_err(|e| e.to_string())?;
    Ok((
        i32::try_from(opaque).map_err(|e| e.to_string())?,
        Answer {
            code,
            remark,
            ext,
            body: None,
        },
    ))
}

fn json_header(
    code: i64,
    ext: Option<&[(&str, &str)]>,
    flag: i32,
    opaque: i64,
    remark: Option<&str>,
) -> String {
    let mut out = format!("{{\"code\":{code}");
    if let Some(ext) = ext {
        out += ",\"extFields\":{";
        for (i, (key, value)) in ext.iter().enumerate() {
            if i > 0 {
                out.push(',');
            }
            fastjson::push_plain(&mut out, key);
            out.push(':');
            fastjson::push_plain(&mut out, value);
        }
        out.push('}');
    }
    out += &format!(",\"flag\":{flag},\"language\":\"JAVA\",\"opaque\":{opaque}");
    if let Some(remark) = remark {
        out += ",\"remark\":";
        fastjson::push_plain(&mut out, remark);
    }
    out + ",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":479}"
}

/// The binary header: 21 fixed bytes, remark, map. It cannot tell an empty map from none.
fn read_binary(header: &[u8]) -> Result<(i32, Answer), String> {
    let mut at = Reader(header);
    let code = i32::from(at.i16()?);
    let (language, version, opaque, flag) = (at.take(1)?[0], at.i16()?, at.i32()?, at.i32()?);
    if (language, version, flag) != (0, 479, 1) {
        return Err(format!("language {language} version {version} flag {flag}"));
    }
    let len = at.i32()?;
    let remark = at.text(len)?;
    let remark = if remark.is_empty() {
        Remark::Absent
    } else {
        Remark::Text(remark)
    };
    let len = at.i32()? as usize;
    let mut map = Reader(at.take(len)?);
    if !at.0.is_empty() {
        return Err("bytes after the map".to_owned());
    }
    let mut ext = Vec::new();
    while !map.0.is_empty() {
        let len = map.i16()?;
        let key = map.text(i32::from(len))?;
        let len = map.i32()?;
        ext.push((key, map.text(len)?));
    }
    ext.sort_unstable();
    let ext = (!ext.is_empty()).then_some(ext);
    Ok((
        opaque,
        Answer {
            code,
            remark,
            ext,
            body: None,
        },
    ))
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], String> {
        let (head, rest) = self
            .0
            .split_at_checked(len)
            .ok_or("cut off binary header")?;
        self.0 = rest;
        Ok(head)
    }

    fn i16(&mut self) -> Result<i16, String> {
        self.take(2).map(|b| i16::from_be_bytes([b[0], b[1]]))
    }

    fn i32(&mut self) -> Result<i32, String> {
        self.take(4)
            .map(|b| i32::from_be_bytes([b[0], b[1], b[2], b[3]]))
    }

    fn text(&mut self, len: i32) -> Result<String, String> {
        let len = usize::try_from(len).map_err(|e| e.to_string())?;
        String::from_utf8(self.take(len)?.to_vec()).map_err(|e| e.to_string())
    }
}
