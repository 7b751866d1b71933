//! The answer's XML, written as the real server's encoder writes it.

use super::fleet::Check;
use super::package::{LabelForm, LabelPlace, PackageSpec, SHA384_LABEL};

/// All that a malformed request is answered.
pub(super) const PROLOGUE: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";

/// The answer for one app.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AppAnswer {
    pub(super) app_id: String,
    /// `ok` or `error-…`.
    pub(super) status: String,
    pub(super) ping: bool,
    pub(super) check: Option<Check>,
    pub(super) events: usize,
}

/// The whole document.
pub(super) fn render(apps: &[AppAnswer]) -> String {
    let apps: String = apps.iter().map(app).collect();
    format!(
        "{PROLOGUE}<response protocol=\"3.0\" server=\"nebraska\">\
         <daystart elapsed_seconds=\"0\"></daystart>{apps}</response>"
    )
}

fn app(app: &AppAnswer) -> String {
    let ping = if app.ping { "<ping status=\"ok\"></ping>" } else { "" };
    let check = app.check.as_ref().map(update_check).unwrap_or_default();
    let events = "<event status=\"ok\"></event>".repeat(app.events);
    format!(
        "<app appid=\"{}\" status=\"{}\">{ping}{check}{events}</app>",
        escape(&app.app_id),
        escape(&app.status),
    )
}

fn update_check(check: &Check) -> String {
    match check {
        Check::NoUpdate => "<updatecheck status=\"noupdate\"></updatecheck>".to_owned(),
        Check::Refused(_) => "<updatecheck status=\"error-internal\"></updatecheck>".to_owned(),
        Check::Offer(package) => {
            let url = |codebase: &String| {
                format!("<urls><url codebase=\"{}\"></url></urls>", escape(codebase))
            };
            let urls = package.codebase.as_ref().map(url).unwrap_or_default();
            format!("<updatecheck status=\"ok\">{urls}{}</updatecheck>", manifest(package))
        }
    }
}

fn manifest(spec: &PackageSpec) -> String {
    let labels = labels(spec);
    let here = |place| spec.label_place == place || spec.label_place == LabelPlace::Both;
    let in_manifest = if here(LabelPlace::Manifest) { labels.as_str() } else { "" };
    let in_package = if here(LabelPlace::Package) { labels.as_str() } else { "" };
    let image = package(&spec.name, &spec.hash, spec.size, in_package);
    let extra = spec.extra_packages.iter().map(|p| package(&p.name, &p.hash, p.size, ""));
    let extra: String = extra.collect();
    format!(
        "<manifest version=\"{}\"><packages>{image}{extra}</packages>{in_manifest}</manifest>",
        escape(&spec.version)
    )
}

fn package(name: &str, hash: &str, size: u64, labels: &str) -> String {
    format!(
        "<package name=\"{}\" hash=\"{}\" size=\"{size}\" required=\"true\">{labels}</package>",
        escape(name),
        escape(hash)
    )
}

fn labels(spec: &PackageSpec) -> String {
    let sha384 = spec.sha384.iter().map(|hex| (SHA384_LABEL, hex.as_str()));
    let extra = spec.extra_labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let labels: String = extra.chain(sha384).map(|(n, v)| label(spec.label_form, n, v)).collect();
    match labels.is_empty() {
        true => labels,
        false => format!("<labels>{labels}</labels>"),
    }
}

fn label(form: LabelForm, name: &str, value: &str) -> String {
    let (name, value) = (escape(name), escape(value));
    match form {
        LabelForm::NameValue => format!("<label name=\"{name}\" value=\"{value}\"></label>"),
        LabelForm::KeyValue => format!("<label key=\"{name}\" value=\"{value}\"></label>"),
        LabelForm::NameText => format!("<label name=\"{name}\">{value}</label>"),
        LabelForm::KeyText => format!("<label key=\"{name}\">{value}</label>"),
    }
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\t' => out.push_str("&#x9;"),
            '\n' => out.push_str("&#xA;"),
            '\r' => out.push_str("&#xD;"),
            c => out.push(c),
        }
    }
    out
}
