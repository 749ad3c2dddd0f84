//! Programs of ours for what v1model and the switches can do (`programs/`): scripts in the STF format, and random entries and frames,
//! on the embedded switch and on BMv2, byte for byte.

use inca_tests::recipe::text;
use inca_tests::recording::{RECORD, Recording};
use inca_tests::stf::embedded::Embedded;
use inca_tests::stf::folder::{Kind, cases};
use inca_tests::stf::recipe::{ABOUT, NAME, Round, folder, rounds};
use inca_tests::stf::run::{Verdict, run};
use inca_tests::target::Sent;
use inca_tests::traffic::Step;

const SEED: u64 = 1;

fn scripts_pass(kind: Kind) {
    let cases = cases(&folder()).unwrap();
    assert!(cases.len() >= 6, "only {} scripts", cases.len());
    let failed: Vec<String> = cases
        .iter()
        .map(|case| (&case.name, case.run(kind)))
        .filter(|(_, verdict)| *verdict != Verdict::Pass)
        .map(|(name, verdict)| format!("{name}: {verdict:?}"))
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn scripts_pass_on_the_embedded_switch() {
    scripts_pass(Kind::Embedded);
}

/// p4c assigns unions member by member, though the format has assignments of whole ones.
#[test]
fn unions_are_assigned_whole() {
    let case = cases(&folder()).unwrap().into_iter().find(|case| case.name == "headers").unwrap();
    let loaded = case.load().unwrap();
    let mut document: serde_json::Value = serde_json::from_str(&loaded.json).unwrap();
    let actions = document["actions"].as_array_mut().unwrap();
    let primitives = actions.iter_mut().map(|action| action["primitives"].as_array_mut().unwrap());
    let of_union = |primitive: &serde_json::Value| {
        primitive["op"] == "assign_header" && primitive["parameters"][0]["value"] == "other.l"
    };
    let (primitives, at) =
        primitives.into_iter().find_map(|all| all.iter().position(of_union).map(|at| (all, at))).unwrap();
    primitives[at] = serde_json::json!({
        "op": "assign_union",
        "parameters": [{"type": "header_union", "value": "other"}, {"type": "header_union", "value": "one"}],
    });
    // The other member's assignment goes, and the places of jumps stay as they are: there are none here.
    assert_eq!(primitives.remove(at + 1)["op"], "assign_header");
    let mut bench = Embedded::new(&document.to_string()).unwrap();
    assert_eq!(run(&loaded.names, &loaded.script, &mut bench), Verdict::Pass);
}

fn steps(rounds: &[Round]) -> Vec<Step> {
    let frames = rounds.iter().flat_map(|round| &round.frames);
    frames.map(|(port, frame)| Step { kind: "random", port: *port, frame: frame.clone() }).collect()
}

fn sent(rounds: &[Round], kind: Kind) -> Vec<Sent> {
    let run = |round: &Round| round.run(kind).unwrap_or_else(|error| panic!("{}: {error}", round.case.name));
    rounds.iter().flat_map(run).collect()
}

/// Which program's frame it is, and the frame.
fn describe(rounds: &[Round], index: usize) -> String {
    let mut left = index;
    for (number, round) in rounds.iter().enumerate() {
        match round.frames.get(left) {
            Some(frame) => {
                return format!(
                    "{}, round {number}, frame {left}: {}",
                    round.case.name,
                    text(&vec![frame.clone()])
                );
            }
            None => left -= round.frames.len(),
        }
    }
    format!("frame {index}")
}

mod golden {
    use super::*;

    #[test]
    fn embedded_switch_sends_what_bmv2_sent() {
        let rounds = rounds(SEED);
        let embedded = sent(&rounds, Kind::Embedded);
        let (ours, recorded) = (Recording::new(ABOUT, &steps(&rounds), &embedded), Recording::load(NAME));
        assert_eq!(
            ours.input, recorded.input,
            "the recipe changed: a run with BMv2 and {RECORD}=1 records it anew"
        );
        if let Some(first) = ours.first_difference(&recorded) {
            panic!(
                "first difference at {}\nembedded sent {}",
                describe(&rounds, first),
                text(&embedded[first])
            );
        }
    }
}

mod bmv2 {
    use super::*;

    fn is_missing() -> bool {
        let missing = inca_tests::bmv2::find().is_none();
        if missing {
            println!("skipped: simple_switch_grpc not found");
        }
        missing
    }

    #[test]
    fn scripts_pass_on_bmv2() {
        if !is_missing() {
            scripts_pass(Kind::Bmv2);
        }
    }

    #[test]
    fn bmv2_and_embedded_switch_send_the_same() {
        if is_missing() {
            return;
        }
        for seed in inca_tests::recipe::seeds(3) {
            let rounds = rounds(SEED + seed);
            let bmv2 = sent(&rounds, Kind::Bmv2);
            if seed == 0 {
                Recording::new(ABOUT, &steps(&rounds), &bmv2).save_if_asked(NAME);
            }
            let embedded = sent(&rounds, Kind::Embedded);
            for (index, (embedded, bmv2)) in embedded.iter().zip(&bmv2).enumerate() {
                assert!(
                    embedded == bmv2,
                    "seed {seed}, first difference at {}\nbmv2 sent     {}\nembedded sent {}",
                    describe(&rounds, index),
                    text(bmv2),
                    text(embedded)
                );
            }
            // A recipe that only ever made the switch drop would prove nothing.
            let answered = bmv2.iter().filter(|sent| !sent.is_empty()).count();
            assert!(answered * 2 > bmv2.len(), "only {answered} of {} frames were answered", bmv2.len());
        }
    }
}
