//! Who waits for whom: scopes, and what later commands in the same shell say about earlier jobs.

use std::collections::HashMap;

use super::{Candidate, Spot};
use crate::job::How;
use crate::syntax::ScopeKind;

struct Scope {
    parent: Option<usize>,
    kind: ScopeKind,
    /// The last `wait` or `fg`.
    last_wait: Option<usize>,
    /// The most explicit prefix of a command in it.
    asked: Option<How>,
    /// Which one the launcher finds by itself.
    found: Option<How>,
    nohup: Option<Nohup>,
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

enum Target {
    Last,
    All,
    Number(usize),
}

/// What the commands of a text say.
#[derive(Default)]
pub(super) struct Facts {
    scopes: Vec<Scope>,
    disowns: Vec<Disown>,
    /// The bodies that each name has had.
    functions: HashMap<Vec<u8>, Vec<usize>>,
    calls: Vec<(usize, Vec<u8>, usize)>,
    /// The text of functions is exported or printed.
    pub(super) leaks_functions: bool,
}

impl Facts {
    pub(super) fn scope(&mut self, parent: Option<usize>, kind: ScopeKind) -> usize {
        self.scopes.push(Scope {
            parent,
            kind,
            last_wait: None,
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
        self.scopes[body].parent = Some(scope);
        if let Some(name) = name {
            self.functions.entry(name.to_vec()).or_default().push(body);
        }
    }

    pub(super) fn wait(&mut self, scope: usize, at: usize) {
        let last = &mut self.scopes[scope].last_wait;
        *last = (*last).max(Some(at));
    }

    pub(super) fn call(&mut self, scope: usize, name: &[u8], at: usize) {
        self.calls.push((scope, name.to_vec(), at));
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
        candidates.sort_by_key(|candidate| (candidate.spot.start, usize::MAX - candidate.op));
        // A call of a function that waits is a wait. Twice, for a function that calls such a one.
        for _ in 0..2 {
            for (scope, name, at) in std::mem::take(&mut self.calls) {
                if let Some(bodies) = self.functions.get(&name) {
                    let mut bodies = bodies.iter();
                    if bodies.any(|body| self.scopes[*body].last_wait.is_some()) {
                        self.wait(scope, at);
                    }
                    self.calls.push((scope, name, at));
                }
            }
        }
        let (captured, in_function) = self.inherit();
        let mut in_scope: HashMap<usize, Vec<usize>> = HashMap::new();
        for (index, candidate) in candidates.iter().enumerate() {
            in_scope.entry(candidate.scope).or_default().push(index);
        }
        for indices in in_scope.values_mut() {
            indices.sort_by_key(|index| candidates[*index].op);
        }
        let mut disowned: Vec<Option<bool>> = candidates
            .iter()
            .map(|candidate| candidate.disowned.then_some(false))
            .collect();
        for disown in &self.disowns {
            let Some(all) = in_scope.get(&disown.scope) else {
                continue;
            };
            let before = all.partition_point(|index| candidates[*index].op < disown.at);
            for target in &disown.targets {
                let chosen = match target {
                    Target::All => &all[..before],
                    Target::Number(nth) if *nth >= 1 && *nth <= before => &all[nth - 1..*nth],
                    _ => &all[before.saturating_sub(1)..before],
                };
                for index in chosen {
                    disowned[*index] = Some(disown.keeps && disowned[*index] != Some(false));
                }
            }
        }
        let mut is_job = vec![false; self.scopes.len()];
        for (candidate, disowned) in candidates.iter_mut().zip(&disowned) {
            let spot = &mut candidate.spot;
            spot.attended = captured[candidate.scope]
                || (*disowned != Some(false) && self.waited(candidate.scope, candidate.op));
            spot.untouchable = self.leaks_functions && in_function[candidate.scope];
            is_job[candidate.inner] = !spot.attended && !spot.untouchable;
        }
        let says = |how| {
            let scopes = &self.scopes;
            move |scope: usize| scopes[scope].asked == Some(how)
        };
        let nohup = self.reached(&is_job, false, says(How::Nohup));
        let setsid = self.reached(&is_job, false, says(How::Setsid));
        let pipe = self.reached(&is_job, true, |scope| match self.scopes[scope].nohup {
            Some(Nohup::Runs) => true,
            // The launcher runs nothing but jobs.
            Some(Nohup::Taken) => !is_job[scope],
            None => false,
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
        let mut callers: HashMap<usize, Vec<usize>> = HashMap::new();
        for body in self.functions.values().flatten() {
            callers.entry(*body).or_default();
        }
        for (scope, name, _) in &self.calls {
            for body in self.functions.get(name).into_iter().flatten() {
                callers.entry(*body).or_default().push(*scope);
            }
        }
        while let Some(at) = next.pop() {
            if std::mem::replace(&mut seen[at], true) {
                continue;
            }
            let scope = &self.scopes[at];
            if let Some(callers) = callers.get(&at) {
                next.extend(callers);
            } else if !is_job[at] && (captured || scope.kind != ScopeKind::Captured) {
                next.extend(scope.parent);
            }
        }
        seen
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
                at = self.scopes[here].parent;
            }
            while let Some(here) = path.pop() {
                let found = &self.scopes[here];
                let above = found.parent;
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
            if found.last_wait.is_some_and(|last| last > at) {
                return true;
            }
            match found.parent {
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
