/// Begins a section of a PEM text.
const BEGIN: &str = "-----BEGIN ";
/// Begins, after [`BEGIN`], a certificate.
const CERTIFICATE: &str = "CERTIFICATE-----";

/// Each certificate of a bundle as a PEM text of its own. The usual readers let one that lacks its END line
/// take the following one with it, and one such would then undo a good one.
pub fn pem_certificates(text: &str) -> impl Iterator<Item = String> {
    let sections = text.split(BEGIN).skip(1).filter(|section| section.starts_with(CERTIFICATE));
    sections.map(|section| format!("{BEGIN}{section}"))
}
