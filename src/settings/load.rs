//! From texts to [`Settings`]: the `-c` file, the command line's `-Dname=value`, the TLS file.
//!
//! Owns the order of precedence and the report of everything that is wrong at once. Invariant:
//! a bad value never falls back to a default in silence, as it does in Java
//! (`MixAll.properties2Object`). Deliberately absent: reading the files.
//!
//! Later ones win: Java's default, a JVM property that sets a default, the file, the command
//! line, the TLS file (for `tls.` keys but mode and enable, as `TlsHelper` does).

use std::collections::BTreeMap;
use std::fmt;

use super::keys::{self, Effect, Group, Kind};
use super::properties::{self, BadEscape, Entry};
use super::values::TlsMode;
use super::{Settings, Surroundings};

/// Everything that settings are made of.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sources<'a> {
    /// The `-c` file: its path as given, and its bytes.
    pub file: Option<(&'a str, &'a [u8])>,
    /// `-Dname=value` and our own options, in their order.
    pub defines: &'a [(String, String)],
    /// Bytes of the file that [`tls_config_file`] names, when there is one.
    pub tls_file: Option<&'a [u8]>,
}

/// Where a value was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The `-c` file, at this line.
    File(usize),
    /// The command line.
    CommandLine,
    /// The environment.
    Environment,
    /// The TLS file, at this line.
    TlsFile(usize),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(line) => write!(f, "line {line}"),
            Self::CommandLine => f.write_str("command line"),
            Self::Environment => f.write_str("environment"),
            Self::TlsFile(line) => write!(f, "TLS file, line {line}"),
        }
    }
}

/// One thing that stops the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where it was given; `None` when it follows from several keys.
    pub origin: Option<Origin>,
    /// The key; empty when the line cannot be read.
    pub key: String,
    /// The value as given, shortened; a password is not shown.
    pub value: String,
    /// What to do, in one sentence.
    pub fix: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(origin) = self.origin {
            write!(f, "{origin}: ")?;
        }
        if !self.key.is_empty() {
            write!(
                f,
                "{}={}: ",
                self.key.escape_debug(),
                self.value.escape_debug()
            )?;
        }
        f.write_str(&self.fix)
    }
}

/// One thing that an operator should know, and that stops nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// No such key; kept, and shown by 319 when it is in the file. `meant` differs in its case.
    Unknown {
        /// Where.
        origin: Origin,
        /// The key.
        key: String,
        /// A key that exists.
        meant: Option<&'static str>,
    },
    /// Given again later; this one does not count.
    Overridden {
        /// Where the one is that does not count.
        origin: Origin,
        /// The key.
        key: String,
        /// Where the one is that counts.
        by: Origin,
    },
    /// Another value than the default of a key that has no meaning here.
    NoMeaning {
        /// Where.
        origin: Origin,
        /// The key.
        key: &'static str,
        /// Why it has none.
        why: &'static str,
    },
    /// The key does not count in this place, as in Java.
    Misplaced {
        /// Where.
        origin: Origin,
        /// The key.
        key: &'static str,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { origin, key, meant } => {
                write!(f, "{origin}: unknown key {}", key.escape_debug())?;
                meant.map_or(Ok(()), |meant| write!(f, ", perhaps {meant} is meant"))
            }
            Self::Overridden { origin, key, by } => {
                write!(
                    f,
                    "{origin}: {} does not count, {by} does",
                    key.escape_debug()
                )
            }
            Self::NoMeaning { origin, key, why } => {
                write!(f, "{origin}: {key} has no meaning here: {why}")
            }
            Self::Misplaced { origin, key } => write!(f, "{origin}: {key} does not count here"),
        }
    }
}

/// The file that overrides the `tls.` keys (`tls.config.file`), as far as the other sources say:
/// to be read, if it exists, before [`Settings::from_properties`].
pub fn tls_config_file(sources: &Sources<'_>) -> String {
    let mut settings = Settings::default();
    for given in file_entries(sources)
        .unwrap_or_default()
        .iter()
        .chain(&define_entries(sources))
    {
        if given.key == "tls.config.file"
            && let Some(key) = keys::find(&given.key)
        {
            // A bad one is reported with all the others.
            let _ = key.set(&mut settings, &given.value);
        }
    }
    settings.tls.config_file
}

