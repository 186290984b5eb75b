from django.apps import AppConfig


class JobsConfig(AppConfig):
    name = "jobs"

    def ready(self) -> None:
        from compute import hooks
        from jobs import dispatch

        hooks.on_grant("job", dispatch.grant_offered)
