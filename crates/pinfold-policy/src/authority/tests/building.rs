use std::time::{Duration, SystemTime};

use super::support::*;
use crate::access::Access;
use crate::authority::{AuthorityError, Effect, Grant, Pin, RootId, Rules, Symlinks, Why};
use crate::origin::Origin;

#[test]
fn one_inside_path_has_one_host() {
    let error =
        build([grant("/w", "/a", Access::FULL), grant("/w", "/b", Access::FULL)], []).unwrap_err();
    assert!(matches!(error, AuthorityError::SamePlace { .. }));
    assert_eq!(
        error.to_string(),
        "/w is granted twice: from /a by the built-in default and from /b by the built-in \
         default; remove one"
    );
}

#[test]
fn the_same_root_twice_is_the_union_under_the_stricter_rules() {
    let mut read = grant("/w", "/a", Access::READ);
    read.ask = Access::WRITE;
    read.rules = Rules { symlinks: Symlinks::Reject, ..Rules::default() };
    let authority = build([read, grant("/w", "/a", Access::WRITE | Access::LIST)], []).unwrap();
    let merged = authority.grant(&RootId::new("/w")).unwrap();
    assert_eq!(merged.access, Access::READ | Access::WRITE | Access::LIST);
    assert_eq!(merged.ask, Access::empty());
    assert_eq!(merged.rules.symlinks, Symlinks::Reject);
    assert_eq!(authority.grants().len(), 1);
}

#[test]
fn expired_or_empty_grant_is_refused() {
    let mut ended = grant("/w", "/a", Access::READ);
    ended.expires = Some(SystemTime::UNIX_EPOCH);
    assert!(matches!(build([ended.clone()], []), Err(AuthorityError::Expired { .. })));
    ended.expires = Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1));
    assert!(build([ended.clone()], []).is_ok());
    let lasting = grant("/w", "/a", Access::FULL);
    assert!(matches!(build([ended, lasting], []), Err(AuthorityError::DifferentEnds { .. })));
    let empty = grant("/w", "/a", Access::empty());
    assert!(matches!(build([empty], []), Err(AuthorityError::Empty { .. })));
}

#[test]
fn a_restriction_outside_every_grant_is_refused() {
    let outside = restriction("/home/me/wx/.env", Effect::Hide);
    let result = build([grant("/w", "/home/me/w", Access::FULL)], [outside]);
    assert!(matches!(result, Err(AuthorityError::Unreachable { .. })));
}

#[test]
fn a_grant_in_what_is_taken_away_is_refused() {
    let roots = |access| [grant("/w", "/w", Access::FULL), grant("/s", "/w/s/k", access)];
    for (effect, access, refused) in [
        (Effect::Hide, Access::READ, true),
        (Effect::ReadOnly, Access::FULL, true),
        (Effect::Private, Access::WRITE, true),
        (Effect::ReadOnly, Access::READ_ONLY, false),
    ] {
        let result = build(roots(access), [restriction("/w/s", effect)]);
        let is_refused = matches!(result, Err(AuthorityError::Restricted { .. }));
        assert_eq!(is_refused, refused, "{effect} {access}");
    }
}

#[test]
fn path_that_nobody_named_may_have_a_private_copy() {
    let of = |source: Origin| {
        let granted = Grant { source, ..grant("/w", "/w", Access::FULL) };
        build([granted], [restriction("/w", Effect::Private)])
    };
    let authority = of(Origin::Default).unwrap();
    let placed: Vec<_> = authority.placements().into_iter().map(|found| found.inside).collect();
    assert_eq!(placed, [inside("/w")]);
    let named = of(Origin::Flag { name: "--write" });
    assert!(matches!(named, Err(AuthorityError::Restricted { .. })), "{named:?}");
}

