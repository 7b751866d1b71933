//! Cases near something valid: plain noise seldom gets past a parser's first byte.

use bolero::TypeGenerator;

/// Enough to meet each mutation of each seed, few enough for every run of the tests.
const CASES: usize = 4000;

/// One change to a seed.
#[derive(Debug, TypeGenerator)]
enum Change {
    Flip {
        at: u16,
        bit: u8,
    },
    Put {
        at: u16,
        byte: u8,
    },
    Insert {
        at: u16,
        bytes: Vec<u8>,
    },
    Cut {
        at: u16,
        length: u8,
    },
    Repeat {
        at: u16,
        length: u8,
        times: u8,
    },
    End {
        at: u16,
    },
    /// A part of a seed, or all of it where it is short: the tokens of a grammar are seeds too.
    Splice {
        at: u16,
        seed: u8,
        from: u8,
        length: u8,
    },
}

#[derive(Debug, TypeGenerator)]
struct Case {
    seed: u8,
    changes: Vec<Change>,
}

/// Runs `check` on each seed as it is, on mutations of them, and on noise.
pub(crate) fn each(seeds: &[&str], check: impl Fn(&[u8]) + std::panic::RefUnwindSafe) {
    for seed in seeds {
        check(seed.as_bytes());
    }
    bolero::check!().with_iterations(CASES).with_type::<Case>().for_each(|case| {
        let seed = seeds.get(usize::from(case.seed) % (seeds.len() + 1)).copied().unwrap_or("");
        let mut bytes = seed.as_bytes().to_vec();
        for change in &case.changes {
            change.apply(&mut bytes, seeds);
        }
        check(&bytes);
    });
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>, seeds: &[&str]) {
        let within = |at: u16| usize::from(at) % (bytes.len() + 1);
        match self {
            Self::Flip { at, bit } => {
                let at = within(*at);
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << (bit % 8);
                }
            }
            Self::Put { at, byte } => {
                let at = within(*at);
                if let Some(place) = bytes.get_mut(at) {
                    *place = *byte;
                }
            }
            Self::Insert { at, bytes: new } => {
                let at = within(*at);
                bytes.splice(at..at, new.iter().copied());
            }
            Self::Cut { at, length } => {
                let at = within(*at);
                let end = bytes.len().min(at + usize::from(*length));
                bytes.drain(at..end);
            }
            Self::Repeat { at, length, times } => {
                let at = within(*at);
                let end = bytes.len().min(at + usize::from(*length));
                let part = bytes[at..end].repeat(usize::from(*times));
                bytes.splice(at..at, part);
            }
            Self::End { at } => bytes.truncate(within(*at)),
            Self::Splice { at, seed, from, length } => {
                let (at, seed) = (within(*at), seeds[usize::from(*seed) % seeds.len()].as_bytes());
                let part = seed.get(usize::from(*from)..).unwrap_or(seed);
                let part = part.iter().take(usize::from(*length).max(16));
                bytes.splice(at..at, part.copied());
            }
        }
    }
}
