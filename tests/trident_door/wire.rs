//! The numbers of the wire, as tridentd has them: the stand-in is made from the same files as the product, and
//! would agree with it on a wrong one.

use prost::Message;
use trident_lab::wire::v1::servicing_response::Response as Part;
use trident_lab::wire::v1::{
    CommitRequest, Completed, FileLocation, FinalizeUpdateRequest, HostConfiguration, Log,
    LogLevel, ManualRollbackKind, RebootHandling, RebootManagement, RebootStatus,
    RollbackFinalizeRequest, RollbackRequest, RollbackStageRequest, ServicingKind,
    ServicingResponse, StageUpdateRequest, Started, StatusCode, TridentError, TridentErrorKind,
    UpdateRequest, VersionResponse,
};
use trident_lab::wire::v1preview::{
    AbVolumeState, GetActiveVolumeResponse, GetServicingStateResponse, ServicingState,
};

/// A field that holds text or a message, with its number.
fn held(number: u8, content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).expect("short");
    [&[number << 3 | 2, length], content].concat()
}

/// A field that holds a number below 128.
fn number(field: u8, value: u8) -> Vec<u8> {
    vec![field << 3, value]
}

fn text(text: &str) -> String {
    text.to_owned()
}

#[test]
fn every_field_of_a_request_has_its_number() {
    let reboot = Some(RebootManagement { handling: RebootHandling::CallerHandlesReboot.into() });
    let ours = held(1, &number(1, 2));
    let config = Some(HostConfiguration { config: text("c") });
    let stage = StageUpdateRequest { config };
    let finalize = FinalizeUpdateRequest { reboot };
    let staged = held(1, &held(1, b"c"));
    let kind = ManualRollbackKind::AbRollbackRequested.into();
    for (what, found, expected) in [
        ("stage", stage.encode_to_vec(), staged.clone()),
        ("finalize", finalize.encode_to_vec(), ours.clone()),
        ("rollback stage", RollbackStageRequest { kind }.encode_to_vec(), number(1, 2)),
        ("rollback finalize", RollbackFinalizeRequest { reboot }.encode_to_vec(), ours.clone()),
        ("commit", CommitRequest { reboot }.encode_to_vec(), ours.clone()),
        (
            "update",
            UpdateRequest { stage: Some(stage), finalize: Some(finalize) }.encode_to_vec(),
            [held(1, &staged), held(2, &ours)].concat(),
        ),
        (
            "rollback",
            RollbackRequest { kind, finalize: Some(RollbackFinalizeRequest { reboot }) }
                .encode_to_vec(),
            [number(1, 2), held(2, &ours)].concat(),
        ),
    ] {
        assert_eq!(found, expected, "{what}");
    }
}

#[test]
fn every_field_of_an_answer_has_its_number() {
    let place = FileLocation { path: text("p"), line: 9 };
    let at = [held(1, b"p"), number(2, 9)].concat();
    let log = Log {
        level: LogLevel::Warn.into(),
        message: text("m"),
        module: text("o"),
        target: text("t"),
        location: Some(place.clone()),
    };
    let logged = [number(1, 2), held(2, b"m"), held(3, b"o"), held(4, b"t"), held(5, &at)].concat();
    let error = TridentError {
        kind: TridentErrorKind::ServicingError.into(),
        subkind: text("s"),
        message: text("m"),
        error_message: text("e"),
        location: Some(place),
    };
    let failed = [number(1, 6), held(2, b"s"), held(3, b"m"), held(4, b"e"), held(5, &at)].concat();
    let completed = Completed {
        status: StatusCode::Failure.into(),
        error: Some(error),
        reboot_status: RebootStatus::RebootStarted.into(),
        image_hash: Some(text("h")),
        servicing_kind: Some(ServicingKind::ManualRollbackAb.into()),
    };
    let ended =
        [number(1, 2), held(2, &failed), number(3, 3), held(4, b"h"), number(5, 5)].concat();
    let timestamp = Some(prost_types::Timestamp { seconds: 1, nanos: 2 });
    let part = |part| ServicingResponse { timestamp, response: Some(part) }.encode_to_vec();
    let with_time =
        |rest: Vec<u8>| [held(1, &[number(1, 1), number(2, 2)].concat()), rest].concat();
    for (what, found, expected) in [
        ("started", part(Part::Started(Started {})), with_time(held(2, b""))),
        ("log", part(Part::Log(log)), with_time(held(3, &logged))),
        ("completed", part(Part::Completed(completed)), with_time(held(4, &ended))),
        ("version", VersionResponse { version: text("v") }.encode_to_vec(), held(1, b"v")),
        ("state", GetServicingStateResponse { state: 8 }.encode_to_vec(), number(1, 8)),
        ("volume", GetActiveVolumeResponse { active_volume: 2 }.encode_to_vec(), number(1, 2)),
    ] {
        assert_eq!(found, expected, "{what}");
    }
}

