//! A little SVG: lines, texts, and nothing that could need a browser's scripts.

use std::fmt::Write;

/// A picture under construction.
#[derive(Debug)]
pub struct Svg {
    body: String,
    width: f64,
    height: f64,
}

/// How a text stands to its point.
#[derive(Clone, Copy, Debug)]
pub enum Anchor {
    /// It begins there.
    Start,
    /// It is centred there.
    Middle,
    /// It ends there.
    End,
}

impl Svg {
    /// An empty picture of this size in pixels.
    #[must_use]
    pub fn new(width: f64, height: f64) -> Self {
        Self {
            body: String::new(),
            width,
            height,
        }
    }

    /// A straight line.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str) {
        self.put(&format!(
            r#"<line x1="{:.1}" y1="{:.1}" x2="{:.1}" y2="{:.1}" stroke="{colour}"/>"#,
            from.0, from.1, to.0, to.1
        ));
    }

    /// A filled rectangle.
    pub fn rectangle(&mut self, corner: (f64, f64), size: (f64, f64), colour: &str) {
        self.put(&format!(
            r#"<rect x="{:.1}" y="{:.1}" width="{:.1}" height="{:.1}" fill="{colour}"/>"#,
            corner.0,
            corner.1,
            size.0.max(0.0),
            size.1.max(0.0)
        ));
    }

    /// A line through points; `dashes` as in `stroke-dasharray`, empty for none.
    pub fn curve(&mut self, points: &[(f64, f64)], colour: &str, dashes: &str) {
        let mut path = String::new();
        for (x, y) in points {
            // Writing into a string cannot fail.
            let _ = write!(path, "{x:.1},{y:.1} ");
        }
        let style = format!(r#"stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}""#);
        self.put(&format!(
            r#"<polyline points="{}" fill="none" {style}/>"#,
            path.trim_end()
        ));
    }

    /// A text.
    pub fn text(&mut self, at: (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.put(&format!(
            r##"<text x="{:.1}" y="{:.1}" text-anchor="{anchor}" fill="#333333">{}</text>"##,
            at.0,
            at.1,
            escape(text)
        ));
    }

    /// The whole file.
    #[must_use]
    pub fn finish(self) -> String {
        format!(
            concat!(
                r#"<svg xmlns="http://www.w3.org/2000/svg" width="{0:.0}" height="{1:.0}" "#,
                r#"viewBox="0 0 {0:.0} {1:.0}" font-family="sans-serif" font-size="12">"#,
                "\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{2}</svg>\n"
            ),
            self.width, self.height, self.body
        )
    }

    fn put(&mut self, element: &str) {
        self.body.push_str(element);
        self.body.push('\n');
    }
}

fn escape(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // XML has no way to write the others.
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// Checks that a text is one well-formed XML element: tags nest, attributes are quoted, entities
/// are known. A few dozen lines, so that no test depends on a parser for what no user parses.
#[cfg(test)]
pub(crate) fn check_xml(text: &str) -> Result<(), String> {
    let mut open: Vec<String> = Vec::new();
    let mut rest = text.trim();
    let mut roots = 0;
    while let Some(at) = rest.find('<') {
        check_text(&rest[..at], open.is_empty())?;
        let end = rest[at..].find('>').ok_or("an open tag")? + at;
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop().as_deref() != Some(name) {
                return Err(format!("</{name}> closes nothing"));
            }
            continue;
        }
        let is_empty = tag.ends_with('/');
        let tag = tag.trim_end_matches('/');
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        if name.is_empty() || !name.chars().all(char::is_alphanumeric) {
            return Err(format!("a tag named {name:?}"));
        }
        check_attributes(attributes)?;
        roots += usize::from(open.is_empty());
        if !is_empty {
            open.push(name.to_owned());
        }
    }
    check_text(rest, true)?;
    match (open.pop(), roots) {
        (None, 1) => Ok(()),
        (left, roots) => Err(format!("{left:?} is open, {roots} roots")),
    }
}

#[cfg(test)]
fn check_text(text: &str, outside: bool) -> Result<(), String> {
    if outside && !text.trim().is_empty() {
        return Err(format!("text outside: {text:?}"));
    }
    for piece in text.split('&').skip(1) {
        let known = ["amp;", "lt;", "gt;", "quot;"];
        if !known.iter().any(|entity| piece.starts_with(entity)) {
            return Err(format!("entity &{piece}"));
        }
    }
    Ok(())
}

#[cfg(test)]
fn check_attributes(mut rest: &str) -> Result<(), String> {
    let mut seen = Vec::new();
    while !rest.trim().is_empty() {
        let (name, value) = rest
            .split_once("=\"")
            .ok_or_else(|| format!("attribute {rest:?}"))?;
        let (value, after) = value
            .split_once('"')
            .ok_or_else(|| format!("value {value:?}"))?;
        check_text(value, false)?;
        if seen.contains(&name.trim()) {
            return Err(format!("{name} twice"));
        }
        seen.push(name.trim());
        rest = after;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checker_finds_damage() {
        assert_eq!(check_xml("<a b=\"c\"><d/>x &amp; y</a>"), Ok(()));
        for wrong in [
            "<a>",
            "<a></b>",
            "<a/><b/>",
            "<a b=c/>",
            "<a>&x;</a>",
            "x<a/>",
            "<a b=\"1\" b=\"2\"/>",
        ] {
            assert!(check_xml(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_element_is_well_formed_whatever_the_text() {
        let mut svg = Svg::new(100.0, 50.0);
        svg.line((0.0, 0.0), (1.0, 1.0), "#000000");
        svg.rectangle((0.0, 0.0), (1.0, -1.0), "#eeeeee");
        svg.curve(&[(0.0, 0.0), (5.0, 5.0)], "#112233", "4 2");
        svg.text((1.0, 1.0), Anchor::End, "<&\"> \u{1} plain");
        assert_eq!(check_xml(&svg.finish()), Ok(()));
    }
}