impl Settings {
    /// Makes settings of all sources, or lists all their problems. Warnings come in the order of
    /// the sources.
    pub fn from_properties(
        sources: &Sources<'_>,
        surroundings: &Surroundings,
    ) -> Result<(Self, Vec<Warning>), Vec<Problem>> {
        let mut loader = Loader::default();
        let file = loader.readable(file_entries(sources));
        let tls = loader.readable(tls_entries(sources));
        let mut given = file;
        given.extend(define_entries(sources));
        let given = loader.last_of_each(given);
        let tls = loader.last_of_each(tls);

        let mut surroundings = surroundings.clone();
        for entry in &given {
            if let Some(Kind::Surrounding(set)) = keys::find(&entry.key).map(|key| &key.kind) {
                set(&mut surroundings, keys::trim(&entry.value));
            }
        }
        let mut settings = Self::default_with(&surroundings);
        loader.environment(&surroundings, &mut settings);
        let (defaults, values): (Vec<_>, Vec<_>) = given.iter().partition(|g| sets_default(&g.key));
        if let Some((path, _)) = sources.file {
            path.clone_into(&mut settings.config_store_path);
        }
        for entry in defaults.into_iter().chain(values) {
            loader.apply(entry, sources.file, &mut settings);
        }
        for entry in &tls {
            loader.apply_tls(entry, &mut settings);
        }
        let tls_client_given = given
            .iter()
            .any(|g| g.key == "useTLS" || g.key == "tls.enable");
        if settings.tls.mode == TlsMode::Enforcing && !tls_client_given {
            // `NettyClientConfig.useTLS` follows the server's mode until something sets it.
            settings.inert.insert("useTLS", "true".to_owned());
        }
        loader.check_together(&settings);
        if loader.problems.is_empty() {
            Ok((settings, loader.warnings))
        } else {
            Err(loader.problems)
        }
    }
}

/// A key and a value from any source.
#[derive(Debug)]
struct Given {
    origin: Origin,
    key: String,
    value: String,
}

#[derive(Default)]
struct Loader {
    problems: Vec<Problem>,
    warnings: Vec<Warning>,
}

impl Loader {
    /// The entries, or nothing and a problem for each bad escape.
    fn readable(&mut self, entries: Result<Vec<Given>, Vec<Origin>>) -> Vec<Given> {
        entries.unwrap_or_else(|bad| {
            self.problems.extend(bad.into_iter().map(|origin| Problem {
                origin: Some(origin),
                key: String::new(),
                value: String::new(),
                fix: "\\u needs four hexadecimal digits; write \\\\ for a backslash".to_owned(),
            }));
            Vec::new()
        })
    }

    /// The entries that count, with a warning for each that does not.
    fn last_of_each(&mut self, given: Vec<Given>) -> Vec<Given> {
        let last: BTreeMap<String, usize> = given
            .iter()
            .enumerate()
            .map(|(index, entry)| (entry.key.clone(), index))
            .collect();
        let origins: Vec<Origin> = given.iter().map(|entry| entry.origin).collect();
        let mut counting = Vec::with_capacity(last.len());
        for (index, entry) in given.into_iter().enumerate() {
            match last.get(&entry.key) {
                Some(&later) if later > index => {
                    let (origin, key, by) = (entry.origin, entry.key, origins[later]);
                    self.warnings.push(Warning::Overridden { origin, key, by });
                }
                _ => counting.push(entry),
            }
        }
        counting
    }

    fn environment(&mut self, surroundings: &Surroundings, settings: &mut Settings) {
        if let Some(value) = &surroundings.serialize_type {
            let key = "rocketmq.serialize.type".to_owned();
            let entry = Given {
                origin: Origin::Environment,
                key,
                value: value.clone(),
            };
            self.apply(&entry, None, settings);
        }
    }

    /// Puts one value of the file or the command line into `settings`.
    fn apply(&mut self, given: &Given, file: Option<(&str, &[u8])>, settings: &mut Settings) {
        let from_file = matches!(given.origin, Origin::File(_));
        let Some(key) = keys::find(&given.key) else {
            self.unknown(given);
            if from_file {
                settings
                    .extra
                    .insert(given.key.clone(), given.value.clone());
            }
            return;
        };
        if from_file && key.name == "configStorePath" {
            if file.is_none_or(|(path, _)| path != given.value) {
                self.warnings.push(Warning::Misplaced {
                    origin: given.origin,
                    key: key.name,
                });
            }
            return;
        }
        self.set(key, given, settings);
        let has_field = matches!(key.group, Group::Namesrv | Group::NettyServer);
        if from_file && !has_field && !key.is_secret() {
            settings
                .extra
                .insert(given.key.clone(), given.value.clone());
        }
    }

