"""Who may open which page, form, partial and download. How to write a line: ``access_table.py``."""

from __future__ import annotations

from access_table import ADMIN, EDITOR, MINE, OWNER, PUBLIC, SIGNED_IN, STAFF, VIEWER, at

WORKSPACE = "workspaces/<uuid:workspace_id>"
MEMBER = f"{WORKSPACE}/members/<uuid:user_id>"
INVITATION = f"{WORKSPACE}/invitations/<uuid:invitation_id>"
PROJECT = "projects/<uuid:project_id>"
MODEL = f"{PROJECT}/models/<uuid:model_id>/v<int:number>"
JOB = f"{PROJECT}/jobs/<uuid:job_id>"
REWARD = {"name": "New reward", "components-TOTAL_FORMS": "0", "count": "0"}

PORTAL = (
    at("", get=SIGNED_IN),
    at("search/", get=SIGNED_IN, query="q=a"),
    at("staff/mails/", get=STAFF),
    at("staff/mails/<uuid:message_id>/", get=STAFF),
    at(f"{PROJECT}/", get=VIEWER),
    at(f"{PROJECT}/models/<uuid:model_id>/", get=VIEWER),
    at(f"{PROJECT}/models/<uuid:model_id>/aliases/", post=EDITOR, form={"name": "production", "version": "1"}),
    at(f"{PROJECT}/models/<uuid:model_id>/aliases/remove/", post=EDITOR, form={"name": "candidate"}),
    at(f"{PROJECT}/models/<uuid:model_id>/describe/", post=EDITOR, form={"description": "new", "tags": "a, b"}),
    at(f"{PROJECT}/models/<uuid:model_id>/delete/", post=EDITOR),
    at(f"{PROJECT}/models/<uuid:model_id>/compare/", get=VIEWER),
    at(f"{MODEL}/note/", post=EDITOR, form={"notes": "new"}),
    at(f"{MODEL}/delete/", post=EDITOR),
    at(f"{PROJECT}/datasets/<uuid:dataset_id>/usage/", get=VIEWER, quiet=True),
    at(f"{PROJECT}/rewards/<uuid:reward_id>/usage/", get=VIEWER, quiet=True),
    at(f"{MODEL}/merged/", get=VIEWER, quiet=True),
    at(f"{MODEL}/merged/make/", post=EDITOR),
    at(f"{MODEL}/merged.zip", get=VIEWER),
)

SECURITY = "settings/security"
NOBODY = {"email": "nobody@example.org"}

SIGN_IN = (
    at("sign-in/", get=PUBLIC, post=PUBLIC, form=NOBODY | {"password": "wrong"}),
    at("sign-in/passkey/", get=PUBLIC, post=PUBLIC, form={"credential": "{}"}),
    at("sign-in/second-factor/", get=PUBLIC, post=PUBLIC, form={"code": "123456"}),
    at("sign-in/forgotten/", get=PUBLIC, post=PUBLIC, form=NOBODY),
    at("sign-in/forgotten/sent/", get=PUBLIC),
    at("sign-in/forgotten/<hex:uidb36>-<str:key>/", get=PUBLIC, post=PUBLIC, args={"key": "wrong"}),
    at("sign-in/forgotten/changed/", get=PUBLIC),
    at("sign-up/", get=PUBLIC, post=PUBLIC, form=NOBODY),
    at("sign-up/sent/", get=PUBLIC),
    at("sign-up/confirm/<str:key>/", get=PUBLIC, post=PUBLIC),
    at("sign-out/", post=PUBLIC),
    at(f"{SECURITY}/", get=SIGNED_IN),
    at(f"{SECURITY}/sessions/end/", post=SIGNED_IN),
    at(f"{SECURITY}/confirm/", get=SIGNED_IN, post=SIGNED_IN, form={"password": "wrong"}),
    at(f"{SECURITY}/confirm/code/", get=SIGNED_IN, post=SIGNED_IN, form={"code": "wrong"}),
    at(f"{SECURITY}/confirm/passkey/", get=SIGNED_IN, post=SIGNED_IN, form={"credential": "{}"}),
    at(f"{SECURITY}/app/add/", get=SIGNED_IN, post=SIGNED_IN, form={"code": "wrong"}),
    at(f"{SECURITY}/app/remove/", get=MINE, post=MINE),
    at(f"{SECURITY}/codes/", get=SIGNED_IN, post=SIGNED_IN, form={"action": "new"}),
    at(f"{SECURITY}/passkeys/add/", get=SIGNED_IN, post=SIGNED_IN, form={"credential": "{}"}),
    at(f"{SECURITY}/passkeys/<int:pk>/rename/", get=MINE, post=MINE, form={"name": "Mine"}),
    at(f"{SECURITY}/passkeys/<int:pk>/remove/", get=MINE, post=MINE),
    at("settings/email/", get=SIGNED_IN, post=SIGNED_IN, form=NOBODY | {"action_add": ""}),
    at("settings/password/", get=SIGNED_IN, post=SIGNED_IN, form={"old_password": "wrong"}),
)
# Not there before single sign-on is set up; tests/integration/workspaces/test_single_sign_on.py goes through them.
ONLY_WITH_SSO = ("sign-in/sso/", "sign-in/sso/callback/")

