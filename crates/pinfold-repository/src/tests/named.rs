use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use super::*;

#[test]
fn files_that_commands_name_are_found_however_a_shell_would_spell_them() {
    let world = commands(&[
        "cd \"$MOLTNET_GUEST_WORKSPACE\" && ./a.sh; . b/env",
        "bash -c 'source ${PINFOLD_WORKSPACE}/c'",
        "cd web && sh -x ../d && ./build --file=e.py; bash <f",
        "python3.11 g h.json",
    ]);
    for name in ["a.sh", "b/env", "c", "d", "e.py", "f", "g", "h.json", "not-named.sh"] {
        world.write(name, "");
    }
    world.write("web/build", "#!/bin/sh");
    let found = ["a.sh", "b/env", "c", "d", "e.py", "f", "g", "h.json", "web/build"];
    assert_eq!(world.runs(), found.map(PathBuf::from));
}

/// The files that `command` names in a repository that holds `files`.
#[track_caller]
fn assert_named(command: &str, files: &[&str], named: &[&str]) {
    let world = commands(&[command]);
    for name in files {
        world.write(name, "");
    }
    let named: Vec<PathBuf> = named.iter().map(PathBuf::from).collect();
    assert_eq!(world.runs(), named, "{command}");
}

#[test]
fn quotes_escapes_and_variables_do_not_hide_a_file() {
    let files = ["a b.sh", "a b", "data", "deep/s", "deep/t.sh", "deep/er/u.sh", "p.sh"];
    let cases: [(&str, &[&str]); 19] = [
        ("'./a b.sh'", &["a b.sh"]),
        ("./a\\ b.sh", &["a b.sh"]),
        ("sh \"a b\"", &["a b"]),
        ("bash -c \"sh 'a b'\"", &["a b"]),
        ("cat data | sh", &["data"]),
        ("eval \"$(cat data)\"", &["data"]),
        ("D=deep; sh $D/s; \"${D}/t.sh\"", &["deep/s", "deep/t.sh"]),
        ("sh ${S:-data}", &["data"]),
        ("cd deep && cd er && ./u.sh", &["deep/er/u.sh"]),
        ("f() { cd er; ./u.sh; }; cd deep; f", &["deep/er/u.sh"]),
        ("for f in deep/*.sh; do . $f; done", &["deep/t.sh"]),
        ("run-parts deep/?r", &["deep/er/u.sh"]),
        ("ls deep | xargs -I{} sh {}", &["deep/er/u.sh", "deep/s", "deep/t.sh"]),
        ("(cd deep/er; FOO=1 ./u.sh)\n./p.sh", &["deep/er/u.sh", "p.sh"]),
        ("exec env -i A=b ./p.sh", &["p.sh"]),
        ("bash -c './p.sh && exit'", &["p.sh"]),
        ("./p\"\".sh; ./da\\\nta", &["data", "p.sh"]),
        ("$PWD/deep/../p.sh; ${PINFOLD_WORKSPACE:-.}/p.sh", &["p.sh"]),
        ("ls | wc -l; echo $HOME \"$@\"", &[]),
    ];
    for (command, named) in cases {
        assert_named(command, &files, named);
    }
    let world = commands(&["for f in setup.d/*; do sh $f; done"]);
    world.write("setup.d/1.sh", "");
    let before = world.hash();
    world.write("setup.d/2.sh", "");
    assert_ne!(world.hash(), before, "one more that a pattern matches");
}

#[test]
fn patterns_lists_and_search_paths_name_what_they_match() {
    let files = ["tools/sub/x.sh", "tools/thing", "tools/f", "tools/other/deep/y", "f"];
    let cases: [(&str, &[&str]); 22] = [
        ("sh tools/*/x.sh", &["tools/sub/x.sh"]),
        ("for i in tools/*/x.sh; do sh $i; done", &["tools/sub/x.sh"]),
        ("tools/su[b]/x.sh", &["tools/sub/x.sh"]),
        ("./t*s/s?b/x.sh", &["tools/sub/x.sh"]),
        ("tools/**/y", &["tools/other/deep/y"]),
        ("PATH=tools:$PATH thing", &["tools/thing"]),
        ("PATH=$PATH:./tools/ thing", &["tools/thing"]),
        ("export PATH=\"$PWD/tools:$PATH\"; thing", &["tools/thing"]),
        ("sh t{oo,xx}ls/{sub/x,thing}{.sh,}", &["tools/sub/x.sh", "tools/thing"]),
        ("sh tools/{f,}", &["f", "tools/f"]),
        ("sh tools/{e..g}", &["tools/f", "tools/thing"]),
        ("ls tools/* | wc -l", &["tools/f", "tools/thing"]),
        ("sh $PWD/* ../repo/f?", &["f", "sandbox.json"]),
        ("bash -O extglob -c 'sh tools/@(thing|x)'", &["tools/f", "tools/thing"]),
        ("sh tools/$NAME", &["tools/f", "tools/thing"]),
        ("sh tools/$(uname)/x.sh", &["tools/sub/x.sh"]),
        ("sh tools/`uname`.sh tools/s*b/$X", &["tools/sub/x.sh"]),
        ("N=th; sh tools/${N}ing", &["tools/thing"]),
        ("bash <(cat tools/thing)", &["tools/thing"]),
        ("bash < tools/thing", &["tools/thing"]),
        ("cd tools/s* && ./x.sh", &["tools/sub/x.sh"]),
        ("sh /proc/self/cwd/tools/thing", &["tools/thing"]),
    ];
    for (command, named) in cases {
        assert_named(command, &files, named);
    }
}

