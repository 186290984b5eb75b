from django.apps import AppConfig


class JobsConfig(AppConfig):
    name = "jobs"

    def ready(self) -> None:
        from catalog.hooks import on_delete_asked
        from compute import hooks
        from jobs import model_use, wake
        from jobs.holding import JobsHolding
        from workspaces import holdings

        hooks.on_grant("job", wake.grant_offered)
        on_delete_asked("jobs", model_use.why_needed)
        holdings.register(JobsHolding())
