//! Values that are more than a number or a text, each with its one way to be read and shown.
//!
//! Owns the forms of the `namesrv.` and `tls.` keys. Invariant: what is shown is read back to the
//! same value. Deliberately absent: host names are not resolved here, files are not looked at.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// The text is not of the form that the key asks for; the key table knows the form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadForm;

/// Which CPUs serve connections (`namesrv.cores`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Cores {
    /// All that the process may run on.
    #[default]
    All,
    /// So many of them.
    Count(u16),
    /// These, ascending, each once.
    List(Vec<u16>),
}

/// Highest CPU number that is taken: what Linux is built for at most.
pub const CPU_MAX: u16 = 8191;

impl FromStr for Cores {
    type Err = BadForm;

    fn from_str(text: &str) -> Result<Self, BadForm> {
        if text == "all" {
            return Ok(Self::All);
        }
        if let Some(count) = decimal(text) {
            return if (1..=CPU_MAX).contains(&count) {
                Ok(Self::Count(count))
            } else {
                Err(BadForm)
            };
        }
        let mut cpus = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (cpu(first)?, cpu(last)?);
            if first > last {
                return Err(BadForm);
            }
            cpus.extend(first..=last);
        }
        cpus.sort_unstable();
        let given = cpus.len();
        cpus.dedup();
        if cpus.len() == given {
            Ok(Self::List(cpus))
        } else {
            Err(BadForm)
        }
    }
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Count(count) => write!(f, "{count}"),
            Self::List(cpus) => {
                // One CPU is written as a range: a bare number would be a count.
                let ranges: Vec<String> = cpus
                    .chunk_by(|a, b| a + 1 == *b)
                    .filter_map(|run| Some(format!("{}-{}", run.first()?, run.last()?)))
                    .collect();
                f.write_str(&ranges.join(","))
            }
        }
    }
}

/// Where the writer runs (`namesrv.writerCore`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriterCore {
    /// On the first serving core with fewer than 8 of them, on a core of its own otherwise.
    #[default]
    Auto,
    /// On this CPU.
    Cpu(u16),
}

impl FromStr for WriterCore {
    type Err = BadForm;

    fn from_str(text: &str) -> Result<Self, BadForm> {
        if text == "auto" {
            Ok(Self::Auto)
        } else {
            cpu(text).map(Self::Cpu)
        }
    }
}

impl fmt::Display for WriterCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu(cpu) => write!(f, "{cpu}"),
        }
    }
}

/// Where log lines go (`namesrv.log`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// Standard error.
    Stderr,
    /// A file, rotated by size.
    File(String),
}

impl FromStr for LogTarget {
    type Err = BadForm;

    fn from_str(text: &str) -> Result<Self, BadForm> {
        match text {
            "" => Err(BadForm),
            "stderr" => Ok(Self::Stderr),
            path => Ok(Self::File(path.to_owned())),
        }
    }
}

impl fmt::Display for LogTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stderr => f.write_str("stderr"),
            Self::File(path) => f.write_str(path),
        }
    }
}

/// Where the HTTP pages are (`namesrv.adminAddress`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AdminAddress {
    /// On loopback, at `listenPort` + 10; left out with a warning when that is taken.
    #[default]
    Auto,
    /// Nowhere.
    Off,
    /// At this host (name or address, IPv6 without brackets) and port; taken means no start.
    At(String, u16),
}

impl FromStr for AdminAddress {
    type Err = BadForm;

    fn from_str(text: &str) -> Result<Self, BadForm> {
        match text {
            "auto" => return Ok(Self::Auto),
            "off" => return Ok(Self::Off),
            _ => {}
        }
        let (host, port) = text.rsplit_once(':').ok_or(BadForm)?;
        let host = match host.strip_prefix('[').and_then(|h| h.strip_suffix(']')) {
            Some(v6) if v6.parse::<std::net::Ipv6Addr>().is_ok() => v6,
            None if !host.contains([':', '[', ']']) => host,
            _ => return Err(BadForm),
        };
        match decimal(port) {
            Some(port) if port > 0 && !host.is_empty() => Ok(Self::At(host.to_owned(), port)),
            _ => Err(BadForm),
        }
    }
}

impl fmt::Display for AdminAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Off => f.write_str("off"),
            Self::At(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::At(host, port) => write!(f, "{host}:{port}"),
        }
    }
}

/// A range of addresses in CIDR form; one address is a range of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    /// First address of the range.
    base: IpAddr,
    /// Leading bits that count.
    prefix: u8,
}