#[test]
fn a_file_is_named_by_any_program_and_in_any_argument() {
    let cases = [
        "bash -euo pipefail tools/f",
        "bash -o pipefail tools/f",
        "BASH_ENV=tools/f bash -c true",
        "sh \"$(pwd)/tools/f\"",
        "sh \"`pwd`\"/tools/f",
        "python3 -u -W ignore tools/f",
        "busybox ash tools/f",
        "sh ../repo/tools/f",
        "cd .. && sh repo/tools/f",
        "sh ~/src/repo/tools/f",
        "go run tools/f",
        "java tools/f",
        "uv run tools/f",
        "gawk -f tools/f",
        "gawk -ftools/f",
        "vim -Stools/f",
        "gdb -x=tools/f",
        "expect tools/f",
        "make -C tools -f f",
        "curl --data=@tools/f file://tools/f",
        "docker run -v tools/f:/x image",
        "sh <<END\n. tools/f\nEND",
        "X='tools/f'; sh \"$X\"",
        "sh -c 'sh -c \"sh tools/f\"'",
        "echo $(sh $(echo tools/f))",
        ". ./tools//./f",
    ];
    for command in cases {
        assert_named(command, &["tools/f"], &["tools/f"]);
    }
    let settings = serde_json::json!({
        "env": { "SETUP_PATH": "tools:/usr/bin" }, "resumeCommands": ["PATH=$SETUP_PATH; thing"]
    });
    let world = World::new(&settings.to_string());
    world.write("tools/thing", "");
    assert_eq!(world.runs(), [PathBuf::from("tools/thing")], "by a variable of the file");
}

#[test]
fn a_link_to_another_place_of_the_repository_is_followed() {
    let world = commands(&["sh ./absolute; sh ./back; cd elsewhere && sh ../f; sh loop/loop/f"]);
    for name in ["real", "deep/f", "deep/er/x", "f"] {
        world.write(name, "");
    }
    symlink(world.root().join("real"), world.root().join("absolute")).unwrap();
    symlink("../repo/real", world.root().join("back")).unwrap();
    symlink("deep/er", world.root().join("elsewhere")).unwrap();
    symlink(".", world.root().join("loop")).unwrap();
    let found = world.runs();
    for name in ["real", "deep/f", "f"] {
        assert!(found.contains(&PathBuf::from(name)), "{name}: {found:?}");
    }
    let before = world.hash();
    world.write("real", "changed");
    assert_ne!(world.hash(), before);
}

#[test]
fn commands_that_name_too_much_are_refused_and_end_soon() {
    let many: String = (0..1100).map(|n| format!("d{n} ")).collect();
    let deep = format!("{}true{}", "$(".repeat(10_000), ")".repeat(10_000));
    let lists = "{a,b}".repeat(40);
    let words: String = (0..9000).map(|n| format!("w{n} ")).collect();
    let parents = "d1/../".repeat(600);
    let nested = format!("x {}{}{}", "$(y ".repeat(6), "z ".repeat(40_000), ")".repeat(6));
    let long = format!("{{a,b}}{}", "x".repeat(500_000));
    for command in [many, deep, lists, words, parents, nested, long] {
        let began = std::time::Instant::now();
        let world = commands(&[&command]);
        for n in 0..1100 {
            fs::create_dir(world.root().join(format!("d{n}"))).unwrap();
        }
        let refused = world.file().runs(&world.workspace());
        assert!(matches!(refused, Err(RepositoryError::TooWide { .. })), "{refused:?}");
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    }
    let stars = format!("sh {}", "*a".repeat(500));
    let world = commands(&[&stars]);
    world.write(&"a".repeat(250), "");
    assert!(world.runs().is_empty());
}

#[test]
fn link_to_the_outside_or_to_a_special_file_is_not_followed() {
    let world = commands(&["sh ./link; sh ./fifo; sh ./in; sh /etc/hostname; sh ../secret"]);
    fs::write(world.directory.path().join("secret"), "s").unwrap();
    symlink("/etc/hostname", world.root().join("link")).unwrap();
    world.write("real", "x");
    symlink("real", world.root().join("in")).unwrap();
    let fifo = world.root().join("fifo");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    assert_eq!(world.runs(), [PathBuf::from("in")]);
    let before = world.hash();
    world.write("real", "y");
    assert_ne!(world.hash(), before, "what a link in the repository leads to counts");
}
