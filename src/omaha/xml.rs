//! A bounded XML reader: a whole document into a small tree, or an error.
//!
//! Errors say where, never what: the text may hold a pre-signed address.

use quick_xml::XmlVersion;
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::reader::Reader;
use thiserror::Error;

/// Deeper than any answer, shallow enough for the stack.
const DEPTH_LIMIT: usize = 32;
/// More elements than any answer, so that 1 MiB of text stays a few MiB of tree.
const ELEMENT_LIMIT: usize = 10_000;
/// Looking for duplicates takes time quadratic in this.
const ATTRIBUTE_LIMIT: usize = 64;

/// Why a text is not read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum XmlError {
    /// Not UTF-8.
    #[error("not UTF-8 text")]
    NotUtf8,
    /// Not well-formed.
    #[error("not well-formed XML at byte {at}")]
    Syntax {
        /// Where reading stopped.
        at: u64,
    },
    /// Ends within an element.
    #[error("the XML ends early")]
    Incomplete,
    /// Holds no element at all: the server's way to answer a request that it cannot read.
    #[error("the XML holds no element")]
    Empty,
    /// Goes on after the document's element.
    #[error("there is more after the XML document's end")]
    Trailing,
    /// Document types and entities can make a small text huge.
    #[error("the XML holds a document type or an entity of its own")]
    Entity,
    /// Too deep, too many elements or too many attributes.
    #[error("the XML is too complex: {0}")]
    TooComplex(&'static str),
    /// Another document than an Omaha response.
    #[error("the XML is no Omaha response")]
    NotAResponse,
}

/// One element with what stands in it.
#[derive(Debug, Default)]
pub(super) struct Element {
    name: String,
    attributes: Vec<(String, String)>,
    text: String,
    children: Vec<Element>,
}

impl Element {
    pub(super) fn is(&self, name: &str) -> bool {
        self.name == name
    }

    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The text directly in the element.
    pub(super) fn text(&self) -> &str {
        self.text.trim()
    }

    pub(super) fn children<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Element> {
        self.children.iter().filter(move |child| child.is(name))
    }

    pub(super) fn child<'a>(&'a self, name: &'a str) -> Option<&'a Element> {
        self.children(name).next()
    }
}

/// Reads one whole document.
pub(super) fn read(bytes: &[u8]) -> Result<Element, XmlError> {
    let text = std::str::from_utf8(bytes).map_err(|_where| XmlError::NotUtf8)?;
    let mut reader = Reader::from_str(text);
    reader.config_mut().expand_empty_elements = true;
    let mut tree = Tree::default();
    loop {
        // quick-xml's own errors quote the text.
        let event = reader.read_event();
        let at = reader.error_position().max(reader.buffer_position());
        let event = event.map_err(|_quotes| XmlError::Syntax { at })?;
        if matches!(event, Event::Eof) {
            return tree.finish();
        }
        tree.take(event, at)?;
    }
}

/// The document so far.
#[derive(Debug, Default)]
struct Tree {
    open: Vec<Element>,
    root: Option<Element>,
    elements: usize,
}

impl Tree {
    fn take(&mut self, event: Event<'_>, at: u64) -> Result<(), XmlError> {
        match event {
            Event::Start(start) | Event::Empty(start) => self.open(&start, at),
            Event::End(_) => self.close(at),
            Event::Text(text) => self.text(&text.xml10_content()),
            Event::CData(text) => self.text(&text.xml10_content()),
            Event::GeneralRef(reference) => {
                let c = resolve(&reference)?;
                self.text(c.encode_utf8(&mut [0; 4]))
            }
            Event::DocType(_) => Err(XmlError::Entity),
            Event::Decl(_) | Event::PI(_) | Event::Comment(_) | Event::Eof => Ok(()),
        }
    }

    fn open(&mut self, start: &BytesStart<'_>, at: u64) -> Result<(), XmlError> {
        if self.root.is_some() {
            return Err(XmlError::Trailing);
        }
        self.elements += 1;
        if self.elements > ELEMENT_LIMIT {
            return Err(XmlError::TooComplex("elements"));
        }
        if self.open.len() >= DEPTH_LIMIT {
            return Err(XmlError::TooComplex("depth"));
        }
        let name = start.name().as_ref().to_owned();
        let attributes = attributes(start, at)?;
        self.open.push(Element { name, attributes, ..Element::default() });
        Ok(())
    }

