//! Results as a picture: the whole distribution, and the run second by second.
//!
//! Several runs share the axes, so that two servers, or one before and after a change, can be
//! compared at a glance. Latencies are on a logarithmic scale, percentiles on one of nines.

use crate::result::{RunResult, Second};
use crate::svg::{Anchor, Svg};
use crate::units::latency_text;

const WIDTH: f64 = 960.0;
const PANEL_HEIGHT: f64 = 360.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 50.0;
const GRID: &str = "#dddddd";
const STORM: &str = "#f6ecd9";
const COLOURS: [&str; 6] = [
    "#1b6ca8", "#c8553d", "#3a7d44", "#7b4ba0", "#b8860b", "#444444",
];

/// One run of the picture.
#[derive(Clone, Debug)]
pub struct Run {
    /// What it is called in the picture.
    pub name: String,
    /// What came of it.
    pub result: RunResult,
}

/// Draws these runs. `op` names the kind of request of the distribution.
#[must_use]
pub fn plot(runs: &[Run], op: &str) -> String {
    let mut svg = Svg::new(WIDTH, 2.0 * PANEL_HEIGHT);
    draw_distribution(&mut svg, runs, op);
    draw_time_line(&mut svg, runs);
    svg.finish()
}

/// The frame of one panel and how values become pixels.
struct Panel {
    top: f64,
    low: f64,
    high: f64,
    x_from: f64,
    x_to: f64,
}

impl Panel {
    /// For values between these microseconds, widened to whole powers of ten.
    fn new(top: f64, values: impl Iterator<Item = u64>, x_from: f64, x_to: f64) -> Self {
        let (mut low, mut high) = (u64::MAX, 1);
        for value in values.filter(|value| *value > 0) {
            low = low.min(value);
            high = high.max(value);
        }
        let low = if low == u64::MAX { 1 } else { low };
        Self {
            top,
            low: (low as f64).log10().floor(),
            high: (high as f64)
                .log10()
                .ceil()
                .max((low as f64).log10().floor() + 1.0),
            x_from,
            x_to: if x_to > x_from { x_to } else { x_from + 1.0 },
        }
    }

    fn x(&self, value: f64) -> f64 {
        let share = (value - self.x_from) / (self.x_to - self.x_from);
        LEFT + share.clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, us: u64) -> f64 {
        let share = ((us.max(1) as f64).log10() - self.low) / (self.high - self.low);
        self.floor() - share.clamp(0.0, 1.0) * (PANEL_HEIGHT - TOP - BOTTOM)
    }

    fn floor(&self) -> f64 {
        self.top + PANEL_HEIGHT - BOTTOM
    }

    fn draw_axes(&self, svg: &mut Svg, title: &str, ticks: &[(f64, String)]) {
        svg.text((LEFT, self.top + 18.0), Anchor::Start, title);
        for power in self.low as i32..=self.high as i32 {
            let us = 10_u64.pow(power.clamp(0, 18) as u32);
            let y = self.y(us);
            svg.line((LEFT, y), (WIDTH - RIGHT, y), GRID);
            svg.text((LEFT - 6.0, y + 4.0), Anchor::End, &latency_text(us));
        }
        for (value, name) in ticks {
            let x = self.x(*value);
            svg.line((x, self.top + TOP), (x, self.floor()), GRID);
            svg.text((x, self.floor() + 16.0), Anchor::Middle, name);
        }
    }
}

/// Where a percentile stands on a scale on which each further nine takes the same room.
fn nines(percent: f64) -> f64 {
    -(1.0 - percent.min(99.9999) / 100.0).log10()
}

fn draw_distribution(svg: &mut Svg, runs: &[Run], op: &str) {
    let curves: Vec<&[(f64, u64)]> = runs
        .iter()
        .map(|run| {
            let of_op = run.result.ops.iter().find(|one| one.name == op);
            of_op.map_or(&[][..], |one| &one.curve[..])
        })
        .collect();
    let values = curves
        .iter()
        .flat_map(|curve| curve.iter().map(|(_, us)| *us));
    let panel = Panel::new(0.0, values, 0.0, nines(99.999));
    let ticks = [0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999]
        .map(|percent| (nines(percent), format!("{percent} %")));
    panel.draw_axes(svg, &format!("{op}: response by percentile"), &ticks);
    for (index, (run, curve)) in runs.iter().zip(curves).enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let points: Vec<(f64, f64)> = curve
            .iter()
            .map(|(percent, us)| (panel.x(nines(*percent)), panel.y(*us)))
            .collect();
        svg.curve(&points, colour, "");
        draw_legend(svg, index, colour, &legend(run));
    }
}

