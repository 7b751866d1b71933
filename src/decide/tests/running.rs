//! An operation in flight: others wait or are refused, and a unit that ends without a word is resumed.

use super::case::{
    Case, assert_quiet, assert_writes, completes, ended, finalize, idle, in_progress, now,
    rollback, stage, unit_ended, writes,
};
use crate::contract::{Code, Request};
use crate::decide::{Act, Key, Mark, Unit, apply, published};
use crate::state::Arming;

fn running(request: &Request) -> Case {
    idle().in_flight(request, 1).unit(Unit::Running).asked(request).says(in_progress(request))
}

#[test]
fn while_it_runs_only_the_heartbeat_is_written() {
    for request in [stage(11), finalize(12), rollback(13)] {
        assert_quiet(&running(&request));
        let plan = running(&request).heartbeat_due().plan();
        assert_writes(&plan, Key::Status, &request, Code::InProgress, &Mark::Nothing);
        let said = &writes(&plan).status;
        assert!(said.says_the_same(&in_progress(&request)), "only the time of the write moves");
        assert_eq!(plan.act, Act::Wait);
    }
}

#[test]
fn taken_away_during_a_run_it_runs_on() {
    for request in [stage(11), finalize(12), rollback(13)] {
        let mut case = running(&request);
        case.annotations.asked = idle().annotations.asked;
        assert_quiet(&case);
        assert_quiet(&case.without_node());
    }
}

#[test]
fn a_newer_request_waits_for_a_running_stage() {
    let first = stage(11);
    for newer in [stage(21), finalize(22), rollback(23)] {
        assert_quiet(&running(&first).asked(&newer));
        let over =
            idle().asked(&newer).staged(&stage(21)).done(ended(&first, Code::Success), false);
        let plan = over.plan();
        let mark = Mark::Operation(first.operation_id.clone());
        assert_writes(&plan, Key::Status, &first, Code::Success, &mark);
        assert!(matches!(plan.act, Act::Accept(it) if it.request == newer));
    }
}

#[test]
fn another_request_is_refused_at_once_while_a_boot_is_being_armed() {
    for first in [finalize(12), rollback(13)] {
        for other in [stage(21), finalize(22), rollback(23)] {
            for case in [running(&first), running(&first).shutting_down()] {
                let plan = case.asked(&other).plan();
                let status = completes(&plan);
                assert_eq!(status.operation_id, other.operation_id);
                assert_eq!(status.code, Code::InvalidRequest);
                let first_id = first.operation_id.to_string();
                assert!(status.message.as_str().contains(&first_id), "{}", status.message);
            }
        }
    }
}

/// The node's annotations and state after what the plan says and does.
fn round(case: &mut Case) -> bool {
    let (plan, seen) = (case.plan(), case.state.clone());
    if let Some(publish) = &plan.say {
        case.annotations.status = Some(publish.status.clone());
        published(&mut case.state, publish);
    }
    let acted = plan.act != Act::Wait;
    if acted {
        let now_seen = case.state.clone();
        apply(&mut case.state, &now_seen, &plan.act, now());
    }
    acted || plan.say.is_some() || case.state != seen
}

#[test]
fn a_refusal_leaves_the_running_operation_alone_and_does_not_flap() {
    let (first, other) = (finalize(12), stage(21));
    let mut case = running(&first).asked(&other);
    let in_flight = case.state.operation.clone();
    let mut said = Vec::new();
    for beat in 0..12 {
        case.heartbeat_due = beat % 4 == 3;
        if round(&mut case) {
            let status = case.annotations.status.as_ref().unwrap();
            said.push((status.operation_id.clone(), status.code));
        }
        assert_eq!(case.state.operation, in_flight);
    }
    said.dedup();
    let running = (first.operation_id.clone(), Code::InProgress);
    let refused = (other.operation_id.clone(), Code::InvalidRequest);
    assert_eq!(said, [running.clone(), refused, running], "said once, then the heartbeats go on");
}

#[test]
fn a_unit_without_an_outcome_is_resumed_three_times() {
    for unit in [Unit::Absent, unit_ended("oom-kill"), unit_ended("success")] {
        for starts in 1..=3 {
            let request = stage(11);
            let plan = running(&request).in_flight(&request, starts).unit(unit.clone()).plan();
            assert_eq!((plan.say, plan.act), (None, Act::Start { resumed: true }));
        }
    }
}

#[test]
fn resuming_waits_for_no_node_and_no_request() {
    let request = stage(11);
    let case = idle().in_flight(&request, 1).unit(unit_ended("signal"));
    assert_eq!(case.plan().act, Act::Start { resumed: true });
    assert_eq!(case.without_node().plan().act, Act::Start { resumed: true });
}

#[test]
fn then_it_is_given_up_with_the_word_of_systemd() {
    let results = ["oom-kill", "timeout", "watchdog", "signal", "core-dump", "exit-code"];
    let request = finalize(12);
    for result in results {
        let plan = running(&request).in_flight(&request, 4).unit(unit_ended(result)).plan();
        let status = completes(&plan);
        assert_eq!(status.code, Code::AgentInternalError);
        assert!(status.message.as_str().contains(&format!("\"{result}\"")), "{}", status.message);
        assert!(!status.message.as_str().contains("armed"));
        assert!(status.says_the_same(&in_progress(&request).finish(
            Code::AgentInternalError,
            status.message.as_str(),
            now()
        )));
    }
    let plan = running(&request).in_flight(&request, 4).unit(Unit::Absent).plan();
    assert!(completes(&plan).message.as_str().contains("\"gone\""));
}

#[test]
fn an_armed_boot_is_not_given_up_silently() {
    let request = finalize(12);
    let mut case = running(&request).in_flight(&request, 4).unit(unit_ended("timeout"));
    let arming = Arming { boot_marker: "boot-1".to_owned() };
    case.state.operation.as_mut().unwrap().arming = Some(arming);
    assert!(completes(&case.plan()).message.as_str().contains("may have been armed"));
}

#[test]
fn a_fourth_resume_that_runs_is_waited_for() {
    let request = stage(11);
    assert_quiet(&running(&request).in_flight(&request, 4));
}