    /// Puts one value of the TLS file into `settings`.
    fn apply_tls(&mut self, given: &Given, settings: &mut Settings) {
        const ELSEWHERE: [&str; 3] = ["tls.server.mode", "tls.enable", "tls.config.file"];
        match keys::find(&given.key) {
            Some(key) if ELSEWHERE.contains(&key.name) || !key.name.starts_with("tls.") => {
                self.warnings.push(Warning::Misplaced {
                    origin: given.origin,
                    key: key.name,
                });
            }
            Some(key) => self.set(key, given, settings),
            None => self.unknown(given),
        }
    }

    fn set(&mut self, key: &'static keys::Key, given: &Given, settings: &mut Settings) {
        let before = key.value(settings);
        if key.set(settings, &given.value).is_none() {
            self.problems
                .push(bad_value(key, Some(given.origin), &given.value));
        } else if key.effect == Effect::Never && before != key.value(settings) {
            // `rocketmqHome` says itself that nobody reads it, and everybody sets it.
            if key.name != "rocketmqHome" {
                let (origin, key, why) = (given.origin, key.name, key.note);
                self.warnings.push(Warning::NoMeaning { origin, key, why });
            }
        }
    }

    fn unknown(&mut self, given: &Given) {
        let meant = keys::KEYS
            .iter()
            .find(|key| key.name.eq_ignore_ascii_case(&given.key));
        let (origin, key) = (given.origin, given.key.clone());
        self.warnings.push(Warning::Unknown {
            origin,
            key,
            meant: meant.map(|key| key.name),
        });
    }

    /// Rules over several keys.
    fn check_together(&mut self, settings: &Settings) {
        let tls = &settings.tls;
        if tls.mode == TlsMode::Disabled || tls.test_mode {
            return;
        }
        for (key, path) in [
            ("tls.server.keyPath", &tls.key_path),
            ("tls.server.certPath", &tls.cert_path),
        ] {
            if path.is_none() {
                self.problems.push(Problem {
                    origin: None,
                    key: key.to_owned(),
                    value: String::new(),
                    fix: "name a PEM file, or set tls.server.mode=disabled: \
                          tls.test.mode.enable=false asks for a certificate"
                        .to_owned(),
                });
            }
        }
    }
}

/// The problem of a value that the key does not take.
pub(super) fn bad_value(key: &keys::Key, origin: Option<Origin>, value: &str) -> Problem {
    let shown = if key.is_secret() { "***" } else { value };
    let end = shown
        .char_indices()
        .nth(64)
        .map_or(shown.len(), |(at, _)| at);
    let mut value = shown[..end].to_owned();
    if end < shown.len() {
        value.push('…');
    }
    let (key, fix) = (key.name.to_owned(), format!("must be {}", key.expected()));
    Problem {
        origin,
        key,
        value,
        fix,
    }
}

fn sets_default(key: &str) -> bool {
    keys::find(key).is_some_and(|key| matches!(key.kind, Kind::DefaultOf(_)))
}

fn file_entries(sources: &Sources<'_>) -> Result<Vec<Given>, Vec<Origin>> {
    entries(sources.file.map(|(_, text)| text), Origin::File)
}

fn tls_entries(sources: &Sources<'_>) -> Result<Vec<Given>, Vec<Origin>> {
    entries(sources.tls_file, Origin::TlsFile)
}

fn entries(text: Option<&[u8]>, at: fn(usize) -> Origin) -> Result<Vec<Given>, Vec<Origin>> {
    let given = |Entry { key, value, line }: Entry| Given {
        origin: at(line),
        key,
        value,
    };
    let bad = |BadEscape { line }: BadEscape| at(line);
    properties::read(text.unwrap_or_default())
        .map(|entries| entries.into_iter().map(given).collect())
        .map_err(|lines| lines.into_iter().map(bad).collect())
}

fn define_entries(sources: &Sources<'_>) -> Vec<Given> {
    let given = |(key, value): &(String, String)| Given {
        origin: Origin::CommandLine,
        key: key.clone(),
        value: value.clone(),
    };
    sources.defines.iter().map(given).collect()
}
