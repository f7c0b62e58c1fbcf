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
    functions: HashMap<Vec<u8>, usize>,
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
        });
        self.scopes.len() - 1
    }

    pub(super) fn set_scope(&mut self, scope: usize, parent: Option<usize>, kind: ScopeKind) {
        self.scopes[scope].parent = parent;
        self.scopes[scope].kind = kind;
    }

    pub(super) fn function(&mut self, name: Option<&[u8]>, scope: usize, body: usize) {
        self.scopes[body].parent = Some(scope);
        if let Some(name) = name {
            self.functions.insert(name.to_vec(), body);
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
        *asked = more_explicit(*asked, Some(how));
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
                if let Some(body) = self.functions.get(&name) {
                    if self.scopes[*body].last_wait.is_some() {
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
        let mut asked = vec![None; self.scopes.len()];
        for (scope, found) in self.scopes.iter().enumerate() {
            if let Some(runner) = self.runner(scope).filter(|_| found.asked.is_some()) {
                asked[runner] = more_explicit(asked[runner], found.asked);
            }
        }
        let mut spots = Vec::with_capacity(candidates.len());
        for (candidate, disowned) in candidates.into_iter().zip(disowned) {
            let mut spot = candidate.spot;
            let how = more_explicit(asked[candidate.inner], disowned.map(|_| How::Disown));
            spot.how = how.unwrap_or(How::Ampersand);
            spot.attended = captured[candidate.scope]
                || (disowned != Some(false) && self.waited(candidate.scope, candidate.op));
            spot.untouchable = self.leaks_functions && in_function[candidate.scope];
            spots.push(spot);
        }
        spots
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

    /// The background list that a scope is part of, unless a substitution or a shell of its own
    /// stands between.
    fn runner(&self, scope: usize) -> Option<usize> {
        let mut at = scope;
        loop {
            match self.scopes[at].kind {
                ScopeKind::Background => return Some(at),
                ScopeKind::Shell | ScopeKind::Captured => return None,
                _ => at = self.scopes[at].parent?,
            }
        }
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

fn more_explicit(one: Option<How>, other: Option<How>) -> Option<How> {
    let rank = |how: &Option<How>| match how {
        Some(How::Nohup) => 4,
        Some(How::Setsid) => 3,
        Some(How::Disown) => 2,
        Some(_) => 1,
        None => 0,
    };
    if rank(&other) > rank(&one) {
        other
    } else {
        one
    }
}
