//! Runs processes, here as threads, in every order of their steps on shared memory, up to a number of
//! preemptions; one of them may die before any of its steps, without a cleanup, as by SIGKILL.
//!
//! `loom` and `shuttle` do not fit: their atomics have constructors, and the memory here is a mapping
//! that is zero; and a thread of theirs cannot end without unwinding through its guards. Orders are
//! sequentially consistent, so a missing `Acquire` is not found.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex};

/// What is searched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search {
    pub(crate) processes: usize,
    /// Times that a process that could go on has to wait for another one.
    pub(crate) preemptions: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ready,
    /// It waits for a step of another one.
    Spinning,
    Over,
}

/// One run of all processes.
#[derive(Debug)]
struct Run {
    states: Vec<State>,
    /// Whose turn it is.
    turn: usize,
    preemptions: usize,
    /// Choices, each with the number of those that there were.
    choices: Vec<(usize, usize)>,
    chosen: usize,
    /// Steps until process 0 dies.
    dies_in: Option<usize>,
    is_dead: bool,
}

#[derive(Debug)]
struct World {
    run: Mutex<Run>,
    turned: Condvar,
}

/// The process that this thread is.
struct Process {
    number: usize,
    world: Arc<World>,
}

thread_local! {
    static PROCESS: RefCell<Option<Process>> = const { RefCell::new(None) };
    static IS_DEAD: Cell<bool> = const { Cell::new(false) };
    /// True while this thread judges: whoever still holds a lock then is dead.
    static JUDGES: Cell<bool> = const { Cell::new(false) };
}

impl Search {
    /// Have each process `act` by its number on memory that is made anew for each order, and `judge`
    /// that. Return the number of orders.
    pub(crate) fn every_order<M: Sync>(
        self,
        make: impl Fn() -> M,
        act: impl Fn(&M, usize) + Sync,
        judge: impl Fn(&M),
    ) -> usize {
        let (orders, _) = self.orders(None, &make, &act, &judge);
        orders
    }

    /// The same with process 0 dying before its first step, its second, and so on.
    pub(crate) fn every_death<M: Sync>(
        self,
        make: impl Fn() -> M,
        act: impl Fn(&M, usize) + Sync,
        judge: impl Fn(&M),
    ) -> usize {
        let mut all = 0;
        for step in 0.. {
            let (orders, has_died) = self.orders(Some(step), &make, &act, &judge);
            all += orders;
            if !has_died {
                break;
            }
        }
        all
    }

    fn orders<M: Sync>(
        self,
        dies_in: Option<usize>,
        make: &impl Fn() -> M,
        act: &(impl Fn(&M, usize) + Sync),
        judge: &impl Fn(&M),
    ) -> (usize, bool) {
        let (mut choices, mut orders, mut has_died) = (Vec::new(), 0, false);
        loop {
            let run = Run {
                states: vec![State::Ready; self.processes],
                turn: 0,
                preemptions: self.preemptions,
                choices,
                chosen: 0,
                dies_in,
                is_dead: false,
            };
            let world = Arc::new(World {
                run: Mutex::new(run),
                turned: Condvar::new(),
            });
            let memory = make();
            std::thread::scope(|scope| {
                for number in 0..self.processes {
                    let (world, memory) = (Arc::clone(&world), &memory);
                    scope.spawn(move || live(Process { number, world }, || act(memory, number)));
                }
            });
            JUDGES.set(true);
            judge(&memory);
            JUDGES.set(false);
            orders += 1;
            let mut run = world.run.lock().unwrap();
            has_died |= run.is_dead;
            choices = std::mem::take(&mut run.choices);
            while choices.last().is_some_and(|(choice, of)| choice + 1 == *of) {
                choices.pop();
            }
            match choices.last_mut() {
                Some((choice, _)) => *choice += 1,
                None => return (orders, has_died),
            }
        }
    }
}

/// Be a process until it ends or dies.
fn live(process: Process, act: impl FnOnce()) {
    let (world, number) = (Arc::clone(&process.world), process.number);
    PROCESS.set(Some(process));
    let ended = catch_unwind(AssertUnwindSafe(act));
    PROCESS.take();
    let is_dead = IS_DEAD.take();
    world.pass_on(number, State::Over);
    if let Err(panic) = ended
        && !is_dead
    {
        resume_unwind(panic);
    }
}

impl World {
    /// Let the process whose turn it was, and is in `state`, wait for its next turn.
    fn pass_on(&self, number: usize, state: State) {
        let mut run = self.run.lock().unwrap();
        while run.turn != number {
            run = self.turned.wait(run).unwrap();
        }
        run.states[number] = state;
        run.choose();
        self.turned.notify_all();
        while state != State::Over && run.turn != number {
            run = self.turned.wait(run).unwrap();
        }
    }

