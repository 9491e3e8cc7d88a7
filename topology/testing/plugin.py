"""The test kit as a pytest plugin: its calls as fixtures. Imported by every pytest run of the environment: stay light."""
