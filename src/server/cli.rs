//! The command line: Java's options with Java's grammar, and a few of our own.
//!
//! Owns the grammar (`ServerUtil.parseCmdline`, commons-cli's `DefaultParser`) and the usage
//! text. Invariant: what Java takes means here what it means there; our own options are found
//! only by their whole name behind two dashes, so that no abbreviation of Java's changes its
//! meaning. Deliberately absent: side effects, and any judgement of values: our options become
//! `-Dname=value`, which the key table judges together with the file.
//!
//! Not a library's parser: words that are no option are ignored, the first `-c` wins, long names
//! may be cut short and may stand behind one dash, `-cFILE` and `-pc FILE` are forms, and a
//! missing argument has Java's message.

#[cfg(test)]
mod tests;

/// What to do with a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// Go on.
    Run(Options),
    /// Print and end.
    Exit {
        /// Status of the process.
        code: u8,
        /// For standard output.
        stdout: String,
        /// For standard error.
        stderr: String,
    },
}

/// What the options say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `-c`: path of the properties file, perhaps empty, which no file has.
    pub config_file: Option<String>,
    /// `-p`: print Java's fields and end with 0.
    pub print: bool,
    /// `--check`: judge everything, print all values or all problems, and end.
    pub check: bool,
    /// `-Dname=value` and our own options as keys, in their order.
    pub defines: Vec<(String, String)>,
}

/// Usage of the Java server, word for word.
const JAVA_USAGE: &str = "\
usage: mqnamesrv [-c <arg>] [-h] [-n <arg>] [-p]
 -c,--configFile <arg>    Name server config properties file
 -h,--help                Print help
 -n,--namesrvAddr <arg>   Name server address list, eg: '192.168.0.1:9876;192.168.0.2:9876'
 -p,--printConfigItem     Print all config items
";

const OWN_USAGE: &str = "
Besides Java's options:
 -D<key>=<value>          Set a key of the file, or a JVM property that Java has
    --check               Check options and files, print all values or all problems
    --cores <arg>         CPUs that serve: all, how many (4), or which (0-3,5)
    --log <arg>           Log file, or stderr
    --version             Print the version
    --writer-core <arg>   CPU of the thread that changes the tables, or auto
";

/// Reads the arguments, without the program's name. The caller refuses arguments that are not
/// UTF-8.
pub fn parse(args: &[String]) -> Parsed {
    let mut parser = Parser::default();
    if let Err(error) = parser.run(args) {
        return exit(1, usage(), format!("{}\n", error.0));
    }
    // Java asks for help first; an error above was before that.
    if parser.has(Id::Help) {
        return exit(0, usage(), String::new());
    }
    if parser.has(Id::Version) {
        let version = env!("CARGO_PKG_VERSION");
        return exit(
            0,
            format!("namesrv {version}, as RocketMQ 5.3.3\n"),
            String::new(),
        );
    }
    Parsed::Run(parser.options())
}

fn usage() -> String {
    format!("{JAVA_USAGE}{OWN_USAGE}")
}