fn legend(run: &Run) -> String {
    let flags = &run.result.provenance.flags;
    let scenario = flags
        .first()
        .map_or("", |flag| flag.trim_start_matches("--scenario="));
    let verdict = run.result.verdict.text();
    format!("{} ({scenario}, {verdict})", run.name)
}

fn draw_legend(svg: &mut Svg, index: usize, colour: &str, text: &str) {
    let y = 34.0 + 15.0 * index as f64;
    let x = LEFT + 12.0;
    svg.rectangle((x, y - 9.0), (10.0, 10.0), colour);
    svg.text((x + 16.0, y), Anchor::Start, text);
}

fn draw_time_line(svg: &mut Svg, runs: &[Run]) {
    let series = || runs.iter().flat_map(|run| &run.result.series);
    let from = series().map(|second| second.at_s).fold(0.0, f64::min);
    let to = series().map(|second| second.at_s).fold(1.0, f64::max);
    let shown = series().flat_map(|second| [second.p50_us, second.p99_us, second.own_p99_us]);
    let panel = Panel::new(PANEL_HEIGHT, shown, from, to);
    if let Some((begin, end)) = runs.iter().find_map(|run| run.result.storm.window_s) {
        let (left, right) = (panel.x(begin), panel.x(end));
        let height = PANEL_HEIGHT - TOP - BOTTOM;
        svg.rectangle((left, panel.top + TOP), (right - left, height), STORM);
    }
    let step = ((to - from) / 10.0).ceil().max(1.0);
    let first = (from / step).ceil() as i64;
    let last = (to / step).floor() as i64;
    let ticks: Vec<(f64, String)> = (first..=last)
        .map(|tick| (tick as f64 * step, format!("{} s", tick as f64 * step)))
        .collect();
    let title = "all requests by second: p99 (line), p50 (dashes), own p99 (dots); shaded: storm";
    panel.draw_axes(svg, title, &ticks);
    for (index, run) in runs.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let mut draw = |value: fn(&Second) -> u64, dashes: &str| {
            let seconds = run
                .result
                .series
                .iter()
                .filter(|second| second.answered > 0);
            let points: Vec<(f64, f64)> = seconds
                .map(|second| (panel.x(second.at_s), panel.y(value(second))))
                .collect();
            svg.curve(&points, colour, dashes);
        };
        draw(|second| second.p99_us, "");
        draw(|second| second.p50_us, "6 3");
        draw(|second| second.own_p99_us, "1 3");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svg::check_xml;

    fn run(name: &str) -> Run {
        Run {
            name: name.to_owned(),
            result: crate::result::tests::example(),
        }
    }

    #[test]
    fn a_picture_of_two_runs_is_well_formed_and_has_all_curves() {
        let picture = plot(&[run("ours"), run("java <5.3.3> & co")], "105 route");
        assert_eq!(check_xml(&picture), Ok(()));
        // For each run: one distribution, three lines over time.
        assert_eq!(picture.matches("<polyline").count(), 8);
        assert!(picture.contains("java &lt;5.3.3&gt; &amp; co"));
        assert!(picture.contains("99.99 %") && picture.contains(STORM));
        assert!(!picture.contains("NaN") && !picture.contains("inf"));
    }

    #[test]
    fn higher_is_slower_and_further_right_is_rarer() {
        let panel = Panel::new(0.0, [10, 100_000].into_iter(), 0.0, nines(99.999));
        assert!(panel.y(100_000) < panel.y(1000) && panel.y(1000) < panel.y(10));
        assert_eq!(
            (panel.y(10), panel.y(100_000)),
            (PANEL_HEIGHT - BOTTOM, TOP)
        );
        assert_eq!(
            (panel.x(nines(0.0)), panel.x(nines(99.999))),
            (LEFT, WIDTH - RIGHT)
        );
        let gaps = [90.0, 99.0, 99.9].map(|percent| panel.x(nines(percent)));
        assert!((gaps[2] - gaps[1] - (gaps[1] - gaps[0])).abs() < 0.01);
    }

    #[test]
    fn nothing_at_all_is_still_a_picture() {
        let mut empty = run("empty");
        empty.result.ops.clear();
        empty.result.series.clear();
        assert_eq!(check_xml(&plot(&[empty], "105 route")), Ok(()));
        assert_eq!(check_xml(&plot(&[], "105 route")), Ok(()));
    }
}
