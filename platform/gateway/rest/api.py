"""The API as a whole."""

from __future__ import annotations

from ninja import NinjaAPI

from gateway.rest import account, catalog, events, job_life, jobs, registry, team
from gateway.rest.auth import ApiKey, Bearer
from gateway.rest.body import StrictParser
from gateway.rest.errors import install

DESCRIPTION = """\
Everything a program needs to train: upload data, submit a task, watch it, fetch the model.

Send a token with every request, as `Authorization: Bearer tml-…` or `X-API-Key: tml-…`; make one on the page
'API tokens'. Listings come in pages: send `next` of an answer as `cursor` for the following one. Refusals have one
shape: `{"error": {"code", "message", "fields": [{"path", "message"}], "request_id"}}`.
"""

api = NinjaAPI(
    title="Tuneyard",
    version="1",
    description=DESCRIPTION,
    urls_namespace="rest-v1",
    openapi_url="v1/openapi.json",
    docs_url="docs",
    auth=[Bearer(), ApiKey()],
    parser=StrictParser(),
)
install(api)
for router in (
    account.router,
    catalog.router,
    jobs.router,
    job_life.router,
    events.router,
    registry.router,
    team.router,
):
    api.add_router("/v1", router)
