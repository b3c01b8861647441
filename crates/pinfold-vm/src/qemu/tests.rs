use super::*;

#[test]
fn version_is_read_of_what_distributions_say() {
    let read = |said: &str| version(said).map(|version| version.to_string());
    let debian = "QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2+deb13u1~bpo12+1)\nCopyright";
    assert_eq!(read(debian).unwrap(), "10.0");
    assert_eq!(read("QEMU emulator version 8.2.2 (v8.2.2)").unwrap(), "8.2");
    assert_eq!(read("warning: x\nQEMU emulator version 9.1.50").unwrap(), "9.1");
    for said in ["", "QEMU emulator version ", "QEMU emulator version 10", "version 9.0"] {
        assert_eq!(read(said), None, "{said}");
    }
    assert!(!version("QEMU emulator version 7.2.22").unwrap().is_new_enough());
    assert!(version("QEMU emulator version 10.0.2").unwrap().is_new_enough());
}

#[test]
fn missing_program_is_named_with_its_package() {
    let root = tempfile::tempdir().unwrap();
    for (architecture, program, packages) in [
        (&Architecture::X86_64, "qemu-system-x86_64", "qemu-system-x86 "),
        (&Architecture::AARCH64, "qemu-system-aarch64", "qemu-system-arm "),
    ] {
        let error = Qemu::find(root.path(), architecture).unwrap_err();
        assert!(
            error.to_string().ends_with(&format!("usr/bin/{program} does not exist")),
            "{error}"
        );
        assert!(error.hint().unwrap().starts_with(&format!("install {packages}")));
    }
}

#[test]
fn registers_are_left_out_of_what_qemu_says() {
    let said =
        "KVM internal error. Suberror: 1\nemulation failure\nEAX=00000000 EBX=0\nCode=ff\nconsole";
    let error = QemuError::Monitor("it has stopped".to_owned()).with_words(said);
    let expected =
        "QEMU's monitor: it has stopped; KVM internal error. Suberror: 1; emulation failure";
    assert_eq!(error.to_string(), expected);
}
