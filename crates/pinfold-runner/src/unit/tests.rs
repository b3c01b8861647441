use std::path::PathBuf;

use super::arguments;
use crate::accounts::Account;
use crate::policy::Policy;
use crate::request::Request;

fn made(request: Request) -> Vec<String> {
    let text = br#"{"user": "pi-agent", "stateDir": "/var/lib/pi-agent", "runtimeMaxSec": 3600, "privatePids": true,
        "memoryMax": 2097152, "tasksMax": 32,
        "hostUsers": {"alice": {"projectRoots": ["~/work"]}}}"#;
    let service =
        Account { name: "pi-agent".to_owned(), uid: 990, gid: 990, home: PathBuf::from("/") };
    arguments(&Policy::parse(text).unwrap(), &service, &request)
}

#[test]
fn unit_has_the_limits_of_the_request_and_of_the_policy() {
    let arguments = made(Request {
        session: "0123456789ab".to_owned(),
        memory: Some(1 << 20),
        cpus: Some(1505),
        tasks: Some(64),
        grants: Vec::new(),
    });
    let expected = [
        "--unit=pinfold-0123456789ab.service",
        "--property=User=pi-agent",
        "--property=InaccessiblePaths=-/var/lib/pi-agent",
        "--property=MemoryMax=1048576",
        "--property=MemorySwapMax=0",
        "--property=CPUQuota=150.5%",
        "--property=TasksMax=32",
        "--property=PrivatePIDs=yes",
        "--property=RuntimeMaxSec=3600",
        "--property=NoNewPrivileges=yes",
        "--property=PrivateNetwork=yes",
    ];
    for expected in expected {
        assert!(arguments.iter().any(|argument| argument == expected), "{expected}: {arguments:?}");
    }
    assert_eq!(arguments[arguments.len() - 3..], ["--", "/usr/bin/pinfold", "unit-init"]);
}

#[test]
fn unit_whose_caller_asks_for_no_limits_has_those_of_the_policy_alone() {
    let (session, grants) = ("0123456789ab".to_owned(), Vec::new());
    let arguments = made(Request { session, memory: None, cpus: None, tasks: None, grants });
    assert!(!arguments.iter().any(|argument| argument.contains("CPUQuota")));
    for limit in ["--property=MemoryMax=2097152", "--property=TasksMax=32"] {
        assert!(arguments.iter().any(|argument| argument == limit), "{limit}");
    }
}

#[test]
fn what_keeps_init_from_its_own_walls_is_left_out() {
    for property in super::properties() {
        for harmful in [
            "RestrictSUIDSGID",
            "ProtectHostname",
            "ProtectKernel",
            "ProtectProc",
            "ProtectControlGroups",
        ] {
            assert!(!property.starts_with(harmful), "{property}");
        }
        let is_list = property.starts_with("SystemCallFilter=");
        assert!(!is_list || property.starts_with("SystemCallFilter=~"), "{property}");
    }
}
