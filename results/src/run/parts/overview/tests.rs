//! Looks at directories whose attempts move, stand still, end or die.

use std::fs;

use crawlmark_harness::fixtures;
use crawlmark_harness::plan::RunPlan;
use crawlmark_harness::units::IdRange;
use tempfile::TempDir;

use super::*;

const LOST_AFTER: Duration = Duration::from_secs(30);

fn seconds(s: u64) -> Duration {
    Duration::from_secs(s)
}

/// A crawl of ten items in each part.
fn crawl(parts: u32) -> (TempDir, PartsWatch) {
    let home = tempfile::tempdir().unwrap();
    let ids = IdRange {
        start: 0,
        end: u64::from(parts) * 10,
    };
    let plan = PlanFile::new(
        RunPlan {
            ids,
            ..fixtures::plan()
        },
        parts,
        2.min(parts),
    );
    let watch = PartsWatch::new(PartsDirectory::at(home.path()), plan, LOST_AFTER);
    (home, watch)
}

fn status(state: AttemptState, beat: u64) -> AttemptStatus {
    let (at_us, items, requests_per_s) = (beat * 1_000_000, beat, 7);
    let slot = (state == AttemptState::Running).then_some(1);
    AttemptStatus {
        state,
        at_us,
        beat,
        slot,
        planned: 8,
        items,
        requests_per_s,
        p99_us: Some(beat as f64),
        ..Default::default()
    }
}

fn write(home: &TempDir, (part, attempt): (u32, &str), status: &AttemptStatus) {
    let place = PartsDirectory::at(home.path()).attempt(part, attempt);
    fs::create_dir_all(&place).unwrap();
    fs::write(
        place.join(PartsDirectory::STATUS),
        serde_json::to_string(status).unwrap(),
    )
    .unwrap();
}

fn states(watch: &PartsWatch) -> Vec<(u32, PartState)> {
    watch
        .overview(seconds(0))
        .rows
        .iter()
        .map(|row| (row.part, row.state))
        .collect()
}

#[test]
fn a_part_is_lost_when_its_beat_stays_and_not_because_of_its_clock() {
    let (home, mut watch) = crawl(4);
    write(&home, (0, "a"), &status(AttemptState::Running, 5));
    write(&home, (1, "b"), &status(AttemptState::Running, 5));
    write(&home, (2, "c"), &status(AttemptState::Waiting, 5));
    watch.look(seconds(0));
    assert!(!watch.is_certain(), "nothing moved yet");
    assert_eq!(
        states(&watch),
        [
            (0, PartState::Running),
            (1, PartState::Running),
            (2, PartState::Waiting)
        ]
    );
    for at in [10, 29, 31] {
        // The clock of its machine stands still, and that says nothing.
        write(
            &home,
            (0, "a"),
            &AttemptStatus {
                at_us: 1,
                ..status(AttemptState::Running, at)
            },
        );
        watch.look(seconds(at));
        // Nobody knows what those that are silent do.
        assert_eq!(watch.overview(seconds(at)).requests_per_s, 7);
    }
    assert_eq!(
        states(&watch),
        [
            (1, PartState::Lost),
            (2, PartState::Lost),
            (0, PartState::Running)
        ]
    );
    assert!(watch.is_certain());
    let all = watch.overview(seconds(31));
    assert_eq!(
        (
            all.parts.lost,
            all.parts.running,
            all.parts.not_begun,
            all.slots_in_use
        ),
        (2, 1, 1, 1)
    );
    // Two of its ten items were saved before.
    assert_eq!(
        (all.items, all.requests_per_s, all.highest_p99),
        (33, 7, Some(HighestTime { part: 0, us: 31.0 }))
    );

    // Another attempt takes the part over, and then the first one is there again.
    write(&home, (1, "d"), &status(AttemptState::Running, 1));
    watch.look(seconds(32));
    assert_eq!(watch.overview(seconds(32)).additional_attempts, 0);
    write(&home, (1, "b"), &status(AttemptState::Running, 6));
    watch.look(seconds(33));
    let all = watch.overview(seconds(33));
    assert_eq!(
        (
            all.parts.lost,
            all.parts.running,
            all.additional_attempts,
            all.requests_per_s
        ),
        (1, 2, 1, 21)
    );
}

