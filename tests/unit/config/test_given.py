from __future__ import annotations

import pytest

from config.launcher import given
from config.launcher.problems import Problem
from config.launcher.ray import free_port


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgres://ada:secret@db.example.com:5432/tuneyard?sslmode=require", "db.example.com:5432/tuneyard"),
        ("redis://:secret@10.0.0.1:6379/0", "10.0.0.1:6379/0"),
        ("unix:///run/valkey.sock?password=secret", "/run/valkey.sock"),
        ("ray.example.com:6379", "ray.example.com:6379"),
        ("s3://bucket/folder", "bucket/folder"),
    ],
)
def test_an_address_is_shown_without_its_secrets(url, shown):
    assert given.place(url) == shown


def test_a_database_that_does_not_answer_is_named_without_its_password():
    url = f"postgres://ada:secret@127.0.0.1:{free_port()}/tuneyard"
    with pytest.raises(Problem, match=r"DATABASE_URL \(127\.0\.0\.1:\d+/tuneyard\) cannot be reached") as caught:
        given.database(url)
    assert "secret" not in str(caught.value)


def test_another_kind_of_database_is_refused():
    with pytest.raises(Problem, match="must name a Postgres database"):
        given.database("sqlite:///tmp/db.sqlite3")


def test_a_broker_that_does_not_answer_is_named():
    with pytest.raises(Problem, match=r"REDIS_URL \(127\.0\.0\.1:\d+/0\) cannot be reached"):
        given.broker(f"redis://127.0.0.1:{free_port()}/0")


def test_an_unknown_kind_of_storage_is_refused():
    with pytest.raises(Problem, match="STORAGE_URL"):
        given.storage("carrier-pigeon://coop")


@pytest.mark.parametrize("address", ["auto", "ray://127.0.0.1:10001", "127.0.0.1", ":6379"])
def test_an_address_that_names_no_head_of_a_cluster_is_refused(address):
    with pytest.raises(Problem, match=r"RAY_ADDRESS must be .* HOST:PORT"):
        given.ray(address)


def test_every_given_part_is_listed_with_its_place():
    found = given.check({"STORAGE_URL": "file:///srv/tuneyard", "EMAIL_URL": "smtp+tls://u:p@mail.example.com:587"})
    assert found == [("storage", "/srv/tuneyard"), ("mail", "mail.example.com:587")]
