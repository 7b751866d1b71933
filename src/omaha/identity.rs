//! Who asks, and for which app.

use std::fmt;

use sha2::{Digest, Sha384};
use thiserror::Error;
use url::Url;
use uuid::Uuid;

use crate::contract::origin;

/// Why an identity or an address is not usable.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IdentityError {
    /// An image that was never booted, or a bind mount that hides the file.
    #[error("the machine id is not set: {0}")]
    MachineIdUnset(&'static str),
    /// Not the 32 hexadecimal digits of machine-id(5).
    #[error("the machine id is not 32 hexadecimal digits")]
    MachineIdMalformed,
    /// The update server's address is no URL.
    #[error("the update server's address is no URL")]
    ServerMalformed(#[source] url::ParseError),
    /// The update server's address is not https, or names no host.
    #[error("the update server {0} is not an https address with a host")]
    ServerNotHttps(String),
    /// The server drops a completion that does not say what it completes.
    #[error("the previous version is empty")]
    PreviousVersionEmpty,
}

/// This machine, as the server knows it: a UUID derived from the machine id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineId(String);

impl MachineId {
    /// Derives from the 16 bytes of the machine id: the first 16 bytes of their SHA-384.
    pub fn derive(machine_id: &[u8; 16]) -> MachineId {
        let mut first = [0; 16];
        first.iter_mut().zip(Sha384::digest(machine_id)).for_each(|(to, from)| *to = from);
        MachineId(Uuid::from_bytes(first).hyphenated().to_string())
    }

    /// Derives from the text of `/etc/machine-id`.
    pub fn from_file_text(text: &str) -> Result<MachineId, IdentityError> {
        let text = text.trim();
        match text {
            "" => return Err(IdentityError::MachineIdUnset("empty")),
            "uninitialized" => return Err(IdentityError::MachineIdUnset("uninitialized")),
            _ => {}
        }
        if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(IdentityError::MachineIdMalformed);
        }
        let number =
            u128::from_str_radix(text, 16).map_err(|_not_hex| IdentityError::MachineIdMalformed)?;
        match number {
            0 => Err(IdentityError::MachineIdUnset("all zero")),
            _ => Ok(MachineId::derive(&number.to_be_bytes())),
        }
    }

    /// The UUID, lower-case, without braces.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The architectures that the server tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arch {
    /// x86-64.
    Amd64,
    /// 64-bit Arm.
    Aarch64,
}

impl Arch {
    /// What this program was built for; what the server does not know counts as amd64 there too.
    pub fn of_this_build() -> Arch {
        if cfg!(target_arch = "aarch64") { Arch::Aarch64 } else { Arch::Amd64 }
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Arch::Amd64 => "amd64",
            Arch::Aarch64 => "aarch64",
        }
    }
}

/// An update server: https, with a host. Prints as scheme, host and port only.
#[derive(Clone, PartialEq, Eq)]
pub struct Server(Url);

impl Server {
    /// Parses and checks an address.
    pub fn parse(text: &str) -> Result<Server, IdentityError> {
        Url::parse(text).map_err(IdentityError::ServerMalformed)?.try_into()
    }

    pub(super) fn url(&self) -> &Url {
        &self.0
    }
}

impl TryFrom<Url> for Server {
    type Error = IdentityError;

    fn try_from(url: Url) -> Result<Server, IdentityError> {
        if url.scheme() == "https" && url.has_host() {
            Ok(Server(url))
        } else {
            Err(IdentityError::ServerNotHttps(origin(&url)))
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&origin(&self.0))
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({self})")
    }
}

/// The app to ask about, where, and on which track.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct App {
    /// The update server.
    pub server: Server,
    /// The application's id at that server.
    pub app_id: String,
    /// The track (group) that the node is in.
    pub track: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_id_is_the_head_of_a_sha384() {
        let id = MachineId::from_file_text("0123456789abcdef0123456789ABCDEF\n").expect("an id");
        let digest = Sha384::digest(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef_u128.to_be_bytes());
        let hex: String = digest[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(id.as_str().replace('-', ""), hex);
        assert_eq!(id.as_str().len(), 36);
    }

    #[test]
    fn an_unset_or_broken_machine_id_is_no_identity() {
        for text in [
            "",
            "\n",
            "uninitialized\n",
            "00000000000000000000000000000000",
            "0123456789abcdef0123456789abcde",
            "0123456789abcdef0123456789abcdef0",
            "+123456789abcdef0123456789abcdef",
            "0123456789abcdefg123456789abcdef",
            "é",
        ] {
            assert!(MachineId::from_file_text(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_server_is_https_and_prints_its_origin_only() {
        let server = Server::parse("https://me:secret@h:8443/secret?secret#secret").expect("https");
        assert_eq!(format!("{server} {server:?}"), "https://h:8443 Server(https://h:8443)");
        for text in ["http://h/secret", "oci://h", "secret", "https://", "file:///secret"] {
            let error = Server::parse(text).expect_err(text);
            assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
        }
    }
}
