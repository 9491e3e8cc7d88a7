"""The running part: executors, links, replay. `topology/` declares, this drives. Knows no concrete component."""
