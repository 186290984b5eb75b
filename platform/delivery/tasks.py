from celery import shared_task

from delivery import services


@shared_task
def send_due_messages() -> None:
    services.send_due_messages()
