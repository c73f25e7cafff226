//! Every key in one table: name, type, when it takes effect, or why it has no meaning here.
//!
//! Owns the judgement of values: the file, the command line and 318 all come here, and `-p`,
//! `--check`, 318 and 319 show what is here. Invariant: a value that [`Key::set`] takes is shown
//! by [`Key::value`] in Java's form, and that form is taken again. Deliberately absent: defaults
//! of keys with a meaning, which are in [`Settings::default_with`] alone.

mod table;

use super::{Settings, Surroundings};

pub use table::KEYS;

/// Longest text value, in bytes; paths end at 4,096 in Linux.
pub const TEXT_MAX_BYTES: usize = 4096;

/// One key.
#[derive(Debug)]
pub struct Key {
    /// Name in files, in `-Dname=value` and in 318; compared with its case.
    pub name: &'static str,
    /// Whose key it is.
    pub group: Group,
    /// What values it takes and where they go.
    pub kind: Kind,
    /// When a change takes effect.
    pub effect: Effect,
    /// What it does; for a key without meaning here, why it has none.
    pub note: &'static str,
}

/// Where a key comes from, which decides who shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// `NamesrvConfig`: shown by `-p` and 319.
    Namesrv,
    /// `NettyServerConfig`: shown by `-p` and 319.
    NettyServer,
    /// `NettyClientConfig`: shown by `-p`; by 319 only when the file has it.
    NettyClient,
    /// A JVM property in Java; here also taken from the file. Shown by 319 when the file has it.
    Jvm,
    /// This server's own. Shown by 319 when the file has it, as Java shows unknown keys.
    Own,
}

/// When a change takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// With 318 at once, for what begins after it.
    AtOnce,
    /// At the next start.
    AtRestart,
    /// Never: accepted, kept and shown, because Java's files have it.
    Never,
}

/// What values a key takes, and its place in [`Settings`].
#[derive(Debug)]
pub enum Kind {
    /// `true` or `false` in any case.
    Bool(Place<bool>),
    /// A whole number from `min` to `max`; a leading `+` is taken.
    Number {
        /// Smallest value.
        min: i64,
        /// Largest value.
        max: i64,
        /// Its place; what is set is in the range.
        place: Place<i64>,
    },
    /// Any text.
    Text(Place<String>),
    /// The same, but not empty.
    NonEmpty(Place<String>),
    /// A text or nothing; empty means nothing.
    Optional(Place<Option<String>>),
    /// A form of its own.
    Form {
        /// The form, to complete "must be …".
        form: &'static str,
        /// Shows the value.
        get: fn(&Settings) -> String,
        /// Takes the value; `None` when it has not the form.
        set: fn(&mut Settings, &str) -> Option<()>,
    },
    /// No meaning here: Java's type is checked and the text is kept.
    Inert(JavaType, &'static str),
    /// A JVM property that only sets the default of these keys.
    DefaultOf(&'static [&'static str]),
    /// A JVM property that replaces a part of the surroundings.
    Surrounding(fn(&mut Surroundings, &str)),
}

/// How to read and write one field of [`Settings`].
#[derive(Debug)]
pub struct Place<T> {
    /// Reads the field.
    pub get: fn(&Settings) -> T,
    /// Writes the field.
    pub set: fn(&mut Settings, T),
}

/// Type of a Java field without meaning here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JavaType {
    /// `boolean`
    Bool,
    /// `int`
    Int,
    /// `long`
    Long,
    /// `String`
    Text,
}

/// The key of this name. `writeBufferHighWaterMark` and `writeBufferLowWaterMark` stand in the
/// table twice, as in Java, and share one value; the server's is found.
pub fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

impl Key {
    /// The value in Java's form; `None` for null, and for parts of the surroundings. A property
    /// that sets a default shows the value of the (first) key whose default it sets.
    pub fn value(&self, settings: &Settings) -> Option<String> {
        match &self.kind {
            Kind::Bool(place) => Some((place.get)(settings).to_string()),
            Kind::Number { place, .. } => Some((place.get)(settings).to_string()),
            Kind::Text(place) | Kind::NonEmpty(place) => Some((place.get)(settings)),
            Kind::Optional(place) => (place.get)(settings),
            Kind::Form { get, .. } => Some(get(settings)),
            Kind::Inert(_, default) => Some(
                settings
                    .inert
                    .get(self.name)
                    .map_or(*default, String::as_str)
                    .to_owned(),
            ),
            Kind::DefaultOf(names) => find(names.first()?)?.value(settings),
            Kind::Surrounding(_) => None,
        }
    }

