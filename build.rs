//! Compiles `proto/` to client code, with a pure-Rust compiler: no `protoc` is needed. Says how the program
//! is linked, for the memory of the resident watcher: see `docs/decisions/0010-link-order.md`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    let files = protox::compile(["trident.v1.proto", "trident.v1preview.proto"], ["proto"])?;
    tonic_prost_build::configure().build_server(false).compile_fds(files)?;

    if std::env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        lay_out();
    }
    Ok(())
}

/// A debug build has none of it: it unwinds, and links faster.
fn lay_out() {
    let cold = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/link/cold.ld");
    println!("cargo::rerun-if-changed={cold}");
    let script = format!("-Wl,-T,{cold}");
    for argument in ["-Wl,-z,pack-relative-relocs", "-Wl,--no-eh-frame-hdr", script.as_str()] {
        println!("cargo::rustc-link-arg-bins={argument}");
    }
}
