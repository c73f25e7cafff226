//! One screen for people, and the line that is rewritten while a run goes on.

use std::fmt::Write;

use crate::config::{Config, LoseHow};
use crate::result::{Quantiles, RunResult, Second};
use crate::units::{count_text, duration_text, latency_text};

/// The result of a run.
#[must_use]
pub fn screen(config: &Config, result: &RunResult) -> String {
    let mut out = String::new();
    // Writing into a string cannot fail.
    let _ = write_screen(&mut out, config, result);
    out
}

fn write_screen(out: &mut String, config: &Config, result: &RunResult) -> std::fmt::Result {
    let [brokers, groups, topics, pairs] = result.provenance.cluster;
    writeln!(
        out,
        "{brokers} brokers in {groups} groups, {topics} topics, {pairs} queue entries, {} clients; \
         plan {}, server version {}",
        config.clients, result.provenance.plan_digest, result.provenance.server_version
    )?;
    writeln!(
        out,
        "\n{:<16}{:>10}{:>10}{:>11}{:>11}{:>11}{:>11}{:>11}{:>12}",
        "request", "sent", "per s", "p50", "p90", "p99", "p99.9", "max", "own p99"
    )?;
    for op in &result.ops {
        let Quantiles {
            p50_us,
            p90_us,
            p99_us,
            p999_us,
            max_us,
            count,
            ..
        } = op.response;
        write!(
            out,
            "{:<16}{:>10}{:>10}",
            op.name,
            op.sent,
            count_text(op.per_second)
        )?;
        for us in [p50_us, p90_us, p99_us, p999_us, max_us] {
            let text = if count > 0 {
                latency_text(us)
            } else {
                "-".to_owned()
            };
            write!(out, "{text:>11}")?;
        }
        writeln!(out, "{:>12}", latency_text(op.own_delay.p99_us))?;
    }
    let from = if config.closed {
        "its sending (closed loop)"
    } else {
        "its intended instant"
    };
    writeln!(
        out,
        "response times, each from {from}; own = the tool's delay before sending\n"
    )?;
    write_clocks(out, config, result)?;
    write_checks(out, config, result)?;
    write_usage(out, result)?;
    writeln!(out, "\nverdict: {}", result.verdict.text())?;
    for reason in &result.reasons {
        writeln!(out, "  {reason}")?;
    }
    for finding in result.findings.iter().take(12) {
        writeln!(out, "  {finding}")?;
    }
    Ok(())
}

fn write_clocks(out: &mut String, config: &Config, result: &RunResult) -> std::fmt::Result {
    for (name, clock) in &result.clocks {
        writeln!(
            out,
            "{name}: {} times, p50 {}, p99 {}, last {}",
            clock.count,
            latency_text(clock.p50_us),
            latency_text(clock.p99_us),
            latency_text(clock.max_us)
        )?;
    }
    let storm = &result.storm;
    let Some((from, until)) = storm.window_s else {
        return Ok(());
    };
    write!(out, "storm from {from} s to {until} s: ")?;
    if let Some(recovery) = storm.recovery_ms {
        write!(
            out,
            "last broker visible after {}; ",
            latency_text((recovery * 1e3) as u64)
        )?;
    }
    match storm.collateral {
        Some(ratio) => writeln!(
            out,
            "route p99 {} before, {} during ({ratio:.2} x), {} after",
            latency_text(storm.before.p99_us),
            latency_text(storm.during.p99_us),
            latency_text(storm.after.p99_us)
        ),
        None => writeln!(
            out,
            "route p99 {} during",
            latency_text(storm.during.p99_us)
        ),
    }?;
    if !result.clocks.is_empty() {
        writeln!(
            out,
            "removals are seen every {}",
            duration_text(config.watch)
        )?;
    }
    Ok(())
}

fn write_checks(out: &mut String, config: &Config, result: &RunResult) -> std::fmt::Result {
    let checks = result.checks;
    writeln!(
        out,
        "answers judged: {} in full, {} equal to one judged in the same state, {} unread",
        checks.in_full, checks.equal, checks.unread
    )?;
    let window = duration_text(config.removal_window);
    write!(
        out,
        "allowed: a broker may be shown {window} after its 104 or close"
    )?;
    if config.lose > 0 && config.lose_how == LoseHow::Silence {
        let window = duration_text(config.expiry_window);
        write!(out, ", {window} after its deadline")?;
    }
    writeln!(out, "; nothing else may be old")?;
    let faults: Vec<String> = result
        .faults
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    if faults.is_empty() {
        writeln!(out, "faults: none")
    } else {
        writeln!(out, "faults: {}", faults.join(", "))
    }
}

fn write_usage(out: &mut String, result: &RunResult) -> std::fmt::Result {
    let tool = result.tool;
    write!(
        out,
        "tool: {} threads busy {:.0} %, setup {:.1} s, {} in, {} out",
        tool.threads,
        tool.busy * 100.0,
        tool.setup_s,
        bytes_text(tool.bytes_in),
        bytes_text(tool.bytes_out)
    )?;
    if tool.skipped > 0 {
        write!(
            out,
            ", {} requests skipped while an earlier one was under way",
            tool.skipped
        )?;
    }
    if tool.slow_closed > 0 {
        write!(out, ", {} slow readers cut off", tool.slow_closed)?;
    }
    writeln!(out)?;
    match &result.server {
        Some(server) => writeln!(
            out,
            "server: {:.2} CPU s, {:.1} us a request, {} resident, {} threads",
            server.cpu_s,
            server.cpu_us_per_request,
            bytes_text(server.rss_bytes),
            server.threads
        ),
        None => writeln!(out, "server: not watched (--pid)"),
    }
}

/// The line of one second.
#[must_use]
pub fn line(second: &Second, width_s: f64) -> String {
    if second.at_s < 0.0 {
        return format!(
            "warm-up · {} up · tool {:.0} % · faults {}",
            second.brokers_up,
            second.busy * 100.0,
            second.faults
        );
    }
    format!(
        "{:>4.0} s · {} rps · p50 {} · p99 {} · own {} · {} up · tool {:.0} % · faults {}",
        second.at_s,
        count_text(second.answered as f64 / width_s.max(1e-9)),
        latency_text(second.p50_us),
        latency_text(second.p99_us),
        latency_text(second.own_p99_us),
        second.brokers_up,
        second.busy * 100.0,
        second.faults
    )
}

fn bytes_text(bytes: u64) -> String {
    format!("{}B", count_text(bytes as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RunArgs;

    #[test]
    fn the_screen_has_everything_that_decides() {
        let config = Config::resolve(&RunArgs::default(), 2);
        let text = screen(&config, &crate::result::tests::example());
        for part in [
            "10 brokers in 5 groups, 20 topics",
            "plan 0123456789abcdef",
            "105 route",
            "322 one-way",
            "coming to visible: 1 times",
            "last broker visible after 123 ms",
            "route p99 1 ms before, 2.50 ms during (2.50 x)",
            "3 in full, 2 equal to one judged in the same state, 1 unread",
            "faults: 1 ghost",
            "busy 25 %",
            "75.0 us a request",
            "verdict: WRONG ANSWERS",
            "ghost: broker-00001 is shown",
        ] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
        assert!(text.lines().count() < 30, "one screen:\n{text}");
    }
}
