from django.apps import AppConfig


class CatalogConfig(AppConfig):
    name = "catalog"

    def ready(self) -> None:
        from catalog.holding import CatalogHolding
        from workspaces import holdings

        holdings.register(CatalogHolding())
