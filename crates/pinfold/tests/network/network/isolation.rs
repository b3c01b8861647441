//! What the sandbox can reach or change without a name.

use super::World;
use super::world::people_with;

#[test]
fn nothing_is_reached_without_a_name_and_nothing_of_the_door_is_changed() {
    let attacks = include_str!("isolation.py");
    for user in people_with("isolation", &[]) {
        let world = World::new(user, &["web", "internal"]);
        let control = world.python_outside(&format!("os.environ['CONTROL'] = 'reach'\n{attacks}"));
        for name in ["loopback", "metadata", "private", "direct", "abstract"] {
            assert_eq!(control.line(name), "SERVED at once", "{control:?}");
        }
        let said = world.python(&["--allow-host", "web.example.com"], attacks);
        assert!(said.ok, "{said:?}");
        let refused = "ConnectionRefusedError at once";
        for (name, expected) in [
            ("loopback", &[refused][..]),
            ("any", &[refused]),
            ("metadata", &["403 at once"]),
            ("private", &["403 at once"]),
            ("direct", &["403 at once"]),
            ("never-asked", &["403 at once"]),
            ("gateway-range", &["403 at once"]),
            ("direct-tls", &["<reset> at once", "403 at once"]),
            ("abstract", &[refused, "PermissionError at once"]),
            ("udp", &[refused]),
            ("udp-far", &[refused]),
            ("udp-name", &[refused]),
            ("bind-local", &["BOUND at once"]),
            ("still", &["HTTP/1.0 200 OK at once"]),
        ] {
            assert!(expected.contains(&said.line(name)), "{name}: {}\n{said:?}", said.line(name));
        }
        for name in ["direct-v6", "loopback-v6", "mapped", "udp-v6"] {
            let got = said.out.lines().find_map(|line| line.strip_prefix(name));
            assert!(
                got.is_none_or(|got| got.contains("403") || got.contains("Refused")),
                "{got:?}"
            );
        }
        for line in said.out.lines() {
            assert!(line.ends_with(" at once"), "{line}");
            assert!(!line.contains("SERVED") && !line.contains("DONE"), "{line}");
            assert!(!line.contains("SET") && !line.contains("OPEN"), "{line}");
            assert!(!line.contains("BOUND") || line.starts_with("bind-local "), "{line}");
        }
    }
}
