//! Which paths a source text names: a scan of its tokens that knows comments, literals, `use` trees,
//! modules and test code, and nothing else of the language.

/// One path, as far as it is written out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    /// From `crate`, `super` and `self` resolved: then it begins with `crate`. `*` for a glob.
    pub(super) path: Vec<String>,
    /// In a `use` declaration, which may rename it.
    pub(super) imported: bool,
    pub(super) line: usize,
}

impl Named {
    pub(super) fn text(&self) -> String {
        self.path.join("::")
    }
}

/// What is to be known of one file, its test code left out.
#[derive(Debug)]
pub(super) struct Scan {
    pub(super) named: Vec<Named>,
    /// Every word that is no part of a literal or a comment.
    pub(super) words: Vec<(String, usize)>,
    pub(super) lines: usize,
}

/// `module`: where the file stands, from the crate's root.
pub(super) fn scan(text: &str, module: &[&str]) -> Scan {
    let all = tokens(text);
    let (kept, test_lines) = without_tests(&all);
    let mut reader = Reader {
        tokens: &kept,
        at: 0,
        module: owned(module),
        depths: Vec::new(),
        found: Vec::new(),
    };
    reader.read();
    let named = reader.found;
    let words = kept.iter().filter(|token| token.is_word()).map(|it| (it.text.clone(), it.line));
    Scan { named, words: words.collect(), lines: text.lines().count() - test_lines }
}

/// The functions of a file, its test code left out: name, and the words of the body, in order.
pub(super) fn functions(text: &str) -> Vec<(String, Vec<String>)> {
    let (tokens, _) = without_tests(&tokens(text));
    let named = tokens.windows(2).enumerate().filter(|(_, pair)| pair[0].text == "fn");
    let body = |at: usize| {
        // A function without a body ends before one begins.
        let open = tokens[at..].iter().position(|it| matches!(it.text.as_str(), "{" | ";"))?;
        let end = item_end(&tokens, at + open);
        let words = tokens[at + open..end].iter().filter(|token| token.is_word());
        Some((tokens[at + 1].text.clone(), words.map(|token| token.text.clone()).collect()))
    };
    named.filter_map(|(at, _)| body(at)).collect()
}

#[derive(Debug, Clone)]
struct Token {
    text: String,
    line: usize,
}

impl Token {
    fn is_word(&self) -> bool {
        self.text.starts_with(|c: char| c.is_alphanumeric() || c == '_')
    }
}

fn tokens(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let (mut at, mut line, mut found) = (0, 1, Vec::new());
    while at < chars.len() {
        let end = token_end(&chars, at);
        let token: String = chars[at..end].iter().collect();
        if !is_skipped(&token) {
            let text = token.strip_prefix("r#").unwrap_or(&token).to_owned();
            found.push(Token { text, line });
        }
        line += token.matches('\n').count();
        at = end;
    }
    found
}

fn is_skipped(token: &str) -> bool {
    let literal = ["\"", "b\"", "c\"", "r\"", "br\"", "r#\"", "br#\"", "r##", "br##", "'", "b'"];
    token.trim().is_empty()
        || token.starts_with("//")
        || token.starts_with("/*")
        || literal.iter().any(|start| token.starts_with(start))
}

fn token_end(chars: &[char], at: usize) -> usize {
    let next = |n: usize| chars.get(at + n).copied().unwrap_or('\0');
    match (next(0), next(1)) {
        ('/', '/') => find(chars, at, |c| c == '\n'),
        ('/', '*') => block_comment_end(chars, at),
        (':', ':') => at + 2,
        ('"', _) => string_end(chars, at, '"'),
        ('b' | 'c', '"') => string_end(chars, at + 1, '"'),
        ('b', '\'') => string_end(chars, at + 1, '\''),
        ('r', '"' | '#') => raw_end(chars, at, at + 1),
        ('b' | 'c', 'r') if matches!(next(2), '"' | '#') => raw_end(chars, at, at + 2),
        ('\'', '\\') => string_end(chars, at, '\''),
        ('\'', _) if next(2) == '\'' => at + 3,
        ('\'', _) => word_end(chars, at + 1),
        (c, _) if is_word_char(c) => word_end(chars, at),
        _ => at + 1,
    }
}

fn find(chars: &[char], from: usize, stop: impl Fn(char) -> bool) -> usize {
    chars[from..].iter().position(|c| stop(*c)).map_or(chars.len(), |at| from + at)
}

fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn word_end(chars: &[char], from: usize) -> usize {
    find(chars, from, |c| !is_word_char(c)).max(from + 1).min(chars.len())
}

