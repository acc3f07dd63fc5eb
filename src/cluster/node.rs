//! The part that this task crawls: given as `i/N`, or read from the environment that a scheduler
//! gives its tasks.

use std::fmt;
use std::str::FromStr;

/// Variable with the number of a task in a job array of Slurm, which may begin with any number.
const SLURM_TASK: &str = "SLURM_ARRAY_TASK_ID";

/// Variables with the number of a task.
const TASKS: [&str; 3] = [SLURM_TASK, "HQ_TASK_ID", "JOB_COMPLETION_INDEX"];

/// A part: its number, from 0, and how many there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    /// Its number.
    pub(crate) part: u32,
    /// Number of parts.
    pub(crate) of: u32,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.part, self.of)
    }
}

/// Part, as typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Node {
    /// From the environment.
    Auto,
    /// As given.
    Given {
        /// Number of the part, from 0.
        part: u32,
        /// Number of parts.
        of: u32,
    },
}

impl FromStr for Node {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let numbers = text
            .split_once('/')
            .and_then(|(part, of)| Some((part.parse().ok()?, of.parse().ok()?)));
        match numbers {
            Some((part, of)) if part < of => Ok(Self::Given { part, of }),
            Some((part, of)) if of > 0 => Err(format!(
                "there is no part {part} of {of}: the first is 0/{of}, the last {}/{of}",
                of - 1
            )),
            Some(_) | None => Err(format!(
                "`{text}` is not a part: write 0/12 for the first of 12, or auto"
            )),
        }
    }
}

impl Node {
    /// Return the part of a crawl with `nodes` parts. `variable` reads the environment.
    ///
    /// # Errors
    /// When the environment names none, or another number of parts.
    pub(crate) fn part(
        self,
        nodes: u32,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Part, String> {
        let found = match self {
            Self::Given { part, of } => Part { part, of },
            Self::Auto => automatic(nodes, variable)?,
        };
        if found.of != nodes {
            return Err(format!(
                "--node names one of {} parts, and the plan has {nodes}: write a part of {nodes}",
                found.of
            ));
        }
        if found.part >= nodes {
            return Err(format!(
                "--node: the task's number {} is beyond the last part, {}/{nodes}",
                found.part,
                nodes - 1
            ));
        }
        Ok(found)
    }
}

/// The number in a variable of the environment; none where it is missing or empty.
fn number(variable: &impl Fn(&str) -> Option<String>, name: &str) -> Result<Option<u32>, String> {
    let text = variable(name).filter(|text| !text.is_empty());
    text.map(|text| {
        text.parse().map_err(|_| {
            format!("--node auto: {name} is `{text}`, which is not a number of a task")
        })
    })
    .transpose()
}

fn automatic(nodes: u32, variable: impl Fn(&str) -> Option<String>) -> Result<Part, String> {
    let mut found = Vec::new();
    for name in TASKS {
        let Some(task) = number(&variable, name)? else {
            continue;
        };
        let part = if name == SLURM_TASK {
            let first = number(&variable, "SLURM_ARRAY_TASK_MIN")?.unwrap_or(0);
            // As of --array=1-7:2.
            let step = number(&variable, "SLURM_ARRAY_TASK_STEP")?
                .unwrap_or(1)
                .max(1);
            let count = number(&variable, "SLURM_ARRAY_TASK_COUNT")?.unwrap_or(1);
            let last = number(&variable, "SLURM_ARRAY_TASK_MAX")?;
            let place = task.saturating_sub(first);
            // As of --array=1,5,9,11, of which a task knows no more than this.
            let is_list = last.is_some_and(|last| {
                count > 1
                    && u64::from(first) + u64::from(count - 1) * u64::from(step) != u64::from(last)
            });
            if is_list || place % step > 0 {
                return Err(format!(
                    "--node auto: the tasks of this job array do not follow each other in equal steps, so that {task} may be any part. Submit it with --array=0-{}, or give --node PART/{nodes}",
                    nodes - 1
                ));
            }
            place / step
        } else {
            task
        };
        found.push((name, task, part));
    }
    let Some((name, task, part)) = found.first().copied() else {
        return Err(format!(
            "--node auto: no {} in the environment. Give the part, as in --node 0/{nodes}",
            TASKS.join(", ")
        ));
    };
    // A job of one scheduler may run in a task of another one.
    if let Some((other, _, another)) = found.iter().find(|(.., other)| *other != part) {
        return Err(format!(
            "--node auto: {name} names part {part}, and {other} part {another}. Give the one that is meant, as in --node {another}/{nodes}"
        ));
    }
    let of = if name == SLURM_TASK {
        number(&variable, "SLURM_ARRAY_TASK_COUNT")?.unwrap_or(nodes)
    } else {
        nodes
    };
    if of != nodes {
        return Err(format!(
            "--node auto: the job array has {of} tasks, and the plan has {nodes} parts. Submit it with --array=0-{}, or give --node {task}/{nodes}",
            nodes - 1
        ));
    }
    Ok(Part { part, of })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(node: &str, variables: &[(&str, &str)]) -> Result<u32, String> {
        let variable = |name: &str| {
            variables
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| (*value).to_owned())
        };
        node.parse::<Node>()?
            .part(12, variable)
            .map(|part| part.part)
    }

