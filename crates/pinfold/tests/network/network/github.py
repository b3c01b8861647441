"""Servers that answer as github.com and api.github.com, to any client that has the token.

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
            asked = json.loads(body)
            answer = {"data": self.graph(asked["query"], asked.get("variables") or {})}
        elif match := re.fullmatch("/repos/me/tool/issues/([0-9]+)", self.path):
            issue = issues()[match[1]]
            answer = {"number": int(match[1]), "user": {"login": issue["author"]}}
            answer["author_association"] = issue["association"]
        elif match := re.fullmatch("/repos/me/tool/collaborators/([a-z]+)/permission", self.path):
            # Members of an organization do not all have the right to write.
            permission = {"ada": "write", "bob": "write", "eve": "admin", "liz": "read"}.get(match[1])
            if not permission:
                return self.reply(b'{"message": "Not Found"}', 404, **headers)
            answer = {"permission": permission, "role_name": permission}
        elif self.path == "/repos/me/tool/labels":
            name = json.loads(body)["name"]
            keep(lambda all: all["labels"].append(name))
            return self.reply(json.dumps({"name": name}).encode(), 201, **headers)
        else:
            answer = {"login": "me", "echo": token}
        self.reply(json.dumps(answer).encode(), **headers)

    def graph(self, query, variables):
        """What `gh pr` and `gh issue` ask for."""
        if os.path.exists(ISSUES()):
            return self.graph_of_issues(query, variables)
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

    def graph_of_issues(self, query, variables):
        """The same for the issues in a file, which can be changed."""
        given = variables.get("input", {})

        def change(all):
            number = (given.get("id") or given.get("labelableId", "")).removeprefix("I_")
            names = [label.removeprefix("L_") for label in given.get("labelIds", [])]
            labels = all[number]["labels"]
            if "updateIssue" in query:
                all[number]["body"] = given.get("body", all[number]["body"])
            elif "addLabels" in query:
                labels += [name for name in names if name not in labels]
            elif "removeLabels" in query:
                all[number]["labels"] = [name for name in labels if name not in names]

        if given:
            keep(change)
            # gh takes nothing that it has not asked for.
            changes = ("updateIssue", "addLabelsToLabelable", "removeLabelsFromLabelable")
            return {name: {"__typename": "Change"} for name in changes if name in query}
        if "node(id" in query:
            return {"node": {"comments": shown(variables["id"].removeprefix("I_"))["comments"]}}
        all = issues()
        known = [{"id": "L_" + name, "name": name} for name in all.pop("labels")]
        labels = {"nodes": known, "pageInfo": {"hasNextPage": False}}
        repository = {"hasIssuesEnabled": True}
        if "search(" in query:
            wanted = set(re.findall(r'label:"?([a-z:-]+)', variables["query"]))
            found = [shown(number) for number in all if wanted <= set(all[number]["labels"])]
            search = {"issueCount": len(found), "nodes": found, "pageInfo": {"hasNextPage": False}}
            return {"repository": repository, "search": search}
        if "number" in variables:
            repository["issue"] = shown(str(variables["number"]))
        elif "labels(" in query:
            repository = {"labels": labels}
        return {"repository": repository}


def ISSUES():
    return os.path.join(web.DIR, "issues.json")


def issues():
    with open(ISSUES(), encoding="utf-8") as file:
        return json.load(file)


def keep(change):
    with web.LOCK:
        all = issues()
        change(all)
        with open(ISSUES() + ".new", "w", encoding="utf-8") as file:
            json.dump(all, file)
        os.rename(ISSUES() + ".new", ISSUES())


def label(name):
    return {"id": "L_" + name, "name": name, "description": "", "color": "ededed"}


def shown(number):
    """An issue as GraphQL shows it."""
    issue = issues()[number]
    nodes = [
        {"id": f"C_{at}", "author": {"login": author}, "authorAssociation": association, "body": body,
         "createdAt": "2026-01-01T00:00:00Z", "reactionGroups": []}
        for at, (author, association, body) in enumerate(issue["comments"])
    ]
    labels = [label(name) for name in issue["labels"]]
    return {
        "__typename": "Issue", "id": "I_" + number, "number": int(number), "title": issue["title"], "state": "OPEN",
        "body": issue["body"], "author": {"id": "U_1", "login": issue["author"], "name": ""}, "updatedAt": "2026-01-01T00:00:00Z",
        "url": issue.get("url", f"https://github.com/me/tool/issues/{number}"),
        "labels": {"nodes": labels, "totalCount": len(labels)},
        "comments": {"nodes": nodes, "pageInfo": {"hasNextPage": False}, "totalCount": len(nodes)},
    }


def serve(directory, addresses):
    web.DIR = directory
    for address in addresses:
        web.background(web.Server((address, 443), GitHub, web.context()))
