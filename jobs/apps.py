from django.apps import AppConfig


class JobsConfig(AppConfig):
    name = "jobs"

    def ready(self) -> None:
        from compute import hooks
        from jobs import wake
        from jobs.holding import JobsHolding
        from workspaces import holdings

        hooks.on_grant("job", wake.grant_offered)
        holdings.register(JobsHolding())