    /// The name that Java prints: that of the field, where the setter has another.
    pub fn printed_name(&self) -> &'static str {
        if self.name == "scanAvailableNameSrv" {
            "isScanAvailableNameSrv"
        } else {
            self.name
        }
    }

    /// The value before any file or option; `None` for null.
    pub fn default(&self, surroundings: &Surroundings) -> Option<String> {
        self.value(&Settings::default_with(surroundings))
    }

    /// Judges `text`, blanks around it apart, and puts it into `settings`. `None` when the value
    /// is bad: then nothing has changed, and [`Self::expected`] tells what it must be.
    ///
    /// A text may hold control characters: a 318 makes Java write its file anew without escapes,
    /// and where that put `\n` behind a backslash's place, Java reads a line feed and goes on.
    /// Whoever may say what such a value should be instead refuses it before ([`is_plain_text`]).
    pub fn set(&self, settings: &mut Settings, text: &str) -> Option<()> {
        let text = trim(text);
        if text.len() > TEXT_MAX_BYTES || !(self.is_text() || is_plain_text(text)) {
            return None;
        }
        match &self.kind {
            Kind::Bool(place) => (place.set)(settings, boolean(text)?),
            Kind::Number { min, max, place } => {
                let number = number(text).filter(|n| (min..=max).contains(&n))?;
                (place.set)(settings, number);
            }
            Kind::Text(place) => (place.set)(settings, text.to_owned()),
            Kind::NonEmpty(place) => {
                (place.set)(settings, Some(text.to_owned()).filter(|t| !t.is_empty())?);
            }
            Kind::Optional(place) => {
                (place.set)(settings, Some(text.to_owned()).filter(|t| !t.is_empty()));
            }
            Kind::Form { set, .. } => set(settings, text)?,
            Kind::Inert(java_type, _) => {
                settings.inert.insert(self.name, java_type.canonical(text)?);
            }
            Kind::DefaultOf(names) => {
                for name in *names {
                    find(name)?.set(settings, text)?;
                }
            }
            Kind::Surrounding(_) => {}
        }
        Some(())
    }

    fn is_text(&self) -> bool {
        matches!(
            self.kind,
            Kind::Text(_) | Kind::NonEmpty(_) | Kind::Optional(_) | Kind::Inert(JavaType::Text, _)
        )
    }

    /// What a value must be, to complete "must be …".
    pub fn expected(&self) -> String {
        let text = plain_text();
        match &self.kind {
            Kind::Bool(_) | Kind::Inert(JavaType::Bool, _) => "true or false".to_owned(),
            Kind::Number { min, max, .. } => format!("a whole number from {min} to {max}"),
            Kind::NonEmpty(_) => format!("{text}, and not empty"),
            Kind::Text(_) | Kind::Optional(_) | Kind::Surrounding(_) => text,
            Kind::Form { form, .. } => (*form).to_owned(),
            Kind::Inert(JavaType::Int, _) => {
                format!("a whole number from {} to {}", i32::MIN, i32::MAX)
            }
            Kind::Inert(JavaType::Long, _) => "a whole number of 64 bits".to_owned(),
            Kind::Inert(JavaType::Text, _) => text,
            Kind::DefaultOf(names) => names
                .first()
                .and_then(|name| find(name))
                .map_or(text, Self::expected),
        }
    }

    /// Whether 318 refuses the key with code 16, whatever the configured list says. Java's four;
    /// and all that Java takes from the JVM's command line or does not know, because it decides
    /// which files are read and written and who may send a 318.
    pub fn refused_by_update(&self) -> bool {
        const JAVA: [&str; 4] = [
            "configBlackList",
            "configStorePath",
            "kvConfigPath",
            "rocketmqHome",
        ];
        JAVA.contains(&self.name) || matches!(self.group, Group::Jvm | Group::Own)
    }

    /// Whether the value is never shown to anyone.
    pub fn is_secret(&self) -> bool {
        self.name.ends_with("keyPassword")
    }
}

impl JavaType {
    /// The text that Java would print for the value; `None` when it is not of the type.
    fn canonical(self, text: &str) -> Option<String> {
        match self {
            Self::Bool => boolean(text).map(|b| b.to_string()),
            Self::Int => i32::try_from(number(text)?).ok().map(|n| n.to_string()),
            Self::Long => number(text).map(|n| n.to_string()),
            Self::Text => Some(text.to_owned()),
        }
    }
}

/// `text` without what Java's `String.trim` takes away: control characters and the space.
pub(super) fn trim(text: &str) -> &str {
    text.trim_matches(|c| c <= ' ')
}

/// Whether a value is short enough and one line.
pub(super) fn is_plain_text(text: &str) -> bool {
    text.len() <= TEXT_MAX_BYTES && !text.contains(is_control)
}

/// The same, to complete "must be …".
pub(super) fn plain_text() -> String {
    format!("a text of at most {TEXT_MAX_BYTES} bytes without control characters")
}

/// Characters that would begin a line of their own in 319, or hide something from its reader.
pub(super) fn is_control(c: char) -> bool {
    c.is_ascii_control()
}

fn boolean(text: &str) -> Option<bool> {
    if text.eq_ignore_ascii_case("true") {
        Some(true)
    } else if text.eq_ignore_ascii_case("false") {
        Some(false)
    } else {
        None
    }
}

/// As `Long.parseLong` without the digits of other scripts.
fn number(text: &str) -> Option<i64> {
    text.parse().ok()
}
