//! What the kernel's command line says to the loader.

use std::path::PathBuf;

use super::word::{Slot, Strategy, Word};

/// The arguments that are ours, the last of each.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommandLine {
    pub slot: Option<Slot>,
    pub store: Option<PathBuf>,
    pub confext: Option<Strategy>,
    /// Hash each image.
    pub verify: bool,
    /// The first boot of an update.
    pub update_boot: bool,
}

impl CommandLine {
    /// # Errors
    /// An argument of ours that cannot be obeyed: guessing would publish the wrong set.
    pub fn parse(text: &str) -> Result<Self, Word> {
        let mut found = Self::default();
        for word in words(text) {
            let Some((name, value)) = word.split_once('=') else { continue };
            match name {
                "trident.slot" => found.slot = Some(value.parse()?),
                "trident.extension_store" => found.store = Some(PathBuf::from(value)),
                "trident.confext" => found.confext = Some(value.parse()?),
                "trident.slot_verify" => found.verify = value == "full",
                "trident.update_boot" => found.update_boot = value == "1",
                _ => {}
            }
        }
        Ok(found)
    }
}

/// Split at white space outside of double quotes, which are taken away, as the kernel does.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for sign in text.chars() {
        match sign {
            '"' => quoted = !quoted,
            _ if sign.is_whitespace() && !quoted => words.push(String::new()),
            _ => words.last_mut().into_iter().for_each(|word| word.push(sign)),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_each_counts() {
        let store = |path: &str| Some(PathBuf::from(path));
        let empty = CommandLine::default;
        let cases = [
            ("", empty()),
            ("root=/dev/vda quiet trident.slot", empty()),
            ("trident.slot=a", CommandLine { slot: Some(Slot::A), ..empty() }),
            ("trident.slot=a trident.slot=b\n", CommandLine { slot: Some(Slot::B), ..empty() }),
            ("xtrident.slot=a", empty()),
            (
                "trident.extension_store=\"/srv/two words\"",
                CommandLine { store: store("/srv/two words"), ..empty() },
            ),
            (
                "\"trident.confext=native\"",
                CommandLine { confext: Some(Strategy::Native), ..empty() },
            ),
            ("trident.slot_verify=full", CommandLine { verify: true, ..empty() }),
            ("trident.slot_verify=no", empty()),
            ("trident.update_boot=1", CommandLine { update_boot: true, ..empty() }),
            ("trident.update_boot=0", empty()),
        ];
        for (text, expected) in cases {
            assert_eq!(CommandLine::parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_obeyed_is_refused() {
        for text in ["trident.slot=c", "trident.slot=", "trident.slot=A", "trident.confext=both"] {
            assert!(CommandLine::parse(text).is_err(), "{text}");
        }
    }
}
