"""REST v1: translation between HTTP and the services and selectors of the other apps, and nothing else."""
