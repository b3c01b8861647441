use pinfold_boundary::namespace::FileServer;

use super::*;

fn limits(memory: Option<u64>, thousandths: Option<u32>) -> ResourceLimits {
    let cpus = thousandths.map(|thousandths| CpuShare { thousandths, required: true });
    ResourceLimits { memory, cpus, ..ResourceLimits::default() }
}

#[test]
fn machine_is_as_large_as_the_policy_says() {
    let size = Size::of(&limits(Some(1 << 30), Some(1000))).unwrap();
    assert_eq!(size, Size { memory: 1024, cpus: 1 });
    // A part of a processor is one of its own.
    assert_eq!(Size::of(&limits(Some(1 << 30), Some(1))).unwrap().cpus, 1);
    let own = std::thread::available_parallelism().unwrap().get() as u32;
    assert_eq!(Size::of(&limits(None, Some(u32::MAX))).unwrap().cpus, own.min(MOST_CPUS));
}

#[test]
fn machine_has_what_it_needs_if_the_policy_says_nothing() {
    assert!(memory_of_host() > 64 * MIB);
    let memory = u64::from(Size::of(&limits(None, None)).unwrap().memory) * MIB;
    assert!((USUAL.0..=USUAL.1).contains(&memory), "{memory}");
}

#[test]
fn less_memory_than_a_guest_needs_is_refused() {
    let error = Size::of(&limits(Some(LEAST - 1), None)).unwrap_err();
    assert!(error.to_string().contains("384 MiB"), "{error}");
    assert!(Size::of(&limits(Some(LEAST), None)).is_ok());
}

/// Nothing of a machine starts where a part is missing, and the error says what to do.
#[test]
fn missing_parts_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing");
    let choice = Choice {
        qemu: Some(missing.clone()),
        kernel: Some(missing.clone()),
        accelerator: None,
        cache: directory.path().join("cache"),
    };
    let server = |_| -> Box<dyn FileServer> { unreachable!("nothing is served") };
    let vm = Vm::new(choice, HostPath::new("/proc/self/exe").unwrap(), server);
    let error = vm.choice.qemu().unwrap_err();
    assert!(error.to_string().contains("does not exist"), "{error}");
    assert!(error.hint().unwrap().contains(Architecture::HOST.packages[0]));
    let error = vm.prepared().unwrap_err();
    assert!(error.to_string().contains("no kernel"), "{error}");
    assert!(error.hint().unwrap().contains("`kernel`"));
    assert!(!vm.probe().usable());
}