impl AddressRange {
    /// Whether `address` is in the range. An IPv4 address mapped into IPv6, as a dual-stack
    /// listener shows it, is that IPv4 address.
    pub fn contains(&self, address: IpAddr) -> bool {
        masked(address.to_canonical(), self.prefix) == Some(self.base)
    }
}

impl FromStr for AddressRange {
    type Err = BadForm;

    fn from_str(text: &str) -> Result<Self, BadForm> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(decimal(prefix).ok_or(BadForm)?)),
            None => (text, None),
        };
        let base: IpAddr = address.parse().map_err(|_| BadForm)?;
        let bits = if base.is_ipv4() { 32 } else { 128 };
        let prefix = u8::try_from(prefix.unwrap_or(bits)).map_err(|_| BadForm)?;
        // A base with bits behind the prefix is a typing error more often than a wish.
        match masked(base, prefix) {
            Some(cut) if cut == base && base.to_canonical() == base => Ok(Self { base, prefix }),
            _ => Err(BadForm),
        }
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.prefix)
    }
}

/// `address` with everything behind `prefix` cleared; `None` when it has not so many bits.
fn masked(address: IpAddr, prefix: u8) -> Option<IpAddr> {
    let prefix = u32::from(prefix);
    match address {
        IpAddr::V4(v4) => {
            let host = 32u32.checked_sub(prefix)?;
            let mask = u32::MAX.checked_shl(host).unwrap_or(0);
            Some(IpAddr::V4((v4.to_bits() & mask).into()))
        }
        IpAddr::V6(v6) => {
            let host = 128u32.checked_sub(prefix)?;
            let mask = u128::MAX.checked_shl(host).unwrap_or(0);
            Some(IpAddr::V6((v6.to_bits() & mask).into()))
        }
    }
}

/// Several ranges, separated by commas; none means what the key says it means.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressRanges(pub Vec<AddressRange>);

impl AddressRanges {
    /// Whether any range holds `address`.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|range| range.contains(address))
    }
}

impl FromStr for AddressRanges {
    type Err = BadForm;

    fn from_str(text: &str) -> Result<Self, BadForm> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        text.split(',')
            .map(|part| part.trim().parse())
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

impl fmt::Display for AddressRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranges: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&ranges.join(","))
    }
}

/// What happens to a connection that begins with a TLS handshake (`TlsMode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsMode {
    /// It is closed.
    Disabled,
    /// It is served, as plain ones are.
    #[default]
    Permissive,
    /// It is served, and plain ones are closed.
    Enforcing,
}

impl FromStr for TlsMode {
    type Err = BadForm;

    /// With its case, as `TlsMode.parse`; Java takes anything else for permissive.
    fn from_str(text: &str) -> Result<Self, BadForm> {
        match text {
            "disabled" => Ok(Self::Disabled),
            "permissive" => Ok(Self::Permissive),
            "enforcing" => Ok(Self::Enforcing),
            _ => Err(BadForm),
        }
    }
}

impl fmt::Display for TlsMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Disabled => "disabled",
            Self::Permissive => "permissive",
            Self::Enforcing => "enforcing",
        })
    }
}

/// Whether a TLS client has to show a certificate (`tls.server.need.client.auth`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientAuth {
    /// Not asked for.
    #[default]
    None,
    /// Asked for.
    Optional,
    /// No connection without one.
    Require,
}

impl FromStr for ClientAuth {
    type Err = BadForm;

    /// In any case, as `TlsHelper.parseClientAuthMode`; Java takes anything else for none.
    fn from_str(text: &str) -> Result<Self, BadForm> {
        [Self::None, Self::Optional, Self::Require]
            .into_iter()
            .find(|auth| text.eq_ignore_ascii_case(&auth.to_string()))
            .ok_or(BadForm)
    }
}

impl fmt::Display for ClientAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Optional => "optional",
            Self::Require => "require",
        })
    }
}

fn cpu(text: &str) -> Result<u16, BadForm> {
    decimal(text).filter(|cpu| *cpu <= CPU_MAX).ok_or(BadForm)
}

