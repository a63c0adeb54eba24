"""Notifications over HTTP: the receiver that a store tells, and what that receiver checks."""

from perdure.core.deliveries import next_try
from perdure.core.errors import InvalidWebhookError, WebhookSignatureError
from perdure.core.signatures import verify
from perdure.core.webhooks import Body, Notice, Webhook, body_of

__all__ = ["Body", "InvalidWebhookError", "Notice", "Webhook", "WebhookSignatureError", "body_of", "next_try", "verify"]
