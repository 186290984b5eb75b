"""Django settings: everything comes from the environment, with the launcher's addresses as the default."""

from __future__ import annotations

import hashlib
from pathlib import Path

import environ
from csp.constants import NONCE, SELF, UNSAFE_INLINE

from config import home, sign_in

env = environ.Env()
_running = home.endpoints()


def _address(name: str, default: str) -> str:
    return env.str(name, default=_running.get(name, default))


BASE_DIR = home.ROOT
HOME = home.home()
DEBUG = env.bool("TUNEYARD_DEBUG", default=False)
# Of the code that runs; read from a checkout's git data where it is not given.
COMMIT = env.str("TUNEYARD_COMMIT", default="")
SECRET_KEY = env.str("SECRET_KEY", default="") or home.secret_key()
# Former keys: what they signed and sealed is still read.
SECRET_KEY_FALLBACKS = env.list("SECRET_KEY_FALLBACKS", default=[])
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["*"] if DEBUG else ["localhost", "127.0.0.1", "[::1]", "testserver"])
CSRF_TRUSTED_ORIGINS = env.list("CSRF_TRUSTED_ORIGINS", default=[])
PUBLIC_URL = _address("PUBLIC_URL", "http://127.0.0.1:8000").rstrip("/")

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "django_htmx",
    "channels",
    "ninja",
    *sign_in.APPS,
    "delivery",
    "workspaces",
    "records",
    "catalog",
    "compute",
    "billing",
    "jobs",
    "gateway",
    "portal",
    "config",
]

MIDDLEWARE = [
    "config.health.HealthMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "workspaces.sign_in.middleware.TwoFactorsMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]

ROOT_URLCONF = "config.urls"
ASGI_APPLICATION = "config.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "csp.context_processors.nonce",
            ],
        },
    }
]

DATABASES = {"default": env.db_url_config(_address("DATABASE_URL", "postgres://postgres@127.0.0.1:5432/tuneyard"))}
# libpq's way to write a unix socket in an address; `manage.py dbshell` looks only at HOST.
if _socket := DATABASES["default"].get("OPTIONS", {}).pop("host", ""):
    DATABASES["default"]["HOST"] = _socket
# Under ASGI each request has a thread of its own, and a connection kept open would outlive it.
DATABASES["default"].update(CONN_MAX_AGE=0)
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

REDIS_URL = _address("REDIS_URL", "redis://127.0.0.1:6379/0")
RAY_ADDRESS = _address("RAY_ADDRESS", "")
home.adopt_ray()
RAY_NAMESPACE = "tuneyard"
STORAGE_URL = _address("STORAGE_URL", f"file://{HOME / 'storage'}")
MODEL_CACHE = Path(env.str("TUNEYARD_MODEL_CACHE", default=str(HOME / "models")))
WORK_DIR = Path(env.str("TUNEYARD_WORK_DIR", default=str(HOME / "work")))

CHANNEL_LAYERS = {
    # The PubSub layer: the core layer drops messages once a slow reader holds 100 of them.
    "default": {"BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer", "CONFIG": {"hosts": [REDIS_URL]}},
}

CELERY_BROKER_URL = home.celery_broker(REDIS_URL)
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_TASK_SOFT_TIME_LIMIT = 240
CELERY_TASK_TIME_LIMIT = 290
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
# Ray asks stderr for its file descriptor, which Celery's stand-in for it does not have.
CELERY_WORKER_REDIRECT_STDOUTS = False
CELERY_TIMEZONE = "UTC"
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BEAT_SCHEDULE = {
    "send-due-messages": {"task": "delivery.tasks.send_due_messages", "schedule": 10.0},
    "remove-closed-workspaces": {"task": "workspaces.tasks.remove_closed_workspaces", "schedule": 60.0},
    "remove-discarded": {"task": "catalog.tasks.remove_discarded", "schedule": 300.0},
}

MAIL_FOLDER = HOME / "mail"
_email_url = _address("EMAIL_URL", "")
if _email_url:
    vars().update(env.email_url_config(_email_url))
else:
    EMAIL_BACKEND = "django.core.mail.backends.filebased.EmailBackend"
    EMAIL_FILE_PATH = str(MAIL_FOLDER)
EMAIL_TIMEOUT = 20
DEFAULT_FROM_EMAIL = env.str("DEFAULT_FROM_EMAIL", default="Tuneyard <tuneyard@localhost>")

AUTH_USER_MODEL = "workspaces.User"
LOGIN_URL = "sign-in"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "sign-in"
SIGN_UP = sign_in.sign_up(env)
OIDC = sign_in.single_sign_on(env)
REQUIRE_TWO_FACTORS = env.bool("REQUIRE_TWO_FACTORS", default=False)
PASSWORD_RESET_TIMEOUT = 3600 * env.int("PASSWORD_RESET_HOURS", default=24)
SOCIALACCOUNT_PROVIDERS = sign_in.providers(OIDC)
vars().update(sign_in.allauth(PUBLIC_URL))
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
]
SESSION_COOKIE_AGE = 60 * 60 * 24 * 14
# Two checkouts on one host differ only in their port, which cookies ignore; a name per data folder keeps them apart.
_cookie_suffix = hashlib.sha256(str(HOME).encode()).hexdigest()[:6]
SESSION_COOKIE_NAME = f"tuneyard_session_{_cookie_suffix}"
CSRF_COOKIE_NAME = f"tuneyard_csrf_{_cookie_suffix}"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = PUBLIC_URL.startswith("https://")
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if env.bool("TRUST_PROXY", default=False) else None
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "script-src": [SELF, NONCE],
        # plotly.js positions its own elements with inline styles.
        "style-src": [SELF, UNSAFE_INLINE],
        "img-src": [SELF, "data:", "blob:"],
        "connect-src": [SELF],
        "object-src": ["'none'"],
        "base-uri": ["'self'"],
        "form-action": ["'self'"],
        "frame-ancestors": ["'none'"],
    }
}

LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("zh-hans", "简体中文")]
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = True

STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = Path(env.str("TUNEYARD_STATIC_ROOT", default=str(HOME / "static")))
STORAGES = {
    "default": {
        "BACKEND": "django.core.files.storage.FileSystemStorage",
        "OPTIONS": {"location": str(HOME / "uploads")},
    },
    "staticfiles": {
        "BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"
        if env.bool("TUNEYARD_HASHED_STATIC", default=not DEBUG)
        else "django.contrib.staticfiles.storage.StaticFilesStorage"
    },
}
WHITENOISE_MANIFEST_STRICT = False
DATA_UPLOAD_MAX_MEMORY_SIZE = 10 * 2**20
FILE_UPLOAD_MAX_MEMORY_SIZE = 2 * 2**20
# What a workspace may store unless it has a limit of its own; 0: any amount.
WORKSPACE_QUOTA_BYTES = env.int("TUNEYARD_WORKSPACE_QUOTA_BYTES", default=100 * 10**9)
# Whether anyone who can sign in may make a workspace, or only the installation's staff.
MEMBERS_MAKE_WORKSPACES = env.bool("TUNEYARD_MEMBERS_MAKE_WORKSPACES", default=True)
UPLOAD_MAX_BYTES = env.int("TUNEYARD_UPLOAD_MAX_BYTES", default=5 * 2**30)

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": env.str("LOG_LEVEL", default="INFO")},
    "loggers": {"uvicorn.access": {"level": "WARNING"}, "httpx": {"level": "WARNING"}},
}
