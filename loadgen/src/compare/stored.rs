//! Rounds from result files of earlier runs.
//!
//! They must come from the same plan and the same version of the tool, or a ratio of them means
//! nothing. One pair has no interval; lists of files do, the first of A paired with the first of
//! B and so on.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::compare::judge::Round;
use crate::compare::live::Stop;
use crate::result::{Provenance, RunResult};
use crate::verdict::Verdict;

/// Reads `a.json,a2.json` and `b.json,b2.json`. Returns also what speaks against the comparison
/// without forbidding it.
///
/// # Errors
/// A file is none, is of another plan or tool, or of a run that is worth nothing.
pub fn rounds(a: &str, b: &str) -> Result<(Vec<Round>, Vec<String>), Stop> {
    let (a, b) = (read_list(a)?, read_list(b)?);
    if a.len() != b.len() {
        return Err(Stop::Failed(format!(
            "{} results of A and {} of B: each needs its partner",
            a.len(),
            b.len()
        )));
    }
    pair(a, b)
}

fn read_list(list: &str) -> Result<Vec<(PathBuf, RunResult)>, String> {
    list.split(',').map(|path| read(Path::new(path))).collect()
}

fn read(path: &Path) -> Result<(PathBuf, RunResult), String> {
    let about = |error: String| format!("{}: {error}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| about(error.to_string()))?;
    let result = RunResult::read(&text).map_err(about)?;
    Ok((path.to_owned(), result))
}

type Named = (PathBuf, RunResult);

fn pair(a: Vec<Named>, b: Vec<Named>) -> Result<(Vec<Round>, Vec<String>), Stop> {
    let mut notes = Vec::new();
    if let Some((first_path, first)) = a.first() {
        let first = (first_path.as_path(), &first.provenance);
        for (path, result) in a.iter().chain(&b) {
            if result.verdict != Verdict::Ok {
                let why = format!("{}: {}", path.display(), result.reasons.join("; "));
                return Err(Stop::Invalid(result.verdict, why));
            }
            let other = (path.as_path(), &result.provenance);
            refuse_others(first, other)?;
            let note = host_note(first, other);
            notes.extend(note.filter(|note| !notes.contains(note)));
        }
    }
    let rounds = a
        .into_iter()
        .zip(b)
        .map(|((_, a), (_, b))| Round {
            a: vec![a],
            b: vec![b],
        })
        .collect();
    Ok((rounds, notes))
}

fn refuse_others(first: (&Path, &Provenance), other: (&Path, &Provenance)) -> Result<(), String> {
    let ((first_path, first), (other_path, other)) = (first, other);
    let both = format!("{} and {}", first_path.display(), other_path.display());
    if first.tool != other.tool {
        return Err(format!(
            "{both} come from {} and {}: measure both with one version",
            first.tool, other.tool
        ));
    }
    if first.plan_digest == other.plan_digest {
        return Ok(());
    }
    let place = |flag: &&String| !flag.starts_with("--addr=") && !flag.starts_with("--cores=");
    let flags =
        |of: &Provenance| -> BTreeSet<String> { of.flags.iter().filter(place).cloned().collect() };
    let (ours, theirs) = (flags(first), flags(other));
    let only = |a: &BTreeSet<String>, b: &BTreeSet<String>| {
        let words: Vec<&str> = a.difference(b).map(String::as_str).collect();
        words.join(" ")
    };
    Err(format!(
        "{both} have different plans ({} and {}): {} against {}",
        first.plan_digest,
        other.plan_digest,
        only(&ours, &theirs),
        only(&theirs, &ours)
    ))
}

fn host_note(first: (&Path, &Provenance), other: (&Path, &Provenance)) -> Option<String> {
    let ((first_path, first), (other_path, other)) = (first, other);
    let differs = ["cpu", "cpus", "kernel"]
        .into_iter()
        .find(|key| first.host.get(*key) != other.host.get(*key))?;
    Some(format!(
        "{} and {} were measured on different hosts (`{differs}`)",
        first_path.display(),
        other_path.display()
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::*;
    use crate::compare::fail_if::tests::run_of;

    fn named(name: &str, change: impl FnOnce(&mut RunResult)) -> Named {
        let mut result = run_of(10.0);
        change(&mut result);
        (PathBuf::from(name), result)
    }

    fn refused(change: impl FnOnce(&mut RunResult)) -> Stop {
        pair(vec![named("a.json", |_| ())], vec![named("b.json", change)]).unwrap_err()
    }

    #[test]
    fn equal_plans_make_pairs() {
        let a = vec![named("a1", |_| ()), named("a2", |_| ())];
        let (rounds, notes) = pair(a.clone(), a).unwrap();
        assert_eq!((rounds.len(), rounds[1].a.len(), notes.len()), (2, 1, 0));
    }

    #[test]
    fn other_plans_are_refused_with_the_flags_that_differ() {
        let stop = refused(|b| {
            b.provenance.plan_digest = "fedc".to_owned();
            b.provenance.flags = vec!["--brokers=20".to_owned(), "--addr=1.2.3.4:5".to_owned()];
        });
        let Stop::Failed(text) = stop else {
            panic!("{stop:?}")
        };
        assert_eq!(
            text,
            "a.json and b.json have different plans (0123456789abcdef and fedc): --brokers=10 \
             against --brokers=20"
        );
    }

    #[test]
    fn other_tools_and_bad_runs_are_refused() {
        let stop = refused(|b| b.provenance.tool = "loadgen 9".to_owned());
        assert!(format!("{stop:?}").contains("loadgen 0.1.0 and loadgen 9"));
        let stop = refused(|b| b.verdict = Verdict::ServerSaturated);
        assert!(matches!(stop, Stop::Invalid(Verdict::ServerSaturated, _)));
    }

    #[test]
    fn other_hosts_are_mentioned() {
        let b = named("b", |b| {
            b.provenance.host.insert("cpus".to_owned(), "64".to_owned());
        });
        let (_, notes) = pair(vec![named("a", |_| ())], vec![b]).unwrap();
        assert_eq!(notes, ["a and b were measured on different hosts (`cpus`)"]);
    }
}