    /// A step of a process. False if it dies before that.
    fn step(&self, number: usize) -> bool {
        self.pass_on(number, State::Ready);
        let mut run = self.run.lock().unwrap();
        if number == 0
            && let Some(steps) = run.dies_in
        {
            if steps == 0 {
                run.is_dead = true;
                return false;
            }
            run.dies_in = Some(steps - 1);
        }
        // What it does may be what others wait for.
        for (other, state) in run.states.iter_mut().enumerate() {
            if *state == State::Spinning && other != number {
                *state = State::Ready;
            }
        }
        true
    }
}

impl Run {
    /// Choose who takes the next step.
    fn choose(&mut self) {
        let is_in = |state: State| {
            let numbers =
                (1..=self.states.len()).map(|step| (self.turn + step) % self.states.len());
            numbers
                .filter(|number| self.states[*number] == state)
                .collect::<Vec<usize>>()
        };
        let mut ready = is_in(State::Ready);
        if self.states[self.turn] == State::Spinning {
            // In turns: the order of those that wait changes nothing.
            let spinning = is_in(State::Spinning);
            self.turn = *ready.first().unwrap_or(&spinning[0]);
            self.states[self.turn] = State::Ready;
            return;
        }
        if self.states[self.turn] == State::Ready {
            // Itself first: the others preempt it.
            ready.rotate_right(1);
            if self.preemptions == 0 {
                ready.truncate(1);
            }
        }
        if ready.is_empty() {
            ready = is_in(State::Spinning);
        }
        if ready.is_empty() {
            return;
        }
        if self.chosen == self.choices.len() {
            self.choices.push((0, ready.len()));
        }
        let next = ready[self.choices[self.chosen].0];
        self.chosen += 1;
        self.preemptions -=
            usize::from(self.states[self.turn] == State::Ready && next != self.turn);
        self.turn = next;
        self.states[next] = State::Ready;
    }
}

/// Give way before a step. False if the process of this thread is dead: it has no effect any more.
fn step() -> bool {
    if IS_DEAD.get() {
        return false;
    }
    let lives = PROCESS.with_borrow(|process| {
        process
            .as_ref()
            .is_none_or(|process| process.world.step(process.number))
    });
    if !lives {
        IS_DEAD.set(true);
        resume_unwind(Box::new("killed"));
    }
    true
}

/// Wait for a step of another process.
pub(crate) fn spin_loop() {
    PROCESS.with_borrow(|process| match process {
        Some(process) => process.world.pass_on(process.number, State::Spinning),
        None => std::hint::spin_loop(),
    });
}

/// Times that a process waits for a lock before it takes that over: few, for others that can go on
/// do so first.
pub(crate) fn patience(times: u32) -> u32 {
    let is_impatient = JUDGES.get() || PROCESS.with_borrow(Option::is_some);
    if is_impatient { times.min(2) } else { times }
}

/// Atomic integer that gives way before each step.
#[repr(transparent)]
#[derive(Debug, Default)]
pub(crate) struct AtomicU64(std::sync::atomic::AtomicU64);

impl AtomicU64 {
    pub(crate) const fn new(value: u64) -> Self {
        Self(std::sync::atomic::AtomicU64::new(value))
    }

    pub(crate) fn into_inner(self) -> u64 {
        self.0.into_inner()
    }

    pub(crate) fn load(&self, order: Ordering) -> u64 {
        step();
        self.0.load(order)
    }

    pub(crate) fn store(&self, value: u64, order: Ordering) {
        if step() {
            self.0.store(value, order);
        }
    }

    pub(crate) fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
        let value = if step() { value } else { 0 };
        self.0.fetch_add(value, order)
    }

    pub(crate) fn fetch_sub(&self, value: u64, order: Ordering) -> u64 {
        let value = if step() { value } else { 0 };
        self.0.fetch_sub(value, order)
    }

    pub(crate) fn fetch_or(&self, value: u64, order: Ordering) -> u64 {
        let value = if step() { value } else { 0 };
        self.0.fetch_or(value, order)
    }

    pub(crate) fn fetch_max(&self, value: u64, order: Ordering) -> u64 {
        let value = if step() { value } else { 0 };
        self.0.fetch_max(value, order)
    }

    pub(crate) fn compare_exchange(
        &self,
        from: u64,
        to: u64,
        order: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        let to = if step() { to } else { from };
        self.0.compare_exchange(from, to, order, failure)
    }

    pub(crate) fn fetch_update(
        &self,
        order: Ordering,
        failure: Ordering,
        mut change: impl FnMut(u64) -> Option<u64>,
    ) -> Result<u64, u64> {
        let mut seen = self.load(failure);
        while let Some(next) = change(seen) {
            match self.compare_exchange(seen, next, order, failure) {
                Ok(seen) => return Ok(seen),
                Err(now) => seen = now,
            }
        }
        Err(seen)
    }
}
