//! Compiles the product's `proto/` to server code for the stand-in tridentd.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=../../proto");
    let files = protox::compile(["trident.v1.proto", "trident.v1preview.proto"], ["../../proto"])?;
    tonic_prost_build::configure().compile_fds(files)?;
    Ok(())
}
