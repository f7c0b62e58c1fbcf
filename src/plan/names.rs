//! Names of functions, where they are defined and where they are called.
//!
//! A text may define and call a function in every few bytes, all of one name or each of another: what
//! is kept is short, and nothing is compared with everything.

use crate::syntax::log::Log;

/// The bytes of names, one behind the other.
#[derive(Default)]
pub(super) struct Names(Vec<u8>);

/// A name and what it stands for: the body of a function, or a call in some scope.
#[derive(Clone, Copy)]
pub(super) struct Named {
    start: u32,
    end: u32,
    scope: u32,
    at: u32,
}

impl Names {
    pub(super) fn add(&mut self, name: &[u8], scope: usize, at: usize) -> Named {
        // Commands are often repeated.
        if !self.0.ends_with(name) {
            self.0.extend_from_slice(name);
        }
        let end = self.0.len();
        let number = |number| u32::try_from(number).unwrap_or(u32::MAX);
        Named {
            start: number(end - name.len()),
            end: number(end),
            scope: number(scope),
            at: number(at),
        }
    }

    pub(super) fn get(&self, named: &Named) -> &[u8] {
        &self.0[named.start as usize..named.end as usize]
    }
}

/// A call of a function that is defined somewhere.
pub(super) struct Call {
    scope: u32,
    at: u32,
    name: u32,
}

impl Call {
    pub(super) fn scope(&self) -> usize {
        self.scope as usize
    }

    pub(super) fn at(&self) -> usize {
        self.at as usize
    }

    /// Whether no body of that name waits.
    pub(super) fn is_idle(&self, waits: &[bool]) -> bool {
        !waits[self.name as usize]
    }
}

/// The functions of a text. Those of one name have one number.
pub(super) struct Defined {
    /// One of each name, in order of the names: the number is the place.
    names: Vec<Named>,
    /// Body and number, in order of the bodies.
    bodies: Vec<(u32, u32)>,
}

impl Defined {
    pub(super) fn new(functions: Log<Named>, names: &Names) -> Self {
        let mut all = Vec::with_capacity(functions.len());
        all.extend(functions);
        all.sort_unstable_by(|a, b| names.get(a).cmp(names.get(b)));
        let mut bodies = Vec::with_capacity(all.len());
        let mut number = 0;
        for (at, named) in all.iter().enumerate() {
            if at > 0 && names.get(named) != names.get(&all[at - 1]) {
                number += 1;
            }
            bodies.push((named.scope, number));
        }
        bodies.sort_unstable();
        all.dedup_by(|a, b| names.get(a) == names.get(b));
        Self { names: all, bodies }
    }

    pub(super) fn names(&self) -> usize {
        self.names.len()
    }

    pub(super) fn bodies(&self) -> impl Iterator<Item = (usize, usize)> {
        let wide = |(body, name): &(u32, u32)| (*body as usize, *name as usize);
        self.bodies.iter().map(wide)
    }

    /// The number of the name whose body that scope is.
    pub(super) fn name_of(&self, scope: usize) -> Option<usize> {
        let at = self
            .bodies
            .binary_search_by_key(&scope, |(body, _)| *body as usize);
        at.ok().map(|at| self.bodies[at].1 as usize)
    }

    pub(super) fn keep_known(&self, calls: Log<Named>, names: &Names) -> Log<Call> {
        let mut known = Log::default();
        for call in calls {
            let name = names.get(&call);
            let number = self
                .names
                .binary_search_by(|named| names.get(named).cmp(name));
            if let Ok(number) = number {
                known.push(Call {
                    scope: call.scope,
                    at: call.at,
                    name: u32::try_from(number).unwrap_or(u32::MAX),
                });
            }
        }
        known
    }
}

/// Who calls which function.
pub(super) struct Callers {
    defined: Defined,
    /// Number of the name and the scope that calls it, in order.
    calls: Vec<(u32, u32)>,
}

impl Callers {
    pub(super) fn new(defined: Defined, known: Log<Call>) -> Self {
        let mut calls = Vec::with_capacity(known.len());
        calls.extend(known.into_iter().map(|call| (call.name, call.scope)));
        calls.sort_unstable();
        calls.dedup();
        Self { defined, calls }
    }

    pub(super) fn names(&self) -> usize {
        self.defined.names()
    }

    pub(super) fn name_of(&self, scope: usize) -> Option<usize> {
        self.defined.name_of(scope)
    }

    pub(super) fn of(&self, name: usize) -> impl Iterator<Item = usize> {
        let start = self
            .calls
            .partition_point(|(called, _)| (*called as usize) < name);
        let calls = self.calls[start..].iter();
        calls
            .take_while(move |(called, _)| *called as usize == name)
            .map(|(_, scope)| *scope as usize)
    }
}
