from django.apps import AppConfig


class BillingConfig(AppConfig):
    name = "billing"

    def ready(self) -> None:
        from billing.holding import BillingHolding
        from workspaces import holdings

        holdings.register(BillingHolding())
