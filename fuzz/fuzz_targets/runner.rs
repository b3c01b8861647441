//! What root's runner reads: a caller's request, and the administrator's policy.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pinfold_fuzz::assert_printable;
use pinfold_runner::accounts::Account;
use pinfold_runner::policy::{Policy, is_canonical};
use pinfold_runner::request::Request;
use pinfold_runner::unit;

fuzz_target!(|bytes: &[u8]| {
    match Policy::parse(bytes) {
        Ok(policy) => {
            let (session, grants) = ("0123456789ab".to_owned(), Vec::new());
            let request =
                Request { session, memory: Some(1), cpus: Some(1), tasks: Some(1), grants };
            let service = Account {
                name: policy.service("alice").to_owned(),
                uid: 1,
                gid: 1,
                home: "/".into(),
            };
            assert!(
                !unit::arguments(&policy, &service, &request)
                    .iter()
                    .any(|it| it.contains(['\0', '\n']))
            );
        }
        Err(refusal) => assert_printable(refusal),
    }
    match Request::decode(bytes) {
        Ok(request) => {
            assert!(request.grants.iter().all(|wanted| is_canonical(&wanted.path)));
            assert_eq!(pinfold_runner_client::encode(&request).as_deref(), Ok(bytes));
        }
        Err(refusal) => assert_printable(refusal),
    }
    if let Some(refusal) = pinfold_runner_client::refusal(bytes) {
        assert_printable(refusal);
    }
});
