"""Servers that answer as github.com and api.github.com, to whoever has the token.

Every repository is private, so each request needs the token; whatever is answered repeats it, as
a careless or hostile server would.
"""

import base64
import json
import os
import re
import urllib.parse

import web

# Smart HTTP (gitprotocol-http(5)), as GitHub has it: with and without `.git`.
GIT = re.compile(r"/([^/]+)/([^/]+?)(?:\.git)?/(info/refs|git-upload-pack|git-receive-pack)")


class GitHub(web.Web):
    def handle_any(self):
        body = self.read_body()
        said = self.headers.get("Authorization", "")
        scheme, _, given = said.partition(" ")
        user = ""
        if scheme.lower() == "basic":
            user, _, given = base64.b64decode(given).decode().partition(":")
        with open(os.path.join(web.DIR, "token"), encoding="ascii") as file:
            known = given == file.read().strip()
        host = self.headers.get("Host", "")
        with web.LOCK, open(os.path.join(web.DIR, "seen"), "a", encoding="utf-8") as log:
            seen = {"host": host, "method": self.command, "path": self.path, "user": user, "given": given}
            seen["body"] = body.decode("latin-1") if host == "api.github.com" else ""
            log.write(json.dumps(seen) + "\n")
        if not known:
            challenge = 'Basic realm="GitHub"' if host == "github.com" else "none"
            return self.reply(b'{"message": "Bad credentials"}', 401, WWW_Authenticate=challenge)
        if host == "api.github.com":
            if self.path == "/away":
                return self.reply(b"", 302, Location="https://other.example.org/stolen")
            return self.api(body, given)
        return self.repository(body, given)

    do_GET = do_POST = do_HEAD = do_PUT = do_DELETE = do_PATCH = handle_any

    def repository(self, body, token):
        url = urllib.parse.urlsplit(self.path)
        asked = GIT.fullmatch(url.path)
        if url.path.startswith("/moved/"):
            return self.reply(b"", 301, Location="https://github.com/them/other.git" + self.path[len("/moved/r.git"):])
        if not asked:
            return self.reply(b"", 404)
        owner, name, service = asked.groups()
        # The hook of a push says it too.
        os.environ["GIVEN_TOKEN"] = token
        self.git(url._replace(path=f"/git/{owner}/{name}.git/{service}"), body)

    def api(self, body, token):
        headers = {"X_Echo": f"token {token}", "Content_Type": "application/json"}
        if self.path == "/graphql":
            answer = {"data": self.graph(json.loads(body)["query"])}
        else:
            answer = {"login": "me", "echo": token}
        self.reply(json.dumps(answer).encode(), **headers)

    def graph(self, query):
        """What `gh pr` and `gh issue` ask for."""
        if "createPullRequest" in query:
            url = "https://github.com/me/tool/pull/7"
            return {"createPullRequest": {"pullRequest": {"id": "P_7", "url": url}}}
        issue = {"id": "I_5", "number": 5, "url": "https://github.com/me/tool/issues/5", "title": "Wrong"}
        if "createIssue" in query:
            return {"createIssue": {"issue": issue}}
        repository = {
            "id": "R_1", "name": "tool", "owner": {"login": "me"}, "viewerPermission": "ADMIN",
            "hasIssuesEnabled": True, "hasWikiEnabled": False, "description": "", "parent": None,
            "mergeCommitAllowed": True, "rebaseMergeAllowed": True, "squashMergeAllowed": True,
            "defaultBranchRef": {"name": "main"}, "pullRequests": {"nodes": []},
            "issue": issue, "hasIssue": True,
        }
        if "PullRequestList" in query:
            first = {
                "number": 3, "title": "A first one", "state": "OPEN", "isDraft": False,
                "url": "https://github.com/me/tool/pull/3", "headRefName": "first",
                "headRepositoryOwner": {"id": "U_1", "login": "me"}, "isCrossRepository": False,
            }
            repository["pullRequests"] = {"totalCount": 1, "nodes": [first], "pageInfo": {}}
        return {"viewer": {"login": "me"}, "repository": repository}


def serve(directory, addresses):
    web.DIR = directory
    for address in addresses:
        web.background(web.Server((address, 443), GitHub, web.context()))
