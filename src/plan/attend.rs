//! Who waits for whom: scopes, and what later commands in the same shell say about earlier jobs.

use std::collections::HashMap;

use super::names::{Callers, Defined, Named, Names};
use super::{Candidate, Spot};
use crate::job::How;
use crate::syntax::ScopeKind;
use crate::syntax::log::Log;

/// There may be one for every two bytes of a text, so numbers are short here.
struct Scope {
    /// `u32::MAX` if there is none.
    parent: u32,
    /// One more than the place of the last `wait` or `fg`; 0 if there is none.
    last_wait: u32,
    kind: ScopeKind,
    /// The most explicit prefix of a command in it.
    asked: Option<How>,
    /// Which one the launcher finds by itself.
    found: Option<How>,
    nohup: Option<Nohup>,
}

impl Scope {
    fn parent(&self) -> Option<usize> {
        (self.parent != u32::MAX).then_some(self.parent as usize)
    }
}

fn small(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// A `nohup` among the commands of a scope.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Nohup {
    /// The launcher takes it out, if it runs that command.
    Taken,
    /// It runs.
    Runs,
}

struct Disown {
    scope: usize,
    at: usize,
    targets: Vec<Target>,
    /// `-h` keeps the job in the shell's table, where `wait` still finds it.
    keeps: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    Last,
    All,
    Number(u32),
}

/// What the commands of a text say.
#[derive(Default)]
pub(super) struct Facts {
    scopes: Log<Scope>,
    disowns: Vec<Disown>,
    names: Names,
    functions: Log<Named>,
    calls: Log<Named>,
    /// The text of functions is exported or printed.
    pub(super) leaks_functions: bool,
    /// What is printed if it is a function.
    printed: Log<Named>,
    /// Words with expansions are among it.
    prints_unknown: bool,
}

impl Facts {
    pub(super) fn scope(&mut self, parent: Option<usize>, kind: ScopeKind) -> usize {
        self.scopes.push(Scope {
            parent: parent.map_or(u32::MAX, small),
            last_wait: 0,
            kind,
            asked: None,
            found: None,
            nohup: None,
        });
        self.scopes.len() - 1
    }

    /// How many there are: the number that the next one gets.
    pub(super) fn scopes(&self) -> usize {
        self.scopes.len()
    }

    pub(super) fn function(&mut self, name: Option<&[u8]>, scope: usize, body: usize) {
        self.scopes[body].parent = small(scope);
        if let Some(name) = name {
            let named = self.names.add(name, body, 0);
            self.functions.push(named);
        }
    }

    pub(super) fn wait(&mut self, scope: usize, at: usize) {
        let last = &mut self.scopes[scope].last_wait;
        *last = (*last).max(small(at).saturating_add(1));
    }

    pub(super) fn call(&mut self, scope: usize, name: &[u8], at: usize) {
        let named = self.names.add(name, scope, at);
        self.calls.push(named);
    }

    /// The text of this function, if it is one, is printed; `None` for a word with expansions.
    pub(super) fn printed(&mut self, name: Option<&[u8]>) {
        match name {
            Some(name) => {
                let named = self.names.add(name, 0, 0);
                self.printed.push(named);
            }
            None => self.prints_unknown = true,
        }
    }

    /// Whether the text of a function of ours is printed.
    fn prints_functions(&self) -> bool {
        if self.prints_unknown || self.printed.is_empty() {
            return self.prints_unknown;
        }
        let functions = self.functions.iter().map(|named| self.names.get(named));
        let functions: std::collections::HashSet<&[u8]> = functions.collect();
        let mut printed = self.printed.iter();
        printed.any(|named| functions.contains(self.names.get(named)))
    }

    pub(super) fn asked(&mut self, scope: usize, how: How) {
        let asked = &mut self.scopes[scope].asked;
        *asked = Some(how.or_more_explicit(*asked));
    }

    pub(super) fn found(&mut self, scope: usize, how: Option<How>) {
        self.scopes[scope].found = how;
    }

    /// A `nohup` in that scope; `hidden` says that the launcher would not take it out.
    pub(super) fn nohup(&mut self, scope: usize, hidden: bool) {
        let nohup = &mut self.scopes[scope].nohup;
        if hidden {
            *nohup = Some(Nohup::Runs);
        } else {
            nohup.get_or_insert(Nohup::Taken);
        }
    }

