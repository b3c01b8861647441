//! Which request about a diary is for what.

use http::Method;
use pinfold_content::Uuid;

use crate::scope::Scope;
use crate::server::caller::Cost;

/// An operation on a diary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    Token,
    Whoami,
    Diaries,
    Diary(Uuid),
    Entries(Uuid),
    CreateEntry(Uuid),
    Search,
    Tags(Uuid),
    Entry(Uuid),
    VerifyEntry(Uuid),
    ChangeEntry(Uuid),
    ChangePack(Uuid),
    LatestRendering(Uuid),
    ChangeRendering(Uuid),
    Supersede(Uuid),
    RemoveEntry(Uuid),
    RemoveEntries,
    Identity,
    SigningRequests,
    AskToSign,
    SigningRequest(Uuid),
    Sign(Uuid),
    Packs(Uuid),
    PreviewPack(Uuid),
    CreatePack(Uuid),
    Pack(Uuid),
    Provenance(Uuid),
    ProvenanceOf(String),
    Preview(Uuid),
    Render(Uuid),
    Renderings(Uuid),
    Rendering(Uuid),
    /// An id that is not one.
    InvalidId,
}

impl Route {
    /// Returns the operation that a method and a path stand for.
    pub(super) fn find(method: &Method, path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
        let with = |id: &str, route: fn(Uuid) -> Self| {
            Some(id.to_ascii_lowercase().parse().map_or(Self::InvalidId, route))
        };
        match (method.as_str(), &parts[..]) {
            ("POST", ["oauth2", "token"]) => Some(Self::Token),
            ("GET", ["agents", "whoami"]) => Some(Self::Whoami),
            ("GET", ["diaries"]) => Some(Self::Diaries),
            ("POST", ["diaries", "search"]) => Some(Self::Search),
            ("GET", ["diaries", id]) => with(id, Self::Diary),
            ("GET", ["diaries", id, "entries"]) => with(id, Self::Entries),
            ("POST", ["diaries", id, "entries"]) => with(id, Self::CreateEntry),
            ("GET", ["diaries", id, "tags"]) => with(id, Self::Tags),
            ("GET", ["diaries", id, "packs"]) => with(id, Self::Packs),
            ("POST", ["diaries", id, "packs"]) => with(id, Self::CreatePack),
            ("POST", ["diaries", id, "packs", "preview"]) => with(id, Self::PreviewPack),
            ("GET", ["diaries", id, "rendered-packs"]) => with(id, Self::Renderings),
            ("GET", ["entries", id]) => with(id, Self::Entry),
            ("GET", ["entries", id, "verify"]) => with(id, Self::VerifyEntry),
            ("PATCH", ["entries", id]) => with(id, Self::ChangeEntry),
            ("PATCH", ["packs", id]) => with(id, Self::ChangePack),
            ("GET", ["packs", id, "rendered"]) => with(id, Self::LatestRendering),
            ("PATCH", ["rendered-packs", id]) => with(id, Self::ChangeRendering),
            ("POST", ["entries", id, "relations"]) => with(id, Self::Supersede),
            ("DELETE", ["entries"]) => Some(Self::RemoveEntries),
            ("DELETE", ["entries", id]) => with(id, Self::RemoveEntry),
            ("GET", ["crypto", "identity"]) => Some(Self::Identity),
            ("GET", ["crypto", "signing-requests"]) => Some(Self::SigningRequests),
            ("POST", ["crypto", "signing-requests"]) => Some(Self::AskToSign),
            ("GET", ["crypto", "signing-requests", id]) => with(id, Self::SigningRequest),
            ("POST", ["crypto", "signing-requests", id, "sign"]) => with(id, Self::Sign),
            ("GET", ["packs", "by-cid", cid, "provenance"]) => {
                Some(Self::ProvenanceOf((*cid).to_owned()))
            }
            ("GET", ["packs", id]) => with(id, Self::Pack),
            ("GET", ["packs", id, "provenance"]) => with(id, Self::Provenance),
            ("POST", ["packs", id, "render", "preview"]) => with(id, Self::Preview),
            ("POST", ["packs", id, "render"]) => with(id, Self::Render),
            ("GET", ["rendered-packs", id]) => with(id, Self::Rendering),
            _ => None,
        }
    }

