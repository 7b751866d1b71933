//! Loop devices for a node: nodes of its own for the machine's devices, which are the same for all.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

/// More than all nodes together use at once.
const DEVICES: u32 = 64;

/// Makes the device nodes; the arguments that show them. The machine's own must not be bound: systemd removes a
/// loop device after its use, and its node here would vanish.
pub(super) fn make(directory: &Path) -> Result<Vec<String>> {
    std::fs::create_dir_all(directory)?;
    let control = ("loop-control".to_owned(), "c", 10, 237);
    let devices = (0..DEVICES).map(|number| (format!("loop{number}"), "b", 7, number));
    let mut arguments = Vec::new();
    for (name, kind, major, minor) in std::iter::once(control).chain(devices) {
        let path = directory.join(&name);
        let mut mknod = Command::new("mknod");
        mknod.arg(&path).args([kind, &major.to_string(), &minor.to_string()]);
        ensure!(mknod.status()?.success(), "cannot make {}", path.display());
        arguments.push(format!("--bind={}:/dev/{name}", path.display()));
    }
    Ok(arguments)
}