    pub(super) fn disown(&mut self, scope: usize, at: usize, arguments: &[Option<Vec<u8>>]) {
        let mut targets = Vec::new();
        let mut keeps = false;
        let mut all = false;
        for argument in arguments {
            match argument.as_deref() {
                Some([b'-', letters @ ..]) if !letters.is_empty() => {
                    keeps |= letters.contains(&b'h');
                    all |= letters.contains(&b'a') || letters.contains(&b'r');
                }
                Some([b'%', digits @ ..]) => targets.push(number(digits)),
                // Once more would change nothing.
                _ if targets.last() == Some(&Target::Last) => {}
                _ => targets.push(Target::Last),
            }
        }
        if targets.is_empty() {
            targets.push(if all { Target::All } else { Target::Last });
        }
        self.disowns.push(Disown {
            scope,
            at,
            targets,
            keeps,
        });
    }

    /// Decides for every candidate.
    pub(super) fn settle(mut self, mut candidates: Vec<Candidate>) -> Vec<Spot> {
        candidates.sort_unstable_by_key(|candidate| {
            let Candidate { spot, op, .. } = candidate;
            (spot.start, usize::MAX - op, spot.level)
        });
        self.leaks_functions |= self.prints_functions();
        let callers = self.resolve_calls();
        let (captured, in_function) = self.inherit();
        let mut disowned: Vec<Option<bool>> = candidates
            .iter()
            .map(|candidate| candidate.disowned.then_some(false))
            .collect();
        self.disown_all(&candidates, &mut disowned);
        let mut is_job = vec![false; self.scopes.len()];
        for (candidate, disowned) in candidates.iter_mut().zip(&disowned) {
            let spot = &mut candidate.spot;
            spot.attended = candidate.is_native
                || captured[candidate.scope]
                || (*disowned != Some(false) && self.waited(candidate.scope, candidate.op));
            spot.untouchable |= self.leaks_functions && in_function[candidate.scope];
            is_job[candidate.inner] = !spot.attended && !spot.untouchable;
        }
        let says = |how| {
            let scopes = &self.scopes;
            move |scope: usize| scopes[scope].asked == Some(how)
        };
        let nohup = self.reached(&callers, &is_job, false, says(How::Nohup));
        let setsid = self.reached(&callers, &is_job, false, says(How::Setsid));
        let pipe = self.reached(&callers, &is_job, true, |scope| {
            match self.scopes[scope].nohup {
                Some(Nohup::Runs) => true,
                // The launcher runs nothing but jobs.
                Some(Nohup::Taken) => !is_job[scope],
                None => false,
            }
        });
        let mut spots = Vec::with_capacity(candidates.len());
        for (candidate, disowned) in candidates.into_iter().zip(disowned) {
            let mut spot = candidate.spot;
            let inner = candidate.inner;
            let disowned = disowned.map(|_| How::Disown);
            spot.how = How::Ampersand
                .or_more_explicit(disowned)
                .or_more_explicit(setsid[inner].then_some(How::Setsid))
                .or_more_explicit(nohup[inner].then_some(How::Nohup));
            spot.pipe = pipe[inner];
            spot.is_plain = Some(spot.how) == self.scopes[inner].found;
            spots.push(spot);
        }
        spots
    }

    /// The scopes that run what such a scope does, unless it is a job of its own: through functions,
    /// subshells and shells; where somebody reads what it prints, only if `captured` is set.
    fn reached(
        &self,
        callers: &Callers,
        is_job: &[bool],
        captured: bool,
        is_source: impl Fn(usize) -> bool,
    ) -> Vec<bool> {
        let mut seen = vec![false; self.scopes.len()];
        let mut next: Vec<usize> = (0..self.scopes.len())
            .filter(|scope| is_source(*scope))
            .collect();
        if next.is_empty() {
            return seen;
        }
        let mut called = vec![false; callers.names()];
        while let Some(at) = next.pop() {
            if std::mem::replace(&mut seen[at], true) {
                continue;
            }
            let scope = &self.scopes[at];
            if let Some(name) = callers.name_of(at) {
                // All bodies of one name have the same callers.
                if !std::mem::replace(&mut called[name], true) {
                    next.extend(callers.of(name));
                }
            } else if !is_job[at] && (captured || scope.kind != ScopeKind::Captured) {
                next.extend(scope.parent());
            }
        }
        seen
    }

