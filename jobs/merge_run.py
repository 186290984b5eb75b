"""Making the merged weights of a model version on the cluster."""

from __future__ import annotations

import logging
from uuid import UUID

from django.conf import settings

from catalog.models import ModelVersion
from catalog.registry import merged_failed, merged_record
from trainers.errors import RunError
from trainers.runtime import launch
from trainers.runtime.merging import merge_on_cluster
from trainers.storage import Storage

logger = logging.getLogger(__name__)


def merged_make(*, version_id: UUID) -> None:
    """Make and store the merged weights; does nothing unless they were asked for."""
    version = ModelVersion.objects.select_related("checkpoint", "base_model").filter(pk=version_id).first()
    if version is None or version.merged != ModelVersion.Merged.MAKING:
        return
    target = f"merged/{version.pk}"
    try:
        launch.connect(settings.RAY_ADDRESS, settings.RAY_NAMESPACE)
        merge_on_cluster(
            storage_url=settings.STORAGE_URL,
            adapter=version.checkpoint.uri,
            target=target,
            base_model=version.base_model.source,
            cache_dir=str(settings.MODEL_CACHE),
        )
    except Exception as error:
        logger.warning("the merged weights of %s could not be made", version, exc_info=True)
        cause = error.cause if hasattr(error, "cause") else error
        named = isinstance(cause, RunError | launch.RuntimeUnavailable)
        merged_failed(version=version, error=str(cause) if named else "The cluster could not do it; its log says why.")
    else:
        merged_record(version=version, uri=target)
        if not ModelVersion.objects.filter(pk=version.pk).exists():
            # Deleted while they were made: nobody would ever remove them.
            Storage(settings.STORAGE_URL).delete_folder(target)
