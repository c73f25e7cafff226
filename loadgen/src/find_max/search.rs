//! The search for the highest sustainable rate, without anything that measures.
//!
//! The rate doubles until it fails, and the gap between the best and the failed one is halved in
//! logarithms until it is as narrow as wanted. Then the best rate must pass again, a few times in a
//! row: a rate near the edge passes now and then by luck. If it does not, it counts as failed,
//! and the search goes on below it, from the best rate that has never failed.

/// What a try gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The rate was sustained.
    Passed,
    /// It was not.
    Failed,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// Try this rate.
    Try {
        /// Per second.
        rate: f64,
        /// It has passed before.
        confirms: bool,
    },
    /// The search is over.
    Found {
        /// The highest rate that passed every time; none if none did.
        best: Option<f64>,
        /// The lowest that failed; none if none did.
        failed: Option<f64>,
    },
}

/// How to search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// The first rate.
    pub start: f64,
    /// Rates above are not tried.
    pub limit: f64,
    /// The gap that ends the search: 0.05 is 5 %.
    pub precision: f64,
    /// Times that the best rate must pass again.
    pub confirmations: u32,
    /// Rates below this part of the first one are not tried.
    pub floor: f64,
}

/// A search that goes on.
#[derive(Clone, Debug)]
pub struct Search {
    plan: Plan,
    /// Rates that passed, ascending; those that failed later are not among them.
    passed: Vec<f64>,
    failed: Option<f64>,
    confirmed: u32,
}

impl Search {
    /// Nothing is tried yet.
    #[must_use]
    pub const fn new(plan: Plan) -> Self {
        Self {
            plan,
            passed: Vec::new(),
            failed: None,
            confirmed: 0,
        }
    }

    /// What comes next.
    #[must_use]
    pub fn next(&self) -> Step {
        let best = self.passed.last().copied();
        let explore = |rate| Step::Try {
            rate,
            confirms: false,
        };
        let rate = match (best, self.failed) {
            (None, None) => return explore(self.plan.start),
            (Some(best), None) => (best * 2.0).min(self.plan.limit),
            (None, Some(failed)) => failed / 2.0,
            (Some(best), Some(failed)) => (best * failed).sqrt(),
        };
        let Some(best) = best else {
            let is_hopeless = rate < self.plan.start * self.plan.floor;
            return if is_hopeless {
                self.found()
            } else {
                explore(rate)
            };
        };
        let reach = self.failed.unwrap_or(self.plan.limit);
        if reach > best * (1.0 + self.plan.precision) {
            explore(rate)
        } else if self.confirmed < self.plan.confirmations {
            Step::Try {
                rate: best,
                confirms: true,
            }
        } else {
            self.found()
        }
    }

    /// What the last step gave.
    pub fn tell(&mut self, step: Step, outcome: Outcome) {
        let Step::Try { rate, confirms } = step else {
            return;
        };
        match outcome {
            Outcome::Passed if confirms => self.confirmed += 1,
            Outcome::Passed => {
                self.passed.push(rate);
                self.confirmed = 0;
            }
            Outcome::Failed => {
                self.passed.retain(|passed| *passed < rate);
                self.failed = Some(self.failed.map_or(rate, |failed| failed.min(rate)));
                self.confirmed = 0;
            }
        }
    }

    fn found(&self) -> Step {
        Step::Found {
            best: self.passed.last().copied(),
            failed: self.failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan = Plan {
        start: 1000.0,
        limit: 1e6,
        precision: 0.05,
        confirmations: 2,
        floor: 1.0 / 64.0,
    };

    /// Searches with what `sustains` says of the number of the try and its rate.
    fn search(plan: Plan, sustains: impl Fn(usize, f64) -> bool) -> (Vec<f64>, Step) {
        let mut search = Search::new(plan);
        let mut tried = Vec::new();
        loop {
            let step = search.next();
            let Step::Try { rate, .. } = step else {
                return (tried, step);
            };
            let outcome = [Outcome::Failed, Outcome::Passed];
            search.tell(step, outcome[usize::from(sustains(tried.len(), rate))]);
            tried.push(rate);
            assert!(tried.len() < 100, "it does not end: {tried:?}");
        }
    }

    fn ends(step: Step) -> (Option<f64>, Option<f64>) {
        match step {
            Step::Found { best, failed } => (best, failed),
            Step::Try { .. } => (None, None),
        }
    }

    #[test]
    fn the_edge_is_between_the_best_and_the_failed_rate() {
        let (tried, step) = search(PLAN, |_, rate| rate <= 5000.0);
        assert_eq!(tried[..4], [1000.0, 2000.0, 4000.0, 8000.0]);
        assert!(
            (tried[4] - 5656.85).abs() < 0.01,
            "in logarithms: {tried:?}"
        );
        let (Some(best), Some(failed)) = ends(step) else {
            panic!("{step:?}")
        };
        assert!(best <= 5000.0 && failed > 5000.0, "{best} {failed}");
        assert!(failed <= best * 1.05, "{best} {failed}");
        let confirmations = tried.iter().filter(|rate| **rate == best).count();
        assert_eq!(confirmations, 3, "the find and two more: {tried:?}");
    }

    #[test]
    fn a_start_that_is_too_high_is_halved() {
        let (tried, step) = search(PLAN, |_, rate| rate <= 300.0);
        assert_eq!(tried[..3], [1000.0, 500.0, 250.0]);
        assert!(
            ends(step)
                .0
                .is_some_and(|best| best > 280.0 && best <= 300.0)
        );
        let (tried, step) = search(PLAN, |_, _| false);
        assert_eq!(ends(step), (None, Some(15.625)), "{tried:?}");
    }

    #[test]
    fn what_passed_by_luck_is_taken_back() {
        // 4000 passes once, as the third try; the edge is at 3000.
        let (tried, step) = search(PLAN, |number, rate| number == 2 || rate <= 3000.0);
        let (Some(best), Some(failed)) = ends(step) else {
            panic!("{step:?}")
        };
        assert_eq!(tried[2], 4000.0);
        assert!(
            best <= 3000.0 && failed > 3000.0 && failed < 4000.0,
            "{best} {failed}"
        );
        assert!(failed <= best * 1.05, "{best} {failed}");
    }

    #[test]
    fn nothing_beyond_the_limit_is_tried() {
        let plan = Plan {
            limit: 3000.0,
            ..PLAN
        };
        let (tried, step) = search(plan, |_, _| true);
        assert_eq!(tried, [1000.0, 2000.0, 3000.0, 3000.0, 3000.0]);
        assert_eq!(ends(step), (Some(3000.0), None));
    }
}
