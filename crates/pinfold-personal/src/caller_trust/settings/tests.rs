use super::*;

const HOME_OUTSIDE: &str = "/home/me";

fn file(path: &str) -> Named {
    Named::File(path.into())
}

#[test]
fn npm_names_a_file_or_has_certificates() {
    let variable = |name: &str| (name == "CORP").then(|| "/corp".into());
    let read = |text: &str| npm(text, Path::new(HOME_OUTSIDE), variable).map(|(_, named)| named);
    assert_eq!(read("registry=https://r\n//r/:_authToken=cafile\n"), None);
    assert_eq!(read("; cafile=/x\n# cafile=/y\n[scope]\ncafile=/z\ncafile2=/q\n"), None);
    assert_eq!(read("cafile=/a.pem\n cafile = \"~/ca.pem\"\n"), Some(file("/home/me/ca.pem")));
    assert_eq!(read("cafile=${CORP}/ca.pem"), Some(file("/corp/ca.pem")));
    assert_eq!(read("cafile=\nca=null\n"), None);
    let ca = "-----BEGIN CERTIFICATE-----\\nMIIB\\n-----END CERTIFICATE-----";
    let text = format!("ca[]=\"{ca}\"\nca[]=\"{ca}\"\n");
    let Some(Named::Text(found)) = read(&text) else { panic!("no certificates") };
    assert_eq!(String::from_utf8(found).unwrap().matches("\nMIIB\n").count(), 2);
}

#[test]
fn setting_of_a_command_of_pip_wins_over_the_global_one() {
    let read = |texts: &[&str]| {
        let texts = texts.iter().map(|text| Zeroizing::new((*text).to_owned()));
        pip(texts, Path::new(HOME_OUTSIDE)).map(|(source, named)| (source.to_string(), named))
    };
    let found = |section: &str, path| Some((format!("cert of pip ([{section}])"), file(path)));
    let own = "[global]\ncert = /a\n[install]\ncert: ~/b\nindex-url = https://u:p@h";
    assert_eq!(read(&[own, "[global]\ncert=/c"]), found("install", "/home/me/b"));
    assert_eq!(read(&["[global]\ncert=/a", "[global]\ncert=/c"]), found("global", "/c"));
    assert_eq!(read(&["[global]\nindex-url=https://h"]), None);
}

#[test]
fn settings_that_are_missing_count_where_a_variable_names_their_directory() {
    let home = tempfile::tempdir().unwrap();
    let places = Places {
        home: home.path().to_owned(),
        config: home.path().join("work/pinfold"),
        state: home.path().join("state"),
        cache: home.path().join("cache"),
    };
    let config = home.path().join("work");
    let variable = |name: &str| (name == "XDG_CONFIG_HOME").then(|| config.clone().into());
    let found = |variable: &dyn Fn(&str) -> Option<OsString>| {
        let files = find(&places, variable).files.into_iter();
        files.filter(|file| file.starts_with(home.path())).collect::<Vec<PathBuf>>()
    };
    assert_eq!(found(&variable), ["git/config", "pip/pip.conf"].map(|path| config.join(path)));
    assert!(found(&|_| None).is_empty());
}