/// From 0 on, in their order.
macro_rules! named {
    ($enumeration:ident: $($name:expr),+ $(,)?) => {
        for (number, name) in [$($name),+].into_iter().enumerate() {
            let number = i32::try_from(number).expect("few");
            let found = $enumeration::try_from(number).map(|it| it.as_str_name());
            assert_eq!(found, Ok(name), "{} {number}", stringify!($enumeration));
        }
        let beyond = i32::try_from([$($name),+].len()).expect("few");
        assert!($enumeration::try_from(beyond).is_err(), "{}", stringify!($enumeration));
    };
}

#[test]
fn every_word_has_its_number() {
    named!(StatusCode: "STATUS_CODE_UNSPECIFIED", "STATUS_CODE_SUCCESS", "STATUS_CODE_FAILURE");
    named!(LogLevel: "LOG_LEVEL_UNSPECIFIED", "LOG_LEVEL_ERROR", "LOG_LEVEL_WARN", "LOG_LEVEL_INFO",
        "LOG_LEVEL_DEBUG", "LOG_LEVEL_TRACE");
    named!(TridentErrorKind: "TRIDENT_ERROR_KIND_UNSPECIFIED",
        "EXECUTION_ENVIRONMENT_MISCONFIGURATION_ERROR", "HEALTH_CHECKS_ERROR",
        "INITIALIZATION_ERROR", "INTERNAL_ERROR", "INVALID_INPUT_ERROR", "SERVICING_ERROR",
        "UNSUPPORTED_CONFIGURATION_ERROR");
    named!(RebootHandling: "REBOOT_HANDLING_UNSPECIFIED", "TRIDENT_HANDLES_REBOOT",
        "CALLER_HANDLES_REBOOT");
    named!(RebootStatus: "REBOOT_STATUS_UNSPECIFIED", "REBOOT_NOT_REQUIRED", "REBOOT_REQUIRED",
        "REBOOT_STARTED");
    named!(ServicingKind: "SERVICING_KIND_UNSPECIFIED", "SERVICING_KIND_NONE_REQUIRED",
        "SERVICING_KIND_RUNTIME_UPDATE", "SERVICING_KIND_AB_UPDATE", "SERVICING_KIND_CLEAN_INSTALL",
        "SERVICING_KIND_MANUAL_ROLLBACK_AB", "SERVICING_KIND_MANUAL_ROLLBACK_RUNTIME");
    named!(ManualRollbackKind: "MANUAL_ROLLBACK_KIND_UNSPECIFIED", "ANY_ROLLBACK_REQUESTED",
        "AB_ROLLBACK_REQUESTED", "RUNTIME_ROLLBACK_REQUESTED");
    let states = (0..=12).map(|n| ServicingState::try_from(n).map(|it| it.as_str_name()).ok());
    let states: Vec<_> =
        states.map(|name| name.map(|it| it.replace("SERVICING_STATE_", ""))).collect();
    let states: Vec<_> = states.iter().map(Option::as_deref).collect();
    assert_eq!(
        states[1..],
        [
            Some("NOT_PROVISIONED"),
            Some("INSTALL_STAGED"),
            Some("UPDATE_AB_STAGED"),
            Some("MANUAL_ROLLBACK_AB_STAGED"),
            Some("MANUAL_ROLLBACK_RUNTIME_STAGED"),
            Some("UPDATE_RUNTIME_STAGED"),
            Some("INSTALL_FINALIZED"),
            Some("UPDATE_AB_FINALIZED"),
            Some("MANUAL_ROLLBACK_AB_FINALIZED"),
            Some("PROVISIONED"),
            Some("UPDATE_AB_HEALTH_CHECK_FAILED"),
            None,
        ]
    );
    let volumes = (1..=4).map(|n| AbVolumeState::try_from(n).map(|it| it.as_str_name()).ok());
    let volumes: Vec<_> = volumes.collect();
    assert_eq!(volumes, [Some("NO_VOLUME"), Some("VOLUME_A"), Some("VOLUME_B"), None]);
}
