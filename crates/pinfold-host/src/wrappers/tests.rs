use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use super::{Launch, SearchPath, Wrappers};

fn launch(words: &[&str]) -> Launch {
    Launch {
        argv: words.iter().map(OsString::from).collect(),
        env: vec![("A".into(), "1".into())],
        cwd: PathBuf::from("/"),
        handled_by: Vec::new(),
    }
}

#[test]
fn wrappers_run_in_the_order_of_their_registration_and_the_same_id_replaces() {
    let (wrappers, path) = (Wrappers::none(), SearchPath::without(Vec::new()));
    let adds = |word: &'static str| {
        move |mut context: super::Context, subject: Option<&super::Subject>| {
            assert!(subject.is_none());
            context.args.push(word.to_owned());
            Ok(context)
        }
    };
    wrappers.register("one", adds("first"), None).unwrap();
    wrappers.register("two", adds("second"), Some("Two")).unwrap();
    wrappers.register("one", adds("replaced"), Some("One")).unwrap();
    let wrapped = wrappers.wrap("host", launch(&["program", "own"]), &path).unwrap();
    assert_eq!(wrapped.argv, ["program", "own", "replaced", "second"]);
    assert_eq!(wrapped.handled_by, ["host", "One", "Two"]);

    let shell = |mut context: super::Context, _: Option<&super::Subject>| {
        context.shell = Some("/bin/sh".to_owned());
        Ok(context)
    };
    wrappers.register("two", shell, None).unwrap();
    let wrapped = wrappers.wrap("host", launch(&["program \"$1\""]), &path).unwrap();
    assert_eq!(wrapped.argv, ["/bin/sh", "-c", "program \"$1\"", "/bin/sh", "replaced"]);

    let mut odd = launch(&["program"]);
    odd.argv.push(OsString::from_vec(vec![0xff]));
    let error = wrappers.wrap("host", odd, &path).unwrap_err().to_string();
    assert_eq!(
        error,
        "the wrapper one cannot be asked about a launch with an argument that is not UTF-8"
    );

    wrappers.register("two", |_, _| Err("not today".into()), None).unwrap();
    let error = wrappers.wrap("host", launch(&["program"]), &path).unwrap_err();
    assert_eq!(error.to_string(), "the wrapper two refuses the launch: not today");
}