    fn close(&mut self, at: u64) -> Result<(), XmlError> {
        let element = self.open.pop().ok_or(XmlError::Syntax { at })?;
        match self.open.last_mut() {
            Some(parent) => parent.children.push(element),
            None => self.root = Some(element),
        }
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<(), XmlError> {
        match self.open.last_mut() {
            Some(element) => element.text.push_str(text),
            None if text.trim_start_matches('\u{feff}').trim().is_empty() => {}
            None if self.root.is_some() => return Err(XmlError::Trailing),
            None => return Err(XmlError::NotAResponse),
        }
        Ok(())
    }

    fn finish(self) -> Result<Element, XmlError> {
        match (self.open.is_empty(), self.root) {
            (false, _) => Err(XmlError::Incomplete),
            (true, None) => Err(XmlError::Empty),
            (true, Some(root)) => Ok(root),
        }
    }
}

fn attributes(start: &BytesStart<'_>, at: u64) -> Result<Vec<(String, String)>, XmlError> {
    let mut read = Vec::new();
    for attribute in start.attributes() {
        if read.len() == ATTRIBUTE_LIMIT {
            return Err(XmlError::TooComplex("attributes"));
        }
        let attribute = attribute.map_err(|_where| XmlError::Syntax { at })?;
        let value = attribute
            .normalized_value(XmlVersion::Explicit1_0)
            .map_err(|_quotes| XmlError::Syntax { at })?;
        read.push((attribute.key.as_ref().to_owned(), value.into_owned()));
    }
    Ok(read)
}

/// A character reference, or one of XML's five entities.
fn resolve(reference: &BytesRef<'_>) -> Result<char, XmlError> {
    if let Some(c) = reference.resolve_char_ref().map_err(|_quotes| XmlError::Entity)? {
        return Ok(c);
    }
    match reference.xml10_content().as_ref() {
        "lt" => Ok('<'),
        "gt" => Ok('>'),
        "amp" => Ok('&'),
        "apos" => Ok('\''),
        "quot" => Ok('"'),
        _ => Err(XmlError::Entity),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_document_is_read_with_its_texts() {
        let text = "\u{feff}<?xml version=\"1.0\"?><!-- c --><a b=\"1&lt;&#50;\"> x&amp;<![CDATA[<y>]]><c/><c d='e'/></a>\n";
        let root = read(text.as_bytes()).expect("well-formed");
        assert!(root.is("a"));
        assert_eq!(root.attribute("b"), Some("1<2"));
        assert_eq!(root.text(), "x&<y>");
        assert_eq!(root.children("c").count(), 2);
        assert_eq!(root.children("c").nth(1).and_then(|c| c.attribute("d")), Some("e"));
    }

    #[test]
    fn anything_but_one_whole_document_is_refused() {
        let deep = "<a>".repeat(DEPTH_LIMIT + 1);
        let many = format!("<a>{}</a>", "<b/>".repeat(ELEMENT_LIMIT));
        let wide: String = (0..=ATTRIBUTE_LIMIT).map(|n| format!(" a{n}=''")).collect();
        for (text, error) in [
            ("", XmlError::Empty),
            ("<?xml version=\"1.0\"?>\n", XmlError::Empty),
            ("<a><b></b>", XmlError::Incomplete),
            ("<a/><b/>", XmlError::Trailing),
            ("<a/>text", XmlError::Trailing),
            ("text", XmlError::NotAResponse),
            ("<!DOCTYPE a [<!ENTITY e 'x'>]><a>&e;</a>", XmlError::Entity),
            ("<!DOCTYPE html><html></html>", XmlError::Entity),
            ("<a>&e;</a>", XmlError::Entity),
            (deep.as_str(), XmlError::TooComplex("depth")),
            (many.as_str(), XmlError::TooComplex("elements")),
            (format!("<a{wide}/>").as_str(), XmlError::TooComplex("attributes")),
        ] {
            assert_eq!(
                read(text.as_bytes()).err(),
                Some(error),
                "{}",
                text.get(..20).unwrap_or(text)
            );
        }
        for text in ["<a></b>", "<a", "<a b='&e;'/>", "<a b='1' b='2'/>", "</a>", "<a b=c/>"] {
            let error = read(text.as_bytes()).err();
            assert!(matches!(error, Some(XmlError::Syntax { .. })), "{text}: {error:?}");
        }
        assert_eq!(read(b"<a>\xff</a>").err(), Some(XmlError::NotUtf8));
    }

    #[test]
    fn an_error_quotes_nothing() {
        for text in ["<a b='https://h/?x=1&sig=SECRET;'/>", "<a>&SECRET;</a>", "<a></SECRET>"] {
            let error = read(text.as_bytes()).expect_err(text);
            assert!(!format!("{error} {error:?}").contains("SECRET"), "{error:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            let _ = read(&bytes);
        }

        #[test]
        fn no_text_made_of_markup_makes_it_panic(text in "[<>/?!&;#xa\"'= \\[\\]CDAT-]{0,80}") {
            let _ = read(text.as_bytes());
        }
    }
}
