//! Random histories of a small node, and what must hold in all of them.

use proptest::prelude::*;

use super::agent::Until;
use super::case::{finalize, rollback, stage};
use super::world::{Node, Work, World};
use crate::contract::{Code, Id, Request, Status};
use crate::decide::{Act, Plan};

/// Rounds within which a node without further trouble comes to rest.
const ROUNDS: u32 = 400;

#[derive(Debug, Clone)]
enum Event {
    Ask(Box<Request>),
    /// Nonsense, or this request with a field that is none.
    AskBrokenly(Option<Box<Request>>),
    TakeAway,
    Overwrite,
    Hear(usize),
    Look(usize),
    Act(usize, Until),
    /// An agent hears, looks and acts without being disturbed.
    Round(usize),
    StepUnits,
    StepCommit,
    /// A start that was counted before.
    StartLate,
    Kill,
    KillCommit,
    TridentFails,
    Api(bool),
    NoRoom(bool),
    Pass(i64),
    /// The wall clock is set.
    Jump(i64),
    /// A shutdown that was asked for comes to its end.
    ShutDown,
    PowerCut {
        falls_back: bool,
        commit_starts: bool,
    },
}

fn requests() -> impl Strategy<Value = Request> {
    let mut all: Vec<_> = [10, 20]
        .into_iter()
        .flat_map(|n| {
            [stage(n + 1), finalize(n + 2), rollback(n + 3), stage(n + 4), finalize(n + 5)]
        })
        .collect();
    // Ids that were used for something else.
    all.extend([finalize(11), stage(12)]);
    prop::sample::select(all)
}

fn events() -> impl Strategy<Value = Event> {
    let agent = 0..2_usize;
    let until = prop::sample::select(vec![Until::Written, Until::Said, Until::Counted]);
    prop_oneof![
        6 => requests().prop_map(|request| Event::Ask(Box::new(request))),
        1 => prop::option::of(requests().prop_map(Box::new)).prop_map(Event::AskBrokenly),
        1 => Just(Event::TakeAway),
        1 => Just(Event::Overwrite),
        2 => agent.clone().prop_map(Event::Hear),
        6 => agent.clone().prop_map(Event::Look),
        6 => agent.clone().prop_map(|agent| Event::Act(agent, Until::End)),
        2 => (agent.clone(), until).prop_map(|(agent, until)| Event::Act(agent, until)),
        20 => agent.prop_map(Event::Round),
        16 => Just(Event::StepUnits),
        8 => Just(Event::StepCommit),
        2 => Just(Event::StartLate),
        5 => Just(Event::Kill),
        1 => Just(Event::KillCommit),
        1 => Just(Event::TridentFails),
        2 => any::<bool>().prop_map(Event::Api),
        1 => any::<bool>().prop_map(Event::NoRoom),
        2 => (1..700_i64).prop_map(Event::Pass),
        2 => (-1_000_000_000..1_000_000_000_i64).prop_map(Event::Jump),
        4 => Just(Event::ShutDown),
        1 => any::<(bool, bool)>()
            .prop_map(|(falls_back, commit_starts)| Event::PowerCut { falls_back, commit_starts }),
    ]
}

/// Nothing new, and no trouble.
fn steps() -> impl Strategy<Value = Event> {
    prop_oneof![
        (0..2_usize).prop_map(Event::Round),
        Just(Event::StepUnits),
        (1..120_i64).prop_map(Event::Pass),
    ]
}

impl World {
    fn happen(&mut self, event: Event) {
        match event {
            Event::Ask(request) => {
                self.node.asked = Some(serde_json::to_string(&*request).unwrap())
            }
            Event::AskBrokenly(request) => self.node.asked = Some(broken(request.as_deref())),
            Event::TakeAway => self.node.asked = None,
            Event::Overwrite => {
                self.node = Node { asked: self.node.asked.take(), ..Node::default() }
            }
            Event::Hear(agent) => self.hear(agent),
            Event::Look(agent) => self.look(agent),
            Event::Act(agent, until) => self.act(agent, until),
            Event::Round(agent) => self.round(agent),
            Event::StepUnits => self.step_units(),
            Event::StepCommit => self.step_commit(),
            Event::StartLate => {
                if let Some(request) = self.late_start.take() {
                    self.start_unit(&request);
                }
            }
            Event::Kill => self.units.values_mut().for_each(kill),
            Event::KillCommit => self.commit.iter_mut().for_each(kill),
            Event::TridentFails => self.trident.fails = true,
            Event::Api(up) => self.api_up = up,
            Event::NoRoom(no_room) => self.no_room = no_room,
            Event::Pass(seconds) => self.clock += seconds,
            Event::Jump(ahead) => self.ahead = ahead,
            Event::ShutDown => {
                if self.shutting_down {
                    self.reboot(false, true);
                }
            }
            Event::PowerCut { falls_back, commit_starts } => self.reboot(falls_back, commit_starts),
        }
    }

    fn round(&mut self, agent: usize) {
        self.hear(agent);
        self.look(agent);
        self.act(agent, Until::End);
    }