WORKSPACES = (
    at("settings/", get=SIGNED_IN, post=SIGNED_IN, form={"name": "New name"}),
    at("settings/theme/", post=SIGNED_IN, form={"theme": "dark"}),
    at("settings/tokens/", get=SIGNED_IN, post=SIGNED_IN, form={"name": "new"}),
    at("settings/tokens/<uuid:token_id>/revoke/", post=MINE),
    at("settings/account/", get=SIGNED_IN, post=SIGNED_IN, form={"typed_email": "wrong"}),
    at("settings/account/export/", post=SIGNED_IN),
    at("workspaces/new/", get=SIGNED_IN, post=SIGNED_IN, form={"name": "New team"}),
    at(f"{WORKSPACE}/projects/new/", get=EDITOR, post=EDITOR, form={"name": "New project"}),
)

TEAM = (
    # The key in the address opens it, and nothing else does.
    at("invitations/<str:key>/", get=PUBLIC, post=PUBLIC, args={"key": "wrong"}),
    at(f"{WORKSPACE}/", get=VIEWER, post=ADMIN, form={"name": "New name"}),
    at(f"{WORKSPACE}/transfer/", get=OWNER, post=OWNER, form={"typed_name": "wrong"}),
    at(f"{WORKSPACE}/leave/", post=VIEWER),
    at(f"{WORKSPACE}/export/", post=OWNER),
    at(f"{WORKSPACE}/delete/", get=OWNER, post=OWNER, form={"typed_name": "wrong"}),
    at(f"{WORKSPACE}/members/", get=VIEWER, post=ADMIN, form={"email": "new@example.org", "role": "10", "days": "7"}),
    at(f"{WORKSPACE}/members/who/", get=VIEWER),
    at(f"{MEMBER}/role/", post=ADMIN, form={"role": "20"}),
    at(f"{MEMBER}/remove/", post=ADMIN),
    at(f"{INVITATION}/revoke/", post=ADMIN),
    at(f"{INVITATION}/resend/", post=ADMIN),
    at(f"{WORKSPACE}/tokens/", get=ADMIN),
    at(f"{WORKSPACE}/tokens/<uuid:token_id>/revoke/", post=ADMIN),
    at(f"{WORKSPACE}/secrets/", get=EDITOR, post=ADMIN, form={"name": "NEW", "kind": "hub", "value": "new-value"}),
    at(f"{WORKSPACE}/secrets/<uuid:secret_id>/delete/", post=ADMIN),
    at(f"{WORKSPACE}/audit/", get=ADMIN),
    at(f"{WORKSPACE}/audit.csv", get=ADMIN),
)

CATALOG = (
    at(f"{PROJECT}/datasets/", get=VIEWER),
    at(f"{PROJECT}/datasets/upload/", get=EDITOR, post=EDITOR, form={"name": "New data"}),
    at(f"{PROJECT}/datasets/<uuid:dataset_id>/", get=VIEWER),
    at(f"{PROJECT}/datasets/<uuid:dataset_id>/v<int:number>/file/", get=VIEWER),
    at(f"{PROJECT}/datasets/<uuid:dataset_id>/v<int:number>/compare/", get=VIEWER, quiet=True),
    at(f"{PROJECT}/datasets/<uuid:dataset_id>/delete/", post=EDITOR),
    at(f"{PROJECT}/rewards/", get=VIEWER),
    at(f"{PROJECT}/rewards/new/", get=EDITOR, post=EDITOR, form=REWARD),
    at(f"{PROJECT}/rewards/component/", get=EDITOR, query="kind=exact"),
    at(f"{PROJECT}/rewards/try/", post=EDITOR, form=REWARD),
    at(f"{PROJECT}/rewards/<uuid:reward_id>/", get=VIEWER),
    at(f"{PROJECT}/rewards/<uuid:reward_id>/edit/", get=EDITOR, post=EDITOR, form=REWARD),
    at(f"{PROJECT}/rewards/<uuid:reward_id>/delete/", post=EDITOR),
    at(f"{PROJECT}/models/", get=VIEWER),
    at(f"{MODEL}/adapter.zip", get=VIEWER),
)

