use std::ffi::OsStr;

use super::Step;

/// Takes a step that is waited for; `of` says of what.
pub fn awaited<T, F: Future<Output = T>>(
    _: Step,
    _of: &(impl AsRef<OsStr> + ?Sized),
    effect: F,
) -> F {
    effect
}

/// Takes a step that is done when it returns; `of` says of what.
pub fn done<T>(_: Step, _of: &(impl AsRef<OsStr> + ?Sized), effect: impl FnOnce() -> T) -> T {
    effect()
}