    /// No more trouble: everything that runs comes to its end.
    fn settle(&mut self) {
        self.late_start = None;
        (self.api_up, self.trident.fails) = (true, false);
        for _ in 0..ROUNDS {
            self.clock += 10;
            self.step_units();
            self.step_commit();
            self.happen(Event::ShutDown);
            for agent in 0..2 {
                self.round(agent);
            }
            if self.is_at_rest() {
                return;
            }
        }
        panic!("no rest after {ROUNDS} rounds: {self:#?}");
    }

    fn is_at_rest(&self) -> bool {
        let ended = |it: &super::world::Process| matches!(it.work, Work::Ended(_));
        let nothing = Plan { say: None, act: Act::Wait, deliver: false };
        let idle = (0..2).all(|agent| self.plan(agent) == nothing && self.has_stood(agent));
        let waiting = self.state.operation.is_some() || self.state.pending_commit.is_some();
        idle && !waiting && !self.shutting_down && self.units.values().all(ended)
    }

    /// What must hold once everything has come to its end.
    fn check(&self) {
        for id in &self.started {
            assert!(
                self.outcomes.contains_key(id),
                "{id} was started and has no outcome: {self:#?}"
            );
        }
        for done in &self.state.completed {
            assert!(done.status.code.is_terminal() && done.is_settled(), "{done:#?}");
            let statuses = [Some(&done.status), done.commit.as_ref().map(|commit| &commit.status)];
            for status in statuses.into_iter().flatten() {
                assert!(status.finished_utc >= Some(status.started_utc), "{status:?}");
            }
        }
        let read =
            |text: &Option<String>| text.as_ref().map(|text| Status::from_json(text).unwrap());
        let said = read(&self.node.status);
        for said in said.iter().chain(&read(&self.node.commit_status)) {
            assert!(said.code.is_terminal(), "in progress for ever: {said:?}");
        }
        let Some(asked) = &self.node.asked else { return };
        let said = said.expect("a request without a status");
        assert!(said.code.is_terminal(), "{said:?}");
        let id = match Request::parse(asked) {
            Ok(request) => request.operation_id,
            Err(broken) => broken.operation_id,
        };
        assert_eq!(said.operation_id, id, "the answer to another request");
        let code = match id == Id::nil() {
            true => Some(&Code::InvalidRequest),
            false => self.outcomes.get(&id.canonical()),
        };
        assert_eq!(code, Some(&said.code));
    }
}

fn broken(request: Option<&Request>) -> String {
    let Some(request) = request else {
        return "{".to_owned();
    };
    serde_json::to_string(request).unwrap().replacen('{', "{\"force\":true,", 1)
}

fn kill(process: &mut super::world::Process) {
    if !matches!(process.work, Work::Ended(_)) {
        process.work = Work::Ended("oom-kill".to_owned());
    }
}

/// A slow agent's start and another's verdict: the operation lock decides.
#[test]
fn nothing_is_given_up_while_a_process_works_on_it() {
    let mut world = World::new();
    world.happen(Event::Ask(Box::new(stage(11))));
    let starts = |world: &World| world.state.operation.as_ref().map_or(0, |it| it.starts);
    while starts(&world) < 3 {
        world.round(0);
        world.happen(Event::Kill);
    }
    world.hear(1);
    world.look(1);
    world.act(1, Until::Counted);
    world.hear(0);
    world.look(0);
    world.happen(Event::StartLate);
    world.step_units();
    world.act(0, Until::End);
    assert_eq!(starts(&world), 4, "still in flight");
    world.settle();
    world.check();
    assert_eq!(world.outcomes.values().collect::<Vec<_>>(), [&Code::Success]);
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    /// With the file all memory but the Node's goes: what that says has ended is not run again, and nothing
    /// stays in progress for ever.
    #[test]
    fn a_lost_state_file_is_survived(history in prop::collection::vec(events(), 0..120), falls_back: bool) {
        let mut world = World::new();
        for event in history {
            world.happen(event);
        }
        world.lose_state(falls_back);
        let status = world.node.status.as_ref().and_then(|text| Status::from_json(text));
        let ended = status.filter(|status| status.code.is_terminal() && status.code != Code::Success);
        world.settle();
        world.check();
        if let Some(ended) = ended {
            prop_assert!(!world.started.contains(&ended.operation_id.canonical()));
        }
    }

    /// Few random histories come as far as an armed boot.
    #[test]
    fn a_state_file_lost_while_all_goes_well_is_survived(
        before in prop::collection::vec(steps(), 0..40),
        falls_back: bool,
        after in prop::collection::vec(steps(), 0..20),
    ) {
        let mut world = World::new();
        world.happen(Event::Ask(Box::new(stage(11))));
        world.settle();
        world.happen(Event::Ask(Box::new(finalize(12))));
        before.into_iter().for_each(|event| world.happen(event));
        world.lose_state(falls_back);
        after.into_iter().for_each(|event| world.happen(event));
        world.settle();
        world.check();
    }

    #[test]
    fn every_history_keeps_the_laws_and_comes_to_rest(
        history in prop::collection::vec(events(), 0..160),
    ) {
        let mut world = World::new();
        for event in history {
            world.happen(event);
        }
        world.settle();
        world.check();
        let writes = world.writes;
        for agent in [0, 1, 0, 1] {
            world.clock += 1000;
            world.round(agent);
        }
        prop_assert_eq!(world.writes, writes, "writes on a node where nothing changes");
    }
}
