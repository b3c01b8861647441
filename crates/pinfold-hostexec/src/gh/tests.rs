//! Words of gh's that the host runs, and words that it does not.

use super::check;

fn words(text: &str) -> Vec<Vec<u8>> {
    text.split(' ').map(|word| word.replace('_', " ").into_bytes()).collect()
}

#[test]
fn commands_that_only_speak_to_github_are_run() {
    for line in [
        "--version",
        "api user",
        "api repos/a/b/issues -X POST -f title=x -F number=3 --input -",
        "api graphql -F query=@- --jq .data",
        "issue create --title T --body-file - -R a/b",
        "issue new -tx -F -",
        "pr create --head x --title T --body B --base main",
        "pr list --json title --template {{.}}",
        "pr merge 7 --squash -dF -",
        "pr view 7 -R git.example.com/a/b",
        "release create v1 --notes=text --title=One -d",
        "release view v1",
        "run list -w ci.yml",
        "search code x",
        "secret set NAME --body x",
        "status",
        "workflow run ci.yml -F key=value",
    ] {
        assert_eq!(check(&words(line)), Ok(()), "{line}");
    }
}

#[test]
fn commands_that_give_a_login_away_change_settings_or_start_programs_are_refused() {
    for line in [
        "",
        "auth token",
        "auth status --show-token",
        "auth git-credential get",
        "-h github.com auth token",
        "--help=false auth token",
        "--hostname github.com auth token",
        "pr -R a/b checkout 7",
        " auth token",
        "AUTH token",
        "config get -h github.com oauth_token",
        "config set pager x",
        "alias set api !sh",
        "extension exec x",
        "ext install a/b",
        "codespace ssh",
        "cs ssh",
        "browse",
        "completion",
        "my-alias",
        "pr checkout 7",
        "pr co 7",
        "pr",
        "issue develop 7 --checkout",
        "repo clone a/b /home/me/bin",
        "repo clone a/b -- -c core.sshCommand=x",
        "repo create x --source . --push",
        "repo fork --clone",
        "repo sync",
        "gist clone x",
        "gist create /etc/passwd",
        "gist edit x",
        "release download v1 -D /home/me",
        "release upload v1 /etc/passwd",
        "run download 7 -D /home/me",
        "ssh-key add /etc/passwd",
        "gpg-key add /etc/passwd",
        "attestation download x",
    ] {
        assert!(check(&words(line)).is_err(), "{line}");
    }
    assert!(check(&[]).is_err());
}

#[test]
fn no_word_names_a_file_of_the_hosts() {
    for line in [
        "issue create --title T --body-file /etc/passwd",
        "issue create --title T --body-file=/etc/passwd",
        "issue create --body-file",
        "pr create -F /etc/passwd",
        "pr create -F/etc/passwd",
        "pr create -F=/etc/passwd",
        "pr create -dF/etc/passwd",
        "pr merge 7 -sdF /etc/passwd",
        "pr review 7 -aF /etc/passwd",
        "pr create --recover /etc/passwd",
        "pr create -T x",
        "issue new --template=x",
        "release edit v1 --notes-file=/etc/passwd",
        "release edit v1 -F /etc/passwd",
        "release create v1 -F /etc/passwd",
        "release create v1 /etc/passwd",
        "release create v1 --notes x",
        "release create --draft v1 /etc/passwd",
        "release create v1 -- -x",
        "release create v1 -",
        "api x --input /etc/passwd",
        "api x --input=/etc/passwd",
        "api x -F a=@/etc/passwd",
        "api x -Fa=@/etc/passwd",
        "api x -iFa[b]=@/etc/passwd",
        "api x --field=a=@/etc/passwd",
        "api x --field a=@-/../x",
        "workflow run x -F a=@/etc/passwd",
        "secret set -f /etc/passwd",
        "secret set -uf/etc/passwd",
        "secret set --env-file=/etc/passwd",
        "variable set -f x",
    ] {
        assert!(check(&words(line)).is_err(), "{line}");
    }
}