/// Digits only: the library's parser would take a sign.
fn decimal(text: &str) -> Option<u16> {
    if text.bytes().all(|b| b.is_ascii_digit()) {
        text.parse().ok()
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn round_trip<T: FromStr<Err = BadForm> + fmt::Display>(text: &str) -> Option<String> {
        let shown = text.parse::<T>().ok()?.to_string();
        assert_eq!(shown.parse::<T>().ok().unwrap().to_string(), shown);
        Some(shown)
    }

    #[test]
    fn cores_are_a_count_or_a_list() {
        assert_eq!("4".parse(), Ok(Cores::Count(4)));
        assert_eq!("0-3,5".parse(), Ok(Cores::List(vec![0, 1, 2, 3, 5])));
        assert_eq!("7,2".parse(), Ok(Cores::List(vec![2, 7])));
        assert_eq!("6-6".parse(), Ok(Cores::List(vec![6])));
        assert_eq!(round_trip::<Cores>("7,0-2,3"), Some("0-3,7-7".to_owned()));
        assert_eq!(round_trip::<Cores>("all"), Some("all".to_owned()));
        for bad in [
            "", "0", "-1", "+4", "3-1", "1,1", "0-2,2", "1,", "a", "0-9000", "99999",
        ] {
            assert_eq!(bad.parse::<Cores>(), Err(BadForm), "{bad}");
        }
    }

    #[test]
    fn the_writer_has_a_cpu_or_none() {
        assert_eq!("auto".parse(), Ok(WriterCore::Auto));
        assert_eq!("0".parse(), Ok(WriterCore::Cpu(0)));
        for bad in ["", "-1", "+1", "8192", "0-1"] {
            assert_eq!(bad.parse::<WriterCore>(), Err(BadForm), "{bad}");
        }
    }

    #[test]
    fn ranges_hold_what_their_prefix_says() {
        let ranges: AddressRanges = "10.1.0.0/16, 192.168.0.7,fd00::/8,0.0.0.0/32"
            .parse()
            .unwrap();
        for inside in [
            "10.1.0.0",
            "10.1.255.255",
            "::ffff:10.1.2.3",
            "192.168.0.7",
            "fdff::1",
        ] {
            assert!(ranges.contains(inside.parse().unwrap()), "{inside}");
        }
        for outside in [
            "10.2.0.0",
            "192.168.0.6",
            "fe00::",
            "::1",
            "::ffff:192.168.0.8",
        ] {
            assert!(!ranges.contains(outside.parse().unwrap()), "{outside}");
        }
        let all: AddressRange = "0.0.0.0/0".parse().unwrap();
        assert!(all.contains("255.1.2.3".parse().unwrap()));
        assert!(!all.contains("::2".parse().unwrap()));
        let shown = "10.1.0.0/16,192.168.0.7/32,fd00::/8,0.0.0.0/32";
        assert_eq!(ranges.to_string(), shown);
        assert!(!AddressRanges::default().contains("127.0.0.1".parse().unwrap()));
    }

    #[test]
    fn a_range_with_stray_bits_is_refused() {
        let bad = [
            "10.1.0.1/16",
            "10.0.0.0/33",
            "::/129",
            "::ffff:1.2.3.4",
            "1.2.3",
            "1.2.3.4/",
            "",
        ];
        for bad in bad {
            assert_eq!(bad.parse::<AddressRange>(), Err(BadForm), "{bad}");
        }
        assert_eq!("1.2.3.4,".parse::<AddressRanges>(), Err(BadForm));
    }

    #[test]
    fn the_admin_address_is_host_and_port() {
        for text in ["auto", "off", "127.0.0.1:9886", "[::1]:80", "host.name:1"] {
            assert_eq!(round_trip::<AdminAddress>(text).as_deref(), Some(text));
        }
        assert_eq!(
            "[::1]:80".parse(),
            Ok(AdminAddress::At("::1".to_owned(), 80))
        );
        for bad in [
            "", "host", ":1", "h:0", "h:65536", "::1:80", "[h]:1", "[::1:80", "h:+1",
        ] {
            assert_eq!(bad.parse::<AdminAddress>(), Err(BadForm), "{bad}");
        }
    }

    #[test]
    fn tls_words_have_the_case_that_java_gives_them() {
        for mode in ["disabled", "permissive", "enforcing"] {
            assert_eq!(round_trip::<TlsMode>(mode).as_deref(), Some(mode));
        }
        assert_eq!("DISABLED".parse::<TlsMode>(), Err(BadForm));
        assert_eq!("REQUIRE".parse(), Ok(ClientAuth::Require));
        assert_eq!(
            round_trip::<ClientAuth>("Optional").as_deref(),
            Some("optional")
        );
        assert_eq!("yes".parse::<ClientAuth>(), Err(BadForm));
    }
}
