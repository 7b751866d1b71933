//! What tests on a booted node share.

use std::path::PathBuf;

pub(crate) use trident_lab::lab::Setup;
use trident_lab::node::Release;

/// A lab with the program under test: the one named by `LAB_AGENT`, else this build's.
pub(crate) fn setup(release: Release) -> Setup {
    let built = || PathBuf::from(env!("CARGO_BIN_EXE_trident-acl-agent"));
    Setup::new(release, std::env::var_os("LAB_AGENT").map_or_else(built, PathBuf::from))
}

/// Makes each function a test on systemd 252 and on 257.
macro_rules! on_each_release {
    ($($name:ident),+ $(,)?) => {
        mod bookworm {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() -> anyhow::Result<()> {
                super::$name(super::booted::setup(trident_lab::node::Release::Bookworm)).await
            })+
        }
        mod trixie {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() -> anyhow::Result<()> {
                super::$name(super::booted::setup(trident_lab::node::Release::Trixie)).await
            })+
        }
    };
}
pub(crate) use on_each_release;
