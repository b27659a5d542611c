"""Requests drawn from the OpenAPI document, right ones and wrong ones: schemathesis draws them."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

pytest.importorskip("fastapi", reason="the extra `web` is not installed")

from tasks.web.app import create_app
from tests.tasks.web.services import service

EXAMPLES = 6  # for each operation and mode


def test_any_request_is_answered_as_the_document_says(capfd: pytest.CaptureFixture[str]) -> None:
    """The status, the content type and the schema of each answer; never a failure, never a log."""
    schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
    from schemathesis import GenerationMode
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks as openapi

    checks = [
        not_a_server_error,
        openapi.status_code_conformance,
        openapi.content_type_conformance,
        openapi.response_schema_conformance,
    ]
    own = service(rate_limit=0, max_seconds=2, max_texts=5, allowed_hosts=("*",))
    schema = schemathesis.openapi.from_asgi("/v1/openapi.json", create_app(own))
    operations = [result.ok() for result in schema.get_all_operations()]
    assert len(operations) >= 10
    for operation in operations:
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            if mode is GenerationMode.NEGATIVE and operation.method == "get":
                continue  # nothing to get wrong

            @settings(max_examples=EXAMPLES, database=None, suppress_health_check=list(HealthCheck))
            @given(case=operation.as_strategy(generation_mode=mode))
            def check(case: Any) -> None:
                case.call_and_validate(checks=checks)

            check()
    own.close()
    assert capfd.readouterr().err == ""
