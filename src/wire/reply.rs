//! Answers: frames byte for byte as Java 5.3.3 writes them.
//!
//! Invariant: an [`Output`] holds whole frames only, and none that a Java peer would refuse as
//! too long. A frame is written in place and its length filled in afterwards, so an answer costs
//! no buffer of its own. Deliberately absent: what the codes and remarks mean (`session`), and
//! sending.

use std::io::IoSlice;

use bytes::Bytes;
use smallvec::SmallVec;

use super::codes::{FLAG_RESPONSE, remark, response, version};
use super::fastjson::write_i32;
use super::frame::{self, SerializeType};
use super::header::{HeaderFields, write_header};

/// Bytes to send: one growing buffer, with shared bodies spliced in by position so that
/// large polled answers are not copied.
#[derive(Debug, Default)]
pub struct Output {
    /// Everything but the shared bodies.
    pub buf: Vec<u8>,
    /// Shared bodies and the length of `buf` at which each belongs, ascending.
    pub shared: Vec<(usize, Bytes)>,
    /// Answers that were replaced because no peer would read so large a frame.
    pub too_large: u64,
}

/// The ext fields of an answer: absent and empty are different things on the wire.
#[derive(Clone, Copy, Debug)]
pub enum ReplyExt<'a> {
    /// The answer's class has no header: no `extFields`.
    None,
    /// The answer's class has a header: `extFields`, also when empty, in this order.
    Fields(&'a [(&'a str, &'a str)]),
}

/// Whether an answer went out as it was meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "replaced answers are counted"]
pub enum ReplySize {
    /// It was written.
    Fits,
    /// Its frame would have been longer than Java peers read: code 1, `answer too large`, was
    /// written in its place.
    TooLarge,
}

impl Output {
    /// Appends an answer. `body` appends the body's bytes, if any, and touches nothing before.
    #[inline]
    pub fn reply(
        &mut self,
        serialize: SerializeType,
        opaque: i32,
        code: i32,
        remark: Option<&str>,
        ext: ReplyExt<'_>,
        body: impl FnOnce(&mut Vec<u8>),
    ) -> ReplySize {
        let start = frame::open(&mut self.buf);
        write_reply_header(&mut self.buf, serialize, opaque, code, remark, ext);
        let header_end = self.buf.len();
        body(&mut self.buf);
        if frame::close(&mut self.buf, start, header_end, 0, serialize) {
            return ReplySize::Fits;
        }
        self.replace_too_large(start, serialize, opaque)
    }

    /// Appends an answer whose body is shared with others and is not copied.
    pub fn reply_shared(
        &mut self,
        serialize: SerializeType,
        opaque: i32,
        code: i32,
        remark: Option<&str>,
        ext: ReplyExt<'_>,
        body: Bytes,
    ) -> ReplySize {
        let start = frame::open(&mut self.buf);
        write_reply_header(&mut self.buf, serialize, opaque, code, remark, ext);
        let header_end = self.buf.len();
        if !frame::close(&mut self.buf, start, header_end, body.len(), serialize) {
            return self.replace_too_large(start, serialize, opaque);
        }
        if !body.is_empty() {
            self.shared.push((header_end, body));
        }
        ReplySize::Fits
    }

    /// Bytes to send, shared bodies included.
    pub fn len(&self) -> usize {
        self.buf.len()
            + self
                .shared
                .iter()
                .map(|(_, body)| body.len())
                .sum::<usize>()
    }

    /// There is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.buf.is_empty() && self.shared.is_empty()
    }

    /// Drops everything and keeps the buffer's capacity.
    pub fn clear(&mut self) {
        self.buf.clear();
        self.shared.clear();
    }

    /// What is left after the first `skip_bytes`, in order and without empty slices. The kernel
    /// takes at most 1,024 of them in one call.
    pub fn io_slices(&self, skip_bytes: usize) -> SmallVec<[IoSlice<'_>; 8]> {
        let mut slices = SmallVec::new();
        let mut skip = skip_bytes;
        let mut push = |segment| {
            let rest = skip_front(segment, &mut skip);
            if !rest.is_empty() {
                slices.push(IoSlice::new(rest));
            }
        };
        let mut from = 0;
        for (at, body) in &self.shared {
            push(&self.buf[from..*at]);
            push(body);
            from = *at;
        }
        push(&self.buf[from..]);
        slices
    }

    /// Moves what is left after the first `sent_bytes` into an output of its own and clears this
    /// one: for a buffer that many connections share, after a send that took only a part.
    pub fn take_unsent(&mut self, sent_bytes: usize) -> Self {
        let mut unsent = Self::default();
        let mut skip = sent_bytes;
        let mut from = 0;
        for (at, body) in self.shared.drain(..) {
            unsent
                .buf
                .extend_from_slice(skip_front(&self.buf[from..at], &mut skip));
            from = at;
            if skip < body.len() {
                unsent.shared.push((unsent.buf.len(), body.slice(skip..)));
            }
            skip = skip.saturating_sub(body.len());
        }
        unsent
            .buf
            .extend_from_slice(skip_front(&self.buf[from..], &mut skip));
        self.buf.clear();
        unsent
    }

    #[cold]
    fn replace_too_large(
        &mut self,
        start: usize,
        serialize: SerializeType,
        opaque: i32,
    ) -> ReplySize {
        self.buf.truncate(start);
        let (code, text) = (response::SYSTEM_ERROR, Some(remark::ANSWER_TOO_LARGE));
        // This one always fits, so its own size says nothing.
        let _ = self.reply(serialize, opaque, code, text, ReplyExt::None, |_| ());
        ReplySize::TooLarge
    }
}

/// The part of `segment` behind the first `skip` bytes, which are counted down.
fn skip_front<'a>(segment: &'a [u8], skip: &mut usize) -> &'a [u8] {
    let skipped = segment.len().min(*skip);
    *skip -= skipped;
    &segment[skipped..]
}

/// The header of most answers differs from the next only in its `opaque`.
#[inline]
fn write_reply_header(
    out: &mut Vec<u8>,
    serialize: SerializeType,
    opaque: i32,
    code: i32,
    remark: Option<&str>,
    ext: ReplyExt<'_>,
) {
    const BEFORE_OPAQUE: &[u8] = br#"{"code":0,"flag":1,"language":"JAVA","opaque":"#;
    const AFTER_OPAQUE: &[u8] = br#","serializeTypeCurrentRPC":"JSON","version":479}"#;
    let ext = match ext {
        ReplyExt::None => None,
        ReplyExt::Fields(fields) => Some(fields),
    };
    let is_plain = code == response::SUCCESS && remark.is_none() && ext.is_none();
    if is_plain && serialize == SerializeType::Json {
        out.extend_from_slice(BEFORE_OPAQUE);
        write_i32(out, opaque);
        out.extend_from_slice(AFTER_OPAQUE);
        return;
    }
    let fields = HeaderFields {
        code,
        version: version::V5_3_3,
        opaque,
        flag: FLAG_RESPONSE,
        remark,
        ext,
    };
    write_header(out, serialize, &fields);
}

#[cfg(test)]
mod tests;
