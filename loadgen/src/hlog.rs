//! Histogram logs that HdrHistogram's own tools read: one line for each second and kind.

use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

use crate::op::Op;
use crate::record::Interval;

/// What will be written.
#[derive(Debug, Default)]
pub struct HistogramLog {
    lines: Vec<Line>,
}

#[derive(Debug)]
struct Line {
    from: Duration,
    length: Duration,
    op: Op,
    response: Histogram<u64>,
}

impl HistogramLog {
    /// Keeps the responses of one second.
    pub fn add(&mut self, from: Duration, length: Duration, interval: &Interval) {
        for op in Op::ALL {
            let response = &interval.ops[op.index()].response.0;
            if !response.is_empty() {
                self.lines.push(Line {
                    from,
                    length,
                    op,
                    response: response.clone(),
                });
            }
        }
    }

    /// Writes all, with the plan's digest in a comment. Values are microseconds.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path, began: SystemTime, plan_digest: &str) -> io::Result<()> {
        std::fs::write(path, self.text(began, plan_digest)?)
    }

    fn text(&self, began: SystemTime, plan_digest: &str) -> io::Result<Vec<u8>> {
        let other = |error: &dyn std::fmt::Debug| io::Error::other(format!("{error:?}"));
        let mut out = Vec::new();
        let mut serializer = V2DeflateSerializer::new();
        let mut builder = IntervalLogWriterBuilder::new();
        let comment = format!("responses in microseconds of plan {plan_digest}");
        builder
            .add_comment(&comment)
            .with_start_time(began)
            .with_base_time(began)
            .with_max_value_divisor(1000.0);
        let mut writer = builder.begin_log_with(&mut out, &mut serializer)?;
        for line in &self.lines {
            let name = line.op.name().replace(' ', "-");
            let tag = Tag::new(&name);
            writer
                .write_histogram(&line.response, line.from, line.length, tag)
                .map_err(|error| other(&error))?;
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;

    #[test]
    fn a_log_is_read_back_without_loss() {
        let mut interval = Interval::default();
        for ms in 1..=100 {
            interval.ops[Op::Route.index()]
                .response
                .record(ms * 1_000_000);
        }
        let mut log = HistogramLog::default();
        let second = Duration::from_secs(1);
        log.add(Duration::ZERO, second, &interval);
        log.add(second, second, &interval);
        let bytes = log.text(SystemTime::UNIX_EPOCH, "feedbeef").unwrap();
        assert!(String::from_utf8_lossy(&bytes).contains("plan feedbeef"));
        let mut read = Vec::new();
        for entry in IntervalLogIterator::new(&bytes) {
            if let LogEntry::Interval(line) = entry.unwrap() {
                assert_eq!(line.tag().unwrap().as_str(), "105-route");
                let coded = base64_decode(line.encoded_histogram());
                let histogram: Histogram<u64> = Deserializer::new()
                    .deserialize(&mut coded.as_slice())
                    .unwrap();
                read.push(histogram);
            }
        }
        assert_eq!(read.len(), 2);
        assert_eq!(read[1], interval.ops[Op::Route.index()].response.0);
    }

    fn base64_decode(text: &str) -> Vec<u8> {
        let value = |byte: u8| match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            _ => 63,
        };
        let mut out = Vec::new();
        let (mut bits, mut held) = (0_u32, 0);
        for byte in text.bytes().filter(|byte| *byte != b'=') {
            bits = bits << 6 | u32::from(value(byte));
            held += 6;
            if held >= 8 {
                held -= 8;
                out.push((bits >> held) as u8);
            }
        }
        out
    }
}