#[test]
fn grants_come_parents_first_and_the_hardest_restriction_stays() {
    let authority = build(
        [
            grant("/w/a/b", "/x", Access::FULL),
            grant("/w", "/w", Access::FULL),
            grant("/w/a", "/w/a", Access::READ),
        ],
        [restriction("/w/k", Effect::Private), restriction("/w/k", Effect::Hide)],
    )
    .unwrap();
    let order: Vec<_> = authority.grants().map(|grant| grant.root.inside.to_string()).collect();
    assert_eq!(order, ["/w", "/w/a", "/w/a/b"]);
    let effects: Vec<_> = authority.restrictions().map(|found| found.effect).collect();
    assert_eq!(effects, [Effect::Hide]);
}

#[test]
fn a_restriction_is_placed_wherever_its_file_appears_and_nowhere_else() {
    let authority = build(
        [
            grant("/w", "/src", Access::FULL),
            grant("/again", "/src/sub", Access::FULL),
            grant("/w/sub", "/other", Access::FULL),
        ],
        [restriction("/src/sub/.env", Effect::Hide)],
    )
    .unwrap();
    let places: Vec<_> =
        authority.placements().iter().map(|place| place.inside.to_string()).collect();
    assert_eq!(places, ["/again/.env"], "/w/sub shows /other, not /src/sub");
}

#[test]
fn directories_that_lead_to_what_is_protected_are_pinned() {
    let pin = |a: &str, b: &str| Pin { inside: inside(a), host: host(b) };
    assert_eq!(
        workspace().pins(),
        [pin("/w/sub", "/home/me/w/sub"), pin("/w/sub/.git", "/home/me/w/sub/.git")]
    );
}

#[test]
fn directories_that_lead_to_a_grant_of_less_are_pinned() {
    // Could `vendor`'s parent be moved, another could be made in its place on the host.
    let less =
        [grant("/w", "/w", Access::FULL), grant("/w/a/vendor", "/w/a/vendor", Access::READ_ONLY)];
    let authority = build(less, []).unwrap();
    assert_eq!(authority.pins(), [Pin { inside: inside("/w/a"), host: host("/w/a") }]);
    let more = [grant("/w", "/w", Access::READ_ONLY), grant("/w/a/out", "/w/a/out", Access::FULL)];
    assert_eq!(build(more, []).unwrap().pins(), []);
}

#[test]
fn directories_of_hidden_names_are_pinned_where_another_grant_would_show_them() {
    let pins = |sub| {
        let mut hidden = restriction("/w/x/.env", Effect::Hide);
        hidden.reason.why = Why::Secret;
        let both = [grant("/w", "/w", Access::FULL), grant(sub, "/w/sub", Access::FULL)];
        build(both, [hidden]).unwrap().pins()
    };
    // `mv /w/x /w/sub/x; cat /again/x/.env`, and the mask would be on /w/sub/x/.env alone.
    assert_eq!(pins("/again"), [Pin { inside: inside("/w/x"), host: host("/w/x") }]);
    // A grant at its own place is a mount there, which rename(2) does not cross.
    assert_eq!(pins("/w/sub"), []);
}

#[test]
fn a_grant_that_appears_in_what_is_taken_away_is_refused() {
    let grants = [grant("/w", "/w", Access::FULL), grant("/w/hidden/x", "/other", Access::FULL)];
    for effect in [Effect::Hide, Effect::ReadOnly] {
        let refused = build(grants.clone(), [restriction("/w/hidden", effect)]);
        assert!(matches!(refused, Err(AuthorityError::Restricted { .. })), "{refused:?}");
    }
}

#[test]
fn path_below_a_hidden_directory_has_no_place_inside() {
    let restrictions =
        [restriction("/w/hidden", Effect::Hide), restriction("/w/hidden/x", Effect::ReadOnly)];
    let authority = build([grant("/w", "/w", Access::FULL)], restrictions).unwrap();
    let placed: Vec<_> = authority.placements().into_iter().map(|found| found.inside).collect();
    assert_eq!(placed, [inside("/w/hidden")]);
}
