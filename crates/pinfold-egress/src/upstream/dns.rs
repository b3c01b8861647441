//! Names to addresses, without the C library: in a static executable `getaddrinfo` would load
//! shared objects of whatever C library the machine has.

use std::fs::Metadata;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::MetadataExt as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hickory_resolver::config::LookupIpStrategy;
use hickory_resolver::proto::op::Query;
use hickory_resolver::proto::rr::RecordType;
use hickory_resolver::{Hosts, IntoName as _, ResolveError, TokioResolver};
use hyper_util::client::legacy::connect::dns::Name;
use parking_lot::Mutex;
use tower_service::Service;

use super::Failure;

/// The files that decide how names are resolved.
const FILES: [&str; 2] = ["/etc/resolv.conf", "/etc/hosts"];

/// A resolver by `/etc/resolv.conf` and `/etc/hosts`, which are read when a name is first asked
/// for, and again when they have changed: a laptop changes its network under a running session.
#[derive(Clone, Default)]
pub(crate) struct Dns(Arc<Mutex<Option<Cached>>>);

struct Cached {
    resolver: TokioResolver,
    hosts: Arc<Hosts>,
    stamp: [Option<Stamp>; FILES.len()],
}

/// What changes when a file is edited or replaced: device, inode, seconds, nanoseconds.
type Stamp = (u64, u64, i64, i64);

impl Dns {
    /// Begins again, with the settings as they are then.
    pub(crate) fn forget(&self) {
        *self.0.lock() = None;
    }

    fn resolver(&self) -> Result<(TokioResolver, Arc<Hosts>), ResolveError> {
        let stamp = FILES.map(|path| std::fs::metadata(path).ok().map(|m| stamp_of(&m)));
        let mut cached = self.0.lock();
        if let Some(cached) = cached.as_ref().filter(|cached| cached.stamp == stamp) {
            return Ok((cached.resolver.clone(), Arc::clone(&cached.hosts)));
        }
        let mut builder = TokioResolver::builder_tokio()?;
        builder.options_mut().ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
        let resolver = builder.build();
        // A machine may have no such file.
        let hosts = Arc::new(Hosts::from_system().unwrap_or_default());
        *cached = Some(Cached { resolver: resolver.clone(), hosts: Arc::clone(&hosts), stamp });
        Ok((resolver, hosts))
    }

    pub(crate) async fn resolve(self, name: String) -> Result<Vec<IpAddr>, Failure> {
        // RFC 6761, 6.3: `localhost` is this machine, whatever a resolver would say.
        if name.eq_ignore_ascii_case("localhost") {
            return Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
        }
        let failed = |cause| Failure::Dns { name: name.clone(), cause, missing: false };
        let (resolver, hosts) = self
            .resolver()
            .map_err(|error| failed(format!("the system's resolver settings: {error}")))?;
        let written = written(&hosts, &name);
        if !written.is_empty() {
            return Ok(written);
        }
        // A name with a dot is complete: the search list of resolv.conf is for short ones.
        let asked = if name.contains('.') && !name.ends_with('.') {
            format!("{name}.")
        } else {
            name.clone()
        };
        let found = resolver.lookup_ip(asked).await.map_err(|error| Failure::Dns {
            name: name.clone(),
            cause: in_words(&error),
            missing: error.is_no_records_found(),
        })?;
        let mut addresses: Vec<IpAddr> = found.iter().collect();
        // The connector begins with the first family and tries the other soon after.
        addresses.sort_by_key(IpAddr::is_ipv6);
        Ok(addresses)
    }
}

/// Returns the addresses of a host, which is asked for without the C library. It needs a runtime of tokio.
///
/// # Errors
/// Returns what the resolver says.
pub async fn addresses_of(name: &str) -> std::io::Result<Vec<IpAddr>> {
    Dns::default().resolve(name.to_owned()).await.map_err(std::io::Error::other)
}

/// Returns the addresses that `/etc/hosts` gives a name. As `getaddrinfo(3)` does it, a name with an address of
/// one family there has none of the other: a resolver is not asked, which may not answer or know another host.
fn written(hosts: &Hosts, name: &str) -> Vec<IpAddr> {
    let Ok(name) = name.into_name() else { return Vec::new() };
    let lookup = |kind| hosts.lookup_static_host(&Query::query(name.clone(), kind));
    let found = [RecordType::A, RecordType::AAAA].into_iter().filter_map(lookup);
    found
        .flat_map(|lookup| lookup.iter().filter_map(|data| data.ip_addr()).collect::<Vec<_>>())
        .collect()
}

fn stamp_of(metadata: &Metadata) -> Stamp {
    (metadata.dev(), metadata.ino(), metadata.mtime(), metadata.mtime_nsec())
}

fn in_words(error: &ResolveError) -> String {
    if error.is_nx_domain() {
        "the name does not exist".to_owned()
    } else if error.is_no_records_found() {
        "the name has no address".to_owned()
    } else {
        error.to_string()
    }
}

impl Service<Name> for Dns {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = Failure;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Failure>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let resolving = self.clone().resolve(name.as_str().to_owned());
        Box::pin(async move {
            // The connector puts the port in.
            let addresses: Vec<SocketAddr> =
                resolving.await?.into_iter().map(|ip| SocketAddr::new(ip, 0)).collect();
            Ok(addresses.into_iter())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_in_the_hosts_file_has_the_addresses_there_and_no_others() {
        let mut hosts = Hosts::default();
        let file = "93.184.216.34 gateway.corp gateway\n::1 six.corp\n10.0.0.1 both.corp\nfd00::1 both.corp\n";
        hosts.read_hosts_conf(file.as_bytes()).unwrap();
        let of =
            |name: &str| written(&hosts, name).iter().map(IpAddr::to_string).collect::<Vec<_>>();
        for name in ["gateway.corp", "Gateway.Corp", "gateway.corp.", "gateway"] {
            assert_eq!(of(name), ["93.184.216.34"], "{name}");
        }
        assert_eq!(of("six.corp"), ["::1"]);
        assert_eq!(of("both.corp"), ["10.0.0.1", "fd00::1"]);
        for name in ["corp", "other.corp", "", "..", "a b"] {
            assert!(of(name).is_empty(), "{name}");
        }
    }
}