    /// Returns its name in the audit log.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Token | Self::Whoami | Self::InvalidId => "serve:login",
            Self::Diaries | Self::Diary(_) => "serve:diaries",
            Self::Entries(_) => "serve:list_entries",
            Self::CreateEntry(_) => "serve:create_entry",
            Self::Search => "serve:search_entries",
            Self::Tags(_) => "serve:diary_tags",
            Self::Entry(_) => "serve:get_entry",
            Self::VerifyEntry(_) => "serve:verify_entry",
            Self::ChangeEntry(_) => "serve:change_entry",
            Self::ChangePack(_) => "serve:change_pack",
            Self::ChangeRendering(_) => "serve:change_rendered_pack",
            Self::Supersede(_) => "serve:supersede_entry",
            Self::RemoveEntry(_) | Self::RemoveEntries => "serve:remove_entry",
            Self::Identity => "serve:login",
            Self::SigningRequests | Self::SigningRequest(_) => "serve:signing_requests",
            Self::AskToSign | Self::Sign(_) => "serve:sign",
            Self::Packs(_) => "serve:packs",
            Self::PreviewPack(_) => "serve:pack_preview",
            Self::CreatePack(_) => "serve:pack_create",
            Self::Pack(_) => "serve:pack_get",
            Self::Provenance(_) | Self::ProvenanceOf(_) => "serve:pack_provenance",
            Self::Preview(_) | Self::Render(_) => "serve:pack_render",
            Self::Renderings(_) => "serve:rendered_pack_list",
            Self::Rendering(_) | Self::LatestRendering(_) => "serve:rendered_pack_get",
        }
    }

    /// Returns what a caller needs for it.
    pub(super) fn scope(&self) -> Option<Scope> {
        match self {
            Self::Token => None,
            Self::Whoami => Some(Scope::AgentProfile),
            Self::Diaries
            | Self::Diary(_)
            | Self::InvalidId
            | Self::Entries(_)
            | Self::Search
            | Self::Tags(_)
            | Self::Entry(_)
            | Self::VerifyEntry(_) => Some(Scope::DiaryRead),
            Self::CreateEntry(_) | Self::ChangeEntry(_) | Self::Supersede(_) => {
                Some(Scope::DiaryWrite)
            }
            Self::RemoveEntry(_) | Self::RemoveEntries => Some(Scope::DiaryManage),
            Self::Identity
            | Self::SigningRequests
            | Self::SigningRequest(_)
            | Self::AskToSign
            | Self::Sign(_) => Some(Scope::CryptoSign),
            Self::Packs(_)
            | Self::PreviewPack(_)
            | Self::Pack(_)
            | Self::Provenance(_)
            | Self::ProvenanceOf(_)
            | Self::Preview(_)
            | Self::Renderings(_)
            | Self::LatestRendering(_)
            | Self::Rendering(_) => Some(Scope::PackRead),
            Self::CreatePack(_)
            | Self::Render(_)
            | Self::ChangePack(_)
            | Self::ChangeRendering(_) => Some(Scope::PackWrite),
        }
    }

    /// Returns whether it changes something.
    pub(super) fn cost(&self) -> Cost {
        match self {
            Self::CreateEntry(_)
            | Self::ChangeEntry(_)
            | Self::ChangePack(_)
            | Self::ChangeRendering(_)
            | Self::Supersede(_)
            | Self::RemoveEntry(_)
            | Self::RemoveEntries
            | Self::AskToSign
            | Self::Sign(_)
            | Self::CreatePack(_)
            | Self::Render(_) => Cost::Write,
            _ => Cost::Read,
        }
    }

    /// Returns the status of its success.
    pub(super) fn status(&self) -> u16 {
        match self {
            Self::CreateEntry(_)
            | Self::Supersede(_)
            | Self::AskToSign
            | Self::CreatePack(_)
            | Self::Render(_) => 201,
            _ => 200,
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::Route;

    #[test]
    fn paths_that_are_not_exact_lead_nowhere() {
        let id = "22222222-2222-4222-8222-222222222222";
        assert!(Route::find(&Method::GET, &format!("/diaries/{id}/entries")).is_some());
        for path in ["", "/", "//diaries", "/Diaries", "/diaries/", "/entries", "/packs/by-cid"] {
            let found = Route::find(&Method::GET, path);
            assert!(found.is_none() || found == Some(Route::InvalidId), "{path}");
        }
        for path in ["/diaries/..%2fx/entries", "/entries/..", "/packs/x/provenance"] {
            assert_eq!(Route::find(&Method::GET, path), Some(Route::InvalidId), "{path}");
        }
    }
}
