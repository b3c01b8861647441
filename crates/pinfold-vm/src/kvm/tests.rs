use super::*;

#[test]
fn group_of_the_device_is_named_unless_it_is_roots() {
    let groups = "root:x:0:\nkvm:x:104:somebody\nbroken\n";
    assert_eq!(group_named(groups, 104).as_deref(), Some("kvm"));
    assert_eq!(group_named(groups, 36).as_deref(), Some("36"));
    assert_eq!(group_named(groups, 0), None);
    let hint = KvmError::Denied { group: Some("kvm".to_owned()) }.hint().unwrap();
    assert!(hint.starts_with("`sudo usermod --append --groups kvm \"$USER\"`"), "{hint}");
}

#[test]
fn host_is_what_stays_of_its_first_processor() {
    let about = "processor\t: 0\nmicrocode\t: 0xa\ncpu MHz\t\t: 2000.1\nflags\t\t: svm\nbogomips\t: 1\n\nprocessor\t: 1\n";
    assert_eq!(first_processor(about), "processor\t: 0\nmicrocode\t: 0xa\nflags\t\t: svm");
    assert_eq!(host(), host());
    assert!(!this_boot().is_empty());
}

#[test]
fn device_that_cannot_be_opened_is_said_with_what_to_do() {
    assert!(matches!(not_opened(Errno::NOENT), KvmError::Absent { .. }));
    assert!(matches!(not_opened(Errno::ACCESS), KvmError::Denied { .. }));
    assert_eq!(not_opened(Errno::MFILE), KvmError::Open(Errno::MFILE));
    let hint = KvmError::Absent { module: Some("kvm_amd") }.hint().unwrap();
    assert!(hint.starts_with("load its module: `sudo modprobe kvm_amd`"), "{hint}");
    assert!(
        KvmError::Absent { module: None }.hint().unwrap().starts_with("switch virtualisation on")
    );
}