fn string_end(chars: &[char], open: usize, quote: char) -> usize {
    let mut at = open + 1;
    while at < chars.len() && chars[at] != quote {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(chars.len())
}

/// Of a raw string, or of a raw identifier.
fn raw_end(chars: &[char], start: usize, hashes: usize) -> usize {
    let quote = find(chars, hashes, |c| c != '#');
    if chars.get(quote) != Some(&'"') {
        return word_end(chars, quote.max(start + 1));
    }
    let close: Vec<char> = std::iter::once('"').chain((hashes..quote).map(|_| '#')).collect();
    let body = quote + 1;
    let found = chars[body..].windows(close.len()).position(|window| window == close);
    found.map_or(chars.len(), |at| body + at + close.len())
}

fn block_comment_end(chars: &[char], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0);
    while at + 1 < chars.len() {
        match (chars[at], chars[at + 1]) {
            ('/', '*') => (at, depth) = (at + 2, depth + 1),
            ('*', '/') => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    chars.len()
}

/// The tokens without items under `#[cfg(test)]`, and how many lines those took.
fn without_tests(tokens: &[Token]) -> (Vec<Token>, usize) {
    let (mut kept, mut lines, mut at) = (Vec::new(), 0, 0);
    let mark = ["#", "[", "cfg", "(", "test", ")", "]"];
    while at < tokens.len() {
        let marked = tokens[at..].iter().take(mark.len()).map(|it| it.text.as_str()).eq(mark);
        if marked {
            let end = item_end(tokens, at + mark.len());
            lines += tokens[end - 1].line - tokens[at].line + 1;
            at = end;
        } else {
            kept.push(tokens[at].clone());
            at += 1;
        }
    }
    (kept, lines)
}

/// Behind the `;` or the last `}` of the item that begins here.
fn item_end(tokens: &[Token], from: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(from) {
        match token.text.as_str() {
            "{" => depth += 1,
            "}" if depth <= 1 => return at + 1,
            "}" => depth -= 1,
            ";" if depth == 0 => return at + 1,
            _ => {}
        }
    }
    tokens.len()
}

struct Reader<'a> {
    tokens: &'a [Token],
    at: usize,
    module: Vec<String>,
    /// For each open brace, whether it opened a module.
    depths: Vec<bool>,
    found: Vec<Named>,
}

impl Reader<'_> {
    fn read(&mut self) {
        while self.at < self.tokens.len() {
            match self.word(0) {
                "use" if self.word(1) != "<" => self.use_declaration(),
                "mod" if self.word(2) == "{" => self.open_module(),
                "{" => self.brace(false),
                "}" => self.close(),
                _ if self.begins_path() => self.path(),
                _ => self.at += 1,
            }
        }
    }

    fn word(&self, ahead: usize) -> &str {
        self.tokens.get(self.at + ahead).map_or("", |token| token.text.as_str())
    }

    fn brace(&mut self, module: bool) {
        self.depths.push(module);
        self.at += 1;
    }

    fn open_module(&mut self) {
        self.module.push(self.word(1).to_owned());
        self.at += 2;
        self.brace(true);
    }

    fn close(&mut self) {
        if self.depths.pop() == Some(true) {
            self.module.pop();
        }
        self.at += 1;
    }

    fn begins_path(&self) -> bool {
        self.tokens[self.at].is_word() && self.word(1) == "::"
    }

    fn path(&mut self) {
        let line = self.tokens[self.at].line;
        let mut path = vec![self.word(0).to_owned()];
        while self.word(1) == "::" && self.tokens.get(self.at + 2).is_some_and(Token::is_word) {
            self.at += 2;
            path.push(self.word(0).to_owned());
        }
        self.at += 1;
        self.note(path, false, line);
    }

    fn use_declaration(&mut self) {
        self.at += 1;
        self.use_tree(&[]);
    }

    fn use_tree(&mut self, prefix: &[String]) {
        let line = self.tokens.get(self.at).map_or(0, |token| token.line);
        let mut path = prefix.to_vec();
        while self.at < self.tokens.len() {
            match self.word(0) {
                "::" => self.at += 1,
                "{" => return self.use_group(&path),
                "as" => self.at += 2,
                "," | "}" | ";" => break,
                // `{self}` names what stands before it.
                "self" if !path.is_empty() => self.at += 1,
                segment => {
                    path.push(segment.to_owned());
                    self.at += 1;
                }
            }
        }
        self.note(path, true, line);
    }

    fn use_group(&mut self, prefix: &[String]) {
        self.at += 1;
        while !matches!(self.word(0), "}" | "") {
            if self.word(0) == "," {
                self.at += 1;
            } else {
                self.use_tree(prefix);
            }
        }
        self.at += 1;
    }

    fn note(&mut self, path: Vec<String>, imported: bool, line: usize) {
        let path = self.resolve(path);
        self.found.push(Named { path, imported, line });
    }

    fn resolve(&self, path: Vec<String>) -> Vec<String> {
        let mut base = self.module.clone();
        let mut rest = path.as_slice();
        match rest.first().map(String::as_str) {
            Some("crate" | OWN_NAME) => base.clear(),
            Some("self" | "super") => {}
            _ => return path,
        }
        while let Some((first, others)) = rest.split_first() {
            match first.as_str() {
                "super" => drop(base.pop()),
                "self" | "crate" | OWN_NAME => {}
                _ => break,
            }
            rest = others;
        }
        std::iter::once("crate".to_owned()).chain(base).chain(rest.iter().cloned()).collect()
    }
}

/// The library as the programs call it.
const OWN_NAME: &str = "trident_acl_agent";

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
