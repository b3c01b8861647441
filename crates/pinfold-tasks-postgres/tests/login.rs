//! How a server and its user prove who they are to each other, with a real server.

#![expect(clippy::unwrap_used, reason = "a failing helper is a failing test")]

use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, chown};

use pinfold_host::directories::Places;
use pinfold_tasks::{Queue, StoreError, TaskId};
use pinfold_tasks_postgres::{Address, PostgresStore};
use pinfold_testkit::{Postgres, people};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustix::process::Signal;

/// The user's password.
const PASSWORD: &str = "hush-hush";

/// An authority.
fn authority(name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A server that takes passwords over encrypted connections alone.
struct Server {
    #[expect(dead_code, reason = "it ends with the value")]
    postgres: Postgres,
    directory: tempfile::TempDir,
    port: u16,
}

impl Server {
    fn start(test: &str) -> Option<Self> {
        let directory = tempfile::Builder::new().prefix("pf-tls-").tempdir().unwrap();
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
        let file = |name: &str, content: &str| {
            let path = directory.path().join(name);
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            if let Some(user) = people().into_iter().find(|user| !user.is_root()) {
                chown(&path, Some(user.uid), Some(user.gid)).unwrap();
            }
            path.display().to_string()
        };
        let (own, other) = (authority("the server's"), authority("another"));
        fs::write(directory.path().join("own.crt"), own.pem()).unwrap();
        fs::write(directory.path().join("other.crt"), other.pem()).unwrap();
        let key = KeyPair::generate().unwrap();
        let names = vec!["localhost".to_owned()];
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &own).unwrap();
        let (certificate, key) =
            (file("server.crt", &certificate.pem()), file("server.key", &key.serialize_pem()));
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let settings = [
            "ssl=on".to_owned(),
            format!("ssl_cert_file={certificate}"),
            format!("ssl_key_file={key}"),
            "listen_addresses=127.0.0.1".to_owned(),
            format!("port={port}"),
            "password_encryption=scram-sha-256".to_owned(),
        ];
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        let mut postgres = Postgres::start_with(test, None, &settings)?;
        postgres.sql("postgres", &format!("ALTER ROLE pinfold PASSWORD '{PASSWORD}'"));
        let rules = "local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n";
        fs::write(postgres.path("data/pg_hba.conf"), rules).unwrap();
        postgres.end(Signal::INT);
        postgres.restart();
        Some(Self { postgres, directory, port })
    }

    /// Opens a store at a host of the server, with this password and these parameters.
    fn open(&self, host: &str, password: &str, parameters: &str) -> Result<(), StoreError> {
        let roots = |name: &str| self.directory.path().join(name).display().to_string();
        let parameters =
            parameters.replace("OWN", &roots("own.crt")).replace("OTHER", &roots("other.crt"));
        let url =
            format!("postgresql://pinfold:{password}@{host}:{}/postgres?{parameters}", self.port);
        let places = Places::find().unwrap();
        let opened = PostgresStore::open(Address::parse(&url, &places).unwrap());
        let shown = format!("{opened:?} {}", opened.as_ref().err().map_or("", |_| "error"));
        assert!(!shown.contains(password), "{shown}");
        let store = opened?;
        let missing = Queue::new(store).task(TaskId::from_random([7; 16]));
        assert!(matches!(missing, Err(pinfold_tasks::QueueError::NotFound(_))), "{missing:?}");
        Ok(())
    }
}

#[test]
fn server_proves_as_much_as_the_address_asks_for() {
    let Some(server) = Server::start("server_proves_as_much_as_the_address_asks_for") else {
        return;
    };
    let open = |host: &str, parameters: &str| server.open(host, PASSWORD, parameters);
    for (host, parameters) in [
        ("127.0.0.1", "sslmode=require"),
        ("127.0.0.1", "sslmode=require&sslrootcert=OWN"),
        ("127.0.0.1", "sslmode=verify-ca&sslrootcert=OWN"),
        ("localhost", "sslmode=verify-full&sslrootcert=OWN"),
    ] {
        open(host, parameters).unwrap_or_else(|error| panic!("{host} {parameters}: {error}"));
    }
    for (host, parameters) in [
        // Another name than the certificate has.
        ("127.0.0.1", "sslmode=verify-full&sslrootcert=OWN"),
        ("localhost", "sslmode=verify-full&sslrootcert=OTHER"),
        ("127.0.0.1", "sslmode=verify-ca&sslrootcert=OTHER"),
        ("127.0.0.1", "sslmode=require&sslrootcert=OTHER"),
        // The system's authorities do not know this one.
        ("localhost", "sslmode=verify-full&sslrootcert=system"),
        ("localhost", "sslmode=verify-full&sslrootcert=/nonexistent"),
    ] {
        let error = open(host, parameters).unwrap_err();
        assert!(matches!(error, StoreError::Unreachable(_)), "{host} {parameters}: {error}");
    }
    // The server takes no password without encryption.
    let error = open("127.0.0.1", "sslmode=disable").unwrap_err();
    assert!(matches!(error, StoreError::Denied(_)), "{error}");
}

#[test]
fn user_without_the_right_password_is_refused_for_good() {
    let Some(server) = Server::start("user_without_the_right_password") else { return };
    let error = server.open("127.0.0.1", "guessed-it", "sslmode=require").unwrap_err();
    assert!(matches!(error, StoreError::Denied(_)) && !error.is_transient(), "{error}");
    assert!(error.to_string().contains("password authentication failed"), "{error}");
}

/// It would get the password.
#[test]
fn server_that_has_no_encryption_gets_nothing() {
    use std::io::{Read as _, Write as _};
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut request = [0; 8];
        client.read_exact(&mut request).unwrap();
        client.write_all(b"N").unwrap();
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).unwrap();
        rest
    });
    let url = format!("postgresql://me:{PASSWORD}@127.0.0.1:{port}/x?sslmode=require");
    let address = Address::parse(&url, &Places::find().unwrap()).unwrap();
    let error = PostgresStore::open(address).unwrap_err();
    assert!(error.to_string().contains("does not support TLS"), "{error}");
    assert_eq!(server.join().unwrap(), b"");
}
