"""Who may call a driver's functions. Spark's JVM calls them, that of `foreachBatch` say, over a port on loopback that
py4j opens in the driver; by default that asks nobody for a token, and any user of the machine could call them.

The JVM gets a token here, which py4j's server asks for first. Knows py4j; no session's settings, no query.
"""

import secrets
from typing import Any

from pyspark.java_gateway import ensure_callback_server_started


def guard(gateway: Any) -> None:
    """From now on py4j's server in this process answers to this JVM alone. Opens it, where it is not open yet: what
    opens it later finds it so. May be called again. Raises Py4JError for a JVM that takes no token."""
    parameters = gateway.callback_server_parameters
    if parameters.auth_token is not None:
        return
    parameters.auth_token = token = secrets.token_hex(32)
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    jvm = gateway.jvm
    # py4j has the JVM's client know a token, and no call that gives it one once the JVM is there.
    field = jvm.java.lang.Class.forName("py4j.CallbackClient").getDeclaredField("authToken")
    field.setAccessible(True)
    field.set(gateway.java_gateway_server.getCallbackClient(), token)
