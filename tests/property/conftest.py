"""What holds for all properties: examples have no deadline, as a slow example says nothing about the code."""

from hypothesis import settings

settings.register_profile("kedge", deadline=None)
settings.load_profile("kedge")
