//! Every difference over odd bytes that is meant, one name each.
//!
//! No peer sends any of this. Where Java's own two JSON readers disagree, where it accepts
//! damage by accident, or where it judges what it never uses, its answer is not worth a rule in
//! the server. What is about good requests is a rule of `oracle/rules.rs` instead.

/// What a case and its answers are like.
pub(crate) struct Evidence<'a> {
    /// The difference in words.
    pub(crate) text: &'a str,
    /// What was sent that the servers are known to differ in.
    pub(crate) notes: &'a [&'static str],
    pub(crate) version: i32,
    /// A byte was changed.
    pub(crate) damaged: bool,
    /// One server refused the request or ended the connection, the other did not.
    pub(crate) one_refused: bool,
    /// Java never answered.
    pub(crate) java_silent: bool,
}

// The differences that are seen from what was sent.

/// fastjson's fast reader lets the last of two equal keys win, its slow one the first, and
/// whether it is the one or the other depends on blanks and quotes. Here the last wins.
pub(crate) const KEY_TWICE: &str = "a key twice";
/// Comments and control characters between tokens: fastjson takes them at most places, but not
/// before a colon, nor inside of what it skips. Here they may stand everywhere.
pub(crate) const ODD_BLANKS: &str = "comments and control characters as blanks";
/// 0x1A means the end of the input to fastjson, at some places. Here it is a control character.
pub(crate) const END_MARK: &str = "the character that ends fastjson's input";
/// A no-break space is taken by fastjson after some values, and never here.
pub(crate) const NO_BREAK_SPACE: &str = "a no-break space";
/// Commas in front or in a row: some of fastjson's readers take them, and all of ours.
pub(crate) const COMMAS: &str = "more commas than it takes";
/// Words that are no JSON; fastjson minds where they stand.
pub(crate) const WORDS: &str = "undefined or NaN";
/// `2D` as a text is `2.0` in Java, and here as written without the letter.
pub(crate) const LETTER: &str = "a number with a letter";
/// A number, or another value, where a key belongs: taken here, refused by Java in places.
pub(crate) const NO_NAME: &str = "a key that is no name";
/// Java refuses a request for what it will not use; here nobody reads it.
pub(crate) const UNREAD: &str = "a field that nobody reads";
/// Java reads a map beyond its end; here the lengths of a binary header must add up.
pub(crate) const LENGTHS: &str = "lengths that do not add up in a binary header";
/// `Integer.parseInt` takes digits of all scripts; here they are not numbers.
pub(crate) const DIGITS: &str = "digits of another script";
/// See the rule `Unregister`.
pub(crate) const NO_ID: &str = "a 104 without an id";
/// See the rule `Mappings`: what is absent is added even under an equal version.
pub(crate) const OTHER_MAPPING: &str = "another mapping under the same version";
/// Java stores and prints a counter that is null; here it is 0.
pub(crate) const NULL_COUNTER: &str = "a null in a DataVersion";

/// The name of the rule that a difference falls under.
pub(crate) fn excuse(case: &Evidence<'_>) -> Option<&'static str> {
    by_remark(case)
        .or_else(|| by_tables(case))
        .or_else(|| by_damage(case))
        .or_else(|| case.notes.first().copied())
}

/// What we refuse, by the reason that we give.
fn by_remark(case: &Evidence<'_>) -> Option<&'static str> {
    let remarks = [
        // Java: code 0, and the registration ends half way
        (
            "topicConfigSerializeWrapper is null",
            "a wrapper that is null",
        ),
        ("topicName is null", "a handler that fails half way"),
        // Java files it under the key null
        ("mapping has no bname", "a mapping without a bname"),
        // Java allocates what is claimed and never answers, or reads on after a negative count
        (
            "bad length or count",
            "a length that claims too much, or too little",
        ),
        // Java prints objects, arrays and booleans where it wants a text
        (
            "number or string expected",
            "a text that is neither text nor number",
        ),
        // Java takes it for null
        ("dataVersion expected", "a DataVersion that is none"),
        // Java takes one value for a list of one
        (
            "filterServerList expected",
            "filter servers that are no list",
        ),
    ];
    let found = remarks
        .iter()
        .find(|(remark, _)| case.text.contains(remark));
    // Java: code 0, and nothing is stored
    let nothing = !case.text.contains("\n  206\n");
    let no_name = nothing && case.text.contains("the body is not a TopicRouteData");
    // Java: code 0 and an empty group
    let bytes = case.version < 37 && case.text.contains("not UTF-8");
    if let Some((_, name)) = found {
        return Some(name);
    }
    if no_name {
        return Some("a handler that fails half way");
    }
    bytes.then_some("a bare wrapper that is not UTF-8")
}

/// What Java prints and we do not: nulls among filter servers, mappings that it did not forget.
fn by_tables(case: &Evidence<'_>) -> Option<&'static str> {
    let null = ["[null", ",null"]
        .iter()
        .any(|null| case.text.contains(null));
    if null && case.text.contains("filterServerTable") {
        return Some("a null filter server");
    }
    // a changed name that was another case's: Java never forgets a mapping
    let mapping = case.damaged && case.text.contains("topicQueueMappingByBroker");
    mapping.then_some("a mapping of another case")
}

/// Where one reader stumbles over a changed byte, and the other does not.
fn by_damage(case: &Evidence<'_>) -> Option<&'static str> {
    if !case.damaged {
        return None;
    }
    if case.java_silent {
        return Some("a damaged text that Java never answers");
    }
    case.one_refused.then_some("a damaged text")
}