    #[test]
    fn a_task_finds_its_part() {
        let slurm = |id| {
            [
                ("SLURM_ARRAY_TASK_ID", id),
                ("SLURM_ARRAY_TASK_MIN", "1"),
                ("SLURM_ARRAY_TASK_COUNT", "12"),
            ]
        };
        assert_eq!(
            part("3/12", &slurm("9")),
            Ok(3),
            "what is given comes first"
        );
        assert_eq!(part("auto", &slurm("9")), Ok(8));
        assert_eq!(part("auto", &[("HQ_TASK_ID", "11")]), Ok(11));
        assert_eq!(part("auto", &[("JOB_COMPLETION_INDEX", "0")]), Ok(0));
        assert_eq!(
            part("auto", &[&slurm("9")[..], &[("HQ_TASK_ID", "8")]].concat()),
            Ok(8),
            "both name the same part"
        );
    }

    #[test]
    fn tasks_of_any_array_take_each_part_once() {
        for (first, step) in [(0, 1), (1, 1), (1, 2), (5, 3), (0, 100)] {
            let parts = (0..12).map(|task| {
                let variables = [
                    ("SLURM_ARRAY_TASK_ID", first + task * step),
                    ("SLURM_ARRAY_TASK_MIN", first),
                    ("SLURM_ARRAY_TASK_MAX", first + 11 * step),
                    ("SLURM_ARRAY_TASK_COUNT", 12),
                    ("SLURM_ARRAY_TASK_STEP", step),
                ];
                let texts = variables.map(|(name, number)| (name, number.to_string()));
                let variables: Vec<_> = texts
                    .iter()
                    .map(|(name, text)| (*name, text.as_str()))
                    .collect();
                part("auto", &variables)
            });
            let expected = (0..12).map(Ok).collect::<Vec<Result<u32, String>>>();
            assert_eq!(
                parts.collect::<Vec<_>>(),
                expected,
                "from {first} by {step}"
            );
        }
    }

    #[test]
    fn no_two_tasks_of_a_list_take_one_part() {
        for tasks in [
            &[1, 5, 9, 11][..],
            &[0, 1, 2, 7],
            &[0, 2, 3, 6],
            &[3, 4, 6],
            &[2, 9],
            &[5],
        ] {
            let count = u32::try_from(tasks.len()).unwrap();
            let (first, last) = (tasks[0], tasks[tasks.len() - 1]);
            let step = tasks.get(1).map_or(1, |second| second - first);
            let mut taken: Vec<u32> = Vec::new();
            for task in tasks {
                let variables = [
                    ("SLURM_ARRAY_TASK_ID", *task),
                    ("SLURM_ARRAY_TASK_MIN", first),
                    ("SLURM_ARRAY_TASK_MAX", last),
                    ("SLURM_ARRAY_TASK_COUNT", count),
                    ("SLURM_ARRAY_TASK_STEP", step),
                ];
                let variable = |name: &str| {
                    let found = variables.iter().find(|(key, _)| *key == name);
                    found.map(|(_, number)| number.to_string())
                };
                let part = Node::Auto.part(count, variable);
                taken.extend(part.map(|part| part.part));
            }
            let is_regular = tasks.windows(2).all(|two| two[1] - two[0] == step);
            assert_eq!(taken.len() == tasks.len(), is_regular, "{tasks:?}");
            let all = taken.len();
            taken.sort_unstable();
            taken.dedup();
            assert_eq!(taken.len(), all, "{tasks:?}");
        }
    }

    #[test]
    fn a_task_without_a_part_is_refused() {
        let [slurm, count, hq] = [
            "SLURM_ARRAY_TASK_ID",
            "SLURM_ARRAY_TASK_COUNT",
            "HQ_TASK_ID",
        ];
        for (node, variables) in [
            ("12/12", &[][..]),
            ("0/0", &[]),
            ("3", &[]),
            ("3/11", &[]),
            ("auto", &[]),
            ("auto", &[("JOB_COMPLETION_INDEX", "12")]),
            ("auto", &[(hq, "x")]),
            ("auto", &[(slurm, "3"), (hq, "4")]),
            ("auto", &[(slurm, "3"), (count, "2")]),
        ] {
            assert!(part(node, variables).is_err(), "{node} {variables:?}");
        }
    }
}
