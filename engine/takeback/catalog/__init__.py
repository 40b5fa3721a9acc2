"""The rows of an app bound to their handlers, and the checks that refuse what can't be run."""