#[test]
fn a_part_whose_attempt_ended_has_a_result_or_is_unfinished() {
    let (home, mut watch) = crawl(3);
    for part in 0..2 {
        write(
            &home,
            (part, "a"),
            &AttemptStatus {
                failed: 3,
                ..status(AttemptState::Ended, 9)
            },
        );
    }
    watch.look(seconds(0));
    assert_eq!(
        states(&watch),
        [(0, PartState::Running), (1, PartState::Running)],
        "they still write"
    );
    let directory = PartsDirectory::at(home.path());
    fs::write(
        directory.attempt(0, "a").join(PartsDirectory::ATTEMPT),
        "{}",
    )
    .unwrap();
    watch.look(seconds(1));
    assert_eq!(
        states(&watch),
        [(0, PartState::Unfinished), (1, PartState::Running)]
    );
    for (at, text) in [(2, &b"{}"[..]), (3, b""), (4, b"\xff")] {
        fs::write(directory.result(0), text).unwrap();
        watch.look(seconds(at));
        let unread = watch.overview(seconds(at)).unread.unwrap();
        assert_eq!(
            (unread.parts, &unread.path, unread.for_s),
            (1, &directory.result(0), at as f64 - 2.0),
            "damaged"
        );
        assert!(unread.is_damaged && !watch.is_certain(), "{unread:?}");
        assert_eq!(
            states(&watch),
            [(0, PartState::Unfinished), (1, PartState::Running)],
            "the others go on"
        );
    }
    fs::remove_file(directory.result(0)).unwrap();
    fs::create_dir(directory.result(0)).unwrap();
    watch.look(seconds(5));
    let unread = watch.overview(seconds(5)).unread.unwrap();
    assert_eq!(
        (unread.is_damaged, unread.for_s),
        (false, 3.0),
        "since the first"
    );
    fs::remove_dir(directory.result(0)).unwrap();
    watch.look(seconds(6));
    assert_eq!(watch.overview(seconds(6)).unread, None);
}

#[test]
fn beside_a_result_an_attempt_goes_on_while_it_moves() {
    let (home, mut watch) = crawl(2);
    let directory = PartsDirectory::at(home.path());
    for part in 0..2 {
        write(&home, (part, "first"), &status(AttemptState::Ended, 9));
        fs::write(
            directory
                .attempt(part, "first")
                .join(PartsDirectory::ATTEMPT),
            "{}",
        )
        .unwrap();
        write(&home, (part, "other"), &status(AttemptState::Running, 1));
    }
    let mut additional = Vec::new();
    for at in 0..9 {
        // That of part 1 was killed.
        write(
            &home,
            (0, "other"),
            &status(AttemptState::Running, 1 + at.min(2)),
        );
        watch.look(seconds(at));
        watch
            .parts
            .iter_mut()
            .for_each(|part| part.published = Some("first".to_owned()));
        let all = watch.overview(seconds(at));
        assert_eq!(
            (all.parts.done, all.requests_per_s),
            (2, 7 * u64::from(all.additional_attempts))
        );
        additional.push(all.additional_attempts);
        assert!(
            watch.is_certain(),
            "nothing about the result depends on them"
        );
    }
    assert_eq!(additional, [0, 1, 1, 1, 1, 1, 1, 0, 0]);
}

#[test]
fn a_part_that_cannot_be_read_stays_as_it_was() {
    let (home, mut watch) = crawl(3);
    let directory = PartsDirectory::at(home.path());
    let away = home.path().join("away");
    for part in 0..2 {
        write(&home, (part, "a"), &status(AttemptState::Running, 5));
    }
    watch.look(seconds(0));
    let seen = watch.overview(seconds(0));
    fs::rename(directory.part(1), &away).unwrap();
    for (at, part) in [(1, 1), (3, 2)] {
        fs::write(directory.part(part), "").unwrap();
        write(&home, (0, "a"), &status(AttemptState::Running, 5 + at));
        watch.look(seconds(at));
    }
    write(&home, (0, "a"), &status(AttemptState::Running, 40));
    watch.look(seconds(40));
    let all = watch.overview(seconds(40));
    assert_eq!(
        all.parts, seen.parts,
        "nobody is lost because it cannot be seen"
    );
    let unread = all.unread.unwrap();
    assert_eq!(
        (unread.parts, &unread.path, unread.for_s),
        (2, &directory.part(1), 39.0)
    );
    assert!(
        unread.error.starts_with("Not a directory") && !watch.is_certain(),
        "{unread:?}"
    );

    fs::remove_file(directory.part(1)).unwrap();
    fs::remove_file(directory.part(2)).unwrap();
    fs::rename(&away, directory.part(1)).unwrap();
    watch.look(seconds(41));
    let all = watch.overview(seconds(41));
    assert_eq!(
        (all.unread, all.parts.lost, all.parts.running),
        (None, 1, 1)
    );
}
