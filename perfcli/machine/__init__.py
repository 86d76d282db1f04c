"""What perfcli runs on: interpreters, devices, the environment, noise floors."""
