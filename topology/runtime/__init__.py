"""The running part: executors, links, replay. `topology/` beside it declares; this drives. Knows no concrete component."""
