"""datasets, rewards, models."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tuneyard.cli.show import as_json, bytes_bar, client_of, say, table

REASONS_SHOWN = 5


def datasets(arguments: argparse.Namespace) -> None:
    with client_of(arguments) as client:
        found = client.datasets.list()
    if arguments.json:
        as_json(found)
        return
    rows = (
        [item["name"], version["number"], f"{version['usable_rows']:,}", f"{version['rows']:,}", version["source"]]
        for item in found
        for version in item["versions"][:1]
    )
    table(["dataset", "version", "usable", "rows", "source"], rows, "No dataset yet: `tuneyard datasets upload FILE`.")


def upload(arguments: argparse.Namespace) -> None:
    with client_of(arguments) as client, bytes_bar(f"uploading {Path(arguments.file).name}") as progress:
        version = client.datasets.upload(
            arguments.file, name=arguments.name, columns=dict(arguments.column), progress=progress
        )
    if arguments.json:
        as_json(version)
        return
    say(f"{version['source']}: {version['usable_rows']:,} of {version['rows']:,} rows can be used.")
    if not version["uploaded"]:
        say("The server had this file already; nothing was sent.")


def rewards(arguments: argparse.Namespace) -> None:
    with client_of(arguments) as client:
        found = client.rewards.list()
    if arguments.json:
        as_json(found)
        return
    rows = ([item["name"], version["number"], _parts(version), version["source"]]
            for item in found for version in item["versions"][:1])  # fmt: skip
    table(["reward", "version", "made of", "source"], rows, "No reward is registered.")


def _parts(version: dict[str, Any]) -> str:
    return ", ".join(item.get("name") or item["kind"] for item in version["spec"]["components"])


def models(arguments: argparse.Namespace) -> None:
    with client_of(arguments) as client:
        found = client.models.list()
    if arguments.json:
        as_json(found)
        return
    rows = (
        [
            f"{item['name']}@{version['number']}",
            ", ".join(version["aliases"]),
            version["base_model"],
            version["created_at"][:16].replace("T", " "),
        ]
        for item in found
        for version in item["versions"]
    )
    table(["model", "aliases", "base", "made (UTC)"], rows, "No model yet; a job that succeeds makes one.")


def download(arguments: argparse.Namespace) -> None:
    with client_of(arguments) as client, bytes_bar(f"fetching {arguments.model}") as progress:
        version = client.models.find(arguments.model)
        folder = client.models.download(version["id"], arguments.to, format=arguments.format, progress=progress)
    if arguments.json:
        as_json({"folder": str(folder), "version": version["id"], "format": arguments.format})
    else:
        say(f"{version['name']} v{version['number']} ({arguments.format}) is in {folder}, every file verified.")


def alias(arguments: argparse.Namespace) -> None:
    with client_of(arguments) as client:
        model = client.models.named(arguments.model)
        before = model["aliases"].get(arguments.alias.lower())
        moved = client.models.alias(model["id"], arguments.alias, arguments.version, expected=arguments.expected)
    if arguments.json:
        as_json(moved)
        return
    came = f" (it was v{before})" if before and before != arguments.version else ""
    say(f"{moved['name']}@{arguments.alias.lower()} is v{arguments.version} now{came}.")


def unalias(arguments: argparse.Namespace) -> None:
    with client_of(arguments) as client:
        model = client.models.unalias(client.models.named(arguments.model)["id"], arguments.alias)
    if arguments.json:
        as_json(model)
        return
    say(f"{model['name']} has no alias {arguments.alias.lower()} any more.")


def delete_version(arguments: argparse.Namespace) -> int:
    with client_of(arguments) as client:
        version = client.models.find(arguments.model)
        what = f"{version['name']} v{version['number']}"
        if not arguments.yes and input(f"Delete {what} and its files? [y/N] ").strip().lower() not in ("y", "yes"):
            say("Nothing was deleted.")
            return 1
        client.models.delete(version["id"])
    say(f"{what} is deleted.")
    return 0
