//! gRPC with the library that most languages' are made from.

use std::path::Path;

use pinfold_testkit::{Stage, skip};

use super::World;
use super::world::people_with;

/// Debian's python3-grpcio.
const LIBRARY: &str = "/usr/lib/python3/dist-packages/grpc";

const CLIENT: &str = r#"
import os, queue, sys, grpc
channel = grpc.secure_channel("grpc.example.com:443", grpc.ssl_channel_credentials())
token = os.environ.get("SVC", "nothing")
answer, call = channel.unary_unary("/test.Service/Echo").with_call(
    b"x" * 300000, metadata=(("authorization", token),), timeout=10)
print("echo", len(answer), dict(call.initial_metadata())["x-first"] == token, dict(call.trailing_metadata())["x-last"])
asked = queue.SimpleQueue()
heard = channel.stream_stream("/test.Service/Talk")(iter(asked.get, None), timeout=10)
said = []
for number in range(50):
    # The next is said when the last was answered: nothing may be held back.
    asked.put(b"%d" % number)
    said.append(next(heard))
asked.put(None)
print("talk", len(said), said[-1].decode(), next(heard, "end"))
print("count", sum(map(len, channel.unary_stream("/test.Service/Count")(b"1000", timeout=10))))
try: channel.unary_unary("/test.Service/Fail")(b"", timeout=10)
except grpc.RpcError as error: print("fail", error.code().name, error.details())
denied = grpc.secure_channel("denied.example.com:443", grpc.ssl_channel_credentials())
try: denied.unary_unary("/test.Service/Echo")(b"", timeout=5)
except grpc.RpcError as error: print("denied", error.code().name, "pinfold run --allow-host denied.example.com" in error.details())
"#;

const REAL: &str = "svc-real-0123456789abcdefghijklmnop";

fn server(stage: &Stage) {
    stage.write("world/grpc_server.py", include_str!("grpc_server.py"));
}

#[test]
fn grpc_works_in_a_tunnel_and_where_a_secret_is_put_in() {
    if !Path::new(LIBRARY).exists() {
        return skip("gRPC", "python3-grpcio is not installed");
    }
    let expected = "echo 300000 True end\ntalk 50 heard 49 end\ncount 2890000\n\
        fail NOT_FOUND no such thing\n";
    for user in people_with("gRPC", &[]) {
        let world = World::prepared(user, &["grpc"], server);
        world.stage.write("ws/client.py", CLIENT);
        world.set_secret("svc", REAL);
        let secret = "[[secrets]]\nid = \"svc\"\nenv = \"SVC\"\nhosts = [\"grpc.example.com\"]\n";
        // The library trusts the authorities that it brings unless it is given others.
        let own = "export GRPC_DEFAULT_SSL_ROOTS_FILE_PATH=/etc/ssl/certs/ca-certificates.crt;";
        let direct = "unset https_proxy HTTPS_PROXY http_proxy HTTP_PROXY;";
        let allowed = ["--allow-host", "grpc.example.com"];
        for (config, options, prelude, denied) in [
            ("", &allowed[..], [own, ""], "UNAVAILABLE False"),
            ("", &allowed, [own, direct], "UNAVAILABLE False"),
            // Through TLS the reason arrives.
            (secret, &[], ["", ""], "PERMISSION_DENIED True"),
            (secret, &[], ["", direct], "UNAVAILABLE False"),
        ] {
            world.config(config);
            let script = format!("{} /usr/bin/python3 client.py", prelude.concat());
            let said = world.shell(options, &script);
            assert_eq!(said.out, format!("{expected}denied {denied}\n"), "{}", said.err);
            assert_eq!(said.refusals().len(), 1, "{}", said.err);
        }
        assert_eq!(world.seen(), format!("nothing\nnothing\n{REAL}\n{REAL}\n"));
    }
}
