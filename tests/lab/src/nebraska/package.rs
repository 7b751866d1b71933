//! What a channel offers, and in which of the shapes seen in the wild.

/// The label that holds the SHA-384 of the COSI metadata.
pub const SHA384_LABEL: &str = "cosi.metadata.sha384";

/// Where `<labels>` stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LabelPlace {
    /// In the manifest.
    #[default]
    Manifest,
    /// In the first package.
    Package,
    /// In both.
    Both,
}

/// How one label is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LabelForm {
    /// `<label name="k" value="v"/>`
    #[default]
    NameValue,
    /// `<label key="k" value="v"/>`
    KeyValue,
    /// `<label name="k">v</label>`
    NameText,
    /// `<label key="k">v</label>`
    KeyText,
}

/// A further file of the update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtraPackage {
    /// File name.
    pub name: String,
    /// The `hash` attribute.
    pub hash: String,
    /// Bytes.
    pub size: u64,
}

/// One package and how the answer that offers it looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageSpec {
    /// The version offered.
    pub version: String,
    /// `codebase` of the only URL; `None` leaves `<urls>` out.
    pub codebase: Option<String>,
    /// File name, relative to the codebase or absolute.
    pub name: String,
    /// The value of the label, hex; `None` leaves it out.
    pub sha384: Option<String>,
    /// The `hash` attribute, base64; empty as the real server sends it when there is none.
    pub hash: String,
    /// Bytes.
    pub size: u64,
    /// Where labels stand.
    pub label_place: LabelPlace,
    /// How labels are written.
    pub label_form: LabelForm,
    /// Labels before the one with the hash.
    pub extra_labels: Vec<(String, String)>,
    /// Files after the image.
    pub extra_packages: Vec<ExtraPackage>,
    /// Must be installed before anything newer: offered first to whoever is older.
    pub floor: bool,
    /// `amd64` or `aarch64`.
    pub arch: String,
}

impl PackageSpec {
    /// An amd64 package with neither hash nor label.
    pub fn new(version: &str, codebase: &str, name: &str) -> Self {
        Self {
            version: version.to_owned(),
            codebase: Some(codebase.to_owned()),
            name: name.to_owned(),
            sha384: None,
            hash: String::new(),
            size: 1_073_741_824,
            label_place: LabelPlace::default(),
            label_form: LabelForm::default(),
            extra_labels: vec![],
            extra_packages: vec![],
            floor: false,
            arch: "amd64".to_owned(),
        }
    }

    /// With the label.
    pub fn with_sha384(mut self, hex: &str) -> Self {
        self.sha384 = Some(hex.to_owned());
        self
    }
}
