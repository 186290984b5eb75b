from django.apps import AppConfig


class RecordsConfig(AppConfig):
    name = "records"

    def ready(self) -> None:
        from records.holding import RecordsHolding
        from workspaces import holdings

        holdings.register(RecordsHolding())
