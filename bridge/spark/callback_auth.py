"""Restrict who may call a driver's functions. Spark's JVM calls them, for example the function of `foreachBatch`,
through a loopback port that py4j opens in the driver. By default that port asks for no token, so any user of the
machine could call them.

This module gives the JVM a token that py4j's server asks for first. Knows py4j; must not know a session's settings, nor
a query.
"""

import secrets
from typing import Any

from pyspark.java_gateway import ensure_callback_server_started


def guard(gateway: Any) -> None:
    """Make py4j's server in this process answer only to this JVM from now on. Opens the server if it is not open; code
    that opens it later finds it so. May be called again. Raises Py4JError for a JVM that takes no token."""
    parameters = gateway.callback_server_parameters
    if parameters.auth_token is not None:
        return
    parameters.auth_token = token = secrets.token_hex(32)
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    jvm = gateway.jvm
    # The JVM's client can hold a token, but py4j has no call that sets one after the JVM has started.
    field = jvm.java.lang.Class.forName("py4j.CallbackClient").getDeclaredField("authToken")
    field.setAccessible(True)
    field.set(gateway.java_gateway_server.getCallbackClient(), token)
