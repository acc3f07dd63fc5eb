//! Numbers for the names of scenarios and of their states, the same in all processes: the state of
//! a scenario is kept in shared memory as a number.
//!
//! It must not know in which state a scenario is.

use super::node::{Node, Problem};

/// Maximum number of scenarios of a target.
pub(crate) const SCENARIOS: usize = 1024;

/// The number of a scenario, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ScenarioIndex(u32);

/// The number of a state within its scenario, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StateIndex(u32);

impl ScenarioIndex {
    /// As an index.
    pub(crate) fn get(self) -> usize {
        self.0 as usize
    }
}

impl StateIndex {
    /// "Started": where every scenario begins.
    pub(crate) const STARTED: Self = Self(0);

    /// As a number to keep.
    pub(crate) fn get(self) -> u32 {
        self.0
    }

    /// From a number that was kept.
    pub(crate) fn kept(number: u32) -> Self {
        Self(number)
    }
}

/// Most states of one scenario. They are looked up one by one, so a file of junk must not name
/// millions.
const MAX_STATES: usize = 4096;

/// Part of a stub in a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScenarioStep {
    /// The scenario.
    pub(crate) scenario: ScenarioIndex,
    /// The state in which alone the stub answers; none: in any.
    pub(crate) required: Option<StateIndex>,
    /// The state to which an answer leads: from the required one, if there is one, and only if the
    /// scenario is still there (`stubbing/AbstractScenarios.java`, `onStubServed`).
    pub(crate) next: Option<StateIndex>,
}

/// All names that were ever used. A name keeps its number when the stubs that use it are gone, and
/// names are numbered in the order in which they come: processes that do the same in the same order
/// have the same numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScenarioNames(Vec<Names>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Names {
    scenario: String,
    states: Vec<String>,
}

impl ScenarioNames {
    /// Reads the three fields of a stub, and numbers their names. Without `scenarioName` the others
    /// mean nothing, as for WireMock.
    pub(crate) fn read(&mut self, stub: &Node<'_>) -> Result<Option<ScenarioStep>, Problem> {
        let Some(name) = stub.get("scenarioName") else {
            return Ok(None);
        };
        let required = stub.get("requiredScenarioState");
        let next = stub.get("newScenarioState");
        // All are read before the first is numbered: a stub that is refused leaves nothing behind.
        for state in required.iter().chain(&next) {
            state.text()?;
        }
        let scenario = self.scenario_or_new(&name)?;
        let required = required
            .map(|state| self.state_or_new(scenario, &state))
            .transpose()?;
        let next = next
            .map(|state| self.state_or_new(scenario, &state))
            .transpose()?;
        Ok(Some(ScenarioStep {
            scenario,
            required,
            next,
        }))
    }

    /// The name of a scenario.
    pub(crate) fn scenario(&self, scenario: ScenarioIndex) -> Option<&str> {
        self.0
            .get(scenario.get())
            .map(|names| names.scenario.as_str())
    }

    /// The name of a state.
    pub(crate) fn state(&self, scenario: ScenarioIndex, state: StateIndex) -> Option<&str> {
        self.0
            .get(scenario.get())?
            .states
            .get(state.0 as usize)
            .map(String::as_str)
    }

    /// The scenario of that name.
    pub(crate) fn find_scenario(&self, name: &str) -> Option<ScenarioIndex> {
        let index = self.0.iter().position(|names| names.scenario == name)?;
        u32::try_from(index).ok().map(ScenarioIndex)
    }

    /// The state of that name.
    pub(crate) fn find_state(&self, scenario: ScenarioIndex, name: &str) -> Option<StateIndex> {
        let index = self
            .0
            .get(scenario.get())?
            .states
            .iter()
            .position(|state| state == name)?;
        u32::try_from(index).ok().map(StateIndex)
    }

    fn scenario_or_new(&mut self, node: &Node<'_>) -> Result<ScenarioIndex, Problem> {
        let name = node.text()?;
        if let Some(known) = self.find_scenario(name) {
            return Ok(known);
        }
        let index = u32::try_from(self.0.len())
            .ok()
            .filter(|_| self.0.len() < SCENARIOS);
        let index =
            index.ok_or_else(|| node.unsupported(format!("more than {SCENARIOS} scenarios")))?;
        self.0.push(Names {
            scenario: name.to_owned(),
            states: vec![STARTED.to_owned()],
        });
        Ok(ScenarioIndex(index))
    }

    fn state_or_new(
        &mut self,
        scenario: ScenarioIndex,
        node: &Node<'_>,
    ) -> Result<StateIndex, Problem> {
        let name = node.text()?;
        if let Some(known) = self.find_state(scenario, name) {
            return Ok(known);
        }
        let too_many =
            || node.unsupported(format!("a scenario with more than {MAX_STATES} states"));
        let names = self.0.get_mut(scenario.get()).ok_or_else(too_many)?;
        let index = u32::try_from(names.states.len())
            .ok()
            .filter(|_| names.states.len() < MAX_STATES);
        names.states.push(name.to_owned());
        index.map(StateIndex).ok_or_else(too_many)
    }
}

/// The first state (`stubbing/Scenario.java`).
const STARTED: &str = "Started";

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_are_numbered_in_the_order_in_which_they_come() {
        let mut names = ScenarioNames::default();
        let mut read = |stub| names.read(&Node::root(&stub));
        let first = read(
            json!({"scenarioName": "a", "requiredScenarioState": "x", "newScenarioState": "Started"}),
        );
        let (a, x) = (ScenarioIndex(0), StateIndex(1));
        let step = ScenarioStep {
            scenario: a,
            required: Some(x),
            next: Some(StateIndex::STARTED),
        };
        assert_eq!(first.unwrap(), Some(step));
        let second = read(json!({"scenarioName": "b", "newScenarioState": "x"}))
            .unwrap()
            .unwrap();
        assert_eq!(
            (second.scenario, second.required, second.next),
            (ScenarioIndex(1), None, Some(x))
        );
        assert_eq!(read(json!({"requiredScenarioState": "x"})).unwrap(), None);
        assert!(read(json!({"scenarioName": "c", "newScenarioState": 1})).is_err());
        assert_eq!(
            names.find_scenario("c"),
            None,
            "a stub that is refused leaves nothing behind"
        );
        assert_eq!(StateIndex::kept(x.get()), x);
        assert_eq!(
            (names.scenario(a), names.state(a, x)),
            (Some("a"), Some("x"))
        );
        assert_eq!(
            (names.find_scenario("b"), names.find_state(a, "x")),
            (Some(ScenarioIndex(1)), Some(x))
        );
    }

    #[test]
    fn there_is_an_end_to_scenarios() {
        let mut names = ScenarioNames::default();
        let mut read =
            |number: usize| names.read(&Node::root(&json!({"scenarioName": number.to_string()})));
        assert!((0..SCENARIOS).all(|number| read(number).is_ok()));
        assert!(read(0).is_ok());
        let problem = read(SCENARIOS).unwrap_err();
        assert_eq!(
            problem.to_string(),
            format!("/scenarioName: more than {SCENARIOS} scenarios is not supported")
        );
    }
}