JOBS = (
    at("jobs/<uuid:job_id>/", get=VIEWER),
    at(f"{JOB}/pause/", get=EDITOR, post=EDITOR),
    at(f"{JOB}/resume/", get=EDITOR, post=EDITOR),
    at(f"{JOB}/checkpoints/", get=VIEWER, quiet=True),
    at(f"{JOB}/checkpoints/<uuid:checkpoint_id>/keep/", post=EDITOR, form={"kept": "1"}),
    at(f"{JOB}/checkpoints/<uuid:checkpoint_id>/download/", get=VIEWER),
    at(f"{PROJECT}/jobs/", get=VIEWER),
    at(f"{PROJECT}/jobs/new/", get=EDITOR, post=EDITOR, query="copy={job_id}", form={"name": "New job"}),
    at(f"{PROJECT}/jobs/new/preview/", post=EDITOR, form={"name": "New job"}),
    at(f"{PROJECT}/jobs/new/dry-run/", post=EDITOR, form={"name": "New job"}, quiet=True),
    at(f"{PROJECT}/jobs/new/example/", post=EDITOR, form={"preset": "mathematics"}),
    at(f"{PROJECT}/jobs/new/text/", post=EDITOR, form={"name": "New job", "copied_from": "{job_id}"}),
    at(f"{PROJECT}/jobs/new/text/file/", post=EDITOR, form={"text": "recipe: sft"}, quiet=True),
    at(f"{PROJECT}/jobs/new/text/apply/", post=EDITOR, form={"text": "recipe: sft"}),
    at(f"{PROJECT}/sweeps/", get=VIEWER),
    at(f"{PROJECT}/sweeps/new/", post=EDITOR, form={"name": "New job"}),
    at(f"{PROJECT}/sweeps/<uuid:sweep_id>/", get=VIEWER),
    at(f"{PROJECT}/sweeps/<uuid:sweep_id>/cancel/", post=EDITOR),
    at(f"{JOB}/", get=VIEWER),
    at(f"{JOB}/parts/", get=VIEWER),
    at(f"{JOB}/updates/", get=VIEWER),
    at(f"{JOB}/rollouts/", get=VIEWER),
    at(f"{JOB}/rollouts/<int:rollout_id>/text/", get=VIEWER),
    at(f"{JOB}/rollouts/diff/", get=VIEWER, query="prompt=key%200"),
    at(f"{JOB}/log/", get=VIEWER),
    at(f"{JOB}/log/lines/", get=VIEWER),
    at(f"{JOB}/report/", get=VIEWER),
    at(f"{JOB}/shares/", get=EDITOR),
    at(f"{JOB}/shares/new/", post=EDITOR, form={"days": "7"}),
    at(f"{JOB}/shares/<uuid:link_id>/revoke/", post=EDITOR),
    # The key in the address opens it, and nothing else does.
    at("shared/<str:key>/", get=PUBLIC, args={"key": "wrong"}),
    at(f"{PROJECT}/jobs/bulk/", get=EDITOR, post=EDITOR, query="do=tag&jobs={job_id}", form={"do": "tag"}),
    at(f"{PROJECT}/jobs/views/", post=VIEWER, form={"name": "Mine", "query": "state=failed"}),
    at(f"{PROJECT}/jobs/views/<uuid:view_id>/delete/", post=MINE),
    at(f"{JOB}/metrics.csv", get=VIEWER),
    at(f"{PROJECT}/charts/view/", post=VIEWER, form={"query": "x=tokens"}),
    at(f"{PROJECT}/compare/", get=VIEWER, query="jobs={job_id}"),
    at(f"{PROJECT}/compare/lines/", get=VIEWER, query="jobs={job_id}&key=train/x", quiet=True),
    at(f"{PROJECT}/compare/table.csv", get=VIEWER, query="jobs={job_id}"),
    at(f"{PROJECT}/compare/points.csv", get=VIEWER, query="jobs={job_id}"),
    at(f"{JOB}/cancel/", get=EDITOR, post=EDITOR),
)

PAGES = (*PORTAL, *SIGN_IN, *WORKSPACES, *TEAM, *CATALOG, *JOBS)