    /// A call of a function that waits is a wait. Twice, for a function that calls such a one.
    fn resolve_calls(&mut self) -> Callers {
        let functions = std::mem::take(&mut self.functions);
        let defined = Defined::new(functions, &self.names);
        let calls = defined.keep_known(std::mem::take(&mut self.calls), &self.names);
        let mut waits = vec![false; defined.names()];
        for (body, name) in defined.bodies() {
            waits[name] |= self.scopes[body].last_wait > 0;
        }
        for _ in 0..2 {
            for call in &calls {
                if call.is_idle(&waits) {
                    continue;
                }
                self.wait(call.scope(), call.at());
                if let Some(name) = defined.name_of(call.scope()) {
                    waits[name] = true;
                }
            }
        }
        Callers::new(defined, calls)
    }

    /// Applies every `disown` to the jobs before it.
    fn disown_all(&self, candidates: &[Candidate], disowned: &mut [Option<bool>]) {
        let mut order: Vec<u32> = (0..small(candidates.len())).collect();
        order.sort_unstable_by_key(|index| {
            let candidate = &candidates[*index as usize];
            (candidate.scope, candidate.op)
        });
        // How many of a scope's jobs a `disown -a` has reached already, with and without `-h`.
        let mut reached: HashMap<(usize, bool), usize> = HashMap::new();
        for disown in &self.disowns {
            let scope = |index: &u32| candidates[*index as usize].scope;
            let start = order.partition_point(|index| scope(index) < disown.scope);
            let end = order.partition_point(|index| scope(index) <= disown.scope);
            let all = &order[start..end];
            let before = all.partition_point(|index| candidates[*index as usize].op < disown.at);
            for target in &disown.targets {
                let chosen = match target {
                    Target::All => {
                        let reached = reached.entry((disown.scope, disown.keeps)).or_default();
                        let from = std::mem::replace(reached, before.max(*reached));
                        all.get(from..before).unwrap_or_default()
                    }
                    Target::Number(nth) if *nth >= 1 && *nth as usize <= before => {
                        &all[*nth as usize - 1..*nth as usize]
                    }
                    _ => &all[before.saturating_sub(1)..before],
                };
                for index in chosen {
                    let disowned = &mut disowned[*index as usize];
                    *disowned = Some(disown.keeps && *disowned != Some(false));
                }
            }
        }
    }

    /// For every scope, whether somebody reads its output, and whether it is in a function.
    fn inherit(&self) -> (Vec<bool>, Vec<bool>) {
        let mut captured = vec![None; self.scopes.len()];
        let mut in_function = vec![false; self.scopes.len()];
        let mut path = Vec::new();
        for scope in 0..self.scopes.len() {
            let mut at = Some(scope);
            while let Some(here) = at.filter(|here| captured[*here].is_none()) {
                path.push(here);
                at = self.scopes[here].parent();
            }
            while let Some(here) = path.pop() {
                let found = &self.scopes[here];
                let above = found.parent();
                let inherited = above.is_some_and(|above| captured[above] == Some(true));
                captured[here] = Some(
                    inherited || matches!(found.kind, ScopeKind::Captured | ScopeKind::Segment),
                );
                in_function[here] = above.is_some_and(|above| in_function[above])
                    || found.kind == ScopeKind::Function;
            }
        }
        let captured = captured.into_iter().map(|is| is == Some(true)).collect();
        (captured, in_function)
    }

    /// Whether the shell of `scope` waits after `at`. A function's jobs are also waited for by
    /// whoever defines it and waits later.
    fn waited(&self, scope: usize, at: usize) -> bool {
        let mut scope = scope;
        loop {
            let found = &self.scopes[scope];
            if found.last_wait as usize > at.saturating_add(1) {
                return true;
            }
            match found.parent() {
                Some(parent) if found.kind == ScopeKind::Function => scope = parent,
                _ => return false,
            }
        }
    }
}

fn number(digits: &[u8]) -> Target {
    std::str::from_utf8(digits)
        .ok()
        .and_then(|digits| digits.parse().ok())
        .map_or(Target::Last, Target::Number)
}
