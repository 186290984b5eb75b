"""What people are told about their sign-in, on pages and by mail, by the names that django-allauth has for it."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

MESSAGES = {
    "account/messages/email_confirmed.txt": _("The address is confirmed."),
    "account/messages/email_confirmation_failed.txt": _("Someone else has confirmed this address already."),
    "account/messages/email_deleted.txt": _("The address is no longer waiting to be confirmed."),
    "account/messages/password_changed.txt": _("The password is changed. Sign in with it."),
    "mfa/messages/totp_activated.txt": _("The authenticator app is on."),
    "mfa/messages/totp_deactivated.txt": _("The authenticator app is off."),
    "mfa/messages/webauthn_added.txt": _("The passkey is added."),
    "mfa/messages/webauthn_removed.txt": _("The passkey is removed."),
}

# Subject and template below mail/account/.
MAILS = {
    "account/email/email_confirmation": (_("Confirm your new address"), "confirm"),
    "account/email/email_confirmation_signup": (_("Confirm your address"), "confirm_sign_up"),
    "account/email/password_reset_key": (_("Choose a new password"), "reset"),
    "account/email/account_already_exists": (_("You have an account already"), "exists"),
}

NOTICES = {
    "account/email/password_changed": _("Your password was changed."),
    "account/email/password_reset": _("Your password was changed by a link that was mailed to you."),
    "account/email/password_set": _("A password was set."),
    "account/email/email_changed": _("Your e-mail address was changed."),
    "mfa/email/totp_activated": _("An authenticator app was added."),
    "mfa/email/totp_deactivated": _("The authenticator app was removed."),
    "mfa/email/webauthn_added": _("A passkey was added."),
    "mfa/email/webauthn_removed": _("A passkey was removed."),
    "mfa/email/recovery_codes_generated": _("New recovery codes were made; the former ones no longer work."),
    "socialaccount/email/account_connected": _("Single sign-on was connected to your account."),
}
