//! The page of a run that was made by the program, and the command in it.

use crate::report::Report;
use crate::run::ended;
use crate::target::Target;

#[test]
fn the_recorded_command_of_a_run_makes_the_same_plan() {
    let target = Target::start("");
    let url = target.url();
    for flags in [
        "--ids 5..=64 -s 2 -c 6 -R 5k --burst 4 --seed 7 --no-pin --name again -w 1ms \
         --pacing coarse --grace 2s",
        "-d 200ms -q 100 --arrivals poisson -t 1 --retries 2 --retry-budget 50% --max-pause 2s \
         --expect status:200-204 --stop-if errors<5k --tag a=b",
        "-n 60 -c 4 --target-latency fixed:1ms --target-limit 9000/s --target-fault error:0.1",
    ] {
        let is_bundled = flags.contains("--target");
        let first = ended(&format!("{} {flags}", if is_bundled { "" } else { &url }));
        let code = first.code.unwrap();
        let first = first.report(code);
        let recorded = first.at("/command/arguments").as_array().unwrap();
        let recorded = recorded[2..].iter().map(|word| word.as_str().unwrap());
        let second = self::ended(&shlex::try_join(recorded).unwrap()).report(code);
        // The port of a bundled target is free by chance, and a part of the plan.
        let parts = ["/plan", "/command", "/name", "/tags"];
        for same in if is_bundled {
            &["/plan/workload", "/plan/seed"][..]
        } else {
            &parts
        } {
            assert_eq!(second.at(same), first.at(same), "{flags}");
        }
        let thresholds = |report: &Report| {
            let gates = report.at("/gates").as_array().unwrap().iter();
            gates
                .map(|gate| gate["expression"].clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(thresholds(&second), thresholds(&first));
    }
}
