use super::*;

const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
const KEY: &str = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n";

fn found(content: &str) -> CallerTrust {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ca.pem");
    std::fs::write(&path, content).unwrap();
    let value = |name: &str| (name == OWN_VARIABLE).then(|| path.clone().into_os_string());
    CallerTrust::of(value, Vec::new())
}

#[test]
fn certificates_enter_and_keys_do_not() {
    let trust = found(&format!("# mine\r\n{CERTIFICATE}{KEY}{CERTIFICATE}"));
    assert_eq!(trust.certificates(), format!("{CERTIFICATE}{CERTIFICATE}").as_bytes());
    let place = place(0);
    assert_eq!(trust.environment().collect::<Vec<_>>(), [(OWN_VARIABLE, place)]);
    assert_eq!(trust.entries().unwrap().len(), 1);
}

#[test]
fn a_file_that_several_variables_name_enters_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ca.pem");
    std::fs::write(&path, CERTIFICATE).unwrap();
    let trust = CallerTrust::of(|_| Some(path.clone().into_os_string()), Vec::new());
    assert_eq!(trust.certificates(), CERTIFICATE.as_bytes());
    assert_eq!(trust.entries().unwrap().len(), 1);
    assert_eq!(trust.environment().count(), BUNDLE_VARIABLES.len() + 1);
    let mut places: Vec<String> = trust.environment().map(|(_, place)| place).collect();
    places.dedup();
    assert_eq!(places, [place(0)]);
}

#[test]
fn the_hosts_own_bundle_is_named_where_it_lies() {
    let Some(bundle) = BUNDLES
        .into_iter()
        .find(|bundle| std::fs::canonicalize(bundle).is_ok_and(|real| real == Path::new(bundle)))
    else {
        return;
    };
    let trust = CallerTrust::of(|_| Some(bundle.into()), Vec::new());
    assert!(trust.certificates().is_empty() && trust.entries().unwrap().is_empty());
    assert!(trust.environment().all(|(_, place)| place == bundle));
}

#[test]
fn only_directories_other_than_the_systems_do_not_count() {
    for (named, are_others) in [
        ("", false),
        ("/etc/ssl/certs:/usr/lib/ssl/certs/", false),
        ("/etc/ssl/certs:/home/me/ca", true),
        ("/etc/sslmine", true),
    ] {
        assert_eq!(has_directories_of_its_own(OsStr::new(named)), are_others, "{named}");
    }
}

#[test]
fn a_file_without_a_whole_certificate_does_not_count() {
    let with_a_key = CERTIFICATE.replace("MIIB\n", KEY);
    for content in ["", KEY, "-----BEGIN CERTIFICATE-----\nMIIB\n", &with_a_key] {
        assert_eq!(found(content), CallerTrust::default(), "{content}");
    }
    let missing = |_: &str| Some(OsString::from("/no/such/file"));
    assert_eq!(CallerTrust::of(missing, Vec::new()), CallerTrust::default());
    assert_eq!(CallerTrust::of(|_| None, Vec::new()), CallerTrust::default());
}

#[test]
fn settings_name_the_same_file_as_variables_and_have_certificates_of_their_own() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ca.pem");
    std::fs::write(&path, CERTIFICATE).unwrap();
    let git = Source::Git("http.https://git.corp/.sslcainfo".to_owned());
    let settings = vec![
        (git, Named::File(path.clone())),
        (Source::Npm, Named::Text(format!("{KEY}{CERTIFICATE}").into_bytes())),
        (Source::Pip("global".to_owned()), Named::File("/no/such/file".into())),
    ];
    let value = |name: &str| (name == OWN_VARIABLE).then(|| path.clone().into_os_string());
    let trust = CallerTrust::of(value, settings);
    assert_eq!(trust.certificates(), format!("{CERTIFICATE}{CERTIFICATE}").as_bytes());
    let variables = [(OWN_VARIABLE, place(0)), ("npm_config_cafile", place(1))];
    assert_eq!(trust.environment().collect::<Vec<_>>(), variables);
    let git: Vec<Setting> = trust.git_settings().collect();
    assert_eq!(git.len(), 1);
    assert_eq!(git[0].value.as_deref(), Some(place(0).as_bytes()));
    assert_eq!(trust.entries().unwrap().len(), 2);
}

#[test]
fn a_variable_wins_over_the_setting_that_says_the_same() {
    let settings = vec![(Source::Npm, Named::Text(CERTIFICATE.into()))];
    let value = |name: &str| (name == "npm_config_cafile").then(|| OsString::from("/no/such/file"));
    assert_eq!(CallerTrust::of(value, settings), CallerTrust::default());
}