fn exit(code: u8, stdout: String, stderr: String) -> Parsed {
    Parsed::Exit {
        code,
        stdout,
        stderr,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Id {
    ConfigFile,
    Help,
    NamesrvAddr,
    Print,
    Check,
    Version,
    /// An option that is another spelling of a key.
    Key(&'static str),
    Define,
}

#[derive(Debug)]
struct Opt {
    id: Id,
    /// Java's letter; our own options have none.
    short: Option<char>,
    long: &'static str,
    takes_value: bool,
}

/// Java's first, in the order in which Java adds them.
const OPTIONS: &[Opt] = &[
    java('h', "help", Id::Help, false),
    java('n', "namesrvAddr", Id::NamesrvAddr, true),
    java('c', "configFile", Id::ConfigFile, true),
    java('p', "printConfigItem", Id::Print, false),
    own("check", Id::Check, false),
    own("version", Id::Version, false),
    own("cores", Id::Key("namesrv.cores"), true),
    own("writer-core", Id::Key("namesrv.writerCore"), true),
    own("log", Id::Key("namesrv.log"), true),
];

const fn java(short: char, long: &'static str, id: Id, takes_value: bool) -> Opt {
    Opt {
        id,
        short: Some(short),
        long,
        takes_value,
    }
}

const fn own(long: &'static str, id: Id, takes_value: bool) -> Opt {
    Opt {
        id,
        short: None,
        long,
        takes_value,
    }
}

/// The one line for standard error.
struct Error(String);

impl Error {
    fn unrecognized(token: &str) -> Self {
        Self(format!("Unrecognized option: {token}"))
    }

    fn missing_argument(name: &str) -> Self {
        Self(format!("Missing argument for option: {name}"))
    }

    fn ambiguous(token: &str, options: &[&Opt]) -> Self {
        let names: Vec<String> = options
            .iter()
            .map(|opt| format!("'{}'", opt.long))
            .collect();
        Self(format!(
            "Ambiguous option: '{token}'  (could be: {})",
            names.join(", ")
        ))
    }
}

#[derive(Default)]
struct Parser {
    /// Options in their order, each with its value.
    seen: Vec<(Id, String)>,
    /// An option that still waits for its value.
    pending: Option<&'static Opt>,
}

impl Parser {
    /// `DefaultParser.parse`, with `stopAtNonOption` off.
    fn run(&mut self, args: &[String]) -> Result<(), Error> {
        for token in args {
            if token == "--" {
                // Everything behind it is words, which are ignored.
                break;
            }
            match self.pending {
                Some(opt) if !is_option(token) => {
                    self.seen.push((opt.id, without_quotes(token).to_owned()));
                    self.pending = None;
                }
                _ if token.starts_with("--") => self.long(token)?,
                _ if token.starts_with('-') && token != "-" => self.short_or_long(token)?,
                _ => {}
            }
        }
        self.nothing_pending()
    }

    /// `--name`, `--name=value`.
    fn long(&mut self, token: &str) -> Result<(), Error> {
        let (name, value) = match token.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (token, None),
        };
        match (long_matches(name).as_slice(), value) {
            ([opt], None) => self.option(opt),
            ([opt], Some(value)) if opt.takes_value => self.option_with(opt, value),
            ([] | [_], _) => Err(Error::unrecognized(token)),
            (several, _) => Err(Error::ambiguous(name, several)),
        }
    }

    /// `-c`, `-cFILE`, `-c=FILE`, `-pc`, `-configFile`, `-configFile=FILE`, `-Dname=value`.
    fn short_or_long(&mut self, token: &str) -> Result<(), Error> {
        let text = &token[1..];
        if let Some(define) = text.strip_prefix('D') {
            return self.define(define);
        }
        if let Some((name, value)) = text.split_once('=') {
            return match only_char(name) {
                None => self.long(token),
                Some(letter) => match short(letter) {
                    Some(opt) if opt.takes_value => self.option_with(opt, value),
                    _ => Err(Error::unrecognized(token)),
                },
            };
        }
        if let Some(letter) = only_char(text) {
            return match short(letter) {
                Some(opt) => self.option(opt),
                None => Err(Error::unrecognized(token)),
            };
        }
        if !long_matches(token).is_empty() {
            return self.long(token);
        }
        match long_prefix(token) {
            Some(opt) if opt.takes_value => self.option_with(opt, &text[opt.long.len()..]),
            _ => self.letters(token),
        }
    }

    /// Letters behind one dash; the first that takes a value takes the rest.
    fn letters(&mut self, token: &str) -> Result<(), Error> {
        for (at, letter) in token.char_indices().skip(1) {
            let opt = short(letter).ok_or_else(|| Error::unrecognized(token))?;
            let rest = &token[at + letter.len_utf8()..];
            if opt.takes_value && !rest.is_empty() {
                return self.option_with(opt, rest);
            }
            self.option(opt)?;
        }
        Ok(())
    }

    fn define(&mut self, define: &str) -> Result<(), Error> {
        self.nothing_pending()?;
        match define.split_once('=') {
            Some((name, _)) if !name.is_empty() => {
                self.seen.push((Id::Define, define.to_owned()));
                Ok(())
            }
            _ => Err(Error::missing_argument("D")),
        }
    }

    /// An option whose value, if it takes one, is the next argument.
    fn option(&mut self, opt: &'static Opt) -> Result<(), Error> {
        self.nothing_pending()?;
        if opt.takes_value {
            self.pending = Some(opt);
        } else {
            self.seen.push((opt.id, String::new()));
        }
        Ok(())
    }

    fn option_with(&mut self, opt: &'static Opt, value: &str) -> Result<(), Error> {
        self.nothing_pending()?;
        self.seen.push((opt.id, value.to_owned()));
        Ok(())
    }

    fn nothing_pending(&self) -> Result<(), Error> {
        match self.pending {
            Some(Opt {
                short: Some(letter),
                ..
            }) => Err(Error::missing_argument(letter.encode_utf8(&mut [0; 4]))),
            Some(opt) => Err(Error::missing_argument(opt.long)),
            None => Ok(()),
        }
    }

    fn has(&self, id: Id) -> bool {
        self.seen.iter().any(|(seen, _)| *seen == id)
    }

    fn options(self) -> Options {
        let mut options = Options {
            print: self.has(Id::Print),
            check: self.has(Id::Check),
            ..Options::default()
        };
        for (id, value) in self.seen {
            match id {
                Id::ConfigFile => {
                    // The first one wins, as in Java.
                    options.config_file.get_or_insert(value);
                }
                Id::Key(key) => options.defines.push((key.to_owned(), value)),
                Id::Define => {
                    if let Some((name, value)) = value.split_once('=') {
                        options.defines.push((name.to_owned(), value.to_owned()));
                    }
                }
                Id::Help | Id::NamesrvAddr | Id::Print | Id::Check | Id::Version => {}
            }
        }
        options
    }
}

/// Whether a token that follows an option without value is an option rather than the value.
fn is_option(token: &str) -> bool {
    if !token.starts_with('-') || token == "-" {
        return false;
    }
    let name = token.split_once('=').map_or(token, |(name, _)| name);
    let letter = name[1..].chars().next();
    !long_matches(name).is_empty()
        || (!token.starts_with("--") && long_prefix(token).is_some())
        || letter.is_some_and(|letter| letter == 'D' || short(letter).is_some())
}

/// Options that a long name, with its dashes, can mean: the one of that name, else Java's that
/// begin with it.
fn long_matches(name: &str) -> Vec<&'static Opt> {
    let own = name.starts_with("--");
    let text = without_dashes(name);
    let known = |opt: &&Opt| own || opt.short.is_some();
    if let Some(opt) = OPTIONS.iter().filter(known).find(|opt| opt.long == text) {
        return vec![opt];
    }
    OPTIONS
        .iter()
        .filter(|opt| opt.short.is_some() && opt.long.starts_with(text))
        .collect()
}

/// Java's option whose long name begins the token, with a value of two or more characters behind
/// it.
fn long_prefix(token: &str) -> Option<&'static Opt> {
    let text = without_dashes(token);
    OPTIONS.iter().find(|opt| {
        let rest = text.strip_prefix(opt.long);
        opt.short.is_some() && rest.is_some_and(|rest| rest.chars().nth(1).is_some())
    })
}

fn short(letter: char) -> Option<&'static Opt> {
    OPTIONS.iter().find(|opt| opt.short == Some(letter))
}

fn only_char(text: &str) -> Option<char> {
    let mut chars = text.chars();
    chars.next().filter(|_| chars.next().is_none())
}

fn without_dashes(token: &str) -> &str {
    token
        .strip_prefix("--")
        .or_else(|| token.strip_prefix('-'))
        .unwrap_or(token)
}

/// One pair of quotes around a text without others is taken away.
fn without_quotes(token: &str) -> &str {
    let inner = token.strip_prefix('"').and_then(|t| t.strip_suffix('"'));
    inner.filter(|inner| !inner.contains('"')).unwrap_or(token)
}
