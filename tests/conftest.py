"""What every test may take for granted of the process that it runs in."""

import signal

if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    # `nohup make test`: what is ignored would be by every program that a test starts, and hides how that takes the
    # signal. A handler is not inherited, and this one lets the suite go on as before.
    signal.signal(signal.SIGHUP, lambda number, frame: None)
